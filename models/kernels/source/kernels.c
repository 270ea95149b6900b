/* Scores of pictures with one sentence, read from their stored records in place; models/kernels/library.py calls it.
 * Here are the models that attend; CAAN is in caan.h, SMAN in sman.h, layers of the sentence encoder in transformer.h.
 *
 * A picture's records are halves: the vectors of its regions and the inner products of all their pairs. A score is one
 * product of regions and words, then attention on it while all of it lies in the processor's first cache.
 */
#include "caan.h"
#include "pooling.h"
#include "records.h"
#include "sman.h"
#include "transformer.h"

/* Of all pictures that could be scored: addresses of the first one's fields, and bytes from one picture to the next. */
typedef struct {
  const char *vectors; /* halves [regions][width] */
  const char *gram;    /* halves [regions][regions]; null where the form has no attention */
  const char *mask;    /* bytes [regions], not 0 where real */
  int64_t vectors_step, gram_step, mask_step;
  int64_t number; /* of pictures */
  int32_t regions, width;
} pictures;

/* All words are real. */
typedef struct {
  const float *vectors; /* [words][width] */
  int32_t words;
} sentence;

enum logits { LOGITS_NONE, LOGITS_SOFTMAX, LOGITS_L2, LOGITS_CLIPPED_L2, LOGITS_CLIPPED, LOGITS_RAW, LOGITS_COSINE };
enum focal { FOCAL_NONE, FOCAL_EQUAL, FOCAL_PROB };

typedef struct {
  int32_t words_attend, regions_attend; /* the directions; the score is their sum */
  int32_t logits;                       /* LOGITS_NONE: the largest product stands for the attended cosine */
  int32_t bounded;                      /* whether exponentials of logits are small enough to do without a maximum */
  int32_t focal, pooling;
  float times, sharpness; /* of the softmax, of LogSumExp */
} form;

/* What is computed of the sentence, and of one picture after the other; all of it lies in one allocation. */
typedef struct {
  float *raw, *turned, *weights, *scratch; /* tables */
  float *gram, *lengths, *relevance;
  float *word_gram;    /* [words][words] */
  float *word_lengths; /* as many as columns of words, zeros beyond these */
  int32_t *real_regions, *real_words;
} workspace;

/* The allocation, to be freed, or null. */
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

/* What is needed of the words, whatever the picture. */
static void read_sentence(const sentence *said, const form *f, int width, const workspace *space) {
  const int words = said->words, columns = rounded_up(words ? words : 1);
  for (int n = 0; n < columns; n++) {
    space->real_words[n] = n < words ? -1 : 0;
    space->word_lengths[n] = 0;
  }
  for (int n = 0; n < words; n++) {
    const float *own = said->vectors + (size_t)n * width;
    space->word_lengths[n] = sqrtf(inner_product(own, own, width));
  }
  if (!f->regions_attend || f->logits == LOGITS_NONE) return;
  for (int n = 0; n < words; n++)
    for (int other = 0; other <= n; other++)
      space->word_gram[n * words + other] = space->word_gram[other * words + n] =
          inner_product(said->vectors + (size_t)n * width, said->vectors + (size_t)other * width, width);
}

/* Weights of every column over the rows, up to a factor of each column's own. */
static void attend(shape s, const form *f, const float *raw, const float *row_lengths, const float *column_lengths,
                   float *weights) {
  if (f->logits == LOGITS_CLIPPED || f->logits == LOGITS_CLIPPED_L2)
    clip(s, raw, weights);
  else
    memcpy(weights, raw, sizeof(float) * (size_t)s.rows * columns_of(s));
  if (f->logits == LOGITS_SOFTMAX)
    softmax_of_rows(s, f->times, weights);
  else if (f->logits == LOGITS_L2 || f->logits == LOGITS_CLIPPED_L2)
    normalise_rows(s, f->times, weights);
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

static void read_gram(const pictures *all, int64_t row, int regions, float *gram) {
  const half *stored = (const half *)(all->gram + row * all->gram_step);
  if (regions == all->regions)
    widen(stored, regions * regions, gram);
  else
    for (int n = 0; n < regions; n++) widen(stored + (size_t)n * all->regions, regions, gram + (size_t)n * regions);
}

/* The score of the picture `row`; `next` is the one that is read after it, or -1. */
static float score_picture(const pictures *all, const sentence *said, const form *f, int64_t row, int64_t next,
                           const workspace *space) {
  const int regions = read_mask(all->mask + row * all->mask_step, all->regions, space->real_regions);
  const int lengths_needed = f->logits == LOGITS_COSINE || (f->regions_attend && f->logits != LOGITS_NONE);
  const half *vectors = (const half *)(all->vectors + row * all->vectors_step);
  const half *fetched = next < 0 ? 0 : (const half *)(all->vectors + next * all->vectors_step);
  product(vectors, fetched, regions, all->width, said->vectors, said->words, space->raw);
  for (int n = 0; lengths_needed && n < rounded_up(regions); n++)
    space->lengths[n] = n < regions ? sqrtf(square_of_halves(vectors + (size_t)n * all->width, all->width)) : 0;
  const int blocks = rounded_up(said->words ? said->words : 1) / BLOCK;
  const shape straight = {regions, blocks, space->real_regions, space->real_words};
  float score = 0;
  if (f->words_attend) {
    if (f->logits != LOGITS_NONE) {
      read_gram(all, row, regions, space->gram);
      if (next >= 0) fetch((const half *)(all->gram + next * all->gram_step), regions * regions);
    }
    score += score_of(straight, f, space->raw, space->gram, space->lengths, space->word_lengths, space);
  }
  if (f->regions_attend) {
    const shape turned = {said->words, rounded_up(regions) / BLOCK, space->real_words, space->real_regions};
    transpose(straight, space->raw, said->words, space->turned);
    score += score_of(turned, f, space->turned, space->word_gram, space->word_lengths, space->lengths, space);
  }
  return score;
}

/* scores[n] of the picture rows[n], for `count` n from `first` on. An `enum fault`. */
int regard_attention_scores(const pictures *all, const sentence *said, const form *f, const int64_t *rows,
                            int64_t first, int64_t count, float *scores) {
  if (!rows_exist(rows + first, count, all->number)) return NO_SUCH_ROW;
  workspace space;
  void *allocation = allocate(all->regions, said->words, &space);
  if (!allocation) return NO_MEMORY;
  read_sentence(said, f, all->width, &space);
  for (int64_t n = first; n < first + count; n++)
    scores[n] = score_picture(all, said, f, rows[n], n + 1 < first + count ? rows[n + 1] : -1, &space);
  free(allocation);
  return NO_FAULT;
}
