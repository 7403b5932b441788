"""What a model attends to while it is told the right answer."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from regard.batching.collate import pad, pad_source
from regard.errors import SettingsError
from regard.models.contracts import AnyModel
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES, UNK
from regard.text.tokenizer import Tokenizer
from regard.text.word_units import has_unspaced, merge_units
from regard.types import AttentionHook, Padded, Site

Part = Literal["encoder", "decoder", "cross"]
PARTS: tuple[Part, ...] = get_args(Part)


class Axis(NamedTuple):
    """What stands along one side of a map of attention."""

    pieces: tuple[str, ...]
    """One for each row or column, specials among them."""
    words: tuple[str, ...]
    word_of: tuple[int | None, ...]
    """For each piece the number of its word; None for a special or a mere space.

    The space before an unknown word is part of it: a model that says this space has decided what
    follows, and often looks at its source then and not later.
    """
    units: tuple[int, ...] = ()
    """How many units of the text each word is made of, as `split_units` divides it; none: one each.

    In scripts without spaces a word is what a piece of the model holds, and a unit is a letter.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """The units of each word, written out."""
        return self.units or (1,) * len(self.words)


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMaps:
    """How the pieces of one sentence attend, in every layer and head of one part of a model.

    A row of cross or decoder attention is named by the piece that the decoder answers there, not
    by the one it was given: the last is `</s>`.
    """

    part: Part
    layers: Tensor  # (L, H, T, S)
    rows: Axis  # T
    columns: Axis  # S

    def __repr__(self) -> str:
        layers, heads, rows, columns = self.layers.shape
        return f"<Attention {self.part}, {layers} layers of {heads} heads, {rows} x {columns}>"

    def pick(self, layer: int | None = None, head: int | None = None) -> Tensor:
        """One map (T, S); None stands for the average over layers or heads."""
        num_layers, num_heads = self.layers.shape[:2]
        for name, index, count in (("layer", layer, num_layers), ("head", head, num_heads)):
            if index is not None and not 0 <= index < count:
                raise SettingsError(
                    f"{name}: {self.part} attention has {count}, counted from 0; got {index}"
                )
        heads = self.layers.mean(0) if layer is None else self.layers[layer]  # (H, T, S)
        return heads.mean(0) if head is None else heads[head]  # (T, S)


@dataclass(frozen=True, eq=False)
class AttentionRecording:
    """The attention of a batch; all on the CPU."""

    source: Padded  # (B, S)
    target: Padded  # (B, T), each row begins with BOS
    weights: Mapping[tuple[Part, int], Tensor]
    """By part and layer, each (B, H, T, S)."""

    def attention(
        self,
        sentence: int,
        source: Tokenizer,
        target: Tokenizer,
        part: Part = "cross",
        *,
        unknown: Sequence[str] = (),
        unknown_source: Sequence[str] = (),
    ) -> AttentionMaps:
        """The attention of one sentence, its padding cut off and its pieces named.

        `unknown` are the words that stand for the target's unknown ones, as `decode` has it, and
        `unknown_source` those that stand for the source's.
        """
        numbers = sorted(layer for recorded_part, layer in self.weights if recorded_part == part)
        if not numbers:
            parts = ", ".join(sorted({recorded_part for recorded_part, _ in self.weights}))
            raise SettingsError(f"part: no {part} attention was recorded, found {parts or 'none'}")
        layers = torch.stack([self.weights[part, layer][sentence] for layer in numbers])
        columns = build_axis(_unpad(self.source, sentence), source, unknown_source)
        answered = [*_unpad(self.target, sentence)[1:], EOS]
        return build_attention_maps(part, layers, columns, answered, target, unknown=unknown)


class AttentionRecorder:
    """A watch that keeps the weights of a pass and changes nothing.

    It is for teacher forcing, all positions at once or one after the other. In a search the rows
    are hypotheses, which move: `record_search.py` follows them.
    """

    def __init__(self, parts: Collection[Part] = PARTS) -> None:
        self._parts = parts
        self._weights: dict[tuple[Part, int], list[Tensor]] = {}

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        if site.part in self._parts:
            kept = weights.detach().to("cpu", copy=True)
            self._weights.setdefault((site.part, site.layer), []).append(kept)
        return weights

    def weights(self) -> dict[tuple[Part, int], Tensor]:
        """What was seen, by part and layer: each (B, H, T, S)."""
        return {place: torch.cat(seen, dim=-2) for place, seen in self._weights.items()}


