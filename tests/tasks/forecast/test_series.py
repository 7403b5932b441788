import gzip
import lzma

import numpy as np
import pytest
from pydantic import ValidationError

from regard.errors import CorpusError
from regard.tasks.forecast.series import (
    MAX_FIBONACCI_TERMS,
    MAX_MAGNITUDE,
    NumberSeries,
    SeriesSettings,
    SeriesWindows,
    build_series,
    fibonacci,
    parse_number,
    read_series,
    split_targets,
    write_series,
)

LECTURES = SeriesSettings(
    name="fibonacci", scaling="minmax", split={"order": "random", "valid": 0, "test": 0.3}
)


def windows_of(settings):
    return SeriesWindows(settings, build_series(settings))


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_fibonacci_is_that_of_the_lectures():
    assert fibonacci(7).tolist() == [1, 2, 3, 5, 8, 13, 21]
    longest = fibonacci(MAX_FIBONACCI_TERMS + 1)
    assert longest[-2] < MAX_MAGNITUDE < longest[-1]


def test_the_first_window_has_the_numbers_on_the_slide():
    windows = windows_of(LECTURES)
    first = windows.cut(windows.series.values, np.array([20]), np.array([20])).values[0, :, 0]
    slide = [0, 2.2664e-251, 4.5327e-251, 9.0654e-251, 1.5865e-250, 1.5330e-247, 2.4805e-247]
    np.testing.assert_allclose(first[[0, 1, 2, 3, 4, 18, 19]], slide, rtol=5e-5)


def test_the_split_is_that_of_the_tutorial():
    splits = split_targets(LECTURES, build_series(LECTURES))
    order = np.random.RandomState(13).permutation(1180)
    assert (splits["train"] == order[:826] + 20).all()
    assert (splits["test"] == order[826:] + 20).all()
    assert splits["valid"] is not None
    assert (splits["valid"] == splits["train"]).all()


def test_a_split_by_time_tests_with_the_last_numbers():
    settings = SeriesSettings(name="fibonacci", terms=30, window=20, split={"valid": 0.2})
    splits = split_targets(settings, build_series(settings))
    assert splits["train"].tolist() == [20, 21, 22, 23, 24]
    assert splits["valid"].tolist() == [25, 26]
    assert splits["test"].tolist() == [27, 28, 29]


@pytest.mark.parametrize("scaling", ["minmax", "window-maxabs", "window-minmax"])
def test_scaling_can_be_undone(scaling):
    settings = SeriesSettings(name="fibonacci", terms=30, window=4, shortest=2, scaling=scaling)
    windows, ends, lengths = windows_of(settings), np.array([2, 9, 30]), np.array([2, 3, 4])
    values, mask, scale = windows.cut(windows.series.values, ends, lengths)
    assert mask.tolist() == [[False, False, True, True], [False, True, True, True], [True] * 4]
    assert not values[~mask].any()
    for row, (end, length) in enumerate(zip(ends, lengths, strict=True)):
        raw = values[row] * scale.factor[row] + scale.offset[row]
        wanted = windows.series.values[end - length : end]
        np.testing.assert_allclose(raw[4 - length :], wanted, rtol=1e-9)


def test_scaling_per_window_forgets_the_size():
    windows = windows_of(SeriesSettings(name="fibonacci", window=4, shortest=2))
    small, large = (windows.last(np.array([[1.0], [2.0], [3.0]]) * size) for size in (1, 1e200))
    np.testing.assert_allclose(small.values, large.values)
    assert small.values.max() == 1
    zeros = windows.last(np.zeros((3, 1)))
    assert (zeros.scale.factor == 1).all()


def test_window_minmax_of_equal_numbers_is_zero():
    windows = windows_of(SeriesSettings(name="fibonacci", window=4, scaling="window-minmax"))
    equal = windows.last(np.full((4, 1), 7.0))
    assert not equal.values.any()
    assert equal.scale.invert(np.zeros(1)) == 7


