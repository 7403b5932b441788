"""How many inline tags, and placeholders, are carried to the right place of a translation.

    python -m bench tags RUN [--sentences N] [--seed N] [--measured]

Needs a run whose corpus has gold alignments for its test pairs, as `travel` does. In each of N test
sentences one pair of tags is put around some words that follow each other and whose gold
translation does, too: every gold link of theirs, sure or possible, leads into one stretch of the
reference, and none leads into it from elsewhere. Carried is what comes out as the reference with
tags around just that stretch: a translation that is not the reference counts as a failure.

Then the same for placeholders: in place of a word that the reference has as well, such as a name,
stands `{x}`, which should come out in the place of that word. It is measured with names that stand
for placeholders meanwhile, and without, when the rest of the sentence is translated alone.

`--measured` chooses the layer and head on the run's validation pairs first, as `regard align
--choose` does; otherwise it is what the run's folder says, or the best guess.
"""

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import torch

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import (
    best_alignment,
    measure_by_gold,
    read_gold,
    read_selection_examples,
)
from regard.corpora.corpus import Pair
from regard.recipes.run_folder import load_data
from regard.tasks.translation.markup.markup_translator import MarkupTranslator
from regard.tasks.translation.pipeline import Translator, load
from regard.types import GoldAlignment

LONGEST = 5
"""Source words that a pair of tags wraps at most."""


class TagCase(NamedTuple):
    """A text with markup, and what should become of it."""

    source: str
    expected: str
    reference: str
    """The same without markup."""


def tagged(pair: Pair, gold: GoldAlignment, rng: random.Random) -> TagCase | None:
    """The pair with tags around words drawn at random; None where no words can be."""
    spans = list(unambiguous(len(pair.source.split()), gold))
    if not spans:
        return None
    here, there = rng.choice(spans)
    return TagCase(wrap(pair.source, here), wrap(pair.target, there), pair.target)


def unambiguous(words: int, gold: GoldAlignment) -> Iterator[tuple[range, range]]:
    """Source words in a row whose gold translation is target words in a row, and nothing else."""
    for first in range(words):
        for last in range(first + 1, min(first + LONGEST, words) + 1):
            inside = range(first, last)
            sure = {t for s, t in gold.sure if s in inside}
            if not sure or max(sure) - min(sure) >= len(sure):
                continue
            if all((s in inside) == (t in sure) for s, t in gold.possible):
                yield inside, range(min(sure), max(sure) + 1)


def wrap(text: str, words: range) -> str:
    """Tags around some words of a text, but not around the marks at their ends."""
    places = [found.span() for found in re.finditer(r"\S+", text)]
    first, last = places[words.start][0], places[words.stop - 1][1]
    inner = text[first:last]
    bare = inner.rstrip(".,?!")
    return f"{text[:first]}<b>{bare}</b>{text[first + len(bare) :]}"


def held(pair: Pair, rng: random.Random) -> TagCase | None:
    """The pair with a placeholder for a name that each side has once; None without one."""
    sides = [re.findall(r"\w+", text) for text in pair]
    names = [
        word
        for word in sorted(set(sides[0]))
        if word[0].isupper() and [side.count(word) for side in sides] == [1, 1]
    ]
    if not names:
        return None
    name = rng.choice(names)
    source, target = (re.sub(rf"\b{name}\b", "{x}", text) for text in pair)
    return TagCase(source, target, pair.target)


def measure(carrier: MarkupTranslator, cases: Sequence[TagCase], *, show: int = 0) -> int:
    """How many come out as expected; prints some that do not."""
    found = [one.text for one in carrier.translate_texts([case.source for case in cases])]
    wrong = [(case, text) for case, text in zip(cases, found, strict=True) if text != case.expected]
    for case, text in wrong[:show]:
        print(f"  {case.source}\n    expected {case.expected}\n    found    {text}")
    return len(cases) - len(wrong)


def draw(translator: Translator, sentences: int, seed: int) -> tuple[list[TagCase], list[TagCase]]:
    """Cases with tags and cases with placeholders, from the run's test pairs."""
    data = load_data(translator.runs[0].folder)
    rng = random.Random(seed)
    pairs = list(zip(data.read("test"), read_gold(data, "test"), strict=True))
    rng.shuffle(pairs)
    tags = (tagged(pair, gold, rng) for pair, gold in pairs)
    holds = (held(pair, rng) for pair, _ in pairs)
    return (
        list(islice((case for case in tags if case), sentences)),
        list(islice((case for case in holds if case), sentences)),
    )


def settings(translator: Translator, *, measured: bool) -> AlignmentSettings:
    """How links are read off."""
    run = translator.runs[0]
    if measured:
        return measure_by_gold(
            run, *read_selection_examples(load_data(run.folder)), save=False
        ).settings
    return best_alignment(run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--show", type=int, default=0, help="print so many that went wrong")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    translator = load(asked.run, device="cpu")
    chosen = settings(translator, measured=asked.measured)
    tags, holds = draw(translator, asked.sentences, asked.seed)
    same = sum(
        answer.text == case.reference
        for case, answer in zip(
            tags,
            translator.translate(
                [case.source.replace("<b>", "").replace("</b>", "") for case in tags]
            ),
            strict=True,
        )
    )
    print(f"{asked.run}: links by {chosen}; {same} of {len(tags)} translations are the reference")
    carrier = MarkupTranslator(translator, alignment=chosen)
    right = measure(carrier, tags, show=asked.show)
    print(f"tags: {right} of {len(tags)} in their gold place ({right / len(tags):.1%})")
    for name, names in (("names stand for them", None), ("taken out", ())):
        carrier = MarkupTranslator(translator, alignment=chosen, names=names)
        right = measure(carrier, holds, show=asked.show)
        print(f"placeholders, {name}: {right} of {len(holds)} right ({right / len(holds):.1%})")
