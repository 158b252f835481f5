/* SPDX-License-Identifier: MIT */
/* Sources of images: an image folder, COCO, IDX files, or shards of any of them. Training, packing and
 * showing read samples through this interface, so that results do not depend on how samples are stored. Not
 * collective. */
#ifndef DATA_SOURCE_SOURCE_H
#define DATA_SOURCE_SOURCE_H

#include "base/fs.h"
#include "base/mem.h"
#include "data/annotation/sample.h"
#include "data/dataset/dataset.h"
#include "data/image/image.h"

enum {
    SOURCE_MAX_IMAGE = 1 << 28, /* bytes of a compressed image */
    SOURCE_NOTES_MAX = 8192,    /* two lists with all of coco_flaws_t */
    SOURCE_ABOUT_MAX = 1024,
    SOURCE_HINT_MAX = 512,
};

/* A sample's properties that are known without reading its image. */
typedef struct source_entry {
    int64_t n_bytes;
    int32_t width, height; /* 0: unknown until it is read (image folders) */
    int32_t label;
    int64_t time_ns; /* of folders and COCO: when the file was modified, on the host that listed it */
} source_entry_t;

typedef struct source source_t;

/* In which pixels a list gives boxes of images with an EXIF orientation, where an image's own size does not tell. */
typedef struct source_boxes {
    bool shown;
    bool forced;     /* by --exif-boxes: a size that tells otherwise is an error */
    int32_t n_shown; /* images looked at whose size in the list is the one as shown only */
} source_boxes_t;

/* A read-ahead hint: consecutive samples that will be read at about the same time. */
typedef struct source_near {
    int64_t first, n; /* n 0: no hint */
    int64_t n_uses;   /* reads of all of them together */
    int64_t n_runs;   /* such runs in use at the same time */
} source_near_t;

/* One thread's buffer; starts zeroed. Its content is valid until the next read into it. */
typedef struct source_buffer {
    void *block;
    size_t n_bytes;
    void *impl;
    source_near_t near; /* set by the caller; a source may read all these samples at once */
} source_buffer_t;

typedef struct source_ops {
    bool raw;         /* stored as pixels; images are encoded when opened */
    bool files;       /* a file per image */
    const char *kind; /* "folder", "coco", "idx", "shards" */
    const char *what; /* the content of such a folder, for messages */
    bool (*is)(const char *path);
    /* See source_classes. NULL: this kind has no folders of classes. */
    err_t (*classes)(const char *path, split_t split, char out[FS_PATH_MAX]);
    /* Fills in the source; leaves hash 0 if it takes reading every sample. */
    err_t (*open)(source_t *source, const char *path);
    void (*close)(source_t *source); /* frees impl; NULL: there is none */
    /* Thread-safe. ERR_DATA names the sample: its file is missing, truncated or changed. NULL, as all that follows, for lists
     * of images (source_t.samples). */
    err_t (*read)(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out);
    void (*free_buffer)(source_buffer_t *buffer); /* frees impl, not block; may be NULL */
    /* As `read` without the image: bytes is NULL; width and height are 0 if unknown. NULL: use `read`. */
    err_t (*describe)(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out);
    /* Serialise and restore an opened source; see source_save and source_restore. */
    err_t (*save)(const source_t *source, void **bytes, int64_t *n_bytes);
    err_t (*restore)(source_t *source, void **bytes, int64_t n_bytes);
} source_ops_t;

struct source {
    const source_ops_t *ops;
    char path[FS_PATH_MAX];
    int64_t n_samples[SPLIT_COUNT];       /* either may be 0 */
    source_entry_t *entries[SPLIT_COUNT]; /* [n_samples] from mem_new, or in `block` */
    /* A list of images, by mem_new or in `block`: files in folders, or with their bytes. Otherwise NULL. */
    sample_t *samples[SPLIT_COUNT];
    char folders[SPLIT_COUNT][FS_PATH_MAX];
    arena_t arena; /* what these and categories point to; of a restored list the block */
    void *block;
    int32_t n_categories;
    const category_t *categories;
    bool has_annotations; /* otherwise every sample has a label */
    source_boxes_t boxes; /* of lists */
    /* Of names, sizes, labels and annotations, without the images; equal for a folder and its shards. */
    uint64_t hash;
    char notes[SOURCE_NOTES_MAX]; /* lines for the user about corrected or skipped data; "" if none */
    /* In the process that listed the data; "" if there is nothing to say.
     *
     *   about  lines; which folder is which split: "training train/, validation valid/"; of lists also what of them is
     *          left out, and for what boxes of images with an EXIF orientation are taken
     *   hint   why there are no training images, or one class, and what to do */
    char about[SOURCE_ABOUT_MAX], hint[SOURCE_HINT_MAX];
    /* During source_open_watched; may be NULL. */
    const open_watch_t *watch;
    const list_rules_t *rules;
    void *impl;
};

