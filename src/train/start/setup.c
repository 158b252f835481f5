/* SPDX-License-Identifier: MIT */
/* Builds a trainer and takes it down: data, steps and model, threads, gradients, executor, loader. Rank 0 decides and broadcasts,
 * every rank builds, all agree. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/device.h"
#include "cluster/session/disk_wait.h"
#include "cluster/watch/watchdog.h"
#include "compute/models/rcnn.h"
#include "train/feed/data.h"
#include "train/guard/target.h"
#include "train/start/choose.h"
#include "train/start/options.h"
#include "train/start/setup.h"

/* For the sizes of images, where a shared folder is slow. */
#define LOOK_SEC 0.3

typedef struct data_choice {
    char where[FS_PATH_MAX];
    char why[128];
} data_choice_t;

static err_t compare_data(const comm_t *comm, const dataset_info_t *info, uint64_t of_rank_0)
{
    if (info->hash == of_rank_0) return ERR_OK;
    RAISE(ERR_DATA, "%s on host %s differs from the data on rank 0's host; copy the same files to every host",
          info->source, comm->topo.host_name);
}

/* Datasets of folders and shards transform their own images; the loader transforms images in memory. */
static err_t check_transform(train_input_t *input)
{
    const dataset_info_t *info = &input->dataset->info;
    if (!input->dataset->read)
        return transform_resolve_in_memory(&input->transform, info->channels, input->where);
    const random_affine_ranges_t *affine = &input->transform.affine;
    if (!info->transform[0] && (affine->flip || random_affine_moves(affine)))
        RAISE(ERR_USAGE,
              "--flip and --augment-... do not apply to %s with --input-size: its pixels are already random",
              input->where);
    return ERR_OK;
}

err_t train_open_input(trainer_t *t)
{
    comm_t *comm = t->comm;
    const train_options_t *options = t->options;
    train_input_t *input = &t->input;
    data_choice_t choice = {"", ""};
    err_t err = comm->rank == 0 ? dataset_choose(options->data, choice.where, choice.why) : ERR_OK;
    TRY(comm_decide(comm, err, &choice, sizeof choice, "choosing data"));
    memcpy(input->where, choice.where, sizeof input->where);
    memcpy(input->why, choice.why, sizeof input->why);
    watchdog_phase("opening data");
    loader_apply_limits(&options->loader);
    input->transform = transform_settings(&options->transform);
    if (options->kind->transform) err = options->kind->transform(&options->detect, &input->transform);
    input->transform.n_outputs = t->task.run.form.n_outputs;
    input->transform.canvases.nearest = t->task.run.form.heads != MODEL_HEADS_TORCHVISION;
    input->transform.list = list_rules(&options->loader.list, options->loader.max_bad);
    input->transform.list.holdout = (holdout_t){options->val_split, options->seed, true};
    if (err == ERR_OK) err = bad_open(options->loader.max_bad, &input->bad);
    TRY(comm_agree(comm, err, "opening data"));
    TRY(train_open_data(comm, input->where, &input->transform, &input->dataset));
    err = comm->rank == 0 ? dataset_check_training(input->dataset) : ERR_OK;
    TRY(comm_agree(comm, err, "opening data"));
    const dataset_info_t *info = &input->dataset->info;
    uint64_t hash = info->hash;
    TRY(comm_broadcast(comm, &hash, sizeof hash, 0, "comparing data"));
    err = compare_data(comm, info, hash);
    if (err == ERR_OK) err = check_transform(input);
    TRY(comm_agree(comm, err, "comparing data"));
    TRY(content_probe(comm, input->dataset, &input->bad));
    if (comm->rank == 0) err = probe_images(input->dataset, &input->bad);
    if (comm->rank == 0 && err == ERR_OK) dataset_look(input->dataset, LOOK_SEC, &input->sizes);
    return comm_agree(comm, err, "decoding an image of each kind");
}

/* Images in memory cannot be corrupt. */
static corrupt_samples_t *corrupt_samples_of(train_input_t *input)
{
    return input->dataset->read ? &input->bad : NULL;
}

