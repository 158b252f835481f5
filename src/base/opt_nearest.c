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

/* Whether one word is the other with parts added: batch-size and batch. */
static bool extends(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return (!*a && *b == '-') || (!*b && *a == '-');
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
    if (nearest && best <= 2) return nearest;
    best = MAX_WORD;
    for (int i = 0; i < n; i++) {
        int distance = extends(word, candidates[i]) ? edit_distance(word, candidates[i]) : MAX_WORD;
        if (distance < best) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}
