"""What a masked language model puts into masked places, and what its tokens look at."""

import base64
import json
import re

import pytest
import torch

from languages import language_recipe
from regard.errors import SettingsError, TextError
from regard.inspection.interventions import Flattened, Silenced
from regard.inspection.recording.recorder import compose_hooks
from regard.models.language.bert import Bert
from regard.recipes.open_run import Run
from regard.recipes.run_folder import RunFolder
from regard.tasks.masked.masked_text import MaskToken, read_masked_text, token_surface
from regard.tasks.masked.pipeline import Filler
from regard.tasks.masked.task import MaskedLanguageModelling
from regard.text.build import train_tokenizer
from regard.text.settings import TokenizerSettings
from regard.text.special_tokens import BOS, EOS, UNK
from regard.types import Padded

LINES = ["the cat sat on the mat .", "a dog saw the cat on a mat ."] * 3
LAYERS, HEADS = 2, 2
KINDS = ("words", "characters", "bpe", "whitespace")


def tokenizer(kind):
    size = {"bpe": 300}.get(kind, 0)
    return train_tokenizer(LINES, TokenizerSettings(kind=kind, size=size))


def make_filler(tmp_path, *, kind="words", family="bert", **model):
    sizes = {"family": family, "layers": LAYERS, "width": 8, "heads": HEADS, "context": 24}
    recipe = language_recipe(family, tmp_path, model=sizes | model)
    task = MaskedLanguageModelling(recipe, tmp_path)
    task.tokenizer = tokenizer(kind)
    torch.manual_seed(3)
    network = Bert(recipe.model, task.tokenizer.size).eval()
    torch.nn.init.normal_(network.embedding.weight)  # so that answers differ
    return Filler(Run(recipe, task, network, RunFolder(tmp_path)))


@pytest.fixture(scope="module")
def filler(tmp_path_factory):
    return make_filler(tmp_path_factory.mktemp("run"))


@torch.no_grad()
def probabilities(filler, ids, segments, place, *hooks):
    """By the model itself: (V,)."""
    rows = torch.tensor([ids])
    inputs = Padded(rows, torch.ones_like(rows, dtype=torch.bool), None, torch.tensor([segments]))
    return filler.model(inputs, hook=compose_hooks(*hooks))[0, place].softmax(-1)


@pytest.mark.parametrize("kind", KINDS)
def test_a_masked_token_stands_where_its_own_stood(kind):
    """The token that is there, in the place of one that was masked, gives the text again."""
    known = tokenizer(kind)
    text = "the cat sat on a mat ."
    [ids] = known.encode([text])
    letters = kind == "characters"
    masked = "the cat s[MASK]t on a mat ." if letters else "the cat [MASK] on a mat ."
    read = read_masked_text([masked], known, MaskToken(known.size), None)
    [place] = read.places
    if kind == "bpe" and len(known.encode(["the cat sat"])[0]) > 3:
        assert read.ids[0] == BOS  # the word is several pieces
        return
    assert read.ids == [BOS, *ids[: place.position - 1], known.size, *ids[place.position :], EOS]
    assert place.filled(token_surface(known, ids[place.position - 1])) == text
    first = read_masked_text(["[MASK] cat"], known, MaskToken(known.size), None)
    token = known.encode(["t" if letters else "the"])[0][0]
    assert first.places[0].filled(token_surface(known, token)).startswith(("the cat", "t cat"))


def test_answers_are_the_models_likeliest_tokens(filler):
    filling = filler("the [MASK] sat on the mat .", top=4)
    [ids] = filler.tokenizer.encode(["the cat sat on the mat ."])
    ids = [BOS, *ids, EOS]
    ids[2] = filler.model.mask_id
    wanted, tokens = probabilities(filler, ids, [0] * len(ids), 2)[4:].topk(4)
    [mask] = filling.masks
    assert [one.piece for one in mask.tokens] == filler.tokenizer.pieces((tokens + 4).tolist())
    assert [one.probability for one in mask.tokens] == pytest.approx(wanted.tolist(), abs=1e-5)
    assert mask.texts[0] == filling.text == f"the {mask.tokens[0].name} sat on the mat ."


