/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Histories of made-up recordings: a step is found where it is, with the revisions and the software on both
 * sides, none is found in noise, machines are kept apart, and what is disturbed, interrupted or a copy does
 * not count. */
#include "tests/tap.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/regress/history.h"

/* One recording: 3 starts of two metrics (n_metrics), "bytes=8" and "bytes=16"; only the second changes with
 * `factor`. */
typedef struct made {
    int day; /* of November */
    const char *machine, *git, *mpi;
    double factor;
    double clock[3]; /* of each start, 1: the machine was ours */
    const char *verdict[3], *why[3], *file, *time;
} made_t;

static const made_t usual = {.machine = "aa",
                             .git = "g1",
                             .mpi = "4.1.4",
                             .factor = 1,
                             .clock = {1, 1, 1},
                             .verdict = {"ok", "ok", "ok"},
                             .why = {"finished", "finished", "finished"}};
static history_t history;
static rng_t rng;
static double noise;
static int n_metrics;

static void print_start(FILE *out, const made_t *m, int s)
{
    char time[32], id[40];
    snprintf(time, sizeof time, "2026-11-%02dT10:%02d:00Z", m->day, s);
    snprintf(id, sizeof id, "%s%02d%d", m->machine, m->day, s);
    fprintf(out,
            "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"%s\",\"time\":\"%s\",\"ranks\":2,\"threads\":1,"
            "\"fingerprint\":{\"hardware_id\":\"%s\",\"fabric_id\":\"f\",\"hardware\":{\"cpu\":\"X\"},"
            "\"software\":{\"git\":\"%s\",\"mpi\":\"%s\",\"hdf5\":\"1.10\"}}}\n",
            id, m->time ? m->time : time, m->machine, m->git, m->mpi);
    for (int bytes = 8; bytes <= 8 * n_metrics; bytes += 8) {
        double sec =
            1e-3 * bytes * (bytes == 16 ? m->factor : 1) * m->clock[s] * (1 + noise * rng_normal(&rng));
        fprintf(
            out,
            "{\"record\":\"bench\",\"schema\":1,\"run\":\"%s\",\"case\":\"comm\",\"test\":\"x\",\"key\":{"
            "\"bytes\":%d},\"metrics\":{},\"unit\":\"s\",\"verdict\":\"%s\",\"p50\":%.9g,\"clock_sec\":%g}\n",
            id, bytes, m->verdict[s], sec, 1e-3 * m->clock[s]);
    }
    if (m->why[s])
        fprintf(out, "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"%s\",\"reason\":\"%s\"}\n", id,
                m->why[s]);
}

static void add_file(const char *name, int fd)
{
    report_t report = {0};
    if (lseek(fd, 0, SEEK_SET) != 0) exit(4);
    OK_CALL(report_read(&report, fd, name), "%s is read", name);
    OK_CALL(history_add(&history, &report), "and added");
    report_free(&report);
}

/* Names run against the days. */
static void add(made_t m)
{
    char name[40];
    int fd = memfd_create("records", MFD_CLOEXEC);
    FILE *out = fd < 0 ? NULL : fdopen(dup(fd), "w");
    if (!out) exit(4);
    for (int s = 0; s < 3; s++) print_start(out, &m, s);
    fclose(out);
    snprintf(name, sizeof name, "%s-%02d.jsonl", m.machine, 40 - m.day);
    add_file(m.file ? m.file : name, fd);
    close(fd);
}

static void begin(void)
{
    history_free(&history);
    rng = rng_new(1, RNG_TEST, 0);
    noise = 0.002;
    n_metrics = 2;
}

static err_t finish_with(double alpha, int last)
{
    const history_options_t options = {.min_effect = 0.005, .alpha = alpha, .last = last, .seed = 1};
    return history_finish(&history, &options);
}

static err_t finish(int last)
{
    return finish_with(0.05, last);
}

static bool is(double value, double expected, double tolerance)
{
    return fabs(value - expected) <= tolerance;
}

