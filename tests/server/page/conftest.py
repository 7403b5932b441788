"""A server, and its page in a browser."""

from contextlib import contextmanager

import pytest

from browser import chromium, visit
from pages import DESK, open_page
from servers import process

__all__ = ["chromium"]


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """A function from arguments of `regard serve` and variables to an address, for a while."""

    @contextmanager
    def serve(*arguments, **environment):
        folder = tmp_path_factory.mktemp("server")
        with process(folder, *arguments, env=environment.items()) as server:
            yield f"{server.url}/"

    return serve


@pytest.fixture(scope="session")
def server(serve, tiny_run):
    """The address of a server for the tiny run, which it takes for a model of both directions."""
    with serve(f"fr-en={tiny_run}", f"en-fr={tiny_run}") as address:
        yield address


@pytest.fixture(scope="module")
def tab(chromium, server):
    """A tab for all tests of a module: a fresh one would have to fetch every script anew."""
    with visit(chromium, allow=server, viewport=DESK) as seen:
        seen.page.context.unroute_all()  # what is intercepted is not cached
        yield seen


@pytest.fixture
def rough(tab, server):
    """The page, not yet opened, for tests with a failing server: the console may have errors."""
    yield tab.page
    tab.page.unroute_all(behavior="ignoreErrors")
    tab.page.evaluate("localStorage.clear()")
    tab.page.context.clear_permissions()
    tab.page.goto("about:blank")


@pytest.fixture
def page(tab, rough, server):
    """The page, opened; fails if it has contacted another host or has errors in its console."""
    tab.requests.clear()
    tab.errors.clear()
    open_page(rough, server)
    yield rough
    assert tab.requests
    assert [url for url in tab.requests if not url.startswith(server)] == []
    assert tab.errors == []
