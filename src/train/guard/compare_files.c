/* SPDX-License-Identifier: MIT */
/* Guest: the run's hashes of its image files: compared between ranks before each checkpoint, and kept beside the checkpoints
 * for a resumed run. The exchange is left to train/feed/data.c. */
#include "base/log.h"
#include "cluster/watch/watchdog.h"
#include "data/dataset/content.h"
#include "train/feed/data.h"
#include "train/run/trainer.h"

typedef struct compare_files {
    comm_t *comm;
    const dataset_t *dataset;
    const char *folder;        /* the run's */
    bool kept_run, kept_cache; /* the hashes that are known: there, and in the user's cache */
} compare_files_t;

/* A failure is only a warning: without it, a resumed run compares less. */
static void write_beside(content_t *content, const char *folder)
{
    char path[FS_PATH_MAX];
    err_t err = fs_join(path, folder, CONTENT_RUN_NAME);
    if (err == ERR_OK) err = content_file_write(content, path, CONTENT_RUN);
    if (err != ERR_OK) log_warn("hashes of files are not kept: %s", err_message());
}

/* ERR_DATA: a file differs. */
static err_t compare_before_save(void *state, bool lasting)
{
    compare_files_t *s = state;
    bool any;
    watchdog_phase("comparing the contents of files");
    TRY(content_merge(s->comm, s->dataset->content, &any));
    if (any) s->kept_run = s->kept_cache = false;
    if (!s->kept_run && s->comm->rank == 0) write_beside(s->dataset->content, s->folder);
    s->kept_run = true;
    if (!lasting) return ERR_OK;
    if (!s->kept_cache) content_keep(s->comm, s->dataset);
    s->kept_cache = true;
    return ERR_OK;
}

static bool compare_files_wanted(const trainer_t *t)
{
    return t->input.dataset->content != NULL;
}

static err_t compare_files_open(trainer_t *t, void *state)
{
    compare_files_t *s = state;
    *s = (compare_files_t){.comm = t->comm, .dataset = t->input.dataset, .folder = t->output.folder};
    return ERR_OK;
}

const guest_t compare_files_guest = {.name = "compare files",
                                     .state_bytes = sizeof(compare_files_t),
                                     .wanted = compare_files_wanted,
                                     .open = compare_files_open,
                                     .before_save = compare_before_save};
