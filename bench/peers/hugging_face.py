"""Hugging Face's Marian; for norms before the layers Pegasus, which is Marian with these.

Both are the Transformer of Vaswani et al. with tied embeddings. They have all sines of a position
before all cosines, where the paper and we have them in turn: our vectors are put into their order.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from bench.peers.contract import Engine, ModelShape, PeerConfig, Trainer
from bench.peers.sentencepiece_text import BOS, EOS, PAD, UNK, PeerTokenizer, longest_answer
from regard.decoding.settings import plan_batches

LONGEST = 1024
BUDGET = 4096
"""Source positions of a batch, counted once for each hypothesis."""
NOT_OURS = ("embed_positions.weight", "final_logits_bias")
"""Weights that only they have: a table of sinusoids, and zeros."""
MARIAN = {
    "own.out": "self_attn.out_proj",
    "around_own.norm": "self_attn_layer_norm",
    "cross.out": "encoder_attn.out_proj",
    "around_cross.norm": "encoder_attn_layer_norm",
    "feed.inner": "fc1",
    "feed.outer": "fc2",
    "around_feed.norm": "final_layer_norm",
}
"""Names of ours in a layer -> theirs."""


def build(shape: ModelShape) -> Any:
    """A fresh model of theirs."""
    pre = shape.norm == "pre"
    config = (transformers.PegasusConfig if pre else transformers.MarianConfig)(
        vocab_size=shape.vocabulary,
        d_model=shape.width,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        encoder_attention_heads=shape.heads,
        decoder_attention_heads=shape.heads,
        encoder_ffn_dim=shape.feed_forward,
        decoder_ffn_dim=shape.feed_forward,
        dropout=shape.dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        activation_function="relu",
        max_position_embeddings=LONGEST,
        scale_embedding=True,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )
    return (transformers.PegasusForConditionalGeneration if pre else transformers.MarianMTModel)(
        config
    )


def export(run: Path, folder: Path) -> None:
    """Write a folder that `from_pretrained` reads."""
    from bench.peers.logit_check import check_same_logits
    from bench.peers.run_export import load_exportable_run, save_text

    taken = load_exportable_run(run)
    model = convert(taken.shape, taken.weights)
    check_same_logits(taken.run.model, taken.shape.vocabulary, lambda batch: logits(model, batch))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    save_text(taken, folder)


def convert(shape: ModelShape, weights: dict[str, Tensor]) -> Any:
    """A model of theirs with our weights."""
    model = build(shape).eval()
    left = model.load_state_dict(translate_names(weights), strict=False)
    missing = {name for name in left.missing_keys if not name.endswith(NOT_OURS)}
    assert not missing, missing
    assert not left.unexpected_keys, left.unexpected_keys
    return model


def logits(model: Any, batch: Any) -> Tensor:
    """Of the real target positions of a batch: (M, V)."""
    found: Tensor = model(
        input_ids=batch.inputs.ids,
        attention_mask=batch.inputs.mask.long(),
        decoder_input_ids=batch.decoder_input.ids,
        use_cache=False,
    ).logits  # (B, T, V)
    return found.flatten(0, 1)[batch.positions]


def translate_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under their names, and in their order of sines and cosines."""
    theirs = {"model.shared.weight": reorder("embeddings.source", weights["embeddings.source"])}
    for name, given in weights.items():
        side, _, rest = name.partition(".")
        tensor = reorder(name, given)
        if side.endswith("_norm"):
            theirs[f"model.{side.removesuffix('_norm')}.layer_norm.{rest}"] = tensor
        if side not in ("encoder", "decoder"):
            continue
        number, _, rest = rest.partition(".")
        inside, _, kind = rest.rpartition(".")
        layer = f"model.{side}.layers.{number}"
        if inside in MARIAN:
            theirs[f"{layer}.{MARIAN[inside]}.{kind}"] = tensor
            continue
        attention = "self_attn" if inside.startswith("own") else "encoder_attn"
        for part, chunk in zip(("q_proj", "k_proj", "v_proj"), tensor.chunk(3), strict=True):
            theirs[f"{layer}.{attention}.{part}.{kind}"] = chunk.clone()
    shared = theirs["model.shared.weight"]
    for tied in ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        theirs[f"{tied}.weight"] = shared
    return theirs


def reorder(name: str, tensor: Tensor) -> Tensor:
    """A weight with the width between layers in their order: first what is even, then the odd.

    Whatever reads that width has it in its columns, whatever writes it in its rows; what is between
    (heads, the inside of feed-forward layers) stays as it is.
    """
    reads = name.endswith(("project.weight", "inner.weight", "embeddings.source"))
    if name.endswith(("project.bias", "inner.bias")):
        return tensor
    width = tensor.shape[-1 if reads else 0]
    order = torch.cat([torch.arange(0, width, 2), torch.arange(1, width, 2)])  # (D,)
    return tensor.index_select(tensor.ndim - 1 if reads else 0, order)


class HuggingFaceEngine:
    """`generate`, on batches of like length."""

    def __init__(self, folder: Path, setup: PeerConfig) -> None:
        torch.set_num_threads(setup.threads)
        self.pieces = PeerTokenizer(folder)
        model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
        self.model = model.to(setup.device, getattr(torch, setup.precision)).eval()

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        sources = [[*ids, EOS] for ids in self.pieces.encode(texts)]
        answers: dict[int, list[int]] = {}
        for places in plan_batches(list(map(len, sources)), BUDGET, beam):
            rows = [sources[place] for place in places]
            found = generate(
                self.model, rows, beam=beam, length_penalty=self.pieces.facts["length_penalty"]
            )
            answers.update(zip(places, found, strict=True))
        return self.pieces.decode([answers[place] for place in range(len(sources))])


@torch.inference_mode()
def generate(
    model: Any, rows: Sequence[Sequence[int]], *, beam: int, length_penalty: float
) -> list[list[int]]:
    """What a model says to `rows`, each with its EOS, as one batch; EOS and PAD at the end."""
    length = max(map(len, rows))
    ids = torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])  # (B, S)
    ids = ids.to(model.device)
    found = model.generate(
        input_ids=ids,
        attention_mask=(ids != PAD).long(),
        num_beams=beam,
        do_sample=False,
        length_penalty=length_penalty,
        early_stopping=beam > 1,
        max_new_tokens=longest_answer(rows),
        suppress_tokens=[PAD, UNK, BOS],
    )
    said: list[list[int]] = found[:, 1:].tolist()
    return said


def open_engine(folder: Path, setup: PeerConfig) -> Engine:
    """The model in a folder."""
    return HuggingFaceEngine(folder, setup)


def open_trainer(shape: ModelShape, setup: PeerConfig) -> Trainer:
    """A fresh model; its loss is taken of the real positions alone."""
    from bench.peers.training_loop import SMOOTHING, PeerTrainer

    model = build(shape).to(setup.device)

    def loss(batch: Any) -> Tensor:
        return F.cross_entropy(logits(model, batch), batch.labels, label_smoothing=SMOOTHING)

    return PeerTrainer(model, loss, setup)