/* What is known by now. */
static void tell_task(trainer_t *t)
{
    const train_options_t *o = t->options;
    task_run_t *run = &t->task.run;
    *run = (task_run_t){.task = task_of(&t->input.dataset->info),
                        .comm = t->comm,
                        .backend = t->runtime.backend,
                        .dataset = t->input.dataset,
                        .weigher = &t->input.weigher,
                        .sampler = t->input.sampler,
                        .bad = corrupt_samples_of(&t->input),
                        .model = o->model,
                        .options = &o->detect,
                        .seed = o->seed,
                        .global_batch = t->input.global_batch,
                        .max_local = t->input.max_local,
                        .n_shards = t->input.n_shards,
                        .n_parts = t->input.n_parts,
                        .grain = t->input.grain,
                        .eval_samples = o->eval_samples,
                        .n_loader_threads = t->input.n_threads,
                        .timeout_sec = o->runtime.timeout_sec,
                        .has_weights = o->weights != NULL,
                        .form = run->form,
                        .sync_bn = o->sync_bn,
                        .eval = o->eval,
                        .graph = t->model.graph,
                        .metrics = &t->task.metrics,
                        .exec = t->model.exec,
                        .params = t->model.params.device,
                        .states = t->model.states.device,
                        .grads = t->learning.grads.device,
                        .micro_batch = run->micro_batch,
                        .state = run->state};
}

static err_t check_batch(const train_options_t *o, int64_t batch, int64_t n_train, int n_ranks)
{
    if (batch < n_ranks)
        RAISE(ERR_USAGE, "--batch %lld is smaller than the %d ranks; every rank needs at least one sample",
              (long long)batch, n_ranks);
    int64_t n_shards = o->reproducible ? o->reproducible : n_ranks;
    int64_t n_groups = batch / (o->bn_group ? o->bn_group : 1);
    if (n_shards % n_ranks != 0)
        RAISE(
            ERR_USAGE,
            "--reproducible %lld requires a number of ranks that divides %lld, not %d; change -np, or start "
            "a new run with another number of shards",
            (long long)n_shards, (long long)n_shards, n_ranks);
    if (n_groups < n_shards && o->bn_group)
        RAISE(ERR_USAGE,
              "a batch of %lld has %lld groups of --bn-group %lld, too few for %lld %s; choose a larger "
              "--batch",
              (long long)batch, (long long)n_groups, (long long)o->bn_group, (long long)n_shards,
              o->reproducible ? "shards" : "ranks");
    if (n_groups < n_shards)
        RAISE(
            ERR_USAGE,
            "--reproducible %lld cuts a batch of %lld into more shards than it has samples; choose a larger "
            "--batch",
            (long long)n_shards, (long long)batch);
    if (batch > n_train)
        RAISE(ERR_USAGE, "a batch of %lld exceeds the %lld training samples; choose a smaller --batch",
              (long long)batch, (long long)n_train);
    return ERR_OK;
}

