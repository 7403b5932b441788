"""The options and the lines of `regard translate`."""

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.alignment.dictionary import read_unknown_option
from regard.corpora.readers.pair_files import read_bytes, read_lines
from regard.decoding.settings import DecodingSettings, search_settings
from regard.engines.ctranslate2.export_artifact import ExportPrecision, is_export
from regard.errors import SettingsError
from regard.evaluation.pharaoh import format_links
from regard.iterate import chunked, peek
from regard.recipes.paths import PACKAGED_RUN
from regard.tasks.families.answer import Answer
from regard.tasks.families.options import (
    SAMPLING,
    WITHOUT_MODEL,
    Beam,
    NBest,
    OptionRule,
    Positional,
    Reply,
    RunOptions,
    SamplingOptions,
    Spell,
    UseOptions,
    Written,
)
from regard.tasks.translation.documents import document_formats
from regard.tasks.translation.pipeline import CHUNK, EngineChoice, Translator
from regard.text.special_tokens import UNK

LINE_OPTIONS = "n_best scores align json prefix"  # options for lines without markup
LONG_LINE = 20_000  # characters of a line that gives a note
DOCUMENT_CHUNK = 64  # texts of a document translated together if a progress bar is shown


class EngineOptions(RunOptions):
    """How a translator is loaded."""

    engine: EngineChoice = "auto"
    """The engine: native is this package, with torch; auto uses ctranslate2, which is faster,
    wherever it does the same as native."""
    precision: ExportPrecision = "auto"
    """Of the weights. auto: with ctranslate2, int8 if it is close enough; with native, float32
    (bfloat16 and int8 can be asked for); of an imported model float32."""


