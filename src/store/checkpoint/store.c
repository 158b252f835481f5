/* SPDX-License-Identifier: MIT */
/* Names, lists, verifies and prunes the checkpoints of a folder. The newest one is found by verifying files,
 * never by a link. Their content is left to file.c. */
#include "store/checkpoint/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/checkpoint/file.h"
#include "store/h5/seal.h"

enum { STEP_DIGITS = 12, NAME_BYTES = 5 + STEP_DIGITS + 3 }; /* "ckpt-" digits ".h5" */

static const char digits[] = "0123456789";

err_t checkpoint_store_path(const char *folder, int64_t step, char out[FS_PATH_MAX])
{
    char name[64];
    ASSERT(step >= 0 && step < INT64_C(1000000000000));
    snprintf(name, sizeof name, "ckpt-%0*" PRId64 ".h5", STEP_DIGITS, step);
    return fs_join(out, folder, name);
}

/* The step in the first n bytes of a checkpoint's name; -1 for any other name. */
static int64_t name_step(const char *name, size_t n)
{
    if (n != NAME_BYTES || strncmp(name, "ckpt-", 5) != 0 || strncmp(name + 5 + STEP_DIGITS, ".h5", 3) != 0 ||
        strspn(name + 5, digits) != STEP_DIGITS)
        return -1;
    return strtoll(name + 5, NULL, 10);
}

/* Whether it is the name of a checkpoint's temporary file. */
static bool is_leftover(const char *name)
{
    const char *mark = strstr(name, ".tmp-");
    return name[0] == '.' && mark && name_step(name + 1, (size_t)(mark - name - 1)) >= 0 &&
           fs_is_temp_suffix(mark);
}

static err_t open_folder(const char *folder, DIR **out)
{
    *out = opendir(folder);
    if (*out) return ERR_OK;
    if (errno == ENOENT) RAISE(ERR_DATA, "the checkpoint folder %s does not exist", folder);
    RAISE(seal_errno_code(errno), "the checkpoint folder %s cannot be read: %s", folder, strerror(errno));
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

err_t checkpoint_store_list(const char *folder, int64_t **steps, int *n)
{
    DIR *dir = NULL;
    int64_t *list = NULL;
    int count = 0;
    err_t err = ERR_OK;
    TRY(open_folder(folder, &dir));
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (!entry && errno)
            RAISE_OUT(err, seal_errno_code(errno), "the checkpoint folder %s cannot be read: %s", folder,
                      strerror(errno));
        if (!entry) break;
        int64_t step = name_step(entry->d_name, strlen(entry->d_name));
        if (step < 0) continue;
        TRY_OUT(err, mem_grow(count + 1, sizeof *list, "a list of checkpoints", &list));
        list[count++] = step;
    }
    if (count > 1) qsort(list, (size_t)count, sizeof *list, newest_first);
    *steps = list;
    *n = count;
    list = NULL;
out:
    mem_free(&list);
    closedir(dir);
    return err;
}

err_t checkpoint_store_check_name(const checkpoint_t *checkpoint)
{
    const char *path = checkpoint_path(checkpoint), *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const h5_attr_t *attr = checkpoint_find_attr(checkpoint, "step");
    int64_t named = name_step(name, strlen(name));
    if (named < 0 || !attr || attr->type != H5_INT || attr->integer == named) return ERR_OK;
    RAISE(ERR_DATA,
          "the checkpoint %s was renamed: it holds step %" PRId64 ", not %" PRId64 "; name it ckpt-%0*" PRId64
          ".h5",
          path, attr->integer, named, STEP_DIGITS, attr->integer);
}

/* *renamed: the error is about the name alone. */
static err_t verify_step(const char *path, bool *renamed)
{
    checkpoint_t *c = NULL;
    *renamed = false;
    TRY(checkpoint_open(path, &c));
    err_t err = checkpoint_store_check_name(c);
    *renamed = err != ERR_OK;
    checkpoint_close(&c);
    return err;
}

/* Verifies from the newest on. `newest` keeps the newest one's error for the message if none is intact. */
static err_t find_good(const char *folder, const int64_t *steps, int n, ckpt_passed_over_t passed_over,
                       void *context, char path[FS_PATH_MAX])
{
    char newest[ERR_MESSAGE_MAX / 2] = "";
    for (int i = 0; i < n; i++) {
        bool renamed;
        TRY(checkpoint_store_path(folder, steps[i], path));
        err_t err = verify_step(path, &renamed);
        if (err != ERR_DATA) return err;
        if (passed_over) passed_over(context, path, err_message());
        if (i == 0) snprintf(newest, sizeof newest, "%s", err_message());
    }
    if (n == 1) RAISE(ERR_DATA, "the only checkpoint in %s cannot be used: %s", folder, newest);
    RAISE(ERR_DATA, "none of the %d checkpoints in %s can be used; the newest: %s", n, folder, newest);
}

err_t checkpoint_store_latest(const char *folder, ckpt_passed_over_t passed_over, void *context,
                              char path[FS_PATH_MAX], int *n_found)
{
    int64_t *steps = NULL;
    *n_found = fs_exists(folder) || errno != ENOENT ? -1 : 0;
    TRY(checkpoint_store_list(folder, &steps, n_found));
    err_t err = ERR_OK;
    if (*n_found == 0) RAISE_OUT(err, ERR_DATA, "no checkpoint in the folder %s", folder);
    TRY_OUT(err, find_good(folder, steps, *n_found, passed_over, context, path));
out:
    mem_free(&steps);
    return err;
}

