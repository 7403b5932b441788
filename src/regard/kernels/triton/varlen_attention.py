"""Attention of short sentences that lie end to end: several of them fill a tile.

A program has one head of one tile of consecutive tokens. Each of its rows sees a range of the
other side's tokens, its own sentence; the tile as a whole sees the range from the first row's to
the last row's, block by block, with a running softmax (Milakov and Gimelshein 2018). The backward
pass makes the weights again from the scores and the logarithm of their sum (Dao et al. 2022).

Scores are in units of log 2, for `exp2`. A row that sees nothing has a sum of +inf in `sums`, so
that all its weights come out as zeros in the backward pass. Numbers that differ from batch to batch
are not specialised on: kernels would be compiled again in the midst of training.
"""

import triton
import triton.language as tl

from regard.kernels.triton.dropout_rng import keep_mask, row_keys


@triton.jit
def _head_pointer(x, step, head_stride, head):
    """One head's vectors: where they begin, and how far one is from the next."""
    return x + head * head_stride, step


@triton.jit
def _visible_range(rows, row_valid, indices, longest, others, CAUSAL: tl.constexpr):
    """From where and up to where each of `rows` sees the other side's tokens."""
    sentence = tl.load(indices + rows, mask=row_valid, other=0).to(tl.int32) // longest
    low = tl.load(others + sentence, mask=row_valid, other=0)
    high = tl.load(others + sentence + 1, mask=row_valid, other=0)
    if CAUSAL:
        high = tl.minimum(high, rows + 1)
    return low, tl.where(row_valid, high, 0)


@triton.jit
def _sentence_at(token, indices, longest):
    return tl.load(indices + token).to(tl.int32) // longest


@triton.jit
def _tile_range(first, last, indices, longest, others):
    """From where and up to where `first` to `last`, as a whole, see the other side's tokens."""
    begin = tl.load(others + _sentence_at(first, indices, longest))
    return begin, tl.load(others + _sentence_at(last, indices, longest) + 1)


@triton.jit
def _load_rows(x, tokens, row_valid, lanes, WIDTH: tl.constexpr):
    """The vectors of some tokens: (R, K), zeros where there are none."""
    cells = x[0] + tokens[:, None].to(tl.int64) * x[1] + lanes[None, :]
    return tl.load(cells, mask=row_valid[:, None] & (lanes < WIDTH)[None, :], other=0.0)


@triton.jit
def _store_rows(x, tokens, row_valid, lanes, values, WIDTH: tl.constexpr):
    cells = x[0] + tokens[:, None].to(tl.int64) * x[1] + lanes[None, :]
    mask = row_valid[:, None] & (lanes < WIDTH)[None, :]
    tl.store(cells, values.to(x[0].dtype.element_ty), mask=mask)


@triton.jit
def _load_keys_values(keys, values, start, end, lanes, WIDTH: tl.constexpr, COLS: tl.constexpr):
    """A block of tokens from `start`, whether each is before `end`, their keys and values."""
    cols = start + tl.arange(0, COLS)
    col_valid = cols < end
    k = _load_rows(keys, cols, col_valid, lanes, WIDTH)
    return cols, col_valid, k, _load_rows(values, cols, col_valid, lanes, WIDTH)


@triton.jit
def _load_queries(queries, grad, out, sums, rows, row_valid, lanes, WIDTH: tl.constexpr):
    """Some queries, the slopes of what they found, the sums of their weights, and their deltas.

    A delta is what all weights of a row have to do with the slope of one score (R,).
    """
    q = _load_rows(queries, rows, row_valid, lanes, WIDTH)
    g = _load_rows(grad, rows, row_valid, lanes, WIDTH)
    attended = _load_rows(out, rows, row_valid, lanes, WIDTH)
    deltas = tl.sum(g.to(tl.float32) * attended.to(tl.float32), 1)
    return q, g, tl.load(sums + rows, mask=row_valid, other=float("inf")), deltas


@triton.jit
def _visible(cols, low, high):
    """Who sees whom: (R, C)."""
    return (cols[None, :] >= low[:, None]) & (cols[None, :] < high[:, None])


