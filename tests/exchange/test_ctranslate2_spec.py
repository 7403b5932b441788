"""Every kind of Transformer must compute the same in CTranslate2 as here."""

import pytest
import torch

from regard.exchange.ctranslate2_spec import unsupported_reason, write_model
from regard.models.build import build_model
from regard.models.translation.gnmt import GnmtSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.special_tokens import token_labels
from regard.types import Padded

ctranslate2 = pytest.importorskip("ctranslate2")

SOURCE, TARGET, T, S = 23, 19, 6, 5
KINDS = {
    "post-norm": {},
    "pre-norm": {"norm": "pre"},
    "pre-norm without a last one": {"norm": "pre", "final_norm": False},
    "post-norm with a last one": {"final_norm": True},
    "learned positions": {"positions": "learned", "max_positions": 12},
    "relative positions": {"positions": "relative", "reach": 3},
    "rotary positions": {"positions": "rotary"},
    "gelu": {"activation": "gelu"},
    "swiglu": {"activation": "swiglu", "norm": "pre"},
    "three embeddings": {"embeddings": "separate"},
    "without biases": {"bias": False, "norm": "pre"},
    "as in OpenNMT": {
        "sinusoids": "tensor2tensor",
        "first_position": 1,
        "output_bias": True,
        "source_eos": False,
        "norm": "pre",
    },
    "as in Marian": {"sinusoids": "halves", "scale_embeddings": False, "norm_epsilon": 1e-3},
    "as in BART": {"embedding_norm": True, "activation": "gelu_tanh"},
    "unlike sides": {"decoder_heads": 4, "decoder_feed_forward": 12, "activation": "gelu_sigmoid"},
    "odd sizes": {"width": 24, "heads": 3, "encoder_layers": 1, "decoder_layers": 3},
}


def transformer(**settings):
    sizes = {"width": 16, "heads": 2, "feed_forward": 24, "encoder_layers": 2, "decoder_layers": 2}
    settings = TransformerSettings(**sizes | {"embeddings": "target"} | settings)
    torch.manual_seed(5)
    model = build_model(settings, SOURCE, TARGET, joint=False).eval()
    for parameter in model.parameters():  # biases and norms of their own, too
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model, settings


def both(model, folder):
    """Log-probabilities of a target by the model itself, and by what was written of it."""
    source, target = torch.randint(4, SOURCE, (S,)), torch.randint(4, TARGET, (T,))
    ids = torch.cat([source, torch.tensor([3])])[None]
    given = torch.cat([torch.tensor([2]), target])[None]
    with torch.inference_mode():
        logits = model(Padded(ids, ids > 0), Padded(given, given > 0))[0]
    said = [*target.tolist(), 3]
    native = logits.log_softmax(-1)[torch.arange(T + 1), said]
    engine = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    names = token_labels(SOURCE)
    sides = ([[names[i] for i in side.tolist()]] for side in (source, target))
    [scored] = engine.score_batch(*sides)
    return native, torch.tensor(list(scored.log_probs))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_says_the_same(kind, tmp_path):
    model, settings = transformer(**KINDS[kind])
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    positions = write_model(model, settings, tmp_path, precision="float32", positions=30)
    native, written = both(model, tmp_path)
    torch.testing.assert_close(written, native, rtol=1e-4, atol=1e-4)
    assert positions == {"learned": 12, "sinusoid": 30}.get(settings.positions)
    for name, weights in model.state_dict().items():
        assert weights.equal(before[name])


def test_a_lower_precision_is_near_and_leaves_the_model_alone(tmp_path):
    model, settings = transformer(norm="pre")
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    write_model(model, settings, tmp_path, precision="int8", positions=30)
    for name, weights in model.state_dict().items():
        assert weights.equal(before[name])
    native, written = both(model, tmp_path)
    torch.testing.assert_close(written, native, rtol=0.1, atol=0.3)


def test_a_weight_that_has_no_place_is_an_error(tmp_path):
    model, settings = transformer()
    model.register_parameter("stray", torch.nn.Parameter(torch.zeros(2)))
    with pytest.raises(
        ValueError, match=r"CTranslate2's model does not have the weights \['stray'\]"
    ):
        write_model(model, settings, tmp_path, precision="float32", positions=30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (GnmtSettings(width=8), "runs Transformers only"),
        (TransformerSettings(preset="tiny", window=4), r"no window \(4\)"),
        (TransformerSettings(preset="tiny", experts={}), "no experts"),
        (TransformerSettings(preset="tiny", activation="mish"), "the activation mish"),
    ],
)
def test_what_cannot_be_written(settings, reason, tmp_path):
    model, _ = transformer()
    with pytest.raises(ValueError, match=f"not a model for CTranslate2: .*{reason}"):
        write_model(model, settings, tmp_path, precision="float32", positions=30)


def test_what_can_be_written():
    assert unsupported_reason(TransformerSettings(preset="tiny")) is None
