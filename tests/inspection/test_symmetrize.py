from hypothesis import given, settings
from hypothesis import strategies as st

from regard.inspection.symmetrize import grow_diag, intersect, union

LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 4)))


def test_symmetrisation_by_hand():
    forward, backward = {(0, 0), (1, 1), (2, 3), (4, 4)}, {(0, 0), (1, 2), (2, 3)}
    assert intersect(forward, backward) == {(0, 0), (2, 3)}
    assert union(forward, backward) == {(0, 0), (1, 1), (1, 2), (2, 3), (4, 4)}
    # 1-1 touches 0-0 and 1-2 touches 2-3 (and both find their target bare); 4-4 touches nothing
    assert grow_diag(forward, backward) == {(0, 0), (1, 1), (1, 2), (2, 3)}


def test_growing_stops_where_both_words_are_taken():
    forward, backward = {(0, 0), (1, 1), (0, 1)}, {(0, 0), (1, 1)}
    assert grow_diag(forward, backward) == {(0, 0), (1, 1)}


def test_growth_can_start_from_what_has_grown():
    forward, backward = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0)}
    assert grow_diag(forward, backward) == forward


@settings(max_examples=60, deadline=None)
@given(LINKS, LINKS)
def test_growth_lies_between_intersection_and_union(forward, backward):
    grown = grow_diag(forward, backward)
    assert intersect(forward, backward) <= grown <= union(forward, backward)
    assert grown == grow_diag(backward, forward)
