/* SPDX-License-Identifier: MIT */
/* Parses lists of tests, types, operations and sizes in nccl-tests' terms. Pure functions. */
#include "tools/bench/comm_plan.h"

#include <stdio.h>
#include <string.h>

#include "base/opt.h"

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
    if (strcmp(option, "op") == 0 && strcmp(word, "avg") == 0)
        return "MPI has no average; sum moves the same amount of data";
    return NULL;
}

static err_t raise_unknown_word(const vocabulary_t *v, const char *word)
{
    char list[256] = "";
    const char *why = why_unsupported(v->option, word), *nearest = opt_nearest(word, v->words, v->n);
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

/* MPI and the host communicator lack NCCL's types: `all` skips these, naming one is an error. */
static err_t check_types(const comm_plan_t *plan)
{
    for (int i = 0; i < plan->n_types && !plan->all_types; i++)
        if (plan->types[i] >= COLLECTIVE_MPI_TYPES && (plan->by_mpi || plan->by_host))
            RAISE(ERR_USAGE,
                  "--datatype %s: MPI cannot reduce this type; NCCL can (--device cuda --comm nccl)",
                  collective_type_names[plan->types[i]]);
    return ERR_OK;
}

err_t comm_plan_parse(const char *tests, const char *types, const char *ops, const char *communicators,
                      comm_plan_t *out)
{
    static const char *const communicator_words[] = {"mpi", "host", "nccl", "auto"};
    const char *test_words[COMM_TESTS];
    for (int i = 0; i < COMM_TESTS; i++) test_words[i] = comm_tests[i].name;
    const vocabulary_t test = {"test", test_words, COMM_TESTS, true};
    const vocabulary_t type = {"datatype", collective_type_names, COLLECTIVE_TYPES, true};
    const vocabulary_t op = {"op", collective_op_names, COLLECTIVE_OPS, true};
    const vocabulary_t communicator = {"communicator", communicator_words, 4, false};
    int indices[MAX_WORDS], n;
    bool all;
    *out = (comm_plan_t){0};
    TRY(parse_words(&test, tests, indices, &out->n_tests, &out->all_tests));
    for (int i = 0; i < out->n_tests; i++) out->tests[i] = (comm_test_t)indices[i];
    TRY(parse_words(&type, types, indices, &out->n_types, &out->all_types));
    for (int i = 0; i < out->n_types; i++) out->types[i] = (collective_type_t)indices[i];
    TRY(parse_words(&op, ops, indices, &out->n_ops, &all));
    for (int i = 0; i < out->n_ops; i++) out->ops[i] = (collective_op_t)indices[i];
    TRY(parse_words(&communicator, communicators, indices, &n, &all));
    for (int i = 0; i < n; i++) {
        out->by_mpi |= indices[i] == 0;
        out->by_host |= indices[i] == 1;
        out->by_nccl |= indices[i] == 2;
        out->by_auto |= indices[i] == 3;
    }
    if (out->by_auto && n > 1)
        RAISE(ERR_USAGE, "invalid --communicator '%s': auto cannot be combined with others", communicators);
    return check_types(out);
}

err_t comm_plan_settle(comm_plan_t *plan, bool on_device, bool in_place)
{
    if (plan->by_auto) {
        plan->by_nccl = on_device;
        plan->by_mpi = !on_device;
        plan->by_auto = false;
    }
    if (plan->by_nccl && !on_device)
        RAISE(ERR_USAGE, "--communicator nccl needs GPUs and NCCL: --device cuda --comm nccl");
    for (int i = 0; i < plan->n_tests && !plan->all_tests && plan->by_nccl && in_place; i++)
        if (!collective_in_place(comm_tests[plan->tests[i]].kind, true))
            RAISE(ERR_USAGE, "--inplace in: NCCL supports %s only out of place",
                  comm_tests[plan->tests[i]].name);
    return check_types(plan);
}
