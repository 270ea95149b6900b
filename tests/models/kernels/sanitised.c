/* Scores of random pictures and sentences of many sizes, for a build with sanitizers: every array is allocated exactly,
 * so that reading past its end is found. With an argument one picture too many is read, which must be found. */
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
  const int blocks = words ? (words + BLOCK - 1) / BLOCK : 1;
  half *vectors = halves(num * regions * width), *gram = halves(num * regions * regions);
  char *mask = malloc(num * regions);
  for (int n = 0; n < num * regions; n++) mask[n] = below(4) > 0;
  float *packed = floats(blocks * width * BLOCK), *lengths = floats(blocks * BLOCK), *word_gram = floats(words * words);
  const int count = num + too_many;
  int64_t *rows = malloc(sizeof(int64_t) * count);
  for (int n = 0; n < count; n++) rows[n] = n;
  float *scores = malloc(sizeof(float) * count);
  const pictures all = {(char *)vectors, (char *)gram, mask, 2ll * regions * width, 2ll * regions * regions, regions,
                        regions, width};
  const sentence said = {packed, lengths, word_gram, words, blocks};
  const form f = {case_number % 3 != 0, case_number % 3 != 1, case_number % 7, case_number % 2, case_number % 5 % 3,
                  case_number % 4, 9, 6};
  const int failed = regard_scores(&all, &said, &f, rows, count, scores);
  if (case_number % 11 == 0) vectors[0] = (half)NAN, vectors[num * regions * width - 1] = (half)INFINITY;
  const int failed_too = regard_scores(&all, &said, &f, rows, count, scores);
  void *made[] = {vectors, gram, mask, packed, lengths, word_gram, rows, scores};
  for (int n = 0; n < 8; n++) free(made[n]);
  return failed || failed_too;
}

int main(int number_of_arguments, char **arguments) {
  (void)arguments;
  for (int n = 0; n < 420; n++)
    if (check(n, number_of_arguments > 1)) return 1;
  puts("nothing found");
  return 0;
}
