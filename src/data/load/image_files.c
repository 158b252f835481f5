/* SPDX-License-Identifier: MIT */
/* Image files as a dataset: lists those given and those below folders, reads and prepares each on demand, and keeps the
 * reason where that fails. */
#include "data/load/image_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/image/image.h"
#include "data/load/samples.h"
#include "data/source/source.h"
#include "data/transform/transform.h"

static err_t add_path(image_list_t *list, const char *path)
{
    TRY(mem_grow(list->n + 1, sizeof *list->paths, "a list of images", &list->paths));
    TRY(arena_text(&list->arena, path, strlen(path), &list->paths[list->n]));
    list->n++;
    return ERR_OK;
}

/* Folders below `path` go to the end of the list `folders`. */
static err_t add_folder(image_list_t *list, image_list_t *folders, const char *path)
{
    char below[FS_PATH_MAX];
    struct stat info;
    err_t err = ERR_OK;
    DIR *dir = opendir(path);
    if (!dir) RAISE(ERR_DATA, "cannot open the folder %s: %s", path, strerror(errno));
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno) RAISE_OUT(err, ERR_DATA, "cannot read the folder %s: %s", path, strerror(errno));
        if (!entry) break;
        const char *name = entry->d_name;
        if (name[0] == '.') continue;
        TRY_OUT(err, fs_join(below, path, name));
        if (lstat(below, &info) == 0 && S_ISDIR(info.st_mode))
            TRY_OUT(err, add_path(folders, below));
        else if (image_is_named(name) && !fs_is_folder(below))
            TRY_OUT(err, add_path(list, below));
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

struct image_files {
    const image_list_t *list;
    bool resized;  /* by the dataset's settings */
    char **errors; /* [n]; each is written once, by the thread that reads the image */
    bool *black;   /* [n]; likewise */
};

void image_files_free(image_files_t **files)
{
    image_files_t *p = *files;
    if (!p) return;
    for (int64_t i = 0; p->errors && i < p->list->n; i++) mem_free(&p->errors[i]);
    mem_free(&p->errors);
    mem_free(&p->black);
    mem_free(files);
}

/* As for evaluation. */
static err_t show_part(const dataset_t *dataset, image_reader_t *r, image_bytes_t from,
                       const image_info_t *info, bool *black)
{
    image_t image;
    image_rect_t place, whole = {0, 0, (double)info->width, (double)info->height};
    transform_t transform = transform_fixed(&dataset->settings, whole);
    map_size_t size = {info->height, info->width};
    render_window_t window = render_window(&transform, size);
    TRY(image_decode_part(r->decoder, from, window.part, window.width, window.height, &image, &place));
    *black = image_is_black(&image);
    return render(&transform, size, &image, place, &r->scratch, r->rgb);
}

/* Images that have the input's size keep their pixels. */
static err_t show_whole(const dataset_info_t *model, image_reader_t *r, image_bytes_t from,
                        const image_info_t *info, bool *black)
{
    image_t image;
    image_rect_t place, whole = {0, 0, (double)info->width, (double)info->height};
    TRY(image_decode_part(r->decoder, from, whole, model->width, model->height, &image, &place));
    *black = image_is_black(&image);
    return resize(&image, place, false, model->width, model->height, &r->scratch.resize, r->rgb);
}

/* The luma of ITU-R BT.601, in units of 2^-16; grey stays as it is. */
static uint8_t luma(const uint8_t *rgb)
{
    return (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + (1u << 15)) >> 16);
}

err_t image_file_read(const char *path, char **out, size_t *n_bytes)
{
    struct stat info;
    char *bytes = NULL;
    err_t err = ERR_OK;
    /* Non-blocking, so that a FIFO does not hang. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) RAISE(ERR_DATA, "cannot read %s: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0) RAISE_OUT(err, ERR_DATA, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) RAISE_OUT(err, ERR_DATA, "%s is not a regular file", path);
    if (info.st_size > SOURCE_MAX_IMAGE)
        RAISE_OUT(err, ERR_DATA, "%s is larger than %d bytes, the limit for images", path, SOURCE_MAX_IMAGE);
    TRY_OUT(err, mem_new((size_t)info.st_size + 1, "an image file", &bytes));
    int reason = fs_read_all(fd, FS_HERE, bytes, (size_t)info.st_size, n_bytes);
    if (reason) RAISE_OUT(err, ERR_DATA, "cannot read %s: %s", path, strerror(reason));
    *out = bytes;
    bytes = NULL;
out:
    mem_free(&bytes);
    close(fd);
    return err;
}

/* Only the system's failures are errors. */
static err_t read_file(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    const dataset_t *dataset = reader->dataset;
    const dataset_info_t *info = &dataset->info;
    image_files_t *p = dataset->files;
    image_reader_t *r = reader->impl;
    const char *path = p->list->paths[request->index];
    bool *black = &p->black[request->index];
    char *file = NULL;
    size_t n_bytes = 0;
    err_t err = image_file_read(path, &file, &n_bytes);
    const image_bytes_t from = {path, file, n_bytes};
    const int64_t n_pixels = info->height * info->width;
    image_info_t header;
    if (err == ERR_OK) err = image_info(from, &header);
    if (err == ERR_OK)
        err = p->resized ? show_part(dataset, r, from, &header, black)
                         : show_whole(info, r, from, &header, black);
    mem_free(&file);
    if (err == ERR_OK) {
        *black = *black && header.transparent;
        for (int64_t i = 0; i < n_pixels && info->channels == 1; i++) r->rgb[i] = luma(r->rgb + 3 * i);
    }
    if (err == ERR_DATA) {
        memset(r->rgb, TRANSFORM_GREY, (size_t)(n_pixels * info->channels));
        err = mem_strdup(err_message(), &p->errors[request->index]);
    }
    out->bytes = r->rgb;
    const field_place_t *places = request->fields; /* the images have no labels; what the model needs is 0 */
    const fields_t fields = samples_fields(info);
    for (int k = 0; places && k < fields.n; k++) {
        if (places[k].n_rows)
            *places[k].n_rows = 0;
        else
            memset(places[k].data, 0, field_row_bytes(&fields.at[k]));
    }
    return err;
}

err_t image_files_open(const image_files_options_t *options, dataset_t **out)
{
    const dataset_info_t *model = options->model;
    dataset_t *dataset = NULL;
    image_files_t *p;
    err_t err;
    if (model->channels != 1 && model->channels != 3)
        RAISE(ERR_DATA, "the model takes images of %d channels; image files have 1 or 3",
              (int)model->channels);
    TRY(mem_new(sizeof *dataset, "a dataset", &dataset));
    TRY_OUT(err, mem_new(sizeof *p, "image files", &p));
    dataset->files = p;
    dataset->read = read_file;
    p->list = options->list;
    p->resized = options->settings != NULL;
    if (p->resized) dataset->settings = *options->settings;
    dataset->info = *model;
    dataset->info.kind = "files";
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        dataset->info.n_samples[split] = split == SPLIT_VAL ? p->list->n : 0;
        dataset->info.block[split] = 1;
    }
    TRY_OUT(err, mem_new_array(p->list->n, sizeof *p->errors, "image files", &p->errors));
    TRY_OUT(err, mem_new_array(p->list->n, sizeof *p->black, "image files", &p->black));
    *out = dataset;
    return ERR_OK;
out:
    image_files_free(&dataset->files);
    mem_free(&dataset);
    return err;
}

const char *image_files_error(const dataset_t *dataset, int64_t index)
{
    return dataset->files->errors[index];
}

bool image_files_black(const dataset_t *dataset, int64_t index)
{
    return dataset->files->black[index];
}
