/* SPDX-License-Identifier: MIT */
/* Resuming a run: finds the checkpoint, inherits its options, and loads it once the model is built; a new run imports
 * --weights. What checkpoints hold is state.c's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"
#include "data/dataset/content.h"
#include "store/checkpoint/store.h"
#include "train/run/checkpoint_content.h"
#include "train/start/options.h"
#include "train/start/setup.h"

/* The best of each metric so far; those that no evaluation has had yet are missing. */
static err_t read_best(const checkpoint_t *checkpoint, const task_metrics_t *metrics, train_position_t *at)
{
    for (int i = 0; i < metrics->n; i++) {
        best_name_t name = checkpoint_best_name(metrics, i);
        if (!metrics->at[i]->always_null && checkpoint_find_attr(checkpoint, name.text))
            TRY(checkpoint_get_real(checkpoint, name.text, &at->best[i]));
    }
    at->best_step = -1;
    if (checkpoint_find_attr(checkpoint, "best_step"))
        TRY(checkpoint_get_int(checkpoint, "best_step", &at->best_step));
    if (checkpoint_find_attr(checkpoint, "evaluations_since_best"))
        TRY(checkpoint_get_int(checkpoint, "evaluations_since_best", &at->n_no_better));
    return ERR_OK;
}

/* Rank 0: resolves --resume to a file; "" for a new run. */
static err_t choose_checkpoint(const char *resume, const char *folder, char *path)
{
    path[0] = '\0';
    if (strcmp(resume, "none") == 0) return ERR_OK;
    if (strcmp(resume, "auto") != 0) return model_file_locate(resume, path, NULL);
    int n_found;
    err_t err = model_file_locate(folder, path, &n_found);
    if (err == ERR_OK || n_found != 0) return err;
    log_info("no checkpoint in %s yet: starting from the beginning", folder);
    path[0] = '\0';
    return ERR_OK;
}

/* What a resumed run needs before anything is built. */
typedef struct saved_run {
    char *options, *algorithms;
    int64_t n_ranks, rate_ranks;
    int64_t n_threads; /* 0 if unknown */
    int64_t step;      /* steps done, which decide whether the run has finished */
    model_form_t form; /* of a detector */
} saved_run_t;

static err_t read_saved_run(const char *path, saved_run_t *out)
{
    checkpoint_t *checkpoint;
    const char *options, *algorithms;
    err_t err;
    TRY(checkpoint_open(path, &checkpoint));
    TRY_OUT(err, checkpoint_get_text(checkpoint, "options", &options));
    TRY_OUT(err, checkpoint_get_text(checkpoint, "algorithms", &algorithms));
    TRY_OUT(err, checkpoint_get_int(checkpoint, "n_ranks", &out->n_ranks));
    TRY_OUT(err, checkpoint_get_int(checkpoint, "rate_ranks", &out->rate_ranks));
    TRY_OUT(err, checkpoint_get_int(checkpoint, "step", &out->step));
    if (checkpoint_find_attr(checkpoint, "threads"))
        TRY_OUT(err, checkpoint_get_int(checkpoint, "threads", &out->n_threads));
    TRY_OUT(err, model_file_form(checkpoint, &out->form));
    TRY_OUT(err, mem_strdup(options, &out->options));
    err = mem_strdup(algorithms, &out->algorithms);
out:
    checkpoint_close(&checkpoint);
    return err;
}

