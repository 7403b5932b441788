"""How far alignments by attention are from gold ones, beside fast_align's and GIZA++'s.

    REGARD_DATA=... python -m bench alignments runs/tatoeba-de-en runs/tatoeba-en-de

Takes two trained runs, German to English and back, and the gold alignments of 508 sentences of
Europarl in $REGARD_DATA/alignments, and prints a Markdown table. The first 100 sentences are there
to choose by, the other 408 to score on. What is chosen by agreement never sees gold: it is chosen
on validation pairs of the first run's own corpus, and scored on all 508 as well, like the outputs
of fast_align and GIZA++, which were trained on other data than our models: Europarl itself.
Without runs, only these outputs are scored.
"""

import argparse
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.alignment.extraction import (
    BASELINE_ALIGNMENT,
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    align,
    align_averaged,
)
from regard.alignment.run_alignment import pair_attention
from regard.alignment.selection import select_by_agreement, select_by_gold
from regard.alignment.symmetrization import SYMMETRIZATIONS, flip, symmetrize
from regard.corpora.corpus import Pair
from regard.corpora.readers.pair_files import read_lines
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.pharaoh import flip_gold, read_pharaoh
from regard.inspection.recording.attention_map import AttentionMaps
from regard.recipes.open_run import Run, open_run
from regard.recipes.run_folder import load_data, pick_device
from regard.types import GoldAlignment, Link

CHOSEN_ON = 100
"""Sentences of the gold set that choices are made on."""
AGREED_ON = 500
"""Validation pairs that agreement is measured on."""
Both = tuple[AlignmentSettings, AlignmentSettings]
"""How two models are read, German to English first."""
OTHERS = {
    "fast_align": "deen.fastalign",
    "fast_align, grow-diag": "deen.fastalign.grow-diagonal",
    "GIZA++": "deen.giza",
    "GIZA++, grow-diag": "deen.giza.grow-diagonal",
}


class GoldSet(NamedTuple):
    """The sentences, their gold alignments, and what others made of them."""

    pairs: list[Pair]
    gold: list[GoldAlignment]
    others: dict[str, list[frozenset[Link]]]


class AlignmentRow(NamedTuple):
    """One alignment of all the sentences."""

    name: str
    links: Sequence[frozenset[Link]]
    saw_gold: bool = False
    """Whether it was chosen by the first `CHOSEN_ON` of them."""


def read_gold_set(folder: Path) -> GoldSet:
    """The gold set, its words counted from 0."""
    sides = [read_lines(folder / f"deen.test.uc.{language}") for language in ("de", "en")]
    gold = read_pharaoh(read_lines(folder / "deen.alignment.talp"), counted_from=1, name="gold")
    others = {
        name: [each.sure for each in read_pharaoh(read_lines(folder / f"{file}.talp"), name=file)]
        for name, file in OTHERS.items()
    }
    return GoldSet([Pair(*both) for both in zip(*sides, strict=True)], list(gold), others)


class ModelAttention(NamedTuple):
    """What a model attends to in the sentences of the gold set."""

    name: str
    attentions: list[AttentionMaps]
    gold: list[GoldAlignment]
    """Its own source first."""
    turned: bool
    """Whether its source is the gold set's target."""

    def choose(self) -> AlignmentSettings:
        """What errs least on the first `CHOSEN_ON` sentences."""
        return select_by_gold(self.attentions[:CHOSEN_ON], self.gold[:CHOSEN_ON]).settings

    def rows(
        self, by_agreement: AlignmentSettings, by_gold: AlignmentSettings
    ) -> Iterator[AlignmentRow]:
        """The plain average, the best guess, and what was chosen."""
        yield AlignmentRow(f"{self.name}, plain average", self.links(BASELINE_ALIGNMENT))
        yield AlignmentRow(
            f"{self.name}, guessed: {DEFAULT_ALIGNMENT}", self.links(DEFAULT_ALIGNMENT)
        )
        yield AlignmentRow(
            f"{self.name}, chosen by agreement: {by_agreement}", self.links(by_agreement)
        )
        yield AlignmentRow(
            f"{self.name}, chosen by gold: {by_gold}", self.links(by_gold), saw_gold=True
        )

    def links(self, settings: AlignmentSettings) -> list[frozenset[Link]]:
        """German before English."""
        found = [align(each, settings) for each in self.attentions]
        return [flip(each) for each in found] if self.turned else found