def chain(*watches: AttentionHook) -> AttentionHook:
    """A watch that hands the weights from one watch to the next."""

    def hook(site: Site, weights: Tensor, /) -> Tensor:
        for each in watches:
            weights = each(site, weights)
        return weights

    return hook


@torch.inference_mode()
def record(
    model: AnyModel,
    source: Padded,
    target: Padded,
    *,
    parts: Collection[Part] = PARTS,
    change: AttentionHook | None = None,
) -> AttentionRecording:
    """What `model` attends to in `source` (B, S) while it is told `target` (B, T).

    The source ends in EOS and the target begins with BOS. What `change` makes of the weights is
    what is mixed with and recorded.
    """
    device = next(model.parameters()).device
    recorder = AttentionRecorder(parts)
    hook = recorder if change is None else chain(change, recorder)
    was_training = model.training
    model.eval()
    try:
        memory = model.encode(source.to(device), hook=hook)
        model.decode(target.to(device), memory, hook=hook)
    finally:
        model.train(was_training)
    cpu = torch.device("cpu")
    return AttentionRecording(source.to(cpu), target.to(cpu), recorder.weights())


def count_heads(model: AnyModel) -> dict[Part, dict[int, int]]:
    """How many heads each layer has, part by part; without those that the model has not.

    Only a model that is run tells where it attends: it is told nothing in answer to nothing.
    """
    seen = record(model, pad_source([[]]), pad([[]], first=BOS)).weights
    return {
        part: {
            layer: seen[part, layer].shape[1]
            for recorded_part, layer in sorted(seen)
            if recorded_part == part
        }
        for part in PARTS
        if any(recorded_part == part for recorded_part, _ in seen)
    }


def build_axis(ids: Sequence[int], tokenizer: Tokenizer, unknown: Sequence[str] = ()) -> Axis:
    """The pieces and words of `ids`, which may begin with BOS and end in EOS.

    `unknown` are the words that stand for unknown ones, as `Tokenizer.decode` has it.
    """
    first = int(len(ids) > 0 and ids[0] == BOS)
    last = len(ids) - int(len(ids) > 0 and ids[-1] == EOS)
    inner = ids[first:last]
    numbers = tokenizer.word_ids(inner, unknown)
    for place, behind in enumerate(inner[1:]):
        if behind == UNK and numbers[place] is None:
            numbers[place] = numbers[place + 1]
    before, after = [SPECIAL_PIECES[BOS]] * first, [SPECIAL_PIECES[EOS]] * (len(ids) - last)
    pieces = (*before, *tokenizer.pieces(inner), *after)
    text = tokenizer.decode(inner, unknown)
    units: tuple[int, ...] = ()
    if has_unspaced(text):
        words, units, word_of = merge_units(text, set(numbers))
        numbers = [None if number is None else word_of[number] for number in numbers]
    else:
        words = tuple(text.split())
    return Axis(pieces, words, (*(None for _ in before), *numbers, *(None for _ in after)), units)


def build_attention_maps(
    part: Part,
    layers: Tensor,
    source: Axis,
    answered: Sequence[int],
    target: Tokenizer,
    *,
    unknown: Sequence[str] = (),
) -> AttentionMaps:
    """The weights `layers` (L, H, T, S), with names for rows and columns; padding is cut off.

    `answered` are the ids that the decoder said, EOS included if it did: it was given BOS and all
    of them but the last.
    """
    rows = columns = source
    if part != "encoder":
        rows = build_axis(answered, target, unknown)
    if part == "decoder":
        columns = build_axis([BOS, *answered[:-1]], target, unknown)
    size = len(rows.pieces), len(columns.pieces)
    return AttentionMaps(part, layers[..., : size[0], : size[1]].float(), rows, columns)


def _unpad(padded: Padded, sentence: int) -> list[int]:
    ids: list[int] = padded.ids[sentence][padded.mask[sentence]].tolist()
    return ids
