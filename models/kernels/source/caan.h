/* CAAN's scores (models/rerankers/caan.py, with its formulas) of pictures with one sentence.
 *
 * Regions are multiplied with words and keys. Everything else is a product of few rows with blocks of 16 columns: of
 * weights with the attention's units, one block at a time, so that no attended vector is built as a whole.
 */
#ifndef REGARD_CAAN_H
#define REGARD_CAAN_H

#include "attention.h"
#include "records.h"

typedef struct {
  const char *vectors;       /* halves [regions][width], zeros where padding */
  const char *intra, *inter; /* halves [regions][units] */
  const char *mask;
  int64_t vectors_step, intra_step, inter_step, mask_step;
  int64_t number;                /* of pictures */
  int32_t regions, width, units; /* units are a multiple of BLOCK */
} caan_pictures;

typedef struct {
  const float *vectors, *keys; /* [words][width]: u and K u */
  const float *intra, *inter;  /* [units / BLOCK][words][BLOCK] */
  int32_t words;
} caan_sentence;

typedef struct {
  const float *region_weight, *word_weight; /* [units] */
  int32_t intra_modal;                      /* FA: `intra` already contains intra-modal attention */
  float slope;                              /* of affinities below zero */
} caan_form;

/* Intermediate results for one picture. Rows that are multiplied are concatenated: [left | right]. */
typedef struct {
  float *products;      /* [2 blocks][regions][BLOCK]: similarities, then affinities */
  float *region_rows;   /* [regions][2 words]: unit rows of the affinities over the regions, and these affinities */
  float *word_rows;     /* [words][words + regions]: similarities of words, transposed affinities over words */
  float *turned;        /* [words][regions]: the left half of region_rows */
  float *region_units;  /* [2][regions][BLOCK]: units of `intra` and `inter`, by block */
  float *stacked;       /* [words + regions + words][BLOCK]: a block of right-hand sides for the rows */
  float *sums;          /* [regions + words][BLOCK] */
  float *region_logits, *word_logits; /* [..][BLOCK], to be added up */
  float *column;        /* [blocks * BLOCK] */
  int32_t *real_regions;
} caan_space;

static void *allocate_caan(const caan_pictures *all, const caan_sentence *text, caan_space *space) {
  const size_t regions = all->regions, words = text->words, columns = rounded_up(text->words ? text->words : 1);
  void *const parts[] = {&space->products,     &space->region_rows, &space->word_rows,     &space->turned,
                           &space->region_units, &space->stacked,     &space->sums,          &space->region_logits,
                           &space->word_logits,  &space->column,      &space->real_regions};
  const size_t sizes[] = {2 * regions * columns,
                          2 * regions * words,
                          words * (words + regions),
                          words * regions,
                          2 * regions * BLOCK,
                          (2 * words + regions) * BLOCK,
                          (regions + words) * BLOCK,
                          regions * BLOCK,
                          words * BLOCK,
                          columns,
                          rounded_up(all->regions)};
  return allocate_parts(parts, sizes, 11);
}

/* Affinities before normalisation: [tanh]+ in place. */
static void positive_affinities(size_t count, float slope, float *table) {
  for (size_t n = 0; n < count; n += LANES) {
    const lanes x = hyperbolic_tangent(load(table + n));
    store(table + n, choose(x < 0.0f, slope * x, x));
  }
}

INLINE float inverse_length(float square) {
  const float length = sqrtf(square);
  return 1.0f / (length < EPSILON ? EPSILON : length);
}