def test_several_places_are_filled_each_for_itself_and_texts_of_unlike_length_together(filler):
    texts = ["[MASK] cat [MASK] on [MASK]", "a [MASK]", "the cat ||| [MASK] mat"]
    together = filler.fill(texts)
    for text, found in zip(texts, together, strict=True):
        alone = filler(text)
        assert found.text == alone.text
        assert len(found.masks) == text.count("[MASK]")
        for one, two in zip(found.masks, alone.masks, strict=True):
            chances = [[token.probability for token in mask.tokens] for mask in (one, two)]
            assert chances[0] == pytest.approx(chances[1], abs=1e-5)
    first, _, last = together
    names = [mask.tokens[0].name for mask in first.masks]
    assert first.text == "{} cat {} on {}".format(*names)
    assert first.masks[1].texts[0] == f"[MASK] cat {names[1]} on [MASK]"
    assert first.follows is None
    assert 0 < last.follows < 1


def test_a_pair_has_two_segments_and_says_whether_the_second_follows(filler):
    known, mask = filler.tokenizer, filler.mask
    both = read_masked_text(["a cat", "the [MASK] sat"], known, mask, None)
    assert both == read_masked_text(["a cat ||| the [MASK] sat"], known, mask, None)
    one, two = known.encode(["a cat", "the cat sat"])
    assert both.ids == [BOS, *one, EOS, two[0], mask.id, two[2], EOS]
    assert both.segments == [0] * 4 + [1] * 4
    assert both.axis.pieces == ("[CLS]", "▁a", "▁cat", "[SEP]", "▁the", "[MASK]", "▁sat", "[SEP]")
    assert both.axis.words == ("a", "cat", "the", "[MASK]", "sat")
    look = filler.look(["a cat", "the [MASK] sat"])
    assert look.follows == filler.fill(["a cat ||| the [MASK] sat"])[0].follows


def test_unknown_words_stand_as_they_were_written_and_are_counted(filler):
    found = filler.look("the zebra [MASK] on")
    assert found.attention.parts["encoder"].rows.words == ("the", "zebra", "[MASK]", "on")
    assert found.notes == ("unknown to the model: 1 token of the text",)
    assert UNK in read_masked_text(["the zebra"], filler.tokenizer, MaskToken(99), None).ids


def test_every_layer_and_head_of_a_text_with_or_without_masked_places(filler):
    for text, count in (("the cat sat", 5), ("the [MASK] sat on [MASK]", 7)):
        look = filler.look(text)
        maps = look.attention.attention("encoder", words=False)
        assert maps.weights.shape == (LAYERS, HEADS, count, count)
        torch.testing.assert_close(maps.weights.sum(-1), torch.ones(LAYERS, HEADS, count))
        assert look.attention.attention("encoder").rows.words == tuple(text.split())
        look.show(every=True)
    assert filler.look("the cat sat").text == "the cat sat"


def test_interventions_change_what_is_filled_in(filler):
    text, change = "the [MASK] sat on a mat .", Silenced("encoder", 0)
    look = filler.look(text, changes=[change, Flattened("encoder", 1, 1)])
    read = read_masked_text([text], filler.tokenizer, filler.mask, None)
    hooks = (change, Flattened("encoder", 1, 1))
    after = probabilities(filler, read.ids, read.segments, 2, *hooks)
    before = probabilities(filler, read.ids, read.segments, 2)
    [token, *_] = look.masks[0].tokens
    best = int(after[4:].argmax()) + 4
    assert token.piece == filler.tokenizer.pieces([best])[0]
    assert token.probability == pytest.approx(float(after[best]), abs=1e-5)
    assert token.before == pytest.approx(float(before[best]), abs=1e-5)
    assert look.before.text == filler(text).text


