"""A server, and its page in a browser."""

from contextlib import contextmanager

import pytest

from browser import chromium, visit
from pages import DESK, open_page
from servers import process

__all__ = ["chromium"]


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """A function from the arguments of `regard serve` to the address of a server, for a while."""

    @contextmanager
    def serve(*arguments):
        with process(tmp_path_factory.mktemp("server"), *arguments) as server:
            yield f"{server.url}/"

    return serve


@pytest.fixture(scope="session")
def server(serve, tiny_run):
    """The address of a server for the tiny run."""
    with serve(f"fr-en={tiny_run}") as address:
        yield address


@pytest.fixture
def seen(chromium, server):
    """The page, opened; in the end it has called nobody else and complained of nothing."""
    with visit(chromium, allow=server, viewport=DESK) as seen:
        open_page(seen.page, server)
        yield seen
        assert seen.requests
        assert [url for url in seen.requests if not url.startswith(server)] == []
        assert seen.errors == []


@pytest.fixture
def page(seen):
    return seen.page


@pytest.fixture
def rough(chromium, server):
    """The page, not yet opened, for a server that will not behave: the console may complain."""
    with visit(chromium, allow=server, viewport=DESK) as seen:
        yield seen.page
