/* SPDX-License-Identifier: MIT */
/* What other programs call our tensors: a small text, read by people too.
 *
 *     # comment
 *     layout OIHW
 *     layer{s}.{b}.conv{c}/weight   res{s+1}.{b}.conv{c}.weight
 *     %/running_mean                %.running_mean
 *
 * A rule is our name and theirs; the first whose left side fits a name gives the other. {s}, one small
 * letter, is a number; on the right it may be taken with one more or less (or 2 … 9). One % a side is any
 * text. `layout` is the order of a convolution's dimensions there, and so that of a linear layer: O and I of
 * it, and where its input is an image, all four. Not collective. */
#ifndef TRAIN_WEIGHTS_NAME_TABLE_H
#define TRAIN_WEIGHTS_NAME_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { NAME_TABLE_RULES = 128, NAME_PATTERN_MAX = 96, NAME_THEIRS_MAX = 160 };

typedef struct name_rule {
    char ours[NAME_PATTERN_MAX], theirs[NAME_PATTERN_MAX];
} name_rule_t;

typedef struct name_table {
    char layout[5]; /* "OIHW" */
    name_rule_t rules[NAME_TABLE_RULES];
    int n;
} name_table_t;

/* The built-in ones, ended by a NULL name: "torchvision" (also timm's), "detectron2", "huggingface",
 * "dptrain" (names and layout as they are). */
typedef struct name_table_text {
    const char *name, *text;
} name_table_text_t;
extern const name_table_text_t name_tables[];

/* which: a built-in table's name, or the path of a text file. ERR_USAGE naming file and line of what is no
 * rule, and what there is. */
err_t name_table_read(const char *which, name_table_t *out);

/* Their name for ours, in out[NAME_THEIRS_MAX]. False when no rule fits. */
bool name_table_find(const name_table_t *table, const char *ours, char *out);

#endif
