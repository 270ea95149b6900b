/* Layers of a BERT encoder; models/text/bert_encoder.py computes the same in PyTorch.
 *
 * Weights stay in their stored form, one byte each with a scale per row, and are widened during the product: with the
 * dozen pieces of a sentence, most of the time would otherwise go into reading them.
 */
#ifndef REGARD_TRANSFORMER_H
#define REGARD_TRANSFORMER_H

#include <stdlib.h>

#include "attention.h"

#define MARGIN 16 /* numbers between rows, which a power of two apart would evict each other from the cache */

typedef struct {
  float *numbers;
  size_t step; /* from a row to the next */
} matrix;

/* y = scale (W x) + bias; sizes are multiples of BLOCK. */
typedef struct {
  const int8_t *packed; /* [outputs / BLOCK][inputs][BLOCK] */
  const float *scale, *bias;
  int32_t inputs, outputs;
} linear;

typedef struct {
  const float *scale, *shift; /* [width] */
} layer_norm;

typedef struct {
  linear query_key_value, mix, widen, narrow; /* queries are divided by the root of a head's width */
  layer_norm attention_norm, output_norm;
} transformer_layer;

typedef struct {
  const transformer_layer *layers;
  int32_t number, width, hidden, heads; /* a head's width is a multiple of BLOCK */
  float epsilon;
} transformer;

/* Intermediate results for some sentences, whose pieces are the rows, in one allocation. */
typedef struct {
  float *projected; /* [rows][3 width] */
  float *attended;  /* [rows][width] */
  float *hidden;    /* [rows][hidden + MARGIN] */
  float *sums;      /* [rows][BLOCK] */
  float *keys, *values, *table; /* of one head of the longest sentence */
  int32_t *real_rows, *real_columns;
} encoder_space;

static int blocks_of(int count) { return (count + BLOCK - 1) / BLOCK; }

static void *part_of(char **from, size_t numbers) {
  void *taken = *from;
  *from += (numbers * sizeof(float) + 63) / 64 * 64;
  return taken;
}

/* The allocation, which the caller frees, or null. */
static void *allocate_encoder(const transformer *t, int rows, int longest, encoder_space *space) {
  const size_t columns = (size_t)blocks_of(longest) * BLOCK, head = t->width / t->heads, count = rows;
  const size_t sizes[] = {count * 3 * t->width, count * t->width,   count * (t->hidden + MARGIN), count * BLOCK,
                          columns * head,       longest * head,   columns * longest,            longest,       columns};
  size_t numbers = 0;
  for (int n = 0; n < 9; n++) numbers += sizes[n] + 16;
  void *allocation = malloc(numbers * sizeof(float) + 64);
  if (!allocation) return 0;
  char *from = (char *)(((uintptr_t)allocation + 63) / 64 * 64);
  float **floats[] = {&space->projected, &space->attended, &space->hidden, &space->sums,
                      &space->keys,      &space->values,   &space->table};
  for (int n = 0; n < 7; n++) *floats[n] = part_of(&from, sizes[n]);
  space->real_rows = part_of(&from, sizes[7]);
  space->real_columns = part_of(&from, sizes[8]);
  return allocation;
}

/* LANES signed bytes as floats. */
INLINE lanes widened_bytes(const int8_t *from) {
#if defined(__AVX512F__)
  return (lanes)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)from)));
#elif defined(__AVX2__)
  return (lanes)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)from)));
#else
  typedef int8_t few __attribute__((vector_size(LANES)));
  few value;
  memcpy(&value, from, sizeof value);
  return __builtin_convertvector(value, lanes);
#endif
}

/* One block of outputs of a layer for `rows` rows (a constant), whose sums all stay in registers. The weights are also
 * widened in registers, by other units than those that multiply, so that it costs no time. */
