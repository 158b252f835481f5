/* SPDX-License-Identifier: MIT */
/* `dptrain bench comm`: options and their checks, and the run over what the communicator offers. comm_lane.c
 * has the buffers; comm_table.c measures and prints a collective, comm_pairs.c all pairs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/hosts/machine.h"
#include "tools/bench/cases.h"
#include "tools/bench/comm_case.h"

#define FIELD(name) offsetof(bench_comm_options_t, name)
static const char *const inplace_words[] = {"both", "in", "out", NULL};
static const opt_t table[] = {
    {"test", OPT_STRING, FIELD(test), "all_reduce", 0, 0, NULL, "LIST",
     "collectives: all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv, bisection, "
     "all_pairs; or all",
     OPT_COMMON},
    {"minbytes", OPT_SIZE, FIELD(min_bytes), NULL, 1, 1e18, NULL, "SIZE",
     "minimum message size, in bytes; short form -b [8]", OPT_COMMON},
    {"maxbytes", OPT_SIZE, FIELD(max_bytes), NULL, 1, 1e18, NULL, "SIZE",
     "maximum message size; short form -e [64M; 16M with --quick]", OPT_COMMON},
    {"stepfactor", OPT_INT, FIELD(step_factor), NULL, 1, 1e9, NULL, "N",
     "factor from one size to the next; short form -f [2; 8 with --quick]", OPT_COMMON},
    {"stepbytes", OPT_SIZE, FIELD(step_bytes), NULL, 1, 1e18, NULL, "SIZE",
     "increment from one size to the next, instead of --stepfactor; short form -i", OPT_MORE},
    {"datatype", OPT_STRING, FIELD(datatype), "float", 0, 0, NULL, "LIST",
     "element types: int8, uint8, int32, uint32, int64, uint64, float, double, half, bfloat16; or all; short "
     "form -d",
     OPT_MORE},
    {"op", OPT_STRING, FIELD(op), "sum", 0, 0, NULL, "LIST",
     "reductions: sum, prod, max, min, avg; or all; short form -o", OPT_MORE},
    {"root", OPT_INT, FIELD(root), "0", 0, 1e9, NULL, "RANK", "root of broadcast and reduce; short form -r",
     OPT_MORE},
    {"check", OPT_INT, FIELD(check), "1", 0, 1, NULL, "0|1",
     "verify every element once before each point; short form -c", OPT_MORE},
    {"communicator", OPT_STRING, FIELD(communicator), "auto", 0, 0, NULL, "LIST",
     "mpi: plain MPI; host: dptrain's allreduce in shared memory; nccl: between GPUs; auto: nccl where it "
     "sums gradients (--comm, --device), else mpi",
     OPT_MORE},
    {"inplace", OPT_CHOICE, FIELD(inplace), "both", 0, 0, inplace_words, NULL,
     "measure in-place calls, out-of-place calls, or both", OPT_MORE},
    {"line-rate", OPT_REAL, FIELD(line_rate_gbs), "0", 0, 1e6, NULL, "GB/s",
     "line rate of the network in one direction; results above it are flagged; 0: that of the hosts' "
     "fastest ports",
     OPT_MORE},
    {"inject", OPT_STRING, FIELD(inject), NULL, 0, 0, NULL, "RANK:ELEMENT",
     "flip a bit in the results of a rank before they are verified", OPT_HIDDEN},
};

void bench_comm_long_names(int argc, char **argv)
{
    static char names[][2][16] = {
        {"-b", "--minbytes"}, {"-e", "--maxbytes"}, {"-f", "--stepfactor"}, {"-i", "--stepbytes"},
        {"-d", "--datatype"}, {"-o", "--op"},       {"-r", "--root"},       {"-c", "--check"},
    };
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++)
            if (strcmp(argv[i], names[k][0]) == 0) argv[i] = names[k][1];
}

static err_t parse_inject(bench_comm_options_t *o)
{
    char *end = NULL;
    o->inject_element = -1;
    if (!o->inject) return ERR_OK;
    o->inject_rank = strtoll(o->inject, &end, 10);
    if (end != o->inject && *end == ':') o->inject_element = strtoll(end + 1, &end, 10);
    if (o->inject_element < 0 || o->inject_rank < 0 || *end)
        RAISE(ERR_USAGE, "invalid --inject '%s': expected RANK:ELEMENT", o->inject);
    return ERR_OK;
}

static err_t comm_check_options(void *options)
{
    bench_comm_options_t *o = options;
    comm_sizes_t sizes = {o->min_bytes, o->max_bytes, o->step_factor, o->step_bytes};
    TRY(comm_sizes_resolve(&sizes, false));
    const comm_words_t words = {o->test, o->datatype, o->op, o->communicator, o->inplace};
    TRY(comm_plan_parse(&words, &o->plan));
    return parse_inject(o);
}

/* Collective. Each host's fastest port, minimum over hosts; 0 with one host, or if one reports none. */
static err_t find_line_rate(comm_session_t *s)
{
    machine_port_t ports[MACHINE_MAX_PORTS];
    comm_t *comm = s->bench->comm;
    s->line_rate_gbs = s->options->line_rate_gbs;
    if (s->line_rate_gbs > 0 || comm->topo.n_hosts == 1) return ERR_OK;
    int n = machine_ports(ports);
    for (int i = 0; i < n; i++)
        if (ports[i].bits_per_sec / 8e9 > s->line_rate_gbs) s->line_rate_gbs = ports[i].bits_per_sec / 8e9;
    return comm_allreduce(comm, &s->line_rate_gbs, 1, DTYPE_F64, COMM_MIN, "finding the line rate");
}

