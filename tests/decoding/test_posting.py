import torch

from regard.decoding.posting import Reports, is_near, lateness, post, send

CPU = torch.device("cpu")


def test_a_letter_holds_what_was_posted():
    first, second = torch.tensor([1, 2]), torch.tensor([True])
    found = post(first, second).open()
    assert [x.tolist() for x in found] == [[1, 2], [True]]


def test_reports_are_heard_late_and_in_their_order():
    late, at_once = Reports(2), Reports(0)
    heard = [late.hear(torch.tensor([step])) for step in range(5)]
    assert [None if told is None else told.item() for told in heard] == [None, None, 0, 1, 2]
    assert [at_once.hear(torch.tensor([step])).item() for step in range(3)] == [0, 1, 2]


def test_values_are_sent_as_they_are():
    assert send([3, 1], CPU).tolist() == [3, 1]
    assert send([True, False], CPU, torch.bool).tolist() == [True, False]
    assert send([], CPU).dtype == torch.long


def test_only_a_gpu_leaves_the_host_behind():
    assert lateness(CPU) == 0
    assert lateness(torch.device("cuda", 1)) == 1
    assert is_near(torch.zeros(1))
    assert not is_near(torch.zeros(1, device="meta"))
