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

from regard.kernels.device.chance import kept, row_keys


@triton.jit
def _sight(rows, there, places, longest, others, CAUSAL: tl.constexpr):
    """From where and up to where each of `rows` sees the other side's tokens."""
    sentence = tl.load(places + rows, mask=there, other=0).to(tl.int32) // longest
    low = tl.load(others + sentence, mask=there, other=0)
    high = tl.load(others + sentence + 1, mask=there, other=0)
    if CAUSAL:
        high = tl.minimum(high, rows + 1)
    return low, tl.where(there, high, 0)


@triton.jit
def _sentence_at(token, places, longest):
    return tl.load(places + token).to(tl.int32) // longest


@triton.jit
def _block(x, tokens, there, step, lanes, WIDTH: tl.constexpr):
    """The vectors of some tokens: (R, K), zeros where there are none."""
    cells = x + tokens[:, None].to(tl.int64) * step + lanes[None, :]
    return tl.load(cells, mask=there[:, None] & (lanes < WIDTH)[None, :], other=0.0)


@triton.jit
def _put(x, tokens, there, step, lanes, values, WIDTH: tl.constexpr):
    cells = x + tokens[:, None].to(tl.int64) * step + lanes[None, :]
    mask = there[:, None] & (lanes < WIDTH)[None, :]
    tl.store(cells, values.to(x.dtype.element_ty), mask=mask)


@triton.jit
def _seen(cols, low, high):
    """Who sees whom: (R, C)."""
    return (cols[None, :] >= low[:, None]) & (cols[None, :] < high[:, None])


@triton.jit
def _asked(q, g, o, sums, rows, there, q_step, g_step, o_step, lanes, WIDTH: tl.constexpr):
    """Some queries, the slopes of what they found, the sums of their weights, and their deltas.

    A delta is what all weights of a row have to do with the slope of one score (R,).
    """
    queries = _block(q, rows, there, q_step, lanes, WIDTH)
    slopes = _block(g, rows, there, g_step, lanes, WIDTH)
    found = _block(o, rows, there, o_step, lanes, WIDTH)
    deltas = tl.sum(slopes.to(tl.float32) * found.to(tl.float32), 1)
    return queries, slopes, tl.load(sums + rows, mask=there, other=float("inf")), deltas


@triton.jit
def _slopes(
    q, k, v, g, sums, deltas, seen, chance, cols, scale, threshold, rest, DROP: tl.constexpr
):
    """The weights as used, and the slopes of the scores: both (R, C), in float32.

    `chance` (R,) are the random keys of the rows.
    """
    scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
    weights = tl.where(seen, tl.exp2(scores - sums[:, None]), 0.0)
    slopes = tl.dot(g, tl.trans(v), input_precision="ieee")
    used = weights
    if DROP:
        stays = kept(chance[:, None], cols[None, :], threshold)
        used = tl.where(stays, weights * rest, 0.0)
        slopes = tl.where(stays, slopes * rest, 0.0)
    return used, weights * (slopes - deltas[:, None])


