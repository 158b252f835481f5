/* SPDX-License-Identifier: MIT */
/* `dptrain checkpoint verify`: the seal of each file, then the checksum of each array, and a verdict over all
 * of them. */
#include <stdio.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/print.h"
#include "store/checkpoint/file.h"
#include "store/checkpoint/show.h"
#include "store/checkpoint/store.h"

typedef struct tally {
    int n, n_damaged, n_unknown; /* unknown: a read failed for another reason than damage */
    int n_empty;                 /* folders without checkpoints */
} tally_t;

/* The whole-file checksum, the name, then each array's checksum. */
static err_t verify_arrays(const char *path, int64_t *n_bytes)
{
    checkpoint_t *c;
    TRY(checkpoint_open(path, &c));
    err_t err = checkpoint_store_check_name(c);
    *n_bytes = checkpoint_bytes(c);
    for (int i = 0; err == ERR_OK && i < checkpoint_array_count(c); i++) {
        void *data = NULL;
        int64_t n;
        err = checkpoint_read_new(c, checkpoint_array(c, i), &n, &data);
        mem_free(&data);
    }
    checkpoint_close(&c);
    return err;
}

static void tally_add(tally_t *tally, err_t err, const char *path, int64_t n_bytes)
{
    tally->n++;
    tally->n_damaged += err == ERR_DATA;
    tally->n_unknown += err != ERR_OK && err != ERR_DATA;
    if (err == ERR_OK)
        print_out("ok      %s (%lld bytes)\n", path, (long long)n_bytes);
    else
        print_out("%s %s\n", err == ERR_DATA ? "not ok " : "unknown", err_message());
    fflush(stdout);
}

static void verify_path(const char *where, tally_t *tally)
{
    char path[FS_PATH_MAX];
    int64_t *steps = NULL, n_bytes = 0;
    int n = 0;
    err_t err = ERR_OK;
    if (!fs_is_folder(where)) {
        err = verify_arrays(where, &n_bytes);
        tally_add(tally, err, where, n_bytes);
        return;
    }
    err = checkpoint_store_list(where, &steps, &n);
    if (err != ERR_OK) tally_add(tally, err, where, 0);
    if (err == ERR_OK && n == 0) {
        tally->n_empty++;
        print_out("not ok  no checkpoint in the folder %s\n", where);
        fflush(stdout);
    }
    for (int i = 0; i < n; i++) {
        err = checkpoint_store_path(where, steps[i], path);
        if (err == ERR_OK) err = verify_arrays(path, &n_bytes);
        tally_add(tally, err, path, n_bytes);
    }
    mem_free(&steps);
}

static err_t tally_verdict(const tally_t *tally)
{
    if (tally->n_unknown > 0)
        RAISE(ERR_SYSTEM, "%d of %d checkpoint%s could not be read; try again", tally->n_unknown, tally->n,
              tally->n == 1 ? "" : "s");
    if (tally->n_damaged > 0)
        RAISE(ERR_DATA, "%d of %d checkpoint%s cannot be used; --resume auto skips them", tally->n_damaged,
              tally->n, tally->n == 1 ? "" : "s");
    if (tally->n_empty > 0)
        RAISE(ERR_DATA, "%d folder%s no checkpoint, see above", tally->n_empty,
              tally->n_empty == 1 ? " holds" : "s hold");
    return ERR_OK;
}

err_t checkpoint_verify_all(const char *const *wheres, int n)
{
    tally_t tally = {0};
    for (int i = 0; i < n; i++) verify_path(wheres[i], &tally);
    return tally_verdict(&tally);
}