/* Weights of regions for every word: affinities of length 1 over the regions, and their rows scaled to length 1. */
static void weigh_regions(int regions, const caan_sentence *text, const float *affinity, const caan_space *space) {
  const int words = text->words;
  const shape s = {regions, rounded_up(words) / BLOCK, 0, 0};
  for (int column = 0; column < columns_of(s); column += LANES) {
    lanes square = {0};
    for (int row = 0; row < regions; row++) {
      const lanes x = load(affinity + place(s, row, column));
      square += x * x;
    }
    store(space->column + column, 1.0f / at_least(root(square), all(EPSILON)));
  }
  for (int row = 0; row < regions; row++) {
    float *left = space->region_rows + (size_t)row * 2 * words, *right = left + words, square = 0;
    for (int word = 0; word < words; word++) {
      right[word] = affinity[place(s, row, word / LANES * LANES) + word % LANES] * space->column[word];
      square += right[word] * right[word];
    }
    const float by = inverse_length(square);
    for (int word = 0; word < words; word++) {
      left[word] = by * right[word];
      space->turned[(size_t)word * regions + row] = left[word];
    }
  }
}

/* Weights of words for every region: affinities of length 1 over the words; and the words' similarities, which are
 * inner products of these scaled to length 1 over the regions. `affinity` is overwritten. */
static void weigh_words(int regions, const caan_sentence *text, float *affinity, const caan_space *space) {
  const int words = text->words, step = words + regions;
  const shape s = {regions, rounded_up(words) / BLOCK, 0, 0};
  for (int row = 0; row < regions; row++) {
    lanes square = {0};
    for (int column = 0; column < columns_of(s); column += LANES) {
      const lanes x = load(affinity + place(s, row, column));
      square += x * x;
    }
    const float by = inverse_length(sum_of(square));
    for (int column = 0; column < columns_of(s); column += LANES) {
      const size_t at = place(s, row, column);
      store(affinity + at, by * load(affinity + at));
    }
    for (int word = 0; word < words; word++)
      space->word_rows[(size_t)word * step + words + row] =
          affinity[place(s, row, word / LANES * LANES) + word % LANES];
  }
  for (int word = 0; word < words; word++) {
    const float *own = space->word_rows + (size_t)word * step + words;
    space->column[word] = inverse_length(inner_product(own, own, regions));
  }
  for (int block = 0; block < s.blocks; block++) {
    const int count = words - block * BLOCK < BLOCK ? words - block * BLOCK : BLOCK;
    memset(space->sums, 0, sizeof(float) * (size_t)words * BLOCK);
    multiply_many(words, space->word_rows + words, step, regions, affinity + (size_t)block * regions * BLOCK,
                  space->sums);
    for (int word = 0; word < words; word++)
      for (int n = 0; n < count; n++)
        space->word_rows[(size_t)word * step + block * BLOCK + n] =
            space->sums[(size_t)word * BLOCK + n] * space->column[word] * space->column[block * BLOCK + n];
  }
}

/* logits[row] += weight . tanh(sums[row]), up to a constant, which does not change a softmax. */
static void add_logits(int rows, const float *sums, const float *weight, float *logits) {
  for (int p = 0; p < BLOCK; p += LANES) {
    const lanes doubled = 2.0f * load(weight + p);
    for (int row = 0; row < rows; row++) {
      const size_t at = (size_t)row * BLOCK + p;
      store(logits + at, load(logits + at) + doubled * logistic(2.0f * load(sums + at)));
    }
  }
}

