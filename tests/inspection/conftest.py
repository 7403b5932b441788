import pytest

from looks import make_document
from views import SHORT, opened


@pytest.fixture
def short(chromium, tmp_path):
    """A viewer of a short sentence, its search and its heads, in a file."""
    document = make_document(*SHORT, others=["a sea is calm"], without=True)
    with opened(chromium, tmp_path, document) as page:
        yield page
