"""Series of numbers: generated or read from a table, split, cut into windows and scaled."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, model_validator

from regard.atomic_io import write_atomic
from regard.corpora.corpus import SplitName
from regard.corpora.readers.pair_files import (
    BLANK_ROWS,
    file_label,
    find_columns,
    name_ending,
    read_rows,
)
from regard.corpora.source import FilesOptions, KnownCorpus, Sample, SourceSettings
from regard.errors import CorpusError
from regard.settings import NumPositions, Settings, abbreviate

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]

MAX_FIBONACCI_TERMS = 1436  # the next one exceeds `MAX_MAGNITUDE`
MAX_MAGNITUDE = 1e300  # differences and forecasts of such numbers are finite
TUTORIAL_SEED = 13
"""The seed of the split in the tutorial that the lectures cite, https://machinelearningmastery.com/
adding-a-custom-attention-layer-to-recurrent-neural-network-in-keras."""

GENERATED_SERIES = {"fibonacci": "1, 2, 3, 5, 8, …: the series of numbers of the lectures"}
"""Name -> what it is."""
Scaling = Literal["minmax", "window-maxabs", "window-minmax"]
Share = Annotated[float, Field(ge=0, lt=1)]


class SeriesSplitSettings(Settings):
    """Which windows are held out."""

    order: Literal["time", "random"] = "time"
    """`time`: the last windows, first those for validation, then those for testing. `random`: any
    windows, as in the lectures; their numbers also occur in windows of the training set."""
    valid: Share = 0.1
    """Share of all windows to validate with; 0 validates on the training set."""
    test: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """Share of all windows to test with."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = TUTORIAL_SEED
    """The seed of the random order."""


class SeriesSettings(SourceSettings):
    """A generated series or columns of a table, and how windows are cut from it."""

    what, rank = "is a series of numbers", 2
    own = "file, a table of your own"
    only_own = frozenset({"columns"})
    kept = ("columns", "window", "shortest", "scaling", "split")

    name: Literal["fibonacci"] | None = None
    """A generated series: `fibonacci` is 1, 2, 3, 5, 8, …"""
    terms: Annotated[int, Field(ge=3, le=MAX_FIBONACCI_TERMS)] = 1200
    """Number of terms of a generated series."""
    file: str | None = None
    """A table with a row for each time step: .csv or .tsv, gzipped or not; - is the standard input.
    Not used together with `name`."""
    columns: tuple[NonNegativeInt | str, ...] = (0,)
    """The columns of the file that are read and forecast, each a feature of a time step: numbers
    from 0, or names of the header. A first line without numbers in them is a header."""
    window: NumPositions = 20
    """The time steps from which the next one is forecast."""
    shortest: NumPositions | None = None
    """Windows are shortened at random in training, to at least this, so that short series can be
    forecast too; null: all windows have the length of `window`."""
    scaling: Scaling = "window-maxabs"
    """`minmax`: the whole series is scaled to 0 to 1, as in the lectures. `window-maxabs`: each
    window is divided by its largest magnitude, so that numbers of any size can be forecast.
    `window-minmax`: each window is scaled to 0 to 1."""
    split: SeriesSplitSettings = SeriesSplitSettings()
    """Which windows are held out."""

    @property
    def shortest_window(self) -> int:
        """The fewest time steps of a window."""
        return self.window if self.shortest is None else self.shortest

    @classmethod
    def known(cls) -> Mapping[str, KnownCorpus]:
        return {
            name: KnownCorpus(what, None, ("terms",)) for name, what in GENERATED_SERIES.items()
        }

    def sample(self, split: SplitName) -> Sample:
        assert self.name is not None
        series = build_series(self)
        numbers = [f"{number:g}" for number in series.values[:, 0]]
        rows = (
            {"window": " ".join(numbers[end - self.window : end]), "next": numbers[end]}
            for end in split_targets(self, series)[split].tolist()
        )
        return Sample(rows, f"{self.name}: {GENERATED_SERIES[self.name]}")

    def files(self) -> dict[SplitName, tuple[str, ...]]:
        return {} if self.file is None else {"train": (self.file,)}

    @model_validator(mode="after")
    def _check_windows(self) -> Self:
        if self.shortest_window > self.window:
            raise ValueError(f"shortest {self.shortest} must be no more than window {self.window}")
        if not self.columns:
            raise ValueError("columns is an empty list: name the columns to forecast")
        return self

    @classmethod
    def of_files(cls, own: Mapping[str, Any], files: FilesOptions) -> dict[str, Any]:
        """A table, cut into windows with the settings of `own`, whose `columns` are kept if it is a
        table too.
        """
        given = super().of_files(own, files)
        if "file" not in own:
            given.pop("columns", None)
        given["file"] = given.pop("train")
        return given