class TranslateOptions(UseOptions):
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

    rules = (OptionRule(SAMPLING, needs="sample"), OptionRule(LINE_OPTIONS, excludes="markup"))

    model: Annotated[
        str,
        Positional("[MODEL]", show_default=False),
        Field(
            description="A run's folder, such as runs/travel, or a folder that regard export "
            f"wrote; {WITHOUT_MODEL}"
        ),
    ] = str(PACKAGED_RUN)
    file: Annotated[str, Positional("FILE")] = "-"
    """Lines, or a document (.html, .md, .srt, .vtt); also .gz; - is stdin."""
    kind: Annotated[
        Literal["lines", "text", "markdown", "html", "srt", "vtt"] | None, Written("--format")
    ] = None
    """The format of FILE, if its name does not tell; default: lines. text: lines with --markup."""
    markup: bool = False
    """Keep tags such as `<b>`, placeholders such as {name} and addresses in lines, and put them
    where they belong; this is always done in documents."""
    split: Annotated[bool | None, Written("--sentences/--whole-lines")] = None
    """Translate sentences of a line one by one, and keep text that is not a sentence (numbers,
    URLs, bullets); or give the model whole lines. By default as the run has learned from its
    training pairs; an imported model is given lines unchanged."""
    beam: Beam | None = None
    """Hypotheses kept at each step; 1 is greedy search."""
    n_best: NBest = None
    """Print the N best, each on its own line."""
    length_penalty: Annotated[float, Field(ge=0, le=5)] | None = None
    """More favours longer translations."""
    sample: bool = False
    """Draw translations at random instead of searching."""
    sampling: SamplingOptions = SamplingOptions()
    prefix: Annotated[str, Written(metavar="TEXT")] = ""
    """What every translation must begin with."""
    forbid: Annotated[tuple[str, ...], Written(metavar="WORD")] = ()
    """A word that no translation may contain; may be repeated."""
    ensemble: Annotated[tuple[str, ...], Written(metavar="MODEL")] = ()
    """Another model that votes; may be repeated."""
    unknown: Annotated[str | None, Written(metavar="keep|copy|FILE")] = None
    """What to write for a word outside the vocabulary: keep shows ⁇; copy copies the source word
    that the model attends to; FILE, a dictionary (see regard align --dictionary), gives that word's
    translation. By default the recipe decides."""
    scores: bool = False
    """Put each translation's score before it."""
    align: bool = False
    """Put the word alignment (0-0 1-2) after it."""
    load: EngineOptions = EngineOptions()

    def check(self, given: Mapping[str, Any], spell: Spell) -> None:
        super().check(given, spell)
        form = self.document_format
        if form is None:
            return
        if self.markup:
            raise SettingsError(
                f"{spell('markup')} is only for lines: {form} is translated with its markup"
            )
        for name in LINE_OPTIONS.split():
            if given.get(name):
                raise SettingsError(
                    f"{spell(name)} is only for lines, and {self.file} is translated whole, as "
                    f"{form}; drop it, or give {spell('kind')} lines"
                )

    @property
    def document_format(self) -> document_formats.DocumentFormat | None:
        """The format of a document; None: lines."""
        if self.kind is None:
            form = document_formats.format_of(self.file)
            return None if form == "text" else form  # text files are lines by default
        return next((one for one in document_formats.DOCUMENT_FORMATS if one == self.kind), None)

    @cached_property
    def document(self) -> document_formats.Document | None:
        """The document; None: lines."""
        if self.document_format is None:
            return None
        text = document_formats.decode_document(read_bytes(self.file), self.file)
        return document_formats.read_document(text, self.document_format, self.file)

    @cached_property
    def dictionary(self) -> Mapping[str, str] | None:
        """What to write for unknown words, if the recipe does not decide."""
        return read_unknown_option(self.unknown) if self.unknown is not None else None

    @property
    def typed(self) -> bool:
        """Whether lines are typed one by one."""
        return self.file == "-" and sys.stdin.isatty()

    def shows_progress(self) -> bool:
        return sys.stderr.isatty() and not sys.stdout.isatty() and not self.typed

    def total(self) -> int | None:
        if self.document is not None:
            return len(self.document.lines)
        readable_twice = Path(self.file).is_file()
        return sum(1 for _ in read_lines(self.file, replace=True)) if readable_twice else None

    def opened(self, load: Callable[..., Any], tell: Callable[[str], None]) -> Any:
        options = self.load.model_dump()
        needs_native = self.sample or (self.prefix and self.beam != 1) or self.align
        needs_native = needs_native or self.dictionary is not None
        is_document = self.document is not None
        # an export has no other engine, and says what it cannot do
        if options["engine"] == "auto" and needs_native and not is_export(Path(self.model)):
            options["engine"] = "native"

        def before_export(message: str) -> None:
            if not (is_document or self.typed):
                self._input.check()
            tell(message)

        return load(self.model, *self.ensemble, **options, tell=before_export)

    @cached_property
    def _input(self) -> "_InputLines":
        override = None if self.typed or self.kind == "lines" else "--format lines"
        return _InputLines(read_lines(self.file, replace=True, override=override))

    def replies(self, pipeline: Translator) -> Iterator[Reply]:
        yield Reply(notes=pipeline.remarks)
        settings = search_settings(
            pipeline.settings,
            beam=self.beam,
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            sampling=self.sampling.given if self.sample else None,
            unknown=self.unknown is not None,
        )
        if self.document is not None or self.markup:
            yield from self._markup_replies(pipeline, settings)
            return
        yield Reply(notes=_prefix_notes(pipeline, self.prefix))
        chunk = max(1, CHUNK // settings.n_best) if self.align else CHUNK  # candidates have maps
        for first, texts in self._chunks(self._input.lines, chunk):
            yield from _long_lines(texts, first)
            answers = pipeline.translate(
                texts,
                settings,
                prefix=self.prefix,
                forbidden=self.forbid,
                look=self.align,
                first=first,
                unknown=self.dictionary,
                split=self.split,
            )
            for number, answer in enumerate(answers, first + 1):
                lines = self._lines(number, answer, ranked=settings.n_best > 1)
                notes = [f"line {number}: {message}" for message in answer.notes]
                yield Reply(lines, partial(_document, number, answer), notes)
            yield Reply(done=len(texts))

    def _chunks(self, lines: Iterator[str], size: int) -> Iterator[tuple[int, list[str]]]:
        """Lines that are translated together, after the number of those before them."""
        first = 0
        for texts in chunked(lines, 1 if self.typed else size):
            yield first, texts
            first += len(texts)
            sys.stdout.flush()

    def _markup_replies(
        self, translator: Translator, settings: DecodingSettings
    ) -> Iterator[Reply]:
        """The translation of a document, or of lines with markup."""
        from regard.tasks.translation.markup.markup_translator import MarkupTranslator

        markup_translator = MarkupTranslator(
            translator, settings, split=self.split, forbidden=self.forbid, unknown=self.dictionary
        )
        document, translated = self.document, list[str]()
        unit, lines, size = "line", self._input.lines, CHUNK
        if document is not None:
            unit, lines = "text", iter(document.lines)
            size = DOCUMENT_CHUNK if self.shows_progress() else CHUNK
        for first, texts in self._chunks(lines, size):
            if document is None:
                yield from _long_lines(texts, first)
            for number, answer in enumerate(
                markup_translator.translate_texts(texts, first), first + 1
            ):
                notes = [f"{unit} {number}: {message}" for message in answer.notes]
                yield Reply([answer.text] if document is None else (), notes=notes)
                translated.append(answer.text)
            yield Reply(done=len(texts))
        if document is not None:
            yield Reply([document.join(translated)], end="")

    def _lines(self, number: int, answer: Answer, *, ranked: bool) -> Iterator[str]:
        """A line for each candidate, its columns separated by tabs."""
        for rank, candidate in enumerate(answer.candidates, 1):
            columns = [str(number), str(rank)] if ranked else []
            columns += [f"{candidate.score:.4f}"] if self.scores else []
            others = [format_links(answer.alignment(rank=rank - 1))] if self.align else []
            # a tab that was copied from the source would be read as a separator
            text = candidate.text.replace("\t", " ") if columns or others else candidate.text
            yield "\t".join([*columns, text, *others])


class _InputLines:
    """The lines of a file or of the standard input, which can be checked before they are read."""

    def __init__(self, lines: Iterator[str]) -> None:
        self.lines = lines

    def check(self) -> None:
        """Raise an error if the file is missing or not text."""
        _, self.lines = peek(self.lines, 1)


def _prefix_notes(translator: Translator, prefix: str) -> list[str]:
    """A note about the words of a prefix that are not in the vocabulary."""
    target = translator.target
    unknown = [word for word in dict.fromkeys(prefix.split()) if UNK in target.encode([word])[0]]
    if not unknown:
        return []
    return [
        f"--prefix: not in the model's vocabulary: {', '.join(unknown)}; translations begin "
        f"with {target.decode(target.encode([prefix])[0])!r}"
    ]


def _long_lines(texts: list[str], first: int) -> Iterator[Reply]:
    """Notes on lines that are so long that their translation takes a while."""
    for number, line in enumerate(texts, first + 1):
        if len(line) > LONG_LINE:
            said = (
                f"line {number}: {len(line):,} characters are translated in parts, which takes as "
                f"long as some {len(line) // 100:,} lines; does this file have one sentence a line?"
            )
            yield Reply(notes=[said])


def _document(number: int, answer: Answer) -> dict[str, object]:
    return {
        "line": number,
        "source": answer.source,
        "translations": [
            candidate._asdict() | _alignment(answer, rank)
            for rank, candidate in enumerate(answer.candidates)
        ],
        "notes": list(answer.notes),
        **_alignment(answer, 0),
    }


def _alignment(answer: Answer, rank: int) -> dict[str, object]:
    """The alignment of a candidate, if attention was recorded."""
    return {"alignment": sorted(answer.alignment(rank=rank))} if answer.attention else {}
