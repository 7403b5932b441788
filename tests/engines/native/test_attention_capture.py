import sys
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import best_alignment
from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.engines.native.attention_capture import (
    AttentionCapture,
    capture_attention,
)
from regard.errors import SettingsError
from regard.inspection.interventions import Silenced
from regard.inspection.plots.figure import render_figure
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.tasks.translation.pipeline import load
from regard.text.preprocess import tokenize_lines
from regard.text.special_tokens import BOS, EOS
from regard.types import Hypothesis

# "la mer" as three pieces, "the sea" as two, each with </s>; heads 0 and 1 look in unlike places
COLUMNS = Axis(("▁la", "▁me", "r", "</s>"), ("la", "mer"), (0, 1, 1, None))
ROWS = Axis(("▁the", "▁sea", "</s>"), ("the", "sea"), (0, 1, None))
STRAIGHT = torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.1, 0.4, 0.4, 0.1], [0.0, 0.0, 0.0, 1.0]])
CROSSED = torch.tensor([[0.1, 0.4, 0.4, 0.1], [0.7, 0.1, 0.1, 0.1], [0.0, 0.0, 0.0, 1.0]])


@pytest.fixture
def look():
    layers = torch.stack([STRAIGHT, CROSSED])[None]  # (L=1, H=2, T=3, S=4)
    return AttentionCapture({"cross": AttentionMaps("cross", layers, ROWS, COLUMNS)})


