/* SPDX-License-Identifier: MIT */
/* `dptrain data`: dispatches to a verb, and opens the communicator that the collective verbs share. */
#include "cmd/data.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

static const cmd_t verbs[] = {
    {"synth", "write digits as IDX files, or shapes as JPEGs", .run = cmd_data_synth},
    {"pack", "pack an image folder, COCO or IDX files into shards", .run = cmd_data_pack},
    {"verify", "verify shards, or images against their annotations", .run = cmd_data_verify},
    {"show", "statistics of images and annotations; a contact sheet", .run = cmd_data_show},
    {.name = NULL},
};

err_t data_open_comm(const cmd_context_t *context, double timeout_sec, runtime_t *out)
{
    runtime_options_t options = {0};
    opt_group_t groups[] = {{"", runtime_option_table, n_runtime_options, &options, 0},
                            {"", gpu_option_table, n_gpu_options, &options, 0}};
    *out = (runtime_t){0};
    TRY(opt_defaults(groups, 2));
    options.timeout_sec = timeout_sec;
    return runtime_open_comm(&options, context->abort_job, out);
}

static void write_usage(char *out, size_t n_bytes)
{
    size_t used = (size_t)snprintf(out, n_bytes, "usage: dptrain data VERB [options]\n\n");
    for (const cmd_t *verb = verbs; verb->name; verb++)
        used += (size_t)snprintf(out + used, n_bytes - used, "  %-8s %s\n", verb->name, verb->summary);
    snprintf(out + used, n_bytes - used, "\ndptrain data VERB --help lists a verb's options.\n");
}

err_t cmd_data(const cmd_context_t *context)
{
    const char *word = context->argc > 0 ? context->argv[0] : "";
    for (const cmd_t *verb = verbs; verb->name; verb++) {
        if (strcmp(word, verb->name) != 0) continue;
        const cmd_context_t rest = cmd_verb(context);
        return verb->run(&rest);
    }
    cmd_context_t first = *context;
    if (!cmd_is_help(word)) first.argc = context->argc > 0;
    char usage[1024];
    write_usage(usage, sizeof usage);
    const char *names[sizeof verbs / sizeof verbs[0]];
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) names[i] = verbs[i].name;
    for (int i = 0; names[i]; i++) cmd_tell_word(&first, "verb", names[i], verbs[i].summary);
    err_t err;
    return cmd_wants_help(&first, usage, NULL, 0, &err) ? err
                                                        : cmd_fail(cmd_unknown_verb("data", word, names));
}
