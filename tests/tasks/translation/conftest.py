"""What several tests of translation begin with."""

import pytest

from number_pairs import PAIRS, recipe, write_files


@pytest.fixture
def own(tmp_path):
    """A recipe for files of numbers in words, of which seven and five pairs are held out."""
    return recipe({"train": write_files(tmp_path, PAIRS), "split": {"valid": 7, "test": 5}})
