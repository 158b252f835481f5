/* SPDX-License-Identifier: MIT */
/* Describes a run: the header on the terminal and the `run` record. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/version.h"
#include "cluster/comm/device.h"
#include "cluster/hosts/machine.h"
#include "compute/models/model.h"
#include "compute/models/rcnn.h"
#include "text/figure.h"
#include "train/guard/checkpoint_interval.h"
#include "train/start/options.h"
#include "train/start/setup.h"

/* How gradients are summed; NULL if a single rank has nothing to sum. */
static const char *gradient_path(const comm_t *comm, const comm_buffer_t *buffer, char *space, size_t n_bytes)
{
    if (comm_gpus(comm) && (comm->size > 1 || buffer->device)) {
        comm_describe_gradients(comm, space, n_bytes);
        return space;
    }
    if (comm->size == 1) return NULL;
    return buffer->by_host ? "host" : comm_gradients_name(comm);
}

/* Lists the ranks on the host of rank `first` and their GPUs: "node-a: rank 0 at 0000:1b:00.0, …". Returns
 * the first rank of the next host. */
static int gpus_of_host(const comm_gpu_t *gpus, int first, int size, char *out, size_t n_bytes)
{
    int r = first;
    size_t used = (size_t)snprintf(out, n_bytes, "%s:", gpus[first].host);
    for (; r < size && strcmp(gpus[r].host, gpus[first].host) == 0; r++)
        if (used < n_bytes)
            used += (size_t)snprintf(out + used, n_bytes - used, "%s rank %d at %s", r > first ? "," : "", r,
                                     gpus[r].pci);
    return r;
}

/* Why threads are fewer than they could be: " of 2 (measured)"; "". */
static const char *why_threads(const runtime_t *runtime, const thread_choice_t *choice, char *space,
                               size_t n_bytes)
{
    static const char *const froms[] = {"measured", "cache", "checkpoint"};
    static const char *const whys[] = {"measured", "measured by an earlier run", "as in the checkpoint"};
    space[0] = '\0';
    for (int i = 0; runtime->n_threads < runtime->n_cpus && i < 3; i++)
        if (strcmp(choice->from, froms[i]) == 0)
            snprintf(space, n_bytes, " of %d (%s%s)", runtime->n_cpus, whys[i],
                     i == 0 && !choice->calm ? " beside other processes" : "");
    return space;
}

/* Of rank 0, which speaks and records: no rank has more. */
static int64_t optimizer_bytes(const trainer_t *t)
{
    return optim_state_bytes(t->learning.optim, t->learning.optim->n_own);
}

static void print_optimizer(const trainer_t *t)
{
    const int64_t whole = optim_state_bytes(t->learning.optim, t->model.graph->n_flat_trained);
    if (!t->options->optim.shard) return;
    if (t->learning.slices.size)
        log_note("  shards  %s of optimizer state per rank, of %s",
                 figure_bytes((double)optimizer_bytes(t)).text, figure_bytes((double)whole).text);
    else
        log_note("  shards  none: one rank has the whole optimizer state, %s",
                 figure_bytes((double)whole).text);
}

static void print_ranks(const trainer_t *t)
{
    char why[64];
    const topo_t *topo = &t->comm->topo;
    const comm_gpu_t *gpus = comm_gpus(t->comm);
    char by[256];
    const char *path = gradient_path(t->comm, &t->learning.buffer, by, sizeof by);
    bool on_host = path && !gpus;
    log_note("  ranks   %d on %d host%s, %d thread%s each%s, %s (%s), communicator %s%s%s%s", t->comm->size,
             topo->n_hosts, topo->n_hosts > 1 ? "s" : "", t->runtime.n_threads,
             t->runtime.n_threads > 1 ? "s" : "",
             why_threads(&t->runtime, &t->model.threads, why, sizeof why), t->runtime.backend->name,
             t->runtime.device, t->comm->ops->name, on_host ? ", " : "", on_host ? path : "",
             on_host ? (t->learning.slices.size ? " reduce-scatter and allgather" : " allreduce") : "");
    if (t->runtime.why[0]) log_note("          not on a GPU: %s", t->runtime.why);
    char cpu[CPU_USE_TEXT_MAX];
    cpu_use_text(&t->model.start_use, cpu);
    if (cpu_use_short(&t->model.start_use)) log_note("  CPU     short: %s", cpu);
    if (!gpus) return;
    enum { HOSTS_SHOWN = 4 };
    const backend_device_t *device = t->runtime.backend->device();
    char text[1024];
    log_note("  GPU     %s, %s, compute capability %d.%d, steps %s%s", device->name,
             figure_bytes((double)device->memory_bytes).text, device->capability / 10,
             device->capability % 10,
             t->model.recorded.why_not ? "not recorded: " : "recorded as CUDA graphs",
             t->model.recorded.why_not ? t->model.recorded.why_not : "");
    int shown = 0;
    for (int r = 0; r < t->comm->size; shown++) {
        r = gpus_of_host(gpus, r, t->comm->size, text, sizeof text);
        if (shown < HOSTS_SHOWN) log_note("          %s", text);
    }
    if (shown > HOSTS_SHOWN)
        log_note("          and %d more host%s (see the run record)", shown - HOSTS_SHOWN,
                 shown - HOSTS_SHOWN == 1 ? "" : "s");
    if (t->learning.buffer.device)
        log_note("  sums    %s, in buckets of %s", path,
                 figure_bytes((double)t->learning.bucket.n_min * sizeof(float)).text);
    else if (path)
        log_note("  sums    %s", path);
}

