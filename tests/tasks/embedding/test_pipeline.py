import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli.main import command_app
from regard.errors import SettingsError
from regard.recipes import train_run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder


class Silent:
    def noted(self, message): ...
    def logged(self, step, numbers): ...
    def validated(self, step, numbers, *, best): ...
    def prepared(self, task, model): ...


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A run of a tiny model in both directions."""
    folder = tmp_path_factory.mktemp("elmo")
    (folder / "text.txt").write_text("the cat sat on the mat .\n" * 20)
    recipe = make_recipe(
        {
            "task": "bidirectional-language-model",
            "name": "tiny",
            "corpus": {"train": str(folder / "text.txt"), "documents": "line"},
            "text": {"kind": "whitespace", "size": 0},
            "model": {
                "family": "elmo",
                "width": 4,
                "units": 6,
                "character_width": 3,
                "filters": [[1, 3], [2, 3]],
                "max_characters": 8,
            },
            "training": {"steps": 2, "batch_size": 2, "window": 6, "schedule": {"warmup": 1}},
        },
        [],
        where="test",
    )
    train_run.train(
        recipe,
        RunFolder(folder / "run"),
        device=torch.device("cpu"),
        reporter=Silent(),
        stop_requested=lambda: False,
    )
    return folder / "run"


def test_every_word_has_a_vector_of_its_context(path):
    embedder = regard.load(path, device="cpu")
    texts = ["the cat sat", "", "a tomcat"]
    found = embedder(texts)
    assert [one.words for one in found] == [("the", "cat", "sat"), (), ("a", "tomcat")]
    assert [one.vectors.shape for one in found] == [(3, 8), (0, 8), (2, 8)]
    alone = embedder(["the cat sat"])[0]
    np.testing.assert_allclose(alone.vectors, found[0].vectors, rtol=1e-5, atol=1e-6)
    other = embedder(["the cat ran"])[0]
    assert not np.allclose(other.vectors[0], alone.vectors[0])


def test_the_lowest_layer_knows_the_word_alone(path):
    embedder = regard.load(path, device="cpu")
    one, other = (embedder([text], layer=0)[0].vectors for text in ("the cat sat", "the mat on"))
    np.testing.assert_allclose(one[0], other[0], rtol=1e-5)
    assert not np.allclose(one[0], embedder(["the cat sat"], layer=2)[0].vectors[0])
    with pytest.raises(SettingsError, match="layer 3: the model has layers 0 to 2"):
        embedder(["the"], layer=3)
    with pytest.raises(TypeError, match="must be a list of texts"):
        embedder("the")


def test_embed_prints_words_and_numbers(path):
    app = command_app("embed")
    plain = CliRunner().invoke(app, [str(path), "the cat", "sat"])
    assert plain.exit_code == 0, plain.output
    lines = plain.stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["the", "cat", "", "sat", ""]
    assert len(lines[0].split("\t")[1].split()) == 8
    found = CliRunner().invoke(app, [str(path), "the cat", "--json"])
    document = json.loads(found.stdout)
    assert document["words"] == ["the", "cat"]
    assert len(document["vectors"][1]) == 8
