import numpy as np
import pytest

import regard
from forecasts import train_forecaster
from regard.errors import CorpusError, SettingsError


@pytest.fixture(scope="module", params=["linear", "softmax"])
def forecaster(request, tmp_path_factory):
    overrides = ("training.steps=400", f"model.attention={request.param}")
    return regard.load(train_forecaster(tmp_path_factory.mktemp("run"), *overrides), device="cpu")


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    path = train_forecaster(tmp_path_factory.mktemp("plain"), "model.attention=none")
    return regard.load(path, device="cpu")


def test_the_next_number_whatever_the_size_and_the_length(forecaster):
    for numbers in (
        [1, 1, 2, 3, 5, 8],
        [2, 3],
        [1e200, 1.6e200, 2.6e200],
        [n for n in range(1, 40)],
    ):
        short = forecaster(numbers)
        scaled = forecaster([7.0 * n for n in numbers])
        np.testing.assert_allclose(scaled.forecast, 7 * short.forecast, rtol=1e-5)
    assert abs(forecaster([1, 1, 2, 3, 5, 8]).value / 13 - 1) < 0.1


def test_steps_ahead_are_made_from_forecasts(forecaster):
    three = forecaster([1, 2, 3, 5], steps=3)
    assert three.forecast.shape == (3, 1)
    again = forecaster([1, 2, 3, 5, *three.forecast[:2, 0]])
    np.testing.assert_allclose(again.forecast[0], three.forecast[2])
    assert str(three) == " ".join(f"{number:.6g}" for number in three.forecast[:, 0])


def test_a_look_has_a_weight_for_each_number_and_changes_nothing(forecaster):
    numbers = [1, 1, 2, 3]
    seen = forecaster(numbers, look=True)
    assert seen.value == forecaster(numbers).value
    attention = seen.attention
    assert attention.weights.shape == (4,)
    assert attention.labels == ("1", "1", "2", "3")
    softmax = forecaster.task.recipe.model.attention == "softmax"
    assert attention.normalized is softmax
    if softmax:
        assert abs(float(attention.weights.sum()) - 1) < 1e-6
    assert seen.to_json()["attention"]["normalized"] is softmax
    longer = forecaster(range(1, 12), look=True).attention
    assert longer.labels == ("6", "7", "8", "9", "10", "11")  # the window


def test_interventions_change_the_forecast_and_the_recorded_weights(forecaster):
    numbers = [1, 2, 3, 5]
    plain = forecaster(numbers, look=True)
    flat = forecaster(numbers, changes=[regard.Flattened("cross", 0)])
    assert flat.attention.weights.tolist() == [0.25] * 4
    assert flat.value != flat.before.value == plain.value
    silent = forecaster(numbers, changes=[regard.Silenced("cross", 0, 0)])
    assert not silent.attention.weights.any()
    assert silent.to_json()["before"] == [plain.value]


def test_without_attention_there_is_nothing_to_look_at(plain):
    assert plain([1, 2, 3]).attention is None
    with pytest.raises(SettingsError, match="has no attention to look at; train one that has"):
        plain([1, 2, 3], look=True)
    with pytest.raises(SettingsError, match="was not recorded"):
        plain([1, 2, 3]).plot()


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([], "the series is empty"),
        ([1, float("nan")], "expected finite numbers"),
        ([1, 1e301], "expected finite numbers of at most 1e"),
        ([[1, 2], [3, 4]], r"a time step has 1 numbers \(fibonacci\), got 2"),
        ([[1], [3, 4]], "time steps must have equally many numbers"),
    ],
)
def test_series_that_cannot_be_forecast(plain, numbers, message):
    with pytest.raises((SettingsError, CorpusError), match=message):
        plain(numbers)
    with pytest.raises(SettingsError, match="steps: must be at least 1"):
        plain([1, 2], steps=0)


def test_fewer_numbers_than_were_trained_with_are_noted(plain):
    assert plain([1, 2]).notes == ()
    assert "1 time steps are fewer than the 2" in plain([1]).notes[0]


def test_numbers_that_the_scale_of_the_series_cannot_tell_apart_are_noted(tmp_path):
    path = train_forecaster(tmp_path / "run", "corpus.scaling=minmax", "training.steps=2")
    forecaster = regard.load(path, device="cpu")
    assert "all these numbers look the same" in forecaster([1, 2, 3]).notes[0]
    assert forecaster(forecaster.task.series.values[-6:]).notes == ()


def test_several_columns(tmp_path):
    table = tmp_path / "own.csv"
    table.write_text("\n".join(["a,b", *(f"{n},{60 - n}" for n in range(60))]))
    corpus = f"corpus={{file: {table}, columns: [a, b], window: 6, scaling: window-minmax}}"
    forecaster = regard.load(train_forecaster(tmp_path / "run", corpus), device="cpu")
    assert forecaster.parse("1,2 3,4") == [[1, 2], [3, 4]]
    answer = forecaster(forecaster.read([str(table)]), steps=2, look=True)
    assert answer.forecast.shape == (2, 2)
    assert len(answer.to_json()["forecast"][0]) == 2
    assert str(answer).count(",") == 2
