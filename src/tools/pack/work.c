/* SPDX-License-Identifier: MIT */
/* Runs a long task on all ranks in time slices: after each, ranks agree on errors, sum up progress and redraw
 * the bar. */
#include "tools/pack/work.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"

static const double slice_sec = 0.2;

void pack_size(int64_t n_bytes, char *out)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    double x = (double)n_bytes;
    int u = 0;
    while (x >= 999.5 && u < 4) x /= 1000, u++;
    snprintf(out, 16, u > 0 && x < 99.5 ? "%.1f %s" : "%.0f %s", x, units[u]);
}

/* What people see: a bar, or where there is no terminal a line for each tenth. */
typedef struct shown {
    double begun_sec;
    int n_tenths;
} shown_t;

static void show(const pack_work_t *work, int64_t n_done, shown_t *shown)
{
    char done[16], total[16], left[16] = "", text[96];
    double sec = clock_sec() - shown->begun_sec;
    pack_size(n_done, done);
    pack_size(work->n_total, total);
    if (n_done > 0 && n_done < work->n_total && sec > 2)
        progress_duration(sec * (double)(work->n_total - n_done) / (double)n_done, left);
    snprintf(text, sizeof text, "%s of %s%s%s", done, total, left[0] ? ", left " : "", left);
    progress_draw(work->label, n_done, work->n_total, text);
    int n_tenths = work->n_total > 0 ? (int)(10 * n_done / work->n_total) : 10;
    if (!progress_active() && sec > 10 && n_tenths > shown->n_tenths) log_info("%s: %s", work->label, text);
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
        if (err == ERR_OK) show(work, n_done, &shown);
        if (err != ERR_OK || counts[1] == 0) {
            progress_clear_line();
            return err;
        }
    }
}
