"""Data files named by options of a command, for tasks that do not learn from pairs."""

from collections.abc import Mapping
from typing import Any

from regard.errors import SettingsError

SPLITS = ("train", "valid", "test")


def file_names(
    files: Mapping[str, Any], *, skip_bad: bool = False, held_out: bool = True, many: bool = True
) -> dict[str, list[str]]:
    """The names of `--data`, `--valid` and `--test` by split; those that are not given are missing.

    Raises an error that names an option that the task does not use. `skip_bad`, `held_out` and
    `many` say whether it supports `--skip-bad`, `--valid` and `--test`, and several files per
    split.
    """
    if "languages" in files:
        raise SettingsError("--languages is for pairs of texts: drop it")
    named = {split: _as_list(files[split]) for split in SPLITS if split in files}
    if not held_out and len(named) > 1:
        raise SettingsError("--valid and --test: the task splits these off --data: drop them")
    for entries in named.values():
        for entry in entries:
            _check_entry(entry, skip_bad=skip_bad)
        if len(entries) > 1 and not many:
            raise SettingsError(f"--data is given {len(entries)} times: the task reads one file")
    return {split: [entry["data"] for entry in entries] for split, entries in named.items()}


def skips_bad(files: Mapping[str, Any]) -> bool:
    """Whether `--skip-bad` is given."""
    return "skip_bad" in _as_list(files["train"])[0]


def _as_list(given: Any) -> list[Mapping[str, Any]]:
    return given if isinstance(given, list) else [given]


def _check_entry(entry: Mapping[str, Any], *, skip_bad: bool) -> None:
    if "data" not in entry:
        raise SettingsError(
            "source and target files are for pairs of texts; give --data FILE, and for --valid and "
            "--test one file each"
        )
    if "weight" in entry:
        raise SettingsError(
            f"--data {entry['data']}={entry['weight']:g}: weights are for pairs of texts"
        )
    if "skip_bad" in entry and not skip_bad:
        raise SettingsError("--skip-bad: the task reads whole files and skips nothing; drop it")
