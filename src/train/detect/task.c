/* SPDX-License-Identifier: MIT */
/* The task detect: objects with boxes, classes and masks. How detectors are set up, their part of a step, its record. Passes
 * over images are left to train_images.c, evaluation to evaluate.c. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "compute/models/rcnn.h"
#include "data/dataset/dataset.h"
#include "data/image/orient.h"
#include "data/load/samples.h"
#include "text/figure.h"
#include "train/detect/detector.h"
#include "train/detect/evaluate.h"
#include "train/detect/train_images.h"
#include "train/detect/train_options.h"
#include "train/task/evaluate.h"

/* The losses have torchvision's names. */
#define LOSS(field, shown, sum) .name = field, .label = shown, .training = sum, .training_only = true
#define AP(field, shown)                                                                                     \
    .name = field, .label = shown, .unit = METRIC_FRACTION, .higher_is_better = true,                        \
    .training = TASK_SUM_NONE
#define JUDGES .is_main = true, .steers_plateau = true

static const task_metric_t metrics[] = {
    {LOSS("loss", "loss", TASK_SUM_LOSS)},
    {.name = "recall",
     .label = "proposal recall",
     .brief = "recall",
     .unit = METRIC_FRACTION,
     .higher_is_better = true,
     .training = TASK_SUM_FOUND,
     .per_object = true,
     .training_only = true},
    {LOSS("loss_objectness", "objectness", TASK_SUM_OBJECTNESS)},
    {LOSS("loss_rpn_box_reg", "proposal box", TASK_SUM_PROPOSAL_BOX)},
    {LOSS("loss_classifier", "class", TASK_SUM_CLASS)},
    {LOSS("loss_box_reg", "box", TASK_SUM_BOX)},
    {LOSS("loss_mask", "mask", TASK_SUM_MASK), .of_masks = true},
    {LOSS("positives", "positives", TASK_SUM_POSITIVES), .is_neutral = true, .is_detail = true},
    {AP("ap_box", "box AP"), JUDGES},
    {AP("ap50_box", "box AP50")},
    {AP("ap75_box", "box AP75"), .is_detail = true},
    {AP("ap_small_box", "box AP small"), .is_detail = true},
    {AP("ap_medium_box", "box AP medium"), .is_detail = true},
    {AP("ap_large_box", "box AP large"), .is_detail = true},
    {AP("ap_mask", "mask AP"), JUDGES, .of_masks = true},
    {AP("ap50_mask", "mask AP50"), .of_masks = true},
    {AP("ap75_mask", "mask AP75"), .of_masks = true, .is_detail = true},
    {AP("ap_small_mask", "mask AP small"), .of_masks = true, .is_detail = true},
    {AP("ap_medium_mask", "mask AP medium"), .of_masks = true, .is_detail = true},
    {AP("ap_large_mask", "mask AP large"), .of_masks = true, .is_detail = true},
    {.name = NULL},
};

static const char *const sum_names[TASK_N_SUMS] = {[TASK_SUM_OBJECTNESS] = "epoch_loss_objectness",
                                                   [TASK_SUM_PROPOSAL_BOX] = "epoch_loss_rpn_box_reg",
                                                   [TASK_SUM_CLASS] = "epoch_loss_classifier",
                                                   [TASK_SUM_BOX] = "epoch_loss_box_reg",
                                                   [TASK_SUM_MASK] = "epoch_loss_mask",
                                                   [TASK_SUM_POSITIVES] = "epoch_n_positives",
                                                   [TASK_SUM_FOUND] = "epoch_n_found",
                                                   [TASK_SUM_OBJECTS] = "epoch_n_objects"};

static const task_lack_t lacks[] = {
    {"accumulate",
     "gradients add up over all images of a --batch anyway; --micro-batch N sets how many are computed at a time"},
    {"label-smoothing", "it is for classifiers"},
    {"bn-group", "batch norm is over the images of a --micro-batch"},
    {"shuffle-block", "batches are formed by the images' sizes"},
    {"shuffle-window", "batches are formed by the images' sizes"},
    {NULL, NULL},
};

/* task_run_t.state. */
typedef struct training {
    char *freeze; /* model_options_t's */
    train_images_t *images;
    detection_evaluator_t *evaluator; /* NULL: --no-eval */
} training_t;

static training_t *training_of(const task_run_t *run)
{
    return run->state;
}

