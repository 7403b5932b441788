"""What becomes of each sentence of a search once its ways to go on are known."""

import triton
import triton.language as tl

from regard.kernels.device.ranks import OUT, ranks


@triton.jit
def _copy(to, frm, rows, sources, stays, to_width, width, num, filler, PLACES: tl.constexpr):
    """The first `num` numbers of `rows` of `to` become those of `sources` of `frm`.

    A row of the latter is `width` long: what it lacks is `filler`.
    """
    for first in range(0, num, PLACES):
        at = first + tl.arange(0, PLACES)[None, :]
        real = stays[:, None] & (at < num)
        there = real & (at < width)
        said = tl.load(frm + sources[:, None] * width + at, mask=there, other=filler)
        tl.store(to + rows[:, None] * to_width + at, said, mask=real)


@triton.jit
def _at(scores, places, real, place):
    """The one of `scores` that stands at a `place`; 0 if none of these does."""
    return tl.sum(tl.where(real & (places == place), scores, 0.0), 0)


@triton.jit
def _slots(goes, ends):
    """The cell of each way: first those that go on, in their order, and behind them the others."""
    behind = tl.sum(goes.to(tl.int32), 0) + tl.cumsum(ends.to(tl.int32), 0) - 1
    return tl.where(goes, tl.cumsum(goes.to(tl.int32), 0) - 1, behind)


@triton.jit
def _better(some, others):
    """How many of the ranks `others` are above each of `some`."""
    return tl.sum((others[None, :] > some[:, None]).to(tl.int32), 1)


@triton.jit
def _is_settled(
    hope, score, old_place, there, gain, place, added, wanted, places, STOP: tl.constexpr
):
    """Whether no `hope` can change the wanted answers: the old ones by `score`, new ones by `gain`.

    What is not a number is not settled: it comes to light in the end.
    """
    bound, odd = tl.max(hope, 0), tl.max((hope != hope).to(tl.int32), 0)
    if STOP == "limit":
        settled = (bound == float("-inf")) & (odd == 0)
    else:
        nth = _at(score, old_place, there, wanted - 1) + _at(gain, place, added, wanted - 1)
        settled = (nth >= bound) & (odd == 0)
        if STOP == "size":
            worst = _at(score, old_place, there, places - 1) + _at(gain, place, added, places - 1)
            settled = settled | (worst > float("-inf"))
    return settled


@triton.jit(do_not_specialize=["num_ways", "cells", "width", "places", "wanted", "said", "known"])
def go_on(
    log_probs, tokens, parents, over, texts, rows, least, scores, sums, answers, ended,
    new_texts, new_sums, new_parents, new_scores, new_found, new_answers, new_ended, done,
    num_ways, cells, width, places, wanted, said, known, factor, last, filler,
    OVER: tl.constexpr, PARENTS: tl.constexpr, STOP: tl.constexpr, KNOWN_FACTOR: tl.constexpr,
    WAYS: tl.constexpr, KNOWN: tl.constexpr, PLACES: tl.constexpr,
):  # fmt: skip
    """Set aside what ends, go on with the rest, and tell whether the sentence is done."""
    sentence = tl.program_id(0).to(tl.int64)
    way = tl.arange(0, WAYS)
    real = way < num_ways
    at = sentence * num_ways + way
    total = tl.load(log_probs + at, mask=real, other=float("-inf"))
    token = tl.load(tokens + at, mask=real, other=filler)
    cell = tl.load(parents + at, mask=real, other=0) if PARENTS else way.to(tl.int64)
    ends = real & (token == last)

    # A way that ends leaves a cell empty, behind those that go on.
    left = tl.where(ends, float("-inf"), total)
    slot = _slots(real & (token != last), ends) if PARENTS else way
    stays = real & (slot < width)
    row = sentence * width + slot
    tl.store(new_sums + row, left, mask=stays)
    if PARENTS:
        tl.store(new_parents + row, cell, mask=stays)
    source = sentence * cells + cell
    _copy(new_texts, texts, row, source, stays, said + 1, said, said, filler, PLACES)
    tl.store(new_texts + row * (said + 1) + said, token, mask=stays)

    # What ends among the answers known so far: each takes the place of how many are better.
    counts = ends & (way < width)
    if OVER:
        counts = counts & (tl.load(over + sentence) == 0)
    old = tl.arange(0, KNOWN)
    there = old < places
    score = tl.load(scores + sentence * places + old, mask=there, other=float("-inf"))
    was = sentence * places + old
    old_ended = tl.load(ended + was, mask=there, other=0) != 0
    worth = factor if KNOWN_FACTOR else tl.load(factor)
    gain = tl.where(counts, total * worth, float("-inf"))
    theirs = ranks(tl.where(old_ended, score, float("-inf")), old, there)
    mine = ranks(gain, places + way, real & (way < width))
    old_place = _better(theirs, theirs) + _better(theirs, mine)
    place = _better(mine, theirs) + _better(mine, mine)
    old_stays, added = there & (old_place < places), (mine != OUT) & (place < places)
    old_row, row = sentence * places + old_place, sentence * places + place
    tl.store(new_scores + old_row, score, mask=old_stays)
    tl.store(new_scores + row, gain, mask=added)
    tl.store(new_found + old_row, tl.load(sums + was, mask=there, other=0.0), mask=old_stays)
    tl.store(new_found + row, tl.where(counts, total, float("-inf")), mask=added)
    tl.store(new_ended + old_row, old_ended, mask=old_stays)
    tl.store(new_ended + row, tl.full((WAYS,), 1, tl.int1), mask=added)
    _copy(new_answers, answers, old_row, was, old_stays, said, known, said, filler, PLACES)
    _copy(new_answers, texts, row, source, added, said, said, said, filler, PLACES)

    # The best that may still come, against the last of the wanted.
    hope = tl.where(stays, left * tl.load(least + tl.load(rows + sentence)), float("-inf"))
    settled = _is_settled(hope, score, old_place, there, gain, place, added, wanted, places, STOP)
    tl.store(done + sentence, settled)
