"""The options and the lines of `regard chat`: a conversation, typed or through a pipe."""

import readline  # noqa: F401  # `input` then has a history and can be edited
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.decoding.settings import DecodingSettings, RerankingSettings, search_settings
from regard.tasks.families.answer import Answer
from regard.tasks.families.options import (
    SAMPLING,
    Beam,
    OptionRule,
    Reply,
    SamplingOptions,
    UseOptions,
    Written,
)

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.translation.chat.pipeline import Chatbot, Conversation

PROMPT = "> "
RESET, QUIT, HELP = "/reset", "/quit", "/help"
HELP_TEXT = f"{RESET} forgets what was said, {QUIT} or Ctrl-D leaves; everything else is answered"
INTERRUPTED = 130


class ChatOptions(UseOptions):
    """Each typed line is answered, given the conversation so far: /reset forgets it, and /quit,
    Ctrl-D or Ctrl-C leave. Through a pipe, each line gives one line of answer; blank lines and
    /reset give a blank line. The same lines with the same --seed have the same answers.

    Several answers are sampled, and one is chosen that fits the history, rather than one that is
    likely after any history, such as "I don't know". By default the run's own settings apply.

    Examples:

        regard chat runs/dailydialog
        regard chat runs/dailydialog --temperature 0.7 --seed 3
        printf 'Are you tired?\\nWhy?\\n' | regard chat runs/dailydialog
    """

    rules = (OptionRule(SAMPLING, excludes="beam"),)

    sampling: SamplingOptions = SamplingOptions()
    beam: Beam | None = None
    """Search for the likeliest answer instead of sampling."""
    candidates: Annotated[int | None, Field(ge=1, le=1000), Written(metavar="N")] = None
    """Answers to choose from by mutual information with the history; 1 takes the first."""

    def replies(self, pipeline: "Chatbot") -> Iterator[Reply]:
        conversation = pipeline.conversation(self._search(pipeline.settings))
        typed = sys.stdin.isatty()
        if typed:
            yield Reply(notes=[HELP_TEXT])
        try:
            for line in _typed_lines() if typed else read_lines(STDIN, replace=True):
                said = line.strip()
                if said == QUIT:
                    return
                if said in (RESET, HELP):
                    if said == RESET:
                        conversation.reset()
                    yield Reply([] if typed else [""], notes=[HELP_TEXT] if said == HELP else [])
                else:
                    answer = conversation.say(line)
                    document = partial(_document, conversation, answer)
                    yield Reply([answer.text], document, answer.notes)
                sys.stdout.flush()
        except KeyboardInterrupt:
            print(file=sys.stderr)
            sys.exit(INTERRUPTED)

    def _search(self, own: DecodingSettings) -> DecodingSettings:
        """The run's own search settings, changed by the options."""
        given = self.sampling.given
        sampling = {**(own.sampling.model_dump() if own.sampling else {}), **given}
        settings = search_settings(own, beam=self.beam, sampling=sampling if given else None)
        if self.candidates is None:
            return settings
        if self.candidates == 1:
            return settings.model_copy(update={"reranking": None})
        reranking = (own.reranking or RerankingSettings()).model_dump()
        changed = RerankingSettings(**reranking | {"candidates": self.candidates})
        return settings.model_copy(update={"reranking": changed})


def _typed_lines() -> Iterator[str]:
    """The typed lines, until Ctrl-D."""
    prompt = PROMPT if sys.stdout.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return


def _document(conversation: "Conversation", answer: Answer) -> dict[str, Any]:
    return {
        "turns": len(conversation.turns),
        "said": answer.source,
        "answer": answer.text,
        "score": answer.score,
        "log_probability": answer.candidates[0].log_probability,
        "notes": list(answer.notes),
    }
