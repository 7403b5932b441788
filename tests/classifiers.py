"""Tiny recipes of classifiers of texts, with a corpus that is learned in a second."""

from regard.recipes.recipe_files import make_recipe

WORDS = {"animal": ["cat", "dog", "cow", "hen"], "number": ["one", "two", "six", "ten"]}
ENCODERS = {
    "gpt": {"family": "gpt", "layers": 1, "width": 16, "heads": 2, "context": 16, "dropout": 0.1},
    "awd-lstm": {"family": "awd-lstm", "layers": 1, "width": 8, "units": 8},
    "bert": {"family": "bert", "layers": 1, "width": 16, "heads": 2, "context": 16},
    "elmo": {
        "family": "elmo",
        "layers": 1,
        "width": 8,
        "units": 12,
        "character_width": 4,
        "filters": [[1, 4], [2, 4]],
    },
}


def examples(count, start=0):
    """Labels and texts that say theirs by one word."""
    for number in range(start, start + count):
        label = ("animal", "number")[number % 2]
        words = [f"w{number % 5}", WORDS[label][number // 2 % 4], f"w{number % 3}"]
        yield label, " ".join([*words[: number % 3], words[1], *words[2:], f"n{number}"])


def write_table(path, rows):
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return str(path)


def classifier_recipe(tmp_path, encoder="gpt", *overrides, rows=None, **corpus):
    """A recipe of an encoder, on a table in `tmp_path`."""
    train = write_table(tmp_path / "train.tsv", examples(60) if rows is None else rows)
    raw = {
        "task": "text-classification",
        "name": "tiny",
        "corpus": {"train": train, "test_share": 0.2, **corpus},
        "text": {"kind": "words", "size": 0},
        "model": {"encoder": ENCODERS[encoder]},
        "training": {
            "steps": 12,
            "batch_size": 8,
            "precision": "float32",
            "optimizer": {"learning_rate": 1e-2},
            "schedule": {"shape": "constant", "warmup": 0},
            "validation": {"every": 4},
            "save_every": 5,
            "log_every": 4,
        },
    }
    return make_recipe(raw, overrides, where="tiny")
