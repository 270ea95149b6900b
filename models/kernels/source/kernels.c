/* Scores of pictures with one sentence, read in place from stored records; models/kernels/library.py calls them.
 * Here are the models with attention; CAAN is in caan.h, SMAN in sman.h, the sentence encoder in transformer.h and
 * word_states.h.
 *
 * A picture's records are halves: the vectors of its regions and the inner products of all their pairs. A score is one
 * product of regions and words, then attention on it, all in the processor's first-level cache.
 */
#include "caan.h"
#include "directions.h"
#include "sman.h"
#include "tables.h"
#include "word_states.h"

/* All stored pictures: addresses of the first one's fields, and bytes from one picture to the next. */
typedef struct {
  const char *vectors; /* halves [regions][width] */
  const char *gram;    /* halves [regions][regions]; null without attention */
  const char *mask;    /* bytes [regions], not 0 for real ones */
  int64_t vectors_step, gram_step, mask_step;
  int64_t number; /* of pictures */
  int32_t regions, width;
} pictures;

/* All words are real. */
typedef struct {
  const float *vectors; /* [words][width] */
  int32_t words;
} sentence;

/* Data of the words that does not depend on the picture. */
static void read_sentence(const sentence *text, const form *f, int width, const workspace *space) {
  const int words = text->words, columns = rounded_up(words ? words : 1);
  for (int n = 0; n < columns; n++) {
    space->real_words[n] = n < words ? -1 : 0;
    space->word_lengths[n] = 0;
  }
  for (int n = 0; n < words; n++) {
    const float *own = text->vectors + (size_t)n * width;
    space->word_lengths[n] = sqrtf(inner_product(own, own, width));
  }
  if (!f->regions_attend || f->logits == LOGITS_NONE) return;
  for (int n = 0; n < words; n++)
    for (int other = 0; other <= n; other++)
      space->word_gram[n * words + other] = space->word_gram[other * words + n] =
          inner_product(text->vectors + (size_t)n * width, text->vectors + (size_t)other * width, width);
}

static void read_gram(const pictures *all, int64_t row, int regions, float *gram) {
  const half *stored = (const half *)(all->gram + row * all->gram_step);
  if (regions == all->regions)
    widen(stored, regions * regions, gram);
  else
    for (int n = 0; n < regions; n++) widen(stored + (size_t)n * all->regions, regions, gram + (size_t)n * regions);
}

/* The score of the picture `row`; `next` is the row to prefetch, or -1. */
static float score_picture(const pictures *all, const sentence *text, const form *f, int64_t row, int64_t next,
                           const workspace *space) {
  const int regions = read_mask(all->mask + row * all->mask_step, all->regions, space->real_regions);
  const int lengths_needed = f->logits == LOGITS_COSINE || (f->regions_attend && f->logits != LOGITS_NONE);
  const half *vectors = (const half *)(all->vectors + row * all->vectors_step);
  const half *fetched = next < 0 ? 0 : (const half *)(all->vectors + next * all->vectors_step);
  product(vectors, fetched, regions, all->width, text->vectors, text->words, space->raw);
  for (int n = 0; lengths_needed && n < rounded_up(regions); n++)
    space->lengths[n] = n < regions ? sqrtf(square_of_halves(vectors + (size_t)n * all->width, all->width)) : 0;
  if (f->words_attend && f->logits != LOGITS_NONE) {
    read_gram(all, row, regions, space->gram);
    if (next >= 0) fetch((const half *)(all->gram + next * all->gram_step), regions * regions);
  }
  return score_of_table(regions, text->words, f, space->gram, space);
}

/* Fills scores[n] for the picture rows[n], for `count` n from `first` on; returns an `enum fault`. */
int regard_attention_scores(const pictures *all, const sentence *text, const form *f, const int64_t *rows,
                            int64_t first, int64_t count, float *scores) {
  if (!rows_exist(rows + first, count, all->number)) return NO_SUCH_ROW;
  workspace space;
  void *allocation = allocate(all->regions, text->words, &space);
  if (!allocation) return NO_MEMORY;
  read_sentence(text, f, all->width, &space);
  for (int64_t n = first; n < first + count; n++)
    scores[n] = score_picture(all, text, f, rows[n], n + 1 < first + count ? rows[n + 1] : -1, &space);
  free(allocation);
  return NO_FAULT;
}
