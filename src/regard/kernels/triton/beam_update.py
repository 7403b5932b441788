"""What becomes of each sentence of a search once its ways to go on are known."""

import triton
import triton.language as tl

from regard.kernels.triton.sort_keys import EXCLUDED, sort_keys


@triton.jit
def _copy_tokens(
    to, source_rows, rows, sources, stays, to_width, width, num, filler, TOKEN_BLOCK: tl.constexpr
):
    """The first `num` numbers of `rows` of `to` become those of `sources` of `frm`.

    A row of the latter is `width` long: what it lacks is `filler`.
    """
    for first in range(0, num, TOKEN_BLOCK):
        at = first + tl.arange(0, TOKEN_BLOCK)[None, :]
        real = stays[:, None] & (at < num)
        there = real & (at < width)
        said = tl.load(source_rows + sources[:, None] * width + at, mask=there, other=filler)
        tl.store(to + rows[:, None] * to_width + at, said, mask=real)


@triton.jit
def _value_at_rank(scores, places, real, place):
    """The one of `scores` that stands at a `place`; 0 if none of these does."""
    return tl.sum(tl.where(real & (places == place), scores, 0.0), 0)


@triton.jit
def _live_slots(continues, ends):
    """The cell of each way: first those that go on, in their order, and behind them the others."""
    behind = tl.sum(continues.to(tl.int32), 0) + tl.cumsum(ends.to(tl.int32), 0) - 1
    return tl.where(continues, tl.cumsum(continues.to(tl.int32), 0) - 1, behind)


@triton.jit
def _count_better(some, others):
    """How many of the ranks `others` are above each of `some`."""
    return tl.sum((others[None, :] > some[:, None]).to(tl.int32), 1)


@triton.jit
def _is_done(
    upper_bound,
    score,
    old_place,
    there,
    new_score,
    place,
    added,
    wanted,
    places,
    STOP: tl.constexpr,
):
    """Whether no `hope` can change the wanted answers: the old ones by `score`, new ones by `gain`.

    What is not a number is not settled: it comes to light in the end.
    """
    bound, has_nan = tl.max(upper_bound, 0), tl.max((upper_bound != upper_bound).to(tl.int32), 0)
    if STOP == "limit":
        is_done = (bound == float("-inf")) & (has_nan == 0)
    else:
        nth_best = _value_at_rank(score, old_place, there, wanted - 1) + _value_at_rank(
            new_score, place, added, wanted - 1
        )
        is_done = (nth_best >= bound) & (has_nan == 0)
        if STOP == "size":
            worst = _value_at_rank(score, old_place, there, places - 1) + _value_at_rank(
                new_score, place, added, places - 1
            )
            is_done = is_done | (worst > float("-inf"))
    return is_done


@triton.jit(do_not_specialize=["num_ways", "cells", "width", "places", "wanted", "said", "known"])
def update_beam(
    log_probs, tokens, parents, over, texts, rows, least, scores, sums, answers, ended,
    new_texts, new_sums, new_parents, new_scores, new_found, new_answers, new_ended, done,
    num_ways, cells, width, places, wanted, said, known, factor, last, filler,
    ALREADY_DONE: tl.constexpr, PARENTS: tl.constexpr, STOP: tl.constexpr,
    FACTOR_IS_NUMBER: tl.constexpr,
    CANDIDATES: tl.constexpr, FINISHED: tl.constexpr, TOKEN_BLOCK: tl.constexpr,
):  # fmt: skip
    """Set aside what ends, go on with the rest, and tell whether the sentence is done."""
    sentence = tl.program_id(0).to(tl.int64)
    way = tl.arange(0, CANDIDATES)
    real = way < num_ways
    at = sentence * num_ways + way
    total = tl.load(log_probs + at, mask=real, other=float("-inf"))
    token = tl.load(tokens + at, mask=real, other=filler)
    cell = tl.load(parents + at, mask=real, other=0) if PARENTS else way.to(tl.int64)
    ends = real & (token == last)

    # A way that ends leaves a cell empty, behind those that go on.
    left = tl.where(ends, float("-inf"), total)
    slot = _live_slots(real & (token != last), ends) if PARENTS else way
    stays = real & (slot < width)
    row = sentence * width + slot
    tl.store(new_sums + row, left, mask=stays)
    if PARENTS:
        tl.store(new_parents + row, cell, mask=stays)
    source = sentence * cells + cell
    _copy_tokens(new_texts, texts, row, source, stays, said + 1, said, said, filler, TOKEN_BLOCK)
    tl.store(new_texts + row * (said + 1) + said, token, mask=stays)

    # What ends among the answers known so far: each takes the place of how many are better.
    counts = ends & (way < width)
    if ALREADY_DONE:
        counts = counts & (tl.load(over + sentence) == 0)
    old = tl.arange(0, FINISHED)
    there = old < places
    score = tl.load(scores + sentence * places + old, mask=there, other=float("-inf"))
    was = sentence * places + old
    old_ended = tl.load(ended + was, mask=there, other=0) != 0
    length_factor = factor if FACTOR_IS_NUMBER else tl.load(factor)
    new_score = tl.where(counts, total * length_factor, float("-inf"))
    old_keys = sort_keys(tl.where(old_ended, score, float("-inf")), old, there)
    new_keys = sort_keys(new_score, places + way, real & (way < width))
    old_place = _count_better(old_keys, old_keys) + _count_better(old_keys, new_keys)
    place = _count_better(new_keys, old_keys) + _count_better(new_keys, new_keys)
    old_stays, added = there & (old_place < places), (new_keys != EXCLUDED) & (place < places)
    old_row, row = sentence * places + old_place, sentence * places + place
    tl.store(new_scores + old_row, score, mask=old_stays)
    tl.store(new_scores + row, new_score, mask=added)
    tl.store(new_found + old_row, tl.load(sums + was, mask=there, other=0.0), mask=old_stays)
    tl.store(new_found + row, tl.where(counts, total, float("-inf")), mask=added)
    tl.store(new_ended + old_row, old_ended, mask=old_stays)
    tl.store(new_ended + row, tl.full((CANDIDATES,), 1, tl.int1), mask=added)
    _copy_tokens(
        new_answers, answers, old_row, was, old_stays, said, known, said, filler, TOKEN_BLOCK
    )
    _copy_tokens(new_answers, texts, row, source, added, said, said, said, filler, TOKEN_BLOCK)

    # The best that may still come, against the last of the wanted.
    upper_bound = tl.where(stays, left * tl.load(least + tl.load(rows + sentence)), float("-inf"))
    is_done = _is_done(
        upper_bound, score, old_place, there, new_score, place, added, wanted, places, STOP
    )
    tl.store(done + sentence, is_done)
