"""A translation and its source -> what a model attended to when it made it."""

from collections.abc import Sequence
from dataclasses import replace

from regard.alignment.run_alignment import best_alignment
from regard.alignment.word_axes import TokenizedText
from regard.batching.collate import pad, pad_source
from regard.decoding.tracing.search_tree import SearchTree
from regard.engines.engine import FilledHypothesis
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.recording.attention_map import PARTS, record
from regard.recipes.run_folder import Run
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import BOS, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer
from regard.types import AttentionHook


def with_search_tree(
    look: AttentionCapture, tree: SearchTree, target: Tokenizer
) -> AttentionCapture:
    """The same look with the search that the translation came from."""
    tokens = [node.token for node in tree.nodes]
    return replace(look, tree=tree, tree_pieces=tuple(target.pieces(tokens)))


def capture_attention(
    run: Run, line: TokenizedLine, said: Sequence[FilledHypothesis], change: AttentionHook | None
) -> tuple[AttentionCapture, ...]:
    """What the model attended to in each part of a line: told its answer, it does the same again.

    Its alignment is read off as was measured to be best for the run.
    """
    parts = zip(line.parts, line.surfaces(run.tokenizers.source), said, strict=True)
    return tuple(
        _capture_part(run, TokenizedText(ids, surfaces), one, change)
        for ids, surfaces, one in parts
    )


def _capture_part(
    run: Run, source: TokenizedText, said: FilledHypothesis, change: AttentionHook | None
) -> AttentionCapture:
    target = pad([said.hypothesis.tokens], first=BOS)
    recording = record(run.model, pad_source([source.ids]), target, change=change)
    recorded = [part for part in PARTS if any(part == there for there, _ in recording.weights)]
    tokenizers = run.tokenizers
    unknown_source_words = [
        text.strip() or UNK_SURFACE for i, text in zip(*source, strict=True) if i == UNK
    ]
    return AttentionCapture(
        {
            part: recording.attention(
                0, *tokenizers, part, unknown=said.unknown, unknown_source=unknown_source_words
            )
            for part in recorded
        },
        alignment_settings=best_alignment(run),
    )
