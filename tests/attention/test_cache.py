import pytest
import torch

from regard.attention.attend import KeyValues, plain
from regard.attention.cache import AHEAD, SHORT, Cells, Paths, recall
from regard.attention.scores import AdditiveScore, ScaledDotScore
from regard.types import Site

B, H, D, DV = 2, 3, 8, 4
WIDTHS = [1, 4, 2, 5, 3]
HERE = Site("decoder", 0, len(WIDTHS) - 1)


def searched(dtype, *, seed=0):
    """Cells and paths after a search of changing width, and each path's own keys and values."""
    torch.manual_seed(seed)
    paths = Paths.empty(B, like=torch.empty(0, dtype=dtype))
    cells = KeyValues(torch.empty(B, H, 0, D, dtype=dtype), torch.empty(B, H, 0, DV, dtype=dtype))
    own = [[KeyValues(cells.keys[b], cells.values[b])] for b in range(B)]  # (H, t, D) of each
    cells = Cells(cells)
    for width in WIDTHS:
        parents = torch.randint(paths.trails.shape[2], (B, width))
        paths = paths.branch(parents).grow()
        keys = torch.randn(B, H, width, D, dtype=dtype)
        values = torch.randn(B, H, width, DV, dtype=dtype)
        cells = cells.append(KeyValues(keys, values))
        for b in range(B):
            own[b] = [
                KeyValues(
                    torch.cat([own[b][parent].keys, keys[b, :, k, None]], 1),
                    torch.cat([own[b][parent].values, values[b, :, k, None]], 1),
                )
                for k, parent in enumerate(parents[b])
            ]
    return cells, paths, own


