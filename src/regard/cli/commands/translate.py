"""`regard translate`."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.alignment.dictionary import read_unknown_option
from regard.cli.display.console import note, print_json
from regard.cli.options import shared_options
from regard.corpora.readers.pair_files import read_bytes, read_lines
from regard.decoding.search_options import search_settings
from regard.engines.ctranslate2.export_artifact import is_export
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_links
from regard.iterate import chunked
from regard.pipelines.answer import Answer
from regard.pipelines.documents.document import Document
from regard.pipelines.documents.document_formats import (
    DOCUMENT_FORMATS,
    DocumentFormat,
    decode,
    format_of,
    read,
)
from regard.pipelines.translator import EngineChoice, Translator, load
from regard.text.special_tokens import UNK

if TYPE_CHECKING:  # which stands on torch: it is imported where there is markup
    from regard.pipelines.markup.markup_translator import MarkupTranslator

app = typer.Typer()

LONG_LINE = 20_000
"""Characters of a line that takes a while."""
CHUNK = 2048
"""Lines translated together: enough to find many of like length, few enough to answer soon."""
DOCUMENT_CHUNK = 64
"""Texts of a document translated together where a bar shows how far it is."""


@app.command()
def command(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A run's folder, such as runs/travel, or a folder that regard export wrote.",
        ),
    ],
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="Lines, or a document (.html, .srt, .vtt); also .gz; - is stdin."
        ),
    ] = "-",
    kind: Annotated[
        Literal["lines", "text", "html", "srt", "vtt"] | None,
        typer.Option(
            "--format",
            help="What FILE is, where its name does not say: otherwise lines. text is lines with "
            "--markup.",
        ),
    ] = None,
    markup: Annotated[
        bool,
        typer.Option(
            "--markup",
            help="Keep tags such as `<b>`, placeholders such as {name} and addresses in lines, and "
            "put them where they belong; documents are always so translated.",
        ),
    ] = False,
    split: shared_options.Split = None,
    beam: shared_options.Beam = None,
    n_best: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Print the N best, each on its own line."),
    ] = None,
    length_penalty: Annotated[
        float | None, typer.Option(min=0, max=5, help="More favours longer translations.")
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw translations at random instead of searching.")
    ] = False,
    temperature: Annotated[
        float | None,
        typer.Option(min=0.01, help="With --sample: below 1 likely tokens become likelier."),
    ] = None,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="With --sample: from the K likeliest tokens alone.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="With --sample: from the likeliest that make up P."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="With --sample: what decides.")] = None,
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="What every translation must begin with.")
    ] = "",
    forbid: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="A word no translation may hold; may be repeated."),
    ] = None,
    ensemble: shared_options.Ensemble = None,
    unknown: shared_options.Unknown = None,
    scores: Annotated[
        bool, typer.Option("--scores", help="Put each translation's score before it.")
    ] = False,
    align: Annotated[
        bool, typer.Option("--align", help="Put the word alignment (0-0 1-2) behind it.")
    ] = False,
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
    columns = {"--n-best": n_best, "--scores": scores, "--align": align, "--json": json}
    _reject_unused_options(
        document_format, file, markup=markup, given=columns | {"--prefix": prefix}
    )
    sampling_options = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling_options = {
        name: value for name, value in sampling_options.items() if value is not None
    }
    if sampling_options and not sample:
        raise SettingsError(
            f"--{next(iter(sampling_options)).replace('_', '-')} goes with --sample"
        )
    dictionary = read_unknown_option(unknown) if unknown is not None else None
    document = (
        read(decode(read_bytes(file), file), document_format, file) if document_format else None
    )
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
        sampling=sampling_options if sample else None,
        unknown=unknown is not None,
    )
    if document is not None or markup:
        from regard.pipelines.markup.markup_translator import MarkupTranslator

        markup_translator = MarkupTranslator(
            translator, settings, split=split, forbidden=forbid or (), unknown=dictionary
        )
        _translate_markup(markup_translator, document, file)
        return
    _note_prefix(translator, prefix)
    translate = partial(
        translator.translate,
        settings=settings,
        prefix=prefix,
        forbidden=forbid or (),
        look=align,
        unknown=dictionary,
        split=split,
    )
    ranked = settings.n_best > 1
    show = _print_json if json else partial(_print, ranked=ranked, scores=scores, align=align)
    _translate_lines(translate, file, show)


def _native_unless_export(model: str) -> EngineChoice:
    """The engine for what the native one alone can do: none is exported for the other in vain."""
    return "auto" if is_export(Path(model)) else "native"  # an export says what it cannot do


def _document_format(kind: str | None, file: str) -> DocumentFormat | None:
    """What kind of document the file is translated as, whole; None: line by line."""
    if kind is None:
        found = format_of(file)
        return None if found == "text" else found  # plain text may be lines without an end
    return next((one for one in DOCUMENT_FORMATS if one == kind), None)


def _reject_unused_options(
    document_format: DocumentFormat | None, file: str, *, markup: bool, given: Mapping[str, object]
) -> None:
    """An error if an option was given that would do nothing."""
    name = next((name for name, value in given.items() if value), None)
    if document_format is not None and markup:
        raise SettingsError(
            f"--markup goes with lines: {document_format} is translated with its markup"
        )
    if document_format is not None and name:
        raise SettingsError(
            f"{name} goes with lines, and {file} is translated whole, as {document_format}; drop "
            "it, or give "
            "--format lines"
        )
    if markup and name:
        raise SettingsError(f"{name} does not go with --markup: drop one of them")


def _note_prefix(translator: Translator, prefix: str) -> None:
    """Tell which words of a prefix the model does not know: they will stand there as unknown."""
    target = translator.target
    known = {word: UNK not in target.encode([word])[0] for word in prefix.split()}
    unknown = [word for word, is_known in known.items() if not is_known]
    if unknown:
        note(
            f"--prefix: not in the model's vocabulary: {', '.join(unknown)}; translations begin "
            f"with {target.decode(target.encode([prefix])[0])!r}"
        )


def _shows_progress() -> bool:
    """Whether a bar can be shown: on a terminal that shows no translations."""
    return sys.stderr.isatty() and not sys.stdout.isatty()


def _chunks(file: str) -> AbstractContextManager[Iterator[list[str]]]:
    """The lines of a file, some at a time; of those that are typed, one: it is answered at once."""
    typed = file == "-" and sys.stdin.isatty()
    chunks = chunked(_note_long_lines(read_lines(file, replace=True)), 1 if typed else CHUNK)
    if typed:
        return nullcontext(chunks)
    known = _shows_progress() and Path(file).is_file()
    return _with_progress(chunks, sum(1 for _ in read_lines(file, replace=True)) if known else None)


@contextmanager
def _with_progress(chunks: Iterator[list[str]], total: int | None) -> Iterator[Iterator[list[str]]]:
    """The chunks; on a terminal that shows no translations a bar shows how far it is."""
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
    """The lines; one that takes a while for its length is noted before it is translated."""
    for number, line in enumerate(lines, 1):
        if len(line) > LONG_LINE:
            note(
                f"line {number}: {len(line):,} characters are translated in parts, which takes as "
                f"long as some {len(line) // 100:,} lines; is this a file with a sentence a line?"
            )
        yield line


def _translate_markup(
    markup_translator: "MarkupTranslator", document: Document | None, file: str
) -> None:
    """Print the document, or each line of the file, translated with its markup."""
    if document is not None:
        texts, answers = document.lines, list[str]()
        with _with_progress(
            chunked(texts, DOCUMENT_CHUNK if _shows_progress() else CHUNK), len(texts)
        ) as chunks:
            for chunk in chunks:
                answers += _translate_chunk(markup_translator, chunk, "text", first=len(answers))
        sys.stdout.write(document.join(answers))
        return
    number = 0
    with _chunks(file) as chunks:
        for chunk in chunks:
            for line in _translate_chunk(markup_translator, chunk, "line", first=number):
                print(line)
            number += len(chunk)
            sys.stdout.flush()


def _translate_chunk(
    markup_translator: "MarkupTranslator", lines: Sequence[str], unit: str, *, first: int = 0
) -> list[str]:
    """The translations with their markup; what was odd about them is told."""
    translated = markup_translator.translate_texts(lines)
    for number, one in enumerate(translated, first + 1):
        for message in one.notes:
            note(f"{unit} {number}: {message}")
    return [one.text for one in translated]


def _translate_lines(
    translate: Callable[..., Sequence[Answer]], file: str, show: Callable[[int, Answer], None]
) -> None:
    """Show the answer to each line of a file, a chunk of them at a time."""
    number = 0
    with _chunks(file) as chunks:
        for chunk in chunks:
            for answer in translate(chunk, first=number):
                number += 1
                for message in answer.notes:
                    note(f"line {number}: {message}")
                show(number, answer)
            sys.stdout.flush()


def _print(number: int, answer: Answer, *, ranked: bool, scores: bool, align: bool) -> None:
    for rank, candidate in enumerate(answer.candidates, 1):
        columns = [str(number), str(rank)] if ranked else []
        columns += [f"{candidate.score:.4f}"] if scores else []
        others = [_alignment(answer)] if align and rank == 1 else []
        # a tab that came back as it is would be taken for one between columns
        text = candidate.text.replace("\t", " ") if columns or others else candidate.text
        print("\t".join([*columns, text, *others]))


def _alignment(answer: Answer) -> str:
    return format_links(answer.alignment())


def _print_json(number: int, answer: Answer) -> None:
    found: dict[str, object] = {
        "line": number,
        "source": answer.source,
        "translations": [candidate._asdict() for candidate in answer.candidates],
        "notes": list(answer.notes),
    }
    if answer.attention:
        found["alignment"] = sorted(answer.alignment())
    print_json(found)
