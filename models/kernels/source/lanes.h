/* Vectors of float32 as wide as the processor's registers, and operations on their lanes.
 *
 * Everything is defined for any input: NaN and infinities propagate as in PyTorch, so -ffast-math must stay off.
 */
#ifndef REGARD_LANES_H
#define REGARD_LANES_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16 /* numbers of one register */
#define MOST_SUMS 16 /* rows that are multiplied with a block at a time, so that their sums stay in registers */
#elif defined(__AVX2__)
#define LANES 8
#define MOST_SUMS 6
#else
#define LANES 4
#define MOST_SUMS 6
#endif

#define BLOCK 16 /* words, or other columns, that are computed together, on every processor */
#define PARTS (BLOCK / LANES)

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))

INLINE lanes load(const float *from) {
  lanes value;
  memcpy(&value, from, sizeof value);
  return value;
}

INLINE void store(float *to, lanes value) { memcpy(to, &value, sizeof value); }

INLINE lanes all(float value) { return value - (lanes){0}; }

/* `yes` where the condition holds, `no` elsewhere. */
INLINE lanes choose(ints condition, lanes yes, lanes no) {
  return (lanes)(((ints)yes & condition) | ((ints)no & ~condition));
}

/* Like PyTorch's clamp_min and amax: NaN in either argument propagates. */
INLINE lanes at_least(lanes x, lanes least) { return choose(x < least, least, x); }

INLINE lanes larger(lanes x, lanes y) { return choose((x > y) | (x != x), x, y); }

INLINE lanes root(lanes x) {
  float number[LANES];
  store(number, x);
  for (int n = 0; n < LANES; n++) number[n] = sqrtf(number[n]);
  return load(number);
}

INLINE float sum_of(lanes x) {
  float total[LANES];
  store(total, x);
  for (int step = LANES / 2; step; step /= 2)
    for (int n = 0; n < step; n++) total[n] += total[n + step];
  return total[0];
}

/* Indices into the concatenated lanes of two vectors that exchange parts of `step` lanes: LOWER selects lane l of the
 * first result, UPPER of the second. */
#define LOWER(l, step) ((l) & (step) ? LANES + (l) - (step) : (l))
#define UPPER(l, step) ((l) & (step) ? LANES + (l) : (l) + (step))
#if LANES == 16
#define SHUFFLED(x, y, WHICH, step) \
  __builtin_shufflevector(x, y, WHICH(0, step), WHICH(1, step), WHICH(2, step), WHICH(3, step), WHICH(4, step), \
                          WHICH(5, step), WHICH(6, step), WHICH(7, step), WHICH(8, step), WHICH(9, step), \
                          WHICH(10, step), WHICH(11, step), WHICH(12, step), WHICH(13, step), WHICH(14, step), \
                          WHICH(15, step))
#elif LANES == 8
#define SHUFFLED(x, y, WHICH, step) \
  __builtin_shufflevector(x, y, WHICH(0, step), WHICH(1, step), WHICH(2, step), WHICH(3, step), WHICH(4, step), \
                          WHICH(5, step), WHICH(6, step), WHICH(7, step))
#else
#define SHUFFLED(x, y, WHICH, step) \
  __builtin_shufflevector(x, y, WHICH(0, step), WHICH(1, step), WHICH(2, step), WHICH(3, step))
#endif

/* The sum of the lanes of each of LANES vectors, in as many lanes. */
INLINE lanes sums_of_lanes(const lanes *from) {
  lanes x[LANES];
  for (int n = 0; n < LANES; n++) x[n] = from[n];
#define FOLD(step) \
  for (int n = 0; n < step; n++) x[n] = SHUFFLED(x[n], x[n + step], LOWER, step) + SHUFFLED(x[n], x[n + step], UPPER, step);
#if LANES == 16
  FOLD(8)
#endif
#if LANES >= 8
  FOLD(4)
#endif
  FOLD(2)
  FOLD(1)
#undef FOLD
  return x[0];
}

/* Transposes LANES vectors, the rows of a square, in place. */
INLINE void turn(lanes *x) {
#define EXCHANGE(step) \
  for (int n = 0; n < LANES; n++) \
    if (!(n & step)) { \
      const lanes one = x[n], other = x[n + step]; \
      x[n] = SHUFFLED(one, other, LOWER, step); \
      x[n + step] = SHUFFLED(one, other, UPPER, step); \
    }
#if LANES == 16
  EXCHANGE(8)
#endif
#if LANES >= 8
  EXCHANGE(4)
#endif
  EXCHANGE(2)
  EXCHANGE(1)
#undef EXCHANGE
}

INLINE float largest_of(lanes x) {
  float number[LANES], most;
  store(number, x);
  most = number[0];
  for (int n = 1; n < LANES; n++) most = number[n] > most || number[n] != number[n] ? number[n] : most;
  return most;
}

#define SMALLEST -86.9f
#define LARGEST 88.72f /* beyond it e^x is infinite in float32 */

/* e^x within two roundings, for x clamped to these bounds. x = n ln 2 + rest: e^rest is a polynomial, and 2^n is set as
 * the exponent. */
INLINE lanes bounded_exponential(lanes x) {
  const lanes shift = all(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
  const lanes bounded = choose(x < SMALLEST, all(SMALLEST), choose(x > LARGEST, all(LARGEST), x));
  const lanes shifted = bounded * 1.44269504f + shift;
  const lanes whole = shifted - shift;
  const lanes rest = (bounded - whole * 0.693145752f) - whole * 1.42860677e-6f; /* ln 2 in two parts */
  lanes sum = all(1.0f / 5040);
  sum = sum * rest + 1.0f / 720;
  sum = sum * rest + 1.0f / 120;
  sum = sum * rest + 1.0f / 24;
  sum = sum * rest + 1.0f / 6;
  sum = sum * rest + 0.5f;
  sum = sum * rest + 1.0f;
  sum = sum * rest + 1.0f;
  /* 2^128 is not a float32, so half of the power is multiplied by twice the sum. */
  const bits power = ((bits)shifted - (bits)shift + 126u) << 23;
  return (sum + sum) * (lanes)power;
}

/* e^x, 0 below SMALLEST */
INLINE lanes exponential(lanes x) {
  return choose(x > LARGEST, all(INFINITY), choose(x < SMALLEST, all(0.0f), bounded_exponential(x)));
}

/* 1 / (1 + e^-x); beyond the bounds it is 1, or below the normal numbers of float32. */
INLINE lanes logistic(lanes x) { return 1.0f / (1.0f + bounded_exponential(-x)); }

/* tanh(x) within a few roundings, also for small x: below SMALL_ANGLE a polynomial with Cephes' coefficients
 * (S. Moshier, tanhf.c). */
#define SMALL_ANGLE 0.625f
INLINE lanes hyperbolic_tangent(lanes x) {
  const lanes square = x * x;
  lanes sum = all(-5.70498872745e-3f);
  sum = sum * square + 2.06390887954e-2f;
  sum = sum * square - 5.37397155531e-2f;
  sum = sum * square + 1.33314422036e-1f;
  sum = sum * square - 3.33332819422e-1f;
  const ints is_small = (x < SMALL_ANGLE) & (x > -SMALL_ANGLE);
  return choose(is_small, sum * square * x + x, 2.0f * logistic(2.0f * x) - 1.0f);
}

#endif