/* 20 days; from the 13th on 2 % slower, with a new MPI. Added newest first. */
static void check_step(void)
{
    begin();
    for (int day = 20; day >= 1; day--) {
        made_t m = usual;
        m.day = day;
        m.git = day < 12 ? "g1" : day < 13 ? "g2" : "g3";
        m.mpi = day < 13 ? "4.1.4" : "4.1.6";
        m.factor = day < 13 ? 1 : 1.02;
        add(m);
    }
    OK_CALL(finish(0), "a history of 20 recordings");
    const history_group_t *group = history.groups;
    OK(history.n_groups == 1 && group->n_recordings == 20 && group->n_starts == 60 && group->n_complete == 20,
       "one group of 60 starts");
    OK(strcmp(group->recordings[0].file, "aa-39.jsonl") == 0 && is(group->days, 19, 1e-9),
       "in the order of time, not of names");
    const history_metric_t *flat = group->metrics, *metric = flat->next;
    OK(strcmp(flat->key, "bytes=8") == 0 && flat->n_changes == 0 && is(flat->levels[0], 8e-3, 1e-5),
       "the first metric has no change");
    OK(metric && metric->n_changes == 1 && group->n_changed == 1, "the second has one");
    if (metric->n_changes != 1) exit(1);
    const history_change_t *change = metric->changes;
    OK(change->before == 11 && change->after == 12, "between the 12th and the 13th");
    OK(is(change->ratio, 1.02, 0.003) && is(metric->levels[0], 16e-3, 2e-5), "by 2 %%");
    OK(change->p < 0.01 && change->q <= 0.05 && change->q > change->p,
       "surely; corrected for the other metric");
    OK(strcmp(group->recordings[change->before].git, "g2") == 0 &&
           strcmp(group->recordings[change->after].git, "g3") == 0 && !change->same_revision,
       "with the revisions of both sides");
    OK(change->n_differences == 1 && strcmp(change->differences[0].name, "mpi") == 0 &&
           strcmp(change->differences[0].before, "4.1.4") == 0 &&
           strcmp(change->differences[0].after, "4.1.6") == 0,
       "and what else changed in the software");
    OK(history_count_slower(&history, 8) == 1 && history_count_slower(&history, 7) == 0,
       "it is within the newest 8, not the newest 7");
    OK(metric->n_values == 20 && metric->values[3].n_used == 3 &&
           metric->values[3].low <= metric->values[3].sec && metric->values[3].sec <= metric->values[3].high,
       "values have their spread");
}

/* Twenty days of one revision, from `first` on as many times as slow. */
static void add_step(int first, double factor)
{
    for (int day = 1; day <= 20; day++) {
        made_t m = usual;
        m.day = day;
        m.factor = day < first ? 1 : factor;
        add(m);
    }
}

/* 2 % slower over twenty days, a little every day. */
static void check_drift(void)
{
    begin();
    for (int day = 1; day <= 20; day++) {
        made_t m = usual;
        m.day = day;
        m.factor = 1 + 0.02 * (day - 1) / 19;
        add(m);
    }
    OK_CALL(finish(0), "a history that drifts");
    const history_group_t *group = history.groups;
    const history_metric_t *metric = group->metrics->next;
    const history_drift_t *drift = metric->drift;
    OK(drift && metric->n_changes == 0 && group->n_drifting == 1 && group->n_changed == 0,
       "a drift is not a change and has no date");
    if (!drift) exit(1);
    OK(drift->first == 0 && drift->last == 19 && is(drift->to / drift->from, 1.02, 0.004) && drift->p < 1e-4,
       "but a size");
    OK(is(history_level(metric, 0), drift->from, 1e-12) && is(history_level(metric, 19), drift->to, 1e-12) &&
           is(history_level(metric, 10), 16e-3 * 1.0105, 3e-5),
       "and a level for each recording");
    OK(history_count_slower(&history, 3) == 1, "that is slower in the newest");
    const report_run_t like = {.hardware_id = "aa", .fabric_id = "f", .ranks = 2, .threads = 1};
    stats_spread_t starts, recordings;
    history_spread(&history, &like, "comm", "x", "bytes=16", &starts, &recordings);
    OK(is(recordings.df, 18, 1e-9) && recordings.deviation < 0.002 && is(starts.df, 40, 1e-9) &&
           is(starts.deviation, 0.002, 0.001),
       "about which recordings hardly differ");
    history_spread(&history, &like, "comm", "x", "bytes=32", &starts, &recordings);
    OK(!(recordings.df > 0) && !(starts.df > 0), "of a metric that nobody measured nothing is known");
}

