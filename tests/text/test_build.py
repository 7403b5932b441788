import hashlib
from collections import Counter

import pytest

from regard.errors import TextError
from regard.text.build import (
    Tokenizers,
    load_tokenizers,
    save_tokenizers,
    train_tokenizer,
    train_tokenizers,
)
from regard.text.settings import TextSettings, TokenizerSettings
from regard.text.special_tokens import UNK
from text.lessons import learned

CHARACTERS = TokenizerSettings(kind="characters")
WORDS = TokenizerSettings(kind="words")


def sources():
    return iter(["ab", "ba"])


def targets():
    return iter(["xyz", "zyx"])


def test_a_joint_vocabulary_is_one_tokenizer_learned_from_both_sides():
    source, target = train_tokenizers(sources, targets, TextSettings(source=CHARACTERS))
    assert source is target
    assert sorted(source.pieces(range(4, source.size))) == ["a", "b", "x", "y", "z"]


def test_separate_vocabularies_are_learned_from_their_own_side():
    settings = TextSettings(source=CHARACTERS, joint=False)
    source, target = train_tokenizers(sources, targets, settings)
    assert sorted(source.pieces(range(4, source.size))) == ["a", "b"]
    assert sorted(target.pieces(range(4, target.size))) == ["x", "y", "z"]


def test_sides_may_be_of_different_kinds():
    settings = TextSettings(source=CHARACTERS, target=WORDS, joint=False)
    source, target = train_tokenizers(sources, targets, settings)
    assert source.pieces(source.encode(["ab"])[0]) == ["a", "b"]
    assert target.pieces(target.encode(["xyz"])[0]) == ["▁xyz"]


@pytest.mark.parametrize("joint", [True, False])
def test_both_sides_are_saved_and_loaded(joint, tmp_path):
    saved = train_tokenizers(sources, targets, TextSettings(source=CHARACTERS, joint=joint))
    save_tokenizers(saved, tmp_path)
    loaded = load_tokenizers(tmp_path)
    assert [side.fingerprint() for side in loaded] == [side.fingerprint() for side in saved]
    assert (loaded.source is loaded.target) == joint
    names = {path.name for path in tmp_path.iterdir()}
    assert names == ({"tokenizer.json"} if joint else {"source.json", "target.json"})


def test_saving_takes_the_place_of_what_was_saved_before(tmp_path):
    joint = Tokenizers(learned("bpe"), learned("bpe"))
    separate = Tokenizers(learned("unigram"), learned("words"))
    for tokenizers, names in [
        (joint, {"tokenizer.json", "tokenizer.model"}),
        (separate, {"source.json", "source.model", "target.json"}),
        (joint, {"tokenizer.json", "tokenizer.model"}),
    ]:
        save_tokenizers(tokenizers, tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == names
        assert load_tokenizers(tmp_path).source.fingerprint() == tokenizers.source.fingerprint()


def test_saving_that_was_stopped_half_way_leaves_one_of_both_states(tmp_path):
    learned("words").save(tmp_path, "tokenizer")
    learned("characters").save(tmp_path, "source")
    source, target = load_tokenizers(tmp_path)
    assert source.fingerprint() == learned("words").fingerprint()
    assert source is target


def test_a_forged_model_is_refused_in_one_line(tmp_path):
    tokenizer = learned("bpe")
    save_tokenizers(Tokenizers(tokenizer, tokenizer), tmp_path)
    model, card = tmp_path / "tokenizer.model", tmp_path / "tokenizer.json"
    true = hashlib.sha256(model.read_bytes()).hexdigest()
    model.write_bytes(b"\xff" * 100)
    forged = hashlib.sha256(model.read_bytes()).hexdigest()
    card.write_text(card.read_text().replace(true, forged))
    with pytest.raises(TextError, match=r"tokenizer\.model: not a SentencePiece model"):
        load_tokenizers(tmp_path)


def test_a_folder_without_tokenizers_is_named(tmp_path):
    with pytest.raises(TextError, match=r"tokenizer\.json: missing"):
        load_tokenizers(tmp_path)


def test_a_folder_with_one_of_two_is_named(tmp_path):
    save_tokenizers(Tokenizers(learned("words"), learned("characters")), tmp_path)
    (tmp_path / "target.json").unlink()
    with pytest.raises(TextError, match=r"target\.json: missing"):
        load_tokenizers(tmp_path)


def test_at_most_so_many_texts_teach_and_they_come_from_everywhere():
    settings = TokenizerSettings(kind="words", size=0, max_training_texts=400)
    tokenizer = train_tokenizer((f"w{number}" for number in range(4000)), settings)
    taught = [int(piece.removeprefix("▁w")) for piece in tokenizer.pieces(range(5, tokenizer.size))]
    assert len(taught) == 400
    quarters = Counter(number // 1000 for number in taught)
    assert min(quarters.values()) > 70
    again = train_tokenizer((f"w{number}" for number in range(4000)), settings)
    assert again.fingerprint() == tokenizer.fingerprint()


def test_blank_texts_do_not_count_as_training_texts():
    settings = TokenizerSettings(kind="characters", max_training_texts=2)
    tokenizer = train_tokenizer(["", " ", "a", "\n", "b"], settings)
    assert UNK not in tokenizer.encode(["ab"])[0]


def test_one_blank_side_of_two_is_an_error():
    with pytest.raises(TextError, match="both sides have text"):
        train_tokenizers(sources, lambda: iter([]), TextSettings(source=CHARACTERS, joint=False))
