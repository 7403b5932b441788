"""The mapping between variables of CTranslate2's Transformer and our parameters."""

from collections.abc import Iterator
from typing import NamedTuple

from regard.models.translation.transformer_settings import TransformerSettings


class WeightPlace(NamedTuple):
    """A variable of CTranslate2, and the parameter, or the rows of one, that it holds."""

    theirs: str
    ours: str
    rows: tuple[int, int] | None = None


def weight_places(settings: TransformerSettings) -> list[WeightPlace]:
    """All weights of a model except position encodings; parts of one of ours are in row order.

    A matrix that several embeddings share is listed once for each.
    """
    tying = settings.embeddings
    target = "embeddings.source" if tying in ("shared", "inputs") else "embeddings.target"
    output = "embeddings.output" if tying in ("inputs", "separate") else target
    places = [
        WeightPlace("encoder/embeddings_0/weight", "embeddings.source"),
        WeightPlace("decoder/embeddings/weight", target),
        WeightPlace("decoder/projection/weight", output),
    ]
    if settings.embedding_norm:
        for stack, side in (("encoder", "source"), ("decoder", "target")):
            places += _norm(f"{stack}/layernorm_embedding", f"{side}_norm")
    if settings.output_bias:
        places.append(WeightPlace("decoder/projection/bias", "embeddings.output_bias"))
    for number in range(settings.encoder_layers):
        places += _layer(settings, f"encoder/layer_{number}", f"encoder.{number}", decoder=False)
    of_decoder = settings.of_decoder()
    for number in range(settings.decoder_layers):
        places += _layer(of_decoder, f"decoder/layer_{number}", f"decoder.{number}", decoder=True)
    if settings.final_norm:
        for stack in ("encoder", "decoder"):
            places += _norm(f"{stack}/layer_norm", f"{stack}_norm")
    return places


def _layer(
    settings: TransformerSettings, theirs: str, ours: str, *, decoder: bool
) -> Iterator[WeightPlace]:
    width, hidden, bias = settings.width, settings.feed_forward, settings.bias
    attention, cross, feed = f"{theirs}/self_attention", f"{theirs}/attention", f"{theirs}/ffn"
    yield from _linear(f"{attention}/linear_0", f"{ours}.own.project", bias)
    yield from _linear(f"{attention}/linear_1", f"{ours}.own.out", bias)
    yield from _norm(f"{attention}/layer_norm", f"{ours}.around_own.norm")
    if settings.positions == "relative":
        yield WeightPlace(f"{attention}/relative_position_keys", f"{ours}.own.relative.vectors")
    if decoder:  # queries, then keys and values
        queries, others = (0, width), (width, 3 * width)
        yield from _linear(f"{cross}/linear_0", f"{ours}.cross.project", bias, queries)
        yield from _linear(f"{cross}/linear_1", f"{ours}.cross.project", bias, others)
        yield from _linear(f"{cross}/linear_2", f"{ours}.cross.out", bias)
        yield from _norm(f"{cross}/layer_norm", f"{ours}.around_cross.norm")
    if settings.activation == "swiglu":  # the gate, and the values that it multiplies
        gate, value = (0, hidden), (hidden, 2 * hidden)
        yield from _linear(f"{feed}/linear_0", f"{ours}.feed.inner", bias, gate)
        yield from _linear(f"{feed}/linear_0_noact", f"{ours}.feed.inner", bias, value)
    else:
        yield from _linear(f"{feed}/linear_0", f"{ours}.feed.inner", bias)
    yield from _linear(f"{feed}/linear_1", f"{ours}.feed.outer", bias)
    yield from _norm(f"{feed}/layer_norm", f"{ours}.around_feed.norm")


def _linear(
    theirs: str, ours: str, bias: bool, rows: tuple[int, int] | None = None
) -> Iterator[WeightPlace]:
    for part in ("weight", "bias") if bias else ("weight",):
        yield WeightPlace(f"{theirs}/{part}", f"{ours}.{part}", rows)


def _norm(theirs: str, ours: str) -> Iterator[WeightPlace]:
    yield WeightPlace(f"{theirs}/gamma", f"{ours}.weight")
    yield WeightPlace(f"{theirs}/beta", f"{ours}.bias")
