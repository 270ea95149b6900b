/* Attention on tables of inner products; models/rerankers/attention.py and scan.py compute the same in PyTorch.
 *
 * A table is [blocks][rows][BLOCK] floats, in blocks of columns. The columns (such as a sentence's words) attend to the
 * rows (regions). For the other direction the table is transposed. Masks are -1 for real entries, 0 for padding;
 * columns beyond the last real one are padding.
 */
#ifndef REGARD_ATTENTION_H
#define REGARD_ATTENTION_H

#include "halves.h"
#include "product.h"

#define EPSILON 1e-8f /* added to a length that is divided by */
#define LEAST_SQUARE 1e-30f
#define LEAST 1e-30f
#define TIE_TOLERANCE 1e-5f /* by how much the largest of equal weights may exceed their mean */
#define TINY 1.17549435e-38f /* the smallest normal float32 */

typedef struct {
  int rows, blocks;
  const int32_t *real_rows, *real_columns; /* [rows], [blocks * BLOCK] */
} shape;

INLINE int columns_of(shape s) { return s.blocks * BLOCK; }

/* The index of a row's columns from `column` on, which is a multiple of LANES. */
INLINE size_t place(shape s, int row, int column) {
  return ((size_t)(column / BLOCK) * s.rows + row) * BLOCK + column % BLOCK;
}

INLINE ints load_mask(const int32_t *from) {
  ints value;
  memcpy(&value, from, sizeof value);
  return value;
}

/* The table with rows and columns exchanged; `into` has the columns of `s`, up to `count`, as rows. */
static void transpose(shape s, const float *table, int count, float *into) {
  for (int row = 0; row < s.rows; row += LANES)
    for (int column = 0; column < count; column += LANES) {
      lanes square[LANES];
      for (int n = 0; n < LANES; n++) square[n] = row + n < s.rows ? load(table + place(s, row + n, column)) : all(0);
      turn(square);
      float *own = into + ((size_t)(row / BLOCK) * count + column) * BLOCK + row % BLOCK;
      for (int n = 0; n < LANES && column + n < count; n++) store(own + (size_t)n * BLOCK, square[n]);
    }
  /* The remaining rows of the last block, which no square covers. */
  for (int row = (s.rows + LANES - 1) / LANES * LANES; row % BLOCK; row += LANES)
    for (int column = 0; column < count; column++)
      store(into + ((size_t)(row / BLOCK) * count + column) * BLOCK + row % BLOCK, all(0));
}

/* LeakyReLU(0.1). */
static void clip(shape s, const float *table, float *into) {
  for (size_t n = 0; n < (size_t)s.rows * columns_of(s); n += LANES) {
    const lanes x = load(table + n);
    store(into + n, choose(x < 0.0f, 0.1f * x, x));
  }
}

static void scale(shape s, float by, float *table) {
  for (size_t n = 0; n < (size_t)s.rows * columns_of(s); n += LANES) store(table + n, by * load(table + n));
}

static int count_real(const int32_t *real, int count) {
  int found = 0;
  for (int n = 0; n < count; n++) found -= real[n];
  return found;
}

/* Every row divided by its length, times a factor. With `lone_exact` EPSILON is not added to the length of rows with a
 * single real number. */
static void normalise_rows(shape s, float times, int lone_exact, float *table) {
  const int lone = lone_exact && count_real(s.real_columns, columns_of(s)) == 1;
  for (int row = 0; row < s.rows; row++) {
    lanes squares = {0};
    for (int column = 0; column < columns_of(s); column += LANES) {
      const lanes x = load(table + place(s, row, column));
      squares += x * x;
    }
    const float square = sum_of(squares);
    const float length = sqrtf(square < LEAST_SQUARE ? LEAST_SQUARE : square);
    const float by = times / (!lone ? length + EPSILON : length < EPSILON ? EPSILON : length);
    for (int column = 0; column < columns_of(s); column += LANES) {
      const size_t at = place(s, row, column);
      store(table + at, by * load(table + at));
    }
  }
}

/* Softmax of the columns of every row, times a factor. */
static void softmax_of_rows(shape s, float times, float *table) {
  for (int row = 0; row < s.rows; row++) {
    lanes most = all(-INFINITY), total = {0};
    for (int column = 0; column < columns_of(s); column += LANES) {
      const lanes x = load(table + place(s, row, column));
      most = larger(most, choose(load_mask(s.real_columns + column), x, all(-INFINITY)));
    }
    const float peak = largest_of(most);
    for (int column = 0; column < columns_of(s); column += LANES) {
      const size_t at = place(s, row, column);
      const lanes weight = exponential(load(table + at) - (isfinite(peak) ? peak : 0.0f));
      const lanes real = choose(load_mask(s.real_columns + column), weight, all(0.0f));
      store(table + at, real);
      total += real;
    }
    const float sum = sum_of(total), by = 1.0f / (sum < TINY ? TINY : sum);
    for (int column = 0; column < columns_of(s); column += LANES) {
      const size_t at = place(s, row, column);
      store(table + at, times * (by * load(table + at)));
    }
  }
}

