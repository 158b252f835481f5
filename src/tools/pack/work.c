/* SPDX-License-Identifier: MIT */
/* Runs a long task on all ranks in time slices. After each, ranks agree on errors, sum up progress and redraw
 * the progress bar. */
#include "tools/pack/work.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/figure.h"
#include "base/log.h"
#include "base/progress.h"

static const double slice_sec = 0.2;

/* Progress is a bar or, without a terminal, a log line per tenth. */
typedef struct shown {
    double begun_sec;
    int n_tenths;
} shown_t;

static void work_show(const pack_work_t *work, int64_t n_done, shown_t *shown)
{
    char text[160];
    figure_t left = {""};
    double sec = clock_sec() - shown->begun_sec;
    if (n_done > 0 && n_done < work->n_total && sec > 2)
        left = figure_duration(sec * (double)(work->n_total - n_done) / (double)n_done);
    snprintf(text, sizeof text, "%s of %s%s%s", figure_bytes((double)n_done).text,
             figure_bytes((double)work->n_total).text, left.text[0] ? ", left " : "", left.text);
    progress_draw(work->label, n_done, work->n_total, text);
    int n_tenths = work->n_total > 0 ? (int)(10 * n_done / work->n_total) : 10;
    if (progress_wants_lines() && sec > 10 && n_tenths > shown->n_tenths)
        log_note("%s: %s", work->label, text);
    shown->n_tenths = n_tenths;
}

err_t pack_work_run(comm_t *comm, const pack_work_t *work)
{
    shown_t shown = {.begun_sec = clock_sec()};
    int64_t n_done = 0;
    bool finished = false;
    for (;;) {
        double end = clock_sec() + slice_sec;
        int64_t counts[2] = {0, 0}, n;
        err_t err = ERR_OK;
        while (!finished && err == ERR_OK && clock_sec() < end) {
            n = 0;
            err = work->step(work->context, &n, &finished);
            counts[0] += n;
        }
        counts[1] = !finished;
        err = comm_agree(comm, err, work->label);
        if (err == ERR_OK) err = comm_allreduce(comm, counts, 2, DTYPE_I64, COMM_SUM, work->label);
        n_done += counts[0];
        if (err == ERR_OK) work_show(work, n_done, &shown);
        if (err != ERR_OK || counts[1] == 0) {
            progress_clear_line();
            return err;
        }
    }
}
