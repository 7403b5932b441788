from hypothesis import given, settings
from hypothesis import strategies as st

from regard.alignment.symmetrization import SYMMETRIZATIONS, flip, symmetrize

LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 4)))


def test_symmetrisation_by_hand():
    forward, backward = {(0, 0), (1, 1), (2, 3), (4, 4)}, {(0, 0), (1, 2), (2, 3)}
    assert symmetrize(forward, backward, "intersection") == {(0, 0), (2, 3)}
    assert symmetrize(forward, backward, "union") == {(0, 0), (1, 1), (1, 2), (2, 3), (4, 4)}
    # 1-1 touches 0-0 and 1-2 touches 2-3 (and both find their target bare); 4-4 touches nothing
    assert symmetrize(forward, backward, "grow-diag") == {(0, 0), (1, 1), (1, 2), (2, 3)}


def test_growing_stops_where_both_words_are_aligned():
    forward, backward = {(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}
    assert symmetrize(forward, backward, "grow-diag") == {(0, 0), (1, 1)}


def test_growth_can_start_from_what_has_grown():
    forward, backward = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0)}
    assert symmetrize(forward, backward, "grow-diag") == forward


@settings(max_examples=60, deadline=None)
@given(LINKS, LINKS)
def test_growth_lies_between_intersection_and_union(forward, backward):
    grown = symmetrize(forward, backward, "grow-diag")
    assert (
        symmetrize(forward, backward, "intersection")
        <= grown
        <= symmetrize(forward, backward, "union")
    )
    assert grown == symmetrize(backward, forward, "grow-diag")


def test_final_adds_links_of_unaligned_words():
    # 0-0 is sure; 4-4 touches nothing and both its words are bare; 0-3 has a bare target alone
    forward, backward = {(0, 0), (4, 4), (0, 3)}, {(0, 0)}
    assert symmetrize(forward, backward, "grow-diag") == {(0, 0)}
    assert symmetrize(forward, backward, "grow-diag-final") == {(0, 0), (4, 4), (0, 3)}
    assert symmetrize(forward, backward, "grow-diag-final-and") == {(0, 0), (4, 4)}


def test_final_adds_forward_links_first():
    forward, backward = {(0, 0), (3, 3)}, {(0, 0), (3, 4)}
    assert symmetrize(forward, backward, "grow-diag-final-and") == {(0, 0), (3, 3)}
    assert symmetrize(backward, forward, "grow-diag-final-and") == {(0, 0), (3, 4)}


@settings(max_examples=60, deadline=None)
@given(LINKS, LINKS)
def test_each_symmetrization_includes_the_one_before(forward, backward):
    found = {how: symmetrize(forward, backward, how) for how in SYMMETRIZATIONS}
    assert found["intersection"] == symmetrize(forward, backward, "intersection")
    assert found["grow-diag"] <= found["grow-diag-final-and"] <= found["union"]
    assert found["grow-diag"] <= found["grow-diag-final"] <= found["union"]
    for side in (0, 1):  # each word that has a link in either has one in the end
        assert {one[side] for one in found["grow-diag-final"]} == {
            one[side] for one in found["union"]
        }


def test_the_other_direction():
    assert flip({(0, 1), (2, 2)}) == {(1, 0), (2, 2)}
