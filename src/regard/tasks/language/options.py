"""The options and the lines of `regard complete`."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import PositiveInt

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.decoding.settings import DecodingSettings, search_settings
from regard.errors import SettingsError
from regard.iterate import chunked
from regard.tasks.families.options import (
    SAMPLING,
    Beam,
    NBest,
    OptionRule,
    Positional,
    Reply,
    SamplingOptions,
    UseOptions,
    Written,
)

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.language.pipeline import Completer

DEFAULT_MAX_TOKENS = 200
PROMPTS_AT_ONCE = 1024  # many, to fill batches; few, to print early


class CompleteOptions(UseOptions):
    """Each continuation is printed with its prompt. Many prompts of any lengths are continued
    together. The same seed gives the same texts.

    Examples:

        regard complete runs/shakespeare "ROMEO:"
        regard complete runs/shakespeare "ROMEO:" --temperature 0.7 --top-k 20 --seed 3 --stream
        regard complete runs/shakespeare "To be" --beam 5 --max-tokens 50 --json
        regard complete runs/shakespeare < prompts.txt
    """

    rules = (OptionRule(SAMPLING, excludes="beam"), OptionRule("stream", excludes="json"))

    prompts: Annotated[tuple[str, ...], Positional("[PROMPT…]")] = ()
    """Texts to continue, which may be empty; without any, the lines of the standard input."""
    max_tokens: Annotated[PositiveInt, Written(metavar="N")] = DEFAULT_MAX_TOKENS
    """The most tokens of a continuation."""
    n_best: NBest = None
    """Continuations of each prompt."""
    sampling: SamplingOptions = SamplingOptions()
    beam: Beam | None = None
    """Search for the likeliest continuation with this many hypotheses instead of sampling; 1 is
    greedy search."""
    stream: bool = False
    """Print the text of one prompt while it is generated."""

    def replies(self, pipeline: "Completer") -> Iterator[Reply]:
        settings, prompts = self._search(pipeline.settings), self.prompts or read_lines(STDIN)
        if self.stream:
            yield self._stream(pipeline, list(prompts), settings)
            return
        first = 0
        for some in chunked(prompts, PROMPTS_AT_ONCE):
            found = pipeline.complete(some, settings, max_tokens=self.max_tokens, first=first)
            for completion in found:
                lines = [completion.prompt + one.text for one in completion.continuations]
                yield Reply(lines, completion.to_json, completion.notes)
            first += len(some)
            sys.stdout.flush()

    def _search(self, own: DecodingSettings) -> DecodingSettings:
        """The run's settings with the given options."""
        sampling = self.sampling.given
        if self.beam is None and own.sampling is not None:
            sampling = own.sampling.model_dump() | sampling
        drawn = sampling if self.beam is None and sampling else None
        return search_settings(own, beam=self.beam, n_best=self.n_best, sampling=drawn)

    def _stream(
        self, completer: "Completer", texts: list[str], settings: DecodingSettings
    ) -> Reply:
        """Print one prompt and its continuation while it is generated."""
        if len(texts) != 1 or settings.n_best > 1 or settings.sampling is None:
            raise SettingsError(
                "--stream prints one sampled text for one prompt: drop it, or --beam, --n-best and "
                "further prompts"
            )
        shown = ""

        def on_text(_: int, text: str) -> None:
            nonlocal shown
            if not text.endswith("\ufffd"):  # a character whose bytes have not all come
                sys.stdout.write(text[len(shown) :])
                sys.stdout.flush()
                shown = text

        sys.stdout.write(texts[0])
        [found] = completer.complete(texts, settings, max_tokens=self.max_tokens, on_text=on_text)
        return Reply([found.continuations[0].text[len(shown) :]], notes=found.notes)