@triton.jit(do_not_specialize=["longest", "num_queries", "threshold"])
def forward(
    queries,
    keys,
    values,
    out,
    sums,
    seed,
    places,
    offsets,
    longest,
    num_queries,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    o_step,
    o_head,
    scale,
    threshold,
    rest,
    CAUSAL: tl.constexpr,
    DROP: tl.constexpr,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """`out` and `sums` of one tile of queries; `offsets` are those of the keys."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries += head * q_head
    keys += head * k_head
    values += head * v_head
    out += head * o_head
    sums += head * num_queries
    rows, lanes = first + tl.arange(0, ROWS), tl.arange(0, LANES)
    there = rows < num_queries
    low, high = _sight(rows, there, places, longest, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin = tl.load(offsets + _sentence_at(first, places, longest))
    end = tl.load(offsets + _sentence_at(last, places, longest) + 1)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    q = _block(queries, rows, there, q_step, lanes, WIDTH)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, LANES), tl.float32)
    if DROP:
        chance = row_keys(seed, rows, head)
    for start in range(begin, end, COLS):
        cols = start + tl.arange(0, COLS)
        near = cols < end
        k = _block(keys, cols, near, k_step, lanes, WIDTH)
        v = _block(values, cols, near, v_step, lanes, WIDTH)
        seen = _seen(cols, low, high)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        finite = tl.where(higher == float("-inf"), 0.0, higher)
        weights = tl.exp2(scores - finite[:, None])
        fade = tl.exp2(top - finite)
        total = total * fade + tl.sum(weights, 1)
        if DROP:
            stays = kept(chance[:, None], cols[None, :], threshold)
            weights = tl.where(stays, weights, 0.0)
        mixed = mixed * fade[:, None]
        mixed += tl.dot(weights.to(v.dtype), v, input_precision="ieee")
        top = higher
    blind = total == 0.0
    mixed = mixed * (rest / tl.where(blind, 1.0, total))[:, None]
    _put(out, rows, there, o_step, lanes, mixed, WIDTH)
    logs = tl.where(blind, float("inf"), top + tl.log2(tl.where(blind, 1.0, total)))
    tl.store(sums + rows, logs, mask=there)


@triton.jit(do_not_specialize=["longest", "num_queries", "threshold"])
def backward_queries(
    queries,
    keys,
    values,
    out,
    slope,
    sums,
    deltas,
    to_queries,
    seed,
    places,
    offsets,
    longest,
    num_queries,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    o_step,
    o_head,
    g_step,
    g_head,
    dq_step,
    dq_head,
    factor,
    scale,
    threshold,
    rest,
    CAUSAL: tl.constexpr,
    DROP: tl.constexpr,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """The slope of one tile of queries, and the `deltas` that that of the keys needs."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries += head * q_head
    keys += head * k_head
    values += head * v_head
    out += head * o_head
    slope += head * g_head
    to_queries += head * dq_head
    sums += head * num_queries
    deltas += head * num_queries
    rows, lanes = first + tl.arange(0, ROWS), tl.arange(0, LANES)
    there = rows < num_queries
    low, high = _sight(rows, there, places, longest, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin = tl.load(offsets + _sentence_at(first, places, longest))
    end = tl.load(offsets + _sentence_at(last, places, longest) + 1)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    q, g, total, delta = _asked(
        queries, slope, out, sums, rows, there, q_step, g_step, o_step, lanes, WIDTH
    )
    tl.store(deltas + rows, delta, mask=there)
    dq = tl.zeros((ROWS, LANES), tl.float32)
    chance = row_keys(seed, rows, head) if DROP else rows
    for start in range(begin, end, COLS):
        cols = start + tl.arange(0, COLS)
        near = cols < end
        k = _block(keys, cols, near, k_step, lanes, WIDTH)
        v = _block(values, cols, near, v_step, lanes, WIDTH)
        seen = _seen(cols, low, high)
        _, ds = _slopes(q, k, v, g, total, delta, seen, chance, cols, scale, threshold, rest, DROP)
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    _put(to_queries, rows, there, dq_step, lanes, dq * factor, WIDTH)


@triton.jit(do_not_specialize=["longest", "num_queries", "num_keys", "threshold"])
def backward_keys(
    queries,
    keys,
    values,
    slope,
    sums,
    deltas,
    to_keys,
    to_values,
    seed,
    places,
    offsets,
    longest,
    num_queries,
    num_keys,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    g_step,
    g_head,
    dk_step,
    dk_head,
    dv_step,
    dv_head,
    factor,
    scale,
    threshold,
    rest,
    CAUSAL: tl.constexpr,
    DROP: tl.constexpr,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
):
    """The slopes of one tile of keys and values.

    `places` and `longest` are those of the keys, `offsets` those of the queries.
    """
    head, first = tl.program_id(0), tl.program_id(1) * COLS
    queries += head * q_head
    keys += head * k_head
    values += head * v_head
    slope += head * g_head
    to_keys += head * dk_head
    to_values += head * dv_head
    sums += head * num_queries
    deltas += head * num_queries
    cols, lanes = first + tl.arange(0, COLS), tl.arange(0, LANES)
    near = cols < num_keys
    low, high = _sight(cols, near, places, longest, offsets, False)
    if CAUSAL:
        low = tl.maximum(low, cols)
    last = tl.minimum(first + COLS, num_keys) - 1
    begin = tl.load(offsets + _sentence_at(first, places, longest))
    if CAUSAL:
        begin = tl.maximum(begin, first)
    end = tl.load(offsets + _sentence_at(last, places, longest) + 1)
    k = _block(keys, cols, near, k_step, lanes, WIDTH)
    v = _block(values, cols, near, v_step, lanes, WIDTH)
    dk = tl.zeros((COLS, LANES), tl.float32)
    dv = tl.zeros((COLS, LANES), tl.float32)
    for start in range(begin, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        there = rows < end
        q = _block(queries, rows, there, q_step, lanes, WIDTH)
        g = _block(slope, rows, there, g_step, lanes, WIDTH)
        total = tl.load(sums + rows, mask=there, other=float("inf"))
        delta = tl.load(deltas + rows, mask=there, other=0.0)
        seen = (rows[:, None] >= low[None, :]) & (rows[:, None] < high[None, :])
        chance = row_keys(seed, rows, head) if DROP else rows
        used, ds = _slopes(
            q, k, v, g, total, delta, seen, chance, cols, scale, threshold, rest, DROP
        )
        dv += tl.dot(tl.trans(used.to(g.dtype)), g, input_precision="ieee")
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
    _put(to_keys, cols, near, dk_step, lanes, dk * factor, WIDTH)
    _put(to_values, cols, near, dv_step, lanes, dv, WIDTH)


@triton.jit(do_not_specialize=["longest", "num_sentences", "num_queries", "threshold"])
def backward_whole(
    queries,
    keys,
    values,
    out,
    slope,
    sums,
    to_queries,
    to_keys,
    to_values,
    seed,
    q_places,
    q_offsets,
    k_offsets,
    longest,
    num_sentences,
    num_queries,
    q_step,
    q_head,
    k_step,
    k_head,
    v_step,
    v_head,
    o_step,
    o_head,
    g_step,
    g_head,
    dq_step,
    dq_head,
    dk_step,
    dk_head,
    dv_step,
    dv_head,
    factor,
    scale,
    threshold,
    rest,
    CAUSAL: tl.constexpr,
    DROP: tl.constexpr,
    WIDTH: tl.constexpr,
    LANES: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    STRIDE: tl.constexpr,
):
    """All three slopes of the sentences whose first query is one of STRIDE consecutive tokens.

    They are whole sentences, so that no other program adds to their slopes. Where they have at
    most COLS keys, scores are made once; where one is longer, once more for the queries.
    """
    head, tile = tl.program_id(0), tl.program_id(1)
    queries += head * q_head
    keys += head * k_head
    values += head * v_head
    out += head * o_head
    slope += head * g_head
    to_queries += head * dq_head
    to_keys += head * dk_head
    to_values += head * dv_head
    sums += head * num_queries
    lanes = tl.arange(0, LANES)
    s_first = tl.where(
        tile == 0, 0, _sentence_at(tl.maximum(tile * STRIDE - 1, 0), q_places, longest) + 1
    )
    beyond = (tile + 1) * STRIDE
    s_last = tl.where(
        beyond >= num_queries,
        num_sentences,
        _sentence_at(tl.minimum(beyond, num_queries) - 1, q_places, longest) + 1,
    )
    q_first, q_end = tl.load(q_offsets + s_first), tl.load(q_offsets + s_last)
    k_first, k_end = tl.load(k_offsets + s_first), tl.load(k_offsets + s_last)
    once = k_end - k_first <= COLS
    for k_start in range(k_first, k_end, COLS):
        cols = k_start + tl.arange(0, COLS)
        near = cols < k_end
        k = _block(keys, cols, near, k_step, lanes, WIDTH)
        v = _block(values, cols, near, v_step, lanes, WIDTH)
        dk = tl.zeros((COLS, LANES), tl.float32)
        dv = tl.zeros((COLS, LANES), tl.float32)
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            there = rows < q_end
            q, g, total, delta = _asked(
                queries, slope, out, sums, rows, there, q_step, g_step, o_step, lanes, WIDTH
            )
            low, high = _sight(rows, there, q_places, longest, k_offsets, CAUSAL)
            seen = _seen(cols, low, high)
            chance = row_keys(seed, rows, head) if DROP else rows
            used, ds = _slopes(
                q, k, v, g, total, delta, seen, chance, cols, scale, threshold, rest, DROP
            )
            dv += tl.dot(tl.trans(used.to(g.dtype)), g, input_precision="ieee")
            dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
            if once:
                dq = tl.dot(ds.to(k.dtype), k, input_precision="ieee") * factor
                _put(to_queries, rows, there, dq_step, lanes, dq, WIDTH)
        _put(to_keys, cols, near, dk_step, lanes, dk * factor, WIDTH)
        _put(to_values, cols, near, dv_step, lanes, dv, WIDTH)
    if k_end - k_first > COLS or k_end == k_first:
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            there = rows < q_end
            q, g, total, delta = _asked(
                queries, slope, out, sums, rows, there, q_step, g_step, o_step, lanes, WIDTH
            )
            low, high = _sight(rows, there, q_places, longest, k_offsets, CAUSAL)
            chance = row_keys(seed, rows, head) if DROP else rows
            dq = tl.zeros((ROWS, LANES), tl.float32)
            for k_start in range(k_first, k_end, COLS):
                cols = k_start + tl.arange(0, COLS)
                near = cols < k_end
                k = _block(keys, cols, near, k_step, lanes, WIDTH)
                v = _block(values, cols, near, v_step, lanes, WIDTH)
                seen = _seen(cols, low, high)
                _, ds = _slopes(
                    q, k, v, g, total, delta, seen, chance, cols, scale, threshold, rest, DROP
                )
                dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
            _put(to_queries, rows, there, dq_step, lanes, dq * factor, WIDTH)
