/* SPDX-License-Identifier: MIT */
/* Flattens a report's runs into metrics, matched across runs by case, test and key, and labels them for people. report/regress
 * compares them. */
#include "report/records/metrics.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "text/figure.h"

/* ---- Labels ---- */
enum { MAX_NAMES = 64 };

/* The metrics of one case and test. Each key field splits them into finer classes. */
typedef struct family {
    metric_t **members;
    int *class_of,
        *before; /* class of each member by the fields tried so far; the same before the last field */
    int n;
    const char *tried[MAX_NAMES]; /* field names */
    int n_tried;
} family_t;

static report_fields_t key_of(const metric_t *metric)
{
    const report_point_t *point = metric->starts->point;
    return point ? point->key : (report_fields_t){0};
}

/* Texts are interned, and numbers in keys keep their text. */
static bool same_field(const report_field_t *a, const report_field_t *b)
{
    return a == b || (a && b && a->text == b->text);
}

/* Splits the classes by a field's values. A class is named by the index of its first member. */
static void split_classes(family_t *f, const char *name)
{
    memcpy(f->before, f->class_of, (size_t)f->n * sizeof *f->before);
    for (int i = f->n - 1; i >= 0; i--) {
        const report_field_t *mine = fields_find(key_of(f->members[i]), name);
        int like = f->before[i];
        while (like < i && !(f->before[like] == f->before[i] &&
                             same_field(mine, fields_find(key_of(f->members[like]), name))))
            like++;
        f->class_of[i] = like;
    }
}

/* Whether the last field separated the member from another of its class. */
static bool is_told_apart(const family_t *f, int member)
{
    for (int i = 0; i < f->n; i++)
        if (f->before[i] == f->before[member] && f->class_of[i] != f->class_of[member]) return true;
    return false;
}

static bool is_new_name(family_t *f, const char *name)
{
    for (int i = 0; i < f->n_tried; i++)
        if (f->tried[i] == name) return false;
    if (f->n_tried == MAX_NAMES) return false;
    f->tried[f->n_tried++] = name;
    return true;
}

/* Numbers are prefixed with the field's name; texts speak for themselves. */
static err_t label_field(arena_t *arena, const report_field_t *field, const char **label)
{
    figure_t room;
    if (field->kind == FIELD_MISSING || !field->text) return ERR_OK;
    if (field->kind == FIELD_TEXT) return arena_format(arena, label, "%s %s", *label, field->text);
    return arena_format(arena, label, "%s %s %s", *label, field->name, fields_text(field, &room));
}

static err_t add_fields(arena_t *arena, family_t *f)
{
    memset(f->class_of, 0, (size_t)f->n * sizeof *f->class_of);
    f->n_tried = 0;
    for (int first = 0; first < f->n; first++) {
        report_fields_t key = key_of(f->members[first]);
        for (int i = 0; i < key.n; i++) {
            if (!is_new_name(f, key.at[i].name)) continue;
            split_classes(f, key.at[i].name);
            for (int m = 0; m < f->n; m++) {
                const report_field_t *field = fields_find(key_of(f->members[m]), key.at[i].name);
                if (field && is_told_apart(f, m)) TRY(label_field(arena, field, &f->members[m]->label));
            }
        }
    }
    return ERR_OK;
}

static err_t label_family(metrics_t *metrics, family_t *f)
{
    for (int m = 0; m < f->n; m++) {
        metric_t *metric = f->members[m];
        bool one_word = metric->case_name == metric->test;
        TRY(arena_format(&metrics->arena, &metric->label, "%s%s%s", metric->case_name, one_word ? "" : " ",
                         one_word ? "" : metric->test));
        if (!metric->starts->point && f->n > 1) /* training runs have no key fields */
            TRY(arena_format(&metrics->arena, &metric->label, "%s %s", metric->label, metric->key));
    }
    return add_fields(&metrics->arena, f);
}

static err_t label_all(metrics_t *metrics, family_t *f)
{
    for (metric_t *first = metrics->first; first; first = first->next) {
        if (first->label) continue;
        f->n = 0;
        for (metric_t *at = first; at; at = at->next)
            if (at->case_name == first->case_name && at->test == first->test) f->members[f->n++] = at;
        TRY(label_family(metrics, f));
    }
    return ERR_OK;
}

