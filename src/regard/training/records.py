"""Writers of a training's files: metrics, weights and checkpoints."""

from collections.abc import Mapping
from pathlib import Path

from regard.atomic_io import remove_file
from regard.layers.low_rank import merged_state_dict
from regard.models.contracts import AnyModel
from regard.training.checkpoints import Checkpoint, read_progress, save_checkpoint, save_weights
from regard.training.metric_log import MetricLog


class Records:
    """Writes nothing: for all ranks but rank 0."""

    def add_metrics(self, kind: str, step: int, numbers: Mapping[str, float]) -> None:
        """Log `numbers` of a `kind` at a step."""

    def save_weights(self, name: str, model: AnyModel) -> None:
        """Write the weights of a model as a file of the folder."""

    def save_checkpoint(self, checkpoint: Checkpoint, *, keep: int) -> None:
        """Write a checkpoint; remove all but the newest `keep`, and weights that no checkpoint
        names.
        """


class FolderRecords(Records):
    """Writes into a folder; when resumed at a step, drops the metrics of later steps."""

    def __init__(self, folder: Path, step: int) -> None:
        self.folder, self.metrics = folder, MetricLog(folder, step)

    def add_metrics(self, kind: str, step: int, numbers: Mapping[str, float]) -> None:
        self.metrics.add(kind, step, numbers)

    def save_weights(self, name: str, model: AnyModel) -> None:
        save_weights(self.folder / name, merged_state_dict(model))

    def save_checkpoint(self, checkpoint: Checkpoint, *, keep: int) -> None:
        folder = self.folder / "checkpoints"
        save_checkpoint(folder, checkpoint.progress.step, checkpoint, keep=keep)
        needed = {step for one in read_progress(folder) for _, step in one.best}
        for path in (self.folder / "weights").glob("step-*.safetensors"):
            if int(path.stem.removeprefix("step-")) not in needed:
                remove_file(path)
