/* SPDX-License-Identifier: MIT */
/* `dptrain bench`: collects cases and their options from the command line. Measuring is left to tools/bench.
 */
#include "tools/bench/bench.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cmd/cmd.h"
#include "text/progress.h"
#include "tools/bench/cases.h"

enum { MAX_CASES = 16, N_COMMON = 3 };

/* The parsed command line. */
typedef struct request {
    bench_options_t options;
    bench_choice_t cases[MAX_CASES];
    int n_cases;
    console_options_t console;
    opt_group_t groups[N_COMMON + MAX_CASES + 1]; /* the last one, the console's, is not recorded */
} request_t;

static const char usage[] =
    "usage: mpirun -np N dptrain bench CASE… [options]\n\n"
    "Measures this cluster. Name the cases before the options; all runs every case:\n\n";

static err_t add_case(request_t *r, const bench_case_t *c)
{
    ASSERT(r->n_cases < MAX_CASES);
    bench_choice_t *choice = &r->cases[r->n_cases];
    for (int i = 0; i < r->n_cases; i++)
        if (r->cases[i].which == c) RAISE(ERR_USAGE, "dptrain bench: case '%s' is given twice", c->name);
    choice->which = c;
    TRY(mem_new(c->n_options_bytes, "options", &choice->options));
    r->groups[N_COMMON + r->n_cases++] = (opt_group_t){c->name, c->table, c->n_options, choice->options, 0};
    return ERR_OK;
}

static err_t add_all(request_t *r)
{
    for (int i = 0; bench_cases[i]; i++) TRY(add_case(r, bench_cases[i]));
    return ERR_OK;
}

static err_t add_word(request_t *r, const char *word)
{
    const char *names[MAX_CASES + 2] = {"all"};
    int n = 1;
    if (strcmp(word, "all") == 0) return add_all(r);
    for (int i = 0; bench_cases[i]; i++) {
        if (strcmp(bench_cases[i]->name, word) == 0) return add_case(r, bench_cases[i]);
        names[n++] = bench_cases[i]->name;
    }
    const char *nearest = opt_nearest(word, names, n);
    if (nearest) RAISE(ERR_USAGE, "dptrain bench: unknown case '%s'; did you mean '%s'?", word, nearest);
    RAISE(ERR_USAGE, "dptrain bench: unknown case '%s'; dptrain bench --help lists them", word);
}

static err_t request_defaults(request_t *r)
{
    r->groups[N_COMMON + r->n_cases] =
        (opt_group_t){"Output", console_option_table, n_console_options, &r->console, 0};
    return opt_defaults(r->groups, N_COMMON + r->n_cases + 1);
}

/* Collects the cases and sets every option to its default. *n_words: number of words used. */
static err_t bind_request(request_t *r, const cmd_context_t *context, int *n_words)
{
    *r = (request_t){0};
    r->groups[0] = (opt_group_t){"Bench", bench_option_table, n_bench_options, &r->options, 0};
    r->groups[1] = (opt_group_t){"Runtime", runtime_option_table, n_runtime_options, &r->options.runtime, 0};
    r->groups[2] = (opt_group_t){"GPU", gpu_option_table, n_gpu_options, &r->options.runtime, 0};
    for (*n_words = 0; *n_words < context->argc && context->argv[*n_words][0] != '-'; ++*n_words)
        TRY(add_word(r, context->argv[*n_words]));
    return request_defaults(r);
}

static err_t parse_request(request_t *r, const cmd_context_t *context, int n_words)
{
    if (r->n_cases == 0) {
        for (int k = 0; k < context->argc; k++)
            for (int i = 0; bench_cases[i]; i++)
                if (strcmp(bench_cases[i]->name, context->argv[k]) == 0)
                    RAISE(ERR_USAGE, "dptrain bench: the case '%s' must come before the options",
                          context->argv[k]);
        RAISE(ERR_USAGE, "dptrain bench: expected a case, such as comm, or all, before the options; dptrain "
                         "bench --help lists them");
    }
    bench_comm_long_names(context->argc - n_words, context->argv + n_words);
    TRY(opt_parse(r->groups, N_COMMON + r->n_cases + 1, context->argc - n_words, context->argv + n_words,
                  NULL, 0, NULL));
    TRY(console_apply(&r->console));
    TRY(bench_options_check(&r->options));
    for (int i = 0; i < r->n_cases; i++)
        if (r->cases[i].which->check) TRY(r->cases[i].which->check(r->cases[i].options));
    return ERR_OK;
}

static void free_request(request_t *r)
{
    for (int i = 0; i < r->n_cases; i++) mem_free(&r->cases[i].options);
}

err_t cmd_bench(const cmd_context_t *context)
{
    request_t r;
    char text[2048];
    int n_words;
    err_t err = bind_request(&r, context, &n_words);
    size_t used = (size_t)snprintf(text, sizeof text, "%s", usage);
    for (int i = 0; bench_cases[i]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "  %-6s %s\n", bench_cases[i]->name,
                                 bench_cases[i]->summary);
    snprintf(text + used, sizeof text - used,
             "\f\nEach point is repeated until its median is precise enough (--ci) or its\n"
             "time is up (--budget). Exit code 1: a result was wrong.\n");
    for (int i = 0; bench_cases[i]; i++)
        cmd_tell_word(context, "case", bench_cases[i]->name, bench_cases[i]->summary);
    cmd_tell_word(context, "case", "all", "every case");
    if (err == ERR_OK && cmd_asks_for_help(context)) {
        /* Without a case, the options of all cases. */
        if (r.n_cases == 0) err = add_all(&r);
        if (err == ERR_OK) err = request_defaults(&r);
        cmd_fail(err);
        if (err == ERR_OK) cmd_wants_help(context, text, r.groups, N_COMMON + r.n_cases + 1, &err);
        free_request(&r);
        return err;
    }
    if (err == ERR_OK) err = parse_request(&r, context, n_words);
    if (err != ERR_OK)
        cmd_fail(err);
    else if (!cmd_only_checks())
        err = bench_run(&r.options, r.groups, N_COMMON + r.n_cases, r.cases, r.n_cases, context->abort_job);
    free_request(&r);
    return err;
}
