"""A saved language model as a function: a prompt -> the text that follows."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.batching.collate import pad
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import DecodingSettings, RuleSettings, plan_batches, search_settings
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.engines.native.attention_capture import AttentionCapture
from regard.errors import SettingsError
from regard.inspection.interventions import HeadChange, Silenced
from regard.inspection.recording.attention_map import AttentionMaps, build_axis
from regard.inspection.recording.recorder import AttentionRecorder, compose_hooks
from regard.iterate import Track, untracked
from regard.models.contracts import AnyGenerator
from regard.recipes.open_run import Run
from regard.settings import counted
from regard.tasks.families.pipeline import Pipeline, ablate_heads
from regard.tasks.families.text_look import LikelyToken
from regard.tasks.language.completion import Completion, Continuation, with_next
from regard.tasks.language.options import DEFAULT_MAX_TOKENS
from regard.tasks.language.task import LanguageModelling
from regard.text.preprocess import require_texts
from regard.text.special_tokens import EOS, UNK
from regard.text.tokenizer import unknown_words
from regard.types import AttentionHook, Hypothesis, Site

BATCH_POSITIONS = 1 << 17  # prompts of a batch, times the longest with its continuation
NEXT_TOKENS = 5  # likeliest next tokens that a look has
MAX_READ_TOKENS = 2048  # of a text that is looked into, if the model itself has no limit
MAX_KEPT_WEIGHTS = 1 << 20  # of all heads of a layer; beyond, only those of the last tokens
DECIMALS = 6


class EncodedPrompt(NamedTuple):
    """A prompt in tokens: `ids` are read at once, and the answer follows `first`."""

    ids: list[int]
    first: int
    notes: tuple[str, ...]


class Completer(Pipeline[LanguageModelling, AnyGenerator]):
    """A language model as a function of prompts, one or many at once."""

    look_part = "decoder"
    look_options = "layer head every pieces kind max_tokens track"

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.settings: DecodingSettings = run.recipe.decoding  # the recipe's search
        self.tokenizer = self.task.tokenizer

    def __call__(self, prompt: str, **options: Any) -> Completion:
        """What follows one prompt; see `complete`."""
        return self.complete([prompt], **options)[0]

    def complete(
        self,
        prompts: Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        on_text: Callable[[int, str], None] | None = None,
        first: int = 0,
        **options: Any,
    ) -> list[Completion]:
        """The continuations of prompts, in order, each of at most `max_tokens` tokens.

        `options` are those of `search_settings`: beam, n_best, length_penalty, sampling. A prompt
        is read once, whatever the number of its continuations, and prompts of all lengths are
        batched together. `on_text` is called with a prompt's number and its text so far whenever
        that grows. `first` is the number of the first prompt, which seeds its samples: prompts
        given in several calls are then continued as in one.
        """
        require_texts("prompts", prompts)
        if max_tokens < 1:
            raise SettingsError(f"max_tokens: must be at least 1, got {max_tokens}")
        settings = _limited(search_settings(settings or self.settings, **options), max_tokens)
        encoded = [self._encode(prompt, max_tokens) for prompt in prompts]
        width = settings.n_best if settings.sampling else settings.beam.size
        lengths = [len(one.ids) + max_tokens for one in encoded]
        answers: dict[int, list[Hypothesis]] = {}
        for rows in plan_batches(lengths, BATCH_POSITIONS, width):
            some = {first + row: encoded[row] for row in rows}
            observer = _TextObserver(self, some, on_text) if on_text else None
            answers.update(zip(rows, self._search(some, settings, observer), strict=True))
        return [
            self._completion(
                prompt, encoded[row], answers[row], max_tokens - settings.rules.forced_tokens
            )
            for row, prompt in enumerate(prompts)
        ]

    def _completion(
        self, text: str, prompt: EncodedPrompt, found: Sequence[Hypothesis], max_tokens: int
    ) -> Completion:
        """The answer to a prompt, with a note if it ends because the model's context is full."""
        continuations = tuple(self._continuation(prompt, one) for one in found)
        longest = max(one.num_tokens for one in continuations)
        notes = *prompt.notes, *self._beyond(len(prompt.ids) + 1 + longest)
        if longest < max_tokens and not all(one.finished for one in continuations):
            notes = (
                *notes,
                f"ended after {longest:,} of {max_tokens:,} tokens: prompt and text fill the "
                f"{self._limit:,} that the model sees at once",
            )
        return Completion(text, continuations, notes=notes)

    def look(
        self,
        text: str | Sequence[str],
        settings: DecodingSettings | None = None,
        *,
        max_tokens: int = 0,
        changes: Sequence[HeadChange] = (),
        track: Track = untracked,
    ) -> Completion:
        """A text with the attention of its tokens, and the likeliest next tokens.

        The text is first continued by at most `max_tokens`, by greedy search unless `settings` are
        given. `changes` act on the continuation, the attention and the next tokens. The texts of a
        list are joined by spaces. `track` shows progress while a page of it is made.
        """
        if not (isinstance(text, str) or text):
            raise SettingsError("give a TEXT to look into; it may be empty")
        if max_tokens < 0:
            raise SettingsError(f"max_tokens: must be at least 0, got {max_tokens}")
        whole = text if isinstance(text, str) else " ".join(text)
        settings = settings or search_settings(self.settings, beam=1, n_best=1)
        return self.look_under(
            changes, lambda hooks: self._look(whole, settings, max_tokens, hooks, track)
        )

    def _look(
        self,
        text: str,
        settings: DecodingSettings,
        max_tokens: int,
        changes: Sequence[HeadChange],
        track: Track,
    ) -> Completion:
        """A text continued and looked into, under `changes`."""
        prompt, found = self._encode(text, max_tokens), tuple[Continuation, ...]()
        ids, notes = [*prompt.ids, prompt.first], list(prompt.notes)
        hook = compose_hooks(*changes) if changes else None
        if max_tokens:
            settings = _limited(settings, max_tokens)
            [[best, *_]] = self._search({0: prompt}, settings, None, hook)
            found = (self._continuation(prompt, best),)
            ids += best.tokens
        limit = self._limit or MAX_READ_TOKENS
        notes += self._beyond(min(len(ids), limit))
        if len(ids) > limit:
            notes.append(f"only the last {limit:,} of {len(ids):,} tokens are read")
        ids_read = ids[-limit:]
        read = self._read(ids_read, changes, unknown_words(self.tokenizer, text))
        if read.maps.omitted:
            notes.append(
                f"only the attention among the last {len(read.maps.rows.pieces):,} of "
                f"{len(ids_read):,} tokens is recorded: all of it would be too much"
            )
        looked = Completion(
            text,
            found,
            self._next_tokens(read),
            notes=tuple(notes),
            attention=AttentionCapture({"decoder": read.maps}),
        )
        text_without = partial(self._text_without, ids_read, looked.text)
        return replace(
            looked, ablate=partial(ablate_heads, looked.heads, len(ids_read), text_without, track)
        )

    @torch.inference_mode()
    def _text_without(self, ids: Sequence[int], text: str, ablation: Silenced) -> str:
        """`text` with the likeliest token after `ids` without a head or a layer."""
        [piece] = self.tokenizer.pieces([int(self._next_logits(ids, ablation).argmax())])
        return with_next(text, LikelyToken(piece, 0.0))

    def _next_logits(self, ids: Sequence[int], hook: AttentionHook | None) -> Tensor:
        """The logits of the token after `ids`: (V,)."""
        memory = self.model.encode(pad([[]], least=0).to(self.device))
        features = self.model.decode(pad([ids]).to(self.device), memory, hook=hook).features
        return self.model.logits(features[0, -1])

    @torch.inference_mode()
    def _read(
        self, ids: Sequence[int], changes: Sequence[HeadChange], unknown: Sequence[str]
    ) -> "_Read":
        """One pass over `ids` under `changes`, with its attention; with changes, also one without.

        `unknown` are the words of the text that the model does not know; some may be before `ids`.
        """
        recorder = _LastWeights(scores=True)
        logits = self._next_logits(ids, compose_hooks(*changes, recorder))
        shown = ids[-recorder.num_kept :]
        axis = build_axis(shown, self.tokenizer, unknown[len(unknown) - shown.count(UNK) :])
        maps = recorder.self_attention("decoder", axis, omitted=len(ids) - len(shown))
        if maps is None:
            raise SettingsError(
                f"{self.task.folder}: its model, {self.task.recipe.model.family}, keeps its "
                "context in states and has no attention to look at; train one that has, such as "
                "shakespeare"
            )
        before = self._next_logits(ids, None).double().softmax(-1).cpu() if changes else None
        return _Read(maps, logits.double().softmax(-1).cpu(), before)

    def _next_tokens(self, read: "_Read") -> tuple[LikelyToken, ...]:
        """The likeliest next tokens."""
        probabilities, tokens = read.probabilities.topk(min(NEXT_TOKENS, self.tokenizer.size))
        pieces = self.tokenizer.pieces(tokens.tolist())
        return tuple(
            LikelyToken(
                piece,
                round(probability, DECIMALS),
                None if read.before is None else round(float(read.before[token]), DECIMALS),
            )
            for piece, token, probability in zip(
                pieces, tokens.tolist(), probabilities.tolist(), strict=True
            )
        )

    @torch.inference_mode()
    def _search(
        self,
        prompts: Mapping[int, EncodedPrompt],
        settings: DecodingSettings,
        observer: SearchObserver | None,
        hook: AttentionHook | None = None,
    ) -> list[list[Hypothesis]]:
        """The answers to some prompts, by their numbers; one batch."""
        device, some = self.device, list(prompts.values())
        inputs = pad([one.ids for one in some], least=0).to(device)
        limit = self.model.max_length
        room = None if limit is None else [limit - len(one.ids) for one in some]
        return search(
            self.model,
            self.model.start(self.model.encode(inputs, hook=hook)),
            torch.tensor([len(one.ids) for one in some], device=device),
            settings,
            constraints=Constraints(room=room, first=[one.first for one in some]),
            numbers=list(prompts),
            hook=hook,
            observe=observer,
        )

    def _encode(self, prompt: str, max_tokens: int) -> EncodedPrompt:
        """A prompt in tokens, after those of `_before`, cut to the model's limit."""
        ids, limit = [*self._before(prompt), *self.tokenizer.encode([prompt])[0]], self._limit
        notes = []
        if unknown := sum(token == UNK for token in ids):
            notes.append(f"unknown to the model: {counted(unknown, 'token')} of the prompt")
        if limit is not None and len(ids) + min(max_tokens, 1) > limit:
            kept = limit - min(max_tokens, limit // 2)
            verb = "continues" if max_tokens else "reads"
            notes.append(
                f"the prompt has {len(ids):,} tokens and the model sees {limit:,} at once: it "
                f"{verb} the last {kept:,} of them"
            )
            ids = ids[-kept:]
        return EncodedPrompt(ids[:-1], ids[-1], tuple(notes))

    @property
    def _limit(self) -> int | None:
        return self.model.max_length

    def _beyond(self, count: int) -> list[str]:
        """The note on a text of `count` tokens, if it has more than a model without a limit was
        trained on.
        """
        recipe = self.task.recipe
        if self._limit is not None or recipe.model.context is None or count <= recipe.window:
            return []
        return [f"a text of {count:,} tokens; the model was trained on {recipe.window:,} at once"]

    def _before(self, prompt: str) -> list[int]:
        """The tokens before a prompt: those of an imported tokenizer; or the end of a document; or,
        if the corpus has no documents, none, but a line end before an empty prompt.
        """
        if (prefix := self.tokenizer.text_prefix) is not None:
            return list(prefix) if prefix or prompt else [EOS]
        if self.task.recipe.corpus.document_kind != "text":
            return [EOS]
        line_end = self.tokenizer.encode(["\n"])[0][-1:]
        return [] if prompt else (line_end if line_end and UNK not in line_end else [EOS])

    def _continuation(self, prompt: EncodedPrompt, answer: Hypothesis) -> Continuation:
        text = self.text_after(prompt, answer.tokens)
        return Continuation(text, answer.log_probability, len(answer.tokens), answer.finished)

    def text_after(self, prompt: EncodedPrompt, tokens: Sequence[int]) -> str:
        """The text of `tokens` after a prompt, with the space between them if there is one."""
        before = [*prompt.ids, prompt.first]
        whole: str = self.tokenizer.decode([*before, *tokens])
        return whole[len(self.tokenizer.decode(before)) :]


class _Read(NamedTuple):
    """The results of a pass over a text."""

    maps: AttentionMaps
    probabilities: Tensor  # (V,) of the next token
    before: Tensor | None  # (V,) without interventions; None: there are none


class _LastWeights(AttentionRecorder):
    """Records only the attention among the last tokens if a text has too many."""

    num_kept = 0
    """How many tokens these are; 0 if there was no attention."""

    def __call__(self, site: Site, weights: Tensor, /) -> Tensor:
        kept = math.isqrt(MAX_KEPT_WEIGHTS // weights.shape[1])
        self.num_kept = min(kept, weights.shape[-1])
        super().__call__(site, weights[..., -kept:, -kept:])
        return weights


class _TextObserver(SearchObserver):
    """Calls back with the growing text of each prompt's first hypothesis."""

    def __init__(
        self,
        completer: Completer,
        prompts: Mapping[int, EncodedPrompt],
        on_text: Callable[[int, str], None],
    ) -> None:
        self._completer, self._prompts, self._on_text = completer, prompts, on_text

    def on_step(self, step: SearchStep, /) -> Collection[int]:
        for number, tokens in zip(step.numbers, step.hypotheses.tokens[:, 0].tolist(), strict=True):
            self._tell(number, tokens[1:])
        return ()

    def on_result(self, number: int, answers: Sequence[Hypothesis], /) -> None:
        self._tell(number, answers[0].tokens)

    def _tell(self, number: int, tokens: Sequence[int]) -> None:
        ended = tokens[: tokens.index(EOS)] if EOS in tokens else tokens
        self._on_text(number, self._completer.text_after(self._prompts[number], ended))


def _limited(settings: DecodingSettings, max_tokens: int) -> DecodingSettings:
    """The settings with answers of at most `max_tokens`, independent of the prompt's length."""
    limits = {"max_length": max_tokens, "max_length_ratio": 0.0, "max_length_offset": max_tokens}
    least = min(settings.rules.min_length, max_tokens - 1)
    rules = RuleSettings(**{**settings.rules.model_dump(), **limits, "min_length": least})
    return settings.model_copy(update={"rules": rules})
