import pytest

from regard.errors import CorpusError
from regard.evaluation.pharaoh import (
    check_gold,
    flip_gold,
    format_links,
    format_pharaoh,
    read_pharaoh,
)
from regard.types import GoldAlignment


def test_sure_possible_and_empty_lines():
    first, second = read_pharaoh(["2-1 0p0 0-3\n", "\n"])
    assert first.sure == {(2, 1), (0, 3)}
    assert first.possible == {(2, 1), (0, 3), (0, 0)}
    assert second.sure == second.possible == frozenset()


def test_counting_from_one():
    (found,) = read_pharaoh(["1-1 10p2"], counted_from=1)
    assert found.possible == {(0, 0), (9, 1)}
    assert found.sure == {(0, 0)}


def test_possible_links_are_written_in_two_ways():
    assert [*read_pharaoh(["0-0 1p2"])] == [*read_pharaoh(["0-0 1?2"])]


def test_target_before_source():
    (found,) = read_pharaoh(["0-3 1p2"])
    assert flip_gold(found) == (frozenset({(3, 0)}), frozenset({(3, 0), (2, 1)}))


def test_links_beyond_the_sentence_are_named_with_their_line():
    gold = [*read_pharaoh(["0-0", "1-1 3p2"])]
    check_gold(gold, [(1, 1), (4, 3)])
    with pytest.raises(
        CorpusError, match=r"^talp:2: links word 3 of the source, .* are 4 and 2; are"
    ):
        check_gold(gold, [(1, 1), (4, 2)], name="talp")
    with pytest.raises(CorpusError, match="are 3 and 3; are its words counted from 1, or is its"):
        check_gold(gold, [(1, 1), (3, 3)])


def test_a_link_written_both_ways_is_sure():
    (found,) = read_pharaoh(["1p2 1-2"])
    assert found.sure == found.possible == {(1, 2)}


def test_written_in_order_and_read_back():
    sure, possible = frozenset({(10, 0), (2, 5), (2, 3)}), frozenset({(2, 3), (0, 1)})
    line = format_pharaoh(GoldAlignment(sure, possible))
    assert line == "0p1 2-3 2-5 10-0"
    (back,) = read_pharaoh([line])
    assert back == (sure, sure | possible)


def test_predicted_links_are_sure():
    assert format_links({(10, 0), (2, 5), (2, 3)}) == "2-3 2-5 10-0"
    assert format_links([]) == ""


@pytest.mark.parametrize("bad", ["1", "1-", "a-b", "1_2", "1-2-3", "-1-2", "１-２"])
def test_what_is_no_link_is_named_with_its_line(bad):
    with pytest.raises(CorpusError, match=f"^gold.talp:2: '{bad}' is not a link; write"):
        list(read_pharaoh(["0-0", f"0-0 {bad}"], name="gold.talp"))


def test_counted_from_zero_by_mistake():
    with pytest.raises(CorpusError, match="gold:1: '3-0' in a file whose words are counted from 1"):
        list(read_pharaoh(["3-0"], counted_from=1, name="gold"))