/* Add one block of units to the logits of regions and words. */
static void add_units(const caan_pictures *all, const caan_sentence *text, const caan_form *f, int regions,
                      const half *intra, const half *inter, int block, const caan_space *space) {
  const int words = text->words, step = words + regions;
  const size_t sentence_part = (size_t)block * words * BLOCK;
  float *own = space->region_units, *other = own + (size_t)regions * BLOCK;
  float *of_regions = space->sums, *of_words = space->sums + (size_t)regions * BLOCK;
  for (int row = 0; row < regions; row++) {
    widen(intra + (size_t)row * all->units + block * BLOCK, BLOCK, own + (size_t)row * BLOCK);
    widen(inter + (size_t)row * all->units + block * BLOCK, BLOCK, other + (size_t)row * BLOCK);
  }
  float *from_regions = space->stacked, *from_words = from_regions + (size_t)words * BLOCK;
  memcpy(from_words, text->inter + sentence_part, sizeof(float) * (size_t)words * BLOCK);
  if (f->intra_modal) {
    memcpy(of_regions, own, sizeof(float) * (size_t)regions * BLOCK);
    memcpy(of_words, text->intra + sentence_part, sizeof(float) * (size_t)words * BLOCK);
    multiply_many(regions, space->region_rows + words, 2 * words, words, from_words, of_regions);
    multiply_many(words, space->word_rows + words, step, regions, other, of_words);
  } else {
    memset(space->sums, 0, sizeof(float) * (size_t)step * BLOCK);
    memset(from_regions, 0, sizeof(float) * (size_t)words * BLOCK);
    multiply_many(words, space->turned, regions, regions, own, from_regions);
    multiply_many(regions, space->region_rows, 2 * words, 2 * words, from_regions, of_regions);
    memcpy(space->stacked, text->intra + sentence_part, sizeof(float) * (size_t)words * BLOCK);
    memcpy(space->stacked + (size_t)words * BLOCK, other, sizeof(float) * (size_t)regions * BLOCK);
    multiply_many(words, space->word_rows, step, step, space->stacked, of_words);
  }
  add_logits(regions, of_regions, f->region_weight + block * BLOCK, space->region_logits);
  add_logits(words, of_words, f->word_weight + block * BLOCK, space->word_logits);
}

static float score_caan(const caan_pictures *all, const caan_sentence *text, const caan_form *f, int64_t row,
                        int64_t next, const caan_space *space) {
  const int regions = read_mask(all->mask + row * all->mask_step, all->regions, space->real_regions);
  const int words = text->words;
  if (!regions || !words) return 0;
  const half *intra = (const half *)(all->intra + row * all->intra_step);
  const half *inter = (const half *)(all->inter + row * all->inter_step);
  const half *vectors = (const half *)(all->vectors + row * all->vectors_step);
  const half *fetched = next < 0 ? 0 : (const half *)(all->vectors + next * all->vectors_step);
  const size_t table = (size_t)regions * rounded_up(words);
  float *affinity = space->products + table;
  product(vectors, fetched, regions, all->width, text->vectors, words, space->products);
  product(vectors, 0, regions, all->width, text->keys, words, affinity);
  positive_affinities(table, f->slope, affinity);
  weigh_regions(regions, text, affinity, space);
  weigh_words(regions, text, affinity, space);
  memset(space->region_logits, 0, sizeof(float) * (size_t)regions * BLOCK);
  memset(space->word_logits, 0, sizeof(float) * (size_t)words * BLOCK);
  for (int block = 0; block < all->units / BLOCK; block++)
    add_units(all, text, f, regions, intra, inter, block, space);
  if (next >= 0) {
    fetch((const half *)(all->intra + next * all->intra_step), regions * all->units);
    fetch((const half *)(all->inter + next * all->inter_step), regions * all->units);
  }
  float *of_regions = space->region_logits, *of_words = space->word_logits;
  softmax_of_sums(regions, space->real_regions, of_regions);
  softmax_of_sums(words, 0, of_words);
  const shape s = {regions, rounded_up(words) / BLOCK, 0, 0};
  float score = 0;
  for (int region = 0; region < regions; region++) {
    float attended = 0;
    for (int word = 0; word < words; word++)
      attended += of_words[word] * space->products[place(s, region, word / LANES * LANES) + word % LANES];
    score += of_regions[region] * attended;
  }
  return score;
}

/* Fills scores[n] for the picture rows[n], for `count` n from `first` on; returns an `enum fault`. */
int regard_caan_scores(const caan_pictures *all, const caan_sentence *text, const caan_form *f, const int64_t *rows,
                       int64_t first, int64_t count, float *scores) {
  if (!rows_exist(rows + first, count, all->number)) return NO_SUCH_ROW;
  caan_space space;
  void *allocation = allocate_caan(all, text, &space);
  if (!allocation) return NO_MEMORY;
  for (int64_t n = first; n < first + count; n++)
    scores[n] = score_caan(all, text, f, rows[n], n + 1 < first + count ? rows[n + 1] : -1, &space);
  free(allocation);
  return NO_FAULT;
}

#endif
