/* Pooling of the relevances of all columns into one score, without padding. */
#ifndef REGARD_POOLING_H
#define REGARD_POOLING_H

#include "attention.h"

enum pooling { POOL_MEAN, POOL_SUM, POOL_MAX, POOL_LOG_SUM_EXP };

static float sum_of_real(const float *values, const int32_t *real, int count) {
  lanes total = {0};
  for (int n = 0; n < count; n += LANES) total += choose(load_mask(real + n), load(values + n), all(0.0f));
  return sum_of(total);
}

static float largest_of_real(const float *values, const int32_t *real, int count) {
  lanes most = all(-INFINITY);
  for (int n = 0; n < count; n += LANES)
    most = larger(most, choose(load_mask(real + n), load(values + n), all(-INFINITY)));
  return largest_of(most);
}

static int number_of_real(const int32_t *real, int count) {
  int number = 0;
  for (int n = 0; n < count; n++) number -= real[n];
  return number;
}

/* log(sum exp(sharpness x)) / sharpness */
static float log_sum_exp(const float *values, const int32_t *real, int count, float sharpness) {
  float peak = largest_of_real(values, real, count) * sharpness;
  lanes total = {0};
  if (!isfinite(peak)) peak = 0;
  for (int n = 0; n < count; n += LANES)
    total += choose(load_mask(real + n), exponential(sharpness * load(values + n) - peak), all(0.0f));
  return (logf(sum_of(total)) + peak) / sharpness;
}

/* `count` is a multiple of LANES. */
static float pool(enum pooling how, const float *values, const int32_t *real, int count, float sharpness) {
  if (how == POOL_LOG_SUM_EXP) return log_sum_exp(values, real, count, sharpness);
  if (how == POOL_MAX) return largest_of_real(values, real, count);
  const int number = number_of_real(real, count);
  return sum_of_real(values, real, count) / (how == POOL_MEAN && number ? (float)number : 1.0f);
}

#endif
