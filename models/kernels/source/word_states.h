/* States of words: word pieces are embedded, transformed by the layers of transformer.h and averaged per word. */
#ifndef REGARD_WORD_STATES_H
#define REGARD_WORD_STATES_H

#include "records.h"
#include "transformer.h"

/* The vector of a piece is scale n, plus that of its position. Bit k of n + 2^(bits - 1) is in plane k. */
typedef struct {
  const uint8_t *planes;   /* [bits][pieces][width / 8], eight numbers a byte, the first in the highest bit */
  const float *scale;      /* [pieces] */
  const float *positions;  /* [places][width] */
  layer_norm norm;
  int32_t bits, pieces, places;
} embedding;

/* Concatenated sentences. */
typedef struct {
  const int32_t *ids;     /* of the pieces */
  const int32_t *lengths; /* [sentences] in pieces */
  const int32_t *sizes;   /* [words] in pieces; sentences end at ends of words */
  int32_t sentences, words;
} word_pieces;

/* Equal to the structures of models/kernels/word_states.py. */
_Static_assert(sizeof(embedding) == 5 * sizeof(void *) + 4 * sizeof(int32_t), "CEmbedding");
_Static_assert(sizeof(word_pieces) == 3 * sizeof(void *) + 2 * sizeof(int32_t), "CWordPieces");

static void embed_piece(const embedding *e, int width, int32_t id, float *into) {
  const size_t plane = (size_t)e->pieces * width / 8, row = (size_t)id * width / 8;
  for (int byte = 0; byte < width / 8; byte++) {
    uint32_t numbers[8] = {0};
    for (int bit = 0; bit < e->bits; bit++) {
      const uint32_t eight = e->planes[bit * plane + row + byte];
      for (int n = 0; n < 8; n++) numbers[n] |= (eight >> (7 - n) & 1) << bit;
    }
    for (int n = 0; n < 8; n++)
      into[8 * byte + n] = ((float)numbers[n] - (float)(1 << (e->bits - 1))) * e->scale[id];
  }
}

/* The number of all pieces, or -1 if a piece or its position has no vector, or if the words do not add up to them. */
static int count_pieces(const embedding *e, const word_pieces *text) {
  int rows = 0, in_words = 0;
  for (int n = 0; n < text->sentences; rows += text->lengths[n], n++)
    if (text->lengths[n] > e->places) return -1;
  for (int n = 0; n < rows; n++)
    if (text->ids[n] < 0 || text->ids[n] >= e->pieces) return -1;
  for (int word = 0; word < text->words; in_words += text->sizes[word], word++)
    if (text->sizes[word] < 1) return -1;
  return in_words == rows ? rows : -1;
}

static void embed_sentences(const embedding *e, const transformer *t, const word_pieces *text, float *states) {
  const int32_t *id = text->ids;
  for (int n = 0; n < text->sentences; n++)
    for (int place = 0; place < text->lengths[n]; place++, states += t->width) {
      embed_piece(e, t->width, *id++, states);
      add_and_normalise(&e->norm, e->positions + (size_t)place * t->width, 1, t->width, t->epsilon, states);
    }
}

static void average_words(const word_pieces *text, int width, const float *states, float *into) {
  for (int word = 0; word < text->words; word++, into += width) {
    memcpy(into, states, sizeof(float) * width);
    states += width;
    for (int piece = 1; piece < text->sizes[word]; piece++, states += width)
      for (int n = 0; n < width; n += LANES) store(into + n, load(into + n) + load(states + n));
    for (int n = 0; n < width; n += LANES) store(into + n, load(into + n) / (float)text->sizes[word]);
  }
}

/* Fills into [words][width], the last layer's mean states of each word's pieces; returns an `enum fault`. */
int regard_word_states(const embedding *e, const transformer *t, const word_pieces *text, float *into) {
  const int rows = count_pieces(e, text);
  if (rows < 0) return NO_SUCH_ROW;
  float *states = malloc(sizeof(float) * ((size_t)rows * t->width + 1));
  if (!states) return NO_MEMORY;
  embed_sentences(e, t, text, states);
  const int fault = regard_transform(t, text->lengths, text->sentences, states);
  if (!fault) average_words(text, t->width, states, into);
  free(states);
  return fault ? NO_MEMORY : NO_FAULT;
}

#endif
