/* SPDX-License-Identifier: MIT */
/* Datasets: images with the fields of a task, in two splits, read by index. Images of one size are in memory (this room
 * draws or reads them); others are those of a source, decoded and transformed when they are read (data/load). Not
 * collective: one rank opens a source for all. */
#ifndef DATA_DATASET_DATASET_H
#define DATA_DATASET_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "compute/tensor/pixels.h"
#include "compute/tensor/tensor.h"
#include "data/annotation/sample.h"
#include "data/dataset/content.h"
#include "data/dataset/sampler.h"
#include "data/transform/settings.h"

/* Named values that a sample has beside its image, as "label" or "target": what a task needs of its annotations. */
enum { FIELDS_MAX = 8 };

/* A field has one row per sample, or 0 … max_rows of them (ragged). */
typedef struct field {
    const char *name; /* of the model's input that it is for */
    dtype_t dtype;
    int64_t row;      /* elements of a row */
    int64_t max_rows; /* per sample; 0: not ragged */
} field_t;

typedef struct fields {
    int n;
    bool on_host; /* the host reads them in the middle of a step: they stay in its memory */
    field_t at[FIELDS_MAX];
} fields_t;

/* Where to write a sample's rows of a field. */
typedef struct field_place {
    void *data;      /* room for one row, or max_rows */
    int64_t *n_rows; /* ragged: receives their number; otherwise NULL */
} field_place_t;

/* A field of a batch of n samples: the rows of all samples, one after another. */
typedef struct batch_field {
    void *data;
    int64_t *offsets; /* ragged: [n + 1], sample i has rows offsets[i] … offsets[i + 1]; otherwise NULL */
} batch_field_t;

/* Of kinds whose samples have a label alone. places: the request's, or NULL. */
static inline void field_put_label(const field_place_t *places, int32_t label)
{
    if (places) memcpy(places[0].data, &label, sizeof label);
}

static inline size_t field_row_bytes(const field_t *field)
{
    return (size_t)field->row * dtype_size(field->dtype);
}

/* The most bytes of a sample. */
static inline size_t field_sample_bytes(const field_t *field)
{
    return field_row_bytes(field) * (size_t)(field->max_rows ? field->max_rows : 1);
}

/* The bytes of a batch. */
static inline size_t batch_field_bytes(const field_t *field, const batch_field_t *of, int64_t n)
{
    return field_row_bytes(field) * (size_t)(of->offsets ? of->offsets[n] : n);
}

/* TASK_DETECT: what images have. */
typedef struct dataset_objects {
    int64_t most, most_runs;          /* in one image: objects and ignored boxes, and runs of masks */
    int64_t most_mask_runs;           /* of one object */
    int64_t n_train;                  /* training objects */
    int64_t n_unmasked;               /* of these, or left out (skip_unmasked), without a segmentation */
    int64_t unmasked, unmasked_image; /* the ids of the first of them, and of its image */
    int64_t n_left_out;               /* training images without objects to train on */
} dataset_objects_t;

/* What is known of a dataset without reading its images. */
typedef struct dataset_info {
    const char *kind;         /* "idx", "digits", "synthetic", "images" */
    char source[FS_PATH_MAX]; /* for messages: the folder, or a description */
    int64_t n_samples[SPLIT_COUNT];
    int64_t height, width, channels; /* TASK_DETECT: of the largest canvas */
    int n_classes;                   /* TASK_DETECT: with the background, and ids that no category has */
    const char *const *class_names;  /* [n_classes]; NULL: classes are numbers */
    dataset_objects_t objects;
    transform_task_t task;      /* what samples are, and their fields; images in memory: TASK_AUTO */
    char transform[160];        /* human-readable description of the transforms; "" if none */
    int64_t block[SPLIT_COUNT]; /* samples to read at once, about DATASET_BLOCK_BYTES; 1: in memory */
    const char *about; /* for the header, in lines: how the data was understood; NULL or "": as usual */
    const char *notes; /* for the user: corrected or skipped data; NULL or "" if none */
    const char *hint;  /* source_t's; NULL or "" if none */
    pixel_norm_t norm; /* of training pixels scaled to [0, 1] */
    uint64_t hash;     /* XXH3 of sizes, pixels and labels of both splits, or source_t's */
} dataset_info_t;