err_t trainer_plan_steps(trainer_t *t)
{
    train_options_t *o = t->options;
    int64_t n_train = t->input.dataset->info.n_samples[SPLIT_TRAIN];
    t->input.n_threads = prefetcher_threads(&t->runtime, t->input.dataset, o->loader.threads);
    t->input.global_batch = o->batch ? o->batch : o->batch_per_rank * t->comm->size;
    TRY(check_batch(o, t->input.global_batch, n_train, t->comm->size));
    sampler_options_t sampler = {.n_samples = n_train,
                                 .global_batch = t->input.global_batch,
                                 .n_shards = (int)o->reproducible,
                                 .grain = o->bn_group,
                                 .seed = (uint64_t)o->seed,
                                 .block = o->shuffle_block,
                                 .window = o->shuffle_window};
    if (!sampler.block) sampler.block = t->input.dataset->info.block[SPLIT_TRAIN];
    t->input.weigher = (dataset_weigher_t){t->input.dataset, SPLIT_TRAIN, sampler.seed};
    if (o->kind->on_canvas) {
        sampler.weigh = dataset_weigh;
        sampler.weigher = &t->input.weigher;
        sampler.block = 0;
    }
    int64_t first;
    TRY(sampler_new(&sampler, &t->input.sampler));
    t->input.n_shards = sampler_shards(t->input.sampler, t->comm->size) / t->comm->size;
    t->input.n_parts = (int)o->accumulate;
    t->input.grain = o->bn_group ? o->bn_group : 1;
    t->input.max_local =
        sampler_share(t->input.sampler, t->input.global_batch, t->comm->rank, t->comm->size, &first);
    tell_task(t);
    int64_t per_epoch = sampler_batches(t->input.sampler);
    t->steps.n = o->steps ? o->steps : o->epochs * per_epoch;
    /* Of a run that has finished, the schedule is not used; any warm-up fits into its length. */
    bool finished = t->saving.resumed_from[0] && t->at.step >= t->steps.n;
    int64_t length = finished ? INT64_C(1) << 40 : t->steps.n;
    const int ranks =
        t->saving.rate_ranks ? narrow_int(t->saving.rate_ranks) : t->comm->size; /* a trial has none */
    const schedule_run_t run = {per_epoch, length, t->input.global_batch, ranks};
    if (schedule_is_scaled(&o->schedule) && !o->schedule.lr_batch && !t->saving.resumed_from[0])
        o->schedule.lr_batch = o->batch_per_rank;
    train_options_set_rate(o, t->input.global_batch);
    if (!t->saving.resumed_from[0]) train_options_set_warmup(o, &run);
    return schedule_make(&o->schedule, &run, &t->learning.schedule, &t->learning.plateau);
}

/* Synchronized batch norm waits for every rank in every part of every batch, so none may be empty. */
static err_t check_norms(const train_options_t *o, const train_input_t *input, const graph_t *graph,
                         int n_ranks)
{
    bool has_norm = false;
    if (!o->sync_bn && !o->bn_group) return ERR_OK;
    for (int i = 0; i < graph->n_nodes; i++) has_norm |= graph->nodes[i].desc.kind == OP_BATCH_NORM;
    if (!has_norm)
        RAISE(ERR_USAGE, "--%s: the model %s has no batch norm", o->sync_bn ? "sync-bn" : "bn-group",
              o->model);
    int64_t n_train = input->dataset->info.n_samples[SPLIT_TRAIN], ragged = n_train % input->global_batch;
    int64_t fewest = ragged ? ragged : input->global_batch, n_parts = n_ranks * o->accumulate;
    if (o->sync_bn && fewest < n_parts)
        RAISE(ERR_USAGE,
              "--sync-bn needs a sample in each of the %lld parts of a batch (ranks times --accumulate), but "
              "the last batch of an epoch has %lld; choose another --batch",
              (long long)n_parts, (long long)fewest);
    return ERR_OK;
}

err_t trainer_check_model(trainer_t *t)
{
    tell_task(t);
    return t->options->kind->check_model ? t->options->kind->check_model(&t->task.run) : ERR_OK;
}

err_t trainer_ask_weights(trainer_t *t)
{
    enum { SIDE = 224 }; /* of the network that is compared with the file; any will do */
    const train_options_t *o = t->options;
    model_form_t form = {.norm = GRAPH_NORM_DEFAULT};
    err_t err = ERR_OK;
    if (!o->weights || t->saving.resumed_from[0] || !model_detects(o->model)) return ERR_OK;
    if (t->comm->rank == 0) {
        disk_work_begin("reading", o->weights);
        err = weights_find_form(o->weights, o->weights_names, o->model, shape_3d(SIDE, SIDE, 3), &form);
        disk_wait_end();
    }
    TRY(comm_decide(t->comm, err, &form, sizeof form, "reading --weights"));
    t->task.run.form = form;
    return ERR_OK;
}

