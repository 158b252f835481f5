/* SPDX-License-Identifier: MIT */
/* Names of the model's tensors in other programs, as a small text:
 *
 *     # comment
 *     layout OIHW
 *     layer{s}.{b}.conv{c}/weight   res{s+1}.{b}.conv{c}.weight
 *     %/running_mean                %.running_mean
 *
 * A rule maps a name of dptrain to one of the other program; the first rule whose left side matches applies.
 * Later ones that match are other spellings, which an import accepts. {s}, with any lowercase letter, matches a
 * number; on the right, {s+1} or {s-1} (up to 9) shifts it. One % per side matches any text.
 *
 *   layout OIHW  the other program's order of a convolution's dimensions. A linear layer uses O and I of it, or
 *                all four if its input is an image
 *   deconv IOHW  the same of a transposed convolution; by default the layout with O and I swapped
 *   input BGR    its images are BGR: the channels of convolutions that read the image are reversed
 *
 * Not collective. */
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
    char layout[5], deconv[5]; /* "OIHW", "IOHW" */
    bool bgr;
    name_rule_t rules[NAME_TABLE_RULES];
    int n;
} name_table_t;

/* The built-in tables, ended by a NULL name: "torchvision" (also timm's), "detectron2", "tensorpack",
 * "huggingface", "dptrain" (names and layout unchanged). */
typedef struct name_table_text {
    const char *name, *text;
} name_table_text_t;
extern const name_table_text_t name_tables[];

/* Reads a table.
 *
 *   which   a built-in table's name, or the path of a text file
 *
 * ERR_USAGE names file and line of an invalid rule, and lists the built-in tables if the file is
 * missing. */
err_t name_table_read(const char *which, name_table_t *out);

/* Translates a name into out[NAME_THEIRS_MAX] by the nth rule that matches, from 0. False if there are not as
 * many. */
bool name_table_find(const name_table_t *table, const char *ours, int nth, char *out);

#endif
