"""Pairs of sentences -> word alignments, by what a model attends to when it is told the target."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, tee
from typing import Literal, NamedTuple

from pydantic import PositiveInt, ValidationError

from regard.batching.collate import pad, pad_source
from regard.corpora.pairs import Pair, SplitName
from regard.corpora.readers import read_lines
from regard.corpora.store import TokenPair
from regard.errors import RunError, SettingsError
from regard.evaluation.pharaoh import read_pharaoh
from regard.files import write_whole
from regard.inspection.alignment import UNMEASURED, AlignmentSettings, align
from regard.inspection.record import Attention, Part, record
from regard.inspection.symmetrize import Symmetry, flip, symmetrize
from regard.recipes.prepare import Data
from regard.recipes.run_folder import Run
from regard.serving.choosing import Choice, choose_by_agreement, choose_by_gold
from regard.settings import Settings
from regard.streams import chunked
from regard.text.special import BOS
from regard.types import GoldAlignment, Link, Watch

CROSS: tuple[Part, ...] = ("cross",)
CHUNK = 64
"""Pairs recorded together."""
CHOSEN_ON = 200
"""Pairs of the validation split that the best alignment is chosen on."""
KEPT = "alignment.json"
"""The file of a run's folder that holds what was measured."""


def attends(run: Run) -> bool:
    """Whether the run's model attends to the source at all."""
    one = record(run.model, pad_source([[]]), pad([[]], first=BOS), parts=CROSS)
    return bool(one.weights)


def attend_pairs(run: Run, pairs: Iterable[Pair]) -> Iterator[Attention]:
    """The cross attention of each pair, in order."""
    source, target = run.tokenizers
    return attend_tokens(
        run,
        (
            TokenPair(*source.encode([pair.source.strip()]), *target.encode([pair.target.strip()]))
            for pair in pairs
        ),
    )


def attend_tokens(
    run: Run, pairs: Iterable[TokenPair], *, change: Watch | None = None
) -> Iterator[Attention]:
    """The cross attention of each pair of sentences in tokens, as `change` would have it."""
    source, target = run.tokenizers
    for chunk in chunked(pairs, CHUNK):
        recording = record(
            run.model,
            pad_source([pair.source for pair in chunk]),
            pad([pair.target for pair in chunk], first=BOS),
            parts=CROSS,
            change=change,
        )
        if not recording.weights:
            raise SettingsError(
                f"{run.folder.path}: a model of the family {run.recipe.model.family} without "
                "attention to the source has nothing to align by"
            )
        for number in range(len(chunk)):
            yield recording.attention(number, source, target)


def align_pairs(
    run: Run, pairs: Iterable[Pair], settings: AlignmentSettings
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order."""
    return (align(attention, settings) for attention in attend_pairs(run, pairs))


class Directed(NamedTuple):
    """A model of one direction, and how its alignment is read."""

    run: Run
    settings: AlignmentSettings


def align_both(
    forward: Directed, backward: Directed, pairs: Iterable[Pair], how: Symmetry
) -> Iterator[frozenset[Link]]:
    """The links of each pair, in order, by two models: source to target, and back.

    Each model gives each word that it answers its best word of the other side; the settings' own
    way to put rows and columns together is not asked for.
    """
    by_rows = [way.settings.model_copy(update={"links": "rows"}) for way in (forward, backward)]
    here, there = tee(pairs)
    both = zip(attend_pairs(forward.run, here), attend_back(backward.run, there), strict=True)
    for one, other in both:
        yield symmetrize(align(one, by_rows[0]), flip(align(other, by_rows[1])), how)


def attend_back(run: Run, pairs: Iterable[Pair]) -> Iterator[Attention]:
    """The cross attention of a model from target to source, for each pair of source and target."""
    return attend_pairs(run, (Pair(pair.target, pair.source) for pair in pairs))


def choose_alignment(run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment]) -> Choice:
    """The settings whose links err least on pairs with gold alignments."""
    return choose_by_gold(list(attend_pairs(run, pairs)), gold)


def choose_on_valid(run: Run, data: Data) -> Choice:
    """The choice on validation pairs of a corpus that has gold alignments for them."""
    return choose_alignment(run, *_some_valid(data))


class Measured(Settings):
    """The alignment chosen for a run, as its folder keeps it, and what it was chosen by."""

    settings: AlignmentSettings
    by: Literal["gold", "agreement"]
    value: float
    """The alignment error rate against gold, or the agreement with the other direction."""
    pairs: PositiveInt
    """Pairs that it was measured on."""

    def __str__(self) -> str:
        what = "an error" if self.by == "gold" else "an agreement with the other direction"
        return f"chose {self.settings} with {what} of {self.value:.1%} on {self.pairs:,} pairs"


def best_alignment(run: Run) -> AlignmentSettings:
    """The settings that were measured to be best for this run, or the best guess."""
    measured = measured_alignment(run)
    return measured.settings if measured else UNMEASURED


def measured_alignment(run: Run) -> Measured | None:
    """What was measured for this run; None: nothing was."""
    path = run.folder.path / KEPT
    if not path.exists():
        return None
    try:
        return Measured.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise RunError(
            f"{path}: damaged, or of another version of regard: {error.errors()[0]['msg']}; "
            "measure it again with regard align --choose, or remove the file"
        ) from None


def measure_by_gold(run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment]) -> Measured:
    """The settings whose links err least on pairs with gold, kept in the run's folder."""
    choice = choose_alignment(run, pairs, gold)
    return _keep(
        run, Measured(settings=choice.settings, by="gold", value=choice.error, pairs=len(pairs))
    )


def measure_on_valid(run: Run, data: Data) -> Measured:
    """The same on validation pairs of a corpus that has gold alignments for them."""
    return measure_by_gold(run, *_some_valid(data))


def measure_by_agreement(
    run: Run, reverse: Run, pairs: Sequence[Pair]
) -> tuple[Measured, Measured]:
    """The settings of two models, source to target and back, whose links agree most on `pairs`.

    Each is kept in the folder of its run.
    """
    found = choose_by_agreement(list(attend_pairs(run, pairs)), list(attend_back(reverse, pairs)))
    here, there = (
        Measured(settings=settings, by="agreement", value=found.value, pairs=len(pairs))
        for settings in (found.forward, found.backward)
    )
    return _keep(run, here), _keep(reverse, there)


def _keep(run: Run, measured: Measured) -> Measured:
    """Let `best_alignment` know what was measured."""
    write_whole(run.folder.path / KEPT, f"{measured.model_dump_json(indent=1)}\n".encode())
    return measured


def _some_valid(data: Data) -> tuple[list[Pair], list[GoldAlignment]]:
    """The validation pairs that a choice is made on, and their gold alignments."""
    pairs, gold = data.read("valid"), read_gold(data, "valid")
    return list(islice(pairs, CHOSEN_ON)), list(islice(gold, CHOSEN_ON))


def read_gold(data: Data, split: SplitName) -> Iterator[GoldAlignment]:
    """The gold alignments of a split that has them."""
    path = data.gold(split)
    return read_pharaoh(read_lines(path), name=str(path))
