/* SMAN's scores (models/rerankers/sman.py, with its formulas) of pictures with one sentence: the last step of attention
 * and the cosines. The queries of that step, a product of all candidates with one matrix, come from PyTorch.
 */
#ifndef REGARD_SMAN_H
#define REGARD_SMAN_H

#include "attention.h"
#include "records.h"

#define SUMMED_PARTS 4 /* vectors of columns that are summed over regions at a time */

typedef struct {
  const char *keys, *values; /* halves [regions][width] */
  const char *whole, *own;   /* halves [width]: v0 and v1 */
  const char *mask;
  int64_t keys_step, values_step, whole_step, own_step, mask_step;
  int64_t number;         /* of pictures */
  int32_t regions, width; /* the width is a multiple of BLOCK */
} sman_pictures;

typedef struct {
  const float *keys, *values; /* [words][width] */
  const float *whole, *own;   /* [width]: t0 and t1 */
  /* [candidates][width]. Inside the tanh they are doubled, since tanh(x) = 2 logistic(2 x) - 1. If the words' product
   * is outside the tanh, their queries are multiplied by the logits' weights, and `keys` hold the tanh. */
  const float *region_queries, *word_queries;
  int32_t words;
} sman_sentence;

typedef struct {
  const float *region_weight, *word_weight; /* [width] */
  int32_t outside;       /* the words' product is outside the tanh */
  int32_t concatenation; /* one cosine of the three concatenated vectors */
} sman_form;

typedef struct {
  float *weights; /* [regions] or [words] */
  float *regions, *words; /* [width]: attended vectors */
  float *whole, *own;
  int32_t *real_regions;
} sman_space;

static void *allocate_sman(const sman_pictures *all, const sman_sentence *text, sman_space *space) {
  const size_t width = all->width, most = all->regions > text->words ? all->regions : text->words;
  void *const parts[] = {&space->weights, &space->regions, &space->words,
                         &space->whole,   &space->own,     &space->real_regions};
  const size_t sizes[] = {most, width, width, width, width, rounded_up(all->regions)};
  return allocate_parts(parts, sizes, 6);
}

/* weight . tanh(key * query / 2), up to a constant, which does not change a softmax. */
static float logit_inside(const float *key, const float *query, const float *weight, int width) {
  lanes sum = {0};
  for (int n = 0; n < width; n += LANES) sum += load(weight + n) * logistic(load(key + n) * load(query + n));
  return 2.0f * sum_of(sum);
}

static float logit_of_halves(const half *key, const float *query, const float *weight, int width) {
  lanes sum = {0};
  for (int n = 0; n < width; n += LANES) sum += load(weight + n) * logistic(widened(key + n) * load(query + n));
  return 2.0f * sum_of(sum);
}

/* into += weight * values */
static void add_weighted(float weight, const float *values, int width, float *into) {
  for (int n = 0; n < width; n += LANES) store(into + n, load(into + n) + weight * load(values + n));
}

/* The sums of `rows` rows of halves, each times its weight, for `parts` (a constant) vectors of columns. */
INLINE void sum_columns(const int parts, const half *values, const float *weights, int rows, int width, float *into) {
  lanes sum[SUMMED_PARTS] = {0};
  for (int row = 0; row < rows; row++)
#pragma GCC unroll 4
    for (int p = 0; p < parts; p++) sum[p] += weights[row] * widened(values + (size_t)row * width + p * LANES);
#pragma GCC unroll 4
  for (int p = 0; p < parts; p++) store(into + p * LANES, sum[p]);
}

static void weighted_sum(const half *values, const float *weights, int rows, int width, float *into) {
  int n = 0;
  for (; n + SUMMED_PARTS * LANES <= width; n += SUMMED_PARTS * LANES)
    sum_columns(SUMMED_PARTS, values + n, weights, rows, width, into + n);
  for (; n < width; n += LANES) sum_columns(1, values + n, weights, rows, width, into + n);
}

