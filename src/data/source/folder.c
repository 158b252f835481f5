/* SPDX-License-Identifier: MIT */
/* An image folder as a source: a folder per class, in the folders of splits if there are any. Decides which folder
 * serves as what, refuses what only looks like classes, and names what is not used. Lists and sorts everything when
 * opened, so that the order does not depend on the file system. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "data/image/image.h"
#include "data/source/parts.h"

/* SEARCH_DEPTH: how far below a folder images are looked for where that only decides about messages. */
enum { MAX_DEPTH = 64, SEARCH_DEPTH = 4, NAMES_SHOWN = 3 };

typedef struct file {
    const char *name; /* "dog/17.png" */
    int64_t n_bytes, time_ns;
    int32_t label;
} file_t;

/* The images of a split, while they are listed. */
typedef struct part {
    const char *folder; /* "" if there is none */
    int64_t n_files;
    file_t *files;
} part_t;

typedef struct folder_id {
    dev_t device;
    ino_t inode;
} folder_id_t;

/* While the source is opened. */
typedef struct impl {
    arena_t *arena;               /* the source's */
    folder_id_t above[MAX_DEPTH]; /* the folders that contain the one being listed */
    int depth;
    /* Files other than images in the folders of classes. */
    int64_t n_others;
    char first_other[FS_PATH_MAX];
} impl_t;

/* What serves as what, while the source is opened. */
typedef struct layout {
    const char *of[FOLDER_ROLES]; /* in `top`; NULL: no such folder */
    const char *val, *unfit;      /* what serves as validation; a test folder that cannot */
    const char *runs;             /* train's output */
    folder_names_t classes;       /* the folders in `top` that are not of splits */
    folder_list_t top, train, validation;
} layout_t;

/* Names of classes and samples go into records and checkpoints. */
static err_t check_name(const char *path, const char *name)
{
    if (utf8_is_printable(name)) return ERR_OK;
    RAISE(ERR_DATA,
          "a file name in the folder %s is not valid UTF-8 or has control characters; rename the file", path);
}

/* Enters a folder; *again: one of the folders above is the same, by a link. */
static err_t enter_folder(impl_t *impl, const char *path, const struct stat *info, bool *again)
{
    *again = false;
    for (int i = 0; i < impl->depth; i++)
        *again = *again || (impl->above[i].device == info->st_dev && impl->above[i].inode == info->st_ino);
    if (*again) return ERR_OK;
    if (impl->depth == MAX_DEPTH)
        RAISE(ERR_DATA, "%s: folders are nested more than %d deep", path, MAX_DEPTH);
    impl->above[impl->depth++] = (folder_id_t){info->st_dev, info->st_ino};
    return ERR_OK;
}

/* A folder of class folders. */
static err_t enter_path(impl_t *impl, const char *path)
{
    struct stat info;
    bool again;
    if (stat(path, &info) != 0) RAISE(ERR_DATA, "cannot access %s: %s", path, strerror(errno));
    return enter_folder(impl, path, &info, &again);
}

/* Whether it is a source of another kind, or has a training folder with folders in it. */
static bool is_data_set(const char *path)
{
    return source_shards.is(path) || source_coco.is(path) || source_idx.is(path) || folder_has_training(path);
}

/* *budget limits how many folders are looked at. */
static bool find_below(arena_t *arena, const char *path, int depth, int *budget, char out[FS_PATH_MAX])
{
    folder_list_t l = {.n_images = 0};
    bool found = false;
    if (folder_list(arena, path, &l) == ERR_OK)
        for (int64_t i = 0; i < l.folders.n && !found && (*budget)-- > 0; i++) {
            char below[FS_PATH_MAX];
            if (fs_join(below, path, l.folders.names[i]) != ERR_OK) continue;
            found = is_data_set(below);
            if (found) memcpy(out, below, sizeof below);
            if (!found && depth > 0) found = find_below(arena, below, depth - 1, budget, out);
        }
    folder_list_free(&l);
    return found;
}

