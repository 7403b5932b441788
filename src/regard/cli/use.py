"""The command of a verb: it opens a run, and prints what the verb's options reply."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from inspect import Parameter
from typing import Any

from typer import Exit

from regard.cli.display.console import note, print_error, to_json
from regard.cli.options.generated import with_options
from regard.cli.options.shared_options import NO_MODEL, Json
from regard.tasks.families.options import UseOptions
from regard.tasks.registry import TASKS, VERBS, tasks_of

JSON = Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)


def use_command(verb: str) -> Callable[..., None]:
    """The command of a verb."""
    spec = TASKS[tasks_of(verb)[0]]
    load = spec.load() if spec.pairs else partial(spec.load(), verb=verb)
    return with_options(partial(_use, load), VERBS[verb].options(), JSON)


def _use(load: Callable[..., Any], options: Any, *, json: bool) -> None:
    """Print the reply to each input; the exit code is 1 if one is an error."""
    if "model" not in options.model_fields_set:
        note(NO_MODEL)
    pipeline = options.opened(load, note)
    failed = False
    with closing(options.replies(pipeline)) as replies, _progress(options) as advance:
        for reply in replies:
            if reply.error is not None:
                print_error(reply.error)
                failed = True
            for message in reply.notes:
                note(message)
            if json and reply.document is not None:
                print(to_json(reply.document()))
            else:
                for line in reply.lines:
                    print(line, end=reply.end)
            if reply.done:
                advance(reply.done)
    if failed:
        raise Exit(1)


@contextmanager
def _progress(options: UseOptions) -> Iterator[Callable[[int], None]]:
    """Counts what is done, in a bar if there is one."""
    if not options.shows_progress():
        yield lambda done: None
        return
    from regard.cli.display.progress_bar import progress_bar  # rich.progress is slow to import

    with progress_bar(rate=True) as progress:
        task = progress.add_task("translating", total=options.total())
        yield partial(progress.advance, task)
