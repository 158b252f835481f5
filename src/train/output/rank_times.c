/* SPDX-License-Identifier: MIT */
/* Compares the ranks' times over windows and names stragglers. Gathering the times is left to train/guard/stragglers.c. */
#include "train/output/rank_times.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/stats.h"
#include "text/figure.h"

static const char *const rank_phase_names[RANK_PHASES] = {"compute", "data", "communication"};

/* Of a rank in a phase. */
typedef struct phase_state {
    double sec;            /* median of the last window */
    double sum, sum_usual; /* of the slow windows counted */
    double sum_all;        /* of all windows */
    int n_slow;            /* windows counted, up to the naming */
    int64_t first_step;    /* of these */
    straggler_t *named;    /* NULL: not yet */
    float samples[RANK_TIMES_SAMPLES];
} phase_state_t;

typedef struct rank_state {
    phase_state_t phase[RANK_PHASES];
    straggler_t *named; /* NULL: not yet */
} rank_state_t;

err_t rank_times_open(int n_ranks, const rank_place_t *places, double window_sec, double share_factor,
                      rank_times_t *out)
{
    static const char what[] = "times of the ranks";
    const int n_scratch = n_ranks > RANK_TIMES_SAMPLES ? n_ranks : RANK_TIMES_SAMPLES;
    *out = (rank_times_t){
        .n_ranks = n_ranks, .window_sec = window_sec, .share_factor = share_factor, .stride = 1};
    TRY(mem_new_array(n_ranks, sizeof *out->places, what, &out->places));
    TRY(mem_new_array(n_ranks, sizeof *out->ranks, what, &out->ranks));
    TRY(mem_new_array(n_scratch, sizeof *out->sorted, what, &out->sorted));
    memcpy(out->places, places, (size_t)n_ranks * sizeof *places);
    for (int r = 0; r < n_ranks; r++)
        if (places[r].host_index >= out->n_hosts) out->n_hosts = places[r].host_index + 1;
    return ERR_OK;
}

void rank_times_close(rank_times_t *times)
{
    mem_free(&times->places);
    mem_free(&times->ranks);
    mem_free(&times->sorted);
}

/* Keeps every second sample. */
static void thin_out(rank_times_t *t)
{
    for (int r = 0; r < t->n_ranks; r++)
        for (int p = 0; p < RANK_PHASES; p++)
            for (int i = 0; i < RANK_TIMES_SAMPLES / 2; i++)
                t->ranks[r].phase[p].samples[i] = t->ranks[r].phase[p].samples[2 * i];
    t->n_samples = RANK_TIMES_SAMPLES / 2;
    t->stride *= 2;
}

/* Half of the ranks or more take at least this long. */
static double usual_sec(rank_times_t *t, int p)
{
    for (int r = 0; r < t->n_ranks; r++) t->sorted[r] = t->ranks[r].phase[p].sec;
    stats_sort(t->sorted, t->n_ranks);
    return t->sorted[(t->n_ranks - 1) / 2];
}

static bool is_slow(const phase_state_t *phase, double usual, double least, double factor)
{
    return phase->sec >= RANK_TIMES_SLOW * factor * usual && phase->sec - usual >= least;
}

/* Counts the window for a rank.
 *
 *   least   the smallest difference that matters
 *   factor  by which this phase may take longer without being slow */
static void count_window(rank_times_t *t, phase_state_t *phase, double usual, double least, double factor)
{
    const double beyond = phase->sec - usual;
    if (phase->sec < RANK_TIMES_FAST * factor * usual || beyond < least / 2) phase->n_slow = 0;
    if (!is_slow(phase, usual, least, factor)) return;
    if (phase->n_slow++ == 0) {
        phase->first_step = t->first_step;
        phase->sum = phase->sum_usual = 0;
    }
    phase->sum += phase->sec;
    phase->sum_usual += usual;
}

static double difference_sec(const phase_state_t *phase)
{
    return phase->n_slow > 0 ? (phase->sum - phase->sum_usual) / phase->n_slow : 0;
}

