"""A saved masked language model as a function: text -> the likeliest tokens at its masks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad
from regard.decoding.settings import plan_batches
from regard.engines.native.attention_capture import AttentionCapture
from regard.errors import SettingsError
from regard.inspection.interventions import (
    Flattened,
    Silenced,
    list_head_ablations,
    require_heads,
)
from regard.inspection.recording.attention_map import Part
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.models.contracts import MaskedLanguageModel
from regard.recipes.open_run import Run
from regard.tasks.families.text_look import LikelyToken
from regard.tasks.families.viewer_document import HeadAblation, ablated_answers
from regard.tasks.masked.filling import FilledMask, Filling
from regard.tasks.masked.masked_text import (
    MASK,
    MaskedText,
    MaskToken,
    read_masked_text,
    token_surface,
)
from regard.tasks.masked.options import DEFAULT_TOP
from regard.tasks.masked.task import MaskedLanguageModelling
from regard.text.preprocess import require_texts
from regard.text.special_tokens import BOS, EOS, SPECIAL_PIECES
from regard.types import AttentionHook, Padded

BATCH_POSITIONS = 1 << 15  # texts of a batch, times the tokens of the longest
MAX_ABLATED_TOKENS = 1 << 15  # read again for a page, once without each head
DECIMALS = 6


class _Outputs(NamedTuple):
    """The outputs of a model for a batch of texts."""

    places: list[Tensor]  # for each text, the probabilities (M, V) at its masked places
    follows: Tensor | None  # (B,) how likely the second text of a pair follows the first


class Filler:
    """A masked language model as a function of texts in which `[MASK]`, or the model's own mask
    token, stands for a token.
    """

    look_part: ClassVar[Part] = "encoder"
    look_options: ClassVar[str] = "layer head every pieces kind"

    def __init__(self, run: Run) -> None:
        self.task: MaskedLanguageModelling = run.task
        self.model: MaskedLanguageModel = run.model
        self.tokenizer = self.task.tokenizer
        self.mask = self._mask_token()

    def _mask_token(self) -> MaskToken:
        """The mask token, with names as in the model's vocabulary, if that has one."""
        mask_id, named = self.model.mask_id, self.task.recipe.model
        if mask_id >= self.tokenizer.size:
            return MaskToken(mask_id, named.mask_name, named.end_names)
        name, begin, end = self.tokenizer.pieces([mask_id, BOS, EOS])
        return MaskToken(mask_id, name, (begin, end))

    def __repr__(self) -> str:
        return f"<Filler {self.task.folder}>"

    def __call__(self, text: str, *, top: int = DEFAULT_TOP) -> Filling:
        """The likeliest tokens of the masked places of one text; see `fill`."""
        return self.fill([text], top=top)[0]

    def fill(self, texts: Sequence[str], *, top: int = DEFAULT_TOP) -> list[Filling]:
        """The `top` likeliest tokens of each masked place of texts, in order; a text without
        masked places is returned unchanged, with a note. A text may be a pair: `A ||| B`.
        """
        require_texts("texts", texts)
        _check_top(top)
        read = [self._read([text]) for text in texts]
        found: dict[int, Filling] = {}
        for rows in plan_batches([len(one.ids) for one in read], BATCH_POSITIONS, 1):
            some = [read[row] for row in rows]
            outputs = self._run(some, None)
            follows = outputs.follows
            for number, (row, one) in enumerate(zip(rows, some, strict=True)):
                next_one = None if follows is None else follows[number]
                filling = self._filling(one, outputs.places[number], next_one, top)
                if not one.places:
                    notes = (*filling.notes, self._unmasked_note(one.text))
                    filling = replace(filling, notes=notes)
                found[row] = filling
        return [found[row] for row in range(len(texts))]

    def look(
        self,
        texts: str | Sequence[str],
        *,
        top: int = DEFAULT_TOP,
        changes: Sequence[Silenced | Flattened] = (),
    ) -> Filling:
        """A text, or the two of a pair, with its attention and its masked places, if any, filled,
        all under `changes`. An encoder without an output layer leaves them masked.
        """
        given = [texts] if isinstance(texts, str) else list(texts)
        if not given:
            raise SettingsError("give a TEXT to look into, or two for a pair")
        _check_top(top)
        read = self._read(given)
        if not self.model.fills:
            read = read._replace(places=())
        plain = self._look(read, top, ())
        if not changes:
            return plain
        layers, heads = plain.required_attention().parts["encoder"].weights.shape[:2]
        require_heads(changes, layers, heads, "encoder")
        return replace(self._look(read, top, changes), before=plain)

    def _look(self, read: MaskedText, top: int, changes: Sequence[Silenced | Flattened]) -> Filling:
        recorder = AttentionRecorder(scores=True)
        outputs = self._run([read], compose_hooks(*changes, recorder))
        plain = self._run([read], None).places[0] if changes else None
        maps = recorder.self_attention("encoder", read.axis)
        assert maps is not None  # every masked language model attends
        follows = None if outputs.follows is None else outputs.follows[0]
        filling = self._filling(read, outputs.places[0], follows, top, plain)
        capture = AttentionCapture({"encoder": maps})
        ablate = partial(self._ablate, read, maps.weights.shape[:2])
        return replace(filling, attention=capture, changes=tuple(changes), ablate=ablate)

    def _ablate(self, read: MaskedText, heads: Sequence[int]) -> list[HeadAblation]:
        """The filled text without each of the model's `heads` (L, H), and without the heads of each
        layer; none if there is nothing to fill, or too many tokens would be read.
        """
        ablations = list_head_ablations({"encoder": dict.fromkeys(range(heads[0]), heads[1])})
        if not read.places or len(ablations) * len(read.ids) > MAX_ABLATED_TOKENS:
            return []
        return ablated_answers(
            ablations, lambda one: self._filled(read, self._run([read], one).places[0])
        )

    def _read(self, texts: Sequence[str]) -> MaskedText:
        limit, window = self.model.max_length, self.task.recipe.window
        read = read_masked_text(texts, self.tokenizer, self.mask, limit)
        if len(read.ids) <= window:
            return read
        longer = f"a text of {len(read.ids):,} tokens; the model was trained on {window:,} at once"
        return read._replace(notes=(*read.notes, longer))

    @torch.inference_mode()
    def _run(self, texts: Sequence[MaskedText], hook: AttentionHook | None) -> _Outputs:
        """The outputs of the model for some texts, in one batch."""
        device = next(self.model.parameters()).device
        padded, segments = pad([one.ids for one in texts]), pad([one.segments for one in texts])
        inputs = Padded(padded.ids, padded.mask, None, segments.ids).to(device)
        states, length = self.model.token_states(inputs, hook=hook), padded.ids.shape[1]
        places = [
            row * length + place.position for row, one in enumerate(texts) for place in one.places
        ]
        probabilities = torch.zeros(0, 1)
        if places:
            features = self.model.features_at(states, torch.tensor(places, device=device))
            probabilities = self.model.logits(features).double().softmax(-1).cpu()
        counts = [len(one.places) for one in texts]
        logits = None
        if any(one.segments[-1] for one in texts):
            logits = self.model.next_sentence_logits(states)
        follows = None if logits is None else logits.double().softmax(-1)[:, 0].cpu()
        return _Outputs(list(torch.split(probabilities, counts)), follows)

    def _filling(
        self,
        read: MaskedText,
        probabilities: Tensor,
        follows: Tensor | None,
        top: int,
        before: Tensor | None = None,
    ) -> Filling:
        """The answers to a text, for the probabilities (M, V) at its places, and those `before` any
        intervention.
        """
        masks = []
        for number, place in enumerate(read.places):
            found = self._likeliest(probabilities[number], top)
            tokens, texts = [], []
            for token in found:
                [piece] = self.tokenizer.pieces([token])
                old = None if before is None else round(float(before[number, token]), DECIMALS)
                chance = round(float(probabilities[number, token]), DECIMALS)
                tokens.append(LikelyToken(piece, chance, old))
                texts.append(place.filled(token_surface(self.tokenizer, token)))
            masks.append(FilledMask(tuple(tokens), tuple(texts)))
        is_pair = read.segments[-1] > 0
        next_one = None if follows is None or not is_pair else round(float(follows), DECIMALS)
        text = self._filled(read, probabilities)
        return Filling(read.text, tuple(masks), text, next_one, read.notes)

    def _unmasked_note(self, text: str) -> str:
        """The note on a text without masked places."""
        if not text.strip():
            return "the text is empty: there is nothing to fill"
        return (
            f"there is no {' or '.join(self.mask.spellings)} in it; write {MASK} instead of a "
            f'word, as in "Paris is the {MASK} of France."'
        )

    def _filled(self, read: MaskedText, probabilities: Tensor) -> str:
        """A text with the likeliest token in each of its places."""
        text, added = "", 0
        for number, place in enumerate(read.places):
            [token] = self._likeliest(probabilities[number], 1)
            surface = token_surface(self.tokenizer, token)
            text += place.before[added:]
            text += surface if text else surface.removeprefix(" ")
            added = len(read.text) - len(place.after)
        return text + read.text[added:]

    def _likeliest(self, probabilities: Tensor, top: int) -> list[int]:
        """The likeliest tokens of (V,) that are text."""
        num_special = len(SPECIAL_PIECES)
        ordinary = probabilities[num_special:]
        found: list[int] = (ordinary.topk(min(top, len(ordinary))).indices + num_special).tolist()
        return found


def _check_top(top: int) -> None:
    if top < 1:
        raise SettingsError(f"top: must be at least 1, got {top}")
