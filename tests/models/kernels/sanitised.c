/* Scores of random pictures and sentences, and layers, of many sizes, for a build with sanitizers: every array is
 * allocated exactly, so that reading past its end is found. With an argument one picture too many is read, which must
 * be found. */
#include <stdio.h>

#include "kernels.c"

static unsigned state = 1;

static float drawn(void) {
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / (1 << 23) - 1;
}

static int below(int count) { return (int)((drawn() + 1) / 2 * 0.999f * count); }

static half *halves(int count) {
  half *made = malloc(sizeof(half) * count);
  for (int n = 0; n < count; n++) made[n] = (half)drawn();
  return made;
}

static float *floats(int count) {
  float *made = malloc(sizeof(float) * count);
  for (int n = 0; n < count; n++) made[n] = drawn();
  return made;
}

static int check(int case_number, int too_many) {
  const int num = 1 + below(3), regions = 1 + below(40), width = 1 + below(300), words = below(36);
  half *vectors = halves(num * regions * width), *gram = halves(num * regions * regions);
  char *mask = malloc(num * regions);
  for (int n = 0; n < num * regions; n++) mask[n] = below(4) > 0;
  float *word_vectors = floats(words * width);
  const int count = num + too_many;
  int64_t *rows = malloc(sizeof(int64_t) * count);
  for (int n = 0; n < count; n++) rows[n] = n;
  float *scores = malloc(sizeof(float) * count);
  const pictures all = {(char *)vectors, (char *)gram, mask,    2ll * regions * width, 2ll * regions * regions, regions,
                        count,           regions,      width};
  const sentence said = {word_vectors, words};
  const form f = {case_number % 3 != 0, case_number % 3 != 1, case_number % 7, case_number % 2, case_number % 5 % 3,
                  case_number % 4, 9, 6};
  const int failed = regard_attention_scores(&all, &said, &f, rows, 0, count, scores);
  if (case_number % 11 == 0) vectors[0] = (half)NAN, vectors[num * regions * width - 1] = (half)INFINITY;
  const int failed_too = regard_attention_scores(&all, &said, &f, rows, 0, count, scores);
  rows[0] = case_number % 2 ? -1 : count;
  const int refused = regard_attention_scores(&all, &said, &f, rows, 0, count, scores) == NO_SUCH_ROW;
  void *made[] = {vectors, gram, mask, word_vectors, rows, scores};
  for (int n = 0; n < 6; n++) free(made[n]);
  return failed || failed_too || !refused;
}

static char *drawn_mask(int count) {
  char *made = malloc(count);
  for (int n = 0; n < count; n++) made[n] = below(4) > 0;
  return made;
}

/* All rows in two parts, as two threads take them. */
#define IN_PARTS(function) \
  (function(&all, &said, &f, rows, 0, num / 2, scores) || function(&all, &said, &f, rows, num / 2, num - num / 2, scores))

static int check_caan(int case_number) {
  const int num = 1 + below(3), regions = 1 + below(40), width = 1 + below(300), words = below(36);
  const int units = BLOCK * (1 + below(4));
  half *vectors = halves(num * regions * width), *intra = halves(num * regions * units);
  half *inter = halves(num * regions * units);
  char *mask = drawn_mask(num * regions);
  float *word_vectors = floats(words * width), *word_keys = floats(words * width);
  float *own = floats(words * units), *other = floats(words * units);
  float *weights = floats(2 * units), *scores = malloc(sizeof(float) * num);
  int64_t rows[] = {0, 1, 2};
  const int64_t step = 2ll * regions * units;
  const caan_pictures all = {(char *)vectors, (char *)intra, (char *)inter, mask,    2ll * regions * width,
                             step,            step,          regions,       num,     regions, width, units};
  const caan_sentence said = {word_vectors, word_keys, own, other, words};
  const caan_form f = {weights, weights + units, case_number % 2, 0.1f};
  if (case_number % 11 == 0) vectors[0] = (half)NAN, vectors[num * regions * width - 1] = (half)INFINITY;
  const int failed = IN_PARTS(regard_caan_scores);
  void *made[] = {vectors, intra, inter, mask, word_vectors, word_keys, own, other, weights, scores};
  for (int n = 0; n < 10; n++) free(made[n]);
  return failed;
}

static int check_sman(int case_number) {
  const int num = 1 + below(3), regions = 1 + below(40), width = BLOCK * (1 + below(20)), words = below(36);
  half *keys = halves(num * regions * width), *values = halves(num * regions * width);
  half *whole = halves(num * width), *own = halves(num * width);
  char *mask = drawn_mask(num * regions);
  float *word_keys = floats(words * width), *word_values = floats(words * width), *ends = floats(2 * width);
  float *queries = floats(2 * num * width), *weights = floats(2 * width), *scores = malloc(sizeof(float) * num);
  int64_t rows[] = {0, 1, 2};
  const int64_t step = 2ll * regions * width;
  const sman_pictures all = {(char *)keys, (char *)values, (char *)whole, (char *)own, mask,    step,
                             step,         2ll * width,    2ll * width,   regions,     num,     regions, width};
  const sman_sentence said = {word_keys, word_values,           ends, ends + width,
                              queries,   queries + num * width, words};
  const sman_form f = {weights, weights + width, case_number % 2, case_number % 3 == 0};
  if (case_number % 11 == 0) keys[0] = (half)NAN, values[num * regions * width - 1] = (half)INFINITY;
  const int failed = IN_PARTS(regard_sman_scores);
  void *made[] = {keys, values, whole, own, mask, word_keys, word_values, ends, queries, weights, scores};
  for (int n = 0; n < 11; n++) free(made[n]);
  return failed;
}

