"""The facts about a task that other folders ask for, without importing its modules."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from regard.corpora.source import SourceSettings
    from regard.tasks.contracts import AnyTrainableTask, TaskRecipe

T = TypeVar("T")


@dataclass(frozen=True)
class Lazy(Generic[T]):
    """An object by its reference `module:name`; the module is imported when it is asked for."""

    reference: str

    def __call__(self) -> T:
        module, _, name = self.reference.partition(":")
        loaded: T = getattr(import_module(module), name)
        return loaded


class TaskVerb(NamedTuple):
    """A command that uses runs; several tasks may share one."""

    about: str
    """Its help in one line."""
    options: "Lazy[type[Any]]"
    """The class of what can be set about its answers, from which its options are made."""


@dataclass(frozen=True)
class TaskSpec:
    """A row of the registry."""

    name: str
    """The `task` of its recipes."""
    verb: str
    """The command that uses its runs; several tasks may share one."""
    recipe: "Lazy[type[TaskRecipe]]"
    corpus: "Lazy[type[SourceSettings]]"
    """The class of the recipe's `corpus`."""
    task: "Lazy[type[AnyTrainableTask]]"
    pipeline: "Lazy[type[Any]]"
    """The class whose instances use its runs: `pipeline(run)`."""
    inputs: "Lazy[Callable[[Any], Any]]"
    """A run -> random inputs for its model, for tracing graphs and comparing them."""
    facts: "Lazy[Callable[[Any], dict[str, Any]]] | None" = None
    """A run -> what programs that run its graphs need besides length and special tokens."""
    parity: "Lazy[Any] | None" = None
    """How its models are compared with those of `transformers`; None: none are imported."""
    load: "Lazy[Callable[..., Any]]" = Lazy("regard.pipelines.open_pipeline:open_pipeline")
    """The function that makes a pipeline of runs in folders."""
    evaluator: "Lazy[type[Any]]" = Lazy("regard.recipes.evaluator:Evaluator")
    """The class that measures its runs (`recipes.evaluator`)."""
    rows: "Lazy[type[Any]] | None" = Lazy("regard.comparison.rows:Rows")
    """The class of the rows of its comparisons (`comparison.rows`); None: its runs are not
    compared.
    """
    pairs: bool = False
    """Whether its runs learn from pairs of texts, which they keep as `corpora.pair_texts` says, and
    have several engines, between which `load` chooses.
    """
    logits: bool = True
    """Whether the model's outputs are logits, and not numbers or vectors."""
    ctranslate2: bool = False
    """Whether CTranslate2 may run its models."""
    ensembles: bool = False
    """Whether several runs can answer together."""
    input: str = ""
    """What follows the run's folder in an example of its command."""

    def use_command(self, run: str) -> str:
        """An example of the command for a run."""
        return f"regard {self.verb} {run}{self.input}"
