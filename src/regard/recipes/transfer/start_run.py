"""Start from another run's weights: find the run, take its vocabulary and weights."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from regard.atomic_io import check_no_linked_folders, read_limited, write_atomic
from regard.errors import RunError, SettingsError
from regard.json_files import dump_json, load_json, parse_json
from regard.manifest import check_file, is_intact, sha256_of_file
from regard.models.contracts import AnyModel
from regard.models.translation.token_rows import SOURCE_TOKENS, TARGET_TOKENS
from regard.nested_values import UNSET, get_path, leaves
from regard.recipes.paths import ADAPTER_FILE, ADAPTERS, EXCHANGE_REPORT, RUNS, is_packaged
from regard.recipes.recipe_files import parse_override
from regard.recipes.run_folder import RunFolder, find_weights
from regard.recipes.transfer.adapters import Adapter, AdapterInfo
from regard.settings import AUTO, abbreviate, quoted
from regard.tasks.contracts import AnyTrainableTask, Notify, TaskRecipe
from regard.tasks.registry import TASKS
from regard.text.build import Tokenizers, load_tokenizers
from regard.text.vocabulary_extension import piece_parts
from regard.training.checkpoints import check_finite, load_weights, save_weights
from regard.training.weight_transfer import RowNames, WeightTransfer, transfer_weights

VOCABULARY_KINDS = ("tokens", SOURCE_TOKENS, TARGET_TOKENS)  # kinds of rows for pieces
START_REPORT = "start.json"  # in the data folder of a run: what it took from another run
DROP_OVERRIDE = "leave it out"
START_ADVICE = {
    "model": f"{DROP_OVERRIDE}, or name a recipe whose model.preset is not auto",
    "text": f"{DROP_OVERRIDE}, or give --vocabulary own, which is start.vocabulary=own",
}
"""Advice if a setting is given that the start run decides, by its group."""
RecipeT = TypeVar("RecipeT", bound=TaskRecipe)


class StartRun(NamedTuple):
    """A trained run that another run starts from."""

    folder: RunFolder
    recipe: TaskRecipe

    @classmethod
    def find(cls, recipe: TaskRecipe) -> "StartRun":
        """The run that a recipe starts from; an error says what to do if it is missing."""
        assert recipe.start is not None
        run, by = recipe.start.run, recipe.start.recipe
        if run is None and by is None:
            raise SettingsError("start: name the run that training starts from: --from RUN")
        folder = RunFolder(Path(run) if run is not None else RUNS / str(by))
        if run is None and not folder.finished():
            raise SettingsError(
                f"{recipe.name} starts from a run of the recipe {by}, and {folder.path} holds no "
                f"finished one: train it with `regard train {quoted(by)}`, or name one with --from "
                "RUN"
            )
        return cls(folder, folder.load_recipe())

    @property
    def weights_file(self) -> Path:
        return find_weights(self.folder, "model")

    def weights(self) -> dict[str, Tensor]:
        """The weights of its model."""
        file = self.weights_file
        loaded = load_weights(file)
        check_finite(file, loaded)
        return loaded

    def origin(self) -> str | None:
        """Where its weights were imported from, and their licence; None: they were not imported."""
        imported = _read_optional(self.folder.path / EXCHANGE_REPORT)
        if source := imported.get("source"):
            licence = imported.get("licence") or "the source states none"
            return f"imported from `{source}` ({imported.get('format')}); licence: {licence}"
        before = _read_optional(self.folder.data / START_REPORT).get("origin")
        return None if before is None else str(before)

    def row_names(self) -> RowNames:
        """The pieces or labels of the rows of its model."""
        task = TASKS[self.recipe.task].task()(self.recipe, self.folder.path)
        task.load()
        return task.row_names()


def _read_optional(file: Path) -> dict[str, Any]:
    """The object in a file of JSON; empty if there is none."""
    with suppress(OSError, ValueError):
        raw = parse_json(read_limited(file, "json"))
        return raw if isinstance(raw, dict) else {}
    return {}


def _piece_parts(own: RowNames, given: RowNames) -> dict[str, Mapping[int, Sequence[int]]]:
    """By kind: for each row of a new piece, the given rows of the pieces that it consists of."""
    kinds = (kind for kind in VOCABULARY_KINDS if kind in own and kind in given)
    return {kind: piece_parts(own[kind], given[kind]) for kind in kinds}


def _check_adapter(name: str, run: Path, differing: Sequence[str]) -> None:
    """Raise an error if a model differs from that of the run that its adapter updates."""
    if differing:
        raise SettingsError(
            f"--adapter {name}: low-rank updates need the unchanged model of {run}, and this one "
            f"differs in {abbreviate(', '.join(differing))}: leave out --adapter, or train with "
            "the same labels and model settings"
        )


def resolve_start(recipe: RecipeT, overrides: Sequence[str] = ()) -> RecipeT:
    """The recipe with the settings that its start run decides, and the digest of its weights;
    unchanged if it has no start run, or this was done before. An error if one of the `overrides`
    (`a.b=c`) that made the recipe would be lost.
    """
    if recipe.start is None or recipe.start.weights is not None:
        return recipe
    found = StartRun.find(recipe)
    check_file(found.weights_file)
    begun = _with_lora(recipe.begun_with(found.recipe))
    check_overrides(overrides, recipe, begun, str(found.folder.path))
    run, digest = str(found.folder.path), sha256_of_file(found.weights_file)
    start = recipe.start.model_copy(update={"run": run, "weights": digest})
    return begun.model_copy(update={"start": start})


def check_overrides(
    overrides: Sequence[str], recipe: TaskRecipe, begun: TaskRecipe, run: str
) -> None:
    """Raise an error if an override of `recipe` has no effect because `begun`, the recipe for
    training that starts from `run`, has another value for the setting.
    """
    before, after = (one.model_dump(mode="json") for one in (recipe, begun))
    for given in overrides:
        for name, value in leaves(*parse_override(given)):
            wanted, found = (get_path(raw, name.split(".")) for raw in (before, after))
            if value not in (AUTO, None) and wanted != found:  # those leave it open
                known = "has no such setting" if found is UNSET else f"has the value {found!r}"
                raise SettingsError(
                    f"--set {abbreviate(given)}: has no effect: training that starts from {run} "
                    f"{known} for {name}; {START_ADVICE.get(name.partition('.')[0], DROP_OVERRIDE)}"
                )


def _with_lora(recipe: RecipeT) -> RecipeT:
    """The recipe with low-rank updates if it names an adapter; their weights are not averaged."""
    named = recipe.start is not None and recipe.start.adapter is not None
    if recipe.training.fine_tuning.lora is not None:
        return recipe.with_values({"training.average": 1})
    values = {"training.fine_tuning.lora": {}, "training.average": 1}
    return recipe.with_values(values) if named else recipe


def given_tokenizers(recipe: TaskRecipe) -> Tokenizers | None:
    """The vocabularies of a recipe's start run, before they are extended; None: it has no start
    run, or its own vocabulary.
    """
    if recipe.start is None or recipe.start.vocabulary == "own":
        return None
    return load_tokenizers(StartRun.find(recipe).folder.path)


class RunStart:
    """What a run keeps of its start run: the initial weights, and a report of what was taken."""

    def __init__(self, recipe: TaskRecipe, folder: RunFolder) -> None:
        self.recipe, self.folder = recipe, folder
        self.weights = folder.path / "weights" / "start.safetensors"
        self.report = folder.data / START_REPORT

    @property
    def kept(self) -> bool:
        """Whether the run has its initial weights and the vocabulary that they belong to."""
        return is_intact(self.weights) and is_intact(self.report)

    def give_names(self, task: AnyTrainableTask) -> None:
        """Make the task use the start run's labels, and its vocabulary unless the recipe has its
        own or none.
        """
        found = StartRun.find(self.recipe)
        if found.recipe.task == self.recipe.task:
            task.take_labels(found.folder.path)
        if self.recipe.uses_vocabulary():
            task.given_tokenizers = given_tokenizers(self.recipe)

    def load(
        self,
        model: AnyModel,
        own_rows: RowNames,
        initialize: Callable[[Any, Collection[str]], None],
    ) -> WeightTransfer:
        """Give a new model the initial weights; `initialize` is the task's function."""
        if self.kept:
            model.load_state_dict(load_weights(self.weights))
            return self.read_report()
        found = StartRun.find(self.recipe)
        assert self.recipe.start is not None
        if sha256_of_file(found.weights_file) != self.recipe.start.weights:
            raise RunError(
                f"{found.folder.path}: its weights have changed since {self.folder.path} started "
                "from them; train again in another folder"
            )
        given, rows = found.weights(), found.row_names()
        filling = self.recipe.start.filling()
        done = transfer_weights(
            model,
            given,
            own_rows=own_rows,
            given_rows=rows,
            mean_kinds=() if filling == "random" else VOCABULARY_KINDS,
            parts=_piece_parts(own_rows, rows) if filling == "parts" else {},
        )
        if not done.taken:
            raise SettingsError(
                f"--from {found.folder.path}: nothing to start from: none of the {len(given)} "
                f"tensors of its {found.recipe.model.family} has the name and shape of one of "
                f"{self.recipe.model.family}, or rows for the same labels or tokens; name a "
                "run of the same model or of a part of it"
            )
        renamed = [kind for kind in rows if [*rows[kind]] != [*own_rows.get(kind, ())]]
        differing = [*renamed, *map(str, done.new or done.left)]
        if (adapter := self.recipe.start.adapter) is not None:
            _check_adapter(adapter, found.folder.path, differing)
        initialize(model, {one.name for one in done.taken})
        save_weights(self.weights, model.state_dict())
        report = {**done.to_json(), "origin": found.origin(), "differing": differing}
        write_atomic(self.report, dump_json(report, indent=1).encode())
        return done

    def lacks_adapter(self) -> str:
        """Why no adapter of low-rank updates is written: the model differs from that of the start
        run. Empty if it does not.
        """
        start = self.recipe.start
        differing = [str(one) for one in _read_optional(self.report).get("differing", ())]
        if start is None or self.recipe.training.fine_tuning.lora is None or not differing:
            return ""
        return (
            f"low-rank updates: the model differs from {start.run} in "
            f"{abbreviate(', '.join(differing))}: new weights are trained in full, and saved in "
            f"model.safetensors; no {ADAPTER_FILE} is written, as {start.run} could not use it"
        )

    def save_adapter(self, trained_on: str, note: Notify) -> None:
        """Write the low-rank updates of a trained run as an adapter, if it has any that fit its
        start run, and copy it into that run.
        """
        start, lora = self.recipe.start, self.recipe.training.fine_tuning.lora
        if start is None or lora is None or self.lacks_adapter():
            return
        base, tuned = load_weights(self.weights), load_weights(self.folder.weights("model"))
        run = str(self.folder.path)
        info = AdapterInfo(base=str(start.weights), rank=lora.rank, run=run, trained_on=trained_on)
        adapter = Adapter.between(base, tuned, info)
        own = self.folder.path / ADAPTER_FILE
        adapter.save(own)
        count = sum(tensor.numel() for tensor in base.values())
        note(
            f"the adapter {own} has {adapter.numbers:,} weights, "
            f"{adapter.numbers / count:.1%} of the model's"
        )
        if start.adapter is not None:
            self._give_adapter(adapter, start.adapter, note)

    def _give_adapter(self, adapter: Adapter, name: str, note: Notify) -> None:
        """Copy the adapter into the run that it updates, if that still has the same weights."""
        found = StartRun.find(self.recipe)
        if sha256_of_file(found.weights_file) != adapter.info.base:
            note(f"the weights of {found.folder.path} have changed: it does not get the adapter")
            return
        if is_packaged(found.folder.path):
            own = self.folder.path / ADAPTER_FILE
            kept = "the run in the installed package is not changed"
            note(f"{kept}: use it with --adapter {quoted(own)}")
            return
        check_no_linked_folders(found.folder.path)
        adapter.save(found.folder.path / ADAPTERS / f"{name}.safetensors")
        note(f"use it with {quoted(found.folder.path)} and --adapter {quoted(name)}")

    def calibrate_adapter(self, temperature: float) -> None:
        """Write the temperature of a classifier into its adapter, if it has one, and into the copy
        in the run that the adapter updates.
        """
        start, own = self.recipe.start, self.folder.path / ADAPTER_FILE
        if start is None or self.recipe.training.fine_tuning.lora is None or not own.is_file():
            return
        before, adapter = own.read_bytes(), Adapter.load(own)
        info = adapter.info.model_copy(update={"temperature": temperature})
        given = Path(str(start.run)) / ADAPTERS / f"{start.adapter}.safetensors"
        for file in (own, given):
            if file.is_file() and file.read_bytes() == before:
                check_no_linked_folders(file.parent)
                adapter._replace(info=info).save(file)

    def card_lines(self) -> Iterator[str]:
        """Lines of a card: the start run, and what was taken from it."""
        start = self.recipe.start
        assert start is not None
        yield f"- started from the weights of `{start.run}`, SHA-256 `{start.weights}`:"
        if origin := _read_optional(self.report).get("origin"):
            yield f"  - these were {origin}"
        own = self.folder.path / ADAPTER_FILE
        if self.recipe.training.fine_tuning.lora is not None and own.is_file():
            adapter = Adapter.load(own)
            yield (
                f"  - low-rank updates of rank {adapter.info.rank} were trained: "
                f"{adapter.numbers:,} weights, in `{ADAPTER_FILE}`; `model.safetensors` has them "
                "merged"
            )
        for line in self.read_report().lines():
            names = f": {line.names}" if line.names else ""
            yield f"  - {line.kind}: {line.tensors:,} tensors, {line.numbers:,} numbers{names}"

    def read_report(self) -> WeightTransfer:
        """The report of what was taken."""
        advice = "train again in another folder"
        raw = load_json(self.report, dict[str, Any], advice=advice)
        try:
            return WeightTransfer.from_json(raw)
        except ValueError:
            raise RunError(f"{self.report}: missing or changed; {advice}") from None
