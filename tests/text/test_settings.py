import pytest
from pydantic import ValidationError

from regard.text.settings import TextSettings, TokenizerSettings


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("bpe", "min_count", 2),
        ("unigram", "min_count", 2),
        ("words", "sampling", 0.1),
        ("words", "byte_fallback", False),
        ("characters", "character_coverage", 1.0),
        ("characters", "sampling", 0.1),
    ],
)
def test_a_setting_without_effect_is_refused(kind, name, value):
    with pytest.raises(ValidationError, match=f"{name}: {value} has no effect on kind: {kind}"):
        TokenizerSettings(**{"kind": kind, name: value})


@pytest.mark.parametrize("kind", ["bpe", "characters", "unigram", "words"])
def test_settings_that_were_written_out_are_read_again(kind):
    settings = TokenizerSettings(kind=kind)
    assert TokenizerSettings.model_validate_json(settings.model_dump_json()) == settings


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_subwords_need_a_size(kind):
    with pytest.raises(
        ValidationError, match=f"size: 0 keeps all pieces, but {kind} needs a positive"
    ):
        TokenizerSettings(kind=kind, size=0)


@pytest.mark.parametrize("size", [1, 4])
def test_a_size_without_room_is_refused(size):
    with pytest.raises(ValidationError, match=f"size: {size} leaves no room beside the 4 special"):
        TokenizerSettings(kind="words", size=size)
    assert TokenizerSettings(kind="words", size=5).size == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sampling", 1.0),
        ("sampling", -0.1),
        ("character_coverage", 0.9),
        ("character_coverage", 1.1),
        ("max_training_texts", 0),
        ("form", "nfd"),
        ("kind", "bytes"),
        ("vocabulary", 8000),
    ],
)
def test_values_out_of_range_are_refused(name, value):
    with pytest.raises(ValidationError, match=name):
        TokenizerSettings(**{name: value})


def test_one_vocabulary_has_one_set_of_settings():
    one, other = TokenizerSettings(size=500), TokenizerSettings(size=600)
    with pytest.raises(ValidationError, match="leave target out, or set joint: false"):
        TextSettings(source=one, target=other)
    assert TextSettings(source=one, target=one).joint
    assert TextSettings(source=one, target=other, joint=False).target == other


def test_every_setting_is_described():
    fields = TokenizerSettings.model_fields | TextSettings.model_fields
    undescribed = [name for name, field in fields.items() if not field.description]
    assert undescribed == ["source"]


def test_sampling_of_both_sides_is_the_stronger():
    still, mild, strong = (TokenizerSettings(sampling=sampling) for sampling in (0.0, 0.1, 0.3))
    assert TextSettings(source=still).sampling == 0
    assert TextSettings(source=mild, joint=False).sampling == 0.1
    assert TextSettings(source=mild, target=strong, joint=False).sampling == 0.3
    assert TextSettings(source=strong, target=still, joint=False).sampling == 0.3
