"""What `translate`, `latency` and `memory` share: engines with one set of weights."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench.contenders import Answer, Contender, ContenderProcess, running_contenders
from bench.exports import exported
from bench.peers.contract import Clock, PeerConfig, Precision
from bench.report import console, show_progress
from regard.errors import RunError
from regard.evaluation.scores import ScoreSettings, score
from regard.text.tokenizer import Tokenizer

BLEU = ScoreSettings(metrics=("bleu",), resamples=0)


def contenders(cores: int, clock: Clock = "wall") -> list[Contender]:
    """Every engine, each in its own best configuration for `cores`."""

    def one(name: str, peer: str, precision: Precision, **more: Any) -> Contender:
        return Contender(name, peer, PeerConfig(precision, clock=clock, **more))

    return [
        one("regard", "regard", "int8", workers=cores, engine="auto"),
        one("regard native int8", "regard", "int8", workers=cores, engine="native"),
        one("regard native float32", "regard", "float32", workers=cores, engine="native"),
        one("CTranslate2 int8", "opennmt", "int8", workers=cores),
        one("CTranslate2 float32", "opennmt", "float32", workers=cores),
        one("Hugging Face float32", "hugging_face", "float32", threads=cores),
        one("Hugging Face bfloat16", "hugging_face", "bfloat16", threads=cores),
        one("JoeyNMT float32", "joey", "float32", threads=cores),
    ]


def one_thread(clock: Clock = "wall") -> list[Contender]:
    """The same engines for one sentence at a time: one worker of one thread each."""
    return [one for one in contenders(1, clock) if one.name != "CTranslate2 float32"]


class Ready(NamedTuple):
    """Engines that wait to be asked."""

    runners: list[ContenderProcess]
    failed: dict[str, str]


@contextmanager
def engines(run: Path, chosen: Sequence[Contender]) -> Iterator[Ready]:
    """The chosen engines with the weights of a run, each in a process of its own."""
    with exported(run, chosen, show_progress) as exports:
        able = [one for one in chosen if one.name not in exports.failed]

        def task(one: Contender) -> dict[str, Any]:
            return {"job": "translate", "folder": str(exports.folders[one.peer])}

        with running_contenders(able, task, show_progress) as (runners, failed):
            for name, why in (exports.failed | failed).items():
                console.print(f"[red]{name} cannot run[/red]: {why}")
            yield Ready(runners, exports.failed | failed)


def quality(
    answers: Mapping[str, Sequence[Answer]], references: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Notes on the outputs that were timed, by contender: their BLEU, and the share that equals the
    first contender's.
    """
    notes: dict[str, dict[str, str]] = {}
    first: Sequence[str] | None = None
    for name, rounds in answers.items():
        texts = rounds[-1]["texts"]
        first = texts if first is None else first
        same = sum(a == b for a, b in zip(texts, first, strict=True)) / len(texts)
        [bleu] = score(texts, references, BLEU)
        notes[name] = {"BLEU": f"{bleu.value:.2f}", "same as first": f"{same:.1%}"}
    return notes


def signature() -> str:
    """The signature of BLEU."""
    return score(["a"], ["a"], BLEU)[0].signature


def count_tokens(texts: Sequence[str], tokenizer: Tokenizer) -> int:
    """Tokens of some translations, counted by one tokenizer for all contenders."""
    return sum(map(len, tokenizer.encode(texts)))


def add_model(parser: argparse.ArgumentParser) -> None:
    """The options of all that translates."""
    parser.add_argument("--model", type=Path, required=True, help="a run's folder")
    parser.add_argument("--cores", type=int, default=None, help=f"({os.cpu_count()})")


def check_model(asked: argparse.Namespace) -> None:
    """Set how many cores are used; an error if the folder holds no trained model."""
    asked.cores = asked.cores or (1 if asked.clock == "processor" else os.cpu_count())
    run = asked.model
    if not (run / "model.safetensors").is_file():
        raise RunError(f"{run}: holds no model.safetensors; train one with: regard train multi30k")
