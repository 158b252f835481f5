/* SPDX-License-Identifier: MIT */
/* Reads the records of `dptrain train`. They have no run id: a `run` record starts a run or resumes it, and the records after it
 * belong to it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "report/records/records.h"

/* ---- Metrics: the table in the `run` record, and their values in epochs ---- */
enum { NAME_MAX_BYTES = 40 };

/* Of records without a table (earlier versions): the first two always, the others if recorded. */
static const report_metric_t earlier[] = {
    {.name = "loss", .label = "loss", .train = true, .val = true},
    {.name = "accuracy",
     .label = "accuracy",
     .is_fraction = true,
     .higher_is_better = true,
     .train = true,
     .val = true},
    {.name = "map", .label = "mAP", .is_fraction = true, .higher_is_better = true},
    {.name = "top5", .label = "top-5", .is_fraction = true, .higher_is_better = true},
};
enum { EARLIER_ACCURACY = 1, EARLIER_MAP = 2 };

/* Sets the metrics of a run without a table of them. */
static void train_metrics_begin(report_train_t *train)
{
    memcpy(train->metrics, earlier, sizeof earlier);
    train->n_metrics = sizeof earlier / sizeof *earlier;
    train->main_metric = EARLIER_ACCURACY;
}

/* The metric of that name, new if there is none; NULL: too many. */
static report_metric_t *find_or_add(report_train_t *train, const char *name)
{
    for (int i = 0; i < train->n_metrics; i++)
        if (strcmp(train->metrics[i].name, name) == 0) return &train->metrics[i];
    if (train->n_metrics == REPORT_MAX_METRICS) return NULL;
    /* Epochs that were read before the run resumed have no value of it. */
    report_epoch_t *const lists[] = {train->epochs, train->between};
    for (int i = 0; i < 2; i++)
        for (report_epoch_t *epoch = lists[i]; epoch; epoch = epoch->next)
            epoch->train[train->n_metrics] = epoch->val[train->n_metrics] = NAN;
    return &train->metrics[train->n_metrics++];
}

static bool is_true(const json_value_t *object, const char *key)
{
    const json_value_t *value = json_get(object, key);
    return value && value->kind == JSON_BOOL && value->truth;
}

static bool text_is(const json_value_t *object, const char *key, const char *text)
{
    const char *value;
    return json_get_text(object, key, &value) && strcmp(value, text) == 0;
}

static err_t train_metrics_read(const report_input_t *in, report_train_t *train)
{
    const json_value_t *table = json_get(in->record, "metrics");
    const char *name;
    if (!table || table->kind != JSON_ARRAY) return ERR_OK;
    train->metrics_recorded = true;
    for (int i = 0; i < train->n_metrics; i++) train->metrics[i].train = train->metrics[i].val = false;
    for (const json_value_t *at = table->first; at; at = at->next) {
        const char *label = NULL;
        if (!json_get_text(at, "name", &name) || !name[0] || strlen(name) >= NAME_MAX_BYTES) continue;
        report_metric_t *metric = find_or_add(train, name);
        if (!metric) break;
        *metric = (report_metric_t){.is_fraction = text_is(at, "unit", "fraction"),
                                    .higher_is_better = text_is(at, "better", "higher"),
                                    .is_neutral = text_is(at, "better", "neither"),
                                    .train = is_true(at, "training"),
                                    .val = !is_true(at, "training_only"),
                                    .is_detail = is_true(at, "detail")};
        if (!json_get_text(at, "label", &label) || !label[0]) label = name;
        TRY(intern_text(&in->report->words, name, &metric->name));
        TRY(intern_text(&in->report->words, label, &metric->label));
        if (is_true(at, "main")) train->main_metric = (int)(metric - train->metrics);
    }
    return ERR_OK;
}

/* Of an earlier version, a run with a mean average precision had no accuracy to show. */
static void note_earlier(report_train_t *train, const report_epoch_t *epoch)
{
    for (int i = EARLIER_MAP; i < train->n_metrics; i++)
        if (isfinite(epoch->val[i])) train->metrics[i].val = true;
    if (train->metrics[EARLIER_MAP].val) train->main_metric = EARLIER_MAP;
}

