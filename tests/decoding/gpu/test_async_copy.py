import torch

from regard.decoding.gpu.async_copy import (
    LaggedReader,
    async_to_device,
    async_to_host,
    host_lag,
    is_on_cpu,
)

CPU = torch.device("cpu")


def test_a_letter_holds_what_was_posted():
    first, second = torch.tensor([1, 2]), torch.tensor([True])
    found = async_to_host(first, second).wait()
    assert [x.tolist() for x in found] == [[1, 2], [True]]


def test_reports_are_heard_late_and_in_their_order():
    lag, at_once = LaggedReader(2), LaggedReader(0)
    heard = [lag.poll(torch.tensor([step])) for step in range(5)]
    assert [None if copied is None else copied.item() for copied in heard] == [None, None, 0, 1, 2]
    assert [at_once.poll(torch.tensor([step])).item() for step in range(3)] == [0, 1, 2]


def test_values_are_sent_as_they_are():
    assert async_to_device([3, 1], CPU).tolist() == [3, 1]
    assert async_to_device([True, False], CPU, torch.bool).tolist() == [True, False]
    assert async_to_device([], CPU).dtype == torch.long


def test_only_a_gpu_leaves_the_host_behind():
    assert host_lag(CPU) == 0
    assert host_lag(torch.device("cuda", 1)) == 1
    assert is_on_cpu(torch.zeros(1))
    assert not is_on_cpu(torch.zeros(1, device="meta"))
