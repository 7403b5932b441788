from pathlib import Path

from regard.recipes.paths import NAMED_WEIGHTS, weights_file


def test_weights_by_name_and_by_path():
    run = Path("runs/travel")
    assert weights_file(run, "model") == run / "model.safetensors"
    for name in NAMED_WEIGHTS:
        assert weights_file(run, name) == run / "weights" / f"{name}.safetensors"
    assert weights_file(run, "elsewhere/some.safetensors") == Path("elsewhere/some.safetensors")