static err_t detect_transform(const void *options, transform_settings_t *settings)
{
    return detect_train_transform(options, settings);
}

static err_t detect_check_options(const void *options, const char *task)
{
    const detect_train_options_t *o = options;
    transform_settings_t settings;
    (void)task;
    if (o->mask_block % 4 != 0)
        RAISE(ERR_USAGE, "invalid --mask-block '%lld': expected a multiple of 4", (long long)o->mask_block);
    return detect_train_transform(o, &settings);
}

static err_t detect_set_model(task_run_t *run, model_options_t *options)
{
    const detect_train_options_t *o = run->options;
    training_t *training;
    TRY(mem_new(sizeof *training, "training of a detector", &training));
    run->state = training;
    options->norm = model_norm(o->norm);
    /* Group norm does not depend on how many images are computed at a time. */
    if (options->norm == GRAPH_NORM_DEFAULT)
        options->norm = run->has_weights ? run->form.norm : GRAPH_NORM_GROUP;
    options->norm_epsilon = &o->norm_epsilon;
    options->heads = run->form.heads;
    options->stride_1x1 = run->form.stride_1x1;
    options->box_block = detect_train_box_block(o);
    options->mask_block = o->mask_block;
    TRY(detect_train_freeze(o, run->has_weights, options->freeze, &training->freeze));
    options->freeze = training->freeze;
    return ERR_OK;
}

/* The default fills a GPU. Never more than the largest share of a rank or shard, which are the same everywhere: with
 * --reproducible, passes do not depend on the number of ranks. */
static int64_t choose_micro_batch(const task_run_t *run)
{
    int64_t first, wanted = ((const detect_train_options_t *)run->options)->micro_batch;
    const int64_t most = sampler_shard(run->sampler, run->global_batch, 0, run->comm->size, &first);
    if (!wanted) wanted = run->backend->memory ? DETECT_MAX_MICRO_BATCH : 1;
    return wanted < most ? wanted : most;
}

/* In each pass synchronized batch norm waits for all ranks. */
static err_t check_sync(const task_run_t *run)
{
    const int64_t n_train = run->dataset->info.n_samples[SPLIT_TRAIN], batch = run->global_batch;
    const int size = run->comm->size;
    if (!run->sync_bn) return ERR_OK;
    if (!graph_has_batch_norm(run->graph))
        RAISE(ERR_USAGE, "--sync-bn: %s has no batch norm that is trained; add --norm batch", run->model);
    if (batch % size != 0 || n_train % batch % size != 0)
        RAISE(ERR_USAGE,
              "--sync-bn needs equally many images on each of the %d ranks in every batch, and %s has %lld; "
              "choose another --batch",
              size, batch % size ? "a batch" : "the last one of an epoch",
              (long long)(batch % size ? batch : n_train % batch));
    return ERR_OK;
}

static err_t detect_check_model(task_run_t *run)
{
    const dataset_info_t *info = &run->dataset->info;
    const dataset_objects_t *objects = &info->objects;
    const bool skip = run->dataset->settings.skip_unmasked;
    const long long n_bare = objects->n_unmasked;
    run->micro_batch = choose_micro_batch(run);
    const bool masks = rcnn_has_masks(run->graph);
    char first[96];
    snprintf(first, sizeof first, "the first is %s of image %" PRId64,
             annotation_name(objects->unmasked).text, objects->unmasked_image);
    if (masks && !skip && 10 * n_bare > (long long)objects->n_train)
        RAISE(
            ERR_DATA,
            "%lld object%s of %s %s no segmentation, which %s needs, %s; --skip-unmasked leaves such objects out, or "
            "train a model without masks, such as fasterrcnn_resnet50_fpn",
            n_bare, n_bare == 1 ? "" : "s", info->source, n_bare == 1 ? "has" : "have", run->model, first);
    if (n_bare > 0 && run->comm->rank == 0 && (masks || skip))
        log_warn("%lld of the %s training objects have no segmentation, %s: %s", n_bare,
                 figure_count(objects->n_train + (skip ? n_bare : 0)).text, first,
                 skip ? "they are left out (--skip-unmasked)"
                      : "their boxes are trained, without a mask; --skip-unmasked leaves them out");
    return check_sync(run);
}