/* The phase to name a rank for; -1: none. */
static int worst_phase(const rank_state_t *rank)
{
    int worst = -1;
    for (int p = 0; p < RANK_PHASES; p++)
        if (rank->phase[p].n_slow >= RANK_TIMES_WINDOWS &&
            (worst < 0 || difference_sec(&rank->phase[p]) > difference_sec(&rank->phase[worst])))
            worst = p;
    return worst;
}

/* The ranks of a host if all are slow, and none of them has been named; its ranks reach the end of the count a window
 * apart. Otherwise 1. */
static int slow_together(const rank_times_t *t, int rank, int p)
{
    int n = 0;
    for (int r = 0; r < t->n_ranks; r++) {
        if (t->places[r].host_index != t->places[rank].host_index) continue;
        if (t->ranks[r].named || t->ranks[r].phase[p].n_slow < RANK_TIMES_WINDOWS - 2) return 1;
        n++;
    }
    return t->n_hosts > 1 ? n : 1;
}

static int end_window(rank_times_t *t)
{
    double usual[RANK_PHASES], step_sec = 0;
    for (int p = 0; p < RANK_PHASES; p++) {
        for (int r = 0; r < t->n_ranks; r++) {
            phase_state_t *phase = &t->ranks[r].phase[p];
            for (int i = 0; i < t->n_samples; i++) t->sorted[i] = (double)phase->samples[i];
            phase->sec = stats_median(t->sorted, t->n_samples);
            phase->sum_all += phase->sec;
        }
        usual[p] = usual_sec(t, p);
        step_sec += usual[p];
    }
    t->n_windows++;
    const double least = RANK_TIMES_SHARE * step_sec;
    for (int r = 0; r < t->n_ranks; r++)
        for (int p = 0; p < RANK_PHASES; p++) {
            const double factor = p == RANK_COMPUTE ? t->share_factor : 1;
            straggler_t *named = t->ranks[r].named;
            count_window(t, &t->ranks[r].phase[p], usual[p], least, factor);
            if (named && (int)named->phase == p && is_slow(&t->ranks[r].phase[p], usual[p], least, factor))
                named->last_step = t->first_step + t->n_steps - 1;
        }
    const int before = t->n_named;
    for (int r = 0; r < t->n_ranks && t->n_named < RANK_TIMES_NAMED; r++) {
        const int p = t->ranks[r].named ? -1 : worst_phase(&t->ranks[r]);
        if (p < 0) continue;
        const int n = slow_together(t, r, p);
        int lowest = n > 1 ? 0 : r;
        while (t->places[lowest].host_index != t->places[r].host_index) lowest++;
        const phase_state_t *phase = &t->ranks[lowest].phase[p];
        straggler_t *s = &t->named[t->n_named++];
        *s = (straggler_t){.rank = lowest,
                           .n_ranks = n,
                           .phase = (rank_phase_t)p,
                           .sec = phase->sum / phase->n_slow,
                           .usual_sec = phase->sum_usual / phase->n_slow,
                           .first_step = phase->first_step,
                           .last_step = t->first_step + t->n_steps - 1};
        for (int k = lowest; k < t->n_ranks; k++)
            if (k == lowest || (n > 1 && t->places[k].host_index == t->places[lowest].host_index))
                t->ranks[k].named = s;
    }
    return t->n_named - before;
}

int rank_times_add(rank_times_t *t, int64_t step, const rank_step_t *steps, double now_sec)
{
    if (t->n_steps == 0) {
        t->begun_sec = now_sec;
        t->first_step = step;
        t->n_samples = 0;
        t->stride = 1;
    }
    if (t->n_steps++ % t->stride == 0) {
        if (t->n_samples == RANK_TIMES_SAMPLES) thin_out(t);
        for (int r = 0; r < t->n_ranks; r++)
            for (int p = 0; p < RANK_PHASES; p++)
                t->ranks[r].phase[p].samples[t->n_samples] = (float)steps[r].sec[p];
        t->n_samples++;
    }
    if (t->n_steps < RANK_TIMES_STEPS || now_sec - t->begun_sec < t->window_sec) return 0;
    const int n = end_window(t);
    t->n_steps = 0;
    return n;
}