static err_t metrics_label(metrics_t *metrics)
{
    family_t f = {0};
    err_t err;
    TRY_OUT(err, mem_new_array(metrics->n, sizeof(metric_t *), "metrics", &f.members));
    TRY_OUT(err, mem_new_array(metrics->n, sizeof(int), "metrics", &f.class_of));
    TRY_OUT(err, mem_new_array(metrics->n, sizeof(int), "metrics", &f.before));
    err = label_all(metrics, &f);
out:
    mem_free(&f.members);
    mem_free(&f.class_of);
    mem_free(&f.before);
    return err;
}

const char *metrics_part_label(const char *part)
{
    return strcmp(part, "allreduce") == 0 ? "exposed comm" : strcmp(part, "data") == 0 ? "data wait" : part;
}

/* ---- The list ---- */
const char *metrics_incomplete(const report_run_t *run)
{
    if (run->line == 0) return "no first record";
    if (!run->end_reason[0]) return "no end record";
    static const char early[] = "stopped early"; /* and why: --patience */
    bool complete = strcmp(run->end_reason, "finished") == 0 ||
                    (run->train && (strcmp(run->end_reason, "target reached") == 0 ||
                                    strncmp(run->end_reason, early, sizeof early - 1) == 0));
    return complete ? NULL : run->end_reason;
}

const report_run_t *metrics_next_complete(const report_run_t *run)
{
    while (run && metrics_incomplete(run)) run = run->next;
    return run;
}

static bool is_time(double sec)
{
    return isfinite(sec) && sec > 0;
}

/* Copies the samples of all parts at the positions where the total is valid. */
static err_t copy_samples(arena_t *arena, const report_samples_t *from, int n, int64_t n_good,
                          report_samples_t *to)
{
    for (int part = 0; part < n; part++) {
        double *sec;
        int64_t n_kept = 0;
        TRY(arena_new(arena, (size_t)n_good * sizeof *sec, &sec));
        for (int64_t i = 0; i < from[0].n; i++)
            if (is_time(from[0].sec[i])) sec[n_kept++] = from[part].sec[i];
        to[part] = (report_samples_t){from[part].part, sec, n_good};
    }
    return ERR_OK;
}

static err_t copy_batches(arena_t *arena, const report_samples_t *total, metric_start_t *start)
{
    int32_t *batch_n;
    int64_t at = 0;
    TRY(arena_new(arena, (size_t)start->n_batches * sizeof *batch_n, &batch_n));
    for (int b = 0; b < start->n_batches; b++) {
        batch_n[b] = 0;
        for (int32_t i = 0; i < start->batch_n[b]; i++) batch_n[b] += is_time(total->sec[at++]);
    }
    start->batch_n = batch_n;
    return ERR_OK;
}

/* Copies only if a sample is invalid, which is rare. */
static err_t set_samples(arena_t *arena, const report_samples_t *samples, int n, metric_start_t *start)
{
    report_samples_t *copy;
    int64_t n_good = 0;
    if (n == 0) return ERR_OK;
    for (int64_t i = 0; i < samples[0].n; i++) n_good += is_time(samples[0].sec[i]);
    start->n_invalid = samples[0].n - n_good;
    if (n_good == 0) {
        start->batch_n = NULL;
        start->n_batches = 0;
        return ERR_OK;
    }
    start->samples = samples;
    start->n_samples = n;
    if (start->n_invalid == 0) return ERR_OK;
    TRY(arena_new(arena, (size_t)n * sizeof *copy, &copy));
    TRY(copy_samples(arena, samples, n, n_good, copy));
    start->samples = copy;
    return start->batch_n ? copy_batches(arena, &samples[0], start) : ERR_OK;
}

static err_t sample_median(const report_samples_t *total, double *out)
{
    double *sorted;
    TRY(mem_new_array(total->n, sizeof *sorted, "samples", &sorted));
    memcpy(sorted, total->sec, (size_t)total->n * sizeof *sorted);
    *out = stats_median(sorted, total->n);
    mem_free(&sorted);
    return ERR_OK;
}

/* Runs usually have their points in the same order, so the search starts after the last hit. */
static err_t find_metric(metrics_t *m, const metric_t *like, metric_t **now)
{
    metric_t *metric = *now ? (*now)->next : m->first;
    for (int pass = 0; pass < 2; pass++, metric = m->first)
        for (; metric; metric = metric->next) {
            if (metric->key != like->key || metric->test != like->test ||
                metric->case_name != like->case_name)
                continue;
            *now = metric;
            return ERR_OK;
        }
    TRY(arena_new(&m->arena, sizeof *metric, &metric));
    *metric = (metric_t){.case_name = like->case_name, .test = like->test, .key = like->key};
    if (m->last)
        m->last->next = metric;
    else
        m->first = metric;
    *now = m->last = metric;
    m->n++;
    return ERR_OK;
}

