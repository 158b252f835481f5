/* SPDX-License-Identifier: MIT */
/* Options of lists of objects (COCO's): what a list is taken for where it does not tell, and how much of it may be
 * left out. Not collective; thread-safe. */
#ifndef DATA_ANNOTATION_LIST_RULES_H
#define DATA_ANNOTATION_LIST_RULES_H

#include "text/opt.h"

/* The pixels in which boxes of an image with an EXIF orientation are given. */
typedef enum list_boxes {
    LIST_BOXES_AUTO, /* by the image's size in the list, where it tells */
    LIST_BOXES_STORED,
    LIST_BOXES_SHOWN,
    LIST_BOXES_COUNT
} list_boxes_t;

#define LIST_MAX_LEFT_OUT "0.1"

typedef struct list_rule_options {
    const char *boxes;
    bool skip_missing;
    double max_left_out;
} list_rule_options_t;

/* The rows of a command's table: `at` is the offset of a list_rule_options_t. */
/* clang-format off */
#define LIST_RULE_ROWS(at) \
    {"exif-boxes", OPT_CHOICE, (at) + offsetof(list_rule_options_t, boxes), "auto", 0, 0, list_boxes, NULL, \
     "COCO: boxes of images with an EXIF orientation are in pixels as stored, or as shown; auto: by the images' " \
     "sizes in the list", OPT_MORE}, \
    {"skip-missing", OPT_FLAG, (at) + offsetof(list_rule_options_t, skip_missing), NULL, 0, 0, NULL, NULL, \
     "COCO: leave out images of the list whose files are missing", OPT_MORE}, \
    {"max-left-out", OPT_REAL, (at) + offsetof(list_rule_options_t, max_left_out), LIST_MAX_LEFT_OUT, 0, 1, NULL, "X", \
     "COCO: largest share of the list's images, and of its objects, that may be left out", OPT_MORE}
/* clang-format on */
extern const char *const list_boxes[LIST_BOXES_COUNT + 1];

/* The same without pointers, so that it can be sent to other ranks. Zeroed: the defaults. */
typedef struct list_rules {
    list_boxes_t boxes;
    bool skip_missing;   /* images whose file is missing are left out of the list */
    int64_t max_bad;     /* otherwise up to so many of them stay in it: reading them fails (--max-bad) */
    double max_left_out; /* see list_rules_most */
} list_rules_t;

/* max_bad: as in list_rules_t. */
list_rules_t list_rules(const list_rule_options_t *options, int64_t max_bad);
/* What is at its default becomes as in `saved`, a run's. */
void list_rules_inherit(list_rules_t *rules, const list_rules_t *saved);
/* The largest share of a list's images, or of its objects, that may be left out; with more the list is refused. */
double list_rules_most(const list_rules_t *rules);

#endif
