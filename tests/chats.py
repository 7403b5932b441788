"""A chatbot so small that it trains in seconds."""

import json

import torch

from regard.recipes.finish_run import finish_run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train
from tiny import MODELS, Quiet

THINGS = ("tea", "rain", "cats", "snow", "bread", "songs")
PLACES = ("Rome", "Oslo", "Bern", "Riga", "Lima")


def dialogues():
    """Lines with answers, and lines without."""
    for thing in THINGS:
        for place in PLACES:
            asked = f"Do you like {thing} in {place}?"
            yield {"turns": [asked], "answers": [f"Yes, I like {thing}.", f"No, never {thing}."]}
            yield {"turns": [asked, "Why do you ask?", f"I am going to {place}."]}


def write_dialogues(path):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in dialogues()), encoding="utf-8")
    return path


def chat_recipe(path, *overrides):
    """The recipe of the dialogues in the file `path`."""
    raw = {
        "task": "chat",
        "name": "chat",
        "corpus": {
            "train": {"data": str(path)},
            "split": {"valid": 10, "test": 10},
            "dialogue": {"history_tokens": 24, "prior": 0.5},
        },
        "text": {"source": {"kind": "words", "size": 0, "symbols": ["<user>", "<assistant>"]}},
        "model": MODELS["transformer"],
        "training": {
            "steps": 60,
            "batch_tokens": 512,
            "precision": "float32",
            "optimizer": {"learning_rate": 5e-3},
            "schedule": {"warmup": 10},
            "validation": {"every": 30, "sentences": 5, "by": "loss"},
            "log_every": 30,
            "save_every": 30,
        },
        "decoding": {
            "sampling": {"top_p": 0.9},
            "reranking": {"candidates": 6},
            "rules": {"min_length": 1, "max_length": 12},
        },
    }
    return make_recipe(raw, overrides, where="chat")


def train_chat(folder, *overrides):
    """Train and finish a chatbot in `folder`, which it gives back."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = chat_recipe(write_dialogues(folder.parent / f"{folder.name}.jsonl"), *overrides)
    run, device = RunFolder(folder), torch.device("cpu")
    progress = train(recipe, run, device=device, reporter=Quiet(), stop_requested=lambda: False)
    finish_run(run, progress, device)
    return folder