@triton.jit
def _weights_and_score_grads(
    q,
    k,
    v,
    g,
    sums,
    deltas,
    visible,
    row_seeds,
    cols,
    scale,
    threshold,
    keep_scale,
    DROP: tl.constexpr,
):
    """The weights as used, and the slopes of the scores: both (R, C), in float32.

    `chance` (R,) are the random keys of the rows.
    """
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    weights = tl.where(visible, tl.exp2(scores - sums[:, None]), 0.0)
    grads = tl.dot(g, tl.trans(v), input_precision="ieee")
    dropped_weights = weights
    if DROP:
        keep = keep_mask(row_seeds[:, None], cols[None, :], threshold)
        dropped_weights = tl.where(keep, weights * keep_scale, 0.0)
        grads = tl.where(keep, grads * keep_scale, 0.0)
    return dropped_weights, weights * (grads - deltas[:, None])


@triton.jit
def _query_grads(
    query_block, keys, values, begin, end, low, high, row_seeds, lanes, scale, threshold,
    keep_scale,
    DROP: tl.constexpr, WIDTH: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The slopes of the queries that were `asked`, less their factor, by the keys of a range."""
    q, g, running_sum, delta = query_block
    dq = tl.zeros(q.shape, tl.float32)
    for start in range(begin, end, COLS):
        cols, _, k, v = _load_keys_values(keys, values, start, end, lanes, WIDTH, COLS)
        visible = _visible(cols, low, high)
        _, ds = _weights_and_score_grads(
            q,
            k,
            v,
            g,
            running_sum,
            delta,
            visible,
            row_seeds,
            cols,
            scale,
            threshold,
            keep_scale,
            DROP,
        )
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    return dq


@triton.jit(do_not_specialize=["longest", "num_queries", "threshold"])
def forward(
    queries, keys, values, out, sums, seed,
    indices, offsets, longest, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    scale, threshold, keep_scale,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`out` and `sums` of one tile of queries; `offsets` are those of the keys."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries = _head_pointer(queries, q_step, q_head, head)
    keys = _head_pointer(keys, k_step, k_head, head)
    values = _head_pointer(values, v_step, v_head, head)
    out = _head_pointer(out, o_step, o_head, head)
    sums += head * num_queries
    rows, lanes = first + tl.arange(0, ROWS), tl.arange(0, LANES)
    row_valid = rows < num_queries
    low, high = _visible_range(rows, row_valid, indices, longest, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin, end = _tile_range(first, last, indices, longest, offsets)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    q = _load_rows(queries, rows, row_valid, lanes, WIDTH)
    running_max = tl.full((ROWS,), float("-inf"), tl.float32)
    running_sum = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, LANES), tl.float32)
    row_seeds = row_keys(seed, rows, head) if DROP else rows
    for start in range(begin, end, COLS):
        cols, _, k, v = _load_keys_values(keys, values, start, end, lanes, WIDTH, COLS)
        visible = _visible(cols, low, high)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(visible, scores, float("-inf"))
        new_max = tl.maximum(running_max, tl.max(scores, 1))
        finite_max = tl.where(new_max == float("-inf"), 0.0, new_max)
        weights = tl.exp2(scores - finite_max[:, None])
        rescale = tl.exp2(running_max - finite_max)
        running_sum = running_sum * rescale + tl.sum(weights, 1)
        if DROP:
            keep = keep_mask(row_seeds[:, None], cols[None, :], threshold)
            weights = tl.where(keep, weights, 0.0)
        mixed = mixed * rescale[:, None]
        mixed += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        running_max = new_max
    fully_masked = running_sum == 0.0
    mixed = mixed * (keep_scale / tl.where(fully_masked, 1.0, running_sum))[:, None]
    _store_rows(out, rows, row_valid, lanes, mixed, WIDTH)
    logs = tl.where(
        fully_masked, float("inf"), running_max + tl.log2(tl.where(fully_masked, 1.0, running_sum))
    )
    tl.store(sums + rows, logs, mask=row_valid)


@triton.jit(do_not_specialize=["longest", "num_queries", "threshold"])
def backward_queries(
    queries, keys, values, out, grad, sums, deltas, queries_grad, seed,
    indices, offsets, longest, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    g_step, g_head, dq_step, dq_head,
    factor, scale, threshold, keep_scale,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The slope of one tile of queries, and the `deltas` that that of the keys needs."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries = _head_pointer(queries, q_step, q_head, head)
    keys = _head_pointer(keys, k_step, k_head, head)
    values = _head_pointer(values, v_step, v_head, head)
    out = _head_pointer(out, o_step, o_head, head)
    grad = _head_pointer(grad, g_step, g_head, head)
    queries_grad = _head_pointer(queries_grad, dq_step, dq_head, head)
    sums += head * num_queries
    deltas += head * num_queries
    rows, lanes = first + tl.arange(0, ROWS), tl.arange(0, LANES)
    row_valid = rows < num_queries
    low, high = _visible_range(rows, row_valid, indices, longest, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin, end = _tile_range(first, last, indices, longest, offsets)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    query_block = _load_queries(queries, grad, out, sums, rows, row_valid, lanes, WIDTH)
    tl.store(deltas + rows, query_block[3], mask=row_valid)
    row_seeds = row_keys(seed, rows, head) if DROP else rows
    dq = _query_grads(
        query_block, keys, values, begin, end, low, high, row_seeds, lanes, scale, threshold,
        keep_scale,
        DROP, WIDTH, COLS,
    )  # fmt: skip
    _store_rows(queries_grad, rows, row_valid, lanes, dq * factor, WIDTH)


@triton.jit(do_not_specialize=["longest", "num_queries", "num_keys", "threshold"])
def backward_keys(
    queries, keys, values, grad, sums, deltas, keys_grad, values_grad, seed,
    indices, offsets, longest, num_queries, num_keys,
    q_step, q_head, k_step, k_head, v_step, v_head,
    g_step, g_head, dk_step, dk_head, dv_step, dv_head,
    factor, scale, threshold, keep_scale,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The slopes of one tile of keys and values.

    `places` and `longest` are those of the keys, `offsets` those of the queries.
    """
    head, first = tl.program_id(0), tl.program_id(1) * COLS
    queries = _head_pointer(queries, q_step, q_head, head)
    keys = _head_pointer(keys, k_step, k_head, head)
    values = _head_pointer(values, v_step, v_head, head)
    grad = _head_pointer(grad, g_step, g_head, head)
    keys_grad = _head_pointer(keys_grad, dk_step, dk_head, head)
    values_grad = _head_pointer(values_grad, dv_step, dv_head, head)
    sums += head * num_queries
    deltas += head * num_queries
    lanes = tl.arange(0, LANES)
    cols, col_valid, k, v = _load_keys_values(keys, values, first, num_keys, lanes, WIDTH, COLS)
    low, high = _visible_range(cols, col_valid, indices, longest, offsets, False)
    last = tl.minimum(first + COLS, num_keys) - 1
    begin, end = _tile_range(first, last, indices, longest, offsets)
    if CAUSAL:
        low = tl.maximum(low, cols)
        begin = tl.maximum(begin, first)
    dk = tl.zeros((COLS, LANES), tl.float32)
    dv = tl.zeros((COLS, LANES), tl.float32)
    for start in range(begin, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        row_valid = rows < end
        q = _load_rows(queries, rows, row_valid, lanes, WIDTH)
        g = _load_rows(grad, rows, row_valid, lanes, WIDTH)
        running_sum = tl.load(sums + rows, mask=row_valid, other=float("inf"))
        delta = tl.load(deltas + rows, mask=row_valid, other=0.0)
        visible = (rows[:, None] >= low[None, :]) & (rows[:, None] < high[None, :])
        row_seeds = row_keys(seed, rows, head) if DROP else rows
        dropped_weights, ds = _weights_and_score_grads(
            q,
            k,
            v,
            g,
            running_sum,
            delta,
            visible,
            row_seeds,
            cols,
            scale,
            threshold,
            keep_scale,
            DROP,
        )
        dv += tl.dot(tl.trans(dropped_weights.to(g.dtype)), g, input_precision="ieee")
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
    _store_rows(keys_grad, cols, col_valid, lanes, dk * factor, WIDTH)
    _store_rows(values_grad, cols, col_valid, lanes, dv, WIDTH)


@triton.jit
def _sentences_of_tile(tile, indices, longest, num_sentences, num_queries, STRIDE: tl.constexpr):
    """From which up to which sentence the first queries are among the tile's STRIDE tokens.

    Those without queries belong to the tile of the one before them.
    """
    before = _sentence_at(tl.maximum(tile * STRIDE - 1, 0), indices, longest) + 1
    beyond = (tile + 1) * STRIDE
    until = _sentence_at(tl.minimum(beyond, num_queries) - 1, indices, longest) + 1
    return tl.where(tile == 0, 0, before), tl.where(beyond >= num_queries, num_sentences, until)


@triton.jit(do_not_specialize=["longest", "num_sentences", "num_queries", "threshold"])
def backward_whole(
    queries, keys, values, out, grad, sums, queries_grad, keys_grad, values_grad, seed,
    q_indices, q_offsets, k_offsets, longest, num_sentences, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    g_step, g_head, dq_step, dq_head, dk_step, dk_head, dv_step, dv_head,
    factor, scale, threshold, keep_scale,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """All three slopes of the sentences whose first query is one of STRIDE consecutive tokens.

    They are whole sentences, so that no other program adds to their slopes. Where they have at
    most COLS keys, scores are made once; where one is longer, once more for the queries.
    """
    head, tile, lanes = tl.program_id(0), tl.program_id(1), tl.arange(0, LANES)
    queries = _head_pointer(queries, q_step, q_head, head)
    keys = _head_pointer(keys, k_step, k_head, head)
    values = _head_pointer(values, v_step, v_head, head)
    out = _head_pointer(out, o_step, o_head, head)
    grad = _head_pointer(grad, g_step, g_head, head)
    queries_grad = _head_pointer(queries_grad, dq_step, dq_head, head)
    keys_grad = _head_pointer(keys_grad, dk_step, dk_head, head)
    values_grad = _head_pointer(values_grad, dv_step, dv_head, head)
    sums += head * num_queries
    s_first, s_end = _sentences_of_tile(
        tile, q_indices, longest, num_sentences, num_queries, STRIDE
    )
    q_first, q_end = tl.load(q_offsets + s_first), tl.load(q_offsets + s_end)
    k_first, k_end = tl.load(k_offsets + s_first), tl.load(k_offsets + s_end)
    one_block = k_end - k_first <= COLS
    for k_start in range(k_first, k_end, COLS):
        cols, col_valid, k, v = _load_keys_values(keys, values, k_start, k_end, lanes, WIDTH, COLS)
        dk, dv = tl.zeros((COLS, LANES), tl.float32), tl.zeros((COLS, LANES), tl.float32)
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            row_valid = rows < q_end
            q, g, running_sum, delta = _load_queries(
                queries, grad, out, sums, rows, row_valid, lanes, WIDTH
            )
            low, high = _visible_range(rows, row_valid, q_indices, longest, k_offsets, CAUSAL)
            visible = _visible(cols, low, high)
            row_seeds = row_keys(seed, rows, head) if DROP else rows
            dropped_weights, ds = _weights_and_score_grads(
                q,
                k,
                v,
                g,
                running_sum,
                delta,
                visible,
                row_seeds,
                cols,
                scale,
                threshold,
                keep_scale,
                DROP,
            )
            dv += tl.dot(tl.trans(dropped_weights.to(g.dtype)), g, input_precision="ieee")
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
            if one_block:
                dq = tl.dot(ds.to(k.dtype), k, input_precision="ieee") * factor
                _store_rows(queries_grad, rows, row_valid, lanes, dq, WIDTH)
        _store_rows(keys_grad, cols, col_valid, lanes, dk * factor, WIDTH)
        _store_rows(values_grad, cols, col_valid, lanes, dv, WIDTH)
    if k_end - k_first > COLS or k_end == k_first:  # nobody has written those of the queries
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            row_valid = rows < q_end
            query_block = _load_queries(queries, grad, out, sums, rows, row_valid, lanes, WIDTH)
            low, high = _visible_range(rows, row_valid, q_indices, longest, k_offsets, CAUSAL)
            row_seeds = row_keys(seed, rows, head) if DROP else rows
            dq = _query_grads(
                query_block, keys, values, k_first, k_end, low, high, row_seeds, lanes, scale,
                threshold,
                keep_scale, DROP, WIDTH, COLS,
            )  # fmt: skip
            _store_rows(queries_grad, rows, row_valid, lanes, dq * factor, WIDTH)