def test_paths_name_the_cells_that_were_passed():
    paths = Paths.empty(1, like=torch.empty(0)).branch(torch.tensor([[0, 0]])).grow()
    assert paths.slots.tolist() == [[[0], [1]]]
    paths = paths.branch(torch.tensor([[1, 0, 1]])).grow()
    assert paths.slots.tolist() == [[[1, 2], [0, 3], [1, 4]]]
    assert paths.mask.int().tolist() == [[[[0, 1, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]]]
    assert paths.places.tolist() == [0, 0, 1, 1, 1]
    assert paths.length == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_bias_belongs_to_cells_and_old_ones_can_be_hidden(dtype):
    cells, paths, own = searched(dtype)
    queries = torch.randn(B, H, WIDTHS[-1], D, dtype=dtype)
    bias = torch.randn(B, H, WIDTHS[-1], sum(WIDTHS), dtype=dtype)
    near = paths.within(2)
    assert torch.equal(near.slots, paths.slots)
    found = recall(ScaledDotScore(), queries, cells, near, site=HERE, bias=bias)
    for b in range(B):
        for k in range(WIDTHS[-1]):
            wanted = plain(
                ScaledDotScore(),
                queries[b, :, k : k + 1],
                own[b][k],
                torch.tensor([False, False, True, True, True]),
                site=HERE,
                bias=bias[b, :, k : k + 1, paths.slots[b, k]],
            )
            torch.testing.assert_close(found[b, :, k : k + 1], wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("watched", [False, True])
@pytest.mark.parametrize("score", [ScaledDotScore(), AdditiveScore(D, D, D)], ids=["dot", "add"])
def test_each_hypothesis_sees_its_own_past(score, watched, dtype):
    score = score.to(dtype)
    cells, paths, own = searched(dtype)
    queries = torch.randn(B, H, WIDTHS[-1], D, dtype=dtype)
    watch = (lambda _, weights: weights) if watched else None
    found = recall(score, queries, cells, paths, site=HERE, watch=watch)
    for b in range(B):
        for k in range(WIDTHS[-1]):
            wanted = plain(
                score, queries[b, :, k : k + 1], own[b][k], torch.ones(1).bool(), site=HERE
            )
            torch.testing.assert_close(found[b, :, k : k + 1], wanted)


def test_a_watch_sees_positions_and_not_cells_and_may_change_them():
    cells, paths, own = searched(torch.float32)
    queries = torch.randn(B, H, WIDTHS[-1], D)

    def look_at_the_first(site, weights):
        assert site == HERE
        assert weights.shape == (B, H, WIDTHS[-1], len(WIDTHS))
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        return torch.eye(len(WIDTHS))[0].expand_as(weights)

    found = recall(ScaledDotScore(), queries, cells, paths, site=HERE, watch=look_at_the_first)
    wanted = torch.stack([torch.stack([kv.values[:, 0] for kv in row], 1) for row in own])
    torch.testing.assert_close(found, wanted)


def test_keep_picks_sentences():
    cells, paths, _ = searched(torch.float64)
    queries, rows = torch.randn(B, H, WIDTHS[-1], D, dtype=torch.float64), torch.tensor([1])
    found = recall(ScaledDotScore(), queries[rows], cells.rows(rows), paths.keep(rows), site=HERE)
    wanted = recall(ScaledDotScore(), queries, cells, paths, site=HERE)[rows]
    assert torch.equal(found, wanted)


def test_no_hypothesis_shares_a_position_with_two_cells():
    _, paths, _ = searched(torch.float32)
    assert (paths.mask.sum(-1) == len(WIDTHS)).all()
    spread = torch.zeros(B, WIDTHS[-1], sum(WIDTHS), dtype=torch.bool).scatter(2, paths.slots, True)
    assert torch.equal(paths.mask[:, 0], spread)


def laid(count, seed):
    torch.manual_seed(seed)
    return KeyValues(torch.randn(B, H, count, D), torch.randn(B, H, count, DV))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_cells_are_a_value_whoever_appends_to_them(mode):
    with mode():
        cells, all_laid = Cells(laid(0, 0)), laid(0, 0)
        for step in range(3 * AHEAD):
            before, count = cells, cells.kv.keys.shape[2]
            other = before.append(laid(1, 1000 + step))
            cells, all_laid = before.append(laid(2, step)), all_laid.append(laid(2, step))
            assert torch.equal(other.kv.keys[:, :, :count], before.kv.keys)
            assert torch.equal(other.kv.values[:, :, count:], laid(1, 1000 + step).values)
            assert before.kv.keys.shape[2] == count
            for mine, wanted in zip(cells.kv, all_laid, strict=True):
                assert torch.equal(mine, wanted)
        rows = torch.tensor([1])
        assert torch.equal(
            cells.rows(rows).append(laid(1, 0).rows(rows)).kv.keys[:, :, :-1], all_laid.keys[rows]
        )


def test_a_room_is_shared_while_one_goes_on_alone():
    with torch.inference_mode():
        cells = Cells(laid(0, 0)).append(laid(2, 0))
        later = cells.append(laid(2, 1))
        assert later.kv.keys.data_ptr() == cells.kv.keys.data_ptr()
        assert cells.append(laid(2, 2)).kv.keys.data_ptr() != cells.kv.keys.data_ptr()
    with torch.no_grad():  # where what was made in inference mode may not be written to
        assert torch.equal(later.append(laid(2, 3)).kv.keys[:, :, :4], later.kv.keys)


def test_a_few_cells_of_one_hypothesis_lie_without_gaps_and_more_have_room():
    with torch.inference_mode():
        cells = Cells(laid(0, 0))
        for step in range(SHORT):
            cells = cells.append(laid(1, step))
            assert all(x.is_contiguous() for x in cells.kv)
        first = cells.append(laid(1, SHORT))
        second = first.append(laid(1, SHORT + 1))
        assert not second.kv.keys.is_contiguous()
        assert second.kv.keys.data_ptr() == first.kv.keys.data_ptr()
        for step in range(SHORT + 2):
            assert torch.equal(second.kv.values[:, :, step : step + 1], laid(1, step).values)


def test_who_leaves_takes_no_room_from_those_who_stay():
    with torch.inference_mode():
        cells = Cells(laid(0, 0)).append(laid(1, 0)).append(laid(2, 1))
        kept = cells.rows(torch.tensor([1]))
        later = kept.append(laid(2, 2).rows(torch.tensor([1])))
        assert torch.equal(kept.kv.keys, cells.kv.keys[1:])
        assert later.kv.keys.data_ptr() == kept.kv.keys.data_ptr()
        assert torch.equal(later.kv.values[:, :, :3], cells.kv.values[1:])