/* Opens a source; the first kind whose `is` matches reads it. ERR_DATA lists what each kind expects.
 *
 *   shards  written by `dptrain data pack`
 *   coco    lists of COCO's form and their images: annotations/instances_X.json with X/ or images/X/, X.json beside or
 *           in X/, a single list with images somewhere below, or the list itself. X has the word of a split as the
 *           folders below; a list without one trains, if it is the only one. Names that are written otherwise than
 *           their files' paths are resolved. `rules` say what happens to images that are missing, and how much of a
 *           list may be left out. The categories are those of the training list
 *   idx     MNIST's four files, encoded as PNG when opened (60 µs of one core per image)
 *   folder  train/ and val/ with a folder per class, or under other names of splits, in any case: training; valid,
 *           validation, dev, test, testing; all also with "set". Without a training folder the other folders are the
 *           classes of SPLIT_TRAIN, and without these SPLIT_TRAIN is empty. The first of val, dev and test is SPLIT_VAL;
 *           test only if its folders are classes of the training images. Names of splits are classes only in train/.
 *           Images are .png, .jpg and .jpeg at any depth of a class's folder; classes and files are sorted by name
 *           (bytes). Links are followed, except back to a folder that contains them. Names that begin with a dot and
 *           litter (Thumbs.db, __MACOSX, …) are skipped; what else is not used is in the notes. val's classes must
 *           be among train's, and each class in train must have an image.
 *
 * rules and watch may be NULL. */
/* The kind of the source at `path`, without opening it. ERR_DATA as source_open. */
err_t source_find_kind(const char *path, const source_ops_t **out);
err_t source_open(const char *path, source_t **out);
err_t source_open_watched(const char *path, const list_rules_t *rules, const open_watch_t *watch,
                          source_t **out);
void source_close(source_t **source);
/* A source as bytes for other processes: one rank lists the folder or reads the annotations or index; the others then open
 * only the files they read samples from. cluster/comm/comm.h sends the bytes, which hold
 *
 *   folder, coco  the list of images with sizes, labels and annotations
 *   idx           also the images: a few megabytes, and encoding PNGs costs far more than sending them
 *   shards        the index
 *
 * Sender and receiver are the same build, so the format may change. Lengths and indices are checked all the same.
 * Takes about as much memory as the source. Free *bytes with mem_free. */
err_t source_save(const source_t *source, void **bytes, int64_t *n_bytes);

/* Restores a source with the same entries, samples, hash and notes. Verifies that this host has the first and
 * last image (or shard) of each split; the others are checked when they are read.
 *
 *   bytes  from mem.h; taken over and set to NULL, or modified and left for the caller to free
 *
 * ERR_DATA: the bytes are damaged, or a file is missing or differs on this host. */
err_t source_restore(void **bytes, int64_t n_bytes, source_t **out);

/* The folder, existing or not, whose subfolders are the classes of the source at `path`; "" if none. */
err_t source_classes(const char *path, split_t split, char out[FS_PATH_MAX]);

/* Reads a sample and its image's header. ERR_DATA: not an image, or its size, as stored and as shown, differs from
 * the entry's. */
err_t source_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                  sample_t *out);
/* Everything known without the image; bytes is NULL unless the kind implements only `read`. */
err_t source_describe(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                      sample_t *out);
/* The headers of the image of a sample that was read, as its annotations see it: if they are for the image as shown,
 * as if it were stored like that, with the orientation 1. `name` is for messages. */
err_t source_info(const sample_t *sample, const char *name, image_info_t *out);
/* The path of the file with a split's annotations in COCO's folder; where there is none, COCO's name, which does not
 * exist. ERR_DATA as source_open. */
err_t source_coco_list(const char *path, split_t split, char out[FS_PATH_MAX]);
void source_free_buffer(const source_t *source, source_buffer_t *buffer);

/* Size of an image as stored. */
int64_t source_stored_bytes(const source_t *source, const source_entry_t *entry);

/* Logs each line of the notes as a warning of rank 0. */
void source_warn_notes(const source_t *source);

extern const source_ops_t source_folder, source_coco, source_idx, source_shards;

#endif
