"""`regard chat`: a conversation with a model, typed or through a pipe."""

import readline  # noqa: F401  # `input` then has a history and can be edited
import sys
from collections.abc import Iterator
from typing import Any

from typer import Context, Exit

from regard.cli.display.console import note, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import (
    SAMPLING_OPTIONS,
    OptionRule,
    check_options,
    option,
    sampling_given,
)
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.decoding.settings import MAX_BEAM, DecodingSettings, RerankingSettings, search_settings
from regard.tasks.families.answer import Answer
from regard.tasks.translation.chat.pipeline import Conversation, load

PROMPT = "> "
RESET, QUIT, HELP = "/reset", "/quit", "/help"
HELP_TEXT = f"{RESET} forgets what was said, {QUIT} or Ctrl-D leaves; everything else is answered"
OPTION_RULES = (OptionRule(SAMPLING_OPTIONS, excludes="beam"),)
INTERRUPTED = 130


def command(
    context: Context,
    model: shared_options.Model,
    temperature: shared_options.Temperature = None,
    top_k: shared_options.TopK = None,
    top_p: shared_options.TopP = None,
    seed: shared_options.Seed = None,
    beam: int | None = option(
        "Search for the likeliest answer instead of sampling.", min=1, max=MAX_BEAM
    ),
    candidates: int | None = option(
        "Answers to choose from by mutual information with the history; 1 takes the first.",
        min=1,
        max=1000,
        metavar="N",
    ),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
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
    check_options(context, OPTION_RULES)
    chatbot = load(model, device=device, weights=weights, adapter=adapter)
    sampling = sampling_given(context)
    conversation = chatbot.conversation(_settings(chatbot.settings, sampling, beam, candidates))
    typed = sys.stdin.isatty()
    if typed:
        note(HELP_TEXT)
    try:
        for line in _typed_lines() if typed else read_lines(STDIN, replace=True):
            if line.strip() == QUIT:
                break
            for answer in _answers(conversation, line):
                print(_to_json(conversation, answer) if json else answer.text, flush=True)
            if line.strip() in (RESET, HELP) and not typed:
                print(flush=True)
    except KeyboardInterrupt:
        print(file=sys.stderr)
        raise Exit(INTERRUPTED) from None


def _answers(conversation: Conversation, line: str) -> Iterator[Answer]:
    """The answer to a line, with its notes; nothing for a command."""
    if line.strip() == RESET:
        conversation.reset()
    elif line.strip() == HELP:
        note(HELP_TEXT)
    else:
        answer = conversation.say(line)
        for message in answer.notes:
            note(message)
        yield answer


def _typed_lines() -> Iterator[str]:
    """The typed lines, until Ctrl-D."""
    prompt = PROMPT if sys.stdout.isatty() else ""
    while True:
        try:
            yield input(prompt)
        except EOFError:
            print(file=sys.stderr)
            return


def _settings(
    own: DecodingSettings, given: dict[str, Any], beam: int | None, candidates: int | None
) -> DecodingSettings:
    """The run's own search settings, changed by the options."""
    sampling = {**(own.sampling.model_dump() if own.sampling else {}), **given}
    settings = search_settings(own, beam=beam, sampling=sampling if given else None)
    if candidates is None:
        return settings
    if candidates == 1:
        return settings.model_copy(update={"reranking": None})
    reranking = (own.reranking or RerankingSettings()).model_dump() | {"candidates": candidates}
    return settings.model_copy(update={"reranking": RerankingSettings(**reranking)})


def _to_json(conversation: Conversation, answer: Answer) -> str:
    return to_json(
        {
            "turns": len(conversation.turns),
            "said": answer.source,
            "answer": answer.text,
            "score": answer.score,
            "log_probability": answer.candidates[0].log_probability,
            "notes": list(answer.notes),
        }
    )