err_t trainer_find_checkpoint(trainer_t *t)
{
    saved_run_t saved = {.n_ranks = 0};
    t->saving.rate_ranks = t->comm->size;
    err_t err = ERR_OK;
    if (t->comm->rank == 0) {
        disk_work_begin("looking for a checkpoint in",
                        strcmp(t->options->resume, "auto") == 0 ? t->output.folder : t->options->resume);
        err = choose_checkpoint(t->options->resume, t->output.folder, t->saving.resumed_from);
        if (err == ERR_OK && t->saving.resumed_from[0]) err = read_saved_run(t->saving.resumed_from, &saved);
        t->model.saved_algorithms = saved.algorithms;
        disk_wait_end();
    }
    TRY_OUT(err, comm_decide(t->comm, err, t->saving.resumed_from, sizeof t->saving.resumed_from,
                             "finding a checkpoint"));
    if (!t->saving.resumed_from[0]) {
        err = train_options_check_model(t->options);
        if (err == ERR_OK) err = train_options_check_scale(t->options);
        err = comm_agree(t->comm, err, "checking options");
        goto out;
    }
    int64_t numbers[] = {saved.options ? (int64_t)strlen(saved.options) + 1 : 0, saved.n_ranks,
                         saved.n_threads, saved.step, saved.rate_ranks};
    TRY_OUT(err, comm_broadcast(t->comm, numbers, sizeof numbers, 0, "broadcasting options"));
    TRY_OUT(err, comm_broadcast(t->comm, &saved.form, sizeof saved.form, 0, "broadcasting options"));
    if (!saved.options) err = mem_new((size_t)numbers[0], "options", &saved.options);
    TRY_OUT(err, comm_agree(t->comm, err, "broadcasting options"));
    TRY_OUT(err, comm_broadcast(t->comm, saved.options, numbers[0], 0, "broadcasting options"));
    err = train_options_inherit(t->options, saved.options, &t->saving.saved_options);
    err = comm_agree(t->comm, err, "inheriting options");
    /* The default of --norm has changed. */
    if (err == ERR_OK && strcmp(t->options->detect.norm, model_norms[GRAPH_NORM_DEFAULT]) == 0)
        t->options->detect.norm = model_norms[saved.form.norm];
    t->task.run.form = saved.form;
    t->at.step = numbers[3];
    t->saving.rate_ranks = numbers[4];
    t->saving.keeps_bits = numbers[1] == t->comm->size || t->options->reproducible;
    t->saving.saved_threads = t->saving.keeps_bits && numbers[2] <= INT32_MAX ? numbers[2] : 0;
out:
    mem_free(&saved.options);
    return err;
}

/* A position is valid only for the same data in the same batches. */
static err_t check_same_run(const train_input_t *input, const char *path, const checkpoint_t *checkpoint)
{
    const char *saved;
    int64_t global_batch;
    TRY(checkpoint_get_text(checkpoint, "data_xxh3", &saved));
    if (strcmp(dataset_hash(&input->dataset->info).text, saved) != 0)
        RAISE(ERR_DATA, "%s was not trained on the data of %s; point --data to the same files", path,
              input->dataset->info.source);
    TRY(checkpoint_get_int(checkpoint, "global_batch", &global_batch));
    if (global_batch != input->global_batch)
        RAISE(ERR_USAGE,
              "%s was trained with a global batch of %lld, this run has %lld; use --batch %lld "
              "(--batch-per-rank depends on the number of ranks)",
              path, (long long)global_batch, (long long)input->global_batch, (long long)global_batch);
    return ERR_OK;
}

static err_t read_position(trainer_t *t, const checkpoint_t *checkpoint)
{
    train_position_t *at = &t->at;
    schedule_plateau_t *plateau = &t->learning.plateau;
    int64_t n_correct;
    TRY(checkpoint_get_real(checkpoint, "plateau_best", &plateau->best));
    TRY(checkpoint_get_int(checkpoint, "plateau_n_bad", &plateau->n_bad_epochs));
    TRY(checkpoint_get_real(checkpoint, "plateau_scale", &plateau->scale));
    TRY(read_best(checkpoint, &t->task.metrics, at));
    TRY(checkpoint_get_int(checkpoint, "step", &at->step));
    TRY(checkpoint_get_int(checkpoint, "epoch", &at->epoch));
    TRY(checkpoint_get_int(checkpoint, "batch", &at->batch));
    TRY(checkpoint_get_real(checkpoint, "epoch_loss_sum", &at->sums[TASK_SUM_LOSS]));
    TRY(checkpoint_get_int(checkpoint, "epoch_n_correct", &n_correct));
    at->sums[TASK_SUM_CORRECT] = (double)n_correct;
    const char *const *sum_names = t->options->kind->sum_names;
    for (int i = 0; sum_names && i < TASK_N_SUMS; i++)
        if (sum_names[i]) TRY(checkpoint_get_real(checkpoint, sum_names[i], &at->sums[i]));
    TRY(checkpoint_get_int(checkpoint, "epoch_n_samples", &at->n_samples));
    at->evaluation_due = checkpoint_find_attr(checkpoint, "evaluation_due") != NULL;
    if (at->step < 0 || at->epoch < 0 || at->batch < 0 ||
        at->batch >= sampler_batches(t->input.sampler) + at->evaluation_due)
        RAISE(
            ERR_DATA, "the position of checkpoint %s (step %lld, epoch %lld, batch %lld) is outside this run",
            t->saving.resumed_from, (long long)at->step, (long long)at->epoch + 1, (long long)at->batch + 1);
    return ERR_OK;
}

