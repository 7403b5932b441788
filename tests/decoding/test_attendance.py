import torch

from regard.decoding.attendance import Attendance
from regard.decoding.grid import Candidates

CPU = torch.device("cpu")


def flags(*places, of=4):
    return torch.tensor([place in places for place in range(of)])


def ways(of=4):
    return Candidates(torch.zeros(of, 2), torch.full((of, 2), 5), None)


def test_who_is_done_leaves_as_soon_as_there_is_room_enough():
    present = Attendance([9] * 4, CPU, late=0)
    present.settle(flags(2))
    assert present.leave(0.5) is None
    assert present.heard(ways()).log_probs[:, 0].tolist() == [0, 0, float("-inf"), 0]
    present.settle(flags(0))
    leaving = present.leave(0.5)
    assert (leaving.rows, leaving.gone.tolist(), leaving.kept.tolist()) == ([0, 2], [0, 2], [1, 3])
    assert present.rows == [1, 3]
    assert present.leave(1.0) is None
    assert present.heard(ways(2)).log_probs.tolist() == [[0, 0], [0, 0]]


def test_the_host_hears_of_it_late_and_the_device_knows_at_once():
    present = Attendance([9] * 4, CPU, late=1)
    present.settle(flags(2))
    assert present.leave(1.0) is None
    assert present.heard(ways()).log_probs[:, 0].tolist() == [0, 0, float("-inf"), 0]
    present.settle(flags(3))
    assert present.leave(1.0).rows == [2]
    assert present.heard(ways(3)).log_probs[:, 0].tolist() == [0, 0, float("-inf")]
    present.settle(flags(of=3))  # hears of the batch of four, of which number 2 has left
    assert present.leave(1.0).rows == [3]


def test_limits_are_known_on_time():
    present = Attendance([2, 3, 2, 4], CPU, late=1)
    assert present.cut(1, ()) is None
    present.settle(flags(2))
    cut = present.cut(2, ())
    assert cut.tolist() == [True, False, False, False]  # of 2 the device knows that it is done
    present.settle(cut)
    assert present.leave(1.0).rows == [0, 2]
    assert present.cut(2, ()) is None
    assert present.cut(3, ()).tolist() == [True, False]


def test_the_unwanted_leave_too():
    present = Attendance([9] * 4, CPU, late=0)
    cut = present.cut(1, [3])
    present.settle(cut)
    assert present.leave(1.0).rows == [3]
    assert present.cut(2, [3]) is None