static void train_metrics_read_epoch(const report_input_t *in, report_train_t *train, report_epoch_t *epoch,
                                     bool between)
{
    for (int i = 0; i < train->n_metrics; i++) {
        char field[NAME_MAX_BYTES + 8];
        snprintf(field, sizeof field, "train_%s", train->metrics[i].name);
        epoch->train[i] = between ? NAN : report_get_real(in, field);
        snprintf(field, sizeof field, "val_%s", train->metrics[i].name);
        epoch->val[i] = report_get_real(in, field);
    }
    if (!train->metrics_recorded) note_earlier(train, epoch);
}

figure_t report_metric_figure(const report_metric_t *metric, double value)
{
    return metric->is_fraction ? figure_percent(value) : figure_number(value);
}

const report_epoch_t *report_best(const report_train_t *train, int metric)
{
    const report_epoch_t *const lists[] = {train->epochs, train->between}, *best = NULL;
    const bool higher = train->metrics[metric].higher_is_better;
    for (int i = 0; i < 2; i++)
        for (const report_epoch_t *at = lists[i]; at; at = at->next) {
            const double value = at->val[metric], most = best ? best->val[metric] : NAN;
            const bool better = higher ? value > most : value < most,
                       same = !better && value >= most && value <= most;
            if (isfinite(value) && (!best || better || (same && at->step < best->step))) best = at;
        }
    return best;
}

/* ---- Runs ---- */
/* As for images_per_sec of dptrain train: the last MAX_STEPS count, the first of each process do not. */
enum { MAX_STEPS = 65536, WARM_UP_STEPS = 10 };

const char *const report_step_parts[STEP_PARTS] = {"step_sec",     "data_wait_sec",    "forward_sec",
                                                   "backward_sec", "exposed_comm_sec", "optimizer_sec"};
/* Names as in the records of dptrain bench. */
static const char *const sample_parts[STEP_PARTS] = {"",         "data",      "forward",
                                                     "backward", "allreduce", "optimizer"};

typedef struct step_row {
    int64_t step;
    double sec[STEP_PARTS];
} step_row_t;

typedef struct train_steps {
    int64_t n;
    step_row_t rows[];
} train_steps_t;

static const record_place_t head_places[] = {
    PLACE(report_run_t, time, "time"),
    PLACE(report_run_t, hardware_id, "hardware_id"),
    PLACE(report_run_t, hardware, "hardware"),
    PLACE(report_run_t, software, "software"),
    {0},
};

static const record_place_t train_places[] = {
    PLACE(report_train_t, model, "options.model"),
    PLACE(report_train_t, precision, "options.precision"),
    PLACE(report_train_t, seed, "options.seed"),
    PLACE(report_train_t, device, "topology.device"),
    PLACE(report_train_t, ranks, "topology.ranks"),
    PLACE(report_train_t, hosts, "topology.hosts"),
    PLACE(report_train_t, threads, "topology.threads"),
    PLACE(report_train_t, global_batch, "global_batch"),
    PLACE(report_train_t, n_steps, "n_steps"),
    PLACE(report_train_t, n_parameters, "n_parameters"),
    PLACE(report_train_t, data, "data.source"),
    PLACE(report_train_t, n_train, "data.n_train"),
    PLACE(report_train_t, n_val, "data.n_val"),
    PLACE(report_train_t, options, "options"),
    {0},
};

static err_t add_run(const report_input_t *in)
{
    report_run_t *run;
    report_train_t *train = NULL;
    TRY(train_run_finish(in->report, in->file->train));
    in->file->train = NULL;
    TRY(arena_new(&in->report->arena, sizeof *train, &train));
    *train = (report_train_t){.images_per_sec = NAN,
                              .median_images_per_sec = NAN,
                              .mean_step_sec = NAN,
                              .peak_memory_bytes = NAN,
                              .last_step = NAN,
                              .last_loss = NAN,
                              .n_corrupt = NAN,
                              .first_step = -1};
    TRY(report_fill_none(in, train_places, train));
    for (int part = 0; part < STEP_PARTS; part++) train->step_sec[part] = NAN;
    train_metrics_begin(train);
    TRY(report_add_run(in, "", &run));
    run->train = train;
    in->file->train = run;
    return ERR_OK;
}

static err_t find_or_add_run(const report_input_t *in, report_train_t **out)
{
    if (!in->file->train) TRY(add_run(in));
    *out = in->file->train->train;
    return ERR_OK;
}

