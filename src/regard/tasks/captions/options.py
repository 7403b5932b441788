"""The options and the lines of `regard caption`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.corpora.readers.pair_files import STDIN
from regard.decoding.settings import search_settings
from regard.images.picture_files import find_pictures
from regard.settings import escape_control
from regard.tasks.families.options import (
    SAMPLING,
    Beam,
    NBest,
    OptionRule,
    Positional,
    Reply,
    SamplingOptions,
    UseOptions,
    named_inputs,
)

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.captions.pipeline import CaptionAnswer, Captioner


class CaptionOptions(UseOptions):
    """Every picture gives one line, in order: only the caption if one picture was named, otherwise
    the name, a tab and the caption. A folder stands for all pictures in it and its
    subfolders. A picture that cannot be read, or a blank line of a list, gives an empty caption and
    an error on stderr; the others are still captioned, and the exit code is 1.

    Pictures may be JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF; the model sees the square in the
    middle.

    Examples:

        regard caption runs/flickr8k photo.jpg
        regard caption runs/flickr8k holidays/ --json > captions.jsonl
        ls *.png | regard caption runs/flickr8k --beam 3 --n-best 3 --scores
    """

    rules = (OptionRule(SAMPLING, needs="sample"),)

    pictures: Annotated[tuple[str, ...], Positional("PICTURE…")] = ()
    """Picture files or folders; - reads a list from stdin."""
    beam: Beam | None = None
    """Hypotheses kept at each step; 1 is greedy search."""
    n_best: NBest = None
    """Print the N best, each on its own line."""
    length_penalty: Annotated[float, Field(ge=0, le=5)] | None = None
    """More favours longer captions."""
    sample: bool = False
    """Draw captions at random instead of searching."""
    sampling: SamplingOptions = SamplingOptions()
    scores: bool = False
    """Put each caption's score before it."""

    def replies(self, pipeline: "Captioner") -> Iterator[Reply]:
        settings = search_settings(
            pipeline.settings,
            beam=self.beam,
            n_best=self.n_best,
            length_penalty=self.length_penalty,
            sampling=self.sampling.given if self.sample else None,
        )
        pictures = list(find_pictures(named_inputs(self.pictures or [STDIN])))
        for answer in pipeline.stream(pictures, settings):
            name = [escape_control(answer.picture)] if len(pictures) > 1 else []
            notes = [f"{answer.picture}: {message}" for message in answer.notes]
            yield Reply(self._lines(answer, name), answer.to_json, notes, answer.error)

    def _lines(self, answer: "CaptionAnswer", name: list[str]) -> Iterator[str]:
        if answer.error is not None:
            yield "\t".join([*name, ""])
        for rank, one in enumerate(answer.candidates, 1):
            columns: list[Any] = [rank] if self.n_best is not None else []
            columns += [f"{one.score:.4f}"] if self.scores else []
            yield "\t".join(map(str, [*name, *columns, one.text]))
