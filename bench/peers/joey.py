"""JoeyNMT's model and its search, on batches of like length.

Its own command trains at about half the speed measured here: its sampler does not put sentences of
like length together, so that half of what it computes is padding.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from joeynmt.model import build_model
from joeynmt.search import beam_search, greedy
from safetensors.torch import load_file, save_file
from torch import Tensor

from bench.peers.contract import Engine, ModelShape, PeerConfig, Trainer
from bench.peers.sentencepiece_text import BOS, EOS, PAD, UNK, PeerTokenizer, longest_answer
from regard.decoding.settings import plan_batches

BUDGET = 4096
"""Source positions of a batch, counted once for each hypothesis."""
EPSILON = 1e-5
"""Of layer norms: ours and torch's; JoeyNMT has a tenth of it."""
WEIGHTS = "model.safetensors"
ENCODER = {
    "own": "src_src_att",
    "around_own.norm": "layer_norm",
    "feed.inner": "feed_forward.pwff_layer.0",
    "feed.outer": "feed_forward.pwff_layer.3",
    "around_feed.norm": "feed_forward.layer_norm",
}
DECODER = ENCODER | {
    "own": "trg_trg_att",
    "around_own.norm": "x_layer_norm",
    "cross": "src_trg_att",
    "around_cross.norm": "dec_layer_norm",
}
"""Names of ours in a layer -> theirs."""


class Vocabulary:
    """What JoeyNMT's model asks of one; its own would put the special tokens in another order."""

    pad_index, unk_index, bos_index, eos_index = PAD, UNK, BOS, EOS
    sep_index = None
    specials: tuple[str, ...] = ()
    lang_tags: tuple[int, ...] = ()

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def build(shape: ModelShape) -> Any:
    """A fresh model of theirs."""
    logging.getLogger("joeynmt.model").setLevel(logging.ERROR)

    def side(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer",
            "num_layers": layers,
            "num_heads": shape.heads,
            "embeddings": {"embedding_dim": shape.width, "scale": True, "dropout": shape.dropout},
            "hidden_size": shape.width,
            "ff_size": shape.feed_forward,
            "dropout": shape.dropout,
            "layer_norm": shape.norm,
        }

    config = {
        "initializer": "xavier_uniform",
        "embed_initializer": "xavier_uniform",
        "embed_init_gain": 1.0,
        "init_gain": 1.0,
        "bias_initializer": "zeros",
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": side(shape.encoder_layers),
        "decoder": side(shape.decoder_layers),
    }
    vocabulary = Vocabulary(shape.vocabulary)
    model = build_model(config, vocabulary, vocabulary)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = EPSILON
    return model


def export(run: Path, folder: Path) -> None:
    """Write weights under JoeyNMT's names."""
    from bench.peers.logit_check import check_same_logits
    from bench.peers.run_export import load_exportable_run, save_text

    taken = load_exportable_run(run)
    model = build(taken.shape).eval()
    theirs = translate_names(taken.weights)
    load(model, theirs)
    check_same_logits(taken.run.model, taken.shape.vocabulary, lambda batch: logits(model, batch))
    save_file(theirs, folder / WEIGHTS)
    save_text(taken, folder)


def load(model: Any, theirs: dict[str, Tensor]) -> None:
    """Load the weights, tied ones under one name; an error if any is missing or unknown."""
    left = model.load_state_dict(theirs, strict=False)
    tied = {"trg_embed.lut.weight", "decoder.output_layer.weight"}
    missing = {name for name in left.missing_keys if not name.endswith("pe.pe")} - tied
    assert not missing, missing
    assert not left.unexpected_keys, left.unexpected_keys


def logits(model: Any, batch: Any) -> Tensor:
    """Of the real target positions of a batch: (M, V)."""
    found, _, _, _ = model._encode_decode(**_inputs(batch))  # (B, T, V)
    flat: Tensor = found.flatten(0, 1)
    return flat[batch.positions]


def _inputs(batch: Any) -> dict[str, Any]:
    return {
        "src": batch.inputs.ids,
        "src_mask": batch.inputs.mask[:, None],
        "src_length": batch.inputs.mask.sum(1),
        "trg_input": batch.decoder_input.ids,
        "trg_mask": batch.decoder_input.mask[:, None],
    }


