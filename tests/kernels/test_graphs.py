import pytest
import torch

from regard.kernels.graphs import Again, CaptureError, Graphs, bring

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def recorders():
    return [
        pytest.param(lambda: Again(), "cpu", id="again"),
        pytest.param(
            lambda: Graphs(torch.device("cuda")), "cuda", id="graphs",
            marks=[pytest.mark.gpu, needs_cuda],
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(("make", "where"), recorders())
def test_what_is_replayed_reads_what_was_brought(make, where):
    recorder, given = make(), torch.zeros(3, device=where)
    found = torch.zeros(3, device=where)
    with recorder.apart():
        found.copy_(given + 1)
        run = recorder.capture(lambda: found.copy_(given + 1))
        for number in range(3):
            bring([torch.full((3,), float(number))], [given])
            run()
            assert found.tolist() == [number + 1.0] * 3


@pytest.mark.parametrize(("make", "where"), recorders())
def test_nothing_is_done_while_it_is_captured(make, where):
    recorder, counter = make(), torch.zeros((), device=where)
    with recorder.apart():
        run = recorder.capture(lambda: counter.add_(1))
        assert counter.item() == 0
        run()
    assert counter.item() == 1


@pytest.mark.gpu
@needs_cuda
def test_what_waits_for_the_device_cannot_be_captured_and_later_work_can():
    recorder, x = Graphs(torch.device("cuda")), torch.ones(2, device="cuda")
    with recorder.apart():
        with pytest.raises(CaptureError):
            recorder.capture(lambda: x.sum().item())
        run = recorder.capture(lambda: x.add_(1))
        run()
    assert x.tolist() == [2.0, 2.0]


def test_what_is_brought_must_be_as_many():
    with pytest.raises(ValueError, match="argument"):
        bring([torch.zeros(2)], [])