/* Warns of oddities in the data. */
static void print_data_notes(const dataset_info_t *info, bool evaluates)
{
    int n;
    for (const char *rest = info->notes, *line; (line = print_next_line(&rest, &n));)
        log_warn("%s: %.*s", info->source, n, line);
    if (info->n_samples[SPLIT_VAL] == 0 && evaluates)
        log_warn(
            "%s has no validation images; validation uses the training images: --val-split 0.1 holds some of "
            "them out",
            info->source);
}

/* Batch norm of single samples trains, but what evaluation normalizes by is not what training saw. */
static void warn_of_norm(const trainer_t *t)
{
    const task_run_t *run = &t->task.run;
    const int64_t n_ranks = t->options->sync_bn ? t->comm->size : 1;
    const bool detects = run->micro_batch > 0;
    const int64_t n_part = detects ? run->micro_batch : t->input.max_local / t->input.n_parts;
    if (!graph_has_batch_norm(t->model.graph)) return;
    if (n_part * n_ranks > 1 && t->options->bn_group != 1) return;
    log_warn(
        "batch norm has the statistics of one image at a time, and evaluation uses averages that differ from them: "
        "results will be far below what the weights can; %s%s",
        detects ? "use --norm group or --micro-batch 4" : "choose a larger batch per rank",
        t->comm->size > 1 && !t->options->sync_bn ? ", or add --sync-bn" : "");
}

/* Samples of the batch whose algorithms are told: rank 0's first part of a whole one, or with micro-batches one of the
 * graph's shape. */
static int64_t told_batch(const train_input_t *input, const task_run_t *run)
{
    return run->micro_batch > 0 ? 1 : train_first_part(input, run->comm->size);
}

/* The algorithms of a layer for n samples; NULL: it has no choice. */
static const op_algorithms_t *algorithms_of(const exec_t *exec, int64_t n, int node)
{
    const op_algorithms_t *used = exec_algorithms(exec, n, true, node);
    return used && used->name[OP_FORWARD][0] ? used : NULL;
}

/* For --verbose: what start-up measured and chose. */
static void print_choices(const exec_t *exec, int64_t n_samples, const comm_timing_t *timing)
{
    const graph_t *graph = exec_graph(exec);
    if (timing->n_bytes > 0)
        log_detail("  sums    %s: host %s, mpi %s", figure_bytes((double)timing->n_bytes).text,
                   figure_time(timing->host_sec).text, figure_time(timing->mpi_sec).text);
    for (int i = 0; i < graph->n_nodes; i++) {
        const op_algorithms_t *used = algorithms_of(exec, n_samples, i);
        if (!used) continue;
        char text[OP_PASS_COUNT * (OP_ALGORITHM_MAX + 32)] = "";
        for (int pass = 0; pass < OP_PASS_COUNT; pass++) {
            size_t n = strlen(text);
            snprintf(text + n, sizeof text - n, "%s%s %s", pass ? ", " : "", op_pass_names[pass],
                     used->name[pass]);
        }
        log_detail("  compute %s: %s", graph->nodes[i].name, text);
    }
}

