/* The score of one table of inner products of regions and words, in one direction or both. */
#ifndef REGARD_DIRECTIONS_H
#define REGARD_DIRECTIONS_H

#include "attention.h"
#include "pooling.h"
#include "records.h"

enum logits { LOGITS_NONE, LOGITS_SOFTMAX, LOGITS_L2, LOGITS_CLIPPED_L2, LOGITS_CLIPPED, LOGITS_RAW, LOGITS_COSINE };
enum focal { FOCAL_NONE, FOCAL_EQUAL, FOCAL_PROB };

typedef struct {
  int32_t words_attend, regions_attend; /* the directions; the score is their sum */
  int32_t logits;                       /* LOGITS_NONE: the largest product replaces the attended cosine */
  int32_t bounded;                      /* whether logits are so small that the softmax needs no maximum */
  int32_t focal, pooling;
  float times, sharpness; /* factors of the softmax and of LogSumExp */
} form;

/* Intermediate results for the sentence and for each picture, in one allocation. */
typedef struct {
  float *raw, *turned, *weights, *scratch; /* tables */
  float *gram, *lengths, *relevance;
  float *word_gram;    /* [words][words] */
  float *word_lengths; /* one per column, zeros for padding */
  int32_t *real_regions, *real_words;
} workspace;

/* The allocation, which the caller frees, or null. */
static void *allocate(int regions, int words, workspace *space) {
  const size_t columns = rounded_up(words ? words : 1), turned = rounded_up(regions ? regions : 1);
  const size_t straight_table = regions * columns, turned_table = words * turned;
  const size_t table = straight_table > turned_table ? straight_table : turned_table;
  const size_t longest = columns > turned ? columns : turned;
  void *const parts[] = {&space->raw,       &space->turned,       &space->weights,      &space->scratch,
                         &space->gram,      &space->lengths,      &space->relevance,    &space->word_gram,
                         &space->word_lengths, &space->real_regions, &space->real_words};
  const size_t sizes[] = {table,   table,  table,   table, (size_t)regions * regions, turned, longest, (size_t)words * words,
                          columns, turned, columns};
  return allocate_parts(parts, sizes, 11);
}

/* Weights of every column over the rows, up to a factor for each column. */
static void attend(shape s, const form *f, const float *raw, const float *row_lengths, const float *column_lengths,
                   float *weights) {
  if (f->logits == LOGITS_CLIPPED || f->logits == LOGITS_CLIPPED_L2)
    clip(s, raw, weights);
  else
    memcpy(weights, raw, sizeof(float) * (size_t)s.rows * columns_of(s));
  if (f->logits == LOGITS_SOFTMAX)
    softmax_of_rows(s, f->times, weights);
  else if (f->logits == LOGITS_L2 || f->logits == LOGITS_CLIPPED_L2)
    normalise_rows(s, f->times, f->focal != FOCAL_NONE, weights);
  else if (f->logits == LOGITS_COSINE)
    divide_by_lengths(s, f->times, row_lengths, column_lengths, weights);
  else
    scale(s, f->times, weights);
  if (f->bounded)
    exponentials(s, weights);
  else
    softmax_of_columns(s, weights);
  if (f->focal != FOCAL_NONE) keep_focal(s, f->focal == FOCAL_PROB, weights);
}

/* The score of columns that attend to rows. */
static float score_of(shape s, const form *f, const float *raw, const float *gram, const float *row_lengths,
                      const float *column_lengths, const workspace *space) {
  if (f->logits == LOGITS_NONE) {
    largest_of_columns(s, raw, space->relevance);
  } else {
    attend(s, f, raw, row_lengths, column_lengths, space->weights);
    cosines(s, space->weights, raw, gram, column_lengths, space->scratch, space->relevance);
  }
  return pool((enum pooling)f->pooling, space->relevance, s.real_columns, columns_of(s), f->sharpness);
}

/* The score of the table space->raw [regions][words], with the masks and lengths in `space`; `gram` has the regions'
 * inner products if words attend. */
static float score_of_table(int regions, int words, const form *f, const float *gram, const workspace *space) {
  const shape straight = {regions, rounded_up(words ? words : 1) / BLOCK, space->real_regions, space->real_words};
  float score = 0;
  if (f->words_attend)
    score += score_of(straight, f, space->raw, gram, space->lengths, space->word_lengths, space);
  if (f->regions_attend) {
    const shape turned = {words, rounded_up(regions) / BLOCK, space->real_words, space->real_regions};
    transpose(straight, space->raw, words, space->turned);
    score += score_of(turned, f, space->turned, space->word_gram, space->word_lengths, space->lengths, space);
  }
  return score;
}

#endif