err_t trainer_build_graph(trainer_t *t)
{
    const dataset_info_t *info = &t->input.dataset->info;
    model_options_t options = {.sample = shape_3d(info->height, info->width, info->channels),
                               .n_classes = info->n_classes,
                               .label_smoothing = t->options->label_smoothing,
                               .norm_group = t->options->bn_group,
                               .freeze = t->options->freeze,
                               .stem = model_stem(t->options->stem),
                               .zero_init_residual = t->options->zero_init_residual};
    bool known = model_compute(t->options->precision, &options.compute);
    ASSERT(known); /* the option's table lists model_precisions */
    options.multi_label = task_of(info)->multi_label;
    if (t->options->kind->set_model) TRY(t->options->kind->set_model(&t->task.run, &options));
    TRY(model_build(t->options->model, &options, &t->model.graph));
    if (t->model.graph->n_flat_trained == 0)
        RAISE(ERR_USAGE, "--freeze %s leaves no layer of %s to train", t->options->freeze, t->options->model);
    return trainer_check_model(t);
}

/* Of the graph, and how its parameters are shared out. */
static err_t build_graph(trainer_t *t)
{
    const train_options_t *o = t->options;
    TRY(trainer_plan_steps(t));
    TRY(trainer_build_graph(t));
    const graph_t *graph = t->model.graph;
    TRY(check_norms(o, &t->input, graph, t->comm->size));
    train_learning_t *l = &t->learning;
    const bool shares_out = o->optim.shard && t->comm->size > 1;
    if (shares_out)
        l->slices = comm_slices(t->comm, graph->n_flat_trained, optim_grain(graph->n_flat_trained),
                                bucket_floats(o->runtime.bucket, graph->n_flat_trained));
    l->tail = shares_out ? comm_slices_padded(&l->slices) : graph->n_flat_trained;
    return ERR_OK;
}

/* Collective where parameters are shared out, in memory that an allgather reaches: on a GPU with room behind them. */
static err_t new_weights(trainer_t *t)
{
    train_learning_t *l = &t->learning;
    const backend_t *backend = t->runtime.backend;
    const size_t n_bytes = (size_t)t->model.graph->n_flat_params * sizeof(float),
                 n_padded = (size_t)l->tail * sizeof(float);
    hd_buffer_t *params = &t->model.params;
    if (l->slices.size && !comm_on_device(t->comm)) {
        TRY(comm_buffer_new(t->comm, n_bytes, &l->weights));
        return hd_buffer_wrap(backend, n_bytes, "weights", l->weights.data, NULL, params);
    }
    TRY(hd_buffer_new(backend, n_padded > n_bytes ? n_padded : n_bytes, "weights", params));
    params->n_bytes = n_bytes;
    l->weights.device = params->device;
    return ERR_OK;
}

static err_t build(trainer_t *t)
{
    const train_options_t *o = t->options;
    const backend_t *backend = t->runtime.backend;
    const graph_t *graph = t->model.graph;
    train_learning_t *l = &t->learning;
    const size_t n_trained = (size_t)graph->n_flat_trained * sizeof(float);
    const size_t n_states = (size_t)graph->n_flat_states * sizeof(float);
    TRY(optim_new(&o->optim, graph, backend, l->slices.size ? t->comm : NULL, &l->slices, &l->optim));
    if (o->accumulate > 1)
        TRY(backend_alloc(backend, n_trained, "accumulated gradients", &t->learning.accumulated));
    TRY(hd_buffer_new(backend, n_states, "running statistics", &t->model.states));
    graph_init(graph, (uint64_t)o->seed, t->model.params.host, t->model.states.host);
    train_options_warn_idle(o, &t->runtime, t->input.dataset, t->saving.resumed_from[0]);
    t->task.metrics = task_metrics(&t->input.dataset->info, rcnn_has_masks(graph));
    train_target_t target; /* a wrong one fails here */
    return train_target_make(o->target, o->target_accuracy, &t->task.metrics, &target);
}

err_t trainer_build(trainer_t *t)
{
    static const char building[] = "building the model";
    TRY(trainer_ask_weights(t));
    TRY(train_open_input(t));
    watchdog_phase(building);
    t->at.best_step = -1;
    for (int i = 0; i < TASK_MAX_METRICS; i++) t->at.best[i] = NAN;
    TRY(comm_agree(t->comm, build_graph(t), building));
    TRY(comm_agree(t->comm, new_weights(t), building));
    return comm_agree(t->comm, build(t), building);
}

