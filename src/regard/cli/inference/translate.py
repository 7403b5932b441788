"""`regard translate`: lines or documents translated by a model."""

import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from typer import Argument, Context

from regard.alignment.dictionary import read_unknown_option
from regard.cli.display.console import note, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import (
    PACKAGED_MODEL,
    SAMPLING_OPTIONS,
    WITHOUT_MODEL,
    OptionRule,
    check_n_best,
    check_options,
    flag,
    note_packaged_model,
    option,
    sampling_given,
)
from regard.corpora.readers.pair_files import read_bytes, read_lines
from regard.decoding.settings import search_settings
from regard.engines.ctranslate2.export_artifact import is_export
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_links
from regard.iterate import chunked, peek
from regard.tasks.families.answer import Answer
from regard.tasks.translation.documents import document_formats
from regard.tasks.translation.pipeline import CHUNK, Translator, load
from regard.text.special_tokens import UNK

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.translation.markup.markup_translator import MarkupAnswer, MarkupTranslator

LINE_OPTIONS = "n_best scores align json prefix"  # options for lines without markup
OPTION_RULES = (
    OptionRule(SAMPLING_OPTIONS, needs="sample"),
    OptionRule(LINE_OPTIONS, excludes="markup"),
)
LONG_LINE = 20_000  # characters of a line that gives a note
DOCUMENT_CHUNK = 64  # texts of a document translated together if a progress bar is shown


