"""Attention of a few queries to the keys of their sentence; each key is read once.

A program handles all queries of one head of a sentence, with a running softmax over blocks of keys.
"""

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num", "length", "q_row", "b_sentence", "b_row"])
def decode_attention(
    queries, keys, values, mask_bias, mixed, num, length, scale,
    q_sentence, q_head, q_row, k_sentence, k_head, k_row, v_sentence, v_head, v_row,
    b_sentence, b_row, m_sentence, m_head, m_row,
    HEADS: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH_POW2: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """`mixed` = softmax(scale queries keys^T + mask_bias) values, for num queries, length keys."""
    sentence, head = tl.program_id(0).to(tl.int64) // HEADS, tl.program_id(0) % HEADS
    rows, cols, dims = tl.arange(0, ROWS), tl.arange(0, COLS), tl.arange(0, WIDTH_POW2)
    dim_valid, query_valid = (dims < WIDTH)[None, :], (rows < num)[:, None]
    head_queries = queries + sentence * q_sentence + head * q_head
    q = tl.load(
        head_queries + rows[:, None] * q_row + dims[None, :],
        mask=query_valid & dim_valid,
        other=0.0,
    )
    keys += sentence * k_sentence + head * k_head
    values += sentence * v_sentence + head * v_head
    mask_bias += sentence * b_sentence
    running_max = tl.full((ROWS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    attended = tl.zeros((ROWS, WIDTH_POW2), tl.float32)
    for first in range(0, length, COLS):
        key_index = (first + cols).to(tl.int64)
        key_valid = (key_index < length)[:, None] & dim_valid
        k = tl.load(keys + key_index[:, None] * k_row + dims[None, :], mask=key_valid, other=0.0)
        v = tl.load(values + key_index[:, None] * v_row + dims[None, :], mask=key_valid, other=0.0)
        visible = query_valid & (key_index < length)[None, :]
        block_bias = tl.load(
            mask_bias + rows[:, None] * b_row + key_index[None, :],
            mask=visible,
            other=float("-inf"),
        ).to(tl.float32)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale + block_bias
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)  # no key visible yet
        weights = tl.exp(scores - finite_max[:, None])
        rescale = tl.exp(running_max - finite_max)
        running_sum = running_sum * rescale + tl.sum(weights, 1)
        block_out = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        attended, running_max = attended * rescale[:, None] + block_out, new_max
    attended = attended / tl.where(running_sum == 0.0, 1.0, running_sum)[:, None]
    out = mixed + sentence * m_sentence + head * m_head + rows[:, None] * m_row + dims[None, :]
    tl.store(out, attended.to(mixed.dtype.element_ty), mask=query_valid & dim_valid)
