"""A saved masked language model as a function: text -> the likeliest tokens at its masks."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad
from regard.decoding.settings import plan_batches
from regard.engines.native.attention_capture import AttentionCapture
from regard.errors import SettingsError
from regard.inspection.interventions import HeadChange, Silenced
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.models.contracts import MaskedLanguageModel
from regard.recipes.open_run import Run
from regard.tasks.families.pipeline import Pipeline, ablate_heads
from regard.tasks.families.text_look import LikelyToken
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
DECIMALS = 6


class _Outputs(NamedTuple):
    """The outputs of a model for a batch of texts."""

    places: list[Tensor]  # for each text, the probabilities (M, V) at its masked places
    follows: Tensor | None  # (B,) how likely the second text of a pair follows the first


class Filler(Pipeline[MaskedLanguageModelling, MaskedLanguageModel]):
    """A masked language model as a function of texts in which `[MASK]`, or the model's own mask
    token, stands for a token.
    """

    look_part = "encoder"
    look_options = "layer head every pieces kind"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.tokenizer = self.task.tokenizer
        self.mask = self._mask_token()

    def _mask_token(self) -> MaskToken:
        """The mask token, with names as in the model's vocabulary, if that has one."""
        mask_id, named = self.model.mask_id, self.task.recipe.model
        if mask_id >= self.tokenizer.size:
            return MaskToken(mask_id, named.mask_name, named.end_names)
        name, begin, end = self.tokenizer.pieces([mask_id, BOS, EOS])
        return MaskToken(mask_id, name, (begin, end))

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
        changes: Sequence[HeadChange] = (),
    ) -> Filling:
        """A text, or the two of a pair, with its attention and its masked places, if any, filled,
        all under `changes`. An encoder without an output layer leaves them masked.
        """
        if not texts and not isinstance(texts, str):
            raise SettingsError("give a TEXT to look into, or two for a pair")
        _check_top(top)
        read = self._read([texts] if isinstance(texts, str) else texts)
        if not self.model.fills:
            read = read._replace(places=())
        return self.look_under(changes, partial(self._look, read, top))

    def _look(self, read: MaskedText, top: int, changes: Sequence[HeadChange]) -> Filling:
        recorder = AttentionRecorder(scores=True)
        outputs = self._run([read], compose_hooks(*changes, recorder))
        plain = self._run([read], None).places[0] if changes else None
        maps = recorder.self_attention("encoder", read.axis)
        assert maps is not None  # every masked language model attends
        follows = None if outputs.follows is None else outputs.follows[0]
        filling = self._filling(read, outputs.places[0], follows, top, plain)
        filling = replace(filling, attention=AttentionCapture({"encoder": maps}))
        if not read.places:
            return filling
        ablate = partial(ablate_heads, filling.heads, len(read.ids), partial(self._without, read))
        return replace(filling, ablate=ablate)

    def _without(self, read: MaskedText, ablation: Silenced) -> str:
        """The filled text without a head or a layer."""
        return self._filled(read, self._run([read], ablation).places[0])

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
        device = self.device
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
        return Filling(read.text, tuple(masks), text, next_one, notes=read.notes)

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