def test_random_lengths_are_from_the_shortest_to_all():
    windows = windows_of(SeriesSettings(name="fibonacci", window=4, shortest=2))
    targets = np.array([2, 3, 50] * 40)
    lengths = windows.random_lengths(targets, np.random.default_rng(0))
    assert [set(lengths[i::3].tolist()) for i in range(3)] == [{2}, {2, 3}, {2, 3, 4}]


def test_columns_of_a_table(tmp_path):
    path = write(tmp_path / "weather.csv", "day,warm,wet\n1,20.5,3\n2,21,-1e2\n")
    series = read_series(path, ("wet", "warm"))
    assert series.columns == ("wet", "warm")
    assert series.values.tolist() == [[3, 20.5], [-100, 21]]
    assert read_series(path, (1,)).values.tolist() == [[20.5], [21]]
    bare = write(tmp_path / "bare.tsv", "1\t2\n3\t4\n")
    assert read_series(bare, (1,)).values.tolist() == [[2], [4]]
    for blank in (write(tmp_path / "b.tsv", "1\t2\n\n"), write(tmp_path / "b.csv", "1,2\n\n")):
        assert read_series(blank, (1,)).values.tolist() == [[2]]
    zipped = tmp_path / "more.csv.gz"
    zipped.write_bytes(gzip.compress(b"x\n5\n6\n"))
    assert read_series(str(zipped), ("x",)).values.tolist() == [[5], [6]]
    packed = tmp_path / "more.tsv.xz"
    packed.write_bytes(lzma.compress(b"7\t8\n9\t10\n"))
    assert read_series(str(packed), (1,)).values.tolist() == [[8], [10]]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\n1,2\n", ("c",), "no columns are named 'c'; the header has 'a', 'b'"),
        ("a,b\n1,2\n", (2,), "column 2 was asked for, counted from 0, and the line has 2"),
        ("a\n1\ntwo\n", (0,), "line 3, column 0: expected a number, and 'two' is not a number"),
        ("a,b\n1,2\n,3\n", ("a",), "line 3, column 0: expected a number, and it is empty"),
        ("a\n1\nNaN\n", (0,), "line 3, column 0: expected a finite number .* got 'NaN'"),
        ("a\n1e999\n", (0,), "expected a finite number"),
        ("1,2\n3\n", (1,), "line 2: column 1 was asked for"),
        ("", (0,), "its first line is empty"),
    ],
)
def test_bad_tables_are_told_with_their_place(tmp_path, text, columns, message):
    with pytest.raises(CorpusError, match=message):
        read_series(write(tmp_path / "bad.csv", text), columns)


def test_a_series_that_is_too_short_is_told(tmp_path):
    settings = SeriesSettings(file=write(tmp_path / "short.csv", "1\n2\n3\n"))
    with pytest.raises(CorpusError, match="too short: its 3 numbers hold 0 windows of 20"):
        split_targets(settings, build_series(settings))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"file": "x.csv", "terms": 50}, "terms would have no effect on x.csv"),
        ({"file": "x.csv", "columns": []}, "columns is an empty list"),
        ({"file": "x.csv", "shortest": 30}, "shortest 30 must be no more than window 20"),
    ],
)
def test_settings_that_do_not_fit(given, message):
    with pytest.raises(ValidationError, match=message):
        SeriesSettings.model_validate(given)


def test_numbers_of_a_command_line():
    assert parse_number("1e3", "here") == 1000
    with pytest.raises(CorpusError, match="here: expected a number, and 'x' is not a number"):
        parse_number("x", "here")


def test_what_is_written_is_read_back_bit_for_bit(tmp_path):
    values = np.stack([fibonacci(300), -np.pi / fibonacci(300)], 1)
    write_series(tmp_path / "own.csv", NumberSeries("own", ("a, b", "1990"), values))
    found = read_series(str(tmp_path / "own.csv"), (0, 1))
    assert found.columns == ("a, b", "column 1990")
    assert (found.values == values).all()
