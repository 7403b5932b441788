"""`regard translate`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from typer import Argument, Context, Option, Typer

from regard.alignment.dictionary import read_unknown_option
from regard.cli.display.console import note, to_json
from regard.cli.options import shared_options
from regard.cli.options.option_rules import OptionRule, check_options
from regard.corpora.readers.pair_files import read_bytes, read_lines
from regard.decoding.settings import search_settings
from regard.engines.ctranslate2.export_artifact import is_export
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_links
from regard.iterate import chunked
from regard.pipelines.answer import Answer
from regard.pipelines.documents.document_formats import (
    DOCUMENT_FORMATS,
    DocumentFormat,
    decode_document,
    format_of,
    read_document,
)
from regard.pipelines.translator import EngineChoice, Translator, load
from regard.text.special_tokens import UNK

if TYPE_CHECKING:  # it imports torch
    from regard.pipelines.markup.markup_translator import MarkupAnswer

app = Typer()

OPTION_RULES = (
    OptionRule("temperature top_k top_p seed", needs="sample"),
    OptionRule("n_best scores align json prefix", excludes="markup"),
)
LONG_LINE = 20_000
"""Characters of a line that is noted."""
CHUNK = 2048
"""Lines translated together: many, to batch by length; few, to print early."""
DOCUMENT_CHUNK = 64
"""Texts of a document translated together where a progress bar is shown."""


@app.command()
def command(
    context: Context,
    model: str = Argument(
        metavar="MODEL",
        help="A run's folder, such as runs/travel, or a folder that regard export wrote.",
    ),
    file: str = Argument(
        "-", metavar="FILE", help="Lines, or a document (.html, .srt, .vtt); also .gz; - is stdin."
    ),
    kind: Literal["lines", "text", "html", "srt", "vtt"] | None = Option(
        None,
        "--format",
        help="What FILE is, where its name does not say: otherwise lines. text is lines with "
        "--markup.",
    ),
    markup: bool = Option(
        False,
        "--markup",
        help="Keep tags such as `<b>`, placeholders such as {name} and addresses in lines, and "
        "put them where they belong; documents are always so translated.",
    ),
    split: shared_options.Split = None,
    beam: shared_options.Beam = None,
    n_best: int | None = Option(
        None, min=1, metavar="N", help="Print the N best, each on its own line."
    ),
    length_penalty: float | None = Option(
        None, min=0, max=5, help="More favours longer translations."
    ),
    sample: bool = Option(
        False, "--sample", help="Draw translations at random instead of searching."
    ),
    temperature: float | None = Option(
        None, min=0.01, help="With --sample: below 1 likely tokens become likelier."
    ),
    top_k: int | None = Option(
        None, min=1, help="With --sample: from the K likeliest tokens alone."
    ),
    top_p: float | None = Option(
        None, min=0.0, max=1.0, help="With --sample: from the likeliest that make up P."
    ),
    seed: int | None = Option(None, min=0, help="With --sample: what decides."),
    prefix: str = Option("", metavar="TEXT", help="What every translation must begin with."),
    forbid: list[str] | None = Option(
        None, metavar="WORD", help="A word no translation may hold; may be repeated."
    ),
    ensemble: shared_options.Ensemble = None,
    unknown: shared_options.Unknown = None,
    scores: bool = Option(False, "--scores", help="Put each translation's score before it."),
    align: bool = Option(False, "--align", help="Put the word alignment (0-0 1-2) behind it."),
    weights: shared_options.Weights = "model",
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = "auto",
    precision: shared_options.InPrecision = "auto",
    json: shared_options.Json = False,
) -> None:
    """Translate lines one for one, from a file or stdin to stdout; or whole documents.

    Every line of input gives one line of output, in order: blank ones blank, over-long and odd ones
    with a note on stderr. With --n-best a line gives up to N, numbered; tabs separate columns.

    All sentences of a line are translated, and what is no sentence, such as a number, a URL or a
    bullet, comes back as it is: where the training pairs were such. --whole-lines gives the model
    each line as it is.

    Of a web page or of subtitles the text is translated, and all else stays as it is.

    Examples:

        echo "Jane visite l'Afrique en septembre." | regard translate runs/travel
        regard translate runs/travel letters.fr --beam 8 --n-best 3 --scores > letters.en
        regard translate runs/words letters.fr --unknown dictionary.tsv > letters.en
        regard translate runs/travel page.html > page.en.html
        echo "<b>Bonjour</b> {name}!" | regard translate runs/travel --markup
    """
    document_format = _document_format(kind, file)
    check_options(context, OPTION_RULES)
    if document_format is not None:
        columns = {"--n-best": n_best, "--scores": scores, "--align": align, "--json": json}
        _check_document_options(
            document_format, file, {"--markup": markup, **columns, "--prefix": prefix}
        )
    sampling_options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling = {name: value for name, value in sampling_options.items() if value is not None}
    dictionary = read_unknown_option(unknown) if unknown is not None else None
    document = None
    if document_format is not None:
        document = read_document(decode_document(read_bytes(file), file), document_format, file)
    has_forced_prefix = prefix and beam != 1
    if engine == "auto" and (sample or has_forced_prefix or align or dictionary is not None):
        engine = _native_unless_export(model)
    translator = load(
        model,
        *(ensemble or ()),
        device=device,
        weights=weights,
        engine=engine,
        precision=precision,
        tell=note,
    )
    for remark in translator.remarks:
        note(remark)
    settings = search_settings(
        translator.settings,
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        sampling=sampling if sample else None,
        unknown=unknown is not None,
    )
    if document is not None or markup:
        from regard.pipelines.markup.markup_translator import MarkupTranslator

        markup_translator = MarkupTranslator(
            translator, settings, split=split, forbidden=forbid or (), unknown=dictionary
        )
        if document is None:
            _translate_lines(file, lambda lines, first: markup_translator.translate_texts(lines))
            return
        chunk = DOCUMENT_CHUNK if _shows_progress() else CHUNK
        with _with_progress(chunked(document.lines, chunk), len(document.lines)) as chunks:
            answers = _translate_chunks(
                chunks, "text", lambda lines, first: markup_translator.translate_texts(lines)
            )
            sys.stdout.write(document.join([answer.text for _, answer in answers]))
        return
    _note_prefix(translator, prefix)

    def translate(lines: list[str], first: int) -> list[Answer]:
        return translator.translate(
            lines,
            settings,
            prefix=prefix,
            forbidden=forbid or (),
            look=align,
            first=first,
            unknown=dictionary,
            split=split,
        )

    output = OutputColumns(ranked=settings.n_best > 1, scores=scores, align=align)
    _translate_lines(file, translate, _format_json if json else output.format)


def _native_unless_export(model: str) -> EngineChoice:
    """The engine for what only the native one can do; an export reports what it cannot do."""
    return "auto" if is_export(Path(model)) else "native"


def _document_format(kind: str | None, file: str) -> DocumentFormat | None:
    """The format of a document; None: lines."""
    if kind is None:
        found = format_of(file)
        return None if found == "text" else found  # text files are lines by default
    return next((one for one in DOCUMENT_FORMATS if one == kind), None)


def _check_document_options(
    document_format: DocumentFormat, file: str, given: Mapping[str, object]
) -> None:
    """Raise an error if an option was given that has no effect on documents."""
    name = next((name for name, value in given.items() if value), None)
    if name == "--markup":
        raise SettingsError(
            f"--markup goes with lines: {document_format} is translated with its markup"
        )
    if name is not None:
        raise SettingsError(
            f"{name} goes with lines, and {file} is translated whole, as {document_format}; drop "
            "it, or give --format lines"
        )


def _note_prefix(translator: Translator, prefix: str) -> None:
    """Note which words of a prefix are not in the vocabulary."""
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


def _chunks(file: str) -> AbstractContextManager[Iterator[list[str]]]:
    """The lines of a file in chunks, or one by one if they are typed; with a bar."""
    typed = file == "-" and sys.stdin.isatty()
    chunks = chunked(_note_long_lines(read_lines(file, replace=True)), 1 if typed else CHUNK)
    if typed:
        return nullcontext(chunks)
    known = _shows_progress() and Path(file).is_file()
    return _with_progress(chunks, sum(1 for _ in read_lines(file, replace=True)) if known else None)


@contextmanager
def _with_progress(chunks: Iterator[list[str]], total: int | None) -> Iterator[Iterator[list[str]]]:
    """The chunks; a bar counts their lines where `_shows_progress`."""
    if not _shows_progress():
        yield chunks
        return
    from regard.cli.display.progress_bar import progress_bar  # rich.progress is slow to import

    with progress_bar(rate=True) as progress:
        task = progress.add_task("translating", total=total)

        def counted() -> Iterator[list[str]]:
            for chunk in chunks:
                yield chunk
                progress.advance(task, len(chunk))

        yield counted()


def _note_long_lines(lines: Iterable[str]) -> Iterator[str]:
    """The lines; a note precedes one so long that its translation takes a while."""
    for number, line in enumerate(lines, 1):
        if len(line) > LONG_LINE:
            note(
                f"line {number}: {len(line):,} characters are translated in parts, which takes as "
                f"long as some {len(line) // 100:,} lines; is this a file with a sentence a line?"
            )
        yield line


TextT = TypeVar("TextT", Answer, "MarkupAnswer")


def _translate_chunks(
    chunks: Iterable[list[str]], unit: str, translate: Callable[[list[str], int], Sequence[TextT]]
) -> Iterator[tuple[int, TextT]]:
    """The number of each text, from 1, and its translation; notes are printed.

    `translate` is called with some texts and the number of those before.
    """
    number = 0
    for chunk in chunks:
        for answer in translate(chunk, number):
            number += 1
            for message in answer.notes:
                note(f"{unit} {number}: {message}")
            yield number, answer
        sys.stdout.flush()


def _translate_lines(
    file: str,
    translate: Callable[[list[str], int], Sequence[TextT]],
    format_line: Callable[[int, TextT], str] = lambda number, answer: answer.text,
) -> None:
    """Print the translation of each line of a file."""
    with _chunks(file) as chunks:
        for number, answer in _translate_chunks(chunks, "line", translate):
            print(format_line(number, answer))


class OutputColumns(NamedTuple):
    """What is printed of an answer, separated by tabs."""

    ranked: bool
    scores: bool
    align: bool

    def format(self, number: int, answer: Answer) -> str:
        """A line for each candidate."""
        lines = []
        for rank, candidate in enumerate(answer.candidates, 1):
            columns = [str(number), str(rank)] if self.ranked else []
            columns += [f"{candidate.score:.4f}"] if self.scores else []
            others = [format_links(answer.alignment())] if self.align and rank == 1 else []
            # a tab that was copied from the source would be read as a separator
            text = candidate.text.replace("\t", " ") if columns or others else candidate.text
            lines.append("\t".join([*columns, text, *others]))
        return "\n".join(lines)


def _format_json(number: int, answer: Answer) -> str:
    document: dict[str, object] = {
        "line": number,
        "source": answer.source,
        "translations": [candidate._asdict() for candidate in answer.candidates],
        "notes": list(answer.notes),
    }
    if answer.attention:
        document["alignment"] = sorted(answer.alignment())
    return to_json(document)