/* The numbers of images of passes, from the largest: size i, or 0 after the last. */
static int64_t pass_size(const task_run_t *run, int i)
{
    int64_t n = run->micro_batch;
    for (; i > 0 && n > 0; i--) n = n > 1 ? train_images_pass(n, n - 1) : 0;
    return n;
}

static err_t detect_list_sizes(const task_run_t *run, batch_size_t *sizes, int *n, shape_t **shapes)
{
    const canvases_t *canvases = &run->dataset->settings.canvases;
    TRY(comm_agree(run->comm, detector_shapes(run->graph, canvases, shapes), "choosing algorithms"));
    for (int i = 0; i < canvases->n; i++) {
        const shape_t *own = *shapes + i * GRAPH_MAX_INPUTS;
        int n_passes = 0;
        while (pass_size(run, n_passes) > 0) n_passes++;
        ASSERT(*n + n_passes < ALGORITHMS_MAX_SIZES);
        for (int k = n_passes - 1; k >= 0; k--) sizes[(*n)++] = (batch_size_t){pass_size(run, k), true, own};
        sizes[(*n)++] = (batch_size_t){1, false, own};
    }
    return ERR_OK;
}

static err_t sum_cuts(void *comm, double *values, int64_t n)
{
    return comm_allreduce(comm, values, n, DTYPE_F64, COMM_SUM, "cutting batches");
}

static err_t open_images(task_run_t *run)
{
    const dataset_info_t *info = &run->dataset->info;
    const detect_train_options_t *o = run->options;
    const canvases_t *canvases = &run->dataset->settings.canvases;
    const train_images_options_t options = {
        .image = {.graph = run->graph,
                  .backend = run->backend,
                  .exec = run->exec,
                  .canvases = canvases->size,
                  .n_canvases = canvases->n,
                  .max_images = run->micro_batch,
                  .max_objects = info->objects.most > 0 ? info->objects.most : 1,
                  .proposals = detect_train_proposals(o),
                  .targets = detect_train_targets(o)},
        .grads = run->grads,
        .seed = (uint64_t)run->seed,
        .max_local = run->max_local,
        .sum_shared = run->sync_bn ? sum_cuts : NULL,
        .share_context = run->comm,
    };
    return train_images_new(&options, &training_of(run)->images);
}

/* Its plans share the executor's memory. */
static err_t open_evaluator(task_run_t *run)
{
    const dataset_t *dataset = run->dataset;
    detection_evaluator_options_t options = {.comm = run->comm,
                                             .graph = run->graph,
                                             .backend = run->backend,
                                             .params = run->params,
                                             .states = run->states,
                                             .exec = run->exec,
                                             .norm = dataset->info.norm,
                                             .source = dataset->source,
                                             .split = evaluation_split(dataset),
                                             .limit = run->eval_samples,
                                             .canvases = &dataset->settings.canvases,
                                             .map = &dataset->classes,
                                             .masks = rcnn_has_masks(run->graph),
                                             .skip_unmasked = dataset->settings.skip_unmasked,
                                             .advice = "; train a model without masks, or add --no-eval",
                                             .list_advice = "; or train without scores: --no-eval",
                                             .bad = run->bad};
    opt_group_t group = {"", detections_option_table, n_detections_options, &options.detections, 0};
    if (!run->eval) return ERR_OK;
    TRY(opt_defaults(&group, 1));
    return detection_evaluator_open(&options, &training_of(run)->evaluator);
}

static err_t detect_plan(task_run_t *run)
{
    const canvases_t *canvases = &run->dataset->settings.canvases;
    shape_t *shapes;
    err_t err = detector_shapes(run->graph, canvases, &shapes);
    for (int i = 0; i < canvases->n; i++)
        for (int k = 0; err == ERR_OK && pass_size(run, k) > 0; k++)
            err = exec_prepare_shapes(run->exec, pass_size(run, k), shapes + i * GRAPH_MAX_INPUTS, true);
    mem_free(&shapes);
    TRY(err);
    TRY(open_evaluator(run));
    err = exec_ready(run->exec);
    if (err == ERR_OK) err = open_images(run);
    if (err != ERR_OK && run->micro_batch > 1)
        return err_context(err, "--micro-batch %lld", (long long)run->micro_batch);
    return err;
}

static void detect_close(task_run_t *run)
{
    training_t *training = run->state;
    if (!training) return;
    detection_evaluator_close(&training->evaluator);
    train_images_free(&training->images);
    mem_free(&training->freeze);
    mem_free(&run->state);
}

