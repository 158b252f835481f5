/* SPDX-License-Identifier: MIT */
/* Names of shard files, and the recovery of complete shards when interrupted packing resumes. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "data/shard/h5.h"
#include "data/shard/writer.h"

void shard_name(split_t split, int64_t number, int64_t n_shards, char out[SHARD_NAME_MAX])
{
    snprintf(out, SHARD_NAME_MAX, "%s-%05" PRId64 "-of-%05" PRId64 ".h5", split_names[split], number,
             n_shards);
}

/* The length of the shard's name at the start of `name`, or 0. */
static size_t name_length(const char *name)
{
    for (int split = 0; split < SPLIT_COUNT; split++) {
        int64_t number, n_shards;
        int n_read = 0;
        char again[SHARD_NAME_MAX], format[64];
        snprintf(format, sizeof format, "%s-%%9" SCNd64 "-of-%%9" SCNd64 ".h5%%n", split_names[split]);
        if (sscanf(name, format, &number, &n_shards, &n_read) != 2 || n_read == 0) continue;
        if (number < 0 || number >= n_shards) return 0;
        shard_name((split_t)split, number, n_shards, again);
        return strncmp(name, again, strlen(again)) == 0 ? strlen(again) : 0;
    }
    return 0;
}

bool shard_is_name(const char *name)
{
    size_t n = name_length(name);
    return n > 0 && name[n] == '\0';
}

bool shard_is_leftover(const char *name)
{
    if (name[0] != '.') return false;
    size_t n = name_length(name + 1);
    if (strncmp(name + 1, SHARD_INDEX_NAME, strlen(SHARD_INDEX_NAME)) == 0) n = strlen(SHARD_INDEX_NAME);
    if (strncmp(name + 1, SHARD_MANIFEST_NAME, strlen(SHARD_MANIFEST_NAME)) == 0)
        n = strlen(SHARD_MANIFEST_NAME);
    return n > 0 && fs_is_temp_suffix(name + 1 + n);
}

err_t shard_path(const shard_plan_t *plan, char out[FS_PATH_MAX])
{
    char name[SHARD_NAME_MAX];
    shard_name(plan->split, plan->number, plan->n_shards, name);
    return fs_join(out, plan->folder, name);
}

err_t shard_temp_path(const shard_plan_t *plan, char out[FS_PATH_MAX])
{
    char path[FS_PATH_MAX], folder[FS_PATH_MAX];
    TRY(shard_path(plan, path));
    return fs_temp_path(path, folder, out);
}

static err_t open_shard(const shard_plan_t *plan, char path[FS_PATH_MAX], int *fd)
{
    TRY(shard_path(plan, path));
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) RAISE(seal_errno_code(errno), "cannot open the shard %s: %s", path, strerror(errno));
    return ERR_OK;
}

bool shard_is_done(const shard_plan_t *plan)
{
    char path[FS_PATH_MAX];
    int fd;
    seal_t seal;
    if (open_shard(plan, path, &fd) != ERR_OK) return false;
    const seal_file_t sealed = {fd, path, "shard"};
    bool done = seal_look(&sealed, &seal) == ERR_OK && seal.schema == SHARD_SCHEMA && seal.plan == plan->plan;
    close(fd);
    return done;
}

/* Verifies that the file is the part of the plan that its name indicates. */
static err_t check_part(const shard_plan_t *plan, const h5_tree_t *tree)
{
    const struct {
        const char *name;
        int64_t value;
    } wanted[] = {{"number", plan->number},
                  {"n_shards", plan->n_shards},
                  {"first", plan->first},
                  {"n_samples", plan->n_samples}};
    const char *path = tree->file.path;
    char split[16];
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        int64_t value;
        TRY(shard_h5_read_int(tree, wanted[i].name, &value));
        if (value != wanted[i].value)
            RAISE(ERR_DATA, "the shard %s has %s %" PRId64 "; expected %" PRId64, path, wanted[i].name, value,
                  wanted[i].value);
    }
    TRY(shard_h5_read_text(tree, "split", split, sizeof split));
    if (strcmp(split, split_names[plan->split]) != 0)
        RAISE(ERR_DATA, "the shard %s has split %s; expected %s", path, split, split_names[plan->split]);
    return ERR_OK;
}

static err_t load_shard(const shard_plan_t *plan, const h5_tree_t *tree, const seal_t *seal,
                        shard_file_t *file, shard_entry_t *entries)
{
    if (seal->plan != plan->plan)
        RAISE(ERR_DATA, "the shard %s belongs to another plan: %016" PRIx64 ", not %016" PRIx64,
              tree->file.path, seal->plan, plan->plan);
    TRY(check_part(plan, tree));
    *file = (shard_file_t){.first = plan->first,
                           .n_samples = plan->n_samples,
                           .n_bytes = seal->n_bytes,
                           .digest_high = seal->digest_high,
                           .digest_low = seal->digest_low};
    shard_name(plan->split, plan->number, plan->n_shards, file->name);
    TRY(shard_h5_read_int(tree, "n_annotations", &file->n_annotations));
    TRY(shard_h5_read_int(tree, "n_crowds", &file->n_crowds));
    return shard_h5_read(tree, "/records", SHARD_ENTRIES, plan->n_samples, entries);
}

err_t shard_load(const shard_plan_t *plan, shard_file_t *file, shard_entry_t *entries)
{
    char path[FS_PATH_MAX];
    int fd;
    h5_tree_t tree;
    seal_t seal;
    TRY(open_shard(plan, path, &fd));
    const seal_file_t sealed = {fd, path, "shard"};
    err_t err = shard_h5_open(&tree, &sealed, &seal);
    if (err == ERR_OK) err = load_shard(plan, &tree, &seal, file, entries);
    h5_tree_close(&tree);
    close(fd);
    return err;
}