INLINE void apply_block(const int rows, const linear *f, int block, matrix from, matrix into) {
  const int8_t *packed = f->packed + (size_t)block * f->inputs * BLOCK;
  lanes sum[MOST_SUMS][PARTS] = {0};
  for (int d = 0; d < f->inputs; d++) {
    lanes column[PARTS];
#pragma GCC unroll 4
    for (int p = 0; p < PARTS; p++) column[p] = widened_bytes(packed + (size_t)d * BLOCK + p * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
      for (int p = 0; p < PARTS; p++) sum[r][p] += from.numbers[r * from.step + d] * column[p];
  }
#pragma GCC unroll 4
  for (int p = 0; p < PARTS; p++) {
    const int place = block * BLOCK + p * LANES;
    const lanes scale = load(f->scale + place), bias = load(f->bias + place);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) store(into.numbers + r * into.step + place, sum[r][p] * scale + bias);
  }
}

/* The same for at most MOST_SUMS rows, not a constant. */
static void apply_few(int rows, const linear *f, int block, matrix from, matrix into) {
#define CASE(count) \
  case count: \
    apply_block(count, f, block, from, into); \
    break;
  switch (rows) {
    CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6)
#if MOST_SUMS > 6
    CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13) CASE(14) CASE(15) CASE(16)
#endif
  }
#undef CASE
}

static matrix from_row(matrix all_rows, int row) {
  return (matrix){all_rows.numbers + (size_t)row * all_rows.step, all_rows.step};
}

/* into [rows][outputs], in groups of rows of nearly equal size. */
static void apply_linear(const linear *f, matrix from, int rows, matrix into) {
  for (int block = 0; block < f->outputs / BLOCK; block++) {
    int groups = (rows + MOST_SUMS - 1) / MOST_SUMS;
    for (int done = 0, count; done < rows; done += count, groups--) {
      count = (rows - done + groups - 1) / groups;
      apply_few(count, f, block, from_row(from, done), from_row(into, done));
    }
  }
}

/* states = norm(states + added) */
static void add_and_normalise(const layer_norm *f, const float *added, int rows, int width, float epsilon,
                              float *states) {
  for (int row = 0; row < rows; row++) {
    float *own = states + (size_t)row * width;
    lanes total = {0}, squares = {0};
    for (int n = 0; n < width; n += LANES) {
      const lanes x = load(own + n) + load(added + (size_t)row * width + n);
      store(own + n, x);
      total += x;
    }
    const float mean = sum_of(total) / (float)width;
    for (int n = 0; n < width; n += LANES) {
      const lanes x = load(own + n) - mean;
      squares += x * x;
    }
    const float by = 1.0f / sqrtf(sum_of(squares) / (float)width + epsilon);
    for (int n = 0; n < width; n += LANES)
      store(own + n, (load(own + n) - mean) * by * load(f->scale + n) + load(f->shift + n));
  }
}

/* x Phi(x), in place. The error function is 7.1.26 of Abramowitz and Stegun (1964), at most 1.5e-7 off. */
static void gelu(size_t count, float *values) {
  for (size_t n = 0; n < count; n += LANES) {
    const lanes x = load(values + n), y = choose(x < 0.0f, -x, x) * 0.707106781f;
    const lanes t = 1.0f / (1.0f + 0.3275911f * y);
    lanes sum = all(1.061405429f);
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    const lanes rest = 0.5f * (sum * t) * exponential(-(y * y)); /* half of 1 - erf(y) */
    store(values + n, x * choose(x < 0.0f, rest, 1.0f - rest));
  }
}

/* Keys of one head as columns [blocks][head][BLOCK], its values as columns [head / BLOCK][pieces][BLOCK]. */
static void pack_head(const float *keys, const float *values, int step, int pieces, int head,
                      const encoder_space *space) {
  memset(space->keys, 0, sizeof(float) * (size_t)blocks_of(pieces) * BLOCK * head);
  for (int piece = 0; piece < pieces; piece++) {
    float *columns = space->keys + (size_t)(piece / BLOCK) * head * BLOCK + piece % BLOCK;
    for (int d = 0; d < head; d++) columns[d * BLOCK] = keys[(size_t)piece * step + d];
    for (int d = 0; d < head; d += BLOCK)
      memcpy(space->values + ((size_t)d * pieces + (size_t)piece * BLOCK), values + (size_t)piece * step + d,
             sizeof(float) * BLOCK);
  }
}

