/* SPDX-License-Identifier: MIT */
/* `dptrain data verify`: checks shards or another source for damage and prints each finding. Collective. The
 * work is done by tools/pack/verify.c. */
#include <stddef.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"
#include "cmd/data.h"
#include "data/image/image.h"
#include "tools/pack/verify.h"
#include "tools/pack/work.h"

static const char usage[] = "usage: [mpirun -np N] dptrain data verify DIR [options]\n"
                            "\n"
                            "Shards: reads every byte and checks seals, the index against the shards, the\n"
                            "hash of every image and annotation, and the manifest against the index. Image\n"
                            "folders, COCO, IDX files: reads every image file and checks its headers, with\n"
                            "COCO against the annotations. Images of all but IDX files are decoded, on all\n"
                            "CPUs, which finds truncated and damaged ones. Ranks share the work. Each\n"
                            "defect is printed on one line, which starts with \"not ok\" and names the\n"
                            "record, if known.\n"
                            "\n"
                            "Exit codes: 3 something is damaged or missing; 4 a file could not be read, but\n"
                            "trying again may help.\n";

typedef struct options {
    bool decode;
    int64_t threads, max_image_pixels;
    double timeout_sec;
} options_t;

static const opt_t table[] = {
    {"decode", OPT_FLAG, offsetof(options_t, decode), "true", 0, 0, NULL, NULL, "decode every image",
     OPT_COMMON},
    DATA_THREADS_ROW(offsetof(options_t, threads)),
    IMAGE_PIXELS_ROW(offsetof(options_t, max_image_pixels)),
    DATA_TIMEOUT_ROW(offsetof(options_t, timeout_sec)),
};

static const opt_when_t whens[] = {{"max-image-pixels", "decode", NULL, NULL}, {NULL, NULL, NULL, NULL}};

static void print_damage(void *context, const char *what)
{
    (void)context;
    print_out("not ok  %s\n", what);
}

/* Collective. */
static err_t verify_source(comm_t *comm, const char *path, const pack_verify_options_t *options)
{
    pack_verdict_t verdict;
    figure_t size, took;
    double begun_sec = clock_sec();
    log_note("verifying %s", path);
    TRY(pack_verify(comm, path, options, print_damage, NULL, &verdict));
    fflush(stdout);
    size = figure_bytes((double)verdict.n_bytes);
    took = figure_time(clock_sec() - begun_sec);
    if (verdict.n_damaged > 0) {
        const char *advice = "";
        if (verdict.n_unusable == verdict.n_damaged)
            advice =
                "; these images were packed in this state: repair them at the source, or pack again with "
                "--max-bad to leave them out";
        else if (verdict.shards)
            advice =
                "; dptrain data pack from the same source rewrites the damaged shards and keeps the others";
        /* Every rank has the verdict and raises the same error. */
        err_t err = err_raise(ERR_DATA, __FILE__, __LINE__, "%s is damaged: see the %lld line%s above%s",
                              path, (long long)verdict.n_damaged, verdict.n_damaged == 1 ? "" : "s", advice);
        return comm_agree(comm, err, "the verdict");
    }
    const char *decoded = verdict.decoded ? ", every image decoded" : "";
    if (verdict.shards)
        log_info("ok      %s: %s samples in %lld shards, %s: every byte verified%s (%s)", path,
                 figure_count(verdict.n_samples).text, (long long)verdict.n_files, size.text, decoded,
                 took.text);
    else
        log_info(
            "ok      %s: %s images, %s: %s%s (%s)", path, figure_count(verdict.n_samples).text, size.text,
            verdict.annotated ? "all present, with the sizes that the annotations state" : "all readable",
            decoded, took.text);
    return ERR_OK;
}

err_t cmd_data_verify(const cmd_context_t *context)
{
    options_t options = {0};
    console_options_t console;
    opt_group_t groups[] = {{"Options", table, sizeof table / sizeof table[0], &options, 0},
                            {"Output", console_option_table, n_console_options, &console, 0}};
    runtime_t runtime = {0};
    const char *words[2];
    int n_words = 0;
    err_t err = opt_defaults(groups, 2);
    if (cmd_wants_help(context, usage, groups, 2, &err)) return err;
    if (err == ERR_OK) err = opt_parse(groups, 2, context->argc, context->argv, words, 2, &n_words);
    if (err == ERR_OK) err = console_apply(&console);
    if (err == ERR_OK && n_words != 1)
        err = err_raise(ERR_USAGE, __FILE__, __LINE__, "dptrain data verify: expected one folder");
    if (err != ERR_OK) return cmd_fail(err);
    opt_warn_idle(groups, 2, whens, NULL, NULL);
    if (cmd_only_checks()) return ERR_OK;
    image_set_max_pixels(options.max_image_pixels);
    err = data_open_comm(context, options.timeout_sec, &runtime);
    const pack_verify_options_t verify = {options.decode, (int)options.threads};
    if (err == ERR_OK) err = verify_source(runtime.comm, words[0], &verify);
    return runtime_close(&runtime, err);
}