/* Logits to weights of the rows, up to a factor for each column. */
static void exponentials(shape s, float *table) {
  for (size_t n = 0; n < (size_t)s.rows * columns_of(s); n += LANES) store(table + n, exponential(load(table + n)));
}

/* Logits to weights of the real rows, which add up to 1 in every column. */
static void softmax_of_columns(shape s, float *table) {
  for (int column = 0; column < columns_of(s); column += LANES) {
    lanes peak = all(-INFINITY), total = {0};
    for (int row = 0; row < s.rows; row++)
      if (s.real_rows[row]) peak = larger(peak, load(table + place(s, row, column)));
    peak = choose((peak - peak) == 0.0f, peak, all(0.0f)); /* do not subtract an infinity */
    for (int row = 0; row < s.rows; row++) {
      const size_t at = place(s, row, column);
      const lanes weight = s.real_rows[row] ? exponential(load(table + at) - peak) : all(0.0f);
      store(table + at, weight);
      total += weight;
    }
    const lanes by = 1.0f / at_least(total, all(TINY));
    for (int row = 0; row < s.rows; row++) {
      const size_t at = place(s, row, column);
      store(table + at, by * load(table + at));
    }
  }
}

/* Products divided by the rows' and the columns' lengths, times a factor. */
static void divide_by_lengths(shape s, float times, const float *row_lengths, const float *column_lengths,
                              float *table) {
  for (int column = 0; column < columns_of(s); column += LANES)
    for (int row = 0; row < s.rows; row++) {
      const size_t at = place(s, row, column);
      const lanes both = at_least(row_lengths[row] * load(column_lengths + column), all(EPSILON));
      store(table + at, load(table + at) * (times / both));
    }
}

/* BFAN's focal attention (models/rerankers/bfan.py): weights that do not stand out from their column become 0. */
static void keep_focal(shape s, int by_roots, float *weights) {
  for (int column = 0; column < columns_of(s); column += LANES) {
    lanes total = {0}, threshold = {0}, most = {0};
    for (int row = 0; row < s.rows; row++) {
      const size_t at = place(s, row, column);
      const lanes weight = s.real_rows[row] ? load(weights + at) : all(0.0f);
      const lanes compared = !s.real_rows[row] ? all(0.0f) : by_roots ? root(weight) : all(1.0f);
      store(weights + at, weight);
      total += compared;
      threshold += weight * compared;
      most = larger(most, weight);
    }
    const ints alike = most * total <= threshold * (1 + TIE_TOLERANCE);
    threshold = choose(alike, all(-1.0f), threshold);
    for (int row = 0; row < s.rows; row++) {
      const size_t at = place(s, row, column);
      const lanes weight = load(weights + at);
      store(weights + at, choose(weight * total <= threshold, all(0.0f), weight));
    }
  }
}

/* The largest number among the real rows of every column; -infinity where there is none. */
static void largest_of_columns(shape s, const float *table, float *into) {
  for (int column = 0; column < columns_of(s); column += LANES) {
    lanes most = all(-INFINITY);
    for (int row = 0; row < s.rows; row++)
      if (s.real_rows[row]) most = larger(most, load(table + place(s, row, column)));
    store(into + column, most);
  }
}

/* Cosine of every column with its weighted sum of rows, [blocks * BLOCK]. `gram` [rows][rows] holds the rows' inner
 * products, `lengths` are the columns', and `scratch` is a table. */
static void cosines(shape s, const float *weights, const float *raw, const float *gram, const float *lengths,
                    float *scratch, float *into) {
  square_product(gram, s.rows, weights, s.blocks, scratch);
  for (int column = 0; column < columns_of(s); column += LANES) {
    lanes inner = {0}, square = {0};
    for (int row = 0; row < s.rows; row++) {
      const size_t at = place(s, row, column);
      const lanes weight = load(weights + at);
      inner += weight * load(raw + at);
      square += weight * load(scratch + at);
    }
    const lanes both = root(at_least(square, all(LEAST_SQUARE))) * load(lengths + column);
    store(into + column, inner / at_least(both, all(LEAST)));
  }
}

/* Softmax of logits in place; with `real`, of those alone, and the others become 0. */
static void softmax(int count, const int32_t *real, float *logits) {
  float peak = -INFINITY, total = 0;
  for (int n = 0; n < count; n++)
    if ((!real || real[n]) && !(logits[n] <= peak)) peak = logits[n];
  if (!isfinite(peak)) peak = 0;
  for (int n = 0; n < count; n++) {
    logits[n] = !real || real[n] ? expf(logits[n] - peak) : 0;
    total += logits[n];
  }
  for (int n = 0; n < count; n++) logits[n] /= total < TINY ? TINY : total;
}

/* Softmax of logits that are sums of [count][BLOCK] parts; the weights replace the first `count` numbers. */
static void softmax_of_sums(int count, const int32_t *real, float *parts) {
  for (int n = 0; n < count; n++) {
    lanes sum = {0};
    for (int p = 0; p < BLOCK; p += LANES) sum += load(parts + (size_t)n * BLOCK + p);
    parts[n] = sum_of(sum);
  }
  softmax(count, real, parts);
}

#endif
