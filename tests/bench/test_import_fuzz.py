"""A random model of each family answers as in `transformers`, or is refused by a setting's name."""

import pytest

pytest.importorskip("transformers")

from bench.fuzz_folders import FAMILIES
from bench.import_fuzz import SHORT_TEXTS, names_a_setting, run_model

SILENT = [name for name, one in FAMILIES.items() if one.kind not in ("translation", "continuation")]


@pytest.mark.parametrize("name", SILENT)
def test_models_of_each_family_answer_as_in_transformers(name, tmp_path):
    for number in range(4):
        outcome = run_model(name, 2, number, SHORT_TEXTS[:3], tmp_path / str(number))
        if outcome.refused is None:
            break
        assert names_a_setting(outcome.refused), outcome.refused
    assert outcome.compared
    assert not outcome.differences
