/* Products of rows of floats with blocks of columns. */
#ifndef REGARD_PRODUCT_H
#define REGARD_PRODUCT_H

#include "lanes.h"

/* sums[row][column] += wide[row] . columns[:, column], for `rows` rows (a constant), which are `step` floats apart,
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

/* The same for any number of rows, in groups of nearly equal size: in small groups, sums wait for each other. */
static void multiply_many(int rows, const float *from, size_t step, int length, const float *columns, float *sums) {
  int groups = (rows + MOST_SUMS - 1) / MOST_SUMS;
  for (int done = 0, count; done < rows; done += count, groups--) {
    count = (rows - done + groups - 1) / groups;
    multiply_few(count, from + done * step, step, length, columns, sums + (size_t)done * BLOCK);
  }
}

/* The products of a square matrix with a table of as many rows; table and result are [blocks][rows][BLOCK]. */
static void square_product(const float *matrix, int rows, const float *table, int blocks, float *sums) {
  memset(sums, 0, sizeof(float) * (size_t)blocks * rows * BLOCK);
  for (int block = 0; block < blocks; block++) {
    const size_t place = (size_t)block * rows * BLOCK;
    multiply_many(rows, matrix, rows, rows, table + place, sums + place);
  }
}

#endif