/* The sizes of images that are cropped and resized, and what the model gets. Warns where the default enlarges them. */
static void print_sizes(const train_input_t *input, int64_t input_size)
{
    const images_sizes_t *s = &input->sizes;
    const dataset_info_t *info = &input->dataset->info;
    char sizes[96];
    if (s->n == 0) return;
    if (s->width)
        snprintf(sizes, sizeof sizes, "%s%lld×%lld", s->alike ? "" : "mostly ", (long long)s->width,
                 (long long)s->height);
    else
        snprintf(sizes, sizeof sizes, "shorter sides of %lld to %lld pixels, median %lld",
                 (long long)s->shortest, (long long)s->longest, (long long)s->median);
    log_note("          images: %s (%d looked at); the model gets %lld×%lld (--input-size)", sizes, s->n,
             (long long)info->width, (long long)info->height);
    if (input_size || 2 * s->median >= info->width) return;
    const double times = (double)info->width / (double)s->median;
    log_warn("%s: its images are enlarged to %lld×%lld, %s times their pixels; --input-size %lld keeps their "
             "size, and --input-size %lld says that this is meant",
             info->source, (long long)info->width, (long long)info->height,
             figure_count((int64_t)(times * times)).text,
             (long long)(s->median < TRANSFORM_INPUT_MIN ? TRANSFORM_INPUT_MIN : s->median),
             (long long)info->width);
}

void train_print_data(const train_options_t *o, const train_input_t *input, const task_run_t *run)
{
    const dataset_info_t *info = &input->dataset->info;
    const int n_readers = input->n_threads;
    log_note("  data    %s (%s)", info->source, input->why);
    o->kind->describe(run);
    const char *heading = o->kind->sources;
    int n;
    for (const char *rest = info->about, *line; (line = print_next_line(&rest, &n)); heading = "")
        log_note("  %-6s  %.*s", heading, n, line);
    if (run->task->whole_images) print_sizes(input, o->transform.input_size);
    if (info->transform[0])
        log_note("          %s; %d loader thread%s per rank", info->transform, n_readers,
                 n_readers > 1 ? "s" : "");
    if (sampler_block(input->sampler) > 1)
        log_note("          shuffled in blocks of %s samples, %lld at a time",
                 figure_count(sampler_block(input->sampler)).text, (long long)o->shuffle_window);
    print_data_notes(info, o->eval);
}

err_t trainer_print_header(trainer_t *t)
{
    const runtime_t *runtime = &t->runtime;
    TRY(cpu_use_gather(t->comm, &t->model.cpu_watch, runtime->n_threads, runtime->n_host_cpus,
                       &t->model.start_use));
    const train_options_t *o = t->options;
    log_note("dptrain %s", version_number);
    const graph_t *graph = t->model.graph;
    log_note("  model   %s, %s parameters%s%s%s, %s", o->model, figure_count(graph->n_parameters).text,
             graph->n_frozen ? " (" : "", graph->n_frozen ? figure_count(graph->n_frozen).text : "",
             graph->n_frozen ? " frozen)" : "", o->precision);
    const model_stem_t stem = model_stem_of(graph);
    if (stem != MODEL_STEM_AUTO)
        log_note("          stem %s: %s (--stem)", model_stems[stem], model_stem_about(stem));
    static const char *const norms[] = {[GRAPH_NORM_FROZEN] = "batch norm with constants",
                                        [GRAPH_NORM_BATCH] = "batch norm of the images of a --micro-batch",
                                        [GRAPH_NORM_GROUP] = "groups of channels of each image"};
    const graph_norm_t norm = graph->norm;
    if (model_detects(o->model)) log_note("          norm %s: %s (--norm)", model_norms[norm], norms[norm]);
    if (rcnn_aligned(graph))
        log_note("          heads %s: %s", model_heads[rcnn_heads(graph)], rcnn_about_aligned);
    if (rcnn_stride_1x1(graph)) log_note("          trunk %s", rcnn_about_stride_1x1);
    train_print_data(o, &t->input, &t->task.run);
    warn_of_norm(t);
    print_ranks(t);
    char micro[32] = "";
    if (t->task.run.micro_batch > 1)
        snprintf(micro, sizeof micro, ", %lld at a time", (long long)t->task.run.micro_batch);
    log_note("  batch   %lld (up to %lld per rank%s), %lld step%s, %lld per epoch",
             (long long)t->input.global_batch, (long long)t->input.max_local, micro, (long long)t->steps.n,
             t->steps.n == 1 ? "" : "s", (long long)sampler_batches(t->input.sampler));
    char warmup[64] = "";
    const long long n_warmup = t->learning.schedule.warmup_steps;
    if (n_warmup > 0)
        snprintf(warmup, sizeof warmup, " after %lld step%s of warm-up", n_warmup, n_warmup == 1 ? "" : "s");
    char scale[128] = "";
    const schedule_options_t *rate = &o->schedule;
    int n = 0;
    if (schedule_is_scaled(rate))
        n = snprintf(scale, sizeof scale, " = %g × %g ", rate->lr, t->learning.schedule.scale);
    if (n > 0 && rate->lr_batch)
        snprintf(scale + n, sizeof scale - (size_t)n, "(%lld samples per step, --lr is for %lld)",
                 (long long)t->input.global_batch, (long long)rate->lr_batch);
    else if (n > 0)
        snprintf(scale + n, sizeof scale - (size_t)n, "(the run began on %lld rank%s)",
                 (long long)t->saving.rate_ranks, t->saving.rate_ranks == 1 ? "" : "s");
    log_note("  rate    %s, %s from %g%s%s, seed %lld", o->optim.optimizer, rate->schedule,
             t->learning.schedule.base, scale, warmup, (long long)o->seed);
    if (t->model.imported.n_taken > 0)
        log_note("  weights %s, %d arrays, name table %s%s%s%s%s%s", o->weights, t->model.imported.n_taken,
                 o->weights_names, t->model.imported.prefix[0] ? ", without the prefix '" : "",
                 t->model.imported.prefix, t->model.imported.prefix[0] ? "' of all names" : "",
                 t->model.imported.reinitialized[0] ? "; " : "", t->model.imported.reinitialized);
    print_optimizer(t);
    log_note("  output  %s", t->output.folder);
    char interval[CHECKPOINT_INTERVAL_TEXT_MAX];
    checkpoint_interval_text(o, t->saving.record.cost_sec, interval);
    if (interval[0]) log_note("  saves   %s", interval);
    if (t->saving.resumed_from[0])
        log_note("  resumed from %s at step %lld", t->saving.resumed_from, (long long)t->at.step);
    return ERR_OK;
}

