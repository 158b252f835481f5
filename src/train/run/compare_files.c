/* SPDX-License-Identifier: MIT */
/* A run's hashes of its image files: compared between ranks before each checkpoint, kept beside the checkpoints, and
 * read again by a resumed run. The exchange is left to train/feed/data.c. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cluster/comm/watchdog.h"
#include "data/dataset/content.h"
#include "train/feed/data.h"
#include "train/run/setup.h"

/* A failure is only a warning: without it, a resumed run compares less. */
static void write_beside(content_t *content, const char *folder)
{
    char path[FS_PATH_MAX];
    err_t err = fs_join(path, folder, CONTENT_RUN_NAME);
    if (err == ERR_OK) err = content_file_write(content, path, CONTENT_RUN);
    if (err != ERR_OK) log_warn("hashes of files are not kept: %s", err_message());
}

err_t train_compare_files(comm_t *comm, train_input_t *input, const char *folder, bool keep)
{
    content_t *content = input->dataset->content;
    bool any;
    if (!content) return ERR_OK;
    watchdog_phase("comparing the contents of files");
    TRY(content_merge(comm, content, &any));
    if (any) input->kept_run = input->kept_cache = false;
    if (!input->kept_run && comm->rank == 0) write_beside(content, folder);
    input->kept_run = true;
    if (!keep) return ERR_OK;
    if (!input->kept_cache) content_keep(comm, input->dataset);
    input->kept_cache = true;
    return ERR_OK;
}

static err_t read_beside(content_t *content, const char *checkpoint)
{
    char folder[FS_PATH_MAX], path[FS_PATH_MAX];
    const char *slash = strrchr(checkpoint, '/');
    const int n = slash ? (int)(slash - checkpoint) : 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? n : 1, slash ? checkpoint : ".");
    TRY(fs_join(path, slash && n == 0 ? "/" : folder, CONTENT_RUN_NAME));
    return content_file_read(content, path, CONTENT_RUN);
}

err_t train_expect_files(comm_t *comm, const train_input_t *input, const char *checkpoint)
{
    content_t *content = input->dataset->content;
    bool any;
    if (!content) return ERR_OK;
    err_t err = comm->rank == 0 ? read_beside(content, checkpoint) : ERR_OK;
    TRY(comm_agree(comm, err, "reading the run's hashes of files"));
    return content_merge(comm, content, &any);
}