/* Nothing is printed while threads are measured, so that the header follows soon. */
static const double longest_sec = 3;

err_t trainer_set_threads(trainer_t *t)
{
    const train_options_t *o = t->options;
    runtime_t *runtime = &t->runtime;
    /* oneDNN's sums depend on the number of threads, so a resumed run keeps the checkpoint's. */
    const bool given = o->runtime.threads > 0 && train_options_given(o, "threads");
    const bool saved = t->saving.saved_threads > 0 && !given;
    const int n = narrow_int(saved ? t->saving.saved_threads : o->runtime.threads);
    const bool repeats = strcmp(o->algorithms, "measure") != 0 && strcmp(o->algorithms, TRAIN_BY_RULE) != 0;
    if (n == 0 && !t->saving.keeps_bits && !repeats) {
        thread_request_t request = {.runtime = runtime,
                                    .graph = t->model.graph,
                                    .n = train_first_part(&t->input, t->comm->size),
                                    .limit_sec = fmin(o->measure_sec, longest_sec)};
        TRY(thread_choice_make(&request, &t->model.threads));
    } else {
        snprintf(t->model.threads.from, sizeof t->model.threads.from, "%s",
                 saved    ? "checkpoint"
                 : given  ? "option"
                 : n == 0 ? "share"
                          : "fixed");
        if (saved && n > runtime->n_allowed_cpus)
            log_warn(
                "the checkpoint's %d threads per rank exceed the %d CPUs that a rank may use: expect lower speed; "
                "with --threads %d the results differ in the last digits",
                n, runtime->n_allowed_cpus, runtime->n_cpus);
        err_t err = n > 0 ? runtime_set_threads(runtime, n) : ERR_OK;
        TRY(comm_agree(t->comm, err, "setting the number of threads"));
    }
    t->input.n_threads = prefetcher_threads(&t->runtime, t->input.dataset, t->options->loader.threads);
    /* Checkpoints keep the number of threads if all ranks have the same. */
    int64_t most[2] = {t->runtime.n_threads, -t->runtime.n_threads};
    TRY(comm_allreduce(t->comm, most, 2, DTYPE_I64, COMM_MAX, "comparing the numbers of threads"));
    t->model.n_threads = most[0] == -most[1] ? most[0] : 0;
    return ERR_OK;
}

/* Why the host must act within a step, which then can neither be recorded nor run ahead of the host; NULL: it need not. */
static const char *why_host(const train_options_t *o)
{
    if (o->kind->why_host) return o->kind->why_host;
    if (o->accumulate > 1) return "with --accumulate a step has several parts";
    if (o->reproducible) return "--reproducible sums gradients on the host";
    if (o->sync_bn) return "--sync-bn sums statistics on the host";
    if (o->trace) return "--trace times every layer";
    return NULL;
}

/* sums_there: gradients are summed on the device. */
static step_plan_t plan_step(const train_options_t *o, const runtime_t *runtime, int n_parts, bool sums_there)
{
    const bool device = runtime->backend->memory != NULL;
    step_plan_t plan = {.why_host = why_host(o)};
    plan.sum = o->reproducible            ? SUM_SHARDS
               : sums_there               ? SUM_ON_DEVICE
               : runtime->comm->size == 1 ? SUM_NOTHING
                                          : SUM_IN_HOST_MEMORY;
    plan.way = !device                                                    ? STEP_ON_HOST
               : plan.sum == SUM_SHARDS || plan.sum == SUM_IN_HOST_MEMORY ? STEP_BY_PHASES
                                                                          : STEP_THROUGH;
    plan.in_parts = n_parts > 1 || plan.sum == SUM_SHARDS;
    plan.overlaps = sums_there && !plan.in_parts;
    plan.ahead = plan.way == STEP_THROUGH && !plan.why_host && !runtime->slowdown.phase;
    return plan;
}

