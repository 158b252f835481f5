/* SPDX-License-Identifier: MIT */
/* An image folder as a source: one folder per class, in train/ and val/ if they exist. Lists and sorts
 * everything when opened, so that the order does not depend on the file system. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/mem.h"
#include "data/source/parts.h"

typedef struct file {
    const char *name; /* "dog/17.png" */
    int64_t n_bytes, time_ns;
    int32_t label;
} file_t;

typedef struct part {
    char folder[FS_PATH_MAX];
    int64_t n_files;
    file_t *files;
    source_entry_t *entries;
} part_t;

typedef struct impl {
    arena_t arena; /* names */
    part_t parts[SPLIT_COUNT];
    category_t *categories;
    /* Files other than images, for the notes. */
    int64_t n_others;
    char first_other[FS_PATH_MAX];
} impl_t;

/* The names in a folder, sorted by bytes. */
typedef struct names {
    int64_t n;
    const char **names;
} names_t;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static err_t open_folder(const char *path, DIR **out)
{
    *out = opendir(path);
    if (*out) return ERR_OK;
    bool is_data = errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    RAISE(is_data ? ERR_DATA : ERR_SYSTEM, "cannot open the folder %s: %s", path, strerror(errno));
}

/* The next entry that does not begin with a dot; NULL at the end. */
static err_t next_entry(DIR *dir, const char *path, const struct dirent **out)
{
    do {
        errno = 0;
        *out = readdir(dir);
    } while (*out && (*out)->d_name[0] == '.');
    if (!*out && errno) RAISE(ERR_SYSTEM, "cannot read the folder %s: %s", path, strerror(errno));
    if (*out && !source_name_is_clean((*out)->d_name))
        RAISE(ERR_DATA,
              "a file name in the folder %s is not valid UTF-8 or has control characters; rename the file",
              path);
    return ERR_OK;
}

/* Follows links. */
static bool entry_is_folder(DIR *dir, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return entry->d_type == DT_DIR;
    return fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

/* Keeps the first by name, because readdir's order is arbitrary. Folders come in order, so one from an
 * earlier folder stays. */
static void count_other(impl_t *impl, const char *folder, const char *name)
{
    char path[FS_PATH_MAX];
    impl->n_others++;
    if (fs_join(path, folder, name) != ERR_OK) return;
    size_t n = strlen(path) - strlen(name);
    bool same_folder = strncmp(path, impl->first_other, n) == 0 && !strchr(impl->first_other + n, '/');
    if (!impl->first_other[0] || (same_folder && strcmp(path, impl->first_other) < 0))
        memcpy(impl->first_other, path, sizeof path);
}

/* Lists the subfolders, sorted, and counts other entries. */
static err_t list_folders(impl_t *impl, const char *path, names_t *out)
{
    DIR *dir = NULL;
    const struct dirent *entry;
    err_t err = ERR_OK;
    TRY(open_folder(path, &dir));
    for (;;) {
        TRY_OUT(err, next_entry(dir, path, &entry));
        if (!entry) break;
        if (!entry_is_folder(dir, entry)) {
            count_other(impl, path, entry->d_name);
            continue;
        }
        TRY_OUT(err, mem_grow(out->n + 1, sizeof *out->names, "names of classes", &out->names));
        TRY_OUT(err, arena_text(&impl->arena, entry->d_name, strlen(entry->d_name), &out->names[out->n]));
        out->n++;
    }
    if (out->n > 0) qsort(out->names, (size_t)out->n, sizeof *out->names, compare_names);
out:
    closedir(dir);
    return err;
}

static bool has_folders(const char *path)
{
    bool found = false;
    const struct dirent *entry = NULL;
    DIR *dir = opendir(path);
    while (dir && !found && next_entry(dir, path, &entry) == ERR_OK && entry)
        found = entry_is_folder(dir, entry);
    if (dir) closedir(dir);
    return found;
}

static bool is_image(const char *name)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    const char *dot = strrchr(name, '.');
    for (int i = 0; dot && i < 3; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

static err_t add_file(impl_t *impl, part_t *part, const char *class_name, const char *name, file_t file)
{
    TRY(mem_grow(part->n_files + 1, sizeof *part->files, "a list of images", &part->files));
    TRY(arena_format(&impl->arena, &file.name, "%s/%s", class_name, name));
    part->files[part->n_files++] = file;
    return ERR_OK;
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const file_t *)a)->name, ((const file_t *)b)->name);
}