/* The attended vector of a picture's regions. */
static void attend_regions(const sman_pictures *all, const sman_sentence *text, const sman_form *f, int64_t row,
                           int64_t next, int64_t candidate, const sman_space *space) {
  const int width = all->width;
  const half *keys = (const half *)(all->keys + row * all->keys_step);
  const half *values = (const half *)(all->values + row * all->values_step);
  const int regions = read_mask(all->mask + row * all->mask_step, all->regions, space->real_regions);
  const float *query = text->region_queries + candidate * width;
  if (next >= 0) fetch((const half *)(all->keys + next * all->keys_step), all->regions * width);
  for (int region = 0; region < regions; region++) {
    space->weights[region] = 0;
    if (!space->real_regions[region]) continue;
    space->weights[region] = logit_of_halves(keys + (size_t)region * width, query, f->region_weight, width);
  }
  softmax(regions, space->real_regions, space->weights);
  if (next >= 0) fetch((const half *)(all->values + next * all->values_step), all->regions * width);
  weighted_sum(values, space->weights, regions, width, space->regions);
  for (int n = 0; n < width; n += LANES) store(space->regions + n, hyperbolic_tangent(load(space->regions + n)));
}

static void attend_words(const sman_sentence *text, const sman_form *f, int width, int64_t candidate,
                         const sman_space *space) {
  const float *query = text->word_queries + candidate * width;
  for (int word = 0; word < text->words; word++) {
    const float *key = text->keys + (size_t)word * width;
    space->weights[word] = f->outside ? inner_product(key, query, width) : logit_inside(key, query, f->word_weight, width);
  }
  softmax(text->words, 0, space->weights);
  memset(space->words, 0, sizeof(float) * width);
  for (int word = 0; word < text->words; word++)
    add_weighted(space->weights[word], text->values + (size_t)word * width, width, space->words);
}

/* The sum of the cosines of the pairs of vectors, or one cosine of their concatenations. */
static float sum_of_cosines(const float *const pairs[3][2], int width, int concatenation) {
  float sum = 0, total[3] = {0};
  for (int n = 0; n < 3; n++) {
    const float product = inner_product(pairs[n][0], pairs[n][1], width);
    const float squares[2] = {inner_product(pairs[n][0], pairs[n][0], width), inner_product(pairs[n][1], pairs[n][1], width)};
    const float both = squares[0] * squares[1];
    sum += product / sqrtf(both < LEAST ? LEAST : both);
    total[0] += product, total[1] += squares[0], total[2] += squares[1];
  }
  const float both = total[1] * total[2];
  return concatenation ? total[0] / sqrtf(both < LEAST ? LEAST : both) : sum;
}

/* Fills scores[n] for the picture rows[n], for `count` n from `first` on; returns an `enum fault`. */
int regard_sman_scores(const sman_pictures *all, const sman_sentence *text, const sman_form *f, const int64_t *rows,
                       int64_t first, int64_t count, float *scores) {
  if (!rows_exist(rows + first, count, all->number)) return NO_SUCH_ROW;
  sman_space space;
  void *allocation = allocate_sman(all, text, &space);
  if (!allocation) return NO_MEMORY;
  for (int64_t n = first; n < first + count; n++) {
    attend_regions(all, text, f, rows[n], n + 1 < first + count ? rows[n + 1] : -1, n, &space);
    attend_words(text, f, all->width, n, &space);
    widen((const half *)(all->whole + rows[n] * all->whole_step), all->width, space.whole);
    widen((const half *)(all->own + rows[n] * all->own_step), all->width, space.own);
    const float *const pairs[3][2] = {{space.whole, text->whole}, {space.own, text->own}, {space.regions, space.words}};
    scores[n] = sum_of_cosines(pairs, all->width, f->concatenation);
  }
  free(allocation);
  return NO_FAULT;
}

#endif
