"""Contenders are asked in turn, and those who cannot run do not stop the others."""

import os
import sys

import pytest

from bench import contenders
from bench.contenders import (
    Contender,
    ContenderProcess,
    alternate_rounds,
    choose,
    process_tree_peak_memory,
    running_contenders,
)
from bench.peers import PEERS
from bench.peers.contract import PeerConfig
from regard.errors import SettingsError

OURS, THEIRS = Contender("regard", "regard"), Contender("Other", "joey")


class Fake:
    """A contender that answers with its turn, and fails at the turns it is told to."""

    def __init__(self, name, turns, fails_at=()):
        self.contender, self.turns, self.fails_at = Contender(name, "regard"), turns, fails_at
        self.asked = 0

    def ask(self, request):
        self.asked += 1
        self.turns.append(self.contender.name)
        if self.asked in self.fails_at:
            raise RuntimeError("out of breath")
        return {"seconds": float(self.asked)}


def silent(_):
    pass


def test_rounds_are_interleaved_and_the_first_does_not_count():
    turns = []
    results = alternate_rounds([Fake("A", turns), Fake("B", turns)], {}, 3, silent)
    assert "".join(turns) == "ABABABAB"
    assert [one["seconds"] for one in results.answers["A"]] == [2.0, 3.0, 4.0]
    assert results.dropped == {}


def test_a_contender_that_fails_is_left_out_and_the_others_go_on():
    turns = []
    results = alternate_rounds([Fake("A", turns, fails_at=[2]), Fake("B", turns)], {}, 3, silent)
    assert "".join(turns) == "ABABBB"
    assert results.dropped == {"A": "out of breath"}
    assert list(results.answers) == ["B"]
    assert len(results.answers["B"]) == 3


def test_an_interrupt_leaves_what_is_whole():
    turns = []

    class Last(Fake):
        def ask(self, request):
            if self.asked == 3:
                raise KeyboardInterrupt
            return super().ask(request)

    results = alternate_rounds([Fake("A", turns), Last("B", turns)], {}, 5, silent)
    assert {name: len(answers) for name, answers in results.answers.items()} == {"A": 2, "B": 2}


def test_an_interrupt_before_anything_is_known_goes_on():
    class First(Fake):
        def ask(self, request):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        alternate_rounds([First("A", [])], {}, 3, silent)


def test_too_few_rounds_are_refused():
    with pytest.raises(SettingsError, match="--rounds: 2 show no spread; ask for at least 3"):
        alternate_rounds([], {}, 2, silent)


def test_peers_that_are_not_installed_are_named(monkeypatch):
    monkeypatch.setattr(contenders, "is_installed", lambda key: key == "regard")
    chosen, left = choose([OURS, THEIRS], "all")
    assert chosen == [OURS]
    assert left == {"Other": "joeynmt is not installed"}


def test_only_the_peers_asked_for_run(monkeypatch):
    monkeypatch.setattr(contenders, "is_installed", lambda key: True)
    assert choose([OURS, THEIRS], "none") == ([OURS], {})
    assert choose([OURS, THEIRS], "joey") == ([OURS, THEIRS], {})
    assert choose([OURS, THEIRS], "hugging_face") == ([OURS], {})


def test_an_unknown_peer_is_refused():
    with pytest.raises(SettingsError, match="no such peer: marian; there are all, none, regard"):
        choose([OURS], "marian")


def test_a_process_of_its_own_says_why_it_cannot_run(tmp_path):
    with running_contenders(
        [OURS], lambda one: {"job": "translate", "folder": str(tmp_path)}, silent
    ) as (
        ready,
        dropped,
    ):
        assert ready == []
    assert "RunError" in dropped["regard"]


def test_a_process_of_its_own_translates(tiny_run):
    task = {"job": "translate", "folder": str(tiny_run)}
    runner = ContenderProcess(Contender("regard", "regard", PeerConfig()), task)
    try:
        request = {"texts": ["Jane visite l'Afrique en septembre.", ""], "beam": 2}
        together = runner.ask(request)
        apart = runner.ask({**request, "apart": True})
    finally:
        runner.close()
    assert together["texts"] == apart["texts"]
    assert together["texts"][1] == ""
    assert len(together["each"]) == 1
    assert len(apart["each"]) == 2
    assert together["seconds"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what another process holds")
def test_the_peak_of_a_process_is_known():
    assert process_tree_peak_memory(os.getpid()) > 10


def test_every_peer_has_a_file():
    folder = contenders.ROOT / "bench" / "peers"
    assert {key for key in PEERS if (folder / f"{key}.py").is_file()} == set(PEERS)
