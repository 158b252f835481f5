/* SPDX-License-Identifier: MIT */
/* `dptrain bench comm`: its options, the plan in nccl-tests' terms that they make, and the run over what the communicator
 * offers. comm_table.c measures and prints. */
#include "tools/bench/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/opt.h"
#include "cluster/hosts/machine.h"
#include "tools/bench/cases.h"

const comm_test_info_t comm_tests[COMM_TESTS] = {
    {"all_reduce", COLLECTIVE_ALL_REDUCE, true, false, false},
    {"all_gather", COLLECTIVE_ALL_GATHER, false, false, true},
    {"reduce_scatter", COLLECTIVE_REDUCE_SCATTER, true, false, true},
    {"broadcast", COLLECTIVE_BROADCAST, false, true, false},
    {"reduce", COLLECTIVE_REDUCE, true, true, false},
    {"alltoall", COLLECTIVE_ALLTOALL, false, false, true},
    {"sendrecv", COLLECTIVE_SENDRECV, false, false, false},
    {"bisection", COLLECTIVE_EXCHANGE, false, false, false},
    {"all_pairs", COLLECTIVE_EXCHANGE, false, false, false},
};

double comm_busbw_factor(comm_test_t test, int n)
{
    if (test == COMM_TEST_ALL_REDUCE) return (double)(2 * (n - 1)) / n;
    return comm_tests[test].in_parts ? (double)(n - 1) / n : 1;
}

int64_t comm_piece_count(comm_test_t test, int64_t n_bytes, collective_type_t type, int n)
{
    enum { PIECE_BYTES = 16 };
    int64_t n_element = (int64_t)collective_type_size(type), count = n_bytes / n_element;
    if (!comm_tests[test].in_parts) return count;
    return count / n & -(PIECE_BYTES / n_element);
}

int64_t comm_message_bytes(comm_test_t test, int64_t count, collective_type_t type, int n)
{
    return count * (int64_t)collective_type_size(type) * (comm_tests[test].in_parts ? n : 1);
}

err_t comm_sizes_resolve(comm_sizes_t *s, bool quick)
{
    static const int64_t min = 8, max = 64 << 20, quick_max = 16 << 20;
    int64_t first = s->min ? s->min : s->max && s->max < min ? s->max : min;
    int64_t last = s->max ? s->max : quick ? quick_max : max;
    if (!s->max && last < first) last = first;
    if (first > last)
        RAISE(ERR_USAGE, "no size to measure: --minbytes (-b) %lld is greater than --maxbytes (-e) %lld",
              (long long)first, (long long)last);
    if (s->factor == 1 && !s->step && first < last)
        RAISE(ERR_USAGE,
              "invalid --stepfactor (-f) 1: the size would never grow; use 2 or more, or --stepbytes (-i)");
    if (!s->factor && !s->step) s->factor = quick ? 8 : 2;
    s->min = first;
    s->max = last;
    return ERR_OK;
}

bool comm_sizes_next(const comm_sizes_t *s, int64_t *n_bytes)
{
    int64_t next = s->min;
    bool beyond = false;
    if (*n_bytes > 0)
        beyond = s->factor > 1 ? __builtin_mul_overflow(*n_bytes, s->factor, &next)
                               : __builtin_add_overflow(*n_bytes, s->step, &next);
    if (beyond || next > s->max || next <= *n_bytes) return false;
    *n_bytes = next;
    return true;
}

enum { MAX_WORD = 32, MAX_WORDS = 16 };

/* The words that a list may hold. */
typedef struct vocabulary {
    const char *option;
    const char *const *words;
    int n;
    bool has_all;
} vocabulary_t;

/* Why a word that nccl-tests knows is not supported; NULL: unknown word. */
static const char *why_unsupported(const char *option, const char *word)
{
    static const char *const eighths[] = {"fp8_e4m3", "f8e4m3", "f8e5m2", NULL};
    if (strcmp(option, "datatype") == 0 && opt_listed(eighths, word))
        return "8-bit float sums cannot be verified exactly; int8 moves the same amount of data";
    return NULL;
}

/* The word of this program for one of mpi4py's, torch's or NumPy's; NULL: none. */
static const char *synonym(const char *option, const char *word)
{
    if (strcmp(option, "op") == 0 && opt_is_among(word, "mean|average")) return "avg";
    return NULL;
}

