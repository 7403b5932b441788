from pathlib import Path

import pytest

from regard.errors import SettingsError
from regard.recipes.paths import NAMED_WEIGHTS, require_different, weights_file


def test_weights_by_name_and_by_path():
    run = Path("runs/travel")
    assert weights_file(run, "model") == run / "model.safetensors"
    for name in NAMED_WEIGHTS:
        assert weights_file(run, name) == run / "weights" / f"{name}.safetensors"
    assert weights_file(run, "elsewhere/some.safetensors") == Path("elsewhere/some.safetensors")


def test_a_run_is_named_once_unless_it_has_an_adapter(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    one, two, link = (tmp_path / name for name in ("one", "two", "link"))
    require_different([one, two])
    require_different([one, two, link], adapter="legal")
    for runs, adapter in (([one, two, link], None), ([one, two, two], "legal")):
        with pytest.raises(SettingsError, match=rf"{runs[-1]}: named twice; name each run once"):
            require_different(runs, adapter)
