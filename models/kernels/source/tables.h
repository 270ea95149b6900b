/* Scores from given inner products, which one matrix product of all regions with all words made: attention pair by
 * pair, while a pair's table is in the processor's first-level cache. */
#ifndef REGARD_TABLES_H
#define REGARD_TABLES_H

#include "directions.h"

typedef struct {
  const float *products;     /* [pictures][regions][sentences][words] */
  const float *gram;         /* [pictures][regions][regions] */
  const float *lengths;      /* [pictures][regions] */
  const char *mask;          /* bytes [pictures][regions], not 0 where real */
  const float *word_gram;    /* [sentences][words][words] */
  const float *word_lengths; /* [sentences][words] */
  const int32_t *real_words; /* [sentences] the number of real words, which come first */
  int64_t pictures;
  int32_t regions, sentences, words;
} tables;

/* Data of a sentence that does not depend on the picture. */
static void take_sentence(const tables *all, int sentence, const workspace *space) {
  const int words = all->real_words[sentence], columns = rounded_up(words ? words : 1);
  for (int n = 0; n < columns; n++) {
    space->real_words[n] = n < words ? -1 : 0;
    space->word_lengths[n] = n < words ? all->word_lengths[(size_t)sentence * all->words + n] : 0;
  }
  const float *gram = all->word_gram + (size_t)sentence * all->words * all->words;
  for (int n = 0; n < words; n++) memcpy(space->word_gram + n * words, gram + n * all->words, sizeof(float) * words);
}

/* The products of a picture's first regions with a sentence as a table, zeros beyond the last word. */
static void take_products(const tables *all, int64_t picture, int sentence, int regions, float *into) {
  const int words = all->real_words[sentence], columns = rounded_up(words ? words : 1);
  const size_t step = (size_t)all->sentences * all->words;
  const float *from = all->products + picture * all->regions * step + (size_t)sentence * all->words;
  for (int first = 0; first < columns; first += BLOCK) {
    const int filled = words - first < BLOCK ? words - first : BLOCK;
    for (int n = 0; n < regions; n++) {
      float *own = into + ((size_t)(first / BLOCK) * regions + n) * BLOCK;
      memcpy(own, from + n * step + first, sizeof(float) * filled);
      if (filled < BLOCK) memset(own + filled, 0, sizeof(float) * (BLOCK - filled));
    }
  }
}

/* The inner products of a picture's first regions: in place, or as a contiguous copy. */
static const float *take_gram(const tables *all, int64_t picture, int regions, float *copied) {
  const float *gram = all->gram + (size_t)picture * all->regions * all->regions;
  if (regions == all->regions) return gram;
  for (int n = 0; n < regions; n++) memcpy(copied + n * regions, gram + n * all->regions, sizeof(float) * regions);
  return copied;
}

static float score_pair(const tables *all, const form *f, int64_t picture, int sentence, const workspace *space) {
  const int regions = read_mask(all->mask + picture * all->regions, all->regions, space->real_regions);
  take_products(all, picture, sentence, regions, space->raw);
  for (int n = 0; n < rounded_up(regions); n++)
    space->lengths[n] = n < regions ? all->lengths[picture * all->regions + n] : 0;
  const float *gram = take_gram(all, picture, regions, space->gram);
  return score_of_table(regions, all->real_words[sentence], f, gram, space);
}

/* Fills scores[sentence][picture] for `count` pictures from `first` on; returns an `enum fault`. */
int regard_table_scores(const tables *all, const form *f, int64_t first, int64_t count, float *scores) {
  workspace space;
  void *allocation = allocate(all->regions, all->words, &space);
  if (!allocation) return NO_MEMORY;
  for (int sentence = 0; sentence < all->sentences; sentence++) {
    take_sentence(all, sentence, &space);
    for (int64_t picture = first; picture < first + count; picture++)
      scores[sentence * all->pictures + picture] = score_pair(all, f, picture, sentence, &space);
  }
  free(allocation);
  return NO_FAULT;
}

#endif