/* Gradients live in the communicator's memory. The backend writes there directly or through its own copy. */
err_t trainer_prepare(trainer_t *t)
{
    train_learning_t *l = &t->learning;
    const backend_t *backend = t->runtime.backend;
    l->n_tail = TAIL_COUNT + t->guests.n_floats;
    const int64_t n = l->tail + l->n_tail;
    const size_t n_bytes = (size_t)n * sizeof(float), n_tail = (size_t)l->n_tail * sizeof(float),
                 offset = n_bytes - n_tail;
    TRY(comm_buffer_new(t->comm, n_bytes, &l->buffer));
    TRY(comm_buffer_choose(t->comm, &l->buffer, n));
    comm_buffer_set_exact(&l->buffer, l->n_tail);
    if (l->slices.size) TRY(comm_buffer_share(t->comm, &l->buffer, &l->weights, &l->slices));
    l->bucket = (bucket_t){.comm = t->comm,
                           .buffer = &l->buffer,
                           .n_min = l->slices.size ? l->slices.n_bucket
                                                   : bucket_floats(t->options->runtime.bucket, l->tail),
                           .whole = l->slices.size > 0};
    err_t err = hd_buffer_wrap(backend, n_bytes, "gradients", l->buffer.data, l->buffer.device, &l->grads);
    for (int i = 0; err == ERR_OK && i < BACKEND_SLOTS; i++)
        err = hd_buffer_wrap(backend, n_tail, "a step's totals",
                             backend->memory ? NULL : (char *)l->grads.host + offset,
                             backend->memory ? (char *)l->grads.device + offset : NULL, &l->tails[i]);
    t->steps.plan = plan_step(t->options, &t->runtime, t->input.n_parts, l->buffer.device != NULL);
    if (err == ERR_OK)
        err = recorded_step_open(backend, t->options->runtime.cuda_graph, t->steps.plan.why_host,
                                 &t->model.recorded);
    return comm_agree(t->comm, err, "allocating gradient buffers");
}

/* exec_options_t.sum_shared, for --sync-bn. */
static err_t sum_over_ranks(void *trainer, double *values, int64_t n)
{
    trainer_t *t = trainer;
    const double start = clock_sec();
    err_t err = comm_allreduce(t->comm, values, n, DTYPE_F64, COMM_SUM, "batch norm statistics");
    t->steps.shared_sec += clock_sec() - start;
    return err;
}

err_t trainer_plan(trainer_t *t, const double *measure_sec)
{
    const train_options_t *o = t->options;
    algorithm_request_t request = {.option = o->algorithms,
                                   .option_given = train_options_given(o, "algorithms"),
                                   .saved = t->model.saved_algorithms,
                                   .runtime = &t->runtime,
                                   .graph = t->model.graph,
                                   .rule = o->kind->rule,
                                   .timeout_sec = o->runtime.timeout_sec,
                                   .measure_sec = measure_sec,
                                   .tells = true};
    shape_t *shapes = NULL;
    err_t err = o->kind->list_sizes(&t->task.run, request.sizes, &request.n_sizes, &shapes);
    if (err == ERR_OK) err = algorithm_choice_make(&request, &t->model.algorithms);
    mem_free(&shapes);
    TRY(err);
    watchdog_phase("planning the model");
    const exec_options_t options = {.graph = t->model.graph,
                                    .backend = t->runtime.backend,
                                    .params = t->model.params.device,
                                    .grads = t->learning.grads.device,
                                    .states = t->model.states.device,
                                    .seed = (uint64_t)o->seed,
                                    .algorithms = &t->model.algorithms.table,
                                    .sum_shared = o->sync_bn ? sum_over_ranks : NULL,
                                    .share_context = t};
    err = exec_new(&options, &t->model.exec);
    tell_task(t);
    if (err == ERR_OK) err = o->kind->plan(&t->task.run);
    return comm_agree(t->comm, err, "planning the model");
}

