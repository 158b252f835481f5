/* SPDX-License-Identifier: MIT */
/* Which options of `dptrain bench` depend on others, on the device or on the chosen cases: those that change
 * nothing are warned of. */
#include <string.h>

#include "cluster/comm/device.h"
#include "tools/bench/cases.h"
#include "tools/bench/comm_case.h"

static const opt_when_t whens[] = {
    {"budget|ci", "samples", "0", "runs without --samples"},
    {"op", "reductions", "yes", "--test all_reduce, reduce_scatter or reduce"},
    {"root", "roots", "yes", "--test broadcast or reduce"},
    {"stepbytes", "stepfactor", "0|1", "sizes without --stepfactor"},
    {"gemm-max", "gemm-shapes", "all|square", NULL},
    {"mem-fresh", "device", "ref|cpu", NULL},
    {"cuda-graph", "steps", "yes", "the case step"},
    {"workspace|cuda-graph|gpus|share-gpu", "device", "cuda", NULL},
    {"bucket|nccl-register|wire", "gradients", "nccl", "gradients that NCCL sums between GPUs"},
    {"allreduce", "gradients", "mpi", "gradients that MPI sums"},
    {NULL, NULL, NULL, NULL},
};

static const char *yes_or_no(bool holds)
{
    return holds ? "yes" : "no";
}

void bench_warn_idle(const bench_t *bench, const opt_group_t *groups, int n_groups,
                     const bench_choice_t *cases, int n)
{
    bool reduces = false, roots = false, steps = false, sums = false;
    for (int i = 0; i < n; i++) {
        const comm_plan_t *plan =
            cases[i].which == &bench_comm ? &((const bench_comm_options_t *)cases[i].options)->plan : NULL;
        for (int k = 0; plan && k < plan->n_tests; k++) {
            reduces |= comm_tests[plan->tests[k]].reduces;
            roots |= comm_tests[plan->tests[k]].rooted;
        }
        steps |= cases[i].which == &bench_step;
        sums |= plan != NULL;
    }
    /* A script for any number of ranks is right with one, too. */
    const bool alone = bench->comm->size == 1;
    const opt_fact_t facts[] = {
        {"reductions", yes_or_no(reduces)},
        {"roots", yes_or_no(roots)},
        {"steps", yes_or_no(steps)},
        {"device", bench->runtime.backend->name},
        {"gradients", alone           ? NULL
                      : steps || sums ? comm_gradients_name(bench->comm)
                                      : "none"},
        {NULL, NULL},
    };
    opt_warn_idle(groups, n_groups, whens, facts, NULL);
}
