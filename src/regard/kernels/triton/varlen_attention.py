"""Attention of short packed sentences: several of them share a tile.

A program handles one head of one tile of consecutive tokens, each of which sees its own sentence.
It goes through the keys of all these sentences in blocks, with a running softmax (Milakov and
Gimelshein 2018). The backward pass recomputes the weights from `logsums` (Dao et al. 2022).

Scores are in units of log 2, for `exp2`. A fully masked row has +inf in `logsums`, so that all its
weights are zeros in the backward pass. Kernels are not specialized on numbers that differ from
batch to batch: they would be compiled again in the middle of training.
"""

import triton
import triton.language as tl

from regard.kernels.triton.dropout_rng import keep_mask, row_keys


@triton.jit
def _head_pointer(x, token_stride, head_stride, head):
    """One head's vectors: a pointer to the first, and the stride of tokens."""
    return x + head * head_stride, token_stride


@triton.jit
def _visible_range(rows, row_valid, indices, max_length, offsets, CAUSAL: tl.constexpr):
    """The range, first and end, of the keys that each of `rows` sees; `offsets` are the keys'."""
    sentence = tl.load(indices + rows, mask=row_valid, other=0).to(tl.int32) // max_length
    low = tl.load(offsets + sentence, mask=row_valid, other=0)
    high = tl.load(offsets + sentence + 1, mask=row_valid, other=0)
    if CAUSAL:
        high = tl.minimum(high, rows + 1)
    return low, tl.where(row_valid, high, 0)


@triton.jit
def _sentence_at(token, indices, max_length):
    return tl.load(indices + token).to(tl.int32) // max_length


@triton.jit
def _load_rows(x, tokens, row_valid, dims, WIDTH: tl.constexpr):
    """The vectors of some tokens (R, K), zeros where `row_valid` is False."""
    cells = x[0] + tokens[:, None].to(tl.int64) * x[1] + dims[None, :]
    return tl.load(cells, mask=row_valid[:, None] & (dims < WIDTH)[None, :], other=0.0)


@triton.jit
def _store_rows(x, tokens, row_valid, dims, values, WIDTH: tl.constexpr):
    cells = x[0] + tokens[:, None].to(tl.int64) * x[1] + dims[None, :]
    mask = row_valid[:, None] & (dims < WIDTH)[None, :]
    tl.store(cells, values.to(x[0].dtype.element_ty), mask=mask)


@triton.jit
def _load_keys_values(keys, values, start, end, dims, WIDTH: tl.constexpr, COLS: tl.constexpr):
    """A block of tokens from `start`, whether each is before `end`, their keys and values."""
    cols = start + tl.arange(0, COLS)
    col_valid = cols < end
    k = _load_rows(keys, cols, col_valid, dims, WIDTH)
    return cols, col_valid, k, _load_rows(values, cols, col_valid, dims, WIDTH)


@triton.jit
def _visible(cols, low, high):
    """Which key each query sees: (R, C)."""
    return (cols[None, :] >= low[:, None]) & (cols[None, :] < high[:, None])


