/* SPDX-License-Identifier: MIT */
/* The names of the splits. */
#include "data/annotation/split.h"

#include <stddef.h>

const char *const split_names[SPLIT_COUNT + 1] = {"train", "val", NULL};
const char *const split_words[SPLIT_COUNT] = {"training", "validation"};
