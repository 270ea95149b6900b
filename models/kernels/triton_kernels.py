"""The scores of forms.py as a Triton kernel, with a program for each sentence and picture that reads its record.

It follows source/attention.h and pooling.h, which run on a CPU, in the same order. Importing it needs Triton, which
comes with PyTorch for Linux; with TRITON_INTERPRET=1 in the environment it runs on a CPU, slowly.
"""

import triton
import triton.language as tl

ADDED = tl.constexpr(1e-8)  # added to a length that is divided by
LEAST_SQUARED = tl.constexpr(1e-30)
TINY = tl.constexpr(1.17549435e-38)
ALIKE = tl.constexpr(1.0 + 1e-5)  # BFAN's weights count as equal if the largest is at most this factor above their mean
NONE, SOFTMAX, L2NORM, CLIPPED_L2NORM, CLIPPED = (tl.constexpr(n) for n in range(5))  # FormLogits, in its order
COSINE = tl.constexpr(6)
EQUAL, PROB = tl.constexpr(1), tl.constexpr(2)  # FormFocal
MEAN, SUM, MAX, LOG_SUM_EXP = (tl.constexpr(n) for n in range(4))  # FormPooling
INFINITY = tl.constexpr(float("inf"))


@triton.jit
def softmax_of_rows(raw, real_columns, times):
    """Softmax of every row over its real columns, times a factor."""
    peak = tl.max(tl.where(real_columns[None, :], raw, -INFINITY), 1)
    peak = tl.where(tl.abs(peak) < INFINITY, peak, 0.0)
    weights = tl.where(real_columns[None, :], tl.exp(raw - peak[:, None]), 0.0)
    return times * (weights / tl.maximum(tl.sum(weights, 1), TINY)[:, None])


@triton.jit
def softmax_of_columns(logits, real_rows):
    """Softmax of every column over the real rows."""
    peak = tl.max(tl.where(real_rows[:, None], logits, -INFINITY), 0)
    peak = tl.where(tl.abs(peak) < INFINITY, peak, 0.0)
    weights = tl.where(real_rows[:, None], tl.exp(logits - peak[None, :]), 0.0)
    return weights / tl.maximum(tl.sum(weights, 0), TINY)[None, :]


@triton.jit
def keep_focal(weights, real_rows, FOCAL: tl.constexpr):
    """BFAN's focal attention: weights that do not stand out from their column become 0."""
    weights = tl.where(real_rows[:, None], weights, 0.0)
    if FOCAL == PROB:
        compared = tl.sqrt(weights)
    else:
        compared = tl.where(real_rows[:, None], tl.zeros_like(weights) + 1.0, 0.0)
    total, threshold = tl.sum(compared, 0), tl.sum(weights * compared, 0)
    threshold = tl.where(tl.max(weights, 0) * total <= threshold * ALIKE, -1.0, threshold)
    return tl.where(weights * total[None, :] <= threshold[None, :], 0.0, weights)


@triton.jit
def attended_cosines(
    raw,
    gram,
    real_rows,
    real_columns,
    row_lengths,
    column_lengths,
    times,
    LOGITS: tl.constexpr,
    BOUNDED: tl.constexpr,
    FOCAL: tl.constexpr,
):
    """Cosine of every column with the weighted sum of rows that it attends to."""
    logits = raw
    if LOGITS == CLIPPED or LOGITS == CLIPPED_L2NORM:
        logits = tl.where(raw < 0, 0.1 * raw, raw)
    if LOGITS == SOFTMAX:
        logits = softmax_of_rows(raw, real_columns, times)
    elif LOGITS == L2NORM or LOGITS == CLIPPED_L2NORM:
        length = tl.sqrt(tl.maximum(tl.sum(logits * logits, 1), LEAST_SQUARED))
        is_lone = (FOCAL != 0) & (tl.sum(tl.where(real_columns, 1, 0), 0) == 1)
        length = tl.where(is_lone, tl.maximum(length, ADDED), length + ADDED)
        logits = logits * (times / length)[:, None]
    elif LOGITS == COSINE:
        logits = raw * (times / tl.maximum(row_lengths[:, None] * column_lengths[None, :], ADDED))
    else:
        logits = logits * times
    if BOUNDED:
        weights = tl.exp(logits)
    else:
        weights = softmax_of_columns(logits, real_rows)
    if FOCAL != 0:
        weights = keep_focal(weights, real_rows, FOCAL)
    weights = weights.to(tl.float32)  # the interpreter computes in float64 with Python numbers
    inner = tl.sum(weights * raw, 0)
    square = tl.sum(weights * tl.dot(gram, weights, input_precision="ieee"), 0)
    both = tl.sqrt(tl.maximum(square, LEAST_SQUARED)) * column_lengths
    return inner / tl.maximum(both, LEAST_SQUARED)


