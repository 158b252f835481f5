/* SPDX-License-Identifier: MIT */
/* Finds the candidate nearest to a mistyped word, by edit distance. */
#include <string.h>

#include "base/opt.h"

enum { MAX_WORD = 64 };

static int edit_distance(const char *a, const char *b)
{
    int row[MAX_WORD + 1];
    int n = (int)strlen(b);
    if (n > MAX_WORD) return MAX_WORD;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[n];
}

const char *opt_nearest(const char *word, const char *const *candidates, int n)
{
    const char *nearest = NULL;
    int best = (int)strlen(word) / 3 + 2; /* anything farther is not a typing error */
    for (int i = 0; i < n; i++) {
        int distance = edit_distance(word, candidates[i]);
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}