void rank_times_describe(const rank_times_t *t, const straggler_t *s, char out[RANK_TIMES_TEXT_MAX])
{
    static const char *const advice[RANK_PHASES] = {
        "look there for other processes and a lower clock rate, with dptrain check",
        "look there at the storage, and at other processes that take the loader's CPUs",
        "look there for other processes, and at its network with dptrain check"};
    char who[TOPO_HOST_MAX + 48];
    const char *host = t->places[s->rank].host;
    if (s->n_ranks > 1)
        snprintf(who, sizeof who, "the %d ranks on %s are", s->n_ranks, host);
    else
        snprintf(who, sizeof who, "rank %d on %s is", s->rank, host);
    snprintf(out, RANK_TIMES_TEXT_MAX, "%s slow: %s took %s per step in steps %lld to %lld, %s %s; %s", who,
             rank_phase_names[s->phase], figure_time(s->sec).text, (long long)s->first_step,
             (long long)s->last_step, t->n_ranks == 2 ? "on the other rank" : "the median of the ranks is",
             figure_time(s->usual_sec).text, advice[s->phase]);
}

static double mean_sec(const rank_times_t *t, int rank, int p)
{
    return t->ranks[rank].phase[p].sum_all / (double)t->n_windows;
}

/* The slowest rank of a phase over the whole run, and the lower median of the ranks. */
static int slowest_rank(const rank_times_t *t, int p, double *usual)
{
    int slowest = 0;
    for (int r = 0; r < t->n_ranks; r++) {
        t->sorted[r] = mean_sec(t, r, p);
        if (t->sorted[r] > t->sorted[slowest]) slowest = r;
    }
    stats_sort(t->sorted, t->n_ranks);
    *usual = t->sorted[(t->n_ranks - 1) / 2];
    return slowest;
}

void rank_times_print(const rank_times_t *t)
{
    char text[RANK_TIMES_TEXT_MAX];
    for (int p = 0; t->n_windows > 0 && p < RANK_PHASES; p++) {
        double usual;
        const int r = slowest_rank(t, p, &usual);
        log_info("  slowest rank, %s: %d on %s, %s per step (%s: %s)", rank_phase_names[p], r,
                 t->places[r].host, figure_time(mean_sec(t, r, p)).text,
                 t->n_ranks == 2 ? "the other" : "median", figure_time(usual).text);
    }
    for (int i = 0; i < t->n_named; i++) {
        rank_times_describe(t, &t->named[i], text);
        log_info("  straggler: %s", text);
    }
}

void rank_times_put(const rank_times_t *t, const straggler_t *s, json_t *j)
{
    json_int(j, "rank", s->rank);
    json_int(j, "n_ranks", s->n_ranks);
    json_string(j, "host", t->places[s->rank].host);
    json_string(j, "phase", rank_phase_names[s->phase]);
    json_real(j, "sec", s->sec);
    json_real(j, "usual_sec", s->usual_sec);
    json_int(j, "first_step", s->first_step);
    json_int(j, "last_step", s->last_step);
}

void rank_times_json(const rank_times_t *t, json_t *j)
{
    if (t->n_windows == 0) return;
    json_array_begin(j, "slowest_ranks");
    for (int p = 0; p < RANK_PHASES; p++) {
        double usual;
        const int r = slowest_rank(t, p, &usual);
        json_object_begin(j, NULL);
        json_string(j, "phase", rank_phase_names[p]);
        json_int(j, "rank", r);
        json_string(j, "host", t->places[r].host);
        json_real(j, "sec", mean_sec(t, r, p));
        json_real(j, "usual_sec", usual);
        json_object_end(j);
    }
    json_array_end(j);
    json_array_begin(j, "stragglers");
    for (int i = 0; i < t->n_named; i++) {
        json_object_begin(j, NULL);
        rank_times_put(t, &t->named[i], j);
        json_object_end(j);
    }
    json_array_end(j);
}
