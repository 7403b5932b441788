"""Options of the command line from the fields of settings: their docstrings are the help."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer import Context

from regard.settings import Settings
from regard.tasks.families.options import (
    OptionField,
    OptionsT,
    Positional,
    Written,
    option_fields,
    parse_options,
)


def parameter(field: OptionField) -> Parameter:
    """The parameter of a command that sets a field."""
    kind, notes = _unwrap(field.info.annotation, tuple(field.info.metadata))
    positional = next((one for one in notes if isinstance(one, Positional)), None)
    written = next((one for one in notes if isinstance(one, Written)), Written())
    details: dict[str, Any] = {"help": " ".join((field.info.description or "").split())}
    details |= {"metavar": positional.metavar if positional else written.metavar}
    if positional and not positional.show_default:
        details["show_default"] = False
    for one in notes:  # such as pydantic's `ge=1`
        details |= {"min": one.ge} if hasattr(one, "ge") else {}
        details |= {"min": one.gt + 1} if hasattr(one, "gt") else {}  # of whole numbers
        details |= {"max": one.le} if hasattr(one, "le") else {}
    flags = written.flags or ([f"--{field.name.replace('_', '-')}"] if kind is bool else ())
    made = typer.Argument(**details) if positional else typer.Option(*flags, **details)
    default = field.info.default
    if get_origin(kind) is tuple:
        kind, default = list[str], list(default) or None
    default = Parameter.empty if default is PydanticUndefined else default
    annotation: Any = Annotated[kind if default is not None else kind | None, made]
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option_like(settings: type[Settings], name: str) -> Any:
    """The option of a field, for a command that has its parameters written out."""
    field = next(one for one in option_fields(settings) if one.name == name)
    return get_args(parameter(field).annotation)[1]


def _unwrap(annotation: Any, notes: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The type in `Annotated[X | None, …]`, and all that is noted at it."""
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        inner = [y for x in more for y in (x.metadata if isinstance(x, FieldInfo) else [x])]
        return _unwrap(annotation, (*notes, *inner))
    if get_origin(annotation) in (Union, UnionType):
        [annotation] = (one for one in get_args(annotation) if one is not NoneType)
        return _unwrap(annotation, notes)
    return annotation, notes


def with_options(
    command: Callable[..., None], kind: type[OptionsT], *others: Parameter
) -> Callable[..., None]:
    """`command` with an option for each field; it is given the settings, and `others` by name."""
    generated = [parameter(field) for field in option_fields(kind)]

    def wrapped(context: Context, **values: Any) -> None:
        more = {one.name: values[one.name] for one in others}
        command(parse_context(context, kind, values), **more)

    first = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    signature = Signature([first, *generated, *others])
    wrapped.__signature__ = signature  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    wrapped.__doc__ = kind.__doc__
    return wrapped


def option_spellings(context: Context) -> dict[str, str]:
    """How each parameter of a command is written."""
    return {
        str(param.name): param.opts[0] if param.opts[0].startswith("-") else param.opts[0].upper()
        for param in context.command.params
    }


def given_options(context: Context) -> set[str]:
    """The names of the parameters that are given on the command line."""
    names = (str(param.name) for param in context.command.params)
    sources = {name: context.get_parameter_source(name) for name in names}
    # By name: click and typer each have the class of sources, and str() differs between versions.
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def parse_context(context: Context, kind: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """The settings for the options that are given on the command line."""
    given, spellings = given_options(context), option_spellings(context)
    return parse_options(kind, {name: values[name] for name in given}, spellings.__getitem__)