/* Training images on each canvas in the first epoch. */
static void count_canvases(const task_run_t *run, int64_t counts[CANVAS_MAX])
{
    memset(counts, 0, CANVAS_MAX * sizeof *counts);
    for (int64_t i = 0; i < run->dataset->info.n_samples[SPLIT_TRAIN]; i++) {
        sampler_weight_t weight;
        dataset_weigh(run->weigher, 0, i, &weight);
        counts[weight.group]++;
    }
}

/* "800x1088 (1 204 images)", as many on a line as fit. */
static void print_canvases(const task_run_t *run, const canvases_t *canvases)
{
    enum { LINE = 68 };
    int64_t counts[CANVAS_MAX];
    char line[LINE + 1] = "", entry[LINE + 1];
    const char *heading = "canvas";
    count_canvases(run, counts);
    for (int i = 0; i < canvases->n; i++) {
        if (counts[i] == 0) continue;
        snprintf(entry, sizeof entry, "%lldx%lld (%s)", (long long)canvases->size[i].height,
                 (long long)canvases->size[i].width, figure_count(counts[i]).text);
        if (line[0] && strlen(line) + strlen(entry) + 2 > LINE) {
            log_note("  %-6s  %s,", heading, line);
            line[0] = '\0', heading = "";
        }
        const size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, "%s%s", n ? ", " : "", entry);
    }
    log_note("  %-6s  %s images", heading, line);
}

static void detect_describe(const task_run_t *run)
{
    const dataset_info_t *info = &run->dataset->info;
    log_note("          %s training, %s validation images, %d categories",
             figure_count(info->n_samples[SPLIT_TRAIN]).text, figure_count(info->n_samples[SPLIT_VAL]).text,
             run->dataset->source->n_categories);
    if (info->objects.n_left_out > 0)
        log_note("          %s training image%s without objects left out (--keep-empty keeps them)",
                 figure_count(info->objects.n_left_out).text, info->objects.n_left_out == 1 ? "" : "s");
    print_canvases(run, &run->dataset->settings.canvases);
}

/* Grows to the largest. */
typedef struct show_memory {
    uint8_t *cut, *mask; /* of an object, in pixels of its image and of the canvas */
    rle_t rle;
} show_memory_t;

/* The mask on the canvas: resized with the image by the nearest pixel, as mask_target_make does. */
static err_t show_mask(show_memory_t *s, const detection_place_t *place, const rle_t *stored, arena_t *memory,
                       annotation_t *out)
{
    const bool swapped = orient_swaps(place->orientation);
    const mask_view_t view = {.stored = {swapped ? place->image_width : place->image_height,
                                         swapped ? place->image_height : place->image_width},
                              .orientation = place->orientation,
                              .flipped = place->flipped};
    const int64_t height = place->canvas_height, width = place->canvas_width;
    mask_cut_t cut;
    uint32_t *runs;
    TRY(mask_cut_make(stored, &view, &s->cut, &cut));
    TRY(mem_grow(height * width, 1, "a mask", &s->mask));
    memset(s->mask, 0, (size_t)(height * width));
    for (int64_t y = 0; y < place->scaled_height; y++)
        for (int64_t x = 0; x < place->scaled_width; x++) {
            const int64_t row = y * place->image_height / place->scaled_height - cut.y,
                          column = x * place->image_width / place->scaled_width - cut.x;
            if (row >= 0 && row < cut.height && column >= 0 && column < cut.width)
                s->mask[y * width + x] = cut.inside[row * cut.width + column];
        }
    TRY(rle_encode(s->mask, (int32_t)width, (int32_t)height, &s->rle));
    TRY(arena_new(memory, (size_t)s->rle.n * sizeof *runs, &runs));
    memcpy(runs, s->rle.runs, (size_t)s->rle.n * sizeof *runs);
    out->segmentation = SEGMENTATION_RLE;
    out->runs = runs;
    out->n_runs = s->rle.n;
    return ERR_OK;
}

