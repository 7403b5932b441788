import hashlib

import pytest
import safetensors.torch
import torch

from regard.errors import RunError
from regard.training.checkpoints import (
    Checkpoint,
    find_checkpoint,
    list_checkpoints,
    load_weights,
    read_progress,
    save_checkpoint,
    save_weights,
)
from regard.training.progress import Progress


def checkpoint(step):
    return Checkpoint({"w": torch.full((3,), float(step))}, Progress(step=step))


def save(folder, *steps, keep=2):
    return [save_checkpoint(folder, step, checkpoint(step), keep=keep) for step in steps]


def test_newest_is_found_and_old_ones_go(tmp_path):
    paths = save(tmp_path, 5, 10, 15)
    assert list_checkpoints(tmp_path) == [paths[2], paths[1]]
    found = find_checkpoint(tmp_path)
    assert found.checkpoint.progress.step == 15
    assert found.checkpoint.tensors["w"].tolist() == [15.0] * 3
    assert found.damaged == []


@pytest.mark.parametrize("harm", ["cut", "flip", "rubbish", "forged"])
def test_damaged_one_is_passed_over(tmp_path, harm):
    paths = save(tmp_path, 5, 10)
    content = bytearray(paths[1].read_bytes())
    if harm == "cut":
        content = content[: len(content) // 2]
    elif harm == "flip":
        content[-1] ^= 1
    else:
        content = b"rubbish"
    paths[1].write_bytes(content)
    if harm == "forged":
        digest = hashlib.blake2b(content, digest_size=8).hexdigest()
        paths[1] = paths[1].rename(tmp_path / f"step-000000010-{digest}.safetensors")
    found = find_checkpoint(tmp_path)
    assert found.checkpoint.progress.step == 5
    assert found.damaged == [paths[1]]


@pytest.mark.parametrize("said", [None, "", "[]", "{}", '{"step": -1, "position": [], "best": 3}'])
def test_a_forged_progress_is_refused(tmp_path, said):
    metadata = None if said is None else {"progress": said}
    content = safetensors.torch.save({}, metadata=metadata)
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    (tmp_path / f"step-000000010-{digest}.safetensors").write_bytes(content)
    for read in (find_checkpoint, read_progress):
        with pytest.raises(RunError, match="by another version of regard, or forged"):
            read(tmp_path)


def test_nothing_there(tmp_path):
    assert find_checkpoint(tmp_path / "none").checkpoint is None


def test_leftovers_of_a_crash_are_swept(tmp_path):
    (tmp_path / ".step-1.safetensors.77.part").write_bytes(b"half")
    save(tmp_path, 1)
    assert len(list(tmp_path.iterdir())) == 1


def test_weights_come_back_as_they_were(tmp_path):
    weights = {"a": torch.randn(2, 3), "b": torch.randn(4).double()}
    save_weights(tmp_path / "m.safetensors", weights)
    for name, tensor in load_weights(tmp_path / "m.safetensors").items():
        assert torch.equal(tensor, weights[name])


def test_missing_weights_are_named(tmp_path):
    with pytest.raises(RunError, match=r"m\.safetensors: no such file"):
        load_weights(tmp_path / "m.safetensors")


def test_damaged_weights_are_named(tmp_path):
    (tmp_path / "m.safetensors").write_bytes(b"rubbish")
    with pytest.raises(RunError, match=r"m\.safetensors: damaged"):
        load_weights(tmp_path / "m.safetensors")