loader_options_t trainer_loader_options(trainer_t *t)
{
    bool epoch_ended = train_epoch_ended(&t->at, &t->input); /* its validation is due */
    return (loader_options_t){
        .dataset = t->input.dataset,
        .split = SPLIT_TRAIN,
        .sampler = t->input.sampler,
        .rank = t->comm->rank,
        .size = t->comm->size,
        .epoch = t->at.epoch + epoch_ended,
        .batch = epoch_ended ? 0 : t->at.batch,
        .n_batches = train_steps_left(&t->steps, &t->at),
        .max_local = t->input.max_local,
        .n_threads = t->input.n_threads,
        .timeout_sec = t->options->runtime.timeout_sec,
        .norm = t->input.dataset->info.norm,
        .seed = (uint64_t)t->options->seed,
        .random = true,
        .transform = t->input.dataset->read ? NULL : &t->input.transform,
        .bad = corrupt_samples_of(&t->input),
    };
}

err_t trainer_begin(trainer_t *t)
{
    const graph_t *g = t->model.graph;
    train_learning_t *l = &t->learning;
    err_t err = ERR_OK;
    if (t->options->reproducible) {
        const virtual_shards_options_t shards = {
            .n_all = (int)t->options->reproducible,
            .slices =
                l->slices.size ? l->slices : comm_slices(t->comm, g->n_flat_trained, 1, g->n_flat_trained),
            .shared_out = l->slices.size > 0,
            .tail = l->tail,
            .n_tail = l->n_tail,
            .n_hashed = TASK_N_SUMS,
            .n_states = g->n_flat_states};
        err = mem_new(sizeof *l->shards, "shards", &l->shards);
        if (err == ERR_OK) err = virtual_shards_open(t->comm, t->runtime.backend, &shards, l->shards);
        if (err == ERR_OK) err = virtual_shards_set_states(l->shards, t->model.states.host);
        TRY(comm_agree(t->comm, err, "allocating shards"));
    }
    /* Initial weights are equal by construction, unless a host's libm differs in the last bit. */
    TRY(comm_broadcast(t->comm, t->model.params.host, g->n_flat_params * (int64_t)sizeof(float), 0,
                       "broadcasting weights"));
    err = hd_buffer_push_all(&t->model.params);
    if (err == ERR_OK) err = hd_buffer_push_all(&t->model.states);
    if (err == ERR_OK) err = optim_push(l->optim);
    if (err == ERR_OK) err = backend_sync(t->runtime.backend);
    const loader_options_t loader = trainer_loader_options(t);
    if (err == ERR_OK) err = prefetcher_open(&loader, t->runtime.backend, &t->input.prefetcher);
    return comm_agree(t->comm, err, "starting the loader");
}

void trainer_teardown(trainer_t *t)
{
    /* After an error, a step may be using what is freed here. */
    if (t->steps.ahead) backend_sync(t->runtime.backend);
    ckpt_async_close(&t->saving.writer);
    prefetcher_close(&t->input.prefetcher);
    recorded_step_close(&t->model.recorded);
    trace_close();
    if (t->options->kind) t->options->kind->close(&t->task.run);
    exec_free(&t->model.exec);
    algorithm_choice_free(&t->model.algorithms);
    mem_free(&t->model.saved_algorithms);
    sampler_free(&t->input.sampler);
    graph_free(&t->model.graph);
    dataset_close(&t->input.dataset);
    bad_close(&t->input.bad);
    hd_buffer_free(&t->model.params);
    optim_free(&t->learning.optim);
    backend_release(t->runtime.backend, &t->learning.accumulated);
    for (int i = 0; i < BACKEND_SLOTS; i++) hd_buffer_free(&t->learning.tails[i]);
    hd_buffer_free(&t->learning.grads);
    if (t->learning.shards) virtual_shards_close(t->learning.shards);
    mem_free(&t->learning.shards);
    hd_buffer_free(&t->model.states);
    guests_close(&t->guests);
    mem_free(&t->saving.options);
    metrics_close(&t->output.records); /* does nothing unless an error ended the run */
    tensorboard_close(&t->output.tensorboard);
    owner_close(&t->output.owner);
    if (t->comm) comm_buffer_free(t->comm, &t->learning.buffer);
    if (t->comm) comm_buffer_free(t->comm, &t->learning.weights);
    mem_free(&t->saving.saved_options);
}
