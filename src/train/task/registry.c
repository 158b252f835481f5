/* SPDX-License-Identifier: MIT */
/* The tasks, the choice among them, and helpers that they share. */
#include <stddef.h>

#include "base/mem.h"
#include "train/task/task.h"

extern const task_t task_classify, task_multilabel, task_crops, task_detect;

static const task_t *const tasks[] = {&task_classify, &task_multilabel, &task_crops, &task_detect};
enum { N_TASKS = sizeof tasks / sizeof *tasks };

const task_t *task_get(transform_task_t id)
{
    for (int i = 0; i < N_TASKS; i++)
        if (tasks[i]->id == id) return tasks[i];
    ASSERT(id == TASK_AUTO);
    return &task_classify;
}

const task_t *task_of(const dataset_info_t *info)
{
    return task_get(info->task);
}

const task_t *task_of_graph(const graph_t *graph, transform_task_t wanted)
{
    const task_t *fits = NULL;
    for (int i = 0; i < N_TASKS; i++) {
        if (!tasks[i]->fits(graph)) continue;
        if (!fits || tasks[i]->id == wanted) fits = tasks[i];
    }
    ASSERT(fits);
    return fits;
}

task_metrics_t task_metrics(const dataset_info_t *info, bool masks)
{
    return task_metrics_select(task_of(info)->metrics, info->n_classes, masks);
}

void task_put(const task_metrics_t *metrics, const char *name, double value, double *values)
{
    int i = task_metrics_find(metrics, name);
    if (i >= 0) values[i] = value;
}

err_t task_gather(comm_t *comm, const void *mine, int64_t n_bytes, const char *what, void *all,
                  int64_t *n_all)
{
    void **out = all;
    int64_t *sizes;
    TRY(mem_new_array(comm->size, sizeof *sizes, what, &sizes));
    err_t err = comm_allgather(comm, &n_bytes, sizeof n_bytes, sizes, what);
    *n_all = 0;
    for (int r = 0; r < comm->size; r++) *n_all += sizes[r];
    if (err == ERR_OK) err = comm_agree(comm, mem_new((size_t)*n_all, what, out), what);
    if (err == ERR_OK) err = comm_allgatherv(comm, mine, sizes, *out, what);
    mem_free(&sizes);
    return err;
}