/* On its canvas. */
static err_t detect_show(const task_run_t *run, const batch_t *batch, int64_t i, arena_t *memory,
                         sample_t *out)
{
    const batch_field_t *f = batch->fields;
    const int64_t first = f[DETECTION_BOX].offsets[i], n = f[DETECTION_BOX].offsets[i + 1] - first;
    const float *box = (const float *)f[DETECTION_BOX].data + 4 * first;
    const int32_t *class = (const int32_t *)f[DETECTION_CLASS].data + first,
                  *n_runs = (const int32_t *)f[DETECTION_MASK_N].data + first,
                  *runs = (const int32_t *)f[DETECTION_RUNS].data + f[DETECTION_RUNS].offsets[i];
    annotation_t *annotations;
    detection_place_t place;
    show_memory_t scratch = {0};
    memcpy(&place, (const detection_place_t *)f[DETECTION_FIELD_PLACE].data + i, sizeof place);
    out->width = place.canvas_width;
    out->height = place.canvas_height;
    err_t err = arena_new(memory, (size_t)(n + 1) * sizeof *annotations, &annotations);
    for (int64_t k = 0; err == ERR_OK && k < n; runs += n_runs[k++]) {
        const float *b = box + 4 * k;
        rle_t stored = {.n = n_runs[k]};
        annotations[k] = (annotation_t){.id = k + 1,
                                        .category = class[k],
                                        .crowd = class[k] == 0 ? CROWD_IGNORED : CROWD_NONE,
                                        .box = {b[0], b[1], (double)b[2] - b[0], (double)b[3] - b[1]}};
        if (!rcnn_has_masks(run->graph) || n_runs[k] == 0) continue;
        err = arena_new(memory, (size_t)n_runs[k] * sizeof *stored.runs, &stored.runs);
        if (err != ERR_OK) break;
        memcpy(stored.runs, runs, (size_t)n_runs[k] * sizeof *stored.runs);
        err = show_mask(&scratch, &place, &stored, memory, &annotations[k]);
    }
    rle_free(&scratch.rle);
    mem_free(&scratch.cut);
    mem_free(&scratch.mask);
    if (err != ERR_OK) return err;
    out->n_annotations = (int32_t)n;
    out->annotations = annotations;
    return ERR_OK;
}

/* Seconds of backward passes so far; on a GPU they are not timed. */
static double backward_sec(const exec_t *exec)
{
    const exec_cost_t *costs = exec_costs(exec);
    double sec = 0;
    for (int i = 0; i < exec_graph(exec)->n_nodes; i++) sec += costs[i].backward_sec;
    return sec;
}

static err_t detect_pass(task_run_t *run, const task_pass_t *pass, task_cost_t *cost)
{
    const dataset_info_t *info = &run->dataset->info;
    const exec_batch_t *shard = pass->part;
    const train_images_part_t part = {.from = pass->data->from,
                                      .pixels = pass->data->pixels,
                                      .n_values = info->height * info->width * info->channels,
                                      .first = (int64_t)shard->first_sample - pass->data->first,
                                      .n = shard->n,
                                      .common = shard};
    const double start = clock_sec(), backward_before = backward_sec(run->exec);
    double end;
    TRY(train_images_run(training_of(run)->images, &part, pass->sums->host, cost));
    TRY(hd_buffer_push(pass->sums, 0, TASK_N_SUMS * sizeof(float)));
    TRY(pass->ended(pass->context, TASK_FORWARD, part.n, &end));
    TRY(pass->ended(pass->context, TASK_BACKWARD, part.n, &end));
    if (run->backend->memory) return ERR_OK;
    const double backward = backward_sec(run->exec) - backward_before;
    cost->backward += backward;
    cost->forward += end - start - backward;
    trace_add(TRACE_TRAINING, &(trace_span_t){"images", "phase", start, end, (int64_t)shard->step, 0});
    return ERR_OK;
}

/* The passes are over, and have left where it was. */
static err_t detect_find_nonfinite(task_run_t *run, const exec_batch_t *part, char where[TASK_WHERE_MAX])
{
    int64_t image;
    source_buffer_t buffer = {0};
    sample_t sample;
    const char *layer = train_images_where(training_of(run)->images, &image);
    const source_t *source = run->dataset->source;
    (void)part;
    if (!layer[0]) return ERR_OK;
    err_t err = source_describe(source, SPLIT_TRAIN, image, &buffer, &sample);
    if (err == ERR_OK) snprintf(where, TASK_WHERE_MAX, "%s for image %.200s", layer, sample.name);
    source_free_buffer(source, &buffer);
    return err;
}

