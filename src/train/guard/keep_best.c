/* SPDX-License-Identifier: MIT */
/* Guest: --keep-best, a checkpoint after the best evaluation, and the paths of checkpoints at the end. Pruning the others
 * is left to store/checkpoint. */
#include "base/log.h"
#include "cluster/session/disk_wait.h"
#include "store/checkpoint/store.h"
#include "train/run/trainer.h"

typedef struct keep_best {
    bool keeps;
    const train_position_t *at;
    const train_saving_t *saving;
    const train_output_t *output;
    const task_metrics_t *metrics;
} keep_best_t;

static err_t keep_best_open(trainer_t *t, void *state)
{
    keep_best_t *keep = state;
    *keep = (keep_best_t){.keeps = t->options->keep_best,
                          .at = &t->at,
                          .saving = &t->saving,
                          .output = &t->output,
                          .metrics = &t->task.metrics};
    return ERR_OK;
}

static bool keep_best_saves(const void *state, bool epoch_end)
{
    const keep_best_t *keep = state;
    (void)epoch_end;
    return keep->keeps && keep->at->best_step == keep->at->step && keep->saving->last_step != keep->at->step;
}

static bool has_checkpoint(const char *folder, int64_t step, char path[FS_PATH_MAX])
{
    if (step < 0) return false;
    disk_wait_begin("listing", folder);
    bool saved = checkpoint_store_path(folder, step, path) == ERR_OK && fs_exists(path);
    disk_wait_end();
    return saved;
}

static err_t keep_best_at_end(void *state, const run_end_t *end)
{
    const keep_best_t *keep = state;
    const int main = keep->metrics->main;
    char path[FS_PATH_MAX];
    if (end->stopped) return ERR_OK;
    if (has_checkpoint(keep->output->folder, keep->at->step, path)) log_info("checkpoint %s", path);
    if (keep->keeps && has_checkpoint(keep->output->folder, keep->at->best_step, path))
        log_info("best checkpoint %s: validation %s %.4f", path, keep->metrics->at[main]->label,
                 keep->at->best[main]);
    return ERR_OK;
}

const guest_t keep_best_guest = {.name = "keep best",
                                 .state_bytes = sizeof(keep_best_t),
                                 .open = keep_best_open,
                                 .saves = keep_best_saves,
                                 .at_end = keep_best_at_end};
