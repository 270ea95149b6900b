/* Inner products of stored rows of halves with rows of floats, with the numbers of a row in the lanes. So no data is
 * rearranged, and the time is proportional to the words. They take nearly all of a score's time.
 */
#ifndef REGARD_HALVES_H
#define REGARD_HALVES_H

#include "lanes.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

typedef _Float16 half;

#define LINE 32        /* halves in a cache line */
#define HALF_ROWS 3    /* rows of halves that are multiplied at a time: all sums stay in registers, */
#if LANES == 16
#define FLOAT_ROWS 8   /* of 32 there are, */
#else
#define FLOAT_ROWS 4   /* of 16 or more */
#endif

/* LANES halves as floats. */
INLINE lanes widened(const half *from) {
#if defined(__AVX512F__)
  return (lanes)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)from));
#elif defined(__F16C__) && LANES == 8
  return (lanes)_mm256_cvtph_ps(_mm_loadu_si128((const void *)from));
#else
  typedef half few __attribute__((vector_size(2 * LANES)));
  few value;
  memcpy(&value, from, sizeof value);
  return __builtin_convertvector(value, lanes);
#endif
}

/* The first `count` < LANES halves, or floats, and zeros. */
INLINE lanes widened_few(const half *from, int count) {
  half own[LANES] = {0};
  memcpy(own, from, sizeof(half) * (size_t)count);
  return widened(own);
}

INLINE lanes load_few(const float *from, int count) {
  float own[LANES] = {0};
  memcpy(own, from, sizeof(float) * (size_t)count);
  return load(own);
}

/* `length` halves as floats. */
INLINE void widen(const half *restrict from, int length, float *restrict to) {
  int n = 0;
  for (; n + LANES <= length; n += LANES) store(to + n, widened(from + n));
  for (; n < length; n++) to[n] = (float)from[n];
}

/* Prefetch `count` halves of the next picture, unless its address is null. */
INLINE void fetch(const half *from, size_t count) {
  for (size_t n = 0; from && n < count; n += LINE) __builtin_prefetch(from + n);
}

INLINE float inner_product(const float *x, const float *y, int length) {
  lanes total = {0};
  int n = 0;
  for (; n + LANES <= length; n += LANES) total += load(x + n) * load(y + n);
  if (n < length) total += load_few(x + n, length - n) * load_few(y + n, length - n);
  return sum_of(total);
}

INLINE float square_of_halves(const half *from, int length) {
  lanes total = {0};
  int n = 0;
  for (; n + LANES <= length; n += LANES) {
    const lanes x = widened(from + n);
    total += x * x;
  }
  if (n < length) {
    const lanes x = widened_few(from + n, length - n);
    total += x * x;
  }
  return sum_of(total);
}

/* sums[row * FLOAT_ROWS + word]: products of `rows` rows of halves with `words` rows of floats (both are constants). */
INLINE void multiply_halves(const int rows, const int words, const half *from, const float *vectors, int width,
                            float *sums) {
  lanes sum[HALF_ROWS * FLOAT_ROWS + LANES] = {0};
  int n = 0;
  for (; n + LANES <= width; n += LANES) {
    lanes own[HALF_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) own[r] = widened(from + (size_t)r * width + n);
#pragma GCC unroll 8
    for (int w = 0; w < words; w++) {
      const lanes word = load(vectors + (size_t)w * width + n);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++) sum[r * FLOAT_ROWS + w] += own[r] * word;
    }
  }
  if (n < width)
#pragma GCC unroll 8
    for (int w = 0; w < words; w++) {
      const lanes word = load_few(vectors + (size_t)w * width + n, width - n);
#pragma GCC unroll 4
      for (int r = 0; r < rows; r++)
        sum[r * FLOAT_ROWS + w] += widened_few(from + (size_t)r * width + n, width - n) * word;
    }
#pragma GCC unroll 4
  for (int done = 0; done < rows * FLOAT_ROWS; done += LANES) store(sums + done, sums_of_lanes(sum + done));
}

/* The same for numbers of rows and words that are not constants. */
static void multiply_few_halves(int rows, int words, const half *from, const float *vectors, int width, float *sums) {
#define CASE(count) \
  case count: \
    if (rows == 3) \
      multiply_halves(3, count, from, vectors, width, sums); \
    else if (rows == 2) \
      multiply_halves(2, count, from, vectors, width, sums); \
    else \
      multiply_halves(1, count, from, vectors, width, sums); \
    break;
  switch (words) {
    CASE(1) CASE(2) CASE(3) CASE(4)
#if FLOAT_ROWS > 4
    CASE(5) CASE(6) CASE(7) CASE(8)
#endif
  }
#undef CASE
}

/* The inner products of [rows][width] halves with [words][width] floats, as blocks of words: [blocks][rows][BLOCK],
 * with zeros in the columns beyond the words. `next`, if not null, points to the same rows of the next picture, which
 * are prefetched in parts, one with each group of products. */
static void product(const half *from, const half *next, int rows, int width, const float *vectors, int words,
                    float *sums) {
  const int blocks = words ? (words + BLOCK - 1) / BLOCK : 1;
  float own[HALF_ROWS * FLOAT_ROWS + LANES];
  memset(sums, 0, sizeof(float) * (size_t)blocks * rows * BLOCK);
  for (int done = 0, count; done < rows; done += count) {
    count = rows - done < HALF_ROWS ? rows - done : HALF_ROWS;
    const size_t start = (size_t)done * width, all_halves = (size_t)count * width;
    for (int word = 0, few; word < words; word += few) {
      /* Groups of nearly equal size, none of which crosses the end of a block. */
      const int left = (words - word < BLOCK - word % BLOCK ? words - word : BLOCK - word % BLOCK);
      const int groups = (left + FLOAT_ROWS - 1) / FLOAT_ROWS;
      few = (left + groups - 1) / groups;
      if (next) {
        const size_t first = all_halves * word / words, last = all_halves * (word + few) / words;
        fetch(next + start + first, last - first);
      }
      multiply_few_halves(count, few, from + start, vectors + (size_t)word * width, width, own);
      float *into = sums + ((size_t)(word / BLOCK) * rows + done) * BLOCK + word % BLOCK;
      for (int r = 0; r < count; r++)
        memcpy(into + (size_t)r * BLOCK, own + r * FLOAT_ROWS, sizeof(float) * (size_t)few);
    }
  }
}

#endif
