"""A translation and its source -> what a model attended to when it made it."""

from collections.abc import Sequence
from dataclasses import replace

from regard.batching.collate import pad, pad_source
from regard.decoding.tree import SearchTree
from regard.inspection.lexical import Cut
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


def look_into(run: Run, line: Line, said: Sequence[Said], change: Watch | None) -> tuple[Look, ...]:
    """What the model attended to in each part of a line: told its answer, it does the same again.

    Its alignment is read off as was measured to be best for the run.
    """
    parts = zip(line.parts, line.surfaces(run.tokenizers.source), said, strict=True)
    return tuple(_look_into(run, Cut(ids, surfaces), one, change) for ids, surfaces, one in parts)


def _look_into(run: Run, source: Cut, said: Said, change: Watch | None) -> Look:
    target = pad([said.hypothesis.tokens], first=BOS)
    recording = record(run.model, pad_source([source.ids]), target, change=change)
    recorded = [part for part in PARTS if any(part == there for there, _ in recording.weights)]
    tokenizers = run.tokenizers
    unread = [text.strip() or UNKNOWN for i, text in zip(*source, strict=True) if i == UNK]
    return Look(
        {
            part: recording.attention(
                0, *tokenizers, part, unknown=said.unknown, unknown_source=unread
            )
            for part in recorded
        },
        reading=best_alignment(run),
    )
