import math
import shutil
from dataclasses import replace

import pytest
import torch

from regard.decoding.batch_search import search_many
from regard.engines.ctranslate2 import parity_check
from regard.engines.ctranslate2.exporter import export_to
from regard.engines.ctranslate2.parity_check import SAMPLE_SIZE, check_parity, draw_sample
from regard.recipes.open_run import open_run
from regard.text.special_tokens import SPECIAL_PIECES
from regard.types import Hypothesis

pytest.importorskip("ctranslate2")


def test_the_sample_is_of_held_out_sentences(tiny_run):
    run = open_run(tiny_run, device=torch.device("cpu"))
    sample = draw_sample(run)
    assert sample.origin == "20 sentences of the run's test split"
    held_out = (tiny_run / "data" / "test.source.txt").read_text().splitlines()
    assert [line.texts[0] for line in sample.lines] == held_out
    assert all(len(line.parts) == 1 for line in sample.lines)
    assert draw_sample(run) == sample


def test_without_data_the_sample_is_of_random_tokens(tiny_run, tmp_path):
    copied = shutil.copytree(tiny_run, tmp_path / "run")
    shutil.rmtree(copied / "data")
    run = open_run(copied, device=torch.device("cpu"))
    sample = draw_sample(run)
    assert sample.origin == f"{SAMPLE_SIZE} sentences of random tokens, as the run's data are gone"
    ids = {id_ for line in sample.lines for id_ in line.parts[0]}
    assert min(ids) >= len(SPECIAL_PIECES)
    assert max(ids) < run.tokenizers.source.size
    assert draw_sample(run) == sample


def test_the_native_search_has_one_thread(tiny_run, monkeypatch, tmp_path):
    """With several, each short operation ends in a barrier, which is slow on busy cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    seen = []

    def search(*args, **kwargs):
        seen.append(torch.get_num_threads())
        return search_many(*args, **kwargs)

    monkeypatch.setattr(parity_check, "search_many", search)
    try:
        export_to(
            open_run(tiny_run, device=torch.device("cpu")), "model", "float32", tmp_path / "fast"
        )
        assert torch.get_num_threads() == 2, "CTranslate2 would have torch on one thread"
    finally:
        torch.set_num_threads(threads)
    assert seen == [1]


class Nonsense:
    """An engine whose every score is NaN."""

    def __init__(self, card):
        self.card = card

    def search(self, sources, settings, *, prefixes):
        return [[Hypothesis((5,), math.nan, math.nan, True)] for _ in sources]

    def log_probabilities(self, pairs):
        return [[math.nan] for _ in pairs]


class Nearly(Nonsense):
    """An engine that finds what the native search found, but one translation."""

    def search(self, sources, settings, *, prefixes):
        *same, [other, *_] = self.card
        return [*same, [replace(other, score=other.score - 1)]]

    def log_probabilities(self, pairs):
        return [[0.0] for _ in pairs]


def test_one_translation_that_differs_is_enough_to_refuse_an_export(tiny_run, monkeypatch):
    found = []
    search = lambda *args, **options: found.extend(search_many(*args, **options)) or found  # noqa: E731
    monkeypatch.setattr(parity_check, "search_many", search)
    report = check_parity(
        open_run(tiny_run, device=torch.device("cpu")), Nearly(found), Nearly(found)
    )
    assert report.refused.startswith("1 of 20 sentences")


def test_an_export_whose_scores_are_nan_is_refused(tiny_run):
    run = open_run(tiny_run, device=torch.device("cpu"))
    report = check_parity(run, Nonsense(None), Nonsense(None))
    assert "are translated differently in float32" in report.refused
    assert (report.loss, report.score_difference) == (0, 0)  # what JSON can hold
