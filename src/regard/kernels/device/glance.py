"""Attention of a few queries to the keys of their sentence, which are read once.

A program has all queries of one head of one sentence, and goes through its keys block by block with
a running softmax. The time is that of reading keys and values: products of so few rows are small.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num", "length", "q_row", "h_sentence", "h_row"])
def glance(
    queries, keys, values, hidden, mixed, num, length, factor,
    q_sentence, q_head, q_row, k_sentence, k_head, k_row, v_sentence, v_head, v_row,
    h_sentence, h_row, m_sentence, m_head, m_row,
    HEADS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, LANES: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """`mixed` = softmax(factor queries keys^T + hidden) values, for num queries, length keys."""
    sentence, head = tl.program_id(0).to(tl.int64) // HEADS, tl.program_id(0) % HEADS
    rows, cols, lanes = tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, LANES)
    wide, real = (lanes < WIDTH)[None, :], (rows < num)[:, None]
    mine = queries + sentence * q_sentence + head * q_head
    q = tl.load(mine + rows[:, None] * q_row + lanes[None, :], mask=real & wide, other=0.0)
    keys += sentence * k_sentence + head * k_head
    values += sentence * v_sentence + head * v_head
    hidden += sentence * h_sentence
    most = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    found = tl.zeros((ROWS, LANES), tl.float32)
    for first in range(0, length, COLS):
        at = (first + cols).to(tl.int64)
        there = (at < length)[:, None] & wide
        k = tl.load(keys + at[:, None] * k_row + lanes[None, :], mask=there, other=0.0)
        v = tl.load(values + at[:, None] * v_row + lanes[None, :], mask=there, other=0.0)
        seen = real & (at < length)[None, :]
        hides = tl.load(
            hidden + rows[:, None] * h_row + at[None, :], mask=seen, other=float("-inf")
        ).to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * factor + hides
        more = tl.maximum(most, tl.max(scores, 1))
        level = tl.where(more == float("-inf"), 0.0, more)  # where nothing was seen yet
        weights = tl.exp(scores - level[:, None])
        fades = tl.exp(most - level)
        total = total * fades + tl.sum(weights, 1)
        share = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        found, most = found * fades[:, None] + share, more
    found = found / tl.where(total == 0.0, 1.0, total)[:, None]
    out = mixed + sentence * m_sentence + head * m_head + rows[:, None] * m_row + lanes[None, :]
    tl.store(out, found.to(mixed.dtype.element_ty), mask=real & wide)