/* A confusion matrix and the names of its classes have at most so many. */
enum { MAX_CLASSES = 64 };

static err_t read_classes(const report_input_t *in, report_train_t *train)
{
    const json_value_t *data = json_get(in->record, "data"), *list = json_get(data, "classes");
    const char **names;
    int n = 0;
    if (!list || list->kind != JSON_ARRAY || list->n < 1 || list->n > MAX_CLASSES) return ERR_OK;
    TRY(arena_new(&in->report->arena, (size_t)list->n * sizeof *names, &names));
    for (const json_value_t *at = list->first; at; at = at->next, n++)
        TRY(intern_text(&in->report->words, at->kind == JSON_STRING ? at->text : "", &names[n]));
    train->classes = names;
    train->n_classes = n;
    return ERR_OK;
}

/* One with other values than counts is left out. */
static err_t read_confusion(const report_input_t *in, report_train_t *train, double step)
{
    const json_value_t *rows = json_get(in->record, "confusion");
    int64_t *counts;
    int n = 0;
    if (!rows || rows->kind != JSON_ARRAY || rows->n < 2 || rows->n > MAX_CLASSES) return ERR_OK;
    TRY(arena_new(&in->report->arena, (size_t)(rows->n * rows->n) * sizeof *counts, &counts));
    for (const json_value_t *row = rows->first; row; row = row->next)
        for (const json_value_t *at = row->kind == JSON_ARRAY && row->n == rows->n ? row->first : NULL; at;
             at = at->next) {
            double count;
            if (json_as_real(at, &count) && count >= 0 && count < 1e15) counts[n++] = (int64_t)count;
        }
    if (n != rows->n * rows->n) return ERR_OK;
    train->confusion = counts;
    train->n_confusion = (int)rows->n;
    train->confusion_step = step;
    return ERR_OK;
}

err_t read_run(const report_input_t *in)
{
    const char *resumed_from;
    /* A resumed run continues; its values are those of the last process. */
    bool resumed = json_get_text(in->record, "resumed_from", &resumed_from);
    if (!resumed || !in->file->train) TRY(add_run(in));
    report_run_t *run = in->file->train;
    report_train_t *train = run->train;
    if (run->line == 0) run->line = in->line;
    TRY(report_fill(in, head_places, run));
    TRY(report_fill(in, train_places, train));
    TRY(train_metrics_read(in, train));
    TRY(read_classes(in, train));
    TRY(intern_text(&in->report->words, "", &run->end_reason));
    train->images_per_sec = train->median_images_per_sec = NAN;
    train->first_step = -1;
    json_get_int(in->record, "first_step", &train->first_step);
    if (resumed) train->resumed_at[train->n_resumed++ % REPORT_MAX_RESUMED] = (double)train->first_step;
    return ERR_OK;
}

/* Makes room for one more row; drops the older half if there are too many. */
static err_t make_room(report_train_t *train)
{
    train_steps_t *steps = train->steps;
    if (steps && steps->n == 2 * MAX_STEPS) {
        steps->n = MAX_STEPS;
        memmove(steps->rows, steps->rows + MAX_STEPS, MAX_STEPS * sizeof *steps->rows);
    }
    size_t n_bytes = sizeof *steps + (size_t)(steps ? steps->n + 1 : 1) * sizeof *steps->rows;
    return mem_grow((int64_t)n_bytes, 1, "steps", &train->steps);
}

err_t read_step(const report_input_t *in)
{
    report_train_t *train;
    step_row_t row;
    if (!json_get_int(in->record, "step", &row.step) || row.step < 0)
        RAISE(ERR_DATA, "step record without a valid \"step\"");
    TRY(find_or_add_run(in, &train));
    for (int part = 0; part < STEP_PARTS; part++)
        row.sec[part] = report_get_real(in, report_step_parts[part]);
    train->last_step = (double)row.step;
    train->last_loss = report_get_real(in, "loss");
    if (train->first_step < 0) train->first_step = row.step;
    if (in->report->keep_curves) {
        TRY(curve_add(&train->curve, row.step, train->last_loss));
        TRY(curve_add(&train->rates, row.step, report_get_real(in, "lr")));
        TRY(curve_add(&train->secs, row.step, row.sec[STEP_TOTAL]));
    }
    /* Steps repeated after a crash replace the earlier ones. */
    train_steps_t *steps = train->steps;
    while (steps && steps->n > 0 && steps->rows[steps->n - 1].step >= row.step) steps->n--;
    if (row.step - train->first_step < WARM_UP_STEPS || !isfinite(row.sec[STEP_TOTAL])) return ERR_OK;
    TRY(make_room(train));
    train->steps->rows[train->steps->n++] = row;
    return ERR_OK;
}

