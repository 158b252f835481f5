/* SPDX-License-Identifier: MIT */
/* The plan of `bench comm`: lists of tests, types, operations and sizes in nccl-tests' terms, and its bandwidth
 * formulas. Pure functions. */
#include <stdio.h>
#include <string.h>

#include "text/opt.h"
#include "tools/bench/comm.h"

const comm_test_info_t comm_tests[COMM_TESTS] = {
    {"all_reduce", COLLECTIVE_ALL_REDUCE, true, false, false},
    {"all_gather", COLLECTIVE_ALL_GATHER, false, false, true},
    {"reduce_scatter", COLLECTIVE_REDUCE_SCATTER, true, false, true},
    {"broadcast", COLLECTIVE_BROADCAST, false, true, false},
    {"reduce", COLLECTIVE_REDUCE, true, true, false},
    {"gather", COLLECTIVE_GATHER, false, true, true},
    {"scatter", COLLECTIVE_SCATTER, false, true, true},
    {"alltoall", COLLECTIVE_ALLTOALL, false, false, true},
    {"alltoallv", COLLECTIVE_ALLTOALLV, false, false, true},
    {"hypercube", COLLECTIVE_HYPERCUBE, false, false, true},
    {"sendrecv", COLLECTIVE_SENDRECV, false, false, false},
    {"bisection", COLLECTIVE_EXCHANGE, false, false, false},
    {"all_pairs", COLLECTIVE_EXCHANGE, false, false, false},
};

double comm_algbw_factor(comm_test_t test, int n)
{
    return test == COMM_TEST_HYPERCUBE ? (double)(n - 1) / n : 1;
}

double comm_busbw_factor(comm_test_t test, int n)
{
    if (test == COMM_TEST_ALL_REDUCE) return (double)(2 * (n - 1)) / n;
    if (test == COMM_TEST_HYPERCUBE) return 1;
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
    const int64_t n_element = (int64_t)collective_type_size(type);
    if (test != COMM_TEST_ALLTOALLV) return count * n_element * (comm_tests[test].in_parts ? n : 1);
    /* The same for every rank. */
    int64_t sum = 0;
    for (int r = 0; r < n; r++) sum += collective_part(count, type, 0, r, n);
    return sum * n_element;
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

bool comm_plan_has_test(const comm_plan_t *plan, const collective_ops_t *by, comm_test_t test)
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
