/* SPDX-License-Identifier: MIT */
/* An image with its annotations, as sources read it, shards store it and tasks train on it: the split that it is in, and
 * its categories as outputs of a detector. The function that fills one in defines its lifetime. Not collective. */
#ifndef DATA_ANNOTATION_SAMPLE_H
#define DATA_ANNOTATION_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "text/opt.h"

/* The two parts of a data set. */
typedef enum split { SPLIT_TRAIN, SPLIT_VAL, SPLIT_COUNT } split_t;

/* Names in options, folders and files: "train", "val", NULL. */
extern const char *const split_names[SPLIT_COUNT + 1];
/* Names in messages: "training", "validation". */
extern const char *const split_words[SPLIT_COUNT];

/* The form of an annotation's segmentation. */
typedef enum segmentation {
    SEGMENTATION_NONE,
    SEGMENTATION_POLYGONS,
    SEGMENTATION_RLE,
    SEGMENTATION_COUNT
} segmentation_t;

/* What is not one object to train on. */
typedef enum crowd {
    CROWD_NONE,
    CROWD_MANY,   /* several objects: not a target */
    CROWD_IGNORED /* "ignore": 1: neither a target nor background. Truths do not have it, as in pycocotools. */
} crowd_t;

/* Ids below this are not the source's, which gave none: INT64_MIN plus the annotation's number in its list. */
#define ANNOTATION_FIRST_ID (INT64_MIN / 2)

/* For messages: "annotation 12", or of one without an id "annotations[3]", as jq counts. */
typedef struct annotation_name {
    char text[48];
} annotation_name_t;
annotation_name_t annotation_name(int64_t id);

/* An object in an image. Coordinates are COCO's ("Microsoft COCO: Common Objects in Context", Lin et al.
 * 2014): pixels of the image as stored (before any EXIF orientation) or as shown (sample_t.shown), from the outer edge
 * of its upper left corner. */
typedef struct annotation {
    int64_t id;
    int32_t category; /* row of the category table */
    uint8_t crowd;    /* crowd_t */
    double area;      /* as given by the source; if it gave none, the mask's, else the box's */
    double box[4];    /* x, y, width, height */
    segmentation_t segmentation;
    /* SEGMENTATION_POLYGONS. Up to 100,000 pixels, a float is precise enough to print hundredths again. */
    int32_t n_polygons;
    const int32_t *n_points; /* [n_polygons], each ≥ 3 */
    const float *points;     /* [Σ n_points, 2]: x, y */
    const double *exact;     /* the same as given by the source; NULL: mask_widen (mask.h) restores them */
    /* SEGMENTATION_RLE: run lengths of 0, 1, 0, …, column by column; their sum is height × width. */
    int32_t n_runs;
    const uint32_t *runs;
} annotation_t;

typedef struct category {
    int64_t id;             /* the source's; COCO's ids have gaps */
    const char *name;       /* "dog" */
    const char *supergroup; /* "animal"; "" */
} category_t;

typedef struct sample {
    int64_t id;            /* the source's, or its number */
    const char *name;      /* the file's, without the split's folder: "dog/17.png" */
    int32_t width, height; /* as stored, or as shown */
    /* Annotations, width and height are those of the image as shown, turned by its EXIF orientation. False until the
     * image is read; see source_info. */
    bool shown;
    int32_t label;     /* class: row of the category table; -1: given by the annotations */
    const void *bytes; /* the image file's content; NULL: not requested */
    size_t n_bytes;
    int32_t n_annotations; /* usable ones: boxes lie in the image and have an area */
    const annotation_t *annotations;
    /* All annotations as given by the source, in its order: what evaluation counts. NULL, and n_truths 0:
     * nothing was mended or left out, they are `annotations`. */
    int32_t n_truths;
    const annotation_t *truths;
} sample_t;

enum { CLASS_MAP_MAX = 1 << 16 };

/* Which output of a detector is which category. Output 0 is the background. Outputs are the categories' ids if these are
 * positive, and the largest is below CLASS_MAP_MAX and at most four times their number: torchvision's 91 outputs for
 * COCO's 80 categories. Otherwise, or if the model has one output more than there are categories, as TensorPack's and
 * Detectron2's 81, they are the rows of the categories, from 1. */
typedef struct class_map {
    int n_classes;     /* outputs, with the background */
    bool ids;          /* outputs are ids */
    int32_t *category; /* [n_classes] row of the category; -1: none */
    int32_t *output;   /* [n_categories] of each category */
} class_map_t;

/* n_outputs: of the model, with the background; 0: not known.
 *
 * ERR_DATA: more than CLASS_MAP_MAX outputs. Free with class_map_free, also after an error. */
err_t class_map_new(const category_t *categories, int32_t n_categories, int n_outputs, class_map_t *out);
void class_map_free(class_map_t *map);

/* "91 classes: 80 categories by their ids, and the background" */
void class_map_describe(const class_map_t *map, int32_t n_categories, char *out, size_t n_bytes);

/* The ids of categories as text, "1 2 3", for checkpoints: with them come outputs. Free *out with mem_free. */
err_t category_ids_write(const category_t *categories, int32_t n_categories, char **out);
/* ERR_DATA: no such text. *ids: [n], free it with mem_free. */
err_t category_ids_read(const char *text, int64_t **ids, int32_t *n);

/* ---- Options of lists of objects (COCO's): what a list is taken for where it does not tell, and how much of it may be
 * left out. Not collective; thread-safe. ---- */
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

/* Training samples that validate: a share of each class, drawn by a seed and their places in the list. Zeroed: none.
 *
 *   required  data that has a validation part, or cannot be parted, is an error; otherwise it is left as it is */
typedef struct holdout {
    double share; /* from 0 to HOLDOUT_MAX */
    int64_t seed;
    bool required;
} holdout_t;
#define HOLDOUT_MAX 0.9

/* How a source is listed, without pointers, so that it can be sent to other ranks. Zeroed: the defaults. */
typedef struct list_rules {
    list_boxes_t boxes;
    bool skip_missing;   /* images whose file is missing are left out of the list */
    int64_t max_bad;     /* otherwise up to so many of them stay in it: reading them fails (--max-bad) */
    double max_left_out; /* see list_rules_most */
    holdout_t holdout;
} list_rules_t;

/* max_bad: as in list_rules_t. */
list_rules_t list_rules(const list_rule_options_t *options, int64_t max_bad);
/* What is at its default becomes as in `saved`, a run's; the holdout is the run's, where the data can be parted. */
void list_rules_inherit(list_rules_t *rules, const list_rules_t *saved);
/* The largest share of a list's images, or of its objects, that may be left out; with more the list is refused. */
double list_rules_most(const list_rules_t *rules);

#endif
