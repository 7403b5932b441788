"""Options of the command line from the fields of settings: their docstrings are the help."""

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer import Context

from regard.cli.options.shared_options import given_options, option_spellings
from regard.tasks.families.options import Leaf, OptionsT, Positional, Written, leaves, parse_options


def parameter(leaf: Leaf) -> Parameter:
    """The parameter of a command that sets a field."""
    kind, notes = _unwrap(leaf.field.annotation, tuple(leaf.field.metadata))
    positional = next((one for one in notes if isinstance(one, Positional)), None)
    written = next((one for one in notes if isinstance(one, Written)), Written())
    details: dict[str, Any] = {"help": " ".join((leaf.field.description or "").split())}
    details |= {"metavar": positional.metavar if positional else written.metavar}
    for one in notes:
        if isinstance(one, Ge | Gt):
            details["min"] = one.ge if isinstance(one, Ge) else one.gt + 1  # type: ignore[operator]
        elif isinstance(one, Le):
            details["max"] = one.le
    default = leaf.field.default
    if get_origin(kind) is tuple:
        kind, default = list[get_args(kind)[0]], list(default) or None  # type: ignore[misc]
    flags = written.flags or ([f"--{leaf.name.replace('_', '-')}"] if kind is bool else ())
    made = typer.Argument(**details) if positional else typer.Option(*flags, **details)
    default = Parameter.empty if default is PydanticUndefined else default
    annotation = Annotated[kind if default is not None else kind | None, made]
    return Parameter(leaf.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


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
    generated = [parameter(leaf) for leaf in leaves(kind)]

    def wrapped(context: Context, **values: Any) -> None:
        more = {one.name: values[one.name] for one in others}
        command(parse_context(context, kind, values), **more)

    first = Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=Context)
    signature = Signature([first, *generated, *others])
    wrapped.__signature__ = signature  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    wrapped.__doc__ = kind.__doc__
    return wrapped


def parse_context(context: Context, kind: type[OptionsT], values: Mapping[str, Any]) -> OptionsT:
    """The settings for the options that are given on the command line."""
    given, spellings = given_options(context), option_spellings(context)
    known = {name: values[name] for name in given if name in values}
    return parse_options(kind, known, lambda name: spellings.get(name, name), given)
