import pytest
from pydantic import ValidationError

from regard.models.translation.feedback import FeedbackSettings
from regard.models.translation.transformer_settings import TransformerSettings


@pytest.mark.parametrize("kind", [TransformerSettings, FeedbackSettings])
def test_presets_fill_what_is_not_given_and_nothing_else(kind):
    tiny = kind(preset="tiny", heads=8, dropout=0.0)
    assert (tiny.encoder_layers, tiny.decoder_layers) == (4, 4)
    assert (tiny.width, tiny.heads, tiny.feed_forward, tiny.dropout) == (128, 8, 256, 0.0)
    big = kind(preset="big")
    assert (big.width, big.heads, big.feed_forward, big.dropout) == (1024, 16, 4096, 0.3)
    small = kind(preset="small")
    assert (small.encoder_layers, small.width, small.heads) == (3, 256, 4)
    base = kind(preset="base")
    assert base.model_copy(update={"preset": None}) == kind()


def test_where_norms_stand_decides_whether_one_ends_the_stacks():
    settings = TransformerSettings(preset="tiny", norm="pre")
    assert settings.final_norm is True
    assert TransformerSettings(**settings.model_dump()) == settings
    assert TransformerSettings(norm="pre", final_norm=False).final_norm is False
    assert TransformerSettings(final_norm=None).final_norm is False


def test_heads_must_divide_the_width():
    with pytest.raises(ValidationError, match="got width 128 and heads 5"):
        TransformerSettings(preset="tiny", heads=5)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValidationError, match="preset"):
        TransformerSettings(preset="huge")
