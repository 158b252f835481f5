/* SPDX-License-Identifier: MIT */
/* Sets up and tears down a run: model, executor, gradients, prefetcher. Rank 0 decides and broadcasts, every
 * rank builds, all agree. The data is left to open_data.c, the
 * steps to loop.c. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/watchdog.h"
#include "compute/models/rcnn.h"
#include "train/guard/guard.h"
#include "train/guard/target.h"
#include "train/run/options.h"
#include "train/run/setup.h"
#include "train/run/trainer.h"

/* Images in memory cannot be corrupt. */
static corrupt_samples_t *corrupt_samples_of(train_input_t *input)
{
    return input->dataset->ops->read ? &input->bad : NULL;
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

err_t trainer_plan_steps(trainer_t *t)
{
    train_options_t *o = t->options;
    int64_t n_train = t->input.dataset->info.n_samples[SPLIT_TRAIN];
    t->input.n_threads = prefetcher_threads(&t->runtime, t->input.dataset, o->loader.threads);
    t->input.global_batch = o->batch ? o->batch : o->batch_per_rank * t->comm->size;
    if (t->input.global_batch < t->comm->size)
        RAISE(ERR_USAGE, "--batch %lld is smaller than the %d ranks; every rank needs at least one sample",
              (long long)t->input.global_batch, t->comm->size);
    int64_t n_shards = o->reproducible ? o->reproducible : t->comm->size;
    int64_t n_groups = t->input.global_batch / (o->bn_group ? o->bn_group : 1);
    if (n_shards % t->comm->size != 0)
        RAISE(
            ERR_USAGE,
            "--reproducible %lld requires a number of ranks that divides %lld, not %d; change -np, or start "
            "a new run with another number of shards",
            (long long)n_shards, (long long)n_shards, t->comm->size);
    if (n_groups < n_shards && o->bn_group)
        RAISE(ERR_USAGE,
              "a batch of %lld has %lld groups of --bn-group %lld, too few for %lld %s; choose a larger "
              "--batch",
              (long long)t->input.global_batch, (long long)n_groups, (long long)o->bn_group,
              (long long)n_shards, o->reproducible ? "shards" : "ranks");
    if (n_groups < n_shards)
        RAISE(
            ERR_USAGE,
            "--reproducible %lld cuts a batch of %lld into more shards than it has samples; choose a larger "
            "--batch",
            (long long)n_shards, (long long)t->input.global_batch);
    if (t->input.global_batch > n_train)
        RAISE(ERR_USAGE, "a batch of %lld exceeds the %lld training samples; choose a smaller --batch",
              (long long)t->input.global_batch, (long long)n_train);
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
    if (!t->saving.resumed_from[0]) train_options_set_warmup(o, t->steps.n);
    return schedule_make(&o->schedule, &run, &t->learning.schedule, &t->learning.plateau);
}

/* Synchronized batch norm waits for every rank in every part of every batch, so none may be empty. */
static err_t check_norms(const trainer_t *t)
{
    const train_options_t *o = t->options;
    bool has_norm = false;
    if (!o->sync_bn && !o->bn_group) return ERR_OK;
    for (int i = 0; i < t->model.graph->n_nodes; i++)
        has_norm |= t->model.graph->nodes[i].desc.kind == OP_BATCH_NORM;
    if (!has_norm)
        RAISE(ERR_USAGE, "--%s: the model %s has no batch norm", o->sync_bn ? "sync-bn" : "bn-group",
              o->model);
    int64_t n_train = t->input.dataset->info.n_samples[SPLIT_TRAIN], ragged = n_train % t->input.global_batch;
    int64_t fewest = ragged ? ragged : t->input.global_batch, n_parts = t->comm->size * o->accumulate;
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

static err_t build_model(trainer_t *t)
{
    TRY(trainer_build_graph(t));
    TRY(check_norms(t));
    const backend_t *backend = t->runtime.backend;
    size_t n_params = (size_t)t->model.graph->n_flat_params * sizeof(float);
    size_t n_trained = (size_t)t->model.graph->n_flat_trained * sizeof(float);
    size_t n_states = (size_t)t->model.graph->n_flat_states * sizeof(float);
    TRY(hd_buffer_new(backend, n_params, "weights", &t->model.params));
    TRY(optim_new(&t->options->optim, t->model.graph, backend, &t->learning.optim));
    if (t->options->accumulate > 1)
        TRY(backend_alloc(backend, n_trained, "accumulated gradients", &t->learning.accumulated));
    TRY(hd_buffer_new(backend, n_states, "running statistics", &t->model.states));
    graph_init(t->model.graph, (uint64_t)t->options->seed, t->model.params.host, t->model.states.host);
    return ERR_OK;
}

static err_t wrap_tails(const backend_t *backend, train_learning_t *learning)
{
    const size_t n_bytes = (size_t)learning->n_tail * sizeof(float),
                 offset = learning->grads.n_bytes - n_bytes;
    void *host = backend->memory ? NULL : (char *)learning->grads.host + offset;
    void *device = backend->memory ? (char *)learning->grads.device + offset : NULL;
    for (int i = 0; i < BACKEND_SLOTS; i++)
        TRY(hd_buffer_wrap(backend, n_bytes, "a step's totals", host, device, &learning->tails[i]));
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

static step_plan_t plan_steps(const trainer_t *t)
{
    const train_options_t *o = t->options;
    const bool device = t->runtime.backend->memory != NULL, sums_there = t->learning.buffer.device != NULL;
    step_plan_t plan = {.why_host = why_host(o)};
    plan.sum = o->reproducible      ? SUM_SHARDS
               : sums_there         ? SUM_ON_DEVICE
               : t->comm->size == 1 ? SUM_NOTHING
                                    : SUM_IN_HOST_MEMORY;
    plan.way = !device                                                    ? STEP_ON_HOST
               : plan.sum == SUM_SHARDS || plan.sum == SUM_IN_HOST_MEMORY ? STEP_BY_PHASES
                                                                          : STEP_THROUGH;
    plan.in_parts = t->input.n_parts > 1 || plan.sum == SUM_SHARDS;
    plan.overlaps = sums_there && !plan.in_parts;
    plan.ahead = plan.way == STEP_THROUGH && !plan.why_host && !t->runtime.slowdown.phase;
    return plan;
}

/* Gradients live in the communicator's memory. The backend writes there directly or through its own copy. */
err_t trainer_prepare(trainer_t *t)
{
    t->learning.n_tail = TAIL_COUNT + t->guests.n_floats;
    int64_t n = t->model.graph->n_flat_trained + t->learning.n_tail;
    size_t n_bytes = (size_t)n * sizeof(float);
    TRY(comm_buffer_new(t->comm, n_bytes, &t->learning.buffer));
    TRY(comm_buffer_choose(t->comm, &t->learning.buffer, n));
    comm_buffer_set_exact(&t->learning.buffer, t->learning.n_tail);
    t->learning.bucket =
        (bucket_t){.comm = t->comm,
                   .buffer = &t->learning.buffer,
                   .n_min = bucket_floats(t->options->runtime.bucket, t->model.graph->n_flat_trained)};
    err_t err = hd_buffer_wrap(t->runtime.backend, n_bytes, "gradients", t->learning.buffer.data,
                               t->learning.buffer.device, &t->learning.grads);
    if (err == ERR_OK) err = wrap_tails(t->runtime.backend, &t->learning);
    t->steps.plan = plan_steps(t);
    if (err == ERR_OK)
        err = recorded_step_open(t->runtime.backend, t->options->runtime.cuda_graph, t->steps.plan.why_host,
                                 &t->model.recorded);
    return comm_agree(t->comm, err, "allocating gradient buffers");
}

static err_t choose_algorithms(trainer_t *t, const double *measure_sec)
{
    algorithm_request_t request = {.option = t->options->algorithms,
                                   .option_given = train_options_given(t->options, "algorithms"),
                                   .saved = t->model.saved_algorithms,
                                   .runtime = &t->runtime,
                                   .graph = t->model.graph,
                                   .rule = t->options->kind->rule,
                                   .timeout_sec = t->options->runtime.timeout_sec,
                                   .measure_sec = measure_sec,
                                   .tells = true};
    shape_t *shapes = NULL;
    err_t err = t->options->kind->list_sizes(&t->task.run, request.sizes, &request.n_sizes, &shapes);
    if (err == ERR_OK) err = algorithm_choice_make(&request, &t->model.algorithms);
    mem_free(&shapes);
    return err;
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

/* Plans every batch size that can occur: whole and ragged, training and evaluation. */
static err_t build_executor(trainer_t *t)
{
    exec_options_t options = {.graph = t->model.graph,
                              .backend = t->runtime.backend,
                              .params = t->model.params.device,
                              .grads = t->learning.grads.device,
                              .states = t->model.states.device,
                              .seed = (uint64_t)t->options->seed,
                              .algorithms = &t->model.algorithms.table,
                              .sum_shared = t->options->sync_bn ? sum_over_ranks : NULL,
                              .share_context = t};
    TRY(exec_new(&options, &t->model.exec));
    tell_task(t);
    return t->options->kind->plan(&t->task.run);
}

/* A resumed run may be shorter than what is done. */
static int64_t steps_left(const trainer_t *t)
{
    return t->steps.n > t->at.step ? t->steps.n - t->at.step : 0;
}

loader_options_t trainer_loader_options(trainer_t *t)
{
    bool epoch_ended = t->at.batch == sampler_batches(t->input.sampler); /* its validation is due */
    return (loader_options_t){
        .dataset = t->input.dataset,
        .split = SPLIT_TRAIN,
        .sampler = t->input.sampler,
        .rank = t->comm->rank,
        .size = t->comm->size,
        .epoch = t->at.epoch + epoch_ended,
        .batch = epoch_ended ? 0 : t->at.batch,
        .n_batches = steps_left(t),
        .max_local = t->input.max_local,
        .n_threads = t->input.n_threads,
        .timeout_sec = t->options->runtime.timeout_sec,
        .norm = t->input.dataset->info.norm,
        .seed = (uint64_t)t->options->seed,
        .random = true,
        .transform = t->input.dataset->ops->read ? NULL : &t->input.transform,
        .bad = corrupt_samples_of(&t->input),
    };
}

static err_t open_prefetcher(trainer_t *t)
{
    const loader_options_t options = trainer_loader_options(t);
    return prefetcher_open(&options, t->runtime.backend, &t->input.prefetcher);
}

static err_t begin_trace(trainer_t *t)
{
    const int passes = t->options->kind->passes_per_sample;
    trace_file_options_t options = {
        .path = t->options->trace,
        .model = t->options->model,
        .first_step = t->at.step,
        .n_steps = steps_left(t),
        .n_traced = t->options->trace_steps,
        .n_layers = t->model.graph->n_nodes,
        .n_parts =
            passes > 0 ? passes * narrow_int(t->input.max_local) : t->input.n_parts * t->input.n_shards,
    };
    return trace_file_begin(t->comm, &options, &t->output.trace);
}

err_t trainer_build(trainer_t *t)
{
    TRY(train_open_input(t->comm, t->options, &t->input));
    watchdog_phase("building the model");
    t->at.best_step = -1;
    for (int i = 0; i < TASK_MAX_METRICS; i++) t->at.best[i] = NAN;
    const train_options_t *o = t->options;
    err_t err = trainer_plan_steps(t);
    if (err == ERR_OK) err = build_model(t);
    if (err == ERR_OK) {
        train_options_warn_idle(o, &t->runtime, t->input.dataset, t->saving.resumed_from[0]);
        t->task.metrics = task_metrics(&t->input.dataset->info, rcnn_has_masks(t->model.graph));
        train_target_t target; /* a wrong one fails here */
        err = train_target_make(o->target, o->target_accuracy, &t->task.metrics, &target);
    }
    return comm_agree(t->comm, err, "building the model");
}

err_t trainer_plan(trainer_t *t, const double *measure_sec)
{
    TRY(choose_algorithms(t, measure_sec));
    watchdog_phase("planning the model");
    return comm_agree(t->comm, build_executor(t), "planning the model");
}

static err_t open_shards(trainer_t *t)
{
    TRY(mem_new(sizeof *t->learning.shards, "shards", &t->learning.shards));
    const shards_options_t options = {.n_all = (int)t->options->reproducible,
                                      .n_floats = t->model.graph->n_flat_trained + t->learning.n_tail,
                                      .n_hashed = t->model.graph->n_flat_trained + TASK_N_SUMS,
                                      .n_states = t->model.graph->n_flat_states};
    TRY(shards_open(t->comm, t->runtime.backend, &options, t->learning.shards));
    return shards_set_states(t->learning.shards, t->model.states.host);
}

err_t trainer_begin(trainer_t *t)
{
    if (t->options->reproducible) TRY(comm_agree(t->comm, open_shards(t), "allocating shards"));
    /* Initial weights are equal by construction, unless a host's libm differs in the last bit. */
    TRY(comm_broadcast(t->comm, t->model.params.host, t->model.graph->n_flat_params * (int64_t)sizeof(float),
                       0, "broadcasting weights"));
    err_t err = hd_buffer_push_all(&t->model.params);
    if (err == ERR_OK) err = hd_buffer_push_all(&t->model.states);
    if (err == ERR_OK) err = optim_push(t->learning.optim);
    if (err == ERR_OK) err = backend_sync(t->runtime.backend);
    if (err == ERR_OK) err = open_prefetcher(t);
    return comm_agree(t->comm, err, "starting the loader");
}

err_t trainer_setup(trainer_t *t)
{
    comm_t *comm = t->comm;
    err_t err = comm->rank == 0 ? train_choose_folder(t->options, &t->output) : ERR_OK;
    TRY(comm_decide(comm, err, t->output.folder, sizeof t->output.folder, "choosing the output folder"));
    TRY(train_own_folder(t->comm, &t->output));
    TRY(trainer_find_checkpoint(t));
    TRY(trainer_build(t));
    TRY(trainer_restore(t));
    TRY(trainer_check_out(t));
    TRY(trainer_set_threads(t));
    guests_choose(guest_registry, t, &t->guests);
    TRY(trainer_prepare(t));
    TRY(trainer_print_header(t));
    const double measure_sec = fmax(t->options->measure_sec - t->model.threads.measure_sec, 0);
    TRY(trainer_plan(t, &measure_sec));
    TRY(trainer_open_out(t));
    TRY(begin_trace(t));
    TRY(trainer_begin(t));
    TRY(comm_agree(comm, guests_open(&t->guests, t), "preparing to compare ranks"));
    trainer_print_plan(t);
    return ERR_OK;
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
    if (t->learning.shards) shards_close(t->learning.shards);
    mem_free(&t->learning.shards);
    hd_buffer_free(&t->model.states);
    guests_close(&t->guests);
    mem_free(&t->saving.options);
    metrics_close(&t->output.records); /* does nothing unless an error ended the run */
    tensorboard_close(&t->output.tensorboard);
    owner_close(&t->output.owner);
    if (t->comm) comm_buffer_free(t->comm, &t->learning.buffer);
    mem_free(&t->saving.saved_options);
}
