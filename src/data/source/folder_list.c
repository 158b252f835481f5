/* SPDX-License-Identifier: MIT */
/* What a folder holds: names of splits, images, archives. Making a source of it is left to folder.c. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/image/image.h"
#include "data/source/parts.h"

static folder_role_t role_of_word(const char *word, size_t n)
{
    static const struct {
        const char *name;
        folder_role_t role;
    } known[] = {{"train", FOLDER_TRAIN}, {"training", FOLDER_TRAIN}, {"val", FOLDER_VAL},
                 {"valid", FOLDER_VAL},   {"validation", FOLDER_VAL}, {"dev", FOLDER_DEV},
                 {"test", FOLDER_TEST},   {"testing", FOLDER_TEST}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == n && strncasecmp(word, known[i].name, n) == 0) return known[i].role;
    return FOLDER_OTHER;
}

folder_role_t folder_role(const char *name)
{
    size_t n = strlen(name);
    if (n > 3 && strcasecmp(name + n - 3, "set") == 0) n -= 3 + (strchr("_- ", name[n - 4]) != NULL);
    return role_of_word(name, n);
}

bool folder_names_role(const char *name)
{
    while (*name) {
        size_t n = 0;
        while (isalpha((unsigned char)name[n])) n++;
        if (role_of_word(name, n) != FOLDER_OTHER) return true;
        name += n > 0 ? n : 1;
    }
    return false;
}

bool folder_is_archive(const char *name)
{
    static const char *const endings[] = {".tar", ".tar.gz",  ".tgz", ".tar.bz2", ".tar.xz",
                                          ".txz", ".tar.zst", ".zip", ".7z",      ".rar"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (fs_has_suffix(name, endings[i])) return true;
    return false;
}

/* What file managers, archives and notebooks leave behind. */
static bool is_litter(const char *name)
{
    static const char *const known[] = {"__MACOSX",
                                        "Thumbs.db",
                                        "desktop.ini",
                                        "@eaDir",
                                        "lost+found",
                                        "$RECYCLE.BIN",
                                        "System Volume Information"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(name, known[i]) == 0) return true;
    return false;
}

err_t folder_open(const char *path, DIR **out)
{
    *out = opendir(path);
    if (*out) return ERR_OK;
    bool is_data = errno == EACCES || errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
    RAISE(is_data ? ERR_DATA : ERR_SYSTEM, "cannot open the folder %s: %s", path, strerror(errno));
}