/* An image of any rank. */
typedef struct image_record {
    train_images_item_t item;
    int rank;
} image_record_t;

static err_t gather_images(task_run_t *run, int64_t n, image_record_t **all, int64_t *n_all)
{
    int64_t first;
    const int64_t n_local = sampler_share(run->sampler, n, run->comm->rank, run->comm->size, &first);
    image_record_t *mine = NULL;
    err_t err = mem_new_array(n_local, sizeof *mine, "the images of a step", &mine);
    for (int64_t i = 0; err == ERR_OK && i < n_local; i++)
        mine[i] = (image_record_t){train_images_items(training_of(run)->images)[i], run->comm->rank};
    err = comm_agree(run->comm, err, "recording images");
    if (err == ERR_OK)
        err = task_gather(run->comm, mine, n_local * (int64_t)sizeof *mine, "recording images", all, n_all);
    *n_all /= (int64_t)sizeof *mine;
    mem_free(&mine);
    return err;
}

static void record_image(const image_record_t *r, const canvases_t *canvases, json_t *j)
{
    char canvas[48];
    const map_size_t size = canvases->size[r->item.canvas];
    snprintf(canvas, sizeof canvas, "%lldx%lld", (long long)size.height, (long long)size.width);
    json_object_begin(j, NULL);
    json_int(j, "image", r->item.image);
    json_string(j, "canvas", canvas);
    json_int(j, "objects", r->item.n_objects);
    json_int(j, "positives", r->item.n_positives);
    json_real(j, "sec", r->item.sec);
    json_int(j, "rank", r->rank);
    json_object_end(j);
}

static err_t detect_record(task_run_t *run, int64_t n, json_t *j)
{
    image_record_t *all = NULL;
    int64_t n_all = 0;
    err_t err = gather_images(run, n, &all, &n_all);
    if (err == ERR_OK && j) {
        json_array_begin(j, "images");
        for (int64_t i = 0; i < n_all; i++) record_image(&all[i], &run->dataset->settings.canvases, j);
        json_array_end(j);
    }
    mem_free(&all);
    return err;
}

static err_t detect_evaluate(task_run_t *run, evaluation_t *out)
{
    static const char *const names[SCORE_TYPE_COUNT][6] = {
        [SCORE_BBOX] = {"ap_box", "ap50_box", "ap75_box", "ap_small_box", "ap_medium_box", "ap_large_box"},
        [SCORE_SEGM] = {"ap_mask", "ap50_mask", "ap75_mask", "ap_small_mask", "ap_medium_mask",
                        "ap_large_mask"}};
    detection_numbers_t numbers;
    TRY(detection_evaluator_run(training_of(run)->evaluator, &numbers));
    *out = (evaluation_t){.n = numbers.n_images};
    for (int i = 0; i < TASK_MAX_METRICS; i++) out->values[i] = NAN;
    for (int type = 0; type < SCORE_TYPE_COUNT; type++)
        for (int i = 0; i < 6; i++) {
            const double value = numbers.numbers[type][i];
            task_put(run->metrics, names[type][i], value < 0 ? NAN : value, out->values); /* -1: none */
        }
    return ERR_OK;
}

static const task_kind_t detectors = {
    .name = "detector",
    .task = "detect",
    .detects = true,
    /* torchvision's references; from scratch as in results/detection_train.md */
    .defaults = {16, 0.02, 1000, 0.001, "adamw", 3e-4},
    .lacks = lacks,
    .n_option_groups = 2,
    .why_host = "a detector's boxes are chosen on the host",
    .on_canvas = true,
    .passes_per_sample = 2, /* blocks of rows repeat their layers */
    .sources = "lists",
    .sum_names = sum_names,
    .rule = rcnn_algorithms,
    .check_options = detect_check_options,
    .transform = detect_transform,
    .set_model = detect_set_model,
    .check_model = detect_check_model,
    .list_sizes = detect_list_sizes,
    .plan = detect_plan,
    .close = detect_close,
    .describe = detect_describe,
    .show = detect_show,
    .pass = detect_pass,
    .find_nonfinite = detect_find_nonfinite,
    .record = detect_record,
    .evaluate = detect_evaluate};

const task_t task_detect = {.name = "detect",
                            .id = TASK_DETECT,
                            .kind = &detectors,
                            .about = "objects with boxes and masks",
                            .metrics = metrics,
                            .fits = rcnn_is};
