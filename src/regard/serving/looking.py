"""A translation and its source -> what a model attended to when it made it."""

from collections.abc import Sequence
from dataclasses import replace

from regard.batching.collate import pad, pad_source
from regard.decoding.tree import SearchTree
from regard.inspection.look import Look
from regard.inspection.record import PARTS, record
from regard.recipes.run_folder import Run
from regard.serving.aligning import best_alignment
from regard.serving.answer import Said
from regard.serving.lines import Line
from regard.text.special import BOS, UNK, UNKNOWN
from regard.text.tokenizer import Tokenizer
from regard.types import Watch


def with_tree(look: Look, tree: SearchTree, target: Tokenizer) -> Look:
    """The same look with the search that the translation came from."""
    tokens = [node.token for node in tree.nodes]
    return replace(look, tree=tree, tree_pieces=tuple(target.pieces(tokens)))


def look_into(run: Run, line: Line, said: Said, change: Watch | None) -> Look:
    """What the model attended to: told its answer to a line's first part, it does the same again.

    Its alignment is read off as was measured to be best for the run.
    """
    source = line.parts[0]
    target = pad([said.hypothesis.tokens], first=BOS)
    recording = record(run.model, pad_source([source]), target, change=change)
    recorded = [part for part in PARTS if any(part == there for there, _ in recording.weights)]
    tokenizers = run.tokenizers
    unread = _unknown(source, line.text, tokenizers.source)
    return Look(
        {
            part: recording.attention(
                0, *tokenizers, part, unknown=said.unknown, unknown_source=unread
            )
            for part in recorded
        },
        reading=best_alignment(run),
    )


def _unknown(ids: Sequence[int], text: str, tokenizer: Tokenizer) -> list[str]:
    """What the text has in the place of each unknown word among its first `ids`."""
    surfaces = tokenizer.surfaces(text)[: len(ids)]
    return [part.strip() or UNKNOWN for i, part in zip(ids, surfaces, strict=True) if i == UNK]