/* Searches the folders below for a data set, as far as that is quick. */
static bool find_data_set(const char *path, char out[FS_PATH_MAX])
{
    enum { DEPTH = 2 };
    arena_t arena = {0};
    int budget = 200;
    const bool found = find_below(&arena, path, DEPTH, &budget, out);
    arena_free(&arena);
    return found;
}

/* Folders that are data sets, among those that should be classes. */
static err_t report_data_sets(const char *path, const folder_names_t *folders)
{
    enum { MAX_SHOWN = 5 };
    char below[FS_PATH_MAX], quoted[FS_PATH_MAX] = "", list[ERR_MESSAGE_MAX / 2] = "";
    int n = 0;
    for (int64_t i = 0; i < folders->n && n < MAX_SHOWN; i++) {
        const size_t used = strlen(list);
        if (fs_join(below, path, folders->names[i]) != ERR_OK || !is_data_set(below)) continue;
        if (n == 0) fs_quote(below, quoted, sizeof quoted);
        snprintf(list + used, sizeof list - used, "%s%.90s", n++ > 0 ? ", " : "", folders->names[i]);
    }
    RAISE(ERR_DATA, "%s holds data sets, not classes; choose one of its folders, such as %s: --data %s", path,
          list, quoted);
}

typedef struct class_walk {
    source_t *source;
    part_t *part;
    const folder_names_t *classes; /* all of the part */
    int32_t label;
    size_t n_root;          /* the length of the path before the class's name */
    char path[FS_PATH_MAX]; /* of the folder being listed */
    /* Files other than images. */
    int64_t n_others, n_archives;
    char first_other[NAME_MAX + 1];
} class_walk_t;

/* The folders in a class's folder must not be splits, nor the class's folder a data set. */
static err_t check_class(const class_walk_t *w, const folder_names_t *below, bool has_images)
{
    bool has[FOLDER_ROLES + 1] = {false};
    const char *split = NULL, *class_name = w->path + w->n_root;
    for (int64_t i = 0; i < below->n; i++) {
        has[folder_role(below->names[i])] = true;
        if (!split && folder_role(below->names[i]) != FOLDER_OTHER) split = below->names[i];
    }
    if (is_data_set(w->path)) return report_data_sets(w->part->folder, w->classes);
    const bool only = !has[FOLDER_OTHER] && !has_images,
               both = has[FOLDER_TRAIN] && (has[FOLDER_VAL] || has[FOLDER_DEV] || has[FOLDER_TEST]);
    if (!split || (!only && !both)) return ERR_OK;
    RAISE(ERR_DATA,
          "%s/%s is the folder of a split in the folder of a class; the splits have to be above the classes: "
          "%s/%.200s/, not %.200s/%s/",
          w->path, split, split, class_name, class_name, split);
}

/* Adds the images of the folder w->path, and its subfolders to `below`. */
static err_t list_images(class_walk_t *w, DIR *dir, folder_names_t *below)
{
    impl_t *impl = w->source->impl;
    part_t *part = w->part;
    const struct dirent *entry;
    int64_t n_others = 0;
    char first[NAME_MAX + 1] = ""; /* by name: readdir's order is arbitrary */
    for (;;) {
        TRY(source_alive(w->source));
        TRY(folder_next(dir, w->path, &entry));
        if (!entry) break;
        const char *name = entry->d_name;
        if (entry->d_type != DT_DIR && image_is_named(name)) {
            bool found = false;
            file_t file = {.label = w->label};
            TRY(check_name(w->path, name));
            TRY(source_stat(dirfd(dir), w->path, name, &found, &file.n_bytes, &file.time_ns));
            if (!found) RAISE(ERR_DATA, "%s/%s is a broken link", w->path, name);
            TRY(mem_grow(part->n_files + 1, sizeof *part->files, "a list of images", &part->files));
            TRY(arena_format(impl->arena, &file.name, "%s/%s", w->path + w->n_root, name));
            part->files[part->n_files++] = file;
        } else if (fs_entry_is_folder(dir, entry)) {
            TRY(check_name(w->path, name));
            TRY(folder_add_name(impl->arena, below, name));
        } else {
            if (n_others++ == 0 || strcmp(name, first) < 0) snprintf(first, sizeof first, "%s", name);
            w->n_archives += folder_is_archive(name);
        }
    }
    folder_sort_names(below);
    if (n_others == 0) return ERR_OK;
    if (w->n_others == 0) memcpy(w->first_other, first, sizeof first);
    if (impl->n_others == 0) TRY(fs_join(impl->first_other, w->path, first));
    w->n_others += n_others;
    impl->n_others += n_others;
    return ERR_OK;
}

