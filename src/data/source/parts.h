/* SPDX-License-Identifier: MIT */
/* Helpers that the kinds of sources share. Private to data/source. */
#ifndef DATA_SOURCE_PARTS_H
#define DATA_SOURCE_PARTS_H

#include <dirent.h>
#include <limits.h>

#include "base/mem.h"
#include "data/coco/coco.h"
#include "data/source/source.h"

/* Called repeatedly while opening, to tell the watchdog that work goes on. */
err_t source_alive(const source_t *source);

/* Sets source->hash from every sample. */
err_t source_measure_hash(source_t *source);

/* Moves a share of the training samples to validation; both keep their order. ERR_USAGE, ERR_DATA: see holdout_t. */
err_t source_hold_out(source_t *source, const holdout_t *holdout);

/* The start of a saved source; source_save fills it in. */
typedef struct source_frame {
    int64_t n_bytes; /* including the frame */
    char kind[16], path[FS_PATH_MAX];
} source_frame_t;

/* Makes room for the samples and entries of a split. */
err_t source_list_new(source_t *source, split_t split, int64_t n);

/* source_save and source_restore of a list of images. */
err_t source_list_save(const source_t *source, void **bytes, int64_t *n_bytes);
err_t source_list_restore(source_t *source, void **bytes, int64_t n_bytes);

/* Verifies that this host has the file folder/name with n_bytes; ERR_DATA names it. */
err_t source_check_file(const char *folder, const char *name, int64_t n_bytes);