def rows_of_both(
    models: Sequence[ModelAttention], by_agreement: Both, by_gold: Both
) -> Iterator[AlignmentRow]:
    """Two models read as one, and their links by rows put together in every way."""
    pairs = list(zip(*(each.attentions for each in models), strict=True))
    for name, ways in (("agreement", by_agreement), ("gold", by_gold)):
        links = [align_averaged(one, other, ways) for one, other in pairs]
        yield AlignmentRow(f"both, chosen by {name}, maps averaged", links, saw_gold=name == "gold")
    by_rows = [
        each.links(one.model_copy(update={"links": "rows"}))
        for each, one in zip(models, by_agreement, strict=True)
    ]
    for how in SYMMETRIZATIONS:
        both = zip(by_rows[0], by_rows[1], strict=True)
        links = [symmetrize(one, other, how) for one, other in both]
        yield AlignmentRow(f"both, chosen by agreement, {how}", links)


def agree(run: Run, reverse: Run) -> Both:
    """The settings of two runs whose links agree most on validation pairs."""
    pairs = list(islice(load_data(run.folder).read("valid"), AGREED_ON))
    found = select_by_agreement(
        list(pair_attention(run, pairs)), list(pair_attention(reverse, pairs, reverse=True))
    )
    print(f"agreement on {len(pairs)} validation pairs: {found.value:.1%}\n")
    return found.forward, found.backward


def print_table(rows: Iterable[AlignmentRow], gold: Sequence[GoldAlignment]) -> None:
    """One line for each alignment: its error on all sentences, and all numbers on the last ones."""
    rest = len(gold) - CHOSEN_ON
    print(f"| alignment | AER on {len(gold)} | AER on the last {rest} | precision | recall |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        whole = score_alignments(row.links, gold)
        last = score_alignments(row.links[CHOSEN_ON:], gold[CHOSEN_ON:])
        shown = "" if row.saw_gold else f"{whole.error_rate:.1%}"
        numbers = " | ".join(f"{number:.1%}" for number in last)
        print(f"| {row.name} | {shown} | {numbers} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("runs", nargs="*", help="one from German to English, and one back")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    if len(asked.runs) not in (0, 2):
        parser.error("give two runs, from German to English and back, or none")
    known = read_gold_set(Path(os.environ["REGARD_DATA"]) / "alignments")
    rows = [AlignmentRow(name, links) for name, links in known.others.items()]
    if asked.runs:
        device = pick_device(asked.device)
        rows += model_rows(known, *(open_run(name, device=device) for name in asked.runs))
    print_table(rows, known.gold)


def model_rows(known: GoldSet, run: Run, reverse: Run) -> Iterator[AlignmentRow]:
    """What two runs attend to in the sentences, alone and together."""
    by_agreement = agree(run, reverse)
    models = [
        ModelAttention(
            "German to English",
            list(pair_attention(run, known.pairs, cut_apart=True)),
            known.gold,
            turned=False,
        ),
        ModelAttention(
            "English to German",
            list(pair_attention(reverse, known.pairs, cut_apart=True, reverse=True)),
            [flip_gold(each) for each in known.gold],
            turned=True,
        ),
    ]
    by_gold = models[0].choose(), models[1].choose()
    for each, *ways in zip(models, by_agreement, by_gold, strict=True):
        yield from each.rows(*ways)
    yield from rows_of_both(models, by_agreement, by_gold)
