import pytest
import torch

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import best_alignment
from regard.decoding.tracing.search_tree import Node, SearchTree
from regard.engines.engine import FilledHypothesis
from regard.engines.native.attention_capture import AttentionCapture
from regard.engines.native.capture_attention import capture_attention, with_search_tree
from regard.inspection.interventions import Silenced
from regard.pipelines.translator import load
from regard.text.preprocess import tokenize_line
from regard.text.special_tokens import BOS, EOS

SENTENCE = "Jane visite l'Afrique en septembre."


def test_a_look_is_what_the_model_does_when_told_its_answer(translator):
    answer = translator.look(SENTENCE, tree=True)
    run = translator.runs[0]
    line = tokenize_line(SENTENCE, run.tokenizers.source, run.longest)
    tree = answer.attention.tree
    path = [tree.nodes[node].token for node in tree.path(tree.answers[0])]
    tokens = tuple(token for token in path if token not in (BOS, EOS))
    said = FilledHypothesis(hypothesis=type("H", (), {"tokens": tokens}))
    [look] = capture_attention(run, line, [said], None)
    assert set(look.parts) == {"encoder", "decoder", "cross"}
    for part, attention in look.parts.items():
        torch.testing.assert_close(attention.layers, answer.attention.parts[part].layers)
    [silent] = capture_attention(run, line, [said], Silenced("cross", 0))
    assert not silent.parts["cross"].layers[0].any()
    assert silent.parts["cross"].layers[1].any()


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
    look = with_search_tree(AttentionCapture({}), tree, translator.target)
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