static err_t walk_folder(class_walk_t *w, bool is_class)
{
    impl_t *impl = w->source->impl;
    const size_t n = strlen(w->path), room = sizeof w->path - n;
    const int depth = impl->depth;
    const int64_t n_before = w->part->n_files;
    folder_names_t below = {0};
    struct stat info;
    bool again = false;
    DIR *dir = NULL;
    err_t err = ERR_OK;
    TRY(folder_open(w->path, &dir));
    if (fstat(dirfd(dir), &info) != 0)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot read the folder %s: %s", w->path,
                        strerror(errno));
    if (err == ERR_OK) err = enter_folder(impl, w->path, &info, &again);
    if (err == ERR_OK && !again) err = list_images(w, dir, &below);
    closedir(dir); /* before the folders below are opened, of which there may be many */
    if (err == ERR_OK && is_class && below.n > 0) err = check_class(w, &below, w->part->n_files > n_before);
    for (int64_t i = 0; err == ERR_OK && i < below.n; i++) {
        if ((size_t)snprintf(w->path + n, room, "/%s", below.names[i]) >= room)
            RAISE_OUT(err, ERR_DATA, "the path %.80s… is longer than %d bytes", w->path, FS_PATH_MAX);
        err = walk_folder(w, false);
        w->path[n] = '\0';
    }
out:
    impl->depth = depth;
    mem_free(&below.names);
    return err;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const file_t *)a)->name, ((const file_t *)b)->name);
}

