/* SPDX-License-Identifier: MIT */
/* Where the images of a list are: the folder that has them, and files whose paths are written otherwise than in the list.
 * Nothing outside the data's folder is ever taken. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "data/image/image.h"
#include "data/source/parts.h"

enum {
    MAX_ROOTS = 256, /* folders that are looked at */
    ROOT_DEPTH = 3,  /* of them, below the data's folder */
    SAMPLES = 16,    /* images that tell the folder */
    MAX_PARTS = 64,  /* of a name */
    MAX_FILES = 1 << 20,
    FILES_DEPTH = 4,
};

err_t coco_roots_add(coco_roots_t *roots, const char *path)
{
    for (int i = 0; i < roots->n; i++)
        if (strcmp(roots->paths[i], path) == 0) return ERR_OK;
    if (roots->n == MAX_ROOTS || !fs_is_folder(path)) return ERR_OK;
    TRY(mem_grow(roots->n + 1, sizeof *roots->paths, "folders of images", &roots->paths));
    TRY(arena_text(&roots->arena, path, strlen(path), &roots->paths[roots->n]));
    roots->n++;
    return ERR_OK;
}

/* Adds the folder a/b/c, where "" is left out. */
static err_t add_below(coco_roots_t *roots, const char *a, const char *b, const char *c)
{
    char path[FS_PATH_MAX];
    const int n = snprintf(path, sizeof path, "%s%s%s%s%s", a, *b ? "/" : "", b, *c ? "/" : "", c);
    return n < 0 || (size_t)n >= sizeof path ? ERR_OK : coco_roots_add(roots, path);
}

/* All other folders, level by level. */
static err_t add_far(coco_roots_t *roots)
{
    folder_names_t queue = {0};
    int64_t next = 0;
    err_t err = ERR_OK;
    if (roots->far) return ERR_OK;
    roots->far = true;
    TRY_OUT(err, folder_add_name(&roots->arena, &queue, roots->base));
    for (int depth = 0; depth < ROOT_DEPTH; depth++)
        for (const int64_t end = queue.n; next < end && queue.n < MAX_ROOTS; next++) {
            folder_list_t l = {.n_images = 0};
            char path[FS_PATH_MAX];
            if (folder_list(&roots->arena, queue.names[next], &l) == ERR_OK)
                for (int64_t i = 0; i < l.folders.n && err == ERR_OK; i++) {
                    if (fs_join(path, queue.names[next], l.folders.names[i]) != ERR_OK) continue;
                    err = coco_roots_add(roots, path);
                    if (err == ERR_OK) err = folder_add_name(&roots->arena, &queue, path);
                }
            folder_list_free(&l);
            TRY_OUT(err, err);
        }
out:
    mem_free(&queue.names);
    return err;
}

err_t coco_roots_find(const char *base, const char *list, const char *word, coco_roots_t *out)
{
    char beside[FS_PATH_MAX], above[FS_PATH_MAX];
    TRY(arena_text(&out->arena, base, strlen(base), &out->base));
    TRY(fs_join(beside, "", list));
    char *slash = strrchr(beside, '/');
    if (slash) *slash = '\0';
    memcpy(above, beside, sizeof above);
    slash = strrchr(above, '/');
    if (slash && strlen(above) > strlen(base) && strncmp(above, base, strlen(base)) == 0) *slash = '\0';
    const char *const from[] = {above, beside, base};
    for (int i = 0; i < 3 && *word; i++) {
        TRY(add_below(out, from[i], word, "images"));
        TRY(add_below(out, from[i], word, ""));
        TRY(add_below(out, from[i], "images", word));
    }
    out->own = out->n > 0;
    for (int i = 0; i < 3; i++) {
        TRY(add_below(out, from[i], "images", ""));
        TRY(add_below(out, from[i], "", ""));
    }
    out->n_near = out->n;
    return ERR_OK;
}

void coco_roots_free(coco_roots_t *roots)
{
    mem_free(&roots->paths);
    arena_free(&roots->arena);
}

static bool is_file(const char *root, const char *name)
{
    char path[FS_PATH_MAX];
    struct stat info;
    const int n = snprintf(path, sizeof path, "%s/%s", root, name);
    return n > 0 && (size_t)n < sizeof path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

bool coco_name_is_path(const char *name)
{
    for (const char *part = name;; part++) {
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && *part == '.') || (n == 2 && strncmp(part, "..", 2) == 0)) return false;
        part += n;
        if (!*part) return true;
    }
}

static int hex_value(char c)
{
    return isdigit((unsigned char)c)    ? c - '0'
           : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                        : -1;
}

/* A name as a path: of a URL, of Windows, without "." and "..". False: nothing is left.
 *
 *   decode  %20 is a blank */
