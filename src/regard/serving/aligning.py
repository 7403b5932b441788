"""Pairs of sentences -> word alignments, by what a model attends to when it is told the target."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from regard.batching.collate import pad, pad_source
from regard.corpora.pairs import Pair, SplitName
from regard.corpora.readers import read_lines
from regard.corpora.store import TokenPair
from regard.errors import SettingsError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.pharaoh import read_pharaoh
from regard.inspection.alignment import AlignmentSettings, Choice, align, choose
from regard.inspection.record import Attention, Part, record
from regard.recipes.prepare import Data
from regard.recipes.run_folder import Run
from regard.streams import chunked
from regard.text.special import BOS
from regard.types import GoldAlignment, Link, Watch

CROSS: tuple[Part, ...] = ("cross",)
CHUNK = 64
"""Pairs recorded together."""
CHOSEN_ON = 200
"""Pairs of the validation split that the best head is chosen on."""


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


def choose_alignment(run: Run, pairs: Sequence[Pair], gold: Sequence[GoldAlignment]) -> Choice:
    """The layer, head and shift whose links err least on pairs with gold alignments."""
    return choose(
        list(attend_pairs(run, pairs)), lambda links: score_alignments(links, gold).error_rate
    )


def choose_on_valid(run: Run, data: Data) -> Choice:
    """The choice on validation pairs of a corpus that has gold alignments for them."""
    pairs, gold = islice(data.read("valid"), CHOSEN_ON), islice(read_gold(data, "valid"), CHOSEN_ON)
    return choose_alignment(run, list(pairs), list(gold))


def read_gold(data: Data, split: SplitName) -> Iterator[GoldAlignment]:
    """The gold alignments of a split that has them."""
    path = data.gold(split)
    return read_pharaoh(read_lines(path), name=str(path))