/* The columns of the rows; free `out[STEP_TOTAL]`. */
static err_t copy_columns(const step_row_t *rows, int64_t n, double *out[STEP_PARTS])
{
    TRY(mem_new_array(STEP_PARTS * n, sizeof **out, "times of steps", &out[STEP_TOTAL]));
    for (int part = 0; part < STEP_PARTS; part++) {
        out[part] = out[STEP_TOTAL] + part * n;
        for (int64_t i = 0; i < n; i++) out[part][i] = rows[i].sec[part];
    }
    return ERR_OK;
}

static err_t keep_samples(report_t *report, report_train_t *train, double *const columns[STEP_PARTS])
{
    report_samples_t *samples;
    double *sec;
    int64_t n = train->n_steady;
    if (!report->keep_samples || n == 0) return ERR_OK;
    TRY(arena_new(&report->arena, STEP_PARTS * sizeof *samples, &samples));
    for (int part = 0; part < STEP_PARTS; part++) {
        TRY(arena_new(&report->arena, (size_t)n * sizeof *sec, &sec));
        memcpy(sec, columns[part], (size_t)n * sizeof *sec);
        samples[part] = (report_samples_t){.sec = sec, .n = n};
        TRY(intern_text(&report->words, sample_parts[part], &samples[part].part));
    }
    train->samples = samples;
    train->n_samples = STEP_PARTS;
    return ERR_OK;
}

/* The mean step, the median step and its parts. Sorts the totals. */
static err_t divide_step(report_train_t *train, double *columns[STEP_PARTS])
{
    double shares[STEP_PARTS];
    const double *parts[STEP_PARTS];
    for (int part = 0; part < STEP_PARTS; part++) parts[part] = columns[part];
    train->mean_step_sec = 0;
    for (int64_t i = 0; i < train->n_steady; i++)
        train->mean_step_sec += columns[STEP_TOTAL][i] / (double)train->n_steady;
    TRY(split_shares(columns[STEP_TOTAL], parts, STEP_PARTS, train->n_steady, shares));
    train->step_sec[STEP_TOTAL] = stats_median(columns[STEP_TOTAL], train->n_steady);
    for (int part = 1; part < STEP_PARTS; part++)
        train->step_sec[part] = shares[part] * train->step_sec[STEP_TOTAL];
    return ERR_OK;
}

err_t train_run_finish(report_t *report, report_run_t *run)
{
    if (run && run->train) {
        TRY(curve_finish(&run->train->curve, &report->arena));
        TRY(curve_finish(&run->train->rates, &report->arena));
        TRY(curve_finish(&run->train->secs, &report->arena));
    }
    if (!run || !run->train || !run->train->steps) return ERR_OK;
    report_train_t *train = run->train;
    const train_steps_t *steps = train->steps;
    double *columns[STEP_PARTS] = {NULL};
    err_t err = ERR_OK;
    train->n_steady = steps->n < MAX_STEPS ? steps->n : MAX_STEPS;
    if (steps->n == 0) goto out;
    TRY_OUT(err, copy_columns(steps->rows + (steps->n - train->n_steady), train->n_steady, columns));
    TRY_OUT(err, keep_samples(report, train, columns));
    err = divide_step(train, columns);
out:
    mem_free(&columns[STEP_TOTAL]);
    mem_free(&train->steps);
    return err;
}

/* What orders a list: epochs, or the steps of evaluations inside them. */
static double place_of(const report_epoch_t *epoch, bool by_step)
{
    return by_step ? epoch->step : (double)epoch->epoch;
}