def shown(renderable):
    console = Console(width=80, record=True, file=None, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_attention_is_by_word_unless_pieces_are_asked_for(look):
    words, pieces = look.attention(), look.attention(words=False)
    assert words.weights.shape == (1, 2, 2, 2)
    torch.testing.assert_close(words.weights[0, 0], torch.tensor([[0.7, 0.2], [0.1, 0.8]]))
    assert words.columns.pieces == ("la", "mer")
    assert pieces.weights.shape == (1, 2, 3, 4)


def test_a_part_that_was_not_recorded(look):
    message = "this model has no encoder attention to look at; it has: cross"
    for ask in (look.attention, look.plot, look.show):
        with pytest.raises(SettingsError, match=message):
            ask("encoder")
    with pytest.raises(SettingsError, match="it has: none"):
        AttentionCapture({}).attention()


def test_the_map_in_the_terminal_names_its_words(look):
    words = shown(look.show())
    for word in ("la", "mer", "the", "sea"):
        assert word in words
    assert "</s>" not in words
    assert "</s>" in shown(look.show(words=False))
    assert shown(look.show(head=0)) != shown(look.show(head=1))


def test_layer_and_head_must_be_there(look):
    for ask in (look.show, look.plot):
        with pytest.raises(SettingsError, match="layer: cross attention has 1, counted from 0"):
            ask(layer=1)
        with pytest.raises(SettingsError, match="head: cross attention has 2, counted from 0"):
            ask(head=2)


def test_a_plot_of_one_map_or_of_all(look):
    one, grid = look.plot(head=1), look.plot(kind="grid")
    cells = one.axes[0].collections[0].get_array()
    torch.testing.assert_close(
        torch.tensor(cells.data), torch.tensor([[0.1, 0.8], [0.7, 0.2]]), check_dtype=False
    )
    assert len([axes for axes in grid.axes if axes.collections]) >= 2


@pytest.mark.parametrize("kind", ["map", "arcs", "focus"])
def test_figures_of_one_head(look, kind):
    first, second = (render_figure(look.plot(kind=kind, head=head), ".svg") for head in (0, 1))
    assert first != second
    assert first != render_figure(look.plot(kind=kind, head=0, theme="dark"), ".svg")


def test_a_figure_of_the_search(look):
    nodes = (Node(None, 1, 0.0, "kept"), Node(0, 5, -0.1, "kept"), Node(1, 2, -0.2, "ended"))
    searched = AttentionCapture({}, SearchTree(nodes, (2,)), ("<s>", "sea", "</s>"))
    assert searched.plot(kind="tree").axes
    with pytest.raises(SettingsError, match="the search was not recorded: use look"):
        look.plot(kind="tree")


def test_alignment_follows_the_settings(look):
    assert look.alignment(AlignmentSettings(head=0)) == {(0, 0), (1, 1)}
    assert look.alignment(AlignmentSettings(head=1)) == {(1, 0), (0, 1)}
    mean = look.alignment()
    assert {target for _, target in mean} == {0, 1}
    measured = replace(look, alignment_settings=AlignmentSettings(head=1))
    assert measured.alignment() == {(1, 0), (0, 1)}
    assert measured.alignment(AlignmentSettings(head=0)) == {(0, 0), (1, 1)}


def test_sinks_are_those_of_the_pieces():
    pieces = tuple("abcdef")
    axis = Axis(pieces, ("abcdef",), (0,) * 6)
    parked = 0.4 * torch.eye(6) + 0.6 * torch.eye(6)[[5] * 6]
    look = AttentionCapture({"encoder": AttentionMaps("encoder", parked[None, None], axis, axis)})
    assert [(one.part, one.column, one.piece) for one in look.sinks("encoder")] == [
        ("encoder", 5, "f")
    ]


def test_a_notebook_shows_the_average(look):
    assert 'alt="cross attention"' in look._repr_html_()
    encoder = replace(look.parts["cross"], part="encoder")
    assert 'alt="encoder attention"' in AttentionCapture({"encoder": encoder})._repr_html_()
    assert AttentionCapture({})._repr_html_() is None


def test_an_empty_translation_can_be_looked_at():
    rows = Axis(("</s>",), (), (None,))
    empty = AttentionCapture(
        {"cross": AttentionMaps("cross", STRAIGHT[None, None, 2:], rows, COLUMNS)}
    )
    assert empty.alignment() == frozenset()
    assert "la" in shown(empty.show(words=False))
    assert isinstance(shown(empty.show()), str)
    assert "<img" in empty._repr_html_()
    assert empty.plot(kind="grid").axes


def test_a_notebook_shows_a_figure_once(look):
    figure = look.plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert (
        "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
    )
    assert "Attention cross" in repr(look)
    assert len(repr(look)) < 200


SENTENCE = "Jane visite l'Afrique en septembre."


def test_a_look_is_what_the_model_does_when_told_its_answer(translator):
    answer = translator.look(SENTENCE, tree=True)
    run = translator.runs[0]
    line = tokenize_lines([SENTENCE], run.tokenizers.source, run.longest)[0]
    tree = answer.attention.tree
    path = [tree.nodes[node].token for node in tree.path(tree.answers[0])]
    tokens = tuple(token for token in path if token not in (BOS, EOS))
    said = [Hypothesis(tokens, 0.0, 0.0, True)]
    [[look]] = capture_attention(run, line, [said], None)
    assert set(look.parts) == {"encoder", "decoder", "cross"}
    for part, attention in look.parts.items():
        torch.testing.assert_close(attention.weights, answer.attention.parts[part].weights)
    [[silent]] = capture_attention(run, line, [said], Silenced("cross", 0))
    assert not silent.parts["cross"].weights[0].any()
    assert silent.parts["cross"].weights[1].any()


@pytest.mark.parametrize("model", ["tiny_run", "words_run"])
def test_unknown_words_of_the_source_are_named_as_they_were_written(model, request):
    run = request.getfixturevalue(model)
    text = "Jane visite \u0416\u0416\u0416 et le Zimbabwe."
    look = load(run, device="cpu").look(text).attention
    for part, axis in (("cross", "columns"), ("encoder", "rows"), ("encoder", "columns")):
        assert " ".join(getattr(look.parts[part], axis).words) == text


def test_its_alignment_is_read_as_was_measured(translator):
    [run] = translator.runs
    look = translator(SENTENCE, look=True).attention
    assert look.alignment_settings == best_alignment(run) != AlignmentSettings()


def test_a_tree_names_what_its_nodes_say(translator):
    [sea] = {translator.target.encode(["sea"])[0][0]}
    nodes = (Node(None, 1, 0.0, "kept"), Node(0, sea, -0.5, "kept"), Node(1, 2, -0.6, "ended"))
    tree = SearchTree(nodes, (2,))
    look = AttentionCapture({}).with_search_tree(tree, translator.target)
    assert look.tree is tree
    assert look.tree_pieces == tuple(translator.target.pieces([1, sea, 2]))


def test_the_tree_is_that_of_the_search(translator):
    look = translator.look(SENTENCE, tree=True).attention
    tree, pieces = look.tree, look.tree_pieces
    assert len(tree.nodes) == len(pieces) > 10
    assert (pieces[0], pieces[tree.answers[0]]) == ("<s>", "</s>")
    said = [tree.nodes[node].token for node in tree.path(tree.answers[0])]
    assert translator.target.decode(said[:-1]) == translator(SENTENCE).text
    assert translator.look(SENTENCE).attention.tree is None