void train_print_plan(const train_model_t *model, const train_input_t *input, const task_run_t *run,
                      const comm_timing_t *timing)
{
    log_note("  compute %s; %s of activations", model->algorithms.about,
             figure_bytes((double)exec_arena_bytes(model->exec)).text);
    print_choices(model->exec, told_batch(input, run), timing);
}

static void record_data(json_t *j, const train_input_t *input)
{
    enum { MOST_NAMES = 20 };
    const dataset_info_t *info = &input->dataset->info;
    json_object_begin(j, "data");
    json_string(j, "kind", info->kind);
    json_string(j, "source", info->source);
    json_string(j, "xxh3", dataset_hash(info).text);
    json_int(j, "n_train", info->n_samples[SPLIT_TRAIN]);
    json_int(j, "n_val", info->n_samples[SPLIT_VAL]);
    json_int(j, "n_classes", info->n_classes);
    if (info->class_names && info->n_classes <= MOST_NAMES) {
        json_array_begin(j, "classes");
        for (int k = 0; k < info->n_classes; k++) json_string(j, NULL, info->class_names[k]);
        json_array_end(j);
    }
    json_string(j, "transform", info->transform[0] ? info->transform : NULL);
    json_int(j, "shuffle_block", sampler_block(input->sampler));
    json_object_end(j);
}

static void record_allreduce(json_t *j, const comm_t *comm, const train_learning_t *learning)
{
    char by[256];
    json_object_begin(j, "allreduce");
    json_string(j, "gradients", gradient_path(comm, &learning->buffer, by, sizeof by));
    if (learning->buffer.device) json_int(j, "bucket_bytes", learning->bucket.n_min * (int64_t)sizeof(float));
    json_array_begin(j, "measured");
    const comm_timing_t *timing = &learning->buffer.timing;
    if (timing->n_bytes > 0) {
        json_object_begin(j, NULL);
        json_int(j, "bytes", timing->n_bytes);
        json_real(j, "host_sec", timing->host_sec);
        json_real(j, "mpi_sec", timing->mpi_sec);
        json_string(j, "chosen", learning->buffer.by_host ? "host" : "mpi");
        json_object_end(j);
    }
    json_array_end(j);
    json_object_end(j);
}

static void record_gpus(json_t *j, const runtime_t *runtime, const char *not_recorded)
{
    const comm_t *comm = runtime->comm;
    const comm_gpu_t *gpus = comm_gpus(comm);
    json_string(j, "gpu_unavailable", runtime->why[0] ? runtime->why : NULL);
    if (!gpus) return;
    const backend_device_t *device = runtime->backend->device();
    json_int(j, "gpu_memory_bytes", device->memory_bytes);
    json_real(j, "compute_capability", device->capability / 10.0);
    json_string(j, "cuda_graph", not_recorded ? not_recorded : "recorded");
    json_array_begin(j, "gpus");
    for (int r = 0; r < comm->size; r++) {
        json_object_begin(j, NULL);
        json_int(j, "rank", r);
        json_string(j, "host", gpus[r].host);
        json_string(j, "name", gpus[r].name);
        json_string(j, "pci", gpus[r].pci);
        json_string(j, "uuid", gpus[r].uuid);
        json_object_end(j);
    }
    json_array_end(j);
    char mix[ERR_MESSAGE_MAX];
    json_bool(j, "gpus_differ", device_describe_mix(gpus, comm->size, mix, sizeof mix));
}