static err_t raise_unknown_word(const vocabulary_t *v, const char *word)
{
    char list[256] = "";
    const char *why = why_unsupported(v->option, word), *nearest = synonym(v->option, word);
    if (!nearest) nearest = opt_nearest(word, v->words, v->n);
    if (why) RAISE(ERR_USAGE, "invalid --%s '%s': %s", v->option, word, why);
    if (nearest) RAISE(ERR_USAGE, "invalid --%s '%s': did you mean '%s'?", v->option, word, nearest);
    for (int i = 0; i < v->n; i++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", v->words[i]);
    }
    RAISE(ERR_USAGE, "invalid --%s '%s': expected a comma-separated list of %s%s", v->option, word, list,
          v->has_all ? ", all" : "");
}

static int find_word(const vocabulary_t *v, const char *word)
{
    for (int i = 0; i < v->n; i++)
        if (strcmp(v->words[i], word) == 0) return i;
    return -1;
}

/* The indices of the words, each once, in the order given. */
static err_t parse_words(const vocabulary_t *v, const char *text, int indices[MAX_WORDS], int *n, bool *all)
{
    *n = 0;
    *all = false;
    for (const char *at = text;; at++) {
        char word[MAX_WORD];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < MAX_WORD ? length : MAX_WORD - 1), at);
        at += length;
        if (v->has_all && strcmp(word, "all") == 0) {
            *all = true;
        } else {
            int i = find_word(v, word), k = 0;
            if (i < 0) return raise_unknown_word(v, word);
            while (k < *n && indices[k] != i) k++;
            indices[k] = i;
            *n += k == *n;
        }
        if (!*at) break;
    }
    for (int i = 0; *all && i < v->n; i++) indices[i] = i;
    if (*all) *n = v->n;
    return ERR_OK;
}

bool comm_has_type(const collective_ops_t *by, collective_type_t type)
{
    return by->types >> type & 1;
}

bool comm_has_op(const collective_ops_t *by, collective_op_t op)
{
    return by->ops >> op & 1;
}

/* Whether a communicator offers a test in one of the ways to be measured. */
static bool comm_plan_has_test(const comm_plan_t *plan, const collective_ops_t *by, comm_test_t test)
{
    unsigned kinds = (plan->out_of_place ? by->out_of_place : 0) | (plan->in_place ? by->in_place : 0);
    return kinds >> comm_tests[test].kind & 1;
}

static err_t check_test(const comm_plan_t *plan, const collective_ops_t *by, comm_test_t test)
{
    const char *name = comm_tests[test].name;
    if (comm_plan_has_test(plan, by, test)) return ERR_OK;
    if (!((by->out_of_place | by->in_place) >> comm_tests[test].kind & 1))
        RAISE(ERR_USAGE, "--test %s: %s", name, by->limits);
    if (plan->out_of_place) RAISE(ERR_USAGE, "--inplace out: %s", by->limits);
    RAISE(ERR_USAGE, "--inplace in: %s supports %s only out of place", by->title, name);
}

/* `all` skips what a communicator does not offer; naming it is an error. */
static err_t check_offered(const comm_plan_t *plan, const collective_ops_t *by)
{
    bool any = false;
    for (int i = 0; i < plan->n_tests; i++) {
        any |= comm_plan_has_test(plan, by, plan->tests[i]);
        if (!plan->all_tests) TRY(check_test(plan, by, plan->tests[i]));
    }
    if (!any) RAISE(ERR_USAGE, "--inplace %s: %s", plan->in_place ? "in" : "out", by->limits);
    for (int i = 0; i < plan->n_types && !plan->all_types; i++)
        if (!comm_has_type(by, plan->types[i]))
            RAISE(ERR_USAGE, "--datatype %s: %s", collective_type_names[plan->types[i]], by->limits);
    for (int i = 0; i < plan->n_ops && !plan->all_ops; i++)
        if (!comm_has_op(by, plan->ops[i]))
            RAISE(ERR_USAGE, "--op %s: %s", collective_op_names[plan->ops[i]], by->limits);
    return ERR_OK;
}

static err_t parse_communicators(const char *text, comm_plan_t *out)
{
    const char *words[COLLECTIVE_MAX_OPS + 1];
    int indices[MAX_WORDS], n, n_names = collective_names(words);
    bool all;
    words[n_names] = "auto";
    const vocabulary_t communicator = {"communicator", words, n_names + 1, false};
    TRY(parse_words(&communicator, text, indices, &n, &all));
    for (int i = 0; i < n; i++) {
        if (indices[i] < n_names)
            out->names[out->n_names++] = words[indices[i]];
        else if (n > 1)
            RAISE(ERR_USAGE, "invalid --communicator '%s': auto cannot be combined with others", text);
    }
    return ERR_OK;
}

