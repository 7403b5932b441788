import pytest

import regard
from forecasts import train_forecaster
from regard.errors import RunError, SettingsError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return train_forecaster(tmp_path_factory.mktemp("run"), "training.steps=5")


def test_a_run_of_the_task_that_is_asked_for(path):
    assert isinstance(regard.load(path, task="forecast", device="cpu"), regard.Forecaster)
    with pytest.raises(RunError, match="its task is forecast, not caption"):
        regard.load(path, task="caption")
    with pytest.raises(RunError, match="nowhere: no such folder"):
        regard.load(path.parent / "nowhere", task="caption")


def test_translators_alone_have_ensembles(path):
    with pytest.raises(SettingsError, match="its task is forecast, which has no ensembl"):
        regard.load(path, path.parent)


def test_every_public_name_is_there():
    assert all(getattr(regard, name) is not None for name in regard.__all__)
