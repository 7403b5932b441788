"""The update of a beam once the continuations of each sentence are chosen."""

import triton
import triton.language as tl

from regard.kernels.triton.sort_keys import EXCLUDED, sort_keys


@triton.jit
def _copy_tokens(
    to, source, to_rows, source_rows, valid, to_width, source_width, num, pad,
    TOKEN_BLOCK: tl.constexpr,
):  # fmt: skip
    """Copy the first `num` tokens of `source_rows` to `to_rows`; beyond `source_width`, `pad`."""
    for first in range(0, num, TOKEN_BLOCK):
        at = first + tl.arange(0, TOKEN_BLOCK)[None, :]
        store = valid[:, None] & (at < num)
        load = store & (at < source_width)
        tokens = tl.load(source + source_rows[:, None] * source_width + at, mask=load, other=pad)
        tl.store(to + to_rows[:, None] * to_width + at, tokens, mask=store)


@triton.jit
def _value_at_rank(scores, ranks, valid, rank):
    """The score whose rank is `rank`; 0 if there is none."""
    return tl.sum(tl.where(valid & (ranks == rank), scores, 0.0), 0)


@triton.jit
def _live_slots(continues, ends):
    """The slot of each continuation: first those that go on, then those that end, in order."""
    ended_slots = tl.sum(continues.to(tl.int32), 0) + tl.cumsum(ends.to(tl.int32), 0) - 1
    return tl.where(continues, tl.cumsum(continues.to(tl.int32), 0) - 1, ended_slots)


@triton.jit
def _count_better(keys, others):
    """How many of `others` are above each of `keys`."""
    return tl.sum((others[None, :] > keys[:, None]).to(tl.int32), 1)


@triton.jit
def _is_done(
    upper_bound, score, old_rank, old_valid, new_score, new_rank, added, n_best, capacity,
    STOP: tl.constexpr,
):  # fmt: skip
    """Whether no live hypothesis can enter the n best, or with the heuristic any slot; False if a
    bound is NaN, so that the search goes on and returns it.
    """
    bound, has_nan = tl.max(upper_bound, 0), tl.max((upper_bound != upper_bound).to(tl.int32), 0)
    if STOP == "limit":
        is_done = (bound == float("-inf")) & (has_nan == 0)
    else:
        last = capacity - 1 if STOP == "heuristic" else n_best - 1
        nth_best = _value_at_rank(score, old_rank, old_valid, last)
        nth_best += _value_at_rank(new_score, new_rank, added, last)
        is_done = (nth_best >= bound) & (has_nan == 0)
        if STOP == "size":
            worst = _value_at_rank(score, old_rank, old_valid, capacity - 1)
            worst += _value_at_rank(new_score, new_rank, added, capacity - 1)
            is_done = is_done | (worst > float("-inf"))
    return is_done


@triton.jit(
    do_not_specialize=[
        "num_candidates", "num_live", "width", "capacity", "n_best", "length", "finished_length",
    ]
)  # fmt: skip
def update_beam(
    log_probs, tokens, parents, already_done, texts, rows, min_factors,
    scores, finished_log_probs, finished_texts, ended,
    new_texts, new_log_probs, new_parents,
    new_scores, new_finished_log_probs, new_finished_texts, new_ended, done,
    num_candidates, num_live, width, capacity, n_best, length, finished_length, factor, eos, pad,
    ALREADY_DONE: tl.constexpr, PARENTS: tl.constexpr, STOP: tl.constexpr,
    FACTOR_IS_NUMBER: tl.constexpr,
    CANDIDATES: tl.constexpr, FINISHED: tl.constexpr, TOKEN_BLOCK: tl.constexpr,
):  # fmt: skip
    """Separate continuations that end from those that go on; decide if the sentence is done."""
    sentence = tl.program_id(0).to(tl.int64)
    candidate = tl.arange(0, CANDIDATES)
    valid = candidate < num_candidates
    at = sentence * num_candidates + candidate
    total = tl.load(log_probs + at, mask=valid, other=float("-inf"))
    token = tl.load(tokens + at, mask=valid, other=pad)
    parent = tl.load(parents + at, mask=valid, other=0) if PARENTS else candidate.to(tl.int64)
    ends = valid & (token == eos)

    # A continuation that ends leaves an empty slot, after those that go on.
    remaining = tl.where(ends, float("-inf"), total)
    slot = _live_slots(valid & (token != eos), ends) if PARENTS else candidate
    stays = valid & (slot < width)
    row = sentence * width + slot
    tl.store(new_log_probs + row, remaining, mask=stays)
    if PARENTS:
        tl.store(new_parents + row, parent, mask=stays)
    source = sentence * num_live + parent
    _copy_tokens(new_texts, texts, row, source, stays, length + 1, length, length, pad, TOKEN_BLOCK)
    tl.store(new_texts + row * (length + 1) + length, token, mask=stays)

    # Merge those that end into the n-best list: the rank of each is how many are better.
    counts = ends & (candidate < width)
    was_done = tl.load(already_done + sentence) != 0 if ALREADY_DONE else False
    counts = counts & (not was_done)
    old = tl.arange(0, FINISHED)
    old_valid = old < capacity
    old_at = sentence * capacity + old
    score = tl.load(scores + old_at, mask=old_valid, other=float("-inf"))
    old_log_prob = tl.load(finished_log_probs + old_at, mask=old_valid, other=0.0)
    old_ended = tl.load(ended + old_at, mask=old_valid, other=0) != 0
    length_factor = factor if FACTOR_IS_NUMBER else tl.load(factor)
    new_score = tl.where(counts, total * length_factor, float("-inf"))
    old_keys = sort_keys(tl.where(was_done, float("inf"), score), old, old_valid)
    new_keys = sort_keys(new_score, capacity + candidate, valid & (candidate < width))
    old_rank = _count_better(old_keys, old_keys) + _count_better(old_keys, new_keys)
    new_rank = _count_better(new_keys, old_keys) + _count_better(new_keys, new_keys)
    old_stays = old_valid & (old_rank < capacity)
    added = (new_keys != EXCLUDED) & (new_rank < capacity)
    old_row, row = sentence * capacity + old_rank, sentence * capacity + new_rank
    tl.store(new_scores + old_row, score, mask=old_stays)
    tl.store(new_scores + row, new_score, mask=added)
    tl.store(new_finished_log_probs + old_row, old_log_prob, mask=old_stays)
    tl.store(new_finished_log_probs + row, tl.where(counts, total, float("-inf")), mask=added)
    tl.store(new_ended + old_row, old_ended, mask=old_stays)
    tl.store(new_ended + row, tl.full((CANDIDATES,), 1, tl.int1), mask=added)
    _copy_tokens(
        new_finished_texts, finished_texts, old_row, old_at, old_stays,
        length, finished_length, length, pad, TOKEN_BLOCK,
    )  # fmt: skip
    _copy_tokens(
        new_finished_texts, texts, row, source, added, length, length, length, pad, TOKEN_BLOCK
    )

    # Bound the scores of all that may still come, and compare with the n-th best.
    min_factor = tl.load(min_factors + tl.load(rows + sentence))
    bound_factor = length_factor if STOP == "heuristic" else min_factor
    upper_bound = tl.where(stays, remaining * bound_factor, float("-inf"))
    is_done = _is_done(
        upper_bound, score, old_rank, old_valid, new_score, new_rank, added, n_best, capacity, STOP
    )
    tl.store(done + sentence, is_done)