/* Puts an epoch into its place in the list, or into that of an equal one: repeated after a crash. */
static void put_epoch(report_epoch_t *epoch, bool by_step, report_epoch_t **first, report_epoch_t **last)
{
    const double place = place_of(epoch, by_step);
    report_epoch_t **at = first;
    if (*last && place_of(*last, by_step) < place) at = &(*last)->next;
    while (*at && place_of(*at, by_step) < place) at = &(*at)->next;
    const bool again = *at && !(place_of(*at, by_step) > place);
    epoch->next = again ? (*at)->next : *at;
    *at = epoch;
    if (!epoch->next) *last = epoch;
}

static err_t read_result_of(const report_input_t *in, bool between)
{
    report_train_t *train;
    report_epoch_t *epoch;
    const int64_t most = INT64_C(1) << 53;
    int64_t number;
    if (!json_get_int(in->record, "epoch", &number) || number < 0 || number > most)
        RAISE(ERR_DATA, "%s record without a valid \"epoch\"", between ? "evaluation" : "epoch");
    TRY(find_or_add_run(in, &train));
    TRY(arena_new(&in->report->arena, sizeof *epoch, &epoch));
    *epoch = (report_epoch_t){.epoch = number,
                              .line = in->line,
                              .step = report_get_real(in, "step"),
                              .images_per_sec = NAN,
                              .train_sec = NAN,
                              .eval_sec = report_get_real(in, "eval_sec")};
    if (between && !isfinite(epoch->step)) RAISE(ERR_DATA, "evaluation record without a valid \"step\"");
    if (!between) epoch->images_per_sec = report_get_real(in, "images_per_sec");
    if (!between) epoch->train_sec = report_get_real(in, "train_sec");
    train_metrics_read_epoch(in, train, epoch, between);
    if (between)
        put_epoch(epoch, true, &train->between, &train->last_between);
    else
        put_epoch(epoch, false, &train->epochs, &train->last_epoch);
    return read_confusion(in, train, epoch->step);
}

err_t read_epoch(const report_input_t *in)
{
    return read_result_of(in, false);
}

err_t read_evaluation(const report_input_t *in)
{
    return read_result_of(in, true);
}

static const record_place_t reason_places[] = {PLACE(report_run_t, end_reason, "reason"), {0}};
static const record_place_t rate_places[] = {
    PLACE(report_train_t, images_per_sec, "images_per_sec"),
    PLACE(report_train_t, median_images_per_sec, "median_images_per_sec"),
    PLACE(report_train_t, n_corrupt, "corrupt_samples"),
    {0},
};

err_t read_end(const report_input_t *in)
{
    report_train_t *train;
    TRY(find_or_add_run(in, &train));
    TRY(report_fill(in, reason_places, in->file->train));
    TRY(report_fill(in, rate_places, train));
    if (!json_get(in->record, "median_images_per_sec")) {
        train->median_images_per_sec = train->images_per_sec;
        train->images_per_sec = NAN;
    }
    const json_value_t *peaks = json_get(in->record, "peak_memory_bytes");
    const json_value_t *peak = peaks && peaks->kind == JSON_ARRAY ? peaks->first : NULL;
    for (double value; peak; peak = peak->next)
        if (json_as_real(peak, &value) && !(value <= train->peak_memory_bytes))
            train->peak_memory_bytes = value;
    return ERR_OK;
}

err_t read_checkpoint(const report_input_t *in)
{
    report_train_t *train;
    const json_value_t *error = json_get(in->record, "error");
    TRY(find_or_add_run(in, &train));
    train->n_checkpoints += !error || error->kind == JSON_NULL;
    return ERR_OK;
}

#define STRAGGLER(member) PLACE(report_straggler_t, member, #member)

static const record_place_t straggler_places[] = {
    STRAGGLER(rank),       STRAGGLER(n_ranks),   STRAGGLER(host),
    STRAGGLER(phase),      STRAGGLER(sec),       STRAGGLER(usual_sec),
    STRAGGLER(first_step), STRAGGLER(last_step), {0},
};

err_t read_straggler(const report_input_t *in)
{
    report_train_t *train;
    report_straggler_t *s = NULL;
    TRY(find_or_add_run(in, &train));
    TRY(arena_new(&in->report->arena, sizeof *s, &s));
    *s = (report_straggler_t){0};
    TRY(report_fill(in, straggler_places, s));
    if (train->last_straggler)
        train->last_straggler->next = s;
    else
        train->stragglers = s;
    train->last_straggler = s;
    return ERR_OK;
}

