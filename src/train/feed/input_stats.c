/* SPDX-License-Identifier: MIT */
/* Input-pipeline statistics of an epoch: read, decode, resize, copy and CPU wait, summed over ranks, as text
 * and as record fields. */
#include "train/feed/input_stats.h"

#include <stdio.h>

#include "text/figure.h"

enum { READ, DECODE, RESIZE, COPY, CPU_WAIT, N_PARTS };

static const struct {
    const char *name, *advice;
} parts[N_PARTS] = {
    [READ] = {"reading",
              "use more --loader-threads, shards (dptrain data pack) instead of many files, or a local copy"},
    [DECODE] = {"decoding",
                "use more --loader-threads if CPUs are idle, or smaller images (dptrain data pack --resize)"},
    [RESIZE] = {"resizing",
                "use more --loader-threads if CPUs are idle, or smaller images (dptrain data pack --resize)"},
    [COPY] = {"copying", "use more --loader-threads if CPUs are idle; dptrain bench mem measures copies"},
    [CPU_WAIT] = {"waiting for a CPU", "use fewer --threads or --loader-threads, or fewer ranks per host"},
};

double input_stats_hidden_wait(double feed_sec, double step_sec, double busy_sec)
{
    double idle = step_sec > busy_sec ? step_sec - busy_sec : 0;
    return feed_sec < idle ? feed_sec : idle;
}

/* Seconds of each part; returns their sum, or 0 without a breakdown. Busy time that no part covers is
 * copying. */
static double split_parts(const input_stats_t *input_stats, double out[N_PARTS])
{
    const dataset_cost_t *part = &input_stats->loader.part;
    double known = part->read + part->decode + part->resize + part->cpu_wait;
    double copied = input_stats->loader.busy > known ? input_stats->loader.busy - known : 0;
    out[READ] = part->read, out[DECODE] = part->decode, out[RESIZE] = part->resize;
    out[COPY] = copied + input_stats->copy_sec, out[CPU_WAIT] = part->cpu_wait;
    return known > 0 ? known + out[COPY] : 0;
}

err_t input_stats_gather(comm_t *comm, input_stats_t *input_stats)
{
    double *const fields[] = {&input_stats->wait_sec,           &input_stats->step_sec,
                              &input_stats->loader.part.read,   &input_stats->loader.part.decode,
                              &input_stats->loader.part.resize, &input_stats->loader.part.cpu_wait,
                              &input_stats->loader.busy,        &input_stats->copy_sec};
    enum { N = sizeof fields / sizeof fields[0] };
    double sums[N];
    for (int i = 0; i < N; i++) sums[i] = *fields[i];
    TRY(comm_allreduce(comm, sums, N, DTYPE_F64, COMM_SUM, "summing input-pipeline statistics"));
    for (int i = 0; i < N; i++) *fields[i] = sums[i];
    return ERR_OK;
}

void input_stats_text(const input_stats_t *input_stats, char out[INPUT_STATS_TEXT_MAX])
{
    double sec[N_PARTS], sum = split_parts(input_stats, sec);
    int most = 0;
    out[0] = '\0';
    if (!(sum > 0) || !(input_stats->wait_sec >= INPUT_STATS_SHARE * input_stats->step_sec)) return;
    for (int i = 1; i < N_PARTS; i++)
        if (sec[i] > sec[most]) most = i;
    snprintf(out, INPUT_STATS_TEXT_MAX,
             "%s of step time was spent waiting for images; loader threads spend %s of their time %s "
             "(%%: reading %.0f, decoding %.0f, resizing %.0f, copying %.0f, waiting for a CPU %.0f): %s",
             figure_share(input_stats->wait_sec / input_stats->step_sec).text,
             figure_share(sec[most] / sum).text, parts[most].name, 100 * sec[READ] / sum,
             100 * sec[DECODE] / sum, 100 * sec[RESIZE] / sum, 100 * sec[COPY] / sum,
             100 * sec[CPU_WAIT] / sum, parts[most].advice);
}

void input_stats_json(const input_stats_t *input_stats, json_t *j)
{
    double sec[N_PARTS];
    if (!(split_parts(input_stats, sec) > 0)) return;
    json_real(j, "data_wait_share",
              input_stats->step_sec > 0 ? input_stats->wait_sec / input_stats->step_sec : 0);
    json_real(j, "load_read_sec", sec[READ]);
    json_real(j, "load_decode_sec", sec[DECODE]);
    json_real(j, "load_resize_sec", sec[RESIZE]);
    json_real(j, "load_copy_sec", sec[COPY]);
    json_real(j, "load_cpu_wait_sec", sec[CPU_WAIT]);
    json_real(j, "load_busy_sec", input_stats->loader.busy);
}
