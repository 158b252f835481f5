/* SPDX-License-Identifier: MIT */
/* Lists image files: those given, and those below folders. Reading them is left to image_files.c. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/image/image.h"
#include "data/load/image_files.h"

static err_t add_path(image_list_t *list, const char *path)
{
    TRY(mem_grow(list->n + 1, sizeof *list->paths, "a list of images", &list->paths));
    TRY(arena_text(&list->arena, path, strlen(path), &list->paths[list->n]));
    list->n++;
    return ERR_OK;
}

/* Folders below `path` go to the end of the list `folders`. */
static err_t add_entry(image_list_t *list, image_list_t *folders, const char *path, const char *name)
{
    char entry[FS_PATH_MAX];
    struct stat info;
    TRY(fs_join(entry, path, name));
    if (lstat(entry, &info) == 0 && S_ISDIR(info.st_mode)) return add_path(folders, entry);
    return image_is_named(name) && !fs_is_folder(entry) ? add_path(list, entry) : ERR_OK;
}

static err_t add_folder(image_list_t *list, image_list_t *folders, const char *path)
{
    err_t err = ERR_OK;
    DIR *dir = opendir(path);
    if (!dir) RAISE(ERR_DATA, "cannot open the folder %s: %s", path, strerror(errno));
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno) RAISE_OUT(err, ERR_DATA, "cannot read the folder %s: %s", path, strerror(errno));
        if (!entry) break;
        if (entry->d_name[0] != '.') TRY_OUT(err, add_entry(list, folders, path, entry->d_name));
    }
out:
    closedir(dir);
    return err;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

err_t image_list_add(image_list_t *list, const char *path)
{
    image_list_t folders = {.n = 0};
    int64_t n_before = list->n;
    if (!fs_is_folder(path)) return add_path(list, path);
    err_t err = add_path(&folders, path);
    for (int64_t i = 0; err == ERR_OK && i < folders.n; i++)
        err = add_folder(list, &folders, folders.paths[i]);
    image_list_free(&folders);
    TRY(err);
    if (list->n == n_before) RAISE(ERR_DATA, "%s holds no image (.png, .jpg, .jpeg)", path);
    qsort(list->paths + n_before, (size_t)(list->n - n_before), sizeof *list->paths, compare_paths);
    return ERR_OK;
}

void image_list_free(image_list_t *list)
{
    mem_free(&list->paths);
    arena_free(&list->arena);
    list->n = 0;
}
