"""A random model of each family answers as in `transformers`, or is refused by a setting's name."""

from dataclasses import fields
from itertools import chain

import pytest

pytest.importorskip("transformers")

import transformers

from bench.fuzz_folders import FAMILIES, UNDRAWN
from bench.import_fuzz import TEXTS, run_model


@pytest.mark.parametrize("name", FAMILIES)
def test_models_of_each_family_answer_as_in_transformers(name, tmp_path):
    texts = [TEXTS[0], TEXTS[5]] if FAMILIES[name].search else [TEXTS[0], TEXTS[2], TEXTS[4]]
    for number in range(4):
        outcome = run_model(name, 2, number, texts, tmp_path / str(number))
        if outcome.refused is None:
            break
        assert outcome.named, outcome.refused
    assert outcome.compared
    assert not outcome.differences


@pytest.mark.parametrize("name", FAMILIES)
def test_every_setting_of_a_configuration_is_drawn_or_has_a_reason(name):
    family = FAMILIES[name]
    known = {one.name for one in fields(family.config) if not one.name.startswith("_")}
    common = {one.name for one in fields(transformers.PreTrainedConfig)} - {"dtype", "problem_type"}
    missing = known - common - {*family.draws} - {*chain(*UNDRAWN.values())}
    assert len(known) > 20
    assert not missing
