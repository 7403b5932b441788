"""The command of a verb: it opens a run, and prints what the verb's options reply."""

from collections.abc import Callable
from functools import partial
from inspect import Parameter
from typing import Any

from typer import Exit

from regard.cli.display.console import note, print_error, to_json
from regard.cli.options.generated import with_options
from regard.cli.options.shared_options import Json
from regard.pipelines.open_pipeline import open_pipeline
from regard.tasks.registry import VERBS

JSON = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)


def use_command(verb: str) -> Callable[..., None]:
    """The command of a verb that has options."""
    options = VERBS[verb].options
    assert options is not None
    return with_options(partial(_use, verb), options(), JSON)


def _use(verb: str, options: Any, *, json: bool) -> None:
    """Print the reply to each input; the exit code is 1 if one is an error."""
    others, loading = getattr(options, "ensemble", ()), options.load.model_dump()
    pipeline = open_pipeline(options.model, *others, **loading, verb=verb)
    failed = False
    for reply in options.replies(pipeline):
        if reply.error is not None:
            print_error(reply.error)
            failed = True
        for message in reply.notes:
            note(message)
        if not json:
            for line in reply.lines:
                print(line)
        elif reply.document is not None:
            print(to_json(reply.document()))
    if failed:
        raise Exit(1)
