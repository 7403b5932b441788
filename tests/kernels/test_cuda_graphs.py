import pytest
import torch

from recorders import EagerReplay
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs, copy_to_static

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def recorders():
    return [
        pytest.param(lambda: EagerReplay(), "cpu", id="again"),
        pytest.param(
            lambda: CudaGraphs(torch.device("cuda")), "cuda", id="graphs",
            marks=[pytest.mark.gpu, needs_cuda],
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(("make", "where"), recorders())
def test_what_is_replayed_reads_what_was_brought(make, where):
    capturer, given = make(), torch.zeros(3, device=where)
    found = torch.zeros(3, device=where)
    with capturer.side_stream():
        found.copy_(given + 1)
        run = capturer.capture(lambda: found.copy_(given + 1))
        for number in range(3):
            copy_to_static([torch.full((3,), float(number))], [given])
            run()
            assert found.tolist() == [number + 1.0] * 3


@pytest.mark.parametrize(("make", "where"), recorders())
def test_nothing_is_done_while_it_is_captured(make, where):
    capturer, counter = make(), torch.zeros((), device=where)
    with capturer.side_stream():
        run = capturer.capture(lambda: counter.add_(1))
        assert counter.item() == 0
        run()
    assert counter.item() == 1


@pytest.mark.gpu
@needs_cuda
def test_what_waits_for_the_device_cannot_be_captured_and_later_work_can():
    capturer, x = CudaGraphs(torch.device("cuda")), torch.ones(2, device="cuda")
    with capturer.side_stream():
        with pytest.raises(CaptureError):
            capturer.capture(lambda: x.sum().item())
        run = capturer.capture(lambda: x.add_(1))
        run()
    assert x.tolist() == [2.0, 2.0]


def test_what_is_brought_must_be_as_many():
    with pytest.raises(ValueError, match="argument"):
        copy_to_static([torch.zeros(2)], [])