/* The label of a class; -1: unknown. */
static int32_t find_label(const source_t *source, const char *class_name)
{
    int32_t low = 0, high = source->n_categories; /* sorted by name */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(class_name, source->categories[middle].name);
        if (order == 0) return middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

/* What to do if one folder has all images. Goes down while it holds just one folder.
 *
 *   path   of the folder; changed
 *   train  the path of the training folder; NULL: there is none */
static err_t hint_of_one_class(impl_t *impl, char path[FS_PATH_MAX], const char *train, char *out,
                               size_t n_bytes)
{
    char quoted[FS_PATH_MAX];
    folder_list_t l = {.n_images = 0};
    err_t err = ERR_OK;
    for (;;) {
        const size_t n = strlen(path);
        TRY_OUT(err, folder_list(impl->arena, path, &l));
        if (l.n_images > 0 || l.folders.n != 1 || n + strlen(l.folders.names[0]) + 1 >= FS_PATH_MAX) break;
        snprintf(path + n, FS_PATH_MAX - n, "/%s", l.folders.names[0]);
        folder_list_free(&l);
        l = (folder_list_t){.n_images = 0};
    }
    fs_quote(path, quoted, sizeof quoted);
    if (l.n_images > 0 || l.folders.n < 2)
        snprintf(out, n_bytes, "every image is in %.400s: each class needs a folder of its own", path);
    else
        snprintf(out, n_bytes, "the folders %.80s, %.80s%s may be the classes%s%.250s", l.folders.names[0],
                 l.folders.names[1], l.folders.n > 2 ? ", …" : "",
                 train ? "; then move them into " : ": --data ", train ? train : quoted);
out:
    folder_list_free(&l);
    return err;
}

/* w: of the first class without images. */
static err_t report_empty_class(const class_walk_t *w, int64_t n_empty)
{
    char path[FS_PATH_MAX], quoted[FS_PATH_MAX], first[NAME_MAX + 1], others[64] = "",
                                                                      inside[NAME_MAX + 64] = "";
    char set[ERR_MESSAGE_MAX / 3] = "";
    for (int64_t i = 0; i < w->classes->n; i++)
        if (fs_join(path, w->part->folder, w->classes->names[i]) == ERR_OK && is_data_set(path))
            return report_data_sets(w->part->folder, w->classes);
    if (find_data_set(w->part->folder, path)) {
        fs_quote(path, quoted, sizeof quoted);
        snprintf(set, sizeof set, "; a data set is deeper: --data %.300s", quoted);
    } else if (n_empty == w->classes->n - 1) {
        const char *folder = w->part->folder, *train = strcmp(folder, w->source->path) != 0 ? folder : NULL;
        TRY(fs_join(path, folder, w->source->categories[w->part->files[0].label].name));
        snprintf(set, sizeof set, "; ");
        TRY(hint_of_one_class(w->source->impl, path, train, set + 2, sizeof set - 2));
    }
    memcpy(first, w->first_other, sizeof first);
    folder_mask_line(first);
    if (n_empty > 1)
        snprintf(others, sizeof others, " and %" PRId64 " more folder%s of classes", n_empty - 1,
                 n_empty > 2 ? "s" : "");
    if (w->n_others > 0)
        snprintf(inside, sizeof inside,
                 w->n_archives > 0 ? ", but archives to unpack, such as %s" : ", but files such as %s",
                 first);
    RAISE(ERR_DATA, "%s%s hold%s no image (.png, .jpg, .jpeg)%s; each class needs training images%s", w->path,
          others, n_empty > 1 ? "" : "s", inside, set);
}

/* Lists the images of a split. The first that is opened brings the classes. */
static err_t open_part(source_t *source, split_t split, const folder_names_t *classes)
{
    const char *folder = source->folders[split];
    part_t part = {.folder = folder};
    class_walk_t empty = {.n_others = 0};
    int64_t n_empty = 0;
    err_t err = ERR_OK;
    if (!source->categories) {
        category_t *categories;
        if (classes->n > INT32_MAX) RAISE(ERR_DATA, "%s has more than %d classes", folder, INT32_MAX);
        TRY(arena_new(&source->arena, (size_t)classes->n * sizeof *categories, &categories));
        for (int64_t i = 0; i < classes->n; i++) {
            TRY(check_name(folder, classes->names[i]));
            categories[i] = (category_t){i, classes->names[i], ""};
        }
        source->n_categories = (int32_t)classes->n;
        source->categories = categories;
    }
    for (int64_t i = 0; i < classes->n; i++) {
        const int64_t n_before = part.n_files;
        class_walk_t w = {source, &part, classes, find_label(source, classes->names[i]), .n_others = 0};
        if (w.label < 0)
            RAISE_OUT(err, ERR_DATA, "%s has the class %s, which the training images lack", folder,
                      classes->names[i]);
        TRY_OUT(err, fs_join(w.path, folder, classes->names[i]));
        w.n_root = strlen(w.path) - strlen(classes->names[i]);
        TRY_OUT(err, walk_folder(&w, true));
        if (part.n_files > n_before)
            qsort(part.files + n_before, (size_t)(part.n_files - n_before), sizeof *part.files,
                  compare_files);
        else if (n_empty++ == 0)
            empty = w;
    }
    if (split == SPLIT_TRAIN && n_empty > 0) TRY_OUT(err, report_empty_class(&empty, n_empty));
    if (part.n_files == 0) RAISE_OUT(err, ERR_DATA, "%s holds no image (.png, .jpg, .jpeg)", folder);
    TRY_OUT(err, source_list_new(source, split, part.n_files));
    for (int64_t i = 0; i < part.n_files; i++) {
        const file_t *file = &part.files[i];
        source->samples[split][i] =
            (sample_t){.id = i, .name = file->name, .label = file->label, .n_bytes = (size_t)file->n_bytes};
        source->entries[split][i] =
            (source_entry_t){.n_bytes = file->n_bytes, .label = file->label, .time_ns = file->time_ns};
    }
out:
    mem_free(&part.files);
    return err;
}

/* The folder of each role; NULL if there is none. Of several names of a role, the one with images. */
static err_t find_roles(const char *path, const folder_names_t *folders, const char *of[FOLDER_ROLES])
{
    for (int64_t i = 0; i < folders->n; i++) {
        const char *name = folders->names[i];
        const folder_role_t role = folder_role(name);
        char earlier[FS_PATH_MAX], this[FS_PATH_MAX];
        if (role == FOLDER_OTHER) continue;
        if (!of[role]) {
            of[role] = name;
            continue;
        }
        TRY(fs_join(earlier, path, of[role]));
        TRY(fs_join(this, path, name));
        if (!folder_has_images(this, SEARCH_DEPTH)) continue;
        if (folder_has_images(earlier, SEARCH_DEPTH))
            RAISE(
                ERR_DATA,
                "%s has images in both %s/ and %s/, which are names of the same split; keep one of them, or join them",
                path, of[role], name);
        of[role] = name;
    }
    return ERR_OK;
}

static folder_role_t validation_role(const char *const of[FOLDER_ROLES])
{
    folder_role_t role = FOLDER_VAL;
    while (role < FOLDER_OTHER && !of[role]) role++;
    return role;
}

/* Names of splits in the training folder are classes, unless there are no others and they hold folders. */
static err_t check_not_splits(const char *path, const folder_names_t *folders)
{
    char below[FS_PATH_MAX], quoted[FS_PATH_MAX];
    bool deep = false;
    for (int64_t i = 0; i < folders->n; i++) {
        const folder_role_t role = folder_role(folders->names[i]);
        if (role == FOLDER_OTHER || fs_join(below, path, folders->names[i]) != ERR_OK) return ERR_OK;
        deep = deep || role == FOLDER_TRAIN || folder_has_folders(below);
    }
    if (!deep) return ERR_OK;
    fs_quote(path, quoted, sizeof quoted);
    RAISE(ERR_DATA, "%s/%s is the folder of a split, where folders of classes are expected: --data %s", path,
          folders->names[0], quoted);
}

/* Splits under names of their own, such as seg_train/ and seg_test/: class folders that hold only folders. */
static err_t check_not_named_splits(impl_t *impl, const char *path, const folder_names_t *classes)
{
    const char *split = NULL;
    bool deep = true;
    for (int64_t i = 0; i < classes->n && !split; i++)
        if (folder_names_role(classes->names[i])) split = classes->names[i];
    for (int64_t i = 0; split && deep && i < classes->n; i++) {
        folder_list_t l = {.n_images = 0};
        char below[FS_PATH_MAX];
        TRY(fs_join(below, path, classes->names[i]));
        err_t err = folder_list(impl->arena, below, &l);
        deep = l.folders.n > 0 && l.n_images == 0;
        folder_list_free(&l);
        TRY(err);
    }
    if (!split || !deep) return ERR_OK;
    RAISE(
        ERR_DATA,
        "%s/%s is a class by its place, but a split by its name, and holds folders. Rename splits to train/, val/ "
        "and test/; if it is a class, move all folders of classes into a new folder train/",
        path, split);
}

/* Of a split's folder: it may be a class among others that has the name of a split. */
static err_t check_not_class(const char *path, const char *name, const folder_list_t *l,
                             const folder_names_t *classes)
{
    if (l->n_images == 0 || l->folders.n > 0 || classes->n == 0 || folder_images_tell_classes(l))
        return ERR_OK;
    RAISE(
        ERR_DATA,
        "%s holds images, but no folders of classes; %s/ is the name of a split. If it is a class like %s/, move all "
        "folders of classes into a new folder train/",
        path, name, classes->names[0]);
}

/* Why a test folder does not validate: its folders have to be classes with images. NULL: it does. */
static const char *why_unfit(const source_t *source, const char *path, const folder_list_t *l)
{
    if (l->folders.n == 0)
        return l->n_images > 0 ? "images without folders of classes" : "no folders of classes";
    for (int64_t i = 0; i < l->folders.n; i++)
        if (find_label(source, l->folders.names[i]) < 0) return "folders that are not classes";
    return folder_has_images(path, SEARCH_DEPTH) ? NULL : "no images";
}

/* Opens train/ or, without it, the folders that are not splits. */
static err_t open_training(source_t *source, layout_t *layout)
{
    impl_t *impl = source->impl;
    char *folder = source->folders[SPLIT_TRAIN];
    const char *train = layout->of[FOLDER_TRAIN];
    const int depth = impl->depth;
    if (!train && layout->classes.n == 0) return ERR_OK;
    if (!train) {
        TRY(fs_join(folder, "", source->path));
        TRY(check_not_named_splits(impl, folder, &layout->classes));
        return open_part(source, SPLIT_TRAIN, &layout->classes);
    }
    TRY(fs_join(folder, source->path, train));
    TRY(folder_list(impl->arena, folder, &layout->train));
    TRY(check_not_class(folder, train, &layout->train, &layout->classes));
    if (layout->train.folders.n == 0) return folder_report_no_classes(folder, &layout->train, NULL);
    TRY(check_not_splits(folder, &layout->train.folders));
    TRY(enter_path(impl, folder));
    TRY(open_part(source, SPLIT_TRAIN, &layout->train.folders));
    impl->depth = depth;
    return ERR_OK;
}

static err_t open_validation(source_t *source, layout_t *layout)
{
    impl_t *impl = source->impl;
    const char *train = source->folders[SPLIT_TRAIN];
    char *folder = source->folders[SPLIT_VAL];
    const folder_role_t role = validation_role((const char *const *)layout->of);
    folder_list_t *l = &layout->validation;
    if (role == FOLDER_OTHER) return ERR_OK;
    TRY(fs_join(folder, source->path, layout->of[role]));
    TRY(folder_list(impl->arena, folder, l));
    const char *why = role == FOLDER_TEST && train[0] ? why_unfit(source, folder, l) : NULL;
    if (why) {
        source_note(source, "%s/ is not used for validation: %s", layout->of[role], why);
        layout->unfit = layout->of[role];
        folder[0] = '\0';
        folder_list_free(l);
        *l = (folder_list_t){.n_images = 0};
        return ERR_OK;
    }
    if (!layout->of[FOLDER_TRAIN]) TRY(check_not_class(folder, layout->of[role], l, &layout->classes));
    if (l->folders.n == 0) return folder_report_no_classes(folder, l, train[0] ? train : NULL);
    bool known = !source->categories; /* its images may be in one folder, without classes */
    for (int64_t i = 0; !known && i < l->folders.n; i++) known = find_label(source, l->folders.names[i]) >= 0;
    if (!known)
        RAISE(
            ERR_DATA,
            "%s has no folder of a training class such as %s, but %s; sort its images into folders as in %s, or move "
            "%s away to validate on the training images",
            folder, source->categories[0].name, l->folders.names[0], train, folder);
    TRY(enter_path(impl, folder));
    TRY(open_part(source, SPLIT_VAL, &l->folders));
    layout->val = layout->of[role];
    return ERR_OK;
}

/* Why there is nothing to train on, or one class only, and what to do. */
static err_t make_hint(source_t *source, const layout_t *layout)
{
    impl_t *impl = source->impl;
    const char *train = source->folders[SPLIT_TRAIN];
    char path[FS_PATH_MAX], quoted[FS_PATH_MAX];
    if (source->n_samples[SPLIT_TRAIN] == 0) {
        snprintf(
            source->hint, sizeof source->hint,
            "%s/ is the name of a split, but train/ is missing beside it. Move the training classes into train/, including "
            "%s/ if it is one of them%s",
            layout->val, layout->val, layout->top.n_archives > 0 ? "; there are archives to unpack" : "");
        return ERR_OK;
    }
    if (source->n_categories != 1) return ERR_OK;
    if (find_data_set(source->path, path)) {
        fs_quote(path, quoted, sizeof quoted);
        snprintf(source->hint, sizeof source->hint, "a data set is deeper: --data %.400s", quoted);
        return ERR_OK;
    }
    TRY(fs_join(path, train, source->categories[0].name));
    return hint_of_one_class(impl, path, layout->of[FOLDER_TRAIN] ? train : NULL, source->hint,
                             sizeof source->hint);
}

typedef struct unused {
    source_t *source;
    int64_t n;
    int n_shown;
    char shown[1024];
} unused_t;

/* Counts n files or folders; shows the first, path/name below the source's path, while there is room. */
static void add_unused(unused_t *u, const char *path, const char *name, bool is_folder, int64_t n)
{
    const size_t used = strlen(u->shown), room = sizeof u->shown - used;
    const char *below = path + strlen(u->source->path);
    while (*below == '/') below++;
    u->n += n;
    if (u->n_shown == NAMES_SHOWN) return;
    int n_text = snprintf(u->shown + used, room, "%s%.200s%s%s%s", used ? ", " : "", below,
                          *below && *name ? "/" : "", name, is_folder ? "/" : "");
    if (n_text < 0 || (size_t)n_text >= room) {
        u->shown[used] = '\0';
        return;
    }
    folder_mask_line(u->shown + used);
    u->n_shown++;
}

/* Images beside the folders of classes, and other files there. */
static void add_unused_beside(unused_t *u, const char *path, const folder_list_t *l)
{
    char first[NAME_MAX + 1];
    for (int64_t i = 0; i < l->others.n; i++) add_unused(u, path, l->others.names[i], false, 1);
    if (l->n_images == 0) return;
    memcpy(first, l->first_image, sizeof first);
    folder_mask_line(first);
    source_note(u->source, "%" PRId64 " image%s beside the folders of classes in %s %s not used, such as %s",
                l->n_images, l->n_images > 1 ? "s" : "", path, l->n_images > 1 ? "are" : "is", first);
}

/* Folders first: they may have been meant as something. */
static void note_unused(source_t *source, const layout_t *layout)
{
    const impl_t *impl = source->impl;
    unused_t u = {.source = source};
    char more[64] = "";
    for (int64_t i = 0; i < layout->top.folders.n; i++) {
        const char *name = layout->top.folders.names[i];
        const bool is_class =
            folder_role(name) == FOLDER_OTHER && !layout->of[FOLDER_TRAIN] && name != layout->runs;
        if (!is_class && name != layout->of[FOLDER_TRAIN] && name != layout->val && name != layout->unfit)
            add_unused(&u, source->path, name, true, 1);
    }
    add_unused_beside(&u, source->path, &layout->top);
    add_unused_beside(&u, source->folders[SPLIT_TRAIN], &layout->train);
    add_unused_beside(&u, source->folders[SPLIT_VAL], &layout->validation);
    if (impl->n_others > 0) add_unused(&u, impl->first_other, "", false, impl->n_others);
    if (u.n == 0) return;
    if (u.n > u.n_shown) snprintf(more, sizeof more, " and %" PRId64 " more", u.n - u.n_shown);
    source_note(source, "not used: %s%s%s", u.shown, more,
                impl->n_others > 0 ? "; images are .png, .jpg and .jpeg" : "");
}

/* --data may be one level too low: the folder of a split, with others beside it. */
static void note_siblings(source_t *source)
{
    impl_t *impl = source->impl;
    char name[FS_PATH_MAX], parent[FS_PATH_MAX], quoted[FS_PATH_MAX];
    const char *of[FOLDER_ROLES] = {NULL};
    folder_list_t l = {.n_images = 0};
    if (!folder_find_parent(source->path, name, parent)) return;
    const folder_role_t role = folder_role(name);
    if (role == FOLDER_OTHER) return;
    (void)folder_list(impl->arena, parent, &l); /* it may be anyone's: unreadable, it has nothing to say */
    for (int64_t i = 0; i < l.folders.n; i++)
        if (folder_role(l.folders.names[i]) != FOLDER_OTHER)
            of[folder_role(l.folders.names[i])] = l.folders.names[i];
    const folder_role_t val = validation_role(of);
    fs_quote(parent, quoted, sizeof quoted);
    if (of[FOLDER_TRAIN] && val != FOLDER_OTHER)
        source_note(source, "%s/ beside it is not used; --data %.1000s trains on %s/ and validates on %s/",
                    of[role == FOLDER_TRAIN ? val : FOLDER_TRAIN], quoted, of[FOLDER_TRAIN], of[val]);
    folder_list_free(&l);
}

static err_t open_source(source_t *source, const char *path)
{
    impl_t *impl = NULL;
    layout_t *layout = NULL;
    char below[FS_PATH_MAX];
    err_t err = ERR_OK;
    (void)path;
    TRY(mem_new(sizeof *impl, "a source of images", &impl));
    source->impl = impl;
    impl->arena = &source->arena;
    TRY_OUT(err, mem_new(sizeof *layout, "a source of images", &layout));
    TRY_OUT(err, folder_list(impl->arena, source->path, &layout->top));
    const folder_names_t *folders = &layout->top.folders;
    TRY_OUT(err, find_roles(source->path, folders, layout->of));
    for (int64_t i = 0; i < folders->n; i++) {
        const char *name = folders->names[i];
        /* `dptrain train --data .` writes to ./runs. */
        if (strcmp(name, "runs") == 0 && fs_join(below, source->path, name) == ERR_OK &&
            !folder_has_images(below, SEARCH_DEPTH))
            layout->runs = name;
        else if (folder_role(name) == FOLDER_OTHER)
            TRY_OUT(err, folder_add_name(impl->arena, &layout->classes, name));
    }
    if (folders->n == (layout->runs ? 1 : 0))
        TRY_OUT(err, folder_report_no_classes(source->path, &layout->top, NULL));
    TRY_OUT(err, enter_path(impl, source->path));
    TRY_OUT(err, open_training(source, layout));
    TRY_OUT(err, open_validation(source, layout));
    const char *train = layout->of[FOLDER_TRAIN], *val = layout->val;
    const size_t room = sizeof source->about;
    if (train)
        snprintf(source->about, room, "training %.40s/, ", train);
    else if (val)
        snprintf(source->about, room, "%s, ",
                 layout->classes.n > 0 ? "training the other folders" : "no training folder");
    const size_t n = strlen(source->about);
    if (train || val)
        snprintf(source->about + n, room - n, val ? "validation %.40s/" : "no validation folder", val);
    TRY_OUT(err, make_hint(source, layout));
    note_unused(source, layout);
    note_siblings(source);
out:
    mem_free(&source->impl);
    if (!layout) return err;
    folder_list_free(&layout->top);
    folder_list_free(&layout->train);
    folder_list_free(&layout->validation);
    mem_free(&layout->classes.names);
    mem_free(&layout);
    return err;
}

/* Without train/, the folder itself holds the classes. */
static err_t find_classes(const char *path, split_t split, char out[FS_PATH_MAX])
{
    const char *of[FOLDER_ROLES] = {NULL};
    arena_t arena = {0};
    folder_list_t top = {.n_images = 0};
    err_t err = ERR_OK;
    out[0] = '\0';
    TRY_OUT(err, folder_list(&arena, path, &top));
    TRY_OUT(err, find_roles(path, &top.folders, of));
    const folder_role_t role = split == SPLIT_TRAIN ? FOLDER_TRAIN : validation_role(of);
    if (role != FOLDER_OTHER && of[role])
        err = fs_join(out, path, of[role]);
    else if (split == SPLIT_TRAIN)
        err = fs_join(out, "", path);
    else if (of[FOLDER_TRAIN])
        err = fs_join(out, path, split_names[SPLIT_VAL]);
out:
    folder_list_free(&top);
    arena_free(&arena);
    return err;
}

const source_ops_t source_folder = {
    .files = true,
    .kind = "folder",
    .what = "images (a folder per class, directly or in train/ and val/)",
    .is = folder_has_content,
    .classes = find_classes,
    .open = open_source,
};
