/* States of words: pieces of words embedded, taken through the layers of transformer.h, and averaged word by word. */
#ifndef REGARD_WORD_STATES_H
#define REGARD_WORD_STATES_H

#include "records.h"
#include "transformer.h"

/* The vector of a piece is scale n, and that of its place is added. Bit k of n + 2^(bits - 1) is in plane k. */
typedef struct {
  const uint8_t *planes;   /* [bits][pieces][width / 8], eight numbers a byte, the first one in its highest bit */
  const float *scale;      /* [pieces] */
  const float *positions;  /* [places][width] */
  layer_norm norm;
  int32_t bits, pieces, places;
} embedding;

/* Sentences one after the other. */
typedef struct {
  const int32_t *ids;     /* of the pieces */
  const int32_t *lengths; /* [sentences] in pieces */
  const int32_t *sizes;   /* [words] of words, in pieces; a sentence ends where a word does */
  int32_t sentences, words;
} word_pieces;

/* models/kernels/word_states.py has them too. */
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

/* The number of all pieces, or -1 where one has no vector, or its place has none, or words are not made of them. */
static int count_pieces(const embedding *e, const word_pieces *said) {
  int rows = 0, in_words = 0;
  for (int n = 0; n < said->sentences; rows += said->lengths[n], n++)
    if (said->lengths[n] > e->places) return -1;
  for (int n = 0; n < rows; n++)
    if (said->ids[n] < 0 || said->ids[n] >= e->pieces) return -1;
  for (int word = 0; word < said->words; in_words += said->sizes[word], word++)
    if (said->sizes[word] < 1) return -1;
  return in_words == rows ? rows : -1;
}

static void embed_sentences(const embedding *e, const transformer *t, const word_pieces *said, float *states) {
  const int32_t *id = said->ids;
  for (int n = 0; n < said->sentences; n++)
    for (int place = 0; place < said->lengths[n]; place++, states += t->width) {
      embed_piece(e, t->width, *id++, states);
      add_and_normalise(&e->norm, e->positions + (size_t)place * t->width, 1, t->width, t->epsilon, states);
    }
}

static void average_words(const word_pieces *said, int width, const float *states, float *into) {
  for (int word = 0; word < said->words; word++, into += width) {
    memcpy(into, states, sizeof(float) * width);
    states += width;
    for (int piece = 1; piece < said->sizes[word]; piece++, states += width)
      for (int n = 0; n < width; n += LANES) store(into + n, load(into + n) + load(states + n));
    for (int n = 0; n < width; n += LANES) store(into + n, load(into + n) / (float)said->sizes[word]);
  }
}

/* into [words][width], the mean states of the last layer of each word's pieces. An `enum fault`. */
int regard_word_states(const embedding *e, const transformer *t, const word_pieces *said, float *into) {
  const int rows = count_pieces(e, said);
  if (rows < 0) return NO_SUCH_ROW;
  float *states = malloc(sizeof(float) * ((size_t)rows * t->width + 1));
  if (!states) return NO_MEMORY;
  embed_sentences(e, t, said, states);
  const int fault = regard_transform(t, said->lengths, said->sentences, states);
  if (!fault) average_words(said, t->width, states, into);
  free(states);
  return fault ? NO_MEMORY : NO_FAULT;
}

#endif