static int check_tables(int case_number) {
  const int num = 1 + below(3), regions = 1 + below(40), sentences = below(4), words = 1 + below(36);
  float *products = floats(num * regions * sentences * words), *gram = floats(num * regions * regions);
  float *lengths = floats(num * regions), *word_gram = floats(sentences * words * words);
  float *word_lengths = floats(sentences * words), *scores = malloc(sizeof(float) * num * sentences);
  char *mask = drawn_mask(num * regions);
  int32_t *real_words = malloc(sizeof(int32_t) * sentences);
  for (int n = 0; n < sentences; n++) real_words[n] = below(words + 1);
  const tables all = {products,   gram, lengths, mask,      word_gram, word_lengths,
                      real_words, num,  regions, sentences, words};
  const form f = {case_number % 3 != 0, case_number % 3 != 1, 1 + case_number % 6, case_number % 2,
                  case_number % 5 % 3,  case_number % 4,      9,                   6};
  if (case_number % 11 == 0 && sentences) products[0] = NAN, products[num * regions * sentences * words - 1] = INFINITY;
  const int failed = regard_table_scores(&all, &f, 0, num / 2, scores) ||
                     regard_table_scores(&all, &f, num / 2, num - num / 2, scores);
  void *made[] = {products, gram, lengths, word_gram, word_lengths, scores, mask, real_words};
  for (int n = 0; n < 8; n++) free(made[n]);
  return failed;
}

static int8_t *bytes(int count) {
  int8_t *made = malloc(count);
  for (int n = 0; n < count; n++) made[n] = (int8_t)(127 * drawn());
  return made;
}

static linear drawn_linear(int inputs, int outputs) {
  return (linear){bytes(inputs * outputs), floats(outputs), floats(outputs), inputs, outputs};
}

static void free_linear(const linear *f) {
  free((void *)f->packed), free((void *)f->scale), free((void *)f->bias);
}

/* Sentences of these lengths, of words of one to three pieces; then one with a piece that there is not. */
static int check_words(const transformer *t, const int32_t *lengths, int sentences, int rows) {
  const int pieces = 1 + below(30), bits = 2 + below(7), planes = bits * pieces * t->width / 8;
  int32_t *ids = malloc(sizeof(int32_t) * rows), *sizes = malloc(sizeof(int32_t) * rows);
  for (int n = 0; n < rows; n++) ids[n] = below(pieces);
  int words = 0;
  for (int n = 0; n < sentences; n++)
    for (int left = lengths[n]; left; left -= sizes[words++]) sizes[words] = left < 3 ? left : 1 + below(3);
  const embedding e = {(uint8_t *)bytes(planes), floats(pieces), floats(40 * t->width),
                       {floats(t->width), floats(t->width)}, bits, pieces, 40};
  float *into = malloc(sizeof(float) * words * t->width);
  const word_pieces said = {ids, lengths, sizes, sentences, words};
  const int failed = regard_word_states(&e, t, &said, into);
  int refused = 1;
  if (rows) {
    ids[rows - 1] = pieces;
    refused = regard_word_states(&e, t, &said, into) == NO_SUCH_ROW;
    ids[rows - 1] = 0;
    sizes[words - 1]++;
    refused &= regard_word_states(&e, t, &said, into) == NO_SUCH_ROW;
    sizes[words - 1] = 0;
    refused &= regard_word_states(&e, t, &said, into) == NO_SUCH_ROW;
    const embedding short_one = {e.planes, e.scale, e.positions, e.norm, bits, pieces, lengths[0] - 1};
    refused &= regard_word_states(&short_one, t, &said, into) == NO_SUCH_ROW;
  }
  const void *made[] = {ids, sizes, into, e.planes, e.scale, e.positions, e.norm.scale, e.norm.shift};
  for (int n = 0; n < 8; n++) free((void *)made[n]);
  return failed || !refused;
}

static int check_layers(void) {
  const int heads = 1 + below(3), width = heads * BLOCK * (1 + below(2)), hidden = BLOCK * (1 + below(20));
  const int sentences = below(4);
  int rows = 0, *lengths = malloc(sizeof(int) * sentences);
  for (int n = 0; n < sentences; n++) rows += lengths[n] = 1 + below(40);
  const transformer_layer layer = {drawn_linear(width, 3 * width), drawn_linear(width, width),
                                   drawn_linear(width, hidden), drawn_linear(hidden, width),
                                   {floats(width), floats(width)}, {floats(width), floats(width)}};
  const transformer t = {&layer, 1, width, hidden, heads, 1e-12f};
  float *states = floats(rows * width);
  const int failed = regard_transform(&t, lengths, sentences, states) || check_words(&t, lengths, sentences, rows);
  const linear *linears[] = {&layer.query_key_value, &layer.mix, &layer.widen, &layer.narrow};
  for (int n = 0; n < 4; n++) free_linear(linears[n]);
  const float *norms[] = {layer.attention_norm.scale, layer.attention_norm.shift, layer.output_norm.scale,
                          layer.output_norm.shift};
  for (int n = 0; n < 4; n++) free((void *)norms[n]);
  free(lengths), free(states);
  return failed;
}

int main(int number_of_arguments, char **arguments) {
  (void)arguments;
  for (int n = 0; n < 420; n++)
    if (check(n, number_of_arguments > 1) || check_caan(n) || check_sman(n) || check_tables(n) ||
        (n % 4 == 0 && check_layers()))
      return 1;
  puts("nothing found");
  return 0;
}
