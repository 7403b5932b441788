"""Look documents of any size and script, for the tests that draw them; no model is needed."""

import torch

from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.engines.native.attention_capture import AttentionCapture
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.viewer_document import viewer_document
from regard.text.special_tokens import BOS, EOS

TREE = (
    (None, "<s>", 0.0, "kept"),
    (0, "▁the", -0.2, "kept"),
    (0, "▁a", -1.8, "kept"),
    (0, "▁our", -4.0, "dropped"),
    (1, "▁sea", -0.4, "kept"),
    (2, "▁sea", -2.0, "kept"),
    (4, "</s>", -0.5, "ended"),
    (5, "</s>", -2.1, "ended"),
)
"""A search whose best answer is `the sea`."""


def make_document(source, target, *, layers=2, heads=3, cut=4, sink=None, others=(), without=False):
    """A document of two texts whose heads look roughly along the diagonal.

    Pieces have `cut` letters. Head 1 of each layer rests on the column `sink` of cross attention.
    `others` are further translations. With `without`, silencing a head puts `not` behind the text.
    """
    torch.manual_seed(0)
    columns, rows = _axis(source, cut, "</s>"), _axis(target, cut, "</s>")
    given = Axis(("<s>", *rows.pieces[:-1]), rows.words, (None, *rows.word_of[:-1]))
    cross = _maps(layers, heads, rows, columns)
    if sink is not None:
        cross[:, 1] *= 0.3
        cross[:, 1, :, sink] += 0.7
    parts = {
        "encoder": _maps(layers, heads, columns, columns),
        "decoder": _maps(layers, heads, rows, given),
        "cross": cross,
    }
    axes = {"encoder": (columns, columns), "decoder": (rows, given), "cross": (rows, columns)}
    named = {part: AttentionMaps(part, parts[part], *axes[part]) for part in parts}
    tokens = {"<s>": BOS, "</s>": EOS}
    nodes = tuple(Node(up, tokens.get(piece, 7), p, state) for up, piece, p, state in TREE)
    look = AttentionCapture(
        named, SearchTree(nodes, (6, 7)), tuple(piece for _, piece, _, _ in TREE)
    )
    candidates = tuple(Candidate(text, -0.5 - n, -0.5) for n, text in enumerate((target, *others)))
    places = [(part, a, b) for part in parts for a in range(layers) for b in (None, *range(heads))]
    return viewer_document(
        Answer(source, candidates, attention=look),
        model="made up",
        without=[
            {"part": part, "layer": layer, "head": head, "text": f"{target} not"}
            for part, layer, head in (places if without else ())
        ],
    )


def _axis(text, cut, last):
    words = text.split()
    parts = [[word[at : at + cut] for at in range(0, len(word), cut)] for word in words]
    pieces = [f"▁{part}" if not at else part for some in parts for at, part in enumerate(some)]
    word_of = [number for number, some in enumerate(parts) for _ in some]
    return Axis((*pieces, last), tuple(words), (*word_of, None))


def _maps(layers, heads, rows, columns):
    """Weights (L, H, T, S) that are greatest near the diagonal."""
    size = len(rows.pieces), len(columns.pieces)
    down, across = (torch.linspace(0, 1, n) for n in size)
    near = -20 * (down[:, None] - across).abs()  # (T, S)
    return (near + torch.randn(layers, heads, *size)).softmax(-1)
