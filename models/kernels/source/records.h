/* Shared code of all scores: stored pictures, and one allocation for intermediate results. */
#ifndef REGARD_RECORDS_H
#define REGARD_RECORDS_H

#include <stdlib.h>

#include "lanes.h"

#define CACHE_LINE 64

/* The outcome of a call. */
enum fault { NO_FAULT, NO_MEMORY, NO_SUCH_ROW };

/* Whether all of these rows are below the number of records. */
static int rows_exist(const int64_t *rows, int64_t count, int64_t records) {
  for (int64_t n = 0; n < count; n++)
    if (rows[n] < 0 || rows[n] >= records) return 0;
  return 1;
}

static int rounded_up(int count) { return (count + BLOCK - 1) / BLOCK * BLOCK; }

/* Number of regions up to the last real one, and their mask: -1 where real. `mask` has bytes, `real` whole blocks. */
static int read_mask(const char *mask, int all_regions, int32_t *real) {
  int regions = all_regions;
  while (regions && !mask[regions - 1]) regions--;
  for (int n = 0; n < rounded_up(all_regions); n++) real[n] = n < regions && mask[n] ? -1 : 0;
  return regions;
}

/* Points every pointer whose address is in `parts` to its part, of that many four-byte numbers, of one allocation.
 * Returns the allocation, which the caller frees, or null. */
static void *allocate_parts(void *const parts[], const size_t sizes[], int number) {
  size_t bytes = CACHE_LINE;
  for (int n = 0; n < number; n++) bytes += (sizes[n] * sizeof(float) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
  void *allocation = malloc(bytes);
  if (!allocation) return 0;
  char *from = (char *)(((uintptr_t)allocation + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
  for (int n = 0; n < number; n++) {
    memcpy(parts[n], &from, sizeof from);
    from += (sizes[n] * sizeof(float) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
  }
  return allocation;
}

#endif
