"""What it costs to watch a search, and that it costs nothing not to.

    python -m bench recorder [--sentences N] [--length N] [--beam N] [--rounds N]

Decodes the same sentences with fresh models, whose outputs are forced to one length, in turn: with
nobody watching; the same again, which shows how far two equal runs differ; asking after each step
what is best so far; keeping the tree of hypotheses; with a watch that does nothing, for which
attention takes the plain formula; and recording attention for each node of the tree, of the source
alone and all of it. Prints the least time of several rounds and its ratio to the first. In seconds
of the processor, on one thread: what else the machine does changes them little.
"""

import argparse
import random
import time
from collections.abc import Callable, Collection
from typing import NamedTuple

import torch

from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.decoding.tracing.observer import SearchObserver, SearchStep, best_so_far
from regard.decoding.tracing.search_tree import SearchTreeObserver
from regard.inspection.recording.attention_map import PARTS, Part
from regard.inspection.recording.search_recorder import SearchRecorder
from regard.models.build import ModelSettings, build_model
from regard.models.translation.convs2s import ConvS2SSettings
from regard.models.translation.luong import LuongSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.types import AttentionHook

VOCABULARY, BUDGET = 8000, 16_384
MODELS: dict[str, ModelSettings] = {
    "convs2s": ConvS2SSettings(encoder_layers=4, decoder_layers=4, width=256),
    "luong": LuongSettings(layers=2, width=256),
    "transformer": TransformerSettings(preset="small"),
}


class Observers(NamedTuple):
    """Who looks on: at attention, and at the search."""

    hook: AttentionHook | None = None
    observe: SearchObserver | None = None


class Following(SearchObserver):
    """Asks after each step what is best."""

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        best_so_far(step)
        return ()


def recorder(parts: Collection[Part]) -> Observers:
    both = SearchRecorder(parts)
    return Observers(both, both)


OBSERVERS: dict[str, Callable[[], Observers]] = {
    "off": Observers,
    "off again": Observers,
    "best so far": lambda: Observers(observe=Following()),
    "tree": lambda: Observers(observe=SearchTreeObserver()),
    "plain formula": lambda: Observers(hook=lambda site, weights, /: weights),
    "cross attention": lambda: recorder(["cross"]),
    "all attention": lambda: recorder(PARTS),
}


def decode(member: SearchMember, settings: DecodingSettings, observers: Observers) -> float:
    """Seconds that the search takes, from encoding to the last answer."""
    hook, observe = observers
    began = time.process_time()
    search_many([member], settings, budget=BUDGET, hook=hook, observe=observe)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sentences", type=int, default=16)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chance = random.Random(0)
    sources = [
        chance.choices(range(4, VOCABULARY), k=chance.randint(10, 30))
        for _ in range(asked.sentences)
    ]
    settings = DecodingSettings(
        beam=BeamSettings(size=asked.beam, stop="limit"),
        rules=RuleSettings(min_length=asked.length - 1, max_length=asked.length),
    )
    print(f"{asked.sentences} sentences, {asked.length} tokens each, beam {asked.beam}")
    for name, model_settings in MODELS.items():
        model = build_model(model_settings, VOCABULARY, VOCABULARY, joint=True).eval()
        member = SearchMember(model, sources)
        decode(member, settings, Observers())
        least = dict.fromkeys(OBSERVERS, float("inf"))
        for _ in range(asked.rounds):
            for how, make in OBSERVERS.items():
                least[how] = min(least[how], decode(member, settings, make()))
        print(name)
        for how in OBSERVERS:
            print(f"  {how:<16}{least[how]:7.3f} s{least[how] / least['off']:7.2f}", flush=True)
