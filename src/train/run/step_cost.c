/* SPDX-License-Identifier: MIT */
/* What a step took: the times of its phases, on the host or between marks on a GPU, and what the process used.
 * Setting the marks is left to step.c and step_passes.c. */
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/run/step.h"

step_usage_t step_usage(void)
{
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    return (step_usage_t){.n_allocations = mem_count(),
                          .n_page_faults = now.ru_minflt,
                          .cpu_sec = (double)(now.ru_utime.tv_sec + now.ru_stime.tv_sec) +
                                     1e-6 * (double)(now.ru_utime.tv_usec + now.ru_stime.tv_usec)};
}

void step_usage_since(const step_usage_t *before, step_cost_t *out)
{
    const step_usage_t now = step_usage();
    out->n_allocations = now.n_allocations - before->n_allocations;
    out->n_page_faults = now.n_page_faults - before->n_page_faults;
    out->cpu = now.cpu_sec - before->cpu_sec;
}

static void read_host_costs(train_step_t *step)
{
    const trainer_t *t = step->t;
    step_cost_t *cost = &step->cost;
    int64_t n_bytes = (t->model.graph->n_flat_trained + t->learning.n_tail) * (int64_t)sizeof(float);
    cost->comm = step->begun_update - step->begun_comm;
    cost->optimizer = step->end - step->begun_update;
    cost->total = step->end - step->start;
    step_trace(step->number, "allreduce", step->begun_comm, step->begun_update, n_bytes);
    step_trace(step->number, "optimizer", step->begun_update, step->end, 0);
}

/* A step that follows another in flight takes from the end of that one to its own. */
static err_t read_device_costs(train_step_t *step)
{
    const trainer_t *t = step->t;
    step_cost_t *cost = &step->cost;
    step->end = clock_sec();
    if (!step_has_parts(t)) {
        TRY(step_read_marks(t, MARK_BEGIN, MARK_FORWARD, MARK_UPDATE, step->end, "forward", &cost->forward));
        TRY(step_read_marks(t, MARK_FORWARD, MARK_BACKWARD, MARK_UPDATE, step->end, "backward",
                            &cost->backward));
    }
    TRY(step_read_marks(t, MARK_BACKWARD, MARK_COMM, MARK_UPDATE, step->end, "allreduce", &cost->comm));
    TRY(step_read_marks(t, MARK_COMM, MARK_UPDATE, MARK_UPDATE, step->end, "optimizer", &cost->optimizer));
    double busy_sec = cost->forward + cost->backward + cost->comm + cost->optimizer;
    cost->total = step->end - step->start;
    if (!step->follows) {
        cost->data += input_stats_hidden_wait(step->feed_sec, step->end - step->have_data, busy_sec);
        return ERR_OK;
    }
    TRY(t->runtime.backend->seconds(step_end_mark(step->number - 1), step_end_mark(step->number),
                                    &cost->total));
    cost->data = input_stats_hidden_wait(cost->data + step->fed_sec, cost->total, busy_sec);
    return ERR_OK;
}

err_t step_read_costs(train_step_t *step)
{
    trainer_t *t = step->t;
    if (step_on_device(t))
        TRY(read_device_costs(step));
    else
        read_host_costs(step);
    step->cost.boxes = step->images.boxes;
    step->cost.masks = step->images.masks;
    t->telemetry.unslowed_sec = step->cost.total - t->telemetry.slowed_sec;
    step_trace(step->number, "step", step->start, step->end, 0);
    return ERR_OK;
}