static err_t list_class(const source_t *source, part_t *part, const char *class_name, int32_t label)
{
    impl_t *impl = source->impl;
    char path[FS_PATH_MAX];
    DIR *dir = NULL;
    const struct dirent *entry;
    err_t err = ERR_OK;
    int64_t n_before = part->n_files;
    TRY(fs_join(path, part->folder, class_name));
    TRY(open_folder(path, &dir));
    for (;;) {
        TRY_OUT(err, source_alive(source));
        TRY_OUT(err, next_entry(dir, path, &entry));
        if (!entry) break;
        if (!is_image(entry->d_name)) {
            count_other(impl, path, entry->d_name);
            continue;
        }
        bool found = false;
        file_t file = {.label = label};
        TRY_OUT(err, source_stat(dirfd(dir), path, entry->d_name, &found, &file.n_bytes, &file.time_ns));
        if (!found) RAISE_OUT(err, ERR_DATA, "%s/%s is a broken link", path, entry->d_name);
        TRY_OUT(err, add_file(impl, part, class_name, entry->d_name, file));
    }
    if (part->n_files > n_before)
        qsort(part->files + n_before, (size_t)(part->n_files - n_before), sizeof *part->files, compare_files);
out:
    closedir(dir);
    return err;
}

static err_t take_train_classes(source_t *source, const names_t *classes)
{
    impl_t *impl = source->impl;
    if (classes->n > INT32_MAX) RAISE(ERR_DATA, "%s has more than %d classes", source->path, INT32_MAX);
    TRY(mem_new_array(classes->n, sizeof *impl->categories, "classes", &impl->categories));
    for (int64_t i = 0; i < classes->n; i++) impl->categories[i] = (category_t){i, classes->names[i], ""};
    source->n_categories = (int32_t)classes->n;
    source->categories = impl->categories;
    return ERR_OK;
}

