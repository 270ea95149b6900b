/* Inner products of half-precision rows with columns that lie side by side: half of a score, nearly all of its time. */
#ifndef REGARD_PRODUCT_H
#define REGARD_PRODUCT_H

#include "lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef _Float16 half;

#define CHUNK 256 /* numbers of a row that are widened at a time: with the columns' they fit the first cache */
/* Rows lie a little further apart than CHUNK: at multiples of 4096 bytes all would meet in one set of the cache. */
#define WIDE_STEP (CHUNK + 16)
#define LINE 32 /* halves of a cache line */

/* `length` halves as floats. */
INLINE void widen(const half *restrict from, int length, float *restrict to) {
  int n = 0;
#if defined(__AVX512F__)
  for (; n + 16 <= length; n += 16)
    _mm512_storeu_ps(to + n, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from + n))));
#elif defined(__F16C__)
  for (; n + 8 <= length; n += 8)
    _mm256_storeu_ps(to + n, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from + n))));
#endif
  for (; n < length; n++) to[n] = (float)from[n];
}

INLINE float sum_of_squares(const float *from, int length) {
  lanes total = {0};
  float rest = 0;
  int n = 0;
  for (; n + LANES <= length; n += LANES) total += load(from + n) * load(from + n);
  for (; n < length; n++) rest += from[n] * from[n];
  return sum_of(total) + rest;
}

INLINE void fetch(const half *from, int length) {
  for (int n = 0; n < length; n += LINE) __builtin_prefetch(from + n);
}

/* sums[row][column] += wide[row] . columns[:, column], for `rows` rows (a constant), which lie `step` floats apart,
 * and one block of columns. */
INLINE void multiply(const int rows, const float *wide, int step, int length, const float *columns,
                     float *sums) {
  lanes sum[MOST_SUMS][PARTS];
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) sum[r][p] = load(sums + r * BLOCK + p * LANES);
  for (int d = 0; d < length; d++) {
    lanes column[PARTS];
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) column[p] = load(columns + d * BLOCK + p * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; p++) sum[r][p] += wide[r * step + d] * column[p];
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) store(sums + r * BLOCK + p * LANES, sum[r][p]);
}

/* Products of `rows` rows (a constant) with all blocks of columns; sums: [block][all_rows][BLOCK], from their first row
 * on. `next`, if not null, is where the same rows of the next picture lie; `squares`, if not null, gets their squared
 * lengths. */
INLINE void multiply_rows(const int rows, const half *from, const half *next, int width, const float *columns,
                          int blocks, int all_rows, float *sums, float *squares) {
  float wide[MOST_ROWS * WIDE_STEP];
  for (int block = 0; block < blocks; block++)
    memset(sums + (size_t)block * all_rows * BLOCK, 0, sizeof(float) * (size_t)rows * BLOCK);
  for (int r = 0; squares && r < rows; r++) squares[r] = 0;
  for (int start = 0; start < width; start += CHUNK) {
    const int length = width - start < CHUNK ? width - start : CHUNK;
    for (int r = 0; r < rows; r++) {
      const size_t place = (size_t)r * width + start;
      widen(from + place, length, wide + r * WIDE_STEP);
      if (next) fetch(next + place, length);
      if (squares) squares[r] += sum_of_squares(wide + r * WIDE_STEP, length);
    }
    for (int block = 0; block < blocks; block++)
      multiply(rows, wide, WIDE_STEP, length, columns + ((size_t)block * width + start) * BLOCK,
               sums + (size_t)block * all_rows * BLOCK);
  }
}

/* The inner products of [rows][width] halves with columns packed as [blocks][width][BLOCK], as [blocks][rows][BLOCK]. */
static void product(const half *from, const half *next, int rows, int width, const float *columns, int blocks,
                    float *sums, float *squares) {
  for (int done = 0, step; done < rows; done += step) {
    const half *own = from + (size_t)done * width, *fetched = next ? next + (size_t)done * width : 0;
    float *own_sums = sums + (size_t)done * BLOCK, *own_squares = squares ? squares + done : 0;
    step = rows - done >= MOST_ROWS ? MOST_ROWS : rows - done >= 3 ? 3 : 1;
    if (step == MOST_ROWS)
      multiply_rows(MOST_ROWS, own, fetched, width, columns, blocks, rows, own_sums, own_squares);
    else if (step == 3)
      multiply_rows(3, own, fetched, width, columns, blocks, rows, own_sums, own_squares);
    else
      multiply_rows(1, own, fetched, width, columns, blocks, rows, own_sums, own_squares);
  }
}

/* The same of a square matrix of floats with a table of as many rows. */
static void square_product(const float *matrix, int rows, const float *table, int blocks, float *sums) {
  memset(sums, 0, sizeof(float) * (size_t)blocks * rows * BLOCK);
  for (int block = 0; block < blocks; block++) {
    const size_t place = (size_t)block * rows * BLOCK;
    int done = 0;
    for (; rows - done >= MOST_ROWS; done += MOST_ROWS)
      multiply(MOST_ROWS, matrix + (size_t)done * rows, rows, rows, table + place, sums + place + (size_t)done * BLOCK);
    for (; done < rows; done++)
      multiply(1, matrix + (size_t)done * rows, rows, rows, table + place, sums + place + (size_t)done * BLOCK);
  }
}

/* sums [rows][BLOCK] += the products of rows, `step` floats apart, with columns [length][BLOCK]. */
static void multiply_few(int rows, const float *from, size_t step, int length, const float *columns, float *sums) {
#define CASE(count) \
  case count: \
    multiply(count, from, step, length, columns, sums); \
    break;
  switch (rows) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if MOST_SUMS > 6
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#endif
  }
#undef CASE
}

/* The same of any number of rows, in groups of nearly the same size: in a small one the sums wait for each other. */
static void multiply_many(int rows, const float *from, size_t step, int length, const float *columns, float *sums) {
  int groups = (rows + MOST_SUMS - 1) / MOST_SUMS;
  for (int done = 0, count; done < rows; done += count, groups--) {
    count = (rows - done + groups - 1) / groups;
    multiply_few(count, from + done * step, step, length, columns, sums + (size_t)done * BLOCK);
  }
}

#endif