static err_t open_lanes(comm_session_t *s)
{
    const comm_plan_t *plan = &s->plan;
    int64_t n_buffers = 0;
    for (int i = 0; i < plan->n_by; i++) n_buffers += comm_lane_buffers(s, plan->by[i]);
    TRY(bench_check_memory(s->bench, n_buffers * s->sizes.max, "bench comm --maxbytes"));
    for (int i = 0; i < plan->n_by; i++) TRY(comm_lane_open(s, plan->by[i], &s->lanes[i]));
    return ERR_OK;
}

static err_t run_tests(comm_session_t *s, comm_lane_t *lane)
{
    const comm_plan_t *plan = &s->plan;
    for (int i = 0; i < plan->n_tests; i++)
        if (comm_plan_has_test(plan, lane->by, plan->tests[i])) TRY(comm_table(s, plan->tests[i], lane));
    return ERR_OK;
}

/* Checks that need the number of ranks. */
static err_t check_ranks(const bench_comm_options_t *o, int n)
{
    if (o->root >= n)
        RAISE(ERR_USAGE, "invalid --root (-r) %lld: ranks are 0 to %d", (long long)o->root, n - 1);
    if (o->inject_element >= 0 && o->inject_rank >= n)
        RAISE(ERR_USAGE, "invalid --inject '%s': ranks are 0 to %d", o->inject, n - 1);
    return ERR_OK;
}

static err_t check_measured(const comm_session_t *s)
{
    if (s->n_measured > 0) return ERR_OK;
    RAISE(ERR_USAGE, "no size from %lld to %lld bytes is large enough for these types and ranks",
          (long long)s->sizes.min, (long long)s->sizes.max);
}

static err_t comm_run(bench_t *bench, const void *options)
{
    const bench_comm_options_t *o = options;
    comm_session_t s = {.bench = bench, .options = o, .plan = o->plan};
    s.sizes = (comm_sizes_t){o->min_bytes, o->max_bytes, o->step_factor, o->step_bytes};
    TRY(comm_agree(bench->comm, comm_sizes_resolve(&s.sizes, bench->options->quick), "choosing sizes"));
    TRY(comm_agree(bench->comm, check_ranks(o, bench->comm->size), "checking the options"));
    const collective_ops_t *offered[COLLECTIVE_MAX_OPS];
    int n_offered = collective_list(bench->comm, offered);
    TRY(comm_agree(bench->comm, comm_plan_settle(&s.plan, offered, n_offered), "choosing communicators"));
    err_t err;
    TRY_OUT(err, find_line_rate(&s));
    TRY_OUT(err, open_lanes(&s));
    TRY_OUT(err, comm_devices_print(&s));
    for (int i = 0; i < s.plan.n_by; i++) TRY_OUT(err, run_tests(&s, &s.lanes[i]));
    err = comm_agree(bench->comm, check_measured(&s), "checking that points were measured");
out:
    for (int i = 0; i < s.plan.n_by; i++) comm_lane_close(&s, &s.lanes[i]);
    return err;
}

const bench_case_t bench_comm = {
    .name = "comm",
    .summary = "collectives of MPI, NCCL and shared memory, as in nccl-tests",
    .min_ranks = 2,
    .table = table,
    .n_options = sizeof table / sizeof table[0],
    .n_options_bytes = sizeof(bench_comm_options_t),
    .check = comm_check_options,
    .run = comm_run,
};
