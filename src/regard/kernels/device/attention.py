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
def _of_head(x, step, apart, head):
    """One head's vectors: where they begin, and how far one is from the next."""
    return x + head * apart, step


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
def _span(first, last, places, longest, others):
    """From where and up to where `first` to `last`, as a whole, see the other side's tokens."""
    begin = tl.load(others + _sentence_at(first, places, longest))
    return begin, tl.load(others + _sentence_at(last, places, longest) + 1)


@triton.jit
def _block(x, tokens, there, lanes, WIDTH: tl.constexpr):
    """The vectors of some tokens: (R, K), zeros where there are none."""
    cells = x[0] + tokens[:, None].to(tl.int64) * x[1] + lanes[None, :]
    return tl.load(cells, mask=there[:, None] & (lanes < WIDTH)[None, :], other=0.0)


@triton.jit
def _put(x, tokens, there, lanes, values, WIDTH: tl.constexpr):
    cells = x[0] + tokens[:, None].to(tl.int64) * x[1] + lanes[None, :]
    mask = there[:, None] & (lanes < WIDTH)[None, :]
    tl.store(cells, values.to(x[0].dtype.element_ty), mask=mask)


@triton.jit
def _offered(keys, values, start, end, lanes, WIDTH: tl.constexpr, COLS: tl.constexpr):
    """A block of tokens from `start`, whether each is before `end`, their keys and values."""
    cols = start + tl.arange(0, COLS)
    near = cols < end
    k = _block(keys, cols, near, lanes, WIDTH)
    return cols, near, k, _block(values, cols, near, lanes, WIDTH)


@triton.jit
def _asked(queries, slope, out, sums, rows, there, lanes, WIDTH: tl.constexpr):
    """Some queries, the slopes of what they found, the sums of their weights, and their deltas.

    A delta is what all weights of a row have to do with the slope of one score (R,).
    """
    q = _block(queries, rows, there, lanes, WIDTH)
    g = _block(slope, rows, there, lanes, WIDTH)
    found = _block(out, rows, there, lanes, WIDTH)
    deltas = tl.sum(g.to(tl.float32) * found.to(tl.float32), 1)
    return q, g, tl.load(sums + rows, mask=there, other=float("inf")), deltas


@triton.jit
def _seen(cols, low, high):
    """Who sees whom: (R, C)."""
    return (cols[None, :] >= low[:, None]) & (cols[None, :] < high[:, None])


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