static bool clean_name(const char *name, bool decode, char out[FS_PATH_MAX])
{
    char text[FS_PATH_MAX];
    size_t n = 0, n_out = 0;
    const char *scheme = strstr(name, "://"), *query = strstr(name, "?d="); /* Label Studio's local files */
    if (scheme) name = strncmp(name, "file", 4) == 0 ? scheme + 3 : scheme + 3 + strcspn(scheme + 3, "/");
    if (query) name = query + 3;
    if (isalpha((unsigned char)name[0]) && name[1] == ':') name += 2;
    for (; *name && n < sizeof text - 1; name++) {
        char c = *name;
        if (scheme && (c == '?' || c == '#')) break;
        if (decode && c == '%' && hex_value(name[1]) >= 0 && hex_value(name[2]) >= 0) {
            c = (char)(hex_value(name[1]) * 16 + hex_value(name[2]));
            name += 2;
        }
        if (!c) return false;
        text[n++] = c == '\\' ? '/' : c;
    }
    text[n] = '\0';
    if (*name && !scheme) return false;
    for (const char *part = text; *part; part += strcspn(part, "/")) {
        part += strspn(part, "/");
        const size_t n_part = strcspn(part, "/");
        if (n_part == 0 || (n_part == 1 && *part == '.')) continue;
        if (n_part == 2 && strncmp(part, "..", 2) == 0) {
            while (n_out > 0 && out[--n_out] != '/') continue;
            continue;
        }
        if (n_out > 0) out[n_out++] = '/';
        memcpy(out + n_out, part, n_part);
        n_out += n_part;
    }
    out[n_out] = '\0';
    return n_out > 0 && utf8_is_printable(out);
}

/* The ends of a path, the longest first: "a/b/c", "b/c", "c". */
static int split_tails(const char *path, const char *tails[MAX_PARTS])
{
    int n = 0;
    for (const char *at = path; at && n < MAX_PARTS; at = strchr(at, '/')) {
        at += n > 0;
        tails[n++] = at;
    }
    return n;
}

/* The longest end of a name that is a file; `first` of the folders left out is tried before. */
static bool find_tail(const char *root, const char *name, int first, int *n_dropped, char out[FS_PATH_MAX])
{
    char path[FS_PATH_MAX];
    const char *tails[MAX_PARTS];
    for (int decode = 0; decode < (strchr(name, '%') ? 2 : 1); decode++) {
        if (!clean_name(name, decode, path)) continue;
        const int n = split_tails(path, tails);
        for (int i = first < n ? -1 : 0; i < n; i++) {
            const int k = i < 0 ? first : i;
            if (!is_file(root, tails[k])) continue;
            snprintf(out, FS_PATH_MAX, "%s", tails[k]);
            *n_dropped = k;
            return true;
        }
    }
    return false;
}

const char *coco_roots_have(coco_roots_t *roots, const char *name, char file[FS_PATH_MAX])
{
    int n_dropped = 0;
    for (int i = 0; i < roots->n || (!roots->far && add_far(roots) == ERR_OK && i < roots->n); i++)
        if (find_tail(roots->paths[i], name, 0, &n_dropped, file)) return roots->paths[i];
    return NULL;
}

/* How many of some images a folder has.
 *
 *   tails  also by the ends of their names */
static int count_samples(const char *root, const coco_image_t *images, int64_t n, bool tails)
{
    const int64_t n_samples = n < SAMPLES ? n : SAMPLES;
    char found[FS_PATH_MAX];
    int n_found = 0, n_dropped = 0;
    for (int64_t i = 0; i < n_samples; i++) {
        const char *name = images[n_samples > 1 ? i * (n - 1) / (n_samples - 1) : 0].name;
        if (coco_name_is_path(name) && is_file(root, name))
            n_found++;
        else if (tails)
            n_found += find_tail(root, name, n_dropped, &n_dropped, found);
    }
    return n_found;
}

err_t coco_roots_choose(coco_roots_t *roots, const coco_image_t *images, int64_t n, const char **out)
{
    const int most = (int)(n < SAMPLES ? n : SAMPLES);
    for (int pass = 0; pass < 4; pass++) { /* as written, then by the ends; near, then far */
        const bool near = pass < 2;
        if (!near) TRY(add_far(roots));
        const char *equal = NULL;
        int best = 0;
        *out = NULL;
        for (int i = near ? 0 : roots->n_near; i < (near ? roots->n_near : roots->n); i++) {
            const int n_found = count_samples(roots->paths[i], images, n, pass % 2 == 1);
            if (n_found > 0 && n_found == best) equal = roots->paths[i];
            if (n_found <= best) continue;
            best = n_found;
            equal = NULL;
            *out = roots->paths[i];
            if (near && best == most) return ERR_OK;
        }
        if (equal && !near)
            RAISE(
                ERR_DATA,
                "images of the list are in several folders, such as %s and %s; move them into one, or keep one "
                "folder if they are copies",
                *out, equal);
        if (*out) return ERR_OK;
    }
    return ERR_OK;
}