/* into [pieces][width]: self-attention of the pieces of one sentence, all heads concatenated. */
static void attend_pieces(const transformer *t, const float *projected, int pieces, const encoder_space *space,
                          float *into) {
  const int head = t->width / t->heads, step = 3 * t->width, blocks = blocks_of(pieces);
  const shape s = {pieces, blocks, space->real_rows, space->real_columns};
  for (int n = 0; n < blocks * BLOCK; n++) space->real_columns[n] = n < pieces ? -1 : 0;
  for (int number = 0; number < t->heads; number++) {
    const float *queries = projected + number * head;
    pack_head(queries + t->width, queries + 2 * t->width, step, pieces, head, space);
    memset(space->table, 0, sizeof(float) * (size_t)pieces * columns_of(s));
    for (int block = 0; block < blocks; block++)
      multiply_many(pieces, queries, step, head, space->keys + (size_t)block * head * BLOCK,
                    space->table + (size_t)block * pieces * BLOCK);
    softmax_of_rows(s, 1.0f, space->table);
    for (int d = 0; d < head; d += BLOCK) {
      memset(space->sums, 0, sizeof(float) * (size_t)pieces * BLOCK);
      for (int block = 0; block < blocks; block++) {
        const int length = pieces - block * BLOCK < BLOCK ? pieces - block * BLOCK : BLOCK;
        multiply_many(pieces, space->table + (size_t)block * pieces * BLOCK, BLOCK, length,
                      space->values + ((size_t)d * pieces + (size_t)block * BLOCK * BLOCK), space->sums);
      }
      for (int piece = 0; piece < pieces; piece++)
        memcpy(into + (size_t)piece * t->width + number * head + d, space->sums + (size_t)piece * BLOCK,
               sizeof(float) * BLOCK);
    }
  }
}

/* One layer, in place, on the states [rows][width] of the pieces of consecutive sentences. */
static void apply_layer(const transformer *t, const transformer_layer *layer, const int32_t *lengths,
                        int32_t sentences, int rows, const encoder_space *space, float *states) {
  const matrix own = {states, t->width}, attended = {space->attended, t->width}, mixed = {space->projected, t->width},
               projected = {space->projected, 3 * (size_t)t->width},
               hidden = {space->hidden, (size_t)t->hidden + MARGIN};
  apply_linear(&layer->query_key_value, own, rows, projected);
  for (int n = 0, first = 0; n < sentences; first += lengths[n], n++)
    attend_pieces(t, space->projected + (size_t)first * 3 * t->width, lengths[n], space,
                  space->attended + (size_t)first * t->width);
  apply_linear(&layer->mix, attended, rows, mixed);
  add_and_normalise(&layer->attention_norm, space->projected, rows, t->width, t->epsilon, states);
  apply_linear(&layer->widen, own, rows, hidden);
  for (int row = 0; row < rows; row++) gelu(t->hidden, from_row(hidden, row).numbers);
  apply_linear(&layer->narrow, hidden, rows, mixed);
  add_and_normalise(&layer->output_norm, space->projected, rows, t->width, t->epsilon, states);
}

/* All layers, in place; returns 1 if there is no memory, else 0. */
int regard_transform(const transformer *t, const int32_t *lengths, int32_t sentences, float *states) {
  int rows = 0, longest = 0;
  for (int n = 0; n < sentences; n++) {
    rows += lengths[n];
    if (lengths[n] > longest) longest = lengths[n];
  }
  encoder_space space;
  void *allocation = allocate_encoder(t, rows, longest, &space);
  if (!allocation) return 1;
  for (int n = 0; n < t->number; n++) apply_layer(t, &t->layers[n], lengths, sentences, rows, &space, states);
  free(allocation);
  return 0;
}

#endif
