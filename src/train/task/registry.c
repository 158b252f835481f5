/* SPDX-License-Identifier: MIT */
/* The tasks, and the choice among them. */
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

const task_kind_t *task_kind_of(const model_t *model)
{
    for (int i = 0; i < N_TASKS; i++)
        if (tasks[i]->kind->detects == model->detects) return tasks[i]->kind;
    ASSERT(!"every model has a kind");
    return NULL;
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
