"""A saved language model as a function of a prompt: the text that follows."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.batching.collate import pad
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.settings import DecodingSettings, RuleSettings, plan_batches, search_settings
from regard.decoding.tracing.observer import SearchObserver, SearchStep
from regard.errors import SettingsError
from regard.models.contracts import AnyGenerator
from regard.recipes.run_folder import pick_device
from regard.recipes.task_run import load_task_run
from regard.tasks.language_modelling import LanguageModelling
from regard.text.preprocess import require_texts
from regard.text.special_tokens import EOS, UNK
from regard.types import Hypothesis

BATCH_POSITIONS = 1 << 17  # prompts times their longest with its continuation
DEFAULT_MAX_TOKENS = 200


class Continuation(NamedTuple):
    """One text that follows a prompt."""

    text: str
    log_probability: float  # of its tokens, in nats
    num_tokens: int
    finished: bool  # whether the text ended, rather than at the limit


@dataclass(frozen=True, eq=False, repr=False)
class Completion:
    """What follows a prompt: the best continuation, or the first sample, first."""

    prompt: str
    continuations: tuple[Continuation, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The prompt and its first continuation."""
        return self.prompt + self.continuations[0].text

    def to_json(self) -> dict[str, Any]:
        return {
            "prompt": self.prompt,
            "continuations": [one._asdict() for one in self.continuations],
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        return f"<Completion {self.text!r}>"

    def __str__(self) -> str:
        return self.text


def load(path: Path | str, *, device: str = "auto", weights: str = "model") -> "Completer":
    """The completer of a run."""
    run = load_task_run(path, "language-model", device=pick_device(device), weights=weights)
    return Completer(run.task, run.model, run.recipe.decoding)


class EncodedPrompt(NamedTuple):
    """A prompt in tokens: `ids` are read at once, and the answer follows `first`."""

    ids: list[int]
    first: int
    notes: tuple[str, ...]


class Completer:
    """A language model as a function of prompts, one or many at once."""

    def __init__(
        self, task: LanguageModelling, model: AnyGenerator, settings: DecodingSettings
    ) -> None:
        self.task, self.model, self.settings = task, model, settings
        self.tokenizer = task.tokenizer

    def __repr__(self) -> str:
        return f"<Completer {self.task.folder}>"

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
        **options: Any,
    ) -> list[Completion]:
        """The continuations of prompts, in order, each of at most `max_tokens` tokens.

        `options` are those of `search_settings`: beam, n_best, length_penalty, sampling. A prompt
        is read once, however many continuations it has, and prompts of all lengths together.
        `on_text` is called with a prompt's number and its text so far whenever that grows.
        """
        require_texts("prompts", prompts)
        if max_tokens < 1:
            raise SettingsError(f"max_tokens: must be at least 1, got {max_tokens}")
        settings = _limited(settings or search_settings(self.settings, **options), max_tokens)
        encoded = [self._encode(prompt, max_tokens) for prompt in prompts]
        width = settings.n_best if settings.sampling else settings.beam.size
        lengths = [len(one.ids) + max_tokens for one in encoded]
        answers: dict[int, list[Hypothesis]] = {}
        for rows in plan_batches(lengths, BATCH_POSITIONS, width):
            some = {row: encoded[row] for row in rows}
            observer = _TextObserver(self, some, on_text) if on_text else None
            answers.update(zip(rows, self._search(some, settings, observer), strict=True))
        return [
            Completion(
                prompt,
                tuple(self._continuation(encoded[row], one) for one in answers[row]),
                encoded[row].notes,
            )
            for row, prompt in enumerate(prompts)
        ]

    @torch.inference_mode()
    def _search(
        self,
        prompts: Mapping[int, EncodedPrompt],
        settings: DecodingSettings,
        observer: SearchObserver | None,
    ) -> list[list[Hypothesis]]:
        """The answers to some prompts, by their numbers; one batch."""
        device, some = next(self.model.parameters()).device, list(prompts.values())
        inputs = pad([one.ids for one in some], least=0).to(device)
        limit = self.model.max_length
        room = None if limit is None else [limit - len(one.ids) for one in some]
        return search(
            self.model,
            self.model.start(self.model.encode(inputs)),
            torch.tensor([len(one.ids) for one in some], device=device),
            settings,
            constraints=Constraints(room=room, first=[one.first for one in some]),
            numbers=list(prompts),
            observe=observer,
        )

    def _encode(self, prompt: str, max_tokens: int) -> EncodedPrompt:
        """A prompt in tokens, behind the end of a document where the text had such."""
        ids, limit = [*self._before(prompt), *self.tokenizer.encode([prompt])[0]], self._limit
        notes = []
        if unknown := sum(token == UNK for token in ids):
            notes.append(f"{unknown} tokens of the prompt are unknown to the model")
        if limit is not None and len(ids) >= limit:
            kept = limit - min(max_tokens, limit // 2)
            notes.append(
                f"the prompt has {len(ids):,} tokens and the model sees {limit:,} at once: it "
                f"continues the last {kept:,} of them"
            )
            ids = ids[-kept:]
        return EncodedPrompt(ids[:-1], ids[-1], tuple(notes))

    @property
    def _limit(self) -> int | None:
        return self.model.max_length

    def _before(self, prompt: str) -> list[int]:
        """What stands before a prompt: the end of another document; in a text without documents
        nothing, or a line end before an empty prompt.
        """
        if self.task.recipe.corpus.document_kind != "text":
            return [EOS]
        line_end = self.tokenizer.encode(["\n"])[0][-1:]
        return [] if prompt else (line_end if line_end and UNK not in line_end else [EOS])

    def _continuation(self, prompt: EncodedPrompt, answer: Hypothesis) -> Continuation:
        text = self.text_behind(prompt, answer.tokens)
        return Continuation(text, answer.log_probability, len(answer.tokens), answer.finished)

    def text_behind(self, prompt: EncodedPrompt, tokens: Sequence[int]) -> str:
        """The text of `tokens` behind a prompt, spaces at its seam included."""
        before = [*prompt.ids, prompt.first]
        return self.tokenizer.decode([*before, *tokens])[len(self.tokenizer.decode(before)) :]


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
        self._on_text(number, self._completer.text_behind(self._prompts[number], ended))


def _limited(settings: DecodingSettings, max_tokens: int) -> DecodingSettings:
    """The settings with answers of at most `max_tokens`, however long a prompt is."""
    limits = {"max_length": max_tokens, "max_length_ratio": 0.0, "max_length_offset": max_tokens}
    least = min(settings.rules.min_length, max_tokens - 1)
    rules = RuleSettings(**{**settings.rules.model_dump(), **limits, "min_length": least})
    return settings.model_copy(update={"rules": rules})
