"""What a run remembers of its numbers: `metrics.jsonl` and TensorBoard."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from regard.files import storage_error, write_whole


class Metrics:
    """Appends records to a run; taken up at a step, it forgets what came after that step."""

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / "metrics.jsonl"
        kept = [json.dumps(r) + "\n" for r in read_metrics(self.path) if r["step"] <= step]
        write_whole(self.path, "".join(kept).encode())
        self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def add(self, kind: str, step: int, numbers: Mapping[str, float]) -> None:
        """Record `numbers` of a `kind` ("train" or "valid") at a step."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"kind": kind, "step": step, **numbers}) + "\n")
        except OSError as error:
            raise storage_error(self.path, error) from error
        for name, number in numbers.items():
            self._board.add_scalar(f"{kind}/{name}", number, step)

    def close(self) -> None:
        self._board.close()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a run so far; a last line cut short by a crash is left out."""
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return