/* What --data accepts, for messages. */
#define DATASET_EXPECTED                                                                                      \
    "expected a folder of images, of shards, or of IDX files (data/fetch_mnist.sh downloads MNIST), digits, " \
    "or synthetic"

enum { DATASET_BLOCK_BYTES = 2 << 20, DATASET_FORMAT_MAX = 8 };

/* Opening may take minutes. `alive` is called repeatedly meanwhile; its error ends the opening. */
typedef struct open_watch {
    err_t (*alive)(void *context);
    void *context;
} open_watch_t;

typedef struct dataset dataset_t;
typedef struct dataset_reader dataset_reader_t;
typedef struct dataset_request dataset_request_t;
typedef struct dataset_sample dataset_sample_t;

/* A sample of a source that is not simply one of its images. */
typedef struct sample_ref {
    int32_t image;  /* index within the split */
    int32_t object; /* TASK_CROPS: index within the image; TASK_DETECT: the number of its objects */
} sample_ref_t;

/* Starts zeroed; mem_free each of `of`. */
typedef struct sample_list {
    sample_ref_t *of[SPLIT_COUNT]; /* NULL: the images */
    int64_t n[SPLIT_COUNT];
    /* TASK_DETECT. */
    dataset_objects_t objects;
    canvases_t canvases; /* the settings', with those of all images if they are exact */
} sample_list_t;

struct dataset {
    dataset_info_t info;
    arena_t arena; /* what info and relabels point to */
    /* Reads a sample and transforms it. NULL: samples are in memory, and the loader transforms them. */
    err_t (*read)(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out);
    /* Images in memory: [n, h, w, c] and [n] per split, from mem_new. */
    uint8_t *pixels[SPLIT_COUNT], *labels[SPLIT_COUNT];
    /* Images of a source; NULL: it has none. */
    struct source *source;
    transform_settings_t settings; /* resolved */
    sample_list_t list;
    class_map_t classes;     /* TASK_DETECT: of the source's categories */
    const int32_t *relabels; /* dataset_set_labels; NULL: labels are the source's */
    content_t *content;      /* of folders and COCO; else NULL */
    /* Images given by their paths (data/load/image_files.h); NULL: there are none. */
    struct image_files *files;
};

/* Chooses the dataset for rank 0: --data (`option`, may be NULL), $DPTRAIN_DATA/mnist or data/mnist if it holds any
 * of MNIST's files, or "digits". "digits" and "synthetic" are built-in kinds; anything else is a folder, or a set in one. Writes the
 * choice to where[FS_PATH_MAX], the reason ("from $DPTRAIN_DATA", what was passed over) to why[128]. ERR_DATA: the
 * option's folder does not exist. */
err_t dataset_choose(const char *option, char *where, char *why);

/* Checks what a user typed as --data (may be NULL). ERR_USAGE: the name of a built-in kind and of a folder. Where
 * checkpoints and records have such a name, it is the built-in kind's. */
err_t dataset_check_name(const char *option);

/* Whether there is such data: a built-in kind, a folder, or a set of IDX files (idx_is). */
bool dataset_is_there(const char *where);

/* Whether --data takes the word for a built-in kind; a folder of this name in the current one is ./NAME. */
bool dataset_is_built_in(const char *where);

/* Opens a folder with any of MNIST's IDX files as that kind, others as images (data/source/source.h).
 *
 *   settings  how images are transformed; NULL: the defaults; unused by kinds in memory
 *   watch     may be NULL
 *
 * ERR_DATA names the file: missing, truncated or foreign data, invalid labels, or no samples. ERR_USAGE:
 * settings that do not apply to the images. */
err_t dataset_open(const char *where, const transform_settings_t *settings, dataset_t **out);
err_t dataset_open_watched(const char *where, const transform_settings_t *settings, const open_watch_t *watch,
                           dataset_t **out);
void dataset_close(dataset_t **dataset);

/* Whether a model can learn from the dataset. ERR_DATA: there are no training samples, or all have the same class,
 * and what may be wrong with the folder. In the process that opened it. */
err_t dataset_check_training(const dataset_t *dataset);

/* True if one process should open the dataset and the others restore it. */
bool dataset_is_shared(const char *where);
/* Serialise a shared dataset, and restore it in a process of the same build, with the same settings. *bytes are
 * from mem_new; dataset_restore takes them over. Errors as dataset_open and source_restore. */