/* A new run's --weights. trainer_begin broadcasts the weights; running statistics are broadcast here. */
static err_t import_weights(comm_t *comm, const train_options_t *o, train_model_t *model)
{
    const graph_t *g = model->graph;
    if (!o->weights) return ERR_OK;
    err_t err = ERR_OK;
    if (comm->rank == 0) {
        disk_work_begin("reading", o->weights);
        err = weights_import(o->weights, o->weights_names, g, model->params.host, model->states.host,
                             &model->imported);
        disk_wait_end();
    }
    TRY(comm_agree(comm, err, "reading --weights"));
    return comm_broadcast(comm, model->states.host, g->n_flat_states * (int64_t)sizeof(float), 0,
                          "broadcasting running statistics");
}

typedef struct search {
    int64_t step;
    json_reader_t reader;
    resume_record_t *out;
    bool has_loss, has_cost;
} search_t;

static bool begins(const char *line, size_t n_bytes, const char *kind)
{
    char text[48];
    const size_t n = (size_t)snprintf(text, sizeof text, "{\"record\":\"%s\",", kind);
    return n_bytes > n && memcmp(line, text, n) == 0;
}

static void take_text(const json_value_t *object, const char *key, char *out, size_t n_bytes)
{
    const char *text = "";
    json_get_text(object, key, &text);
    snprintf(out, n_bytes, "%s", text);
}

static void take_run(const json_value_t *record, resume_record_t *out)
{
    const json_value_t *options = json_get(record, "options"), *topology = json_get(record, "topology"),
                       *software = json_get(record, "software");
    out->accumulate = 1;
    json_get_int(options, "accumulate", &out->accumulate);
    json_get_int(record, "micro_batch", &out->micro_batch);
    json_get_int(topology, "ranks", &out->ranks);
    json_get_int(topology, "threads", &out->threads);
    take_text(software, "git", out->git, sizeof out->git);
    take_text(software, "backend", out->backend, sizeof out->backend);
}

/* Visits records from the last to the first: the step's, then that of the process that computed it. */
static bool visit(void *context, const char *line, size_t n_bytes)
{
    search_t *s = context;
    const json_value_t *record;
    const bool is_run = begins(line, n_bytes, "run"), is_step = begins(line, n_bytes, "step"),
               is_checkpoint = begins(line, n_bytes, "checkpoint");
    int64_t step = -1;
    if (!(is_run && s->has_loss) && !(is_step && !s->has_loss) && !(is_checkpoint && !s->has_cost))
        return true;
    json_reader_reset(&s->reader);
    if (json_read(&s->reader, line, n_bytes, &record) != ERR_OK) return true; /* cut off */
    if (is_checkpoint) s->has_cost = json_get_real(record, "cost_sec", &s->out->cost_sec);
    if (is_step && json_get_int(record, "step", &step) && step == s->step)
        s->has_loss = json_get_real(record, "loss", &s->out->loss);
    if (is_run) take_run(record, s->out);
    return !is_run;
}

/* While the metrics are not open: the record of a step beside the checkpoint, and what the last checkpoint cost. A file that
 * cannot be read is a warning. */
static void read_record(const char *checkpoint, int64_t step, resume_record_t *out)
{
    char path[FS_PATH_MAX], *slash;
    search_t search = {.step = step, .out = out};
    *out = (resume_record_t){.loss = NAN};
    snprintf(path, sizeof path, "%s", checkpoint);
    slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
    if (snprintf(path + n, sizeof path - n, "metrics.jsonl") >= (int)(sizeof path - n)) return;
    disk_work_begin("reading", path);
    if (metrics_tail(path, visit, &search) != ERR_OK)
        log_warn("the resumed run is not compared with its records: %s", err_message());
    disk_wait_end();
    json_reader_free(&search.reader);
}

static err_t read_hashes(content_t *content, const char *checkpoint)
{
    char folder[FS_PATH_MAX], path[FS_PATH_MAX];
    const char *slash = strrchr(checkpoint, '/');
    const int n = slash ? (int)(slash - checkpoint) : 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? n : 1, slash ? checkpoint : ".");
    TRY(fs_join(path, slash && n == 0 ? "/" : folder, CONTENT_RUN_NAME));
    return content_file_read(content, path, CONTENT_RUN);
}