static void record_algorithms(json_t *j, const train_model_t *model, int64_t n_samples)
{
    const graph_t *graph = exec_graph(model->exec);
    json_string(j, "algorithms_from", model->algorithms.from);
    json_real(j, "algorithms_sec", model->algorithms.measure_sec);
    json_int(j, "algorithms_by_rule", model->algorithms.n_by_rule);
    if (model->algorithms.libraries[0]) json_string(j, "algorithm_libraries", model->algorithms.libraries);
    json_object_begin(j, "algorithms");
    for (int i = 0; i < graph->n_nodes; i++) {
        const op_algorithms_t *used = algorithms_of(model->exec, n_samples, i);
        if (!used) continue;
        json_object_begin(j, graph->nodes[i].name);
        for (int pass = 0; pass < OP_PASS_COUNT; pass++)
            json_string(j, op_pass_names[pass], used->name[pass]);
        json_object_end(j);
    }
    json_object_end(j);
}

/* With the id that dptrain bench gives the same hardware. */
static err_t record_hardware(const char *backend, json_t *j)
{
    json_t text = {0};
    json_object_begin(&text, NULL);
    machine_record(backend, &text);
    json_object_end(&text);
    err_t err = text.status;
    if (err == ERR_OK) json_hex(j, "hardware_id", XXH3_64bits(text.text, text.n_bytes), 16);
    if (err == ERR_OK) json_raw(j, "hardware", text.text);
    json_free(&text);
    return err;
}

err_t trainer_record_run(trainer_t *t)
{
    json_t *j = metrics_begin(&t->output.records, RECORD_RUN);
    if (!j) return ERR_OK;
    char now[32];
    clock_utc(now, sizeof now);
    json_int(j, "schema", RECORD_SCHEMA);
    json_string(j, "time", now);
    opt_json(t->options->groups, train_options_groups(t->options), j, "options");
    record_data(j, &t->input);
    task_metrics_describe(&t->task.metrics, j);
    json_object_begin(j, "software");
    runtime_record_software(&t->runtime, j);
    json_object_end(j);
    TRY(record_hardware(t->runtime.backend->name, j));
    json_object_begin(j, "topology");
    json_int(j, "ranks", t->comm->size);
    json_int(j, "hosts", t->comm->topo.n_hosts);
    json_string(j, "host_of_rank_0", t->comm->topo.host_name);
    json_array_begin(j, "host_of_rank");
    for (int r = 0; r < t->comm->size; r++) json_string(j, NULL, t->comm->places[r].host);
    json_array_end(j);
    json_int(j, "threads", t->runtime.n_threads);
    json_string(j, "threads_from", t->model.threads.from);
    json_int(j, "loader_threads", t->input.n_threads);
    json_int(j, "cpus", t->model.start_use.n_cpus);
    cpu_use_json(&t->model.start_use, j);
    json_string(j, "device", t->runtime.backend->name);
    json_string(j, "comm", t->comm->ops->name);
    json_bool(j, "gradients_shared", t->learning.buffer.shared);
    json_int(j, "optimizer_bytes", optimizer_bytes(t));
    record_allreduce(j, t->comm, &t->learning);
    record_gpus(j, &t->runtime, t->model.recorded.why_not);
    json_object_end(j);
    record_algorithms(j, &t->model, told_batch(&t->input, &t->task.run));
    json_int(j, "n_parameters", t->model.graph->n_parameters);
    json_int(j, "global_batch", t->input.global_batch);
    if (t->task.run.micro_batch > 0) json_int(j, "micro_batch", t->task.run.micro_batch);
    json_int(j, "n_steps", t->steps.n);
    json_int(j, "activation_bytes", (int64_t)exec_arena_bytes(t->model.exec));
    json_int(j, "first_step", t->at.step);
    json_real(j, "start_sec", clock_process_sec());
    json_string(j, "resumed_from", t->saving.resumed_from[0] ? t->saving.resumed_from : NULL);
    return metrics_end(&t->output.records, true);
}
