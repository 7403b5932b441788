import torch

from regard.decoding.attendance import Attendance

CPU = torch.device("cpu")


def flags(*places, of=4):
    return torch.tensor([place in places for place in range(of)])


def test_who_is_done_leaves_as_soon_as_there_is_room_enough():
    present = Attendance([9] * 4, CPU, late=0)
    assert present.hear(flags()) is None
    assert present.hear(flags(2)).tolist() == [False, False, True, False]
    assert present.leave(0.5) is None
    present.hear(flags(0, 2))
    leaving = present.leave(0.5)
    assert (leaving.rows, leaving.gone.tolist(), leaving.kept.tolist()) == ([0, 2], [0, 2], [1, 3])
    assert present.rows == [1, 3]
    assert present.leave(1.0) is None
    assert present.hear(flags(of=2)) is None


def test_the_host_hears_of_it_late():
    present = Attendance([9] * 4, CPU, late=1)
    assert present.hear(flags()).tolist() == [False] * 4  # nobody knows whether nobody is
    present.hear(flags(2))
    assert present.leave(1.0) is None
    present.hear(flags(2, 3))
    assert present.leave(1.0).rows == [2]
    present.hear(flags(2, of=3))  # hears of the batch of four, of which number 2 has left
    assert present.leave(1.0).rows == [3]


def test_limits_are_known_on_time():
    present = Attendance([2, 3, 2, 4], CPU, late=1)
    assert present.cut(1, ()) is None
    present.hear(flags(2))
    cut = present.cut(2, ())
    assert cut.tolist() == [True, False, True, False]
    present.hear(cut)
    assert present.leave(1.0).rows == [0, 2]
    assert present.cut(2, ()) is None
    assert present.cut(3, ()).tolist() == [True, False]


def test_the_unwanted_leave_too():
    present = Attendance([9] * 4, CPU, late=0)
    cut = present.cut(1, [3])
    present.hear(cut)
    assert present.leave(1.0).rows == [3]
    assert present.cut(2, [3]) is None
