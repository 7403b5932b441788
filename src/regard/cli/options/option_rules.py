"""Which options of a command need or exclude each other."""

from collections.abc import Sequence
from typing import NamedTuple

import typer

from regard.errors import SettingsError


class OptionRule(NamedTuple):
    """What some parameters of a command need or exclude; names are separated by spaces."""

    options: str
    needs: str = ""
    """One of these must be given beside any of the options."""
    excludes: str = ""
    """None of these may be given beside any of the options."""
    hint: str = ""
    """What to do instead."""


def check_options(context: typer.Context, rules: Sequence[OptionRule]) -> None:
    """Raise an error if an option was given that would have no effect beside the others."""
    spellings = {
        param.name: param.opts[0] if param.param_type_name == "option" else str(param.name).upper()
        for param in context.command.params
    }
    given = {
        name
        for name in spellings
        if name and str(context.get_parameter_source(name)).endswith("COMMANDLINE")
    }
    for options, needs, excludes, hint in rules:
        option = next((name for name in options.split() if name in given), None)
        if option is None:
            continue
        end = f"; {hint}" if hint else ""
        if needs and not given.intersection(needs.split()):
            others = " or ".join(spellings[name] for name in needs.split())
            raise SettingsError(f"{spellings[option]} goes with {others}{end}")
        other = next((name for name in excludes.split() if name in given), None)
        if other is not None:
            raise SettingsError(
                f"{spellings[option]} does not go with {spellings[other]}: drop one of them{end}"
            )
