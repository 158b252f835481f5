/* SPDX-License-Identifier: MIT */
/* Selects the starts of a metric to compare: interleaved pairs, or else all starts on an undisturbed machine.
 */
#include <math.h>
#include <string.h>

#include "base/figure.h"
#include "base/stats.h"
#include "report/regress/compare_work.h"

enum { ENOUGH_STARTS = 3 };

static bool is_partner(const metric_start_t *a, const metric_start_t *b)
{
    const char *a_id = a->run->id, *b_id = b->run->id, *a_with = a->run->interleaved_with,
               *b_with = b->run->interleaved_with;
    return (b_with && a_id[0] && strcmp(b_with, a_id) == 0) ||
           (a_with && b_id[0] && strcmp(a_with, b_id) == 0);
}

/* Orders the starts so that interleaved partners come first, at the same index. Returns the number of pairs.
 */
static int pair_starts(compare_starts_t *s)
{
    int n_pairs = 0;
    for (int i = 0; i < s->n[0]; i++)
        for (int k = n_pairs; k < s->n[1]; k++) {
            const metric_start_t *now = s->at[1][k], *base = s->at[0][i];
            if (!is_partner(base, now) || !base->batch_n || !now->batch_n) continue;
            s->at[1][k] = s->at[1][n_pairs];
            s->at[1][n_pairs] = now;
            s->at[0][i] = s->at[0][n_pairs];
            s->at[0][n_pairs++] = base;
            break;
        }
    return n_pairs;
}

/* The same run, read from the same file or a copy. */
static bool is_same_start(const metric_start_t *a, const metric_start_t *b)
{
    bool named = a->run->id[0] ? strcmp(a->run->id, b->run->id) == 0
                               : a->run->train && b->run->train && a->run->time[0] &&
                                     strcmp(a->run->time, b->run->time) == 0;
    const report_samples_t *x = &a->samples[0], *y = &b->samples[0];
    return named && x->n == y->n && memcmp(x->sec, y->sec, (size_t)x->n * sizeof *x->sec) == 0;
}

/* In any order: files of a folder may be listed differently. */
static bool is_identical(const compare_starts_t *s)
{
    bool same = s->n[0] == s->n[1] && s->n[0] > 0;
    for (int i = 0; i < s->n[0] && same; i++) {
        same = false;
        for (int k = 0; k < s->n[1] && !same; k++) same = is_same_start(s->at[0][i], s->at[1][k]);
    }
    return same;
}

double compare_usual_clock(double *clocks, int64_t n)
{
    stats_sort(clocks, n);
    return stats_quantile(clocks, n, 0.05);
}

/* Over all points of both recordings on that hardware; NAN: not recorded. */
static double usual_clock(compare_work_t *work, const char *hardware_id)
{
    if (work->clock_hardware && strcmp(work->clock_hardware, hardware_id) == 0) return work->clock_usual;
    int64_t n = 0;
    for (int side = 0; side < 2; side++)
        for (const metric_t *metric = work->sides[side].first; metric; metric = metric->next)
            for (const metric_start_t *at = metric->starts; at; at = at->next)
                if (at->clock_sec > 0 && strcmp(at->run->hardware_id, hardware_id) == 0)
                    work->clocks[n++] = at->clock_sec;
    work->clock_hardware = hardware_id;
    return work->clock_usual = compare_usual_clock(work->clocks, n);
}

static err_t make_room(compare_work_t *work)
{
    size_t n = 0;
    if (work->clocks) return ERR_OK;
    for (int side = 0; side < 2; side++)
        for (const metric_t *metric = work->sides[side].first; metric; metric = metric->next)
            n += (size_t)metric->n_starts;
    return arena_new(&work->out->arena, sizeof *work->clocks * n, &work->clocks);
}

/* Fraction by which the machine was slower than usual; 0: unknown. */
static double slowdown_of(compare_work_t *work, const metric_start_t *start)
{
    double excess = start->clock_sec / usual_clock(work, start->run->hardware_id) - 1;
    return excess > 0 ? excess : 0;
}

static bool is_slowed(compare_work_t *work, const metric_start_t *start)
{
    return start->disturbed || slowdown_of(work, start) > COMPARE_CLOCK_SLACK;
}

static err_t explain_slowed(compare_work_t *work, const compare_starts_t *s, const int n_kept[2],
                            compare_metric_t *metric)
{
    arena_t *arena = &work->out->arena;
    double most = 0;
    metric->reason = "the machine was slow or busy in ";
    for (int side = 0; side < 2; side++) {
        int n = s->n[side] - n_kept[side];
        for (int i = 0; i < s->n[side]; i++)
            if (slowdown_of(work, s->at[side][i]) > most) most = slowdown_of(work, s->at[side][i]);
        if (n > 0)
            TRY(arena_format(arena, &metric->reason, "%s%s%d of %d starts of %s", metric->reason,
                             side && s->n[0] > n_kept[0] ? ", " : "", n, s->n[side],
                             compare_side_names[side]));
    }
    if (most > COMPARE_CLOCK_SLACK)
        TRY(arena_format(arena, &metric->reason, "%s: its fixed loop of arithmetic took up to %.0f %% longer",
                         metric->reason, 100 * most));
    return ERR_OK;
}

