"""What can be set about answers: settings from which commands are made, and where they are checked.

An error calls a setting as it was given: by its flag, or by its name.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar

from pydantic import Field, NonNegativeInt, PositiveInt, ValidationError
from pydantic.fields import FieldInfo

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.decoding.settings import MAX_BEAM
from regard.errors import SettingsError
from regard.settings import Settings, expectation

Spell = Callable[[str], str]  # the name of a setting -> what it was called


class Written:
    """How a command line writes a field, where its name does not tell: its flags and metavar."""

    def __init__(self, *flags: str, metavar: str | None = None) -> None:
        self.flags, self.metavar = flags, metavar


class Positional(NamedTuple):
    """A field that a command line has without a flag."""

    metavar: str
    show_default: bool = True


WITHOUT_MODEL = "without it, the small French-English translator that comes with regard."
Beam = Annotated[int, Field(ge=1, le=MAX_BEAM)]
NBest = Annotated[PositiveInt | None, Written(metavar="N")]


class RunOptions(Settings):
    """How a run is loaded."""

    weights: Annotated[str, Written(metavar="NAME")] = "model"
    """Weights of the run: model (those it uses), best, last, average, or a file."""
    adapter: Annotated[str | None, Written(metavar="NAME")] = None
    """An adapter to add to the weights: the NAME of one that was trained for the run, a run that
    trained one, or a file."""
    device: Annotated[str, Written(metavar="NAME")] = "auto"
    """cpu, cuda, cuda:1; auto takes a GPU if there is one."""


class SamplingOptions(Settings):
    """How tokens are drawn; by default as a run's own settings say."""

    temperature: Annotated[float, Field(ge=0.01)] | None = None
    """For sampling: below 1, likely tokens become likelier."""
    top_k: PositiveInt | None = None
    """For sampling: draw only from the K likeliest tokens."""
    top_p: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """For sampling: draw from the likeliest that sum to P."""
    seed: NonNegativeInt | None = None
    """For sampling: the random seed."""

    @property
    def given(self) -> dict[str, Any]:
        """What is given."""
        return self.model_dump(exclude_none=True)


SAMPLING = " ".join(SamplingOptions.model_fields)


class OptionRule(NamedTuple):
    """What some options need or exclude; names are separated by spaces."""

    options: str
    needs: str = ""  # one of these must be given together with any of the options
    excludes: str = ""  # none of these may be given together with any of the options
    hint: str = ""  # what to do instead

    def check(self, given: Collection[str], spell: Spell) -> None:
        """Raise an error if an option is given that has no effect together with the others."""
        option = next((name for name in self.options.split() if name in given), None)
        if option is None:
            return
        end = f"; {self.hint}" if self.hint else ""
        if self.needs and not any(name in given for name in self.needs.split()):
            others = " or ".join(map(spell, self.needs.split()))
            raise SettingsError(f"{spell(option)} can only be used with {others}{end}")
        other = next((name for name in self.excludes.split() if name in given), None)
        if other is not None:
            raise SettingsError(
                f"{spell(option)} cannot be used with {spell(other)}: drop one of them{end}"
            )


class Reply(NamedTuple):
    """What a command prints for an input."""

    lines: Iterable[str] = ()
    document: Callable[[], dict[str, Any]] | None = None  # what `--json` prints instead
    notes: Sequence[str] = ()
    error: str | None = None
    end: str = "\n"  # what follows each line
    done: int = 0  # texts that have been answered since this was last said


class UseOptions(Settings):
    """The options of a command that uses runs; the docstring is its help."""

    rules: ClassVar[Sequence[OptionRule]] = ()
    negative_numbers: ClassVar[bool] = False  # whether -1 is an input, not an option

    model: Annotated[str, Positional("MODEL")]
    """A run's folder, such as runs/travel."""
    load: RunOptions = RunOptions()

    def check(self, given: Mapping[str, Any], spell: Spell) -> None:
        """Raise an error if an option that is given has no effect beside the others."""
        for rule in self.rules:
            rule.check(given, spell)
        check_n_best(given, spell)

    def opened(self, load: Callable[..., Any], tell: Callable[[str], None]) -> Any:
        """The pipeline that `load` makes of the run; `tell` is given messages before long work."""
        return load(self.model, *getattr(self, "ensemble", ()), **self.load.model_dump())

    def shows_progress(self) -> bool:
        """Whether a bar counts what is done."""
        return False

    def total(self) -> int | None:
        """The number of inputs, if it is known."""
        return None

    def replies(self, pipeline: Any) -> Iterator[Reply]:
        """What is printed for each input, in order, as the answers are made."""
        raise NotImplementedError


class OptionField(NamedTuple):
    """A field that holds no further settings; no other group has its name."""

    path: tuple[str, ...]
    info: FieldInfo

    @property
    def name(self) -> str:
        return self.path[-1]


def option_fields(kind: type[Settings], above: tuple[str, ...] = ()) -> Iterator[OptionField]:
    """All fields of a class and of the groups in it, in the order of a command's help."""
    for name, field in sorted(kind.model_fields.items(), key=lambda item: item[0] == "load"):
        group = field.annotation
        if isinstance(group, type) and issubclass(group, Settings):
            yield from option_fields(group, (*above, name))
        else:
            yield OptionField((*above, name), field)


OptionsT = TypeVar("OptionsT", bound=UseOptions)


def parse_options(kind: type[OptionsT], given: Mapping[str, Any], spell: Spell = str) -> OptionsT:
    """The options for what is `given`, by the names of fields and of other options of which rules
    speak; an error if a value is wrong or has no effect beside the others.
    """
    values: dict[str, Any] = {}
    for field in option_fields(kind):
        inner = values
        for group in field.path[:-1]:
            inner = inner.setdefault(group, {})
        if field.name in given:
            inner[field.name] = given[field.name]
    try:
        options = kind.model_validate(values)
    except ValidationError as error:
        mistake = error.errors()[0]
        name = next(str(part) for part in reversed(mistake["loc"]) if isinstance(part, str))
        raise SettingsError(f"{spell(name)} {mistake['input']}: {expectation(mistake)}") from None
    options.check(given, spell)
    return options


def check_n_best(given: Mapping[str, Any], spell: Spell) -> None:
    """Raise an error if more answers are asked for than a beam keeps, unless they are sampled."""
    n_best, beam = given.get("n_best"), given.get("beam")
    if n_best is not None and beam is not None and n_best > beam:
        raise SettingsError(
            f"{spell('n_best')} {n_best} asks for more answers than {spell('beam')} {beam} keeps: "
            f"raise {spell('beam')} or lower {spell('n_best')}"
        )


def named_inputs(arguments: Iterable[str]) -> list[str]:
    """The arguments of a command, with the lines of the standard input in place of `-`."""
    return [
        line
        for argument in arguments
        for line in (read_lines(STDIN, limit="examples") if argument == STDIN else [argument])
    ]
