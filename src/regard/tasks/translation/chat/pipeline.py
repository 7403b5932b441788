"""A saved model as a partner in a conversation."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from regard.corpora.pairs.dialogues import clean_turn, format_history, parse_history
from regard.decoding.settings import DecodingSettings
from regard.engines.native.native_engine import NativeEngine
from regard.errors import SettingsError
from regard.tasks.families.answer import Answer
from regard.tasks.names import CHAT
from regard.tasks.translation.pipeline import EngineChoice, Translator
from regard.text.preprocess import (
    PreparedText,
    TokenizedLine,
    keep_newest,
    require_texts,
    sanitize,
    tokenize_lines,
)
from regard.text.segmentation import Segment, Segments

ANY_LENGTH = 1 << 30  # tokens: a history is cut, never split into parts
NUM_ALTERNATIVES = 4  # answers from which a conversation takes one not said before
CUT_NOTE = "only the last {kept} of the {total} tokens of the history were read"


class Chatbot(Translator):
    """A model that answers a history: turns by alternating speakers, the last by the user.

    A history is a text: its turns are separated by line breaks or tabs, or each is preceded by
    `<user>` or `<assistant>`; one turn needs neither. Turns and tokens beyond the limits of the
    run are cut off at the beginning.
    """

    task = CHAT
    look_options = re.sub("number split ", "", Translator.look_options)  # a history is one part

    def tokenize(self, texts: Sequence[str], *, split: bool | None = None) -> list[PreparedText]:
        """Each history, cut to what the model reads, and tokenized; `split` has no effect."""
        require_texts("texts", texts)
        return [
            PreparedText(text, [self._tokenize(text, model) for model in range(len(self.sources))])
            for text in map(sanitize, texts)
        ]

    def conversation(self, settings: DecodingSettings | None = None) -> "Conversation":
        """A new conversation, with the run's search settings unless `settings` are given."""
        return Conversation(self, settings)

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each history, as the first model reads it."""
        return [ids for text in texts for ids in self._tokenize(text, 0).parts or [[]]]

    def _tokenize(self, text: str, model: int) -> TokenizedLine:
        tokenizer, options = self.sources[model], self.runs[model].recipe.corpus.dialogue_settings
        assert options is not None  # a recipe of the task has been checked
        turns = parse_history(text)
        if not turns:
            return TokenizedLine([], [], [""], [0], Segments([Segment("", translatable=True)]))
        history = format_history(turns, options.max_turns)
        [line] = tokenize_lines([history], tokenizer, ANY_LENGTH)
        ids = keep_newest(line.parts[0], tokenizer, min(options.history_tokens, self.limit))
        notes = line.notes
        if len(ids) < len(line.parts[0]):
            notes = [*notes, CUT_NOTE.format(kept=len(ids), total=len(line.parts[0]))]
        return line._replace(parts=[ids], texts=[tokenizer.decode(ids)], notes=notes)

    def segment(self, text: str, *, split: bool | None = None) -> Segments:
        """The history as one part."""
        return Segments([Segment(text, translatable=True)])


class Conversation:
    """Turns of a user and a chatbot, which remembers them."""

    def __init__(self, chatbot: Chatbot, settings: DecodingSettings | None = None) -> None:
        self.chatbot, self.settings = chatbot, settings or chatbot.settings
        self.turns: list[str] = []

    def say(self, text: str) -> Answer:
        """The answer to the next turn: the best that the chatbot has not yet given in this
        conversation, if there is one. Blank text gets a blank answer and does not count as a turn.
        """
        if not text.strip():
            return self.chatbot.translate([""], self.settings)[0]
        turns = [*self.turns, clean_turn(sanitize(text))]
        reranks = self.settings.reranking is not None
        n_best = max(self.settings.n_best, NUM_ALTERNATIVES if reranks else 1)
        [answer] = self.chatbot.translate(
            [format_history(turns)], self.settings, n_best=n_best, first=len(self.turns)
        )
        said = set(self.turns[1::2])
        fresh = [one for one in answer.candidates if one.text not in said] or answer.candidates
        answer = replace(answer, source=turns[-1], candidates=tuple(fresh[: self.settings.n_best]))
        self.turns = [*turns, answer.text]
        return answer

    def reset(self) -> None:
        """Forget all turns."""
        self.turns = []


def load(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    weights: str = "model",
    adapter: str | None = None,
    engine: EngineChoice = "native",
) -> Chatbot:
    """The chatbot in a run's folder; with `others`, an ensemble of them."""
    if engine not in ("auto", "native"):
        raise SettingsError(f"{path}: a chatbot needs the native engine")
    paths = (path, *others)
    return Chatbot(NativeEngine.open_runs(paths, device=device, weights=weights, adapter=adapter))
