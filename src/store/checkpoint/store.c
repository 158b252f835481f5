/* SPDX-License-Identifier: MIT */
/* Names, lists, verifies and prunes the checkpoints of a folder. The newest one is found by verifying files,
 * never by a link. Their content is left to read.c and write.c. */
#include "store/checkpoint/store.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
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

/* The pid in the name of a temporary file (".NAME.tmp-PID"); -1 for any other name. */
static long temp_owner(const char *name)
{
    const char *mark = strstr(name, ".tmp-");
    if (name[0] != '.' || !mark || name_step(name + 1, (size_t)(mark - name - 1)) < 0) return -1;
    const char *number = mark + strlen(".tmp-");
    size_t n = strspn(number, digits);
    return n > 0 && n < 10 && number[n] == '\0' ? strtol(number, NULL, 10) : -1;
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

/* Verifies from the newest on. `newest` keeps the newest one's error for the message if none is intact. */
static err_t find_good(const char *folder, const int64_t *steps, int n, ckpt_passed_over_t passed_over,
                       void *context, char path[FS_PATH_MAX])
{
    char newest[ERR_MESSAGE_MAX / 2] = "";
    for (int i = 0; i < n; i++) {
        TRY(checkpoint_store_path(folder, steps[i], path));
        err_t err = checkpoint_verify(path);
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

/* The step to keep although it is not among the newest `keep`; -1: none. Those are verified first. */
static err_t find_spared(const char *folder, const int64_t *steps, int n, int keep, int64_t good_step,
                         int64_t *spared)
{
    *spared = -1;
    for (int i = 0; i < n; i++) {
        if (steps[i] == good_step) {
            *spared = good_step;
            return ERR_OK;
        }
    }
    for (int i = 0; i < n; i++) {
        char path[FS_PATH_MAX];
        TRY(checkpoint_store_path(folder, steps[i], path));
        err_t err = checkpoint_verify(path);
        if (err != ERR_OK && err != ERR_DATA) return err;
        if (err == ERR_OK) {
            *spared = i < keep ? -1 : steps[i];
            return ERR_OK;
        }
    }
    return ERR_OK;
}

err_t checkpoint_store_prune(const char *folder, int keep, int64_t good_step)
{
    ASSERT(keep >= 1);
    int64_t *steps = NULL, spared;
    int n = 0;
    err_t err = ERR_OK;
    TRY(checkpoint_store_list(folder, &steps, &n));
    if (n <= keep) goto out;
    TRY_OUT(err, find_spared(folder, steps, n, keep, good_step, &spared));
    for (int i = keep; i < n; i++) {
        char path[FS_PATH_MAX];
        if (steps[i] == spared) continue;
        TRY_OUT(err, checkpoint_store_path(folder, steps[i], path));
        if (unlink(path) != 0 && errno != ENOENT)
            RAISE_OUT(err, ERR_SYSTEM, "the old checkpoint %s cannot be deleted: %s", path, strerror(errno));
    }
out:
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
        long owner = temp_owner(entry->d_name);
        if (owner < 0) continue;
        /* One with this process's pid is from an earlier process, since this one has not written yet. */
        bool alive = owner != (long)getpid() && (kill((pid_t)owner, 0) == 0 || errno != ESRCH);
        if (owner > 0 && alive) continue;
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