err_t dataset_save(const dataset_t *dataset, void **bytes, int64_t *n_bytes);
err_t dataset_restore(const transform_settings_t *settings, void **bytes, int64_t n_bytes, dataset_t **out);

/* Writes the name of a sample's image, as its source has it: "dog/17.png". False: unknown, or in memory. */
bool dataset_name(const dataset_t *dataset, split_t split, int64_t index, char *out, size_t n_bytes);

/* Whether each image has a label, with a name, from a source: TASK_CLASSIFY. */
bool dataset_has_labels(const dataset_t *dataset);

/* Such images get other labels, labels[label] below n_classes: those of a model, which knows its classes' names. */
err_t dataset_set_labels(dataset_t *dataset, const int32_t *labels, int n_classes);

/* Sizes of training images as stored. */
typedef struct images_sizes {
    int n;                             /* that were looked at; 0: unknown */
    int64_t width, height;             /* of more than half of them; 0: they vary */
    bool alike;                        /* all have that size */
    int64_t shortest, median, longest; /* of their shorter sides */
} images_sizes_t;

/* Looks at up to IMAGES_LOOKS images, spread over the split, but takes no new one after max_sec. Passes over those that
 * cannot be read. Nothing is known of a dataset in memory. */
enum { IMAGES_LOOKS = 64 };
void dataset_look(const dataset_t *dataset, double max_sec, images_sizes_t *out);

/* A reader's wall time; cpu_wait: without a CPU while decoding and resizing. 0 for kinds in memory. */
typedef struct dataset_cost {
    double read, decode, resize, cpu_wait;
} dataset_cost_t;

struct dataset_reader {
    const dataset_t *dataset; /* borrowed */
    void *impl;               /* what decoding needs */
    dataset_cost_t cost;      /* since it was opened */
    int64_t image;            /* the last image, read or not: its number within the split's images */
};

struct dataset_request {
    split_t split;
    int64_t index;
    bool random; /* training: random transforms, determined by (seed, epoch, index) */
    uint64_t seed;
    int64_t epoch;
    sampler_near_t near;         /* read-ahead hint; zeroed: none */
    const field_place_t *fields; /* of the task (data/load/samples.h); NULL: not wanted */
};

/* The dataset's, or valid until the reader's next read. */
struct dataset_sample {
    const uint8_t *bytes;        /* [h, w, c]; with a place: [scaled height, scaled width, c] */
    const canvas_place_t *place; /* TASK_DETECT; otherwise NULL */
};

err_t dataset_reader_open(const dataset_t *dataset, dataset_reader_t *out);
void dataset_reader_close(dataset_reader_t *reader);

/* ERR_DATA names a missing or damaged image; others can still be read. */
err_t dataset_read(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out);

/* Reads an image's file and notes it in dataset->content, which there is, without decoding it. */
err_t dataset_note(dataset_reader_t *reader, split_t split, int64_t image);

/* The extension of a sample's file: "png", "jpg" for either spelling, …; "": all are alike. */
err_t dataset_format(dataset_reader_t *reader, split_t split, int64_t index, char out[DATASET_FORMAT_MAX]);

/* info->hash as text, as in checkpoints and records. */
typedef struct dataset_hash {
    char text[20];
} dataset_hash_t;
dataset_hash_t dataset_hash(const dataset_info_t *info);

/* dataset_info_t.hash of a source with this hash whose samples are those of a task. */
uint64_t dataset_hash_source(uint64_t hash, transform_task_t task);

/* The canvases and costs of a split's training samples, for a sampler: context and function. TASK_DETECT. */
typedef struct dataset_weigher {
    const dataset_t *dataset;
    split_t split;
    uint64_t seed;
} dataset_weigher_t;
void dataset_weigh(const void *weigher, int64_t epoch, int64_t index, sampler_weight_t *out);

/* Sets the numbers in info, and makes room for that many square grey images and their labels. */
err_t dataset_new_grey(dataset_t *dataset, int64_t n_train, int64_t n_val, int64_t side, int n_classes);

/* Sets norm (one for all channels; std 1 for equal pixels) and hash of a dataset in memory. */
void dataset_measure(dataset_t *dataset);

/* Frees pixels, labels and the arena. */
void dataset_free_memory(dataset_t *dataset);

#endif
