import hashlib
import json
from dataclasses import replace

import pytest
import safetensors.torch
import torch

from regard.batching.sampler import StreamPosition
from regard.errors import RunError
from regard.training.checkpoints import (
    Checkpoint,
    Progress,
    average_weights,
    find_checkpoint,
    list_checkpoints,
    load_weights,
    read_checkpoint,
    read_progress,
    save_checkpoint,
    save_weights,
)


def checkpoint(step):
    return Checkpoint({"w": torch.full((3,), float(step))}, Progress(step=step))


def save(folder, *steps, keep=2):
    return [save_checkpoint(folder, step, checkpoint(step), keep=keep) for step in steps]


def test_newest_is_found_and_old_ones_go(tmp_path):
    paths = save(tmp_path, 5, 10, 15)
    assert list_checkpoints(tmp_path) == [paths[2], paths[1]]
    found = find_checkpoint(tmp_path)
    assert found == (paths[2], [])
    newest = read_checkpoint(found.path)
    assert newest.progress.step == 15
    assert newest.tensors["w"].tolist() == [15.0] * 3


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
    assert find_checkpoint(tmp_path) == (paths[0], [paths[1]])


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
    assert find_checkpoint(tmp_path / "none") == (None, [])


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


BEGUN = Progress(7, StreamPosition(1, 2), best=((0.5, 4),), threads=2, precision="bfloat16")


def test_progress_is_read_as_it_was_written():
    assert Progress.read(json.loads(json.dumps(BEGUN.write()))) == BEGUN


def test_resuming_with_the_same_threads_and_precision_has_no_notes():
    assert BEGUN.resume_notes(replace(BEGUN, step=9)) == []


def test_other_threads_and_precision_are_noted():
    notes = BEGUN.resume_notes(replace(BEGUN, threads=4, precision="float32"))
    assert [note.partition(":")[0] for note in notes] == [
        "begun with 2 threads, resumed with 4",
        "begun in bfloat16, resumed in float32",
    ]


def test_another_number_of_devices_is_noted():
    begun = replace(BEGUN, ranks=2, batches=4)
    [note] = begun.resume_notes(replace(begun, ranks=1))
    assert note.startswith("begun on 2 devices, resumed on 1 device, with as many batches a step")
    [note] = begun.resume_notes(replace(begun, ranks=3, batches=6))
    assert note.startswith(
        "begun with 4 batches a step on 2 devices, resumed with 6 on 3 devices: steps are larger"
    )
    assert "training.accumulate" in note
    assert replace(BEGUN, batches=0).resume_notes(BEGUN) == []  # written before this was kept


def test_progress_without_a_precision_is_read():
    old = BEGUN.write()
    del old["precision"]
    assert Progress.read(old).resume_notes(replace(BEGUN, precision="float32")) == []


def test_average_is_the_mean(tmp_path):
    tensors = [torch.randn(2, 3) for _ in range(3)]
    paths = [tmp_path / f"{n}.safetensors" for n in range(3)]
    for path, tensor in zip(paths, tensors, strict=True):
        save_weights(path, {"w": tensor})
    torch.testing.assert_close(average_weights(paths)["w"], torch.stack(tensors).mean(0))


def test_one_alone_comes_back_bit_for_bit(tmp_path):
    tensor = torch.randn(5)
    save_weights(tmp_path / "a.safetensors", {"w": tensor})
    assert torch.equal(average_weights([tmp_path / "a.safetensors"])["w"], tensor)


def test_unlike_models_are_refused(tmp_path):
    for name, size in (("a", 2), ("b", 3)):
        save_weights(tmp_path / f"{name}.safetensors", {"w": torch.zeros(size)})
    with pytest.raises(
        RunError, match=r"b\.safetensors: the names or shapes of its weights differ"
    ):
        average_weights([tmp_path / "a.safetensors", tmp_path / "b.safetensors"])


def test_nothing_to_average():
    with pytest.raises(RunError, match="at least one"):
        average_weights([])


def test_weights_of_before_are_read_under_their_present_names(tmp_path):
    path = tmp_path / "model.safetensors"
    save_weights(
        path, {"encoder.0.onward.bias": torch.ones(1), "encoder.0.back.bias": torch.ones(2)}
    )
    found = load_weights(path)
    assert {name: len(tensor) for name, tensor in found.items()} == {
        "encoder.0.forward_layer.bias": 1,
        "encoder.0.backward_layer.bias": 2,
    }