/* Collective. Reads the hashes of image files beside the checkpoint. */
static err_t expect_files(comm_t *comm, const train_input_t *input, const char *checkpoint)
{
    content_t *content = input->dataset->content;
    bool any;
    if (!content) return ERR_OK;
    err_t err = comm->rank == 0 ? read_hashes(content, checkpoint) : ERR_OK;
    TRY(comm_agree(comm, err, "reading the run's hashes of files"));
    return content_merge(comm, content, &any);
}

/* Collective. Rank 0 reads the optimizer's state tensor by tensor, and each rank takes what it holds.
 *
 *   checkpoint  rank 0's */
static err_t restore_state(trainer_t *t, checkpoint_t *checkpoint)
{
    static const char what[] = "broadcasting optimizer state";
    const graph_t *g = t->model.graph;
    const optim_t *optim = t->learning.optim;
    int64_t n_longest = 0;
    float *values = NULL;
    for (int i = 0; i < g->n_params; i++)
        if (!g->params[i].frozen && shape_count(g->params[i].shape) > n_longest)
            n_longest = shape_count(g->params[i].shape);
    err_t err = mem_new_array(n_longest, sizeof *values, "the optimizer's state", &values);
    TRY_OUT(err, comm_agree(t->comm, err, what));
    for (int64_t i = 0; i < (int64_t)optim->n_buffers * g->n_params; i++) {
        const graph_param_t *param = &g->params[i % g->n_params];
        const int buffer = (int)(i / g->n_params);
        const int64_t n = shape_count(param->shape);
        if (param->frozen) continue;
        if (checkpoint) err = model_file_read_state(checkpoint, optim, buffer, param, values);
        TRY_OUT(err, comm_agree(t->comm, err, "loading the checkpoint"));
        TRY_OUT(err, comm_broadcast(t->comm, values, n * (int64_t)sizeof *values, 0, what));
        for (int64_t p = 0; p < optim->n_pieces; p++) {
            const optim_piece_t *piece = &optim->pieces[p];
            const int64_t first = param->offset > piece->first ? param->offset : piece->first;
            const int64_t end =
                param->offset + n < piece->first + piece->n ? param->offset + n : piece->first + piece->n;
            if (end > first)
                memcpy(optim_state_at(optim, buffer, first), values + first - param->offset,
                       (size_t)(end - first) * sizeof *values);
        }
    }
out:
    mem_free(&values);
    return err;
}

err_t trainer_restore(trainer_t *t)
{
    if (!t->saving.resumed_from[0]) return import_weights(t->comm, t->options, &t->model);
    const graph_t *g = t->model.graph;
    err_t err = ERR_OK;
    checkpoint_t *checkpoint = NULL;
    if (t->comm->rank == 0) {
        const char *path = t->saving.resumed_from;
        disk_work_begin("reading", path);
        err = checkpoint_open(path, &checkpoint);
        if (err == ERR_OK) err = check_same_run(&t->input, path, checkpoint);
        if (err == ERR_OK) err = read_position(t, checkpoint);
        if (err == ERR_OK)
            err = model_file_read(checkpoint, g, t->model.params.host, t->model.states.host,
                                  t->learning.optim, NULL);
        disk_wait_end();
        if (err == ERR_OK) read_record(t->saving.resumed_from, t->at.step, &t->saving.record);
    }
    err = comm_agree(t->comm, err, "loading the checkpoint");
    if (err == ERR_OK && t->learning.slices.size) err = restore_state(t, checkpoint);
    checkpoint_close(&checkpoint);
    TRY(err);
    TRY(expect_files(t->comm, &t->input, t->saving.resumed_from));
    TRY(comm_broadcast(t->comm, &t->at, sizeof t->at, 0, "broadcasting the position"));
    TRY(comm_broadcast(t->comm, &t->learning.plateau, sizeof t->learning.plateau, 0,
                       "broadcasting the schedule's state"));
    for (int i = 0; i < t->learning.optim->n_buffers && !t->learning.slices.size; i++)
        TRY(comm_broadcast(t->comm, t->learning.optim->buffers[i].flat.host,
                           g->n_flat_trained * (int64_t)sizeof(float), 0, "broadcasting optimizer state"));
    return comm_broadcast(t->comm, t->model.states.host, g->n_flat_states * (int64_t)sizeof(float), 0,
                          "broadcasting running statistics");
}