err_t read_resume(const report_input_t *in)
{
    static const record_place_t places[] = {PLACE(report_train_t, resumed, "verdict"), {0}};
    report_train_t *train;
    TRY(find_or_add_run(in, &train));
    return report_fill(in, places, train);
}

/* " rank 1 on a, rank 5 on b": the ranks that hold what the others do not. */
static err_t name_ranks(const report_input_t *in, const char **out)
{
    const json_value_t *ranks = json_get(in->record, "ranks");
    int64_t rank;
    const char *host;
    *out = "";
    for (const json_value_t *at = ranks && ranks->kind == JSON_ARRAY ? ranks->first : NULL; at; at = at->next)
        if (json_get_int(at, "rank", &rank) && json_get_text(at, "host", &host) && strlen(*out) < 200)
            TRY(arena_format(&in->report->arena, out, "%s%s rank %lld on %s", *out, (*out)[0] ? "," : "",
                             (long long)rank, host));
    return ERR_OK;
}

/* The last record of a process has no hash: nothing was compared there. */
err_t read_replicas(const report_input_t *in)
{
    report_train_t *train;
    int64_t step, n_checks = 0;
    const char *which;
    const json_value_t *equal = json_get(in->record, "equal");
    if (!json_get_int(in->record, "step", &step) || !equal || equal->kind != JSON_BOOL)
        RAISE(ERR_DATA, "replicas record without a valid \"step\" or \"equal\"");
    TRY(find_or_add_run(in, &train));
    json_get_int(in->record, "n_checks", &n_checks);
    train->replicas_differ = !equal->truth;
    TRY(name_ranks(in, &which));
    if (train->replicas_differ)
        return arena_format(&in->report->arena, &train->replicas, "differ after step %lld%s%s",
                            (long long)step, which[0] ? ":" : "", which);
    if (json_get(in->record, "hash")) train->replicas_step = step;
    if (n_checks == 0) return intern_text(&in->report->words, "never compared", &train->replicas);
    return arena_format(&in->report->arena, &train->replicas,
                        "equal, comparisons: %lld, the last after step %lld", (long long)n_checks,
                        (long long)train->replicas_step);
}

#define LAYER(member, path) PLACE(report_layer_t, member, path)
#define SLOWEST(member)     PLACE(report_slowest_t, member, #member)
static const record_place_t layer_places[] = {
    LAYER(name, "name"),
    LAYER(op, "operator"),
    LAYER(bound, "bound"),
    LAYER(forward_sec, "forward_sec"),
    LAYER(backward_sec, "backward_sec"),
    LAYER(share, "share"),
    LAYER(share_of_bound, "share_of_bound"),
    {0},
};
static const record_place_t slowest_places[] = {
    SLOWEST(phase), SLOWEST(host), SLOWEST(rank), SLOWEST(sec), SLOWEST(usual_sec), {0},
};

/* The objects of a list of the record: *out[*n] of `bytes` each. */
static err_t read_list(const report_input_t *in, const char *name, const record_place_t *places, size_t bytes,
                       void *out, int *n)
{
    enum { MOST = 4096 };
    const json_value_t *list = json_get(in->record, name);
    char *items = NULL;
    *n = 0;
    if (!list || list->kind != JSON_ARRAY || list->n > MOST) return ERR_OK;
    TRY(arena_new(&in->report->arena, (size_t)(list->n + 1) * bytes, &items));
    for (const json_value_t *at = list->first; at; at = at->next) {
        if (at->kind != JSON_OBJECT) continue;
        TRY(report_fill_members(in->report, at, places, items + (size_t)(*n)++ * bytes));
    }
    memcpy(out, &items, sizeof items);
    return ERR_OK;
}

/* The steps give the split of the time. */
err_t read_profile(const report_input_t *in)
{
    report_train_t *train;
    TRY(find_or_add_run(in, &train));
    TRY(read_list(in, "layers", layer_places, sizeof *train->layers, &train->layers, &train->n_layers));
    return read_list(in, "slowest_ranks", slowest_places, sizeof *train->slowest, &train->slowest,
                     &train->n_slowest);
}

err_t read_other(const report_input_t *in)
{
    report_train_t *train;
    return find_or_add_run(in, &train);
}