err_t folder_next(DIR *dir, const char *path, const struct dirent **out)
{
    do {
        errno = 0;
        *out = readdir(dir);
    } while (*out &&
             ((*out)->d_name[0] == '.' || (!image_is_named((*out)->d_name) && is_litter((*out)->d_name))));
    if (!*out && errno) RAISE(ERR_SYSTEM, "cannot read the folder %s: %s", path, strerror(errno));
    return ERR_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

err_t folder_add_name(arena_t *arena, folder_names_t *names, const char *name)
{
    TRY(mem_grow(names->n + 1, sizeof *names->names, "names in a folder", &names->names));
    TRY(arena_text(arena, name, strlen(name), &names->names[names->n]));
    names->n++;
    return ERR_OK;
}

void folder_sort_names(folder_names_t *names)
{
    if (names->n > 0) qsort(names->names, (size_t)names->n, sizeof *names->names, compare_names);
}

/* The length of the word before the number that ends a name: 3 for "cat.12.jpg" and "cat (12).jpg". 0: it has no such
 * word or number. */
static size_t word_length(const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t end = dot ? (size_t)(dot - name) : strlen(name);
    if (end > 0 && name[end - 1] == ')') end--;
    size_t n = end;
    while (n > 0 && isdigit((unsigned char)name[n - 1])) n--;
    if (n == end) return 0;
    while (n > 0 && strchr("._- (", name[n - 1])) n--;
    return n;
}

err_t folder_list(arena_t *arena, const char *path, folder_list_t *out)
{
    DIR *dir = NULL;
    const struct dirent *entry;
    err_t err = ERR_OK;
    TRY(folder_open(path, &dir));
    for (;;) {
        TRY_OUT(err, folder_next(dir, path, &entry));
        if (!entry) break;
        if (fs_entry_is_folder(dir, entry)) {
            TRY_OUT(err, folder_add_name(arena, &out->folders, entry->d_name));
        } else if (image_is_named(entry->d_name)) {
            const char *name = entry->d_name;
            const bool first = out->n_images++ == 0;
            if (first || strcmp(name, out->first_image) < 0)
                snprintf(out->first_image, sizeof out->first_image, "%s", name);
            if (first || strcmp(name, out->last_image) > 0)
                snprintf(out->last_image, sizeof out->last_image, "%s", name);
            out->numbered = (first || out->numbered) && word_length(name) > 0;
        } else {
            const bool is_there =
                entry->d_type != DT_LNK || faccessat(dirfd(dir), entry->d_name, F_OK, 0) == 0;
            char name[NAME_MAX + 32];
            snprintf(name, sizeof name, "%s%s", entry->d_name, is_there ? "" : " (a broken link)");
            out->n_archives += folder_is_archive(name);
            TRY_OUT(err, folder_add_name(arena, &out->others, name));
        }
    }
    folder_sort_names(&out->folders);
    folder_sort_names(&out->others);
out:
    closedir(dir);
    return err;
}

void folder_list_free(folder_list_t *l)
{
    mem_free(&l->folders.names);
    mem_free(&l->others.names);
}

/* Looks for an entry of some kind; stops at the first. */
static bool any_entry(const char *path, bool (*is)(DIR *dir, const char *path, const struct dirent *entry))
{
    bool found = false;
    const struct dirent *entry = NULL;
    DIR *dir = opendir(path);
    while (dir && !found && folder_next(dir, path, &entry) == ERR_OK && entry) found = is(dir, path, entry);
    if (dir) closedir(dir);
    return found;
}

static bool is_folder(DIR *dir, const char *path, const struct dirent *entry)
{
    (void)path;
    return fs_entry_is_folder(dir, entry);
}

static bool is_content(DIR *dir, const char *path, const struct dirent *entry)
{
    return image_is_named(entry->d_name) || folder_is_archive(entry->d_name) || is_folder(dir, path, entry);
}

static bool is_train_with_folders(DIR *dir, const char *path, const struct dirent *entry)
{
    char below[FS_PATH_MAX];
    return folder_role(entry->d_name) == FOLDER_TRAIN && fs_entry_is_folder(dir, entry) &&
           fs_join(below, path, entry->d_name) == ERR_OK && folder_has_folders(below);
}

static bool is_train_with_classes(DIR *dir, const char *path, const struct dirent *entry)
{
    char train[FS_PATH_MAX], below[FS_PATH_MAX];
    arena_t arena = {0};
    folder_list_t l = {.n_images = 0};
    int n = 0;
    if (folder_role(entry->d_name) != FOLDER_TRAIN || !fs_entry_is_folder(dir, entry) ||
        fs_join(train, path, entry->d_name) != ERR_OK)
        return false;
    if (folder_list(&arena, train, &l) == ERR_OK && l.n_images == 0)
        for (int64_t i = 0; i < l.folders.n && n < 2; i++)
            n += fs_join(below, train, l.folders.names[i]) == ERR_OK && folder_has_images(below, 0);
    folder_list_free(&l);
    arena_free(&arena);
    return n == 2;
}

bool folder_trains_classes(const char *path)
{
    return any_entry(path, is_train_with_classes);
}

bool folder_has_folders(const char *path)
{
    return any_entry(path, is_folder);
}

bool folder_has_content(const char *path)
{
    return any_entry(path, is_content);
}

bool folder_has_training(const char *path)
{
    return any_entry(path, is_train_with_folders);
}

bool folder_has_images(const char *path, int depth)
{
    bool found = false;
    const struct dirent *entry = NULL;
    DIR *dir = opendir(path);
    while (dir && !found && folder_next(dir, path, &entry) == ERR_OK && entry) {
        char below[FS_PATH_MAX];
        if (!fs_entry_is_folder(dir, entry))
            found = image_is_named(entry->d_name);
        else if (depth > 0 && fs_join(below, path, entry->d_name) == ERR_OK)
            found = folder_has_images(below, depth - 1);
    }
    if (dir) closedir(dir);
    return found;
}

void folder_mask_line(char *text)
{
    print_mask(text);
    for (; *text; text++)
        if (*text == '\n' || *text == '\t') *text = '?';
}

bool folder_find_parent(const char *path, char name[FS_PATH_MAX], char parent[FS_PATH_MAX])
{
    char whole[FS_PATH_MAX]; /* FS_PATH_MAX is PATH_MAX */
    if (!realpath(path, whole) || strcmp(whole, "/") == 0) return false;
    snprintf(name, FS_PATH_MAX, "%s", strrchr(whole, '/') + 1);
    snprintf(parent, FS_PATH_MAX, "%s", path);
    size_t n = strlen(parent), n_name = strlen(name);
    while (n > 1 && parent[n - 1] == '/') parent[--n] = '\0';
    const bool as_typed = n >= n_name && strcmp(parent + n - n_name, name) == 0 &&
                          (n == n_name || parent[n - n_name - 1] == '/');
    if (!as_typed) { /* "." or a link */
        *strrchr(whole, '/') = '\0';
        snprintf(parent, FS_PATH_MAX, "%s", whole[0] ? whole : "/");
    } else if (n == n_name) {
        snprintf(parent, FS_PATH_MAX, ".");
    } else {
        parent[n - n_name > 1 ? n - n_name - 1 : 1] = '\0';
    }
    return true;
}

bool folder_images_tell_classes(const folder_list_t *l)
{
    const size_t n = word_length(l->first_image);
    return l->numbered && (n != word_length(l->last_image) || strncmp(l->first_image, l->last_image, n) != 0);
}

/* "; for example: mkdir train/cat && mv …" if the names tell the classes, otherwise "". */
static void show_moves(const char *path, const folder_list_t *l, char *out, size_t n_bytes)
{
    char folder[FS_PATH_MAX], begin[FS_PATH_MAX], word[NAME_MAX + 1], quoted[2][FS_PATH_MAX];
    const size_t n = word_length(l->first_image);
    out[0] = '\0';
    if (!folder_images_tell_classes(l)) return;
    snprintf(word, sizeof word, "%.*s", (int)n, l->first_image);
    if (fs_join(folder, path, word) != ERR_OK) return;
    const size_t n_begin = n + strcspn(l->first_image + n, "0123456789");
    snprintf(word, sizeof word, "%.*s", (int)n_begin, l->first_image);
    if (fs_join(begin, path, word) != ERR_OK) return;
    fs_quote(folder, quoted[0], sizeof quoted[0]);
    fs_quote(begin, quoted[1], sizeof quoted[1]);
    int n_text =
        snprintf(out, n_bytes, "; if the names tell the classes, for example: mkdir %s && mv %s[0-9]* %s/",
                 quoted[0], quoted[1], quoted[0]);
    if (n_text < 0 || (size_t)n_text >= n_bytes) out[0] = '\0';
}

err_t folder_report_no_classes(const char *path, const folder_list_t *l, const char *train)
{
    char first[NAME_MAX + 1] = "", moves[ERR_MESSAGE_MAX / 2];
    if (l->n_images == 0) {
        for (int64_t i = 0; i < l->others.n && !first[0]; i++)
            if (l->n_archives == 0 || folder_is_archive(l->others.names[i]))
                snprintf(first, sizeof first, "%s", l->others.names[i]);
        folder_mask_line(first);
        if (l->n_archives > 0)
            RAISE(ERR_DATA, "%s holds no image, but %" PRId64 " archive%s, such as %s; unpack %s", path,
                  l->n_archives, l->n_archives > 1 ? "s" : "", first, l->n_archives > 1 ? "them" : "it");
        if (train)
            RAISE(
                ERR_DATA,
                "%s holds no folders of classes%s%s; it needs folders as in %s, or remove it to validate on the "
                "training images",
                path, first[0] ? ", but files such as " : "", first, train);
        RAISE(ERR_DATA, "%s holds no folders of classes%s%s", path, first[0] ? ", but files such as " : "",
              first);
    }
    memcpy(first, l->first_image, sizeof first);
    folder_mask_line(first);
    if (train)
        RAISE(ERR_DATA,
              "%s holds %" PRId64
              " image%s, such as %s, but no folders of classes; sort them into folders as in %s, or "
              "move %s away to validate on the training images",
              path, l->n_images, l->n_images > 1 ? "s" : "", first, train, path);
    show_moves(path, l, moves, sizeof moves);
    RAISE(ERR_DATA,
          "%s holds %" PRId64 " image%s, such as %s, where a folder per class is expected: %.200s/CLASS/%s%s",
          path, l->n_images, l->n_images > 1 ? "s" : "", first, path, first, moves);
}
