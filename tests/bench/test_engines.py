"""Quality stands beside speed."""

import pytest

from bench.engines import contenders, one_thread, quality, signature
from bench.exports import test_set as held_out
from regard.errors import RunError


def answers(*texts):
    return [{"texts": ["old"] * len(texts)}, {"texts": list(texts)}]


def test_outputs_that_were_timed_are_scored_and_compared():
    said = {
        "A": answers("the cat sat on the mat", "a dog"),
        "B": answers("the cat sat on the mat", "a cat"),
    }
    notes = quality(said, ["the cat sat on the mat", "a dog"])
    assert notes["A"] == {"BLEU": "100.00", "same as first": "100.0%"}
    assert notes["B"]["same as first"] == "50.0%"
    assert float(notes["B"]["BLEU"]) < 100
    assert "version:" in signature()


def test_ctranslate2_has_a_worker_for_each_core():
    best = next(one for one in contenders(4) if one.name == "CTranslate2 int8")
    assert (best.setup.workers, best.setup.threads) == (4, 1)
    assert all((one.setup.workers, one.setup.threads) == (1, 1) for one in one_thread())


def test_the_first_pairs_of_the_test_split(tiny_run, tmp_path):
    assert len(held_out(tiny_run, 5).sources) == len(held_out(tiny_run, 5).references) == 5
    with pytest.raises(RunError, match=r"holds no test\.source\.txt to translate"):
        held_out(tmp_path, 5)