err_t comm_plan_parse(const comm_words_t *words, comm_plan_t *out)
{
    const char *test_words[COMM_TESTS];
    for (int i = 0; i < COMM_TESTS; i++) test_words[i] = comm_tests[i].name;
    const vocabulary_t test = {"test", test_words, COMM_TESTS, true};
    const vocabulary_t type = {"datatype", collective_type_names, COLLECTIVE_TYPES, true};
    const vocabulary_t op = {"op", collective_op_names, COLLECTIVE_OPS, true};
    int indices[MAX_WORDS];
    *out = (comm_plan_t){.out_of_place = strcmp(words->inplace, "in") != 0,
                         .in_place = strcmp(words->inplace, "out") != 0};
    TRY(parse_words(&test, words->tests, indices, &out->n_tests, &out->all_tests));
    for (int i = 0; i < out->n_tests; i++) out->tests[i] = (comm_test_t)indices[i];
    TRY(parse_words(&type, words->types, indices, &out->n_types, &out->all_types));
    for (int i = 0; i < out->n_types; i++) out->types[i] = (collective_type_t)indices[i];
    TRY(parse_words(&op, words->ops, indices, &out->n_ops, &out->all_ops));
    for (int i = 0; i < out->n_ops; i++) out->ops[i] = (collective_op_t)indices[i];
    TRY(parse_communicators(words->communicators, out));
    for (int i = 0; i < out->n_names; i++) {
        const collective_ops_t *by = collective_find(out->names[i]);
        if (by) TRY(check_offered(out, by));
    }
    return ERR_OK;
}

/* By name; NULL: not offered. */
static const collective_ops_t *find_offered(const collective_ops_t *const *offered, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(offered[i]->name, name) == 0) return offered[i];
    return NULL;
}

err_t comm_plan_settle(comm_plan_t *plan, const collective_ops_t *const *offered, int n)
{
    for (int k = 0; k < plan->n_names; k++)
        if (!find_offered(offered, n, plan->names[k]))
            RAISE(ERR_USAGE, "--communicator %s needs %s", plan->names[k], collective_needs(plan->names[k]));
    for (int i = 0; i < n; i++) {
        bool wanted = plan->n_names == 0 && i == 0;
        for (int k = 0; k < plan->n_names; k++) wanted |= strcmp(plan->names[k], offered[i]->name) == 0;
        if (!wanted) continue;
        plan->by[plan->n_by++] = offered[i];
        TRY(check_offered(plan, offered[i]));
    }
    return ERR_OK;
}

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

static err_t comm_check_options(void *options)
{
    bench_comm_options_t *o = options;
    comm_sizes_t sizes = {o->min_bytes, o->max_bytes, o->step_factor, o->step_bytes};
    TRY(comm_sizes_resolve(&sizes, false));
    const comm_words_t words = {o->test, o->datatype, o->op, o->communicator, o->inplace};
    TRY(comm_plan_parse(&words, &o->plan));
    char *end = NULL;
    o->inject_element = -1;
    if (!o->inject) return ERR_OK;
    o->inject_rank = strtoll(o->inject, &end, 10);
    if (end != o->inject && *end == ':') o->inject_element = strtoll(end + 1, &end, 10);
    if (o->inject_element < 0 || o->inject_rank < 0 || *end)
        RAISE(ERR_USAGE, "invalid --inject '%s': expected RANK:ELEMENT", o->inject);
    return ERR_OK;
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
    const comm_plan_t *plan = &s.plan;
    int64_t n_buffers = 0;
    for (int i = 0; i < plan->n_by; i++) n_buffers += comm_lane_buffers(&s, plan->by[i]);
    TRY_OUT(err, bench_check_memory(s.bench, n_buffers * s.sizes.max, "bench comm --maxbytes"));
    for (int i = 0; i < plan->n_by; i++) TRY_OUT(err, comm_lane_open(&s, plan->by[i], &s.lanes[i]));
    TRY_OUT(err, comm_devices_print(&s));
    for (int i = 0; i < plan->n_by; i++)
        for (int k = 0; k < plan->n_tests; k++)
            if (comm_plan_has_test(plan, plan->by[i], plan->tests[k]))
                TRY_OUT(err, comm_table(&s, plan->tests[k], &s.lanes[i]));
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