/* The same revision; faster; only the newest are wanted. */
static void check_machine(void)
{
    begin();
    add_step(15, 0.9);
    OK_CALL(finish(12), "a history of the newest 12");
    const history_group_t *group = history.groups;
    const history_metric_t *metric = group->metrics->next;
    OK(group->n_recordings == 12 && metric->n_values == 12, "no more than these are in it");
    OK(metric->n_changes == 1 && metric->changes[0].after == 6 && is(metric->changes[0].ratio, 0.9, 0.01),
       "faster since the 15th");
    OK(metric->changes[0].same_revision && metric->changes[0].n_differences == 0,
       "nothing in the software changed");
    OK(history_count_slower(&history, 12) == 0, "nothing became slower");
}

/* Surer than few permutations can say. */
static void check_sure(void)
{
    begin();
    add_step(11, 1.05);
    OK_CALL(finish_with(1e-4, 0), "a history, one false alarm in ten thousand");
    const history_metric_t *metric = history.groups->metrics->next;
    OK(metric->n_changes == 1 && metric->changes[0].after == 10 && metric->changes[0].q <= 1e-4,
       "the change is found");
}

/* 3 % slower for four days, then 0.8 %: among 20 metrics the second change is not sure, and what is left
 * without it is below the minimum effect. */
static void check_remainder(void)
{
    begin();
    noise = 0.001;
    n_metrics = 20;
    for (int day = 1; day <= 24; day++) {
        made_t m = usual;
        m.day = day;
        m.factor = day <= 12 ? 1 : day <= 16 ? 1.03 : 1.008;
        add(m);
    }
    const history_options_t options = {.min_effect = 0.01, .alpha = 0.01, .seed = 1};
    OK_CALL(history_finish(&history, &options), "a history of 20 metrics");
    const history_metric_t *metric = history.groups->metrics->next;
    OK(metric->n_changes == 0 && history.groups->n_changed == 0 && is(metric->levels[0], 16.03e-3, 0.05e-3),
       "no change is smaller than the minimum effect");
}

static void check_flat(void)
{
    begin();
    for (int day = 1; day <= 20; day++) {
        made_t m = usual;
        m.day = day;
        add(m);
    }
    OK_CALL(finish(0), "a flat history");
    const history_group_t *group = history.groups;
    OK(group->n_metrics == 3 && group->n_changed == 0 && group->n_too_short == 0, "has no change");
    OK(strcmp(group->metrics->next->next->case_name, "machine") == 0 &&
           group->metrics->next->next->n_values == 20,
       "the machine's clock is a metric too");
}

/* Another machine's recordings, twice as slow, lie between ours; then too few are left. */
static void check_machines(void)
{
    begin();
    for (int day = 1; day <= 9; day++) {
        made_t m = usual;
        m.day = day;
        m.machine = day % 2 ? "aa" : "bb";
        m.factor = day % 2 ? 1 : 2;
        add(m);
    }
    OK_CALL(finish(0), "two machines");
    const history_group_t *first = history.groups, *second = first->next;
    OK(history.n_groups == 2 && strcmp(first->hardware_id, "aa") == 0 &&
           strcmp(second->hardware_id, "bb") == 0,
       "are two groups, the newest first");
    OK(first->n_recordings == 5 && second->n_recordings == 4 &&
           is(second->metrics->next->levels[0], 32e-3, 2e-4),
       "with their own recordings");
    OK(first->metrics->too_short && first->n_too_short == 3 && first->n_changed == 0, "too few to tell");
}