def translate_names(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Our weights under their names."""
    theirs = {"src_embed.lut.weight": weights["embeddings.source"].clone()}
    for name, tensor in weights.items():
        side, _, rest = name.partition(".")
        if side.endswith("_norm"):
            theirs[f"{side.removesuffix('_norm')}.layer_norm.{rest}"] = tensor.clone()
        if side not in ("encoder", "decoder"):
            continue
        number, _, rest = rest.partition(".")
        inside, _, kind = rest.rpartition(".")
        names = ENCODER if side == "encoder" else DECODER
        layer = f"{side}.layers.{number}"
        if inside in names:
            theirs[f"{layer}.{names[inside]}.{kind}"] = tensor.clone()
            continue
        attention, _, what = inside.partition(".")
        where = f"{layer}.{names[attention]}"
        if what == "out":
            theirs[f"{where}.output_layer.{kind}"] = tensor.clone()
            continue
        for part, chunk in zip(("q_layer", "k_layer", "v_layer"), tensor.chunk(3), strict=True):
            theirs[f"{where}.{part}.{kind}"] = chunk.clone()
    return theirs


class JoeyEngine:
    """JoeyNMT's greedy and beam search."""

    def __init__(self, folder: Path, setup: PeerConfig) -> None:
        torch.set_num_threads(setup.threads)
        self.pieces = PeerTokenizer(folder)
        facts = dict(self.pieces.facts)
        self.alpha, _, _ = (facts.pop(name) for name in ("length_penalty", "form", "lowercase"))
        self.model = build(ModelShape(**facts)).eval()
        load(self.model, load_file(folder / WEIGHTS))
        self.autocast: dict[str, Any] = {
            "device_type": "cpu",
            "dtype": torch.bfloat16,
            "enabled": setup.precision == "bfloat16",
        }

    @torch.inference_mode()
    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        sources = [[*ids, EOS] for ids in self.pieces.encode(texts)]
        answers: dict[int, list[int]] = {}
        for places in plan_batches(list(map(len, sources)), BUDGET, beam):
            found = self._search([sources[place] for place in places], beam)
            answers.update(zip(places, found, strict=True))
        return self.pieces.decode([answers[place] for place in range(len(sources))])

    def _search(self, rows: list[list[int]], beam: int) -> list[list[int]]:
        length = max(map(len, rows))
        ids = torch.tensor([row + [PAD] * (length - len(row)) for row in rows])  # (B, S)
        mask = (ids != PAD)[:, None]  # (B, 1, S)
        with torch.autocast(**self.autocast):
            memory, hidden, _, _ = self.model(
                return_type="encode", src=ids, src_length=mask.sum(2)[:, 0], src_mask=mask
            )
        shared = {
            "src_mask": mask,
            "max_output_length": longest_answer(rows),
            "model": self.model,
            "encoder_output": memory,
            "encoder_hidden": hidden,
            "generate_unk": False,
            "autocast": self.autocast,
        }
        if beam == 1:
            found, _, _ = greedy(**shared)
        else:
            found, _, _ = beam_search(beam_size=beam, alpha=self.alpha, **shared)
        return [list(map(int, row)) for row in found]


def open_engine(folder: Path, setup: PeerConfig) -> Engine:
    """The model in a folder."""
    return JoeyEngine(folder, setup)


def open_trainer(shape: ModelShape, setup: PeerConfig) -> Trainer:
    """A fresh model with JoeyNMT's own loss."""
    from bench.peers.training_loop import SMOOTHING, PeerTrainer

    model = build(shape).to(setup.device)
    model.loss_function = ("crossentropy", SMOOTHING)

    def loss(batch: Any) -> Tensor:
        labels = torch.full_like(batch.decoder_input.ids, PAD).flatten()  # (B * T,)
        labels[batch.positions] = batch.labels
        wanted = {"trg": labels.view_as(batch.decoder_input.ids)}
        summed: Tensor = model(return_type="loss", **_inputs(batch), **wanted)[0]
        mean: Tensor = summed / batch.num_labels
        return mean

    return PeerTrainer(model, loss, setup)