class NumberSeries(NamedTuple):
    """A series as it was measured."""

    name: str
    columns: tuple[str, ...]  # F names
    values: Numbers  # (N, F)


def build_series(settings: SeriesSettings) -> NumberSeries:
    """The series that the settings describe."""
    if settings.file is not None:
        return read_series(settings.file, settings.columns)
    return NumberSeries("fibonacci", ("fibonacci",), fibonacci(settings.terms)[:, None])


def fibonacci(terms: int) -> Numbers:
    """1, 2, 3, 5, 8, …: (terms,), as in the lectures, of which the 1200th is about 4.41e250."""
    values = np.ones(terms)
    values[1:2] = 2
    for place in range(2, terms):
        values[place] = values[place - 1] + values[place - 2]
    return values


def read_series(path: str, columns: tuple[int | str, ...]) -> NumberSeries:
    """Columns of a table; an error names the first cell that is not a finite number."""
    name = file_label(path)
    rows = read_rows(path, "tsv" if name_ending(path) == "tsv" else "csv", limit="examples")
    number, first = next(rows, (1, []))
    if first in BLANK_ROWS:
        raise CorpusError(f"{name}: its first line is empty; expected a table of numbers")
    named = any(isinstance(column, str) for column in columns)
    places = find_columns(columns, first, name)
    _check_places(name, number, places, first)
    is_header = named or not any(_is_number(first[place]) for place in places)
    kept = [] if is_header else [_read_row(name, number, first, places)]
    kept += [_read_row(name, number, row, places) for number, row in rows if row not in BLANK_ROWS]
    titles = tuple(first[p].strip() if is_header else f"column {p}" for p in places)
    return NumberSeries(name, titles, np.array(kept, np.float64).reshape(-1, len(places)))