@triton.jit(do_not_specialize=["max_length", "num_queries", "threshold"])
def forward(
    queries, keys, values, out, logsums, seed,
    indices, offsets, max_length, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    scale, threshold, keep_scale,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, WIDTH: tl.constexpr, WIDTH_POW2: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`out` and `logsums` of one tile of queries; `offsets` are those of the keys."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries = _head_pointer(queries, q_step, q_head, head)
    keys = _head_pointer(keys, k_step, k_head, head)
    values = _head_pointer(values, v_step, v_head, head)
    out = _head_pointer(out, o_step, o_head, head)
    logsums += head * num_queries
    rows, dims = first + tl.arange(0, ROWS), tl.arange(0, WIDTH_POW2)
    row_valid = rows < num_queries
    low, high = _visible_range(rows, row_valid, indices, max_length, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin = tl.load(offsets + _sentence_at(first, indices, max_length))
    end = tl.load(offsets + _sentence_at(last, indices, max_length) + 1)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    q = _load_rows(queries, rows, row_valid, dims, WIDTH)
    running_max = tl.full((ROWS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, WIDTH_POW2), tl.float32)
    row_seeds = row_keys(seed, rows, head) if DROPOUT else rows
    for start in range(begin, end, COLS):
        cols, _, k, v = _load_keys_values(keys, values, start, end, dims, WIDTH, COLS)
        visible = _visible(cols, low, high)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(visible, scores, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp2(scores - finite_max[:, None])
        rescale = tl.exp2(running_max - finite_max)
        running_sum = running_sum * rescale + tl.sum(weights, 1)
        if DROPOUT:
            keep = keep_mask(row_seeds[:, None], cols[None, :], threshold)
            weights = tl.where(keep, weights, 0.0)
        mixed = mixed * rescale[:, None]
        mixed += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        running_max = new_max
    fully_masked = running_sum == 0.0
    safe_sum = tl.where(fully_masked, 1.0, running_sum)
    _store_rows(out, rows, row_valid, dims, mixed * (keep_scale / safe_sum)[:, None], WIDTH)
    logs = tl.where(fully_masked, float("inf"), running_max + tl.log2(safe_sum))
    tl.store(logsums + rows, logs, mask=row_valid)


@triton.jit
def _load_queries(queries, grad, out, logsums, rows, row_valid, dims, WIDTH: tl.constexpr):
    """Queries, gradients of their outputs, `logsums`, and row sums of dO ∘ O (Dao et al. 2022)."""
    q = _load_rows(queries, rows, row_valid, dims, WIDTH)
    g = _load_rows(grad, rows, row_valid, dims, WIDTH)
    output = _load_rows(out, rows, row_valid, dims, WIDTH)
    deltas = tl.sum(g.to(tl.float32) * output.to(tl.float32), 1)
    return q, g, tl.load(logsums + rows, mask=row_valid, other=float("inf")), deltas


@triton.jit
def _weights_and_score_grads(
    query_block, k, v, cols, low, high, row_seeds, scale, threshold, keep_scale,
    DROPOUT: tl.constexpr,
):  # fmt: skip
    """The weights after dropout, and the gradients of the scores: both (R, C), in float32."""
    q, g, logsum, delta = query_block
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    weights = tl.where(_visible(cols, low, high), tl.exp2(scores - logsum[:, None]), 0.0)
    grads = tl.dot(g, tl.trans(v), input_precision="ieee")
    dropped_weights = weights
    if DROPOUT:
        keep = keep_mask(row_seeds[:, None], cols[None, :], threshold)
        dropped_weights = tl.where(keep, weights * keep_scale, 0.0)
        grads = tl.where(keep, grads * keep_scale, 0.0)
    return dropped_weights, weights * (grads - delta[:, None])


@triton.jit
def _sentences_of_tile(tile, indices, max_length, num_sentences, num_queries, STRIDE: tl.constexpr):
    """The range, first and end, of the sentences that begin among the tile's STRIDE tokens.

    Sentences without queries belong to the tile of the one before them.
    """
    before = _sentence_at(tl.maximum(tile * STRIDE - 1, 0), indices, max_length) + 1
    beyond = (tile + 1) * STRIDE
    until = _sentence_at(tl.minimum(beyond, num_queries) - 1, indices, max_length) + 1
    return tl.where(tile == 0, 0, before), tl.where(beyond >= num_queries, num_sentences, until)


@triton.jit(do_not_specialize=["max_length", "num_sentences", "num_queries", "threshold"])
def backward(
    queries, keys, values, out, grad, logsums, queries_grad, keys_grad, values_grad, seed,
    q_indices, q_offsets, k_offsets, max_length, num_sentences, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    g_step, g_head, dq_step, dq_head, dk_step, dk_head, dv_step, dv_head,
    factor, scale, threshold, keep_scale,
    CAUSAL: tl.constexpr, DROPOUT: tl.constexpr, WIDTH: tl.constexpr, WIDTH_POW2: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """All three gradients of the sentences whose first query is one of STRIDE consecutive tokens.

    These are whole sentences, so that no other program adds to their gradients. Where they have at
    most COLS keys, scores are computed once; otherwise once more for the queries.
    """
    head, tile, dims = tl.program_id(0), tl.program_id(1), tl.arange(0, WIDTH_POW2)
    queries = _head_pointer(queries, q_step, q_head, head)
    keys = _head_pointer(keys, k_step, k_head, head)
    values = _head_pointer(values, v_step, v_head, head)
    out = _head_pointer(out, o_step, o_head, head)
    grad = _head_pointer(grad, g_step, g_head, head)
    queries_grad = _head_pointer(queries_grad, dq_step, dq_head, head)
    keys_grad = _head_pointer(keys_grad, dk_step, dk_head, head)
    values_grad = _head_pointer(values_grad, dv_step, dv_head, head)
    logsums += head * num_queries
    s_first, s_end = _sentences_of_tile(
        tile, q_indices, max_length, num_sentences, num_queries, STRIDE
    )
    q_first, q_end = tl.load(q_offsets + s_first), tl.load(q_offsets + s_end)
    k_first, k_end = tl.load(k_offsets + s_first), tl.load(k_offsets + s_end)
    one_block = k_end - k_first <= COLS
    for k_start in range(k_first, k_end, COLS):
        cols, col_valid, k, v = _load_keys_values(keys, values, k_start, k_end, dims, WIDTH, COLS)
        dk = tl.zeros((COLS, WIDTH_POW2), tl.float32)
        dv = tl.zeros((COLS, WIDTH_POW2), tl.float32)
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            row_valid = rows < q_end
            block = _load_queries(queries, grad, out, logsums, rows, row_valid, dims, WIDTH)
            low, high = _visible_range(rows, row_valid, q_indices, max_length, k_offsets, CAUSAL)
            row_seeds = row_keys(seed, rows, head) if DROPOUT else rows
            dropped_weights, ds = _weights_and_score_grads(
                block, k, v, cols, low, high, row_seeds, scale, threshold, keep_scale, DROPOUT
            )
            q, g, _, _ = block
            dv += tl.dot(tl.trans(dropped_weights.to(g.dtype)), g, input_precision="ieee")
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
            if one_block:
                dq = tl.dot(ds.to(k.dtype), k, input_precision="ieee") * factor
                _store_rows(queries_grad, rows, row_valid, dims, dq, WIDTH)
        _store_rows(keys_grad, cols, col_valid, dims, dk * factor, WIDTH)
        _store_rows(values_grad, cols, col_valid, dims, dv, WIDTH)
    if k_end - k_first > COLS or k_end == k_first:  # `queries_grad` is not written yet
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            row_valid = rows < q_end
            block = _load_queries(queries, grad, out, logsums, rows, row_valid, dims, WIDTH)
            low, high = _visible_range(rows, row_valid, q_indices, max_length, k_offsets, CAUSAL)
            row_seeds = row_keys(seed, rows, head) if DROPOUT else rows
            dq = tl.zeros((ROWS, WIDTH_POW2), tl.float32)
            for k_start in range(k_first, k_end, COLS):
                cols, _, k, v = _load_keys_values(keys, values, k_start, k_end, dims, WIDTH, COLS)
                _, ds = _weights_and_score_grads(
                    block, k, v, cols, low, high, row_seeds, scale, threshold, keep_scale, DROPOUT
                )
                dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
            _store_rows(queries_grad, rows, row_valid, dims, dq * factor, WIDTH)
