import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard.alignment import run_alignment
from regard.alignment.dictionary import DictionaryEntry
from regard.alignment.extraction import DEFAULT_ALIGNMENT, AlignmentSettings, align_averaged
from regard.alignment.run_alignment import (
    DirectedModel,
    align_bidirectional,
    align_pairs,
    best_alignment,
    extract_dictionary,
    has_cross_attention,
    load_measured_alignment,
    measure_by_agreement,
    measure_by_gold,
    pair_attention,
    read_gold,
    read_selection_examples,
)
from regard.alignment.symmetrization import flip, symmetrize
from regard.corpora.corpus import Pair
from regard.errors import CorpusError, RunError, SettingsError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.pharaoh import read_pharaoh
from regard.inspection.recording.attention_map import AttentionMaps
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.verification import accept
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.settings import TokenizerSettings
from task_runs import untrained_translator
from tiny import tiny_recipe


@pytest.fixture(scope="module")
def run(tiny_run):
    return open_run(tiny_run, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def pairs(tiny_run):
    return list(load_data(RunFolder(tiny_run)).read("test"))


@pytest.fixture(scope="module")
def gold(tiny_run):
    path = load_data(RunFolder(tiny_run)).gold("test")
    return list(read_pharaoh(path.read_text().splitlines()))


def test_each_pair_has_its_attention_between_its_words(run, pairs):
    attentions = list(pair_attention(run, pairs))
    assert len(attentions) == len(pairs) == 20
    for pair, attention in zip(pairs, attentions, strict=True):
        assert attention.weights.shape[:2] == (2, 4)
        assert attention.columns.words == tuple(pair.source.split())
        assert attention.rows.words == tuple(pair.target.split())
        rows = attention.weights.sum(-1)
        torch.testing.assert_close(rows, torch.ones_like(rows))


def test_chunks_change_nothing(run, pairs, monkeypatch):
    whole = list(pair_attention(run, pairs))
    monkeypatch.setattr(run_alignment, "BATCH_SIZE", 3)
    for one, other in zip(whole, pair_attention(run, pairs), strict=True):
        torch.testing.assert_close(one.weights, other.weights, atol=1e-6, rtol=1e-4)


def test_pairs_are_read_as_they_are_asked_for(run, pairs, monkeypatch):
    monkeypatch.setattr(run_alignment, "BATCH_SIZE", 2)
    read = []
    stream = pair_attention(run, (read.append(pair) or pair for pair in pairs))
    next(stream)
    assert len(read) == 2


def test_links_lie_between_the_words_of_the_pair(run, pairs):
    for pair, links in zip(pairs, align_pairs(run, pairs, AlignmentSettings()), strict=True):
        assert links
        assert all(s < len(pair.source.split()) for s, _ in links)
        assert sorted({t for _, t in links}) == list(range(len(pair.target.split())))


@pytest.mark.parametrize("pair", [Pair("", "a b"), Pair("a b", ""), Pair("", ""), Pair(" ", "\t")])
def test_a_blank_side_has_no_links(run, pair):
    odd = [Pair("Jane danse", "Jane dances"), pair]
    first, second = align_pairs(run, odd, AlignmentSettings())
    assert first
    assert second == frozenset()


def test_spaces_at_the_ends_do_not_count(run):
    odd = [Pair("Jane danse", "Jane dances"), Pair("  Jane danse ", "\tJane dances  ")]
    first, second = align_pairs(run, odd, AlignmentSettings())
    assert first == second


def test_layer_and_head_must_be_there(run, pairs):
    with pytest.raises(SettingsError, match="layer: cross attention has 2, counted from 0; got 2"):
        list(align_pairs(run, pairs, AlignmentSettings(layer=2)))
    with pytest.raises(SettingsError, match="head: cross attention has 4, counted from 0; got 4"):
        list(align_pairs(run, pairs, AlignmentSettings(head=4)))


def test_the_chosen_head_errs_least(run, pairs, gold):
    choice = measure_by_gold(run, pairs, gold, save=False)

    def error(settings):
        return score_alignments(align_pairs(run, pairs, settings), gold).error_rate

    assert choice.value == pytest.approx(error(choice.settings))
    for layer in (None, 0, 1):
        for shift in (False, True):
            assert choice.value <= error(AlignmentSettings(layer=layer, shift=shift)) + 1e-9


def test_an_alignment_is_selected_on_the_first_validation_pairs(tiny_run, monkeypatch):
    data = load_data(RunFolder(tiny_run))
    monkeypatch.setattr(run_alignment, "NUM_SELECTION_PAIRS", 7)
    pairs, gold = list(data.read("valid")), list(read_gold(data, "valid"))
    assert len(gold) == 30
    assert read_selection_examples(data) == (pairs[:7], gold[:7])


def test_words_cut_apart_are_read_as_people_write_them(run):
    whole, cut = Pair("Jane, danse!", "Jane, dance!"), Pair("Jane , danse !", "Jane , dance !")
    [known] = pair_attention(run, [whole])
    [found] = pair_attention(run, [cut], cut_apart=True)
    torch.testing.assert_close(found.weights, known.weights)
    assert found.columns.pieces == known.columns.pieces
    for axis, side in ((found.columns, cut.source), (found.rows, cut.target)):
        assert axis.words == tuple(side.split())
        spelled = dict.fromkeys(range(4), "")
        for piece, word in zip(axis.pieces, axis.word_of, strict=True):
            if word is not None:
                spelled[word] += piece.replace("▁", "")
        assert tuple(spelled.values()) == axis.words


def test_a_form_with_other_characters_cannot_be_cut_apart(run):
    with pytest.raises(CorpusError, match="the model's normalisation changes its number of charac"):
        list(pair_attention(run, [Pair("cafe\u0301 .", "coffee .")], cut_apart=True))


def test_links_of_two_models_are_symmetrized(run, pairs):
    ways = AlignmentSettings(layer=0), AlignmentSettings(layer=1, head=2, links="union")
    found = align_bidirectional(
        DirectedModel(run, ways[0]), DirectedModel(run, ways[1]), iter(pairs), "intersection"
    )
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    forward = align_pairs(run, pairs, ways[0])
    backward = align_pairs(run, turned, AlignmentSettings(layer=1, head=2))
    both = [
        symmetrize(one, flip(other), "intersection")
        for one, other in zip(forward, backward, strict=True)
    ]
    assert list(found) == both
    assert any(both)


def test_maps_of_two_models_are_averaged(run, pairs):
    ways = AlignmentSettings(layer=0), AlignmentSettings(layer=1)
    found = align_bidirectional(DirectedModel(run, ways[0]), DirectedModel(run, ways[1]), pairs)
    turned = [Pair(pair.target, pair.source) for pair in pairs]
    attentions = zip(pair_attention(run, pairs), pair_attention(run, turned), strict=True)
    assert list(found) == [align_averaged(one, other, ways) for one, other in attentions]


@pytest.fixture
def copied(tiny_run, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "run")
    return open_run(path, device=torch.device("cpu"))


def test_a_finished_run_with_gold_knows_its_alignment(run, tiny_run):
    measured = load_measured_alignment(run)
    assert measured.by == "gold"
    assert measured.pairs == 30
    examples = read_selection_examples(load_data(RunFolder(tiny_run)))
    assert measured == measure_by_gold(run, *examples, save=False)
    assert best_alignment(run) == measured.settings


def test_without_a_measurement_the_default_alignment_is_used(copied):
    (copied.folder.path / run_alignment.ALIGNMENT_FILE).unlink()
    assert load_measured_alignment(copied) is None
    assert best_alignment(copied) == DEFAULT_ALIGNMENT
    measured = measure_by_gold(copied, *read_selection_examples(load_data(copied.folder)))
    assert best_alignment(copied) == measured.settings


def test_agreement_is_kept_for_both(copied, pairs, tmp_path):
    path = shutil.copytree(copied.folder.path, tmp_path / "back")
    reverse = open_run(path, device=torch.device("cpu"))
    forward_links, backward_links = measure_by_agreement(copied, reverse, pairs)
    assert (load_measured_alignment(copied), load_measured_alignment(reverse)) == (
        forward_links,
        backward_links,
    )
    assert forward_links.value == backward_links.value
    assert 0 < forward_links.value < 1
    assert "with an agreement with the other direction of" in str(forward_links)


def test_a_choice_that_is_damaged(copied):
    (copied.folder.path / run_alignment.ALIGNMENT_FILE).write_text('{"settings": {"layers": 1}}')
    accept(copied.folder.path)
    with pytest.raises(
        RunError, match=r"alignment.json: damaged, or of another version of regard: "
    ):
        best_alignment(copied)


def test_a_model_without_attention_cannot_align(run):
    assert has_cross_attention(run)
    recipe = tiny_recipe("model={family: rnn, width: 8}")
    blind = untrained_translator(recipe, run.tokenizers, Path("runs/blind"))
    assert not has_cross_attention(blind)
    with pytest.raises(
        SettingsError,
        match="runs/blind: this model of the family rnn has no attention to the source, which "
        "alignment needs",
    ):
        list(align_pairs(blind, [Pair("a", "b")], AlignmentSettings()))


def test_unusual_spaces_separate_words(run):
    plain, odd = "Elle ne dort pas.", "Elle\u00a0ne\tdort\u3000pas."
    one, other = pair_attention(run, [Pair(plain, plain), Pair(odd, odd)])
    assert len(one.columns.words) == len(other.columns.words) == len(odd.split())
    assert len(one.rows.words) == len(other.rows.words)


PAIRS = [
    Pair("la mer", "the sea"),
    Pair("la mer.", "the sea!"),
    Pair("la lune", "the moon"),
    Pair("mer", "ocean"),
    Pair("une lune", "one the"),
    Pair("", "nothing"),
    Pair("", ""),
]


def diagonal(run, pairs):
    """Each target token looks at the source token of its number, or at EOS."""
    for pair in pairs:
        size = len(pair.target) + 1, len(pair.source) + 1
        layers = torch.zeros(1, 1, *size)
        for row in range(size[0]):
            layers[..., row, min(row, size[1] - 1)] = 1.0
        yield AttentionMaps("cross", layers, pair.rows, pair.columns)


@pytest.fixture
def word_run(monkeypatch):
    monkeypatch.setattr(run_alignment, "token_attention", diagonal)
    # "lune" and "moon" are unknown, and are counted all the same
    words = train_tokenizer(["la mer. the sea! une ocean one"], TokenizerSettings(kind="words"))
    return SimpleNamespace(
        tokenizers=Tokenizers(words, words),
        longest=8,
    )


def learn(run, pairs=PAIRS, **options):
    return extract_dictionary(run, pairs, AlignmentSettings(), **{"min_count": 1} | options)


def test_a_dictionary_counts_words_as_they_are_aligned(word_run):
    assert learn(word_run) == [
        DictionaryEntry("la", "the", 3, 1.0),
        DictionaryEntry("lune", "moon", 1, 0.5),
        DictionaryEntry("mer", "sea", 2, 2 / 3),
        DictionaryEntry("une", "one", 1, 1.0),
    ]


def test_a_dictionary_leaves_out_rare_links(word_run):
    assert [entry.source for entry in learn(word_run, min_count=2)] == ["la", "mer"]
    assert learn(word_run, min_count=4) == []
    assert learn(word_run, []) == []


def test_of_equal_translations_the_first_in_sorted_order_is_taken(word_run):
    pairs = [Pair("mer", "sea"), Pair("mer", "ocean")]
    assert (
        learn(word_run, pairs)
        == learn(word_run, pairs[::-1])
        == [DictionaryEntry("mer", "ocean", 1, 0.5)]
    )


def test_a_rare_word_is_not_translated_by_an_article(word_run):
    pairs = [*[Pair("la", "the")] * 9, *[Pair("lune", "the")] * 3, *[Pair("lune", "moon")] * 2]
    assert learn(word_run, pairs)[1] == DictionaryEntry("lune", "moon", 2, 0.4)


def test_pairs_too_long_for_the_model_are_left_out(word_run):
    assert learn(word_run, [Pair("mer " * 9, "sea"), Pair("mer", "sea " * 9)]) == []


def test_a_trained_model_fills_a_dictionary(translator):
    [run] = translator.runs
    pairs = [Pair("Jane danse.", "Jane dances."), Pair("Elle danse.", "She dances.")] * 2
    entries = extract_dictionary(run, iter(pairs), AlignmentSettings(), min_count=2)
    assert entries
    assert [entry.source for entry in entries] == sorted({entry.source for entry in entries})
    assert {entry.source for entry in entries} <= {"Jane", "Elle", "danse"}
    assert {entry.target for entry in entries} <= {"Jane", "She", "dances"}
    assert all(entry.count >= 2 and 0 < entry.probability <= 1 for entry in entries)