def command(
    context: Context,
    model: str = Argument(
        PACKAGED_MODEL,
        metavar="[MODEL]",
        help="A run's folder, such as runs/travel, or a folder that regard export wrote; "
        f"{WITHOUT_MODEL}",
        show_default=False,
    ),
    file: str = Argument(
        "-",
        metavar="FILE",
        help="Lines, or a document (.html, .md, .srt, .vtt); also .gz; - is stdin.",
    ),
    kind: Literal["lines", "text", "markdown", "html", "srt", "vtt"] | None = option(
        "The format of FILE, if its name does not tell; default: lines. text: lines with --markup.",
        "--format",
    ),
    markup: bool = flag(
        "--markup",
        "Keep tags such as `<b>`, placeholders such as {name} and addresses in lines, and "
        "put them where they belong; this is always done in documents.",
    ),
    split: shared_options.Split = None,
    beam: shared_options.Beam = None,
    n_best: int | None = option("Print the N best, each on its own line.", min=1, metavar="N"),
    length_penalty: float | None = option("More favours longer translations.", min=0, max=5),
    sample: bool = flag("--sample", "Draw translations at random instead of searching."),
    temperature: shared_options.Temperature = None,
    top_k: shared_options.TopK = None,
    top_p: shared_options.TopP = None,
    seed: shared_options.Seed = None,
    prefix: str = option("What every translation must begin with.", default="", metavar="TEXT"),
    forbid: list[str] | None = option(
        "A word that no translation may contain; may be repeated.", metavar="WORD"
    ),
    ensemble: shared_options.Ensemble = None,
    unknown: shared_options.Unknown = None,
    scores: bool = flag("--scores", "Put each translation's score before it."),
    align: bool = flag("--align", "Put the word alignment (0-0 1-2) after it."),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = "auto",
    precision: shared_options.InPrecision = "auto",
    json: shared_options.Json = False,
) -> None:
    """Every line of input gives one line of output, in order. Blank lines stay blank; overlong
    and unusual lines give a note on stderr. With --n-best a line gives up to N numbered lines; tabs
    separate columns.

    All sentences of a line are translated one by one, and text that is not a sentence, such as a
    number, a URL or a bullet, stays unchanged, if the training pairs were like that. --whole-lines
    gives the model each line as it is.

    In a web page, in Markdown or in subtitles, only the text is translated, and everything else is
    unchanged. Files of other formats, such as JSON or XLIFF, are refused.

    Examples:

        echo "Elle ne la visite pas." | regard translate
        echo "Jane visite l'Afrique en septembre." | regard translate runs/travel
        regard translate runs/travel letters.fr --beam 8 --n-best 3 --scores > letters.en
        regard translate runs/words letters.fr --unknown dictionary.tsv > letters.en
        regard translate runs/travel page.html > page.en.html
        regard translate runs/mine contract.en --adapter legal > contract.de
        echo "Jane visite <b>l'Afrique</b> en {month}." | regard translate --markup
    """
    note_packaged_model(context)
    document_format = _document_format(kind, file)
    check_options(context, OPTION_RULES)
    check_n_best(n_best, beam, sampled=sample)
    if document_format is not None:
        _check_document_options(document_format, file, context.params)
    dictionary = read_unknown_option(unknown) if unknown is not None else None
    document = None
    if document_format is not None:
        document = document_formats.read_document(
            document_formats.decode_document(read_bytes(file), file), document_format, file
        )
    lines = _InputLines(file, is_document=document is not None, any_text=kind == "lines")

    def before_export(message: str) -> None:
        lines.check()
        note(message)

    needs_native = sample or (prefix and beam != 1) or align or dictionary is not None
    if engine == "auto" and needs_native and not is_export(Path(model)):
        engine = "native"  # an export has no other engine, and reports what it cannot do
    translator = load(
        model,
        *(ensemble or ()),
        device=device,
        weights=weights,
        adapter=adapter,
        engine=engine,
        precision=precision,
        tell=before_export,
    )
    for remark in translator.remarks:
        note(remark)
    settings = search_settings(
        translator.settings,
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        sampling=sampling_given(context) if sample else None,
        unknown=unknown is not None,
    )
    if document is not None or markup:
        from regard.tasks.translation.markup.markup_translator import MarkupTranslator

        markup_translator = MarkupTranslator(
            translator, settings, split=split, forbidden=forbid or (), unknown=dictionary
        )
        _translate_markup(markup_translator, lines, document)
        return
    _note_prefix(translator, prefix)

    def translate(texts: list[str], first: int) -> list[Answer]:
        return translator.translate(
            texts,
            settings,
            prefix=prefix,
            forbidden=forbid or (),
            look=align,
            first=first,
            unknown=dictionary,
            split=split,
        )

    columns = partial(_format_columns, ranked=settings.n_best > 1, scores=scores, align=align)
    chunk = max(1, CHUNK // settings.n_best) if align else CHUNK  # each candidate has its maps
    _translate_lines(lines, chunk, translate, _format_json if json else columns)


def _document_format(kind: str | None, file: str) -> document_formats.DocumentFormat | None:
    """The format of a document; None: lines."""
    if kind is None:
        found = document_formats.format_of(file)
        return None if found == "text" else found  # text files are lines by default
    return next((one for one in document_formats.DOCUMENT_FORMATS if one == kind), None)


def _check_document_options(
    document_format: document_formats.DocumentFormat, file: str, given: Mapping[str, object]
) -> None:
    """Raise an error if an option was given that has no effect on documents."""
    if given["markup"]:
        raise SettingsError(
            f"--markup is only for lines: {document_format} is translated with its markup"
        )
    for name in LINE_OPTIONS.split():
        if given[name]:
            raise SettingsError(
                f"--{name.replace('_', '-')} is only for lines, and {file} is translated whole, as "
                f"{document_format}; drop it, or give --format lines"
            )


def _note_prefix(translator: Translator, prefix: str) -> None:
    """Print a note about the words of a prefix that are not in the vocabulary."""
    target = translator.target
    known = {word: UNK not in target.encode([word])[0] for word in prefix.split()}
    unknown = [word for word, is_known in known.items() if not is_known]
    if unknown:
        note(
            f"--prefix: not in the model's vocabulary: {', '.join(unknown)}; translations begin "
            f"with {target.decode(target.encode([prefix])[0])!r}"
        )


def _shows_progress() -> bool:
    """Whether to show a bar: stderr is a terminal, and stdout is not."""
    return sys.stderr.isatty() and not sys.stdout.isatty()


def _with_progress(
    chunks: Iterator[list[str]], total: int | None
) -> Generator[list[str], None, None]:
    """The chunks; a bar counts their lines if `_shows_progress`."""
    if not _shows_progress():
        yield from chunks
        return
    from regard.cli.display.progress_bar import progress_bar  # rich.progress is slow to import

    with progress_bar(rate=True) as progress:
        task = progress.add_task("translating", total=total)
        for chunk in chunks:
            yield chunk
            progress.advance(task, len(chunk))


def _note_long_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines; a note precedes a line that is so long that its translation takes a while."""
    for number, line in enumerate(lines, 1):
        if len(line) > LONG_LINE:
            note(
                f"line {number}: {len(line):,} characters are translated in parts, which takes as "
                f"long as some {len(line) // 100:,} lines; does this file have one sentence a line?"
            )
        yield line


TextT = TypeVar("TextT", Answer, "MarkupAnswer")


def _translate_chunks(
    chunks: Iterable[list[str]], unit: str, translate: Callable[[list[str], int], Sequence[TextT]]
) -> Iterator[tuple[int, TextT]]:
    """Each text's number, from 1, and translation; `translate` gets texts and their offset."""
    number = 0
    for chunk in chunks:
        for answer in translate(chunk, number):
            number += 1
            for message in answer.notes:
                note(f"{unit} {number}: {message}")
            yield number, answer
        sys.stdout.flush()


class _InputLines:
    """The lines of a file or of the standard input, which may be typed one by one."""

    def __init__(self, file: str, *, is_document: bool, any_text: bool) -> None:
        self.file, self.typed = file, file == "-" and sys.stdin.isatty()
        self._checked = is_document or self.typed  # a document has been read by now
        override = None if self.typed or any_text else "--format lines"
        self._lines = read_lines(file, replace=True, override=override)

    def check(self) -> None:
        """Raise an error if the file is missing or not text; does not wait for typed lines."""
        if not self._checked:
            _, self._lines = peek(self._lines, 1)

    def __iter__(self) -> Iterator[str]:
        return self._lines

    def count(self) -> int | None:
        """The number of lines of a file that can be read twice."""
        readable_twice = Path(self.file).is_file()
        return sum(1 for _ in read_lines(self.file, replace=True)) if readable_twice else None


def _translate_markup(
    translator: "MarkupTranslator", lines: _InputLines, document: document_formats.Document | None
) -> None:
    """Print the translation of a document, or of lines with markup."""

    def translate(texts: list[str], first: int) -> Sequence["MarkupAnswer"]:
        return translator.translate_texts(texts, first)

    if document is None:
        _translate_lines(lines, CHUNK, translate)
        return
    chunks = chunked(document.lines, DOCUMENT_CHUNK if _shows_progress() else CHUNK)
    with closing(_with_progress(chunks, len(document.lines))) as counted:
        answers = _translate_chunks(counted, "text", translate)
        sys.stdout.write(document.join([answer.text for _, answer in answers]))


def _translate_lines(
    lines: _InputLines,
    chunk_size: int,
    translate: Callable[[list[str], int], Sequence[TextT]],
    format_line: Callable[[int, TextT], str] = lambda number, answer: answer.text,
) -> None:
    """Print the translation of each line of a file; lines that are typed one by one."""
    chunks = chunked(_note_long_lines(lines), 1 if lines.typed else chunk_size)
    total = lines.count() if _shows_progress() else None
    with nullcontext(chunks) if lines.typed else closing(_with_progress(chunks, total)) as counted:
        for number, answer in _translate_chunks(counted, "line", translate):
            print(format_line(number, answer))


def _format_columns(number: int, answer: Answer, *, ranked: bool, scores: bool, align: bool) -> str:
    """A line for each candidate, its columns separated by tabs."""
    lines = []
    for rank, candidate in enumerate(answer.candidates, 1):
        columns = [str(number), str(rank)] if ranked else []
        columns += [f"{candidate.score:.4f}"] if scores else []
        others = [format_links(answer.alignment(rank=rank - 1))] if align else []
        # a tab that was copied from the source would be read as a separator
        text = candidate.text.replace("\t", " ") if columns or others else candidate.text
        lines.append("\t".join([*columns, text, *others]))
    return "\n".join(lines)


def _format_json(number: int, answer: Answer) -> str:
    document: dict[str, object] = {
        "line": number,
        "source": answer.source,
        "translations": [
            candidate._asdict() | _alignment_document(answer, rank)
            for rank, candidate in enumerate(answer.candidates)
        ],
        "notes": list(answer.notes),
        **_alignment_document(answer, 0),
    }
    return to_json(document)


def _alignment_document(answer: Answer, rank: int) -> dict[str, object]:
    """The alignment of a candidate, if attention was recorded."""
    return {"alignment": sorted(answer.alignment(rank=rank))} if answer.attention else {}
