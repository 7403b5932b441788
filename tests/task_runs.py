"""A tiny run of every task, and what can be given to each: for tests that all tasks must pass."""

from functools import cache

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

from caption_runs import save_picture
from classifiers import classifier_recipe
from forecasts import forecast_recipe, train_recipe
from languages import language_recipe
from picture_runs import train_picture_classifier
from regard.manifest import sha256_of_file
from regard.recipes.open_run import Run
from regard.recipes.run_folder import RunFolder
from regard.recipes.transfer.adapters import Adapter, AdapterInfo
from regard.tasks.registry import TASKS
from regard.tasks.translation.task import Translation, new_model

SHARED = {
    "translation": "tiny_run",
    "chat": "chat_run",
    "caption": "caption_run",
    "picture-classification": "vit_run",
}
"""Task -> the fixture of its run."""
OTHERS = {
    "bidirectional-language-model": lambda folder: language_recipe("elmo", folder),
    "forecast": lambda folder: forecast_recipe("model.attention=softmax"),
    "language-model": lambda folder: language_recipe("gpt", folder),
    "masked-language-model": lambda folder: language_recipe("bert", folder),
    "text-classification": classifier_recipe,
}
"""Task -> its recipe, given a folder for its data."""
FRENCH_WORDS = ("Elle", "ne", "la", "visite", "pas", "en", "septembre", "Paul", "aime", "mer")
assert SHARED.keys() | OTHERS.keys() == TASKS.keys()


class TaskRuns:
    """The run of each task, trained when it is first needed, and variants of it."""

    def __init__(self, request, folders):
        self._request, self._folders = request, folders
        self.run = cache(self._run)
        self.weights, self.adapter = cache(self._weights), cache(self._adapter)
        self.other, self.names = cache(self._other), cache(self._names)

    def _run(self, task):
        """The folder of a run."""
        if task in SHARED:
            return self._request.getfixturevalue(SHARED[task])
        folder = self._folders.mktemp(task)
        return train_recipe(OTHERS[task](folder), folder / "run")

    def _weights(self, task):
        """A file of other weights for the run."""
        torch.manual_seed(0)
        tensors = load_file(self.run(task) / "model.safetensors")
        file = self._folders.mktemp(task) / "other.safetensors"
        save_file({name: x + 0.1 * torch.randn(x.shape).to(x) for name, x in tensors.items()}, file)
        return file

    def _adapter(self, task):
        """A file with an adapter for the run."""
        torch.manual_seed(0)
        weights = self.run(task) / "model.safetensors"
        factors = {}
        for name, x in load_file(weights).items():
            if x.ndim == 2 and x.is_floating_point():
                factors[f"{name}.up"] = 0.1 * torch.randn(len(x), 1)
                factors[f"{name}.down"] = torch.randn(1, x.shape[1])
        file = self._folders.mktemp(task) / "adapter.safetensors"
        info = AdapterInfo(base=sha256_of_file(weights), rank=1, run="other", trained_on="others")
        Adapter(info, factors).save(file)
        return file

    def _other(self, task):
        """Another run, with which the first can answer together."""
        if task == "translation":
            return self._request.getfixturevalue("other_run")
        folder, seed = self._folders.mktemp(task), ("training.seed=2", "training.steps=5")
        if task == "picture-classification":
            pictures = self._request.getfixturevalue("shape_folder")
            return train_picture_classifier(folder / "run", pictures, *seed)
        return train_recipe(classifier_recipe(folder, "gpt", *seed), folder / "run")

    def _names(self, task):
        """What the arguments of commands may refer to, by name."""
        found = {"weights": self.weights(task), "adapter": self.adapter(task)}
        if task in ("translation", "text-classification", "picture-classification"):
            found["other"] = self.other(task)
        return found | self._files()

    def _files(self):
        folder = self._folders.mktemp("files")
        Image.new("RGB", (40, 12), "red").save(folder / "wide.png")
        dictionary = folder / "fr-en.tsv"
        dictionary.write_text("".join(f"{word}\tZanzibar\n" for word in FRENCH_WORDS))
        picture = save_picture(folder / "picture.png")
        files = {"french": folder / "french.txt", "english": folder / "english.txt"}
        files["french"].write_text("Elle part.\nPaul aime la mer.\n")
        files["english"].write_text("The sea.\nThe sea in June.\n")
        return files | {"dictionary": dictionary, "wide": folder / "wide.png", "picture": picture}


@pytest.fixture(scope="session")
def task_runs(request, tmp_path_factory):
    """Tiny runs of every task."""
    return TaskRuns(request, tmp_path_factory)


def untrained_translator(recipe, tokenizers, folder):
    """A run of translation whose model, by torch's generator, has learned nothing."""
    task = Translation(recipe, folder)
    task.tokenizers = tokenizers
    return Run(recipe, task, new_model(recipe, tokenizers).eval(), RunFolder(folder))
