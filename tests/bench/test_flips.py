"""A short form of `python -m bench flips`."""

import random

import pytest

from bench.flips import WRONG, flips, make_folders, replacements, try_damage

pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")
NAMES = ("classifier of pictures", "forecaster")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("flips")


@pytest.fixture(scope="module")
def folders(root):
    """Runs and exports."""
    return list(make_folders(root, NAMES))


def wrong(root, damages, *, listed):
    """What was wrong, and how many commands were tried."""
    found = [
        (damage.folder.name, damage.file, damage.what, command, outcome)
        for damage in damages
        for command, outcome in try_damage(root, damage, listed=listed)
    ]
    return [one for one in found if one[-1].startswith(WRONG)], len(found)


def test_a_flipped_bit_is_found_and_changes_no_answer(root, folders):
    said, count = wrong(root, flips(folders, 15, random.Random(1)), listed=True)
    assert said == []
    assert count > 30


def test_whatever_takes_the_place_of_a_file_every_command_ends_in_an_answer_or_a_line(
    root, folders
):
    damages = list(replacements(folders))
    some = damages[::6]  # each file, and each replacement
    assert {(one.folder, one.file) for one in some} == {(one.folder, one.file) for one in damages}
    assert {one.what for one in some} == {one.what for one in damages}
    said, count = wrong(root, some, listed=False)
    assert said == []
    assert count > 60
