/* SPDX-License-Identifier: MIT */
/* The time of a whole job. */
#include "tools/forecast/job.h"

#include <math.h>

job_time_t job_time(const job_t *job, double n_ranks, double step_sec, double alone_sec)
{
    const double n_steps = job->n_epochs * ceil(job->n_samples / (job->batch * n_ranks)),
                 ideal = job->n_epochs * job->n_samples / (job->batch * n_ranks) * alone_sec;
    job_time_t t = {.start_sec = job->start_sec,
                    .steps_sec = n_steps * step_sec,
                    .eval_sec = job->n_epochs * (job->eval_fixed_sec + job->eval_shared_sec / n_ranks),
                    .checkpoint_sec = job->n_epochs * job->checkpoint_sec};
    t.sec = t.start_sec + t.steps_sec + t.eval_sec + t.checkpoint_sec;
    t.efficiency = ideal / t.sec;
    return t;
}
