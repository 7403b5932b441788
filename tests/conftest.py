"""Shared by tests of several folders: some small runs, trained once for each worker."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from caption_runs import train_captioner
from chats import train_chat
from picture_runs import picture_folders, train_picture_classifier
from regard.tasks.translation.pipeline import load
from tiny import train_tiny

pytest_plugins = ["browser", "task_runs"]  # the fixtures `chromium` and `task_runs`

# The same examples each time, so that results are comparable; `make fuzz` draws others.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

# Runs sync every file to the disk; in memory that takes no time.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 6e9:  # they write 2 GB at most
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

gc.disable()  # until all is imported and frozen: modules are never garbage

os.environ.pop("COLUMNS", None)  # xdist sets it, and consoles made during imports would keep it


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Run slow tests first, so that at the end no worker is busy while others idle."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_unconfigure():
    gc.unfreeze()  # nanobind checks for leaks at exit


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory):
    """The folder of a finished run; tests that change it work on a copy."""
    return train_tiny(tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture(scope="session")
def other_run(tmp_path_factory):
    """The folder of a run of another family with the same vocabulary."""
    return train_tiny(tmp_path_factory.mktemp("runs") / "other", family="rnnsearch")


@pytest.fixture(scope="session")
def words_run(tmp_path_factory):
    """The folder of a run with a vocabulary of few words."""
    few = "text={source: {kind: words, size: 40}, joint: false}"
    return train_tiny(tmp_path_factory.mktemp("runs") / "words", few, "model.embeddings=target")


@pytest.fixture(scope="session")
def chat_run(tmp_path_factory):
    """The folder of a chatbot."""
    return train_chat(tmp_path_factory.mktemp("runs") / "chat")


@pytest.fixture(scope="session")
def caption_run(tmp_path_factory):
    """The folder of a captioner's run; the features of its pictures are in a cache of its own."""
    folder = tmp_path_factory.mktemp("captions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        return train_captioner(folder / "run")


@pytest.fixture(scope="session")
def shape_folder(tmp_path_factory):
    """A folder of pictures of shapes, a folder for each colour."""
    return picture_folders(tmp_path_factory.mktemp("pictures") / "shapes")


@pytest.fixture(scope="session")
def vit_run(shape_folder, tmp_path_factory):
    """The folder of a classifier's run that knows the colours of shapes."""
    folder = tmp_path_factory.mktemp("vit")
    learned = ("training.steps=60", "training.augmentation={flip: true}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(folder / "cache"))
        return train_picture_classifier(folder / "run", shape_folder, *learned)


@pytest.fixture(scope="session")
def translator(tiny_run):
    """With the native engine, which can record attention; other engines are compared with it."""
    return load(tiny_run, device="cpu", engine="native")