static err_t find_label(const source_t *source, const char *folder, const char *class_name, int32_t *label)
{
    int32_t low = 0, high = source->n_categories; /* sorted by name */
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        int order = strcmp(class_name, source->categories[middle].name);
        if (order == 0) {
            *label = middle;
            return ERR_OK;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    RAISE(ERR_DATA, "%s has the class %s, which the training images lack", folder, class_name);
}

static bool is_data_set(const char *path)
{
    char train[FS_PATH_MAX];
    return source_shards.is(path) || source_coco.is(path) || source_idx.is(path) ||
           (fs_join(train, path, split_names[SPLIT_TRAIN]) == ERR_OK && has_folders(train));
}

/* The reason why a class has no training image; a frequent one is a folder above several data sets. */
static err_t report_no_image(const part_t *part, const names_t *classes, const char *class_name)
{
    enum { MAX_SHOWN = 5 };
    char path[FS_PATH_MAX], list[ERR_MESSAGE_MAX / 2] = "";
    int n = 0;
    for (int64_t i = 0; i < classes->n && n < MAX_SHOWN; i++) {
        const size_t used = strlen(list);
        if (fs_join(path, part->folder, classes->names[i]) != ERR_OK || !is_data_set(path)) continue;
        snprintf(list + used, sizeof list - used, "%s%s", n++ > 0 ? ", " : "", classes->names[i]);
    }
    if (n > 0)
        RAISE(ERR_DATA, "%s holds data sets, not classes; choose one of its folders, such as %s",
              part->folder, list);
    RAISE(ERR_DATA, "%s/%s holds no image (.png, .jpg, .jpeg); each class needs training images",
          part->folder, class_name);
}

static err_t list_classes(source_t *source, split_t split, const names_t *classes)
{
    impl_t *impl = source->impl;
    part_t *part = &impl->parts[split];
    if (classes->n == 0) RAISE(ERR_DATA, "%s holds no folders of classes", part->folder);
    if (split == SPLIT_TRAIN) TRY(take_train_classes(source, classes));
    for (int64_t i = 0; i < classes->n; i++) {
        int32_t label = 0;
        int64_t n_before = part->n_files;
        TRY(find_label(source, part->folder, classes->names[i], &label));
        TRY(list_class(source, part, classes->names[i], label));
        if (split == SPLIT_TRAIN && part->n_files == n_before)
            return report_no_image(part, classes, classes->names[i]);
    }
    if (part->n_files == 0) RAISE(ERR_DATA, "%s holds no image (.png, .jpg, .jpeg)", part->folder);
    return ERR_OK;
}

static err_t open_split(source_t *source, split_t split)
{
    impl_t *impl = source->impl;
    part_t *part = &impl->parts[split];
    names_t classes = {0};
    err_t err = ERR_OK;
    TRY_OUT(err, list_folders(impl, part->folder, &classes));
    TRY_OUT(err, list_classes(source, split, &classes));
    TRY_OUT(err, mem_new_array(part->n_files, sizeof *part->entries, "a list of images", &part->entries));
    for (int64_t i = 0; i < part->n_files; i++) {
        const file_t *file = &part->files[i];
        part->entries[i] =
            (source_entry_t){.n_bytes = file->n_bytes, .label = file->label, .time_ns = file->time_ns};
    }
    source->entries[split] = part->entries;
    source->n_samples[split] = part->n_files;
out:
    mem_free(&classes.names);
    return err;
}

/* Without train/, the whole folder is for training. A folder train/ that holds images rather than folders is
 * a class. */
static err_t find_classes(const char *path, split_t split, char out[FS_PATH_MAX])
{
    char train[FS_PATH_MAX];
    out[0] = '\0';
    TRY(fs_join(train, path, split_names[SPLIT_TRAIN]));
    if (has_folders(train)) return fs_join(out, path, split_names[split]);
    return split == SPLIT_TRAIN ? fs_join(out, "", path) : ERR_OK;
}

static err_t open_source(source_t *source, const char *path)
{
    impl_t *impl = NULL;
    TRY(mem_new(sizeof *impl, "a source of images", &impl));
    source->impl = impl;
    char *train = impl->parts[SPLIT_TRAIN].folder, *val = impl->parts[SPLIT_VAL].folder;
    TRY(find_classes(path, SPLIT_TRAIN, train));
    TRY(find_classes(path, SPLIT_VAL, val));
    TRY(open_split(source, SPLIT_TRAIN));
    if (fs_is_folder(val)) TRY(open_split(source, SPLIT_VAL));
    if (impl->n_others > 0)
        source_note(source,
                    "skipped %" PRId64 " files or folders other than images (.png, .jpg, .jpeg), such as %s",
                    impl->n_others, impl->first_other);
    return ERR_OK;
}

static err_t folder_save(const source_t *source, void **bytes, int64_t *n_bytes)
{
    const part_t *parts = ((const impl_t *)source->impl)->parts;
    const char *const folders[SPLIT_COUNT] = {parts[SPLIT_TRAIN].folder, parts[SPLIT_VAL].folder};
    return source_list_save(source, folders, bytes, n_bytes);
}

static void close_source(source_t *source)
{
    impl_t *impl = source->impl;
    if (!impl) return;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        mem_free(&impl->parts[split].files);
        mem_free(&impl->parts[split].entries);
    }
    mem_free(&impl->categories);
    arena_free(&impl->arena);
    mem_free(&source->impl);
}

static err_t folder_describe(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                             sample_t *out)
{
    const impl_t *impl = source->impl;
    const file_t *file = &impl->parts[split].files[index];
    (void)buffer;
    *out =
        (sample_t){.id = index, .name = file->name, .label = file->label, .n_bytes = (size_t)file->n_bytes};
    return ERR_OK;
}

static err_t folder_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                         sample_t *out)
{
    const impl_t *impl = source->impl;
    TRY(folder_describe(source, split, index, buffer, out));
    return source_load(impl->parts[split].folder, buffer, out);
}

const source_ops_t source_folder = {
    .files = true,
    .kind = "folder",
    .what = "images (a folder per class, directly or in train/ and val/)",
    .is = has_folders,
    .classes = find_classes,
    .open = open_source,
    .close = close_source,
    .read = folder_read,
    .describe = folder_describe,
    .save = folder_save,
    .restore = source_list_restore,
};