err_t coco_roots_guess(coco_roots_t *roots, const char **out)
{
    int n_far = 0;
    *out = roots->own ? roots->paths[0] : NULL;
    for (int i = 0; !*out && i < roots->n_near; i++)
        if (folder_has_images(roots->paths[i], 0)) *out = roots->paths[i];
    if (*out) return ERR_OK;
    TRY(add_far(roots));
    for (int i = roots->n_near; i < roots->n; i++)
        if (folder_has_images(roots->paths[i], 0) && n_far++ == 0) *out = roots->paths[i];
    if (n_far != 1) *out = roots->base;
    return ERR_OK;
}

typedef struct coco_file {
    const char *folded, *path;
} coco_file_t;

/* The same for paths that differ in capitals (ASCII) or in how letters with marks are composed. */
static void fold_path(const char *path, char out[FS_PATH_MAX])
{
    utf8_decompose(path, out, FS_PATH_MAX);
    for (; *out; out++) *out = (char)tolower((unsigned char)*out);
}

static int compare_folded(const void *a, const void *b)
{
    return strcmp(((const coco_file_t *)a)->folded, ((const coco_file_t *)b)->folded);
}

static err_t list_files(coco_names_t *names, const char *below, int depth)
{
    char path[FS_PATH_MAX], folded[FS_PATH_MAX];
    DIR *dir = NULL;
    const struct dirent *entry;
    folder_names_t folders = {0};
    err_t err = ERR_OK;
    if (*below)
        TRY(fs_join(path, names->root, below));
    else
        TRY(fs_join(path, "", names->root));
    TRY(folder_open(path, &dir));
    while (names->n < MAX_FILES) {
        TRY_OUT(err, folder_next(dir, path, &entry));
        if (!entry) break;
        coco_file_t file;
        if (entry->d_type != DT_DIR && image_is_named(entry->d_name)) {
            TRY_OUT(err, arena_format(&names->arena, &file.path, "%s%s%s", below, *below ? "/" : "",
                                      entry->d_name));
            fold_path(file.path, folded);
            TRY_OUT(err, arena_text(&names->arena, folded, strlen(folded), &file.folded));
            TRY_OUT(err, mem_grow(names->n + 1, sizeof file, "files of a folder", &names->files));
            names->files[names->n++] = file;
        } else if (depth < FILES_DEPTH && fs_entry_is_folder(dir, entry)) {
            TRY_OUT(err, folder_add_name(&names->arena, &folders, entry->d_name));
        }
    }
out:
    closedir(dir);
    for (int64_t i = 0; err == ERR_OK && i < folders.n; i++) {
        const char *next = NULL;
        err = arena_format(&names->arena, &next, "%s%s%s", below, *below ? "/" : "", folders.names[i]);
        if (err == ERR_OK) err = list_files(names, next, depth + 1);
    }
    mem_free(&folders.names);
    return err;
}

/* The only file with this folded path; NULL: none or several. */
static const char *find_folded(const coco_names_t *names, const char *folded)
{
    const coco_file_t wanted = {folded, NULL};
    const coco_file_t *at =
        names->n == 0 ? NULL
                      : bsearch(&wanted, names->files, (size_t)names->n, sizeof wanted, compare_folded);
    if (!at) return NULL;
    const bool several = (at > names->files && compare_folded(at - 1, at) == 0) ||
                         (at + 1 < names->files + names->n && compare_folded(at + 1, at) == 0);
    return several || !utf8_is_printable(at->path) ? NULL : at->path;
}

err_t coco_names_find(coco_names_t *names, const char *name, const char **out)
{
    char path[FS_PATH_MAX], folded[FS_PATH_MAX];
    const char *tails[MAX_PARTS];
    *out = NULL;
    if (find_tail(names->root, name, names->n_dropped, &names->n_dropped, path))
        return arena_text(&names->arena, path, strlen(path), out);
    if (!names->listed) {
        names->listed = true;
        TRY(list_files(names, "", 0));
        if (names->n > 0) qsort(names->files, (size_t)names->n, sizeof *names->files, compare_folded);
    }
    for (int decode = 0; decode < 2 && !*out; decode++) {
        if (!clean_name(name, decode, path)) continue;
        fold_path(path, folded);
        const int n = split_tails(folded, tails);
        for (int i = 0; i < n && !*out; i++) *out = find_folded(names, tails[i]);
    }
    return ERR_OK;
}

err_t coco_names_missing(coco_names_t *names, const char *name, const char **out)
{
    char path[FS_PATH_MAX];
    if (!clean_name(name, false, path)) snprintf(path, sizeof path, "missing");
    return arena_text(&names->arena, path, strlen(path), out);
}

void coco_names_free(coco_names_t *names)
{
    mem_free(&names->files);
    arena_free(&names->arena);
}