def write_series(path: Path, series: NumberSeries) -> None:
    """Write a series as CSV with a header; every number is read back as it was."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([f"column {name}" if _is_number(name) else name for name in series.columns])
    writer.writerows(map(repr, row) for row in series.values.tolist())
    write_atomic(path, text.getvalue().encode())


def _read_row(name: str, number: int, row: list[str], places: list[int]) -> list[float]:
    _check_places(name, number, places, row)
    return [parse_number(row[place], f"{name}: line {number}, column {place}") for place in places]


def _check_places(name: str, number: int, places: list[int], row: list[str]) -> None:
    if max(places) >= len(row):
        raise CorpusError(
            f"{name}: line {number}: column {max(places)} was asked for, counted from 0, and the "
            f"line has {len(row)}: {abbreviate(', '.join(row))}"
        )


def parse_number(text: str, where: str) -> float:
    """The finite number in `text`; an error names the place `where` it was found."""
    try:
        value = float(text)
    except ValueError:
        found = f"{abbreviate(text)!r} is not a number" if text.strip() else "it is empty"
        raise CorpusError(
            f"{where}: expected a number, and {found}; correct or remove it"
        ) from None
    if not abs(value) <= MAX_MAGNITUDE:  # also if it is NaN
        raise CorpusError(
            f"{where}: expected a finite number of at most {MAX_MAGNITUDE:g}, got "
            f"{abbreviate(text)!r}; fill the gap, or remove it"
        )
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def split_targets(settings: SeriesSettings, series: NumberSeries) -> dict[SplitName, Indices]:
    """Indices of the numbers to forecast, in each split: those with enough numbers before them.

    With the lectures' settings they are those of the tutorial that the lectures cite.
    """
    shortest, rows = settings.shortest_window, len(series.values)
    count, split = max(rows - shortest, 0), settings.split
    num_test, num_valid = round(split.test * count), round(split.valid * count)
    num_train = count - num_valid - num_test
    if num_train < 1 or num_test < 1 or (split.valid and num_valid < 1):
        raise CorpusError(
            f"{series.name}: too short: its {rows} numbers hold {count} windows of {shortest} and "
            f"the number after them, and {split.valid:.0%} and {split.test:.0%} of these are held "
            "out; give a longer series, or a smaller corpus.window"
        )
    targets = np.arange(shortest, rows)  # (count,)
    if split.order == "random":
        # not default_rng: its streams may change between versions of NumPy
        targets = targets[np.random.RandomState(split.seed).permutation(count)]
    train, test = targets[: num_train + num_valid], targets[num_train + num_valid :]
    valid = train[num_train:] if num_valid else train
    return {"train": train[:num_train], "valid": valid, "test": test}


class Scale(NamedTuple):
    """Numbers are scaled to (x - offset) / factor."""

    offset: Numbers  # (..., F)
    factor: Numbers  # (..., F) never 0

    def apply(self, values: Numbers) -> Numbers:
        """Scaled numbers."""
        return (values - self.offset) / self.factor

    def invert(self, scaled: Numbers) -> Numbers:
        """The unscaled numbers; those that are too large become infinite."""
        with np.errstate(over="ignore"):
            return scaled * self.factor + self.offset


def minmax_scale(values: Numbers, mask: NDArray[np.bool_] | None = None) -> Scale:
    """Scales `values` (..., S, F) where `mask` (..., S) is True to 0 to 1."""
    shown = np.True_ if mask is None else mask[..., None]
    low = values.min(-2, initial=np.inf, where=shown)  # (..., F)
    high = values.max(-2, initial=-np.inf, where=shown)
    return Scale(low, _nonzero(high - low))


def maxabs_scale(values: Numbers, mask: NDArray[np.bool_]) -> Scale:
    """Scales the largest magnitude of `values` (..., S, F) where `mask` (..., S) is True to 1."""
    factor = np.abs(values).max(-2, initial=0.0, where=mask[..., None])  # (..., F)
    return Scale(np.zeros_like(factor), _nonzero(factor))


def _nonzero(factor: Numbers) -> Numbers:
    return np.where(factor > 0, factor, 1.0)


class Windows(NamedTuple):
    """Scaled windows of a series, padded on the left: the newest number is in the last column."""

    values: Numbers  # (B, S, F) zeros where there is padding
    mask: NDArray[np.bool_]  # (B, S) True where a time step is real
    scale: Scale  # (B, F) of each window


class SeriesWindows:
    """Cuts windows from a series, scaled as the settings say.

    `minmax` scales by the whole series given here, including held-out numbers, as in the lectures.
    """

    def __init__(self, settings: SeriesSettings, series: NumberSeries) -> None:
        self.settings, self.series = settings, series
        self.whole = minmax_scale(series.values)  # (F,)

    def cut(self, values: Numbers, ends: Indices, lengths: Indices) -> Windows:
        """The windows of `values` (N, F) that end before the indices `ends` (B,), of `lengths`
        (B,) numbers each, at most `window`.
        """
        width = self.settings.window
        back = np.arange(width, 0, -1)  # (S,) how far a column is from the end
        mask = back <= lengths[:, None]  # (B, S)
        raw = values[np.where(mask, ends[:, None] - back, 0)]  # (B, S, F)
        scale = self._scale(raw, mask)
        scaled = Scale(scale.offset[:, None], scale.factor[:, None]).apply(raw)
        return Windows(np.where(mask[..., None], scaled, 0.0), mask, scale)

    def last(self, values: Numbers) -> Windows:
        """The window (1, S, F) at the end of `values` (N, F)."""
        length = min(len(values), self.settings.window)
        return self.cut(values, np.array([len(values)]), np.array([length]))

    def _scale(self, raw: Numbers, mask: NDArray[np.bool_]) -> Scale:
        match self.settings.scaling:
            case "minmax":
                shape = (len(raw), raw.shape[-1])
                return Scale(*(np.broadcast_to(x, shape) for x in self.whole))
            case "window-minmax":
                return minmax_scale(raw, mask)
            case "window-maxabs":
                return maxabs_scale(raw, mask)

    def full_lengths(self, targets: Indices) -> Indices:
        """How many numbers are before each target (B,), at most `window`: (B,)."""
        return np.minimum(targets, self.settings.window)

    def random_lengths(self, targets: Indices, random: np.random.Generator) -> Indices:
        """Random lengths from `shortest` to `full_lengths`, all equally likely: (B,)."""
        longest = self.full_lengths(targets)
        return random.integers(self.settings.shortest_window, longest, endpoint=True)