/* Counts slowed starts, once. If there are many, the others are not trusted either: the loop of arithmetic
 * does not detect contention for memory. */
static void count_slowed(compare_work_t *work)
{
    for (int side = 0; side < 2 && work->n_measured[side] == 0; side++)
        for (const metric_t *metric = work->sides[side].first; metric; metric = metric->next)
            for (const metric_start_t *at = metric->starts; at; at = at->next) {
                work->n_measured[side]++;
                work->n_slowed[side] += is_slowed(work, at);
            }
}

static bool is_busy(const compare_work_t *work, int side)
{
    return work->n_slowed[side] > COMPARE_MAX_DISTURBED * work->n_measured[side];
}

static err_t explain_busy(compare_work_t *work, compare_metric_t *metric)
{
    metric->reason = "the machine was slow or busy during ";
    for (int side = 0; side < 2; side++)
        if (is_busy(work, side))
            TRY(arena_format(&work->out->arena, &metric->reason, "%s%s%d of %s's %d measurements",
                             metric->reason, side && is_busy(work, 0) ? ", " : "", work->n_slowed[side],
                             compare_side_names[side], work->n_measured[side]));
    return arena_format(&work->out->arena, &metric->reason,
                        "%s: record again, or interleave the recordings "
                        "(--turns)",
                        metric->reason);
}

static err_t leave_slowed_out(compare_work_t *work, compare_starts_t *s, compare_metric_t *metric)
{
    int n_kept[2] = {0, 0};
    bool enough = true;
    TRY(make_room(work));
    count_slowed(work);
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < s->n[side]; i++) n_kept[side] += !is_slowed(work, s->at[side][i]);
        enough =
            enough && n_kept[side] > 0 && (n_kept[side] >= ENOUGH_STARTS || 2 * n_kept[side] >= s->n[side]);
    }
    if (!enough) return explain_slowed(work, s, n_kept, metric);
    if (is_busy(work, 0) || is_busy(work, 1)) return explain_busy(work, metric);
    for (int side = 0; side < 2; side++) {
        int n = 0;
        for (int i = 0; i < s->n[side]; i++)
            if (!is_slowed(work, s->at[side][i])) s->at[side][n++] = s->at[side][i];
        metric->n_slowed[side] = s->n[side] - n;
        s->n[side] = n;
    }
    return ERR_OK;
}

static err_t list_starts(compare_work_t *work, const metric_t *const metrics[2], compare_metric_t *metric,
                         compare_starts_t *out)
{
    for (int side = 0; side < 2; side++) {
        TRY(arena_new(&work->out->arena, sizeof *out->at[side] * (size_t)metrics[side]->n_starts,
                      &out->at[side]));
        for (const metric_start_t *at = metrics[side]->starts; at; at = at->next) {
            if (at->samples) {
                out->at[side][out->n[side]++] = at;
            } else {
                metric->n_invalid[side] += at->n_invalid;
                work->n_empty++;
            }
        }
    }
    return ERR_OK;
}

err_t compare_pick_starts(compare_work_t *work, const metric_t *const metrics[2], compare_metric_t *metric,
                          compare_starts_t *out)
{
    *out = (compare_starts_t){0};
    TRY(list_starts(work, metrics, metric, out));
    if (out->n[0] == 0 || out->n[1] == 0) {
        metric->reason = "one side has no valid samples";
    } else if (is_identical(out)) {
        out->identical = true;
    } else {
        int n_pairs = pair_starts(out);
        out->interleaved = n_pairs == out->n[0] && n_pairs == out->n[1];
        work->n_partly_interleaved += n_pairs > 0 && !out->interleaved;
        if (!out->interleaved) TRY(leave_slowed_out(work, out, metric));
    }
    metric->interleaved = out->interleaved;
    for (int side = 0; side < 2; side++) {
        metric->n_runs[side] = out->n[side];
        for (int i = 0; i < out->n[side]; i++) {
            metric->n_samples[side] += out->at[side][i]->samples[0].n;
            metric->n_invalid[side] += out->at[side][i]->n_invalid;
        }
    }
    return ERR_OK;
}

err_t compare_note_starts(compare_work_t *work)
{
    int64_t n_slowed = 0, n_invalid = 0;
    int n_metrics = 0;
    for (const compare_metric_t *at = work->out->metrics; at; at = at->next) {
        n_slowed += at->n_slowed[0] + at->n_slowed[1];
        n_invalid += at->n_invalid[0] + at->n_invalid[1];
        n_metrics += at->n_slowed[0] + at->n_slowed[1] > 0;
    }
    if (work->n_partly_interleaved > 0)
        TRY(compare_note(work, "metrics with only some starts interleaved: %d; compared as not interleaved",
                         work->n_partly_interleaved));
    if (n_slowed > 0)
        TRY(compare_note(work, "starts left out because the machine was slow or busy: %lld, in %d metric%s",
                         (long long)n_slowed, n_metrics, n_metrics == 1 ? "" : "s"));
    if (work->n_empty > 0)
        TRY(compare_note(work, "measurements left out for lack of samples: %d", work->n_empty));
    if (n_invalid > 0)
        TRY(compare_note(work, "invalid samples left out (not times above 0): %lld", (long long)n_invalid));
    return ERR_OK;
}