def test_the_page_has_the_text_its_maps_and_what_fills_it(filler):
    look = filler.look("the [MASK] sat")
    page = look.page("tiny")
    document = json.loads(re.search(r'id="look"[^>]*>(.*?)</script>', page, re.S)[1])
    assert document["kind"] == "masked"
    assert document["source"]["text"] == "the [MASK] sat"
    assert document["source"]["pieces"] == ["[CLS]", "▁the", "[MASK]", "▁sat", "[SEP]"]
    assert document["target"]["text"] == look.text
    assert [one["text"] for one in document["candidates"]] == [
        one.piece for one in look.masks[0].tokens
    ]
    assert len(document["without"]) == LAYERS * (HEADS + 1)
    layers = document["parts"]["encoder"]["layers"]
    assert [one["shape"] for one in layers] == [[HEADS, 5, 5]] * LAYERS
    assert [len(base64.b64decode(one["weights"])) for one in layers] == [HEADS * 25] * LAYERS
    assert all(one["queries"] and one["keys"] for one in layers)
    assert filler.look("the cat").ablate() == []


def test_json_and_the_notebook_have_the_answers(filler):
    found = filler("the [MASK] sat", top=2).to_json()
    assert found["text"] == "the [MASK] sat"
    assert len(found["masks"][0]) == 2
    assert found["masks"][0][0]["text"] == found["filled"]
    assert "attention" not in found
    look = filler.look("the [MASK] sat")
    assert look.to_json()["attention"]["pieces"][2] == "[MASK]"
    assert f"{look.masks[0].tokens[0].name} " in look._repr_html_()


def test_roberta_with_rotary_positions_reads_texts_beyond_its_context(tmp_path):
    filler = make_filler(tmp_path, family="roberta", positions="rotary")
    longer = filler("the cat " * 30 + "[MASK]")
    assert longer.text.startswith("the cat the")
    assert longer.notes == ("a text of 63 tokens; the model was trained on 24 at once",)
    assert filler("the cat ||| [MASK]").follows is None


def test_a_models_own_mask_token_is_read_as_well(tmp_path, filler):
    roberta = make_filler(tmp_path, family="roberta")
    plain, own = (roberta(f"the {mask} sat on [MASK] .") for mask in ("[MASK]", "<mask>"))
    assert own.masks[0].tokens == plain.masks[0].tokens
    assert own.text == plain.text
    assert own.masked == "the <mask> sat on [MASK] ."  # as it was given
    assert own.masks[1].texts[0].startswith("the <mask> sat on ")
    assert "<mask>" not in filler.mask.spellings  # BERT's is [MASK]


def test_each_text_has_an_answer_also_one_without_a_masked_place(filler):
    first, empty, plain = filler.fill(["[MASK] cat", "", "the cat"])
    assert len(first.masks) == 1
    assert first.notes == ()
    assert (empty.masks, empty.text) == ((), "")
    assert empty.notes == ("the text is empty: there is nothing to fill",)
    assert (plain.masks, plain.text) == ((), "the cat")
    assert plain.notes[0].startswith("there is no [MASK] in it; write [MASK] instead of a word")


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        (["the cat " * 12 + "[MASK]"], TextError, "27 tokens, BOS .* reads at most 24"),
        (["a ||| b ||| [MASK]"], SettingsError, "3 texts: give one, in quotes, or two"),
        ([3], TypeError, "texts must be a list of texts"),
    ],
)
def test_texts_that_cannot_be_filled_are_refused(filler, texts, error, message):
    with pytest.raises(error, match=message):
        filler.fill(texts)


def test_what_cannot_be_looked_into_is_refused(filler):
    with pytest.raises(SettingsError, match="give a TEXT to look into"):
        filler.look([])
    with pytest.raises(SettingsError, match="top: must be at least 1, got 0"):
        filler("[MASK]", top=0)