/* Appends a line to the notes, or drops it if they are full. */
void source_note(source_t *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a line to source->about, or drops it. */
void source_tell(source_t *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The size and time of an image file.
 *
 *   folder_fd  the folder's descriptor; `folder` is its path, for messages
 *   found      set to false if the file does not exist
 *   time_ns    when it was modified
 *
 * ERR_DATA names a file that is inaccessible, not regular, or too large. */
err_t source_stat(int folder_fd, const char *folder, const char *name, bool *found, int64_t *n_bytes,
                  int64_t *time_ns);

/* Sets source->boxes of a list from source->rules and the headers of some images of each split, and tells what it found
 * if some have an orientation. Images that cannot be read are left to whoever reads them. ERR_DATA: --exif-boxes
 * contradicts an image's size. */
err_t source_look_at_boxes(source_t *source);

/* folder_list.c: what a folder of images holds. Hidden names, those that begin with a dot, and litter (Thumbs.db,
 * __MACOSX, …) are skipped everywhere; links are followed. */

/* What a folder's name says that it is. A validation folder is chosen in this order. */
typedef enum folder_role {
    FOLDER_TRAIN, /* train, training, in any case, also with "set": train_set, trainset */
    FOLDER_VAL,   /* val, valid, validation */
    FOLDER_DEV,   /* dev */
    FOLDER_TEST,  /* test, testing */
    FOLDER_OTHER
} folder_role_t;
enum { FOLDER_ROLES = FOLDER_OTHER };
folder_role_t folder_role(const char *name);
/* Whether a word of the name is such a name: "seg_train". */
bool folder_names_role(const char *name);

bool folder_is_archive(const char *name); /* by its ending */

/* ERR_DATA: not a folder, or not readable. */
err_t folder_open(const char *path, DIR **out);
/* The next entry; NULL at the end. */
err_t folder_next(DIR *dir, const char *path, const struct dirent **out);

/* Names in an arena; free `names` with mem_free. */
typedef struct folder_names {
    int64_t n;
    const char **names;
} folder_names_t;
err_t folder_add_name(arena_t *arena, folder_names_t *names, const char *name);
void folder_sort_names(folder_names_t *names); /* by bytes */

/* A folder's entries. Zeroed: empty. */
typedef struct folder_list {
    folder_names_t folders, others; /* sorted; others: neither folders nor images, as shown */
    int64_t n_images, n_archives;   /* archives are among the others */
    char first_image[NAME_MAX + 1], last_image[NAME_MAX + 1]; /* by name */
    bool numbered;                                            /* every image's name is a word and a number */
} folder_list_t;
err_t folder_list(arena_t *arena, const char *path, folder_list_t *out);
void folder_list_free(folder_list_t *l);

/* Whether the images' names begin with several words: cat.0.jpg, dog.1.jpg. */
bool folder_images_tell_classes(const folder_list_t *l);

/* These raise nothing. */
bool folder_has_folders(const char *path);
bool folder_has_content(const char *path);           /* folders, images or archives */
bool folder_has_images(const char *path, int depth); /* in it, or up to `depth` folders below */
/* Whether it has a training folder with folders in it. */
bool folder_has_training(const char *path);
/* Whether it has a training folder without images, in which several folders have some: classes. */
bool folder_trains_classes(const char *path);
/* The last component of the resolved path, and the folder that contains it: as typed, if that is its beginning.
 * False: there is none. */
bool folder_find_parent(const char *path, char name[FS_PATH_MAX], char parent[FS_PATH_MAX]);

/* Makes one printable line of text from file names. */
void folder_mask_line(char *text);

/* Raises ERR_DATA about a folder in which there should be folders of classes: it holds images, archives or nothing.
 *
 *   train  the training folder, if these are validation images; else NULL */
err_t folder_report_no_classes(const char *path, const folder_list_t *l, const char *train);

/* coco_find.c: lists of COCO's form in a folder, and which of them serves as which split. Names are searched in
 * COCO's folders of lists, in the folder itself and in folders of splits. */

/* Whether the images of a list are missing while those of the other are here. COCO_MAY_BE_ABSENT: its first one is. */
typedef enum coco_absent { COCO_NOT_ABSENT, COCO_MAY_BE_ABSENT, COCO_ABSENT } coco_absent_t;

enum { COCO_UNUSED_SHOWN = 3 };

typedef struct coco_layout {
    char base[FS_PATH_MAX]; /* the folder; of a list that was given, the one that has its images */
    char list[SPLIT_COUNT][FS_PATH_MAX];  /* "": none */
    char word[SPLIT_COUNT][NAME_MAX + 1]; /* the name of the split, as in the list's: "train2017" */
    coco_absent_t absent[SPLIT_COUNT];
    bool tests; /* the list for validation is a test's */
    int n_unused;
    char unused[SOURCE_HINT_MAX]; /* the first COCO_UNUSED_SHOWN of them */
} coco_layout_t;

/* A folder with such a list, or the list itself. Raises nothing. */
bool coco_is(const char *path);
/* ERR_DATA: several lists could serve as one split, or a folder as COCO's is without its list. */
err_t coco_find(const char *path, coco_layout_t *out);
/* "stuff.json, unlabeled2017/": name and `end`, while there is room */
void coco_add_unused(coco_layout_t *layout, const char *name, const char *end);
bool coco_is_list_folder(const char *name); /* "annotations" */
folder_role_t coco_role(const char *name);  /* as folder_role; a year may follow: "train2017" */

/* coco_images.c: folders that may have the images of a list. Zeroed: none. */
typedef struct coco_roots {
    arena_t arena;
    const char *base;
    int n, n_near;      /* the first n_near are the usual ones, the best first */
    const char **paths; /* [n] */
    bool own;           /* the first is a folder of the split's name */
    bool far;           /* the others are there, too */
} coco_roots_t;
/* Those of a list in the folder `base`. Raises ERR_SYSTEM only. */
err_t coco_roots_find(const char *base, const char *list, const char *word, coco_roots_t *out);
void coco_roots_free(coco_roots_t *roots);
/* The first that has an image of this name, as it is written or written otherwise; NULL: none.
 *
 *   file  the image's path below it */
const char *coco_roots_have(coco_roots_t *roots, const char *name, char file[FS_PATH_MAX]);
/* Adds a folder, if it is one. */
err_t coco_roots_add(coco_roots_t *roots, const char *path);
/* The folder that has most of the images, of which some are looked at.
 *
 *   out  NULL: none has one of them
 *
 * ERR_DATA: several have them, and their places do not tell which is meant. */
err_t coco_roots_choose(coco_roots_t *roots, const coco_image_t *images, int64_t n, const char **out);

/* The folder in which names in other capitals may be, when none is found as it is written: the split's own; the first
 * usual one, or else the only one, with images; or all. */
err_t coco_roots_guess(coco_roots_t *roots, const char **out);

/* Finds images whose names are written otherwise than their files' paths below the folder: with folders that are above or
 * do not exist, backslashes, URLs, %20, capitals, composed or decomposed letters. Zeroed: unused. */
typedef struct coco_names {
    arena_t arena;
    const char *root;
    int n_dropped; /* leading folders of the last name that was found */
    bool listed;
    int64_t n;
    struct coco_file *files; /* [n] of the folder, sorted by their folded paths */
} coco_names_t;
/* Whether a name can be a path as it is: inside the folder, without empty parts, "." and "..". */
bool coco_name_is_path(const char *name);
/* *out: the path of the file that the name means, from the arena; NULL: none or several. */
err_t coco_names_find(coco_names_t *names, const char *name, const char **out);
/* *out: the name of a missing file as a path inside the folder, from the arena. */
err_t coco_names_missing(coco_names_t *names, const char *name, const char **out);
void coco_names_free(coco_names_t *names);

/* formats.c: ERR_DATA with what converts them: a folder whose images have annotations in another format than COCO's. */
err_t formats_refuse(const char *path);

#endif