err_t checkpoint_store_read_back(const char *folder, int64_t step)
{
    char path[FS_PATH_MAX];
    TRY(checkpoint_store_path(folder, step, path));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    err_t err = checkpoint_verify(path);
    if (err != ERR_DATA) return err;
    unlink(path);
    RAISE(ERR_SYSTEM,
          "the checkpoint of step %" PRId64
          " was written, but reads back differently, and was deleted; earlier "
          "checkpoints stay in %s; check its device and this host's memory",
          step, folder);
}

err_t ckpt_verified_add(ckpt_verified_t *v, int64_t step)
{
    TRY(mem_grow(v->n + 1, sizeof *v->steps, "a list of checkpoints", &v->steps));
    v->steps[v->n++] = step;
    return ERR_OK;
}

static bool is_verified(const ckpt_verified_t *v, int64_t step)
{
    for (int i = 0; i < v->n; i++)
        if (v->steps[i] == step) return true;
    return false;
}

/* Takes a step off a list. */
static void leave_out(int64_t step, int64_t *steps, int *n)
{
    int n_left = 0;
    for (int i = 0; i < *n; i++)
        if (steps[i] != step) steps[n_left++] = steps[i];
    *n = n_left;
}

/* Verifies the listed checkpoints that are not known to be intact. Reorders them by the order in which they may
 * be deleted, damaged ones first, and drops renamed ones and those of other versions from the list. */
static err_t order_by_worth(const char *folder, int64_t newest, ckpt_verified_t *verified, int64_t *steps,
                            int *n)
{
    int64_t *damaged = NULL;
    int n_damaged = 0, n_good = 0;
    err_t err = ERR_OK;
    TRY(mem_new_array(*n, sizeof *damaged, "a list of checkpoints", &damaged));
    for (int i = 0; i < *n; i++) {
        char path[FS_PATH_MAX];
        bool good = steps[i] == newest || is_verified(verified, steps[i]), renamed = false;
        TRY_OUT(err, checkpoint_store_path(folder, steps[i], path));
        if (!good) {
            err = verify_step(path, &renamed);
            if (err != ERR_OK && err != ERR_DATA) goto out;
            good = err == ERR_OK;
            err = ERR_OK;
            if (good) TRY_OUT(err, ckpt_verified_add(verified, steps[i]));
        }
        if (good)
            steps[n_good++] = steps[i];
        else if (!renamed && !checkpoint_is_of_other_schema(path))
            damaged[n_damaged++] = steps[i];
    }
    *n = n_damaged + n_good;
    for (int i = 0; i < n_good / 2; i++) {
        int64_t newer = steps[i];
        steps[i] = steps[n_good - 1 - i];
        steps[n_good - 1 - i] = newer;
    }
    memmove(steps + n_damaged, steps, (size_t)n_good * sizeof *steps);
    for (int i = 0; i < n_damaged; i++) steps[i] = damaged[n_damaged - 1 - i];
out:
    mem_free(&damaged);
    return err;
}

err_t checkpoint_store_prune(const char *folder, ckpt_keep_t keep, int64_t newest, ckpt_verified_t *verified)
{
    ASSERT(keep.n >= 1);
    ckpt_verified_t own = {0};
    if (!verified) verified = &own;
    int64_t *steps = NULL;
    int n = 0;
    err_t err = ERR_OK;
    TRY(checkpoint_store_list(folder, &steps, &n));
    leave_out(keep.best, steps, &n);
    if (n <= keep.n) goto out;
    TRY_OUT(err, order_by_worth(folder, newest, verified, steps, &n));
    for (int i = 0, n_left = n; i < n && n_left > keep.n; i++) {
        char path[FS_PATH_MAX];
        if (steps[i] == newest) continue;
        TRY_OUT(err, checkpoint_store_path(folder, steps[i], path));
        /* A folder of that name is not ours. */
        if (unlink(path) != 0 && errno != ENOENT && errno != EISDIR)
            RAISE_OUT(err, ERR_SYSTEM, "the old checkpoint %s cannot be deleted: %s", path, strerror(errno));
        leave_out(steps[i], verified->steps, &verified->n);
        n_left--;
    }
out:
    mem_free(&own.steps);
    mem_free(&steps);
    return err;
}

err_t checkpoint_store_clean(const char *folder, int *n_removed)
{
    DIR *dir = NULL;
    int n = 0;
    if (n_removed) *n_removed = 0;
    if (!fs_exists(folder)) return ERR_OK;
    TRY(open_folder(folder, &dir));
    err_t err = ERR_OK;
    for (struct dirent *entry; (entry = readdir(dir));) {
        char path[FS_PATH_MAX];
        if (!is_leftover(entry->d_name)) continue;
        TRY_OUT(err, fs_join(path, folder, entry->d_name));
        if (unlink(path) != 0 && errno != ENOENT)
            RAISE_OUT(err, ERR_SYSTEM, "the unfinished checkpoint %s cannot be deleted: %s", path,
                      strerror(errno));
        n++;
    }
    if (n_removed) *n_removed = n;
out:
    closedir(dir);
    return err;
}