@triton.jit
def _query_slopes(
    asked, keys, values, begin, end, low, high, chance, lanes, scale, threshold, rest,
    DROP: tl.constexpr, WIDTH: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The slopes of the queries that were `asked`, less their factor, by the keys of a range."""
    q, g, total, delta = asked
    dq = tl.zeros(q.shape, tl.float32)
    for start in range(begin, end, COLS):
        cols, _, k, v = _offered(keys, values, start, end, lanes, WIDTH, COLS)
        seen = _seen(cols, low, high)
        _, ds = _slopes(q, k, v, g, total, delta, seen, chance, cols, scale, threshold, rest, DROP)
        dq += tl.dot(ds.to(k.dtype), k, input_precision="ieee")
    return dq


@triton.jit(do_not_specialize=["longest", "num_queries", "threshold"])
def forward(
    queries, keys, values, out, sums, seed,
    places, offsets, longest, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    scale, threshold, rest,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """`out` and `sums` of one tile of queries; `offsets` are those of the keys."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries = _of_head(queries, q_step, q_head, head)
    keys = _of_head(keys, k_step, k_head, head)
    values = _of_head(values, v_step, v_head, head)
    out = _of_head(out, o_step, o_head, head)
    sums += head * num_queries
    rows, lanes = first + tl.arange(0, ROWS), tl.arange(0, LANES)
    there = rows < num_queries
    low, high = _sight(rows, there, places, longest, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin, end = _span(first, last, places, longest, offsets)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    q = _block(queries, rows, there, lanes, WIDTH)
    top = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    mixed = tl.zeros((ROWS, LANES), tl.float32)
    chance = row_keys(seed, rows, head) if DROP else rows
    for start in range(begin, end, COLS):
        cols, _, k, v = _offered(keys, values, start, end, lanes, WIDTH, COLS)
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
    _put(out, rows, there, lanes, mixed, WIDTH)
    logs = tl.where(blind, float("inf"), top + tl.log2(tl.where(blind, 1.0, total)))
    tl.store(sums + rows, logs, mask=there)


@triton.jit(do_not_specialize=["longest", "num_queries", "threshold"])
def backward_queries(
    queries, keys, values, out, slope, sums, deltas, to_queries, seed,
    places, offsets, longest, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    g_step, g_head, dq_step, dq_head,
    factor, scale, threshold, rest,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The slope of one tile of queries, and the `deltas` that that of the keys needs."""
    head, first = tl.program_id(0), tl.program_id(1) * ROWS
    queries = _of_head(queries, q_step, q_head, head)
    keys = _of_head(keys, k_step, k_head, head)
    values = _of_head(values, v_step, v_head, head)
    out = _of_head(out, o_step, o_head, head)
    slope = _of_head(slope, g_step, g_head, head)
    to_queries = _of_head(to_queries, dq_step, dq_head, head)
    sums += head * num_queries
    deltas += head * num_queries
    rows, lanes = first + tl.arange(0, ROWS), tl.arange(0, LANES)
    there = rows < num_queries
    low, high = _sight(rows, there, places, longest, offsets, CAUSAL)
    last = tl.minimum(first + ROWS, num_queries) - 1
    begin, end = _span(first, last, places, longest, offsets)
    if CAUSAL:
        end = tl.minimum(end, last + 1)
    asked = _asked(queries, slope, out, sums, rows, there, lanes, WIDTH)
    tl.store(deltas + rows, asked[3], mask=there)
    chance = row_keys(seed, rows, head) if DROP else rows
    dq = _query_slopes(
        asked, keys, values, begin, end, low, high, chance, lanes, scale, threshold, rest,
        DROP, WIDTH, COLS,
    )  # fmt: skip
    _put(to_queries, rows, there, lanes, dq * factor, WIDTH)


@triton.jit(do_not_specialize=["longest", "num_queries", "num_keys", "threshold"])
def backward_keys(
    queries, keys, values, slope, sums, deltas, to_keys, to_values, seed,
    places, offsets, longest, num_queries, num_keys,
    q_step, q_head, k_step, k_head, v_step, v_head,
    g_step, g_head, dk_step, dk_head, dv_step, dv_head,
    factor, scale, threshold, rest,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """The slopes of one tile of keys and values.

    `places` and `longest` are those of the keys, `offsets` those of the queries.
    """
    head, first = tl.program_id(0), tl.program_id(1) * COLS
    queries = _of_head(queries, q_step, q_head, head)
    keys = _of_head(keys, k_step, k_head, head)
    values = _of_head(values, v_step, v_head, head)
    slope = _of_head(slope, g_step, g_head, head)
    to_keys = _of_head(to_keys, dk_step, dk_head, head)
    to_values = _of_head(to_values, dv_step, dv_head, head)
    sums += head * num_queries
    deltas += head * num_queries
    lanes = tl.arange(0, LANES)
    cols, near, k, v = _offered(keys, values, first, num_keys, lanes, WIDTH, COLS)
    low, high = _sight(cols, near, places, longest, offsets, False)
    last = tl.minimum(first + COLS, num_keys) - 1
    begin, end = _span(first, last, places, longest, offsets)
    if CAUSAL:
        low = tl.maximum(low, cols)
        begin = tl.maximum(begin, first)
    dk = tl.zeros((COLS, LANES), tl.float32)
    dv = tl.zeros((COLS, LANES), tl.float32)
    for start in range(begin, end, ROWS):
        rows = start + tl.arange(0, ROWS)
        there = rows < end
        q = _block(queries, rows, there, lanes, WIDTH)
        g = _block(slope, rows, there, lanes, WIDTH)
        total = tl.load(sums + rows, mask=there, other=float("inf"))
        delta = tl.load(deltas + rows, mask=there, other=0.0)
        seen = (rows[:, None] >= low[None, :]) & (rows[:, None] < high[None, :])
        chance = row_keys(seed, rows, head) if DROP else rows
        used, ds = _slopes(
            q, k, v, g, total, delta, seen, chance, cols, scale, threshold, rest, DROP
        )
        dv += tl.dot(tl.trans(used.to(g.dtype)), g, input_precision="ieee")
        dk += tl.dot(tl.trans(ds.to(q.dtype)), q, input_precision="ieee")
    _put(to_keys, cols, near, lanes, dk * factor, WIDTH)
    _put(to_values, cols, near, lanes, dv, WIDTH)


@triton.jit
def _sentences(tile, places, longest, num_sentences, num_queries, STRIDE: tl.constexpr):
    """From which up to which sentence the first queries are among the tile's STRIDE tokens.

    Those without queries belong to the tile of the one before them.
    """
    before = _sentence_at(tl.maximum(tile * STRIDE - 1, 0), places, longest) + 1
    beyond = (tile + 1) * STRIDE
    until = _sentence_at(tl.minimum(beyond, num_queries) - 1, places, longest) + 1
    return tl.where(tile == 0, 0, before), tl.where(beyond >= num_queries, num_sentences, until)


@triton.jit(do_not_specialize=["longest", "num_sentences", "num_queries", "threshold"])
def backward_whole(
    queries, keys, values, out, slope, sums, to_queries, to_keys, to_values, seed,
    q_places, q_offsets, k_offsets, longest, num_sentences, num_queries,
    q_step, q_head, k_step, k_head, v_step, v_head, o_step, o_head,
    g_step, g_head, dq_step, dq_head, dk_step, dk_head, dv_step, dv_head,
    factor, scale, threshold, rest,
    CAUSAL: tl.constexpr, DROP: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr,
    ROWS: tl.constexpr, COLS: tl.constexpr, STRIDE: tl.constexpr,
):  # fmt: skip
    """All three slopes of the sentences whose first query is one of STRIDE consecutive tokens.

    They are whole sentences, so that no other program adds to their slopes. Where they have at
    most COLS keys, scores are made once; where one is longer, once more for the queries.
    """
    head, tile, lanes = tl.program_id(0), tl.program_id(1), tl.arange(0, LANES)
    queries = _of_head(queries, q_step, q_head, head)
    keys = _of_head(keys, k_step, k_head, head)
    values = _of_head(values, v_step, v_head, head)
    out = _of_head(out, o_step, o_head, head)
    slope = _of_head(slope, g_step, g_head, head)
    to_queries = _of_head(to_queries, dq_step, dq_head, head)
    to_keys = _of_head(to_keys, dk_step, dk_head, head)
    to_values = _of_head(to_values, dv_step, dv_head, head)
    sums += head * num_queries
    s_first, s_end = _sentences(tile, q_places, longest, num_sentences, num_queries, STRIDE)
    q_first, q_end = tl.load(q_offsets + s_first), tl.load(q_offsets + s_end)
    k_first, k_end = tl.load(k_offsets + s_first), tl.load(k_offsets + s_end)
    once = k_end - k_first <= COLS
    for k_start in range(k_first, k_end, COLS):
        cols, near, k, v = _offered(keys, values, k_start, k_end, lanes, WIDTH, COLS)
        dk, dv = tl.zeros((COLS, LANES), tl.float32), tl.zeros((COLS, LANES), tl.float32)
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            there = rows < q_end
            q, g, total, delta = _asked(queries, slope, out, sums, rows, there, lanes, WIDTH)
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
                _put(to_queries, rows, there, lanes, dq, WIDTH)
        _put(to_keys, cols, near, lanes, dk * factor, WIDTH)
        _put(to_values, cols, near, lanes, dv, WIDTH)
    if k_end - k_first > COLS or k_end == k_first:  # nobody has written those of the queries
        for q_start in range(q_first, q_end, ROWS):
            rows = q_start + tl.arange(0, ROWS)
            there = rows < q_end
            asked = _asked(queries, slope, out, sums, rows, there, lanes, WIDTH)
            low, high = _sight(rows, there, q_places, longest, k_offsets, CAUSAL)
            chance = row_keys(seed, rows, head) if DROP else rows
            dq = _query_slopes(
                asked, keys, values, k_first, k_end, low, high, chance, lanes, scale, threshold,
                rest, DROP, WIDTH, COLS,
            )  # fmt: skip
            _put(to_queries, rows, there, lanes, dq * factor, WIDTH)