static err_t add_start(metrics_t *m, const metric_t *like, metric_start_t start, metric_t **now)
{
    if (!is_time(start.p50) && start.samples) TRY(sample_median(&start.samples[0], &start.p50));
    if (!is_time(start.p50)) return ERR_OK;
    TRY(find_metric(m, like, now));
    metric_t *metric = *now;
    metric_start_t *at = metric->last;
    if (!at || at->run != start.run) {
        TRY(arena_new(&m->arena, sizeof *at, &at));
        if (metric->last)
            metric->last->next = at;
        else
            metric->starts = at;
        metric->last = at;
        metric->n_starts++;
    }
    *at = start;
    return ERR_OK;
}

static err_t add_bench(metrics_t *m, const report_run_t *run, metric_t **now)
{
    arena_t arena = {0};
    err_t err = ERR_OK;
    for (const report_group_t *group = run->groups; group; group = group->next) {
        metric_t like = {0};
        TRY_OUT(err, intern_text(&m->words, group->case_name, &like.case_name));
        TRY_OUT(err, intern_text(&m->words, group->test, &like.test));
        for (const report_point_t *point = group->first; point; point = point->next) {
            const report_timing_t *t = point->timing;
            if (!t || strcmp(t->unit, "s") != 0) continue;
            metric_start_t start = {.run = run,
                                    .point = point,
                                    .p50 = t->p50,
                                    .clock_sec = t->clock_sec,
                                    .disturbed = strcmp(t->verdict, "disturbed") == 0,
                                    .batch_n = point->batch_n,
                                    .n_batches = point->n_batches};
            TRY_OUT(err, report_key_text(&arena, point, &like.key));
            TRY_OUT(err, intern_text(&m->words, like.key, &like.key));
            TRY_OUT(err, set_samples(&m->arena, point->samples, point->n_samples, &start));
            TRY_OUT(err, add_start(m, &like, start, now));
            arena_reset(&arena);
        }
    }
out:
    arena_free(&arena);
    return err;
}

static err_t add_train(metrics_t *m, const report_run_t *run, metric_t **now)
{
    const report_train_t *train = run->train;
    metric_start_t start = {.run = run, .p50 = train->step_sec[STEP_TOTAL], .clock_sec = NAN};
    metric_t like = {0};
    const char *key;
    TRY(arena_format(&m->arena, &key, "batch=%s;ranks=%s;precision=%s;device=%s",
                     figure_number(train->global_batch).text, figure_number(train->ranks).text,
                     train->precision, train->device));
    TRY(intern_text(&m->words, "train", &like.case_name));
    TRY(intern_text(&m->words, train->model, &like.test));
    TRY(intern_text(&m->words, key, &like.key));
    TRY(set_samples(&m->arena, train->samples, train->n_samples, &start));
    return add_start(m, &like, start, now);
}

err_t metrics_list(const report_t *report, metrics_t *out)
{
    out->report = report;
    for (const report_run_t *run = report->runs; run; run = run->next) {
        metric_t *now = NULL;
        bool left_out = metrics_incomplete(run) != NULL;
        out->n_left_out += left_out;
        out->n_complete += !left_out;
        if (left_out && !out->with_incomplete) continue;
        TRY(run->train ? add_train(out, run, &now) : add_bench(out, run, &now));
    }
    return metrics_label(out);
}

void metrics_free(metrics_t *metrics)
{
    intern_free(&metrics->words);
    arena_free(&metrics->arena);
    *metrics = (metrics_t){0};
}

const metric_t *metrics_find(const metrics_t *metrics, const char *case_name, const char *test,
                             const char *key)
{
    for (const metric_t *metric = metrics->first; metric; metric = metric->next)
        if (strcmp(metric->key, key) == 0 && strcmp(metric->test, test) == 0 &&
            strcmp(metric->case_name, case_name) == 0)
            return metric;
    return NULL;
}

int metrics_shared_runs(const report_t *a, const report_t *b)
{
    int n = 0;
    for (const report_run_t *x = metrics_next_complete(a->runs); x; x = metrics_next_complete(x->next))
        for (const report_run_t *y = metrics_next_complete(b->runs); y && x->id[0];
             y = metrics_next_complete(y->next))
            n += strcmp(x->id, y->id) == 0;
    return n;
}