/* One start of day 3, all of day 5 and of days 7 to 9 were not alone on the machine: 60 % slower. */
static void check_disturbed(void)
{
    begin();
    for (int day = 1; day <= 18; day++) {
        made_t m = usual;
        m.day = day;
        if (day == 1) m.clock[0] = 0.9; /* a burst, which makes no other slow */
        if (day == 3) m.clock[1] = 1.6;
        for (int s = 0; s < 3 && (day == 5 || (day >= 7 && day <= 9)); s++) {
            m.clock[s] = 1.6;
            if (day == 5) m.clock[s] = 1.05, m.verdict[s] = "disturbed";
        }
        add(m);
    }
    OK_CALL(finish(0), "a history with disturbed recordings");
    const history_group_t *group = history.groups;
    const history_metric_t *metric = group->metrics;
    OK(metric->values[2].n_used == 2 && !metric->values[2].disturbed && is(metric->values[2].sec, 8e-3, 1e-4),
       "a slow start is left out where others remain");
    OK(metric->values[4].disturbed && metric->values[4].n_used == 3 &&
           is(metric->values[6].sec, 12.8e-3, 2e-4),
       "where none remains the value is shown as disturbed");
    OK(metric->n_disturbed == 4 && group->n_disturbed == 8 && group->n_starts_left_out == 2,
       "they are counted");
    OK(metric->n_changes == 0 && metric->next->n_changes == 0 && is(metric->levels[0], 8e-3, 5e-5),
       "and are no change");
}

static int note_with(const char *word)
{
    for (int i = 0; i < history.n_notes; i++)
        if (strstr(history.notes[i], word)) return 1;
    return 0;
}

/* Recordings that are none, or not whole. */
static void check_left_out(void)
{
    begin();
    for (int day = 1; day <= 8; day++) {
        made_t m = usual;
        m.day = day;
        if (day == 2) m.why[2] = NULL;
        if (day == 3) m.why[0] = "failed";
        if (day == 4) m.file = "a.partial.jsonl";
        if (day == 5) m.time = "yesterday";
        add(m);
        m.file = "copy.jsonl";
        if (day == 8) add(m);
    }
    OK_CALL(finish(0), "a history with what is left out");
    const history_group_t *group = history.groups;
    OK(group->n_recordings == 7 && group->n_complete == 4 && history.n_interrupted == 3,
       "interrupted ones are listed");
    OK(!group->recordings[1].complete && !group->recordings[2].complete && !group->recordings[3].complete &&
           group->recordings[4].complete && group->metrics->n_values == 4 &&
           group->metrics->values[1].recording == 4,
       "and have no values");
    OK(history.n_notes == 2 && note_with("without a start time: 3, the first in aa-35.jsonl") &&
           note_with("copy.jsonl"),
       "runs without a time and a copied file are noted");
    begin();
    made_t m = usual;
    m.day = 1;
    m.why[1] = "interrupted";
    add(m);
    OK(finish(0) == ERR_DATA && SAYS("found 1", "1 interrupted"), "nothing whole: an error that says so");
    begin();
    OK(finish(0) == ERR_DATA && SAYS("no recording"), "so is nothing at all");
}

int main(void)
{
    tap_plan(2 * (20 + 20 + 20 + 20 + 24 + 20 + 9 + 18 + 9 + 1) + 40 + 7);
    check_step();
    check_drift();
    check_machine();
    check_sure();
    check_remainder();
    check_flat();
    check_machines();
    check_disturbed();
    check_left_out();
    history_free(&history);
    OK(mem_live() == 0, "all memory is given back");
    return tap_done();
}