@triton.jit
def pooled(values, real, sharpness, POOLING: tl.constexpr):
    """The relevances of the real columns pooled into one number."""
    if POOLING == LOG_SUM_EXP:
        peak = tl.max(tl.where(real, values, -INFINITY), 0) * sharpness
        peak = tl.where(tl.abs(peak) < INFINITY, peak, 0.0)
        score = (tl.log(tl.sum(tl.where(real, tl.exp(sharpness * values - peak), 0.0), 0)) + peak) / sharpness
    elif POOLING == MAX:
        score = tl.max(tl.where(real, values, -INFINITY), 0)
    else:
        score = tl.sum(tl.where(real, values, 0.0), 0)
        if POOLING == MEAN:
            score = score / tl.maximum(tl.sum(tl.where(real, 1.0, 0.0), 0), 1.0)
    return score


@triton.jit
def score_of_columns(
    raw,
    gram,
    real_rows,
    real_columns,
    row_lengths,
    column_lengths,
    times,
    sharpness,
    LOGITS: tl.constexpr,
    BOUNDED: tl.constexpr,
    FOCAL: tl.constexpr,
    POOLING: tl.constexpr,
):
    """The score of columns that attend to rows."""
    if LOGITS == NONE:
        relevance = tl.max(tl.where(real_rows[:, None], raw, -INFINITY), 0)
    else:
        relevance = attended_cosines(
            raw, gram, real_rows, real_columns, row_lengths, column_lengths, times, LOGITS, BOUNDED, FOCAL
        )
    return pooled(relevance, real_columns, sharpness, POOLING)


@triton.jit
def score_pairs_kernel(
    vectors,
    gram,
    mask,
    rows,
    words,
    word_gram,
    word_mask,
    scores,
    pictures,
    regions,
    width,
    times,
    sharpness,
    REGIONS: tl.constexpr,
    WORDS: tl.constexpr,
    CHUNK: tl.constexpr,
    WORDS_ATTEND: tl.constexpr,
    REGIONS_ATTEND: tl.constexpr,
    LOGITS: tl.constexpr,
    BOUNDED: tl.constexpr,
    FOCAL: tl.constexpr,
    POOLING: tl.constexpr,
):
    """Store scores[q, k] of the picture rows[q, k] with sentence q.

    Pictures: vectors [N, regions, width] and gram [N, regions, regions] in half precision, mask [N, regions].
    Sentences, padded with zeros: words [Q, WORDS, width] and word_gram [Q, WORDS, WORDS] in float32, word_mask
    [Q, WORDS]. REGIONS is a power of two and at least `regions`.
    """
    k, q = tl.program_id(0), tl.program_id(1)
    picture = tl.load(rows + q * pictures + k).to(tl.int64)
    r, w, d = tl.arange(0, REGIONS), tl.arange(0, WORDS), tl.arange(0, CHUNK)
    real_regions = tl.load(mask + picture * regions + r, r < regions, 0) != 0
    real_words = tl.load(word_mask + q * WORDS + w) != 0
    raw = tl.zeros((REGIONS, WORDS), tl.float32)
    region_squares, word_squares = tl.zeros((REGIONS,), tl.float32), tl.zeros((WORDS,), tl.float32)
    picture_at, sentence_at = vectors + picture * regions * width, words + q.to(tl.int64) * WORDS * width
    for start in range(0, width, CHUNK):
        inside = start + d < width
        v = tl.load(
            picture_at + r[:, None] * width + (start + d)[None, :], (r < regions)[:, None] & inside[None, :], 0.0
        )
        v = v.to(tl.float32)
        e = tl.load(sentence_at + w[None, :] * width + (start + d)[:, None], inside[:, None], 0.0)
        raw += tl.dot(v, e, input_precision="tf32x3")
        region_squares += tl.sum(v * v, 1)
        word_squares += tl.sum(e * e, 0)
    region_lengths, word_lengths = tl.sqrt(region_squares), tl.sqrt(word_squares)
    score = 0.0
    if WORDS_ATTEND:
        pairs = (r < regions)[:, None] & (r < regions)[None, :]
        at = gram + picture * regions * regions + r[:, None] * regions + r[None, :]
        table = raw
        if LOGITS != NONE:
            table = tl.load(at, pairs, 0.0).to(tl.float32)
        score += score_of_columns(
            raw,
            table,
            real_regions,
            real_words,
            region_lengths,
            word_lengths,
            times,
            sharpness,
            LOGITS,
            BOUNDED,
            FOCAL,
            POOLING,
        )
    if REGIONS_ATTEND:
        table = tl.load(word_gram + q * WORDS * WORDS + w[:, None] * WORDS + w[None, :])
        score += score_of_columns(
            tl.trans(raw),
            table,
            real_words,
            real_regions,
            word_lengths,
            region_lengths,
            times,
            sharpness,
            LOGITS,
            BOUNDED,
            FOCAL,
            POOLING,
        )
    tl.store(scores + q * pictures + k, score)
