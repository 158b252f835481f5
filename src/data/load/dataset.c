/* SPDX-License-Identifier: MIT */
/* Datasets: chosen by --data, opened, shared between processes, closed. A source's images are read, decoded, cropped
 * and resized on demand: samples.c fills their fields and chooses who lists them, data/transform chooses the part shown. */
#include "data/dataset/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "data/dataset/idx.h"
#include "data/dataset/synth.h"
#include "data/image/orient.h"
#include "data/load/image_files.h"
#include "data/load/samples.h"
#include "data/source/source.h"
#include "data/transform/transform.h"

enum { WHY_MAX = 128 };

/* A list of COCO's form. */
static bool is_list(const char *where)
{
    return fs_exists(where) && !fs_is_folder(where) && source_coco.is(where);
}

bool dataset_is_built_in(const char *where)
{
    return strcmp(where, "digits") == 0 || strcmp(where, "synthetic") == 0;
}

bool dataset_is_there(const char *where)
{
    return dataset_is_built_in(where) || fs_is_folder(where) || idx_is(where) || is_list(where);
}

/* One of the four IDX files is enough to be no source of images; idx_open then reports what is wrong with the others. */
bool dataset_is_shared(const char *where)
{
    return !dataset_is_built_in(where) && (fs_is_folder(where) ? !idx_is(where) : is_list(where));
}

err_t dataset_check_name(const char *option)
{
    if (!option || !dataset_is_built_in(option) || !fs_is_folder(option)) return ERR_OK;
    RAISE(
        ERR_USAGE,
        "--data %s is ambiguous: built-in data, and a folder here; write ./%s for the folder, or rename it to use the "
        "built-in data",
        option, option);
}

/* Why a default folder is passed over; NULL: it has MNIST's files, or cannot be read, which opening it reports. An
 * interrupted download or a folder made ahead must not keep a first run from starting. */
static const char *why_not(const char *folder)
{
    if (!fs_is_folder(folder)) return "does not exist";
    return idx_is(folder) || access(folder, R_OK | X_OK) != 0 ? NULL : "holds no IDX files";
}

err_t dataset_choose(const char *option, char *where, char *why)
{
    if (option) {
        if (!*option) RAISE(ERR_USAGE, "--data is empty; expected a folder, digits, or synthetic");
        TRY(fs_join(where, "", option));
        snprintf(why, WHY_MAX, "from --data");
        if (dataset_is_there(option)) return ERR_OK;
        char hint[1024];
        idx_hint(option, hint, sizeof hint);
        RAISE(ERR_DATA, "--data %s: %s%s%s", option, fs_exists(option) ? "not a folder" : "no such folder",
              hint[0] ? hint : "; ", hint[0] ? "" : DATASET_EXPECTED);
    }
    const char *root = getenv("DPTRAIN_DATA"), *not_there = NULL, *not_here;
    if (root && *root) {
        TRY(fs_join(where, root, "mnist"));
        snprintf(why, WHY_MAX, "from $DPTRAIN_DATA");
        not_there = why_not(where);
        if (!not_there) return ERR_OK;
    }
    char passed_over[64] = "";
    if (not_there) snprintf(passed_over, sizeof passed_over, "$DPTRAIN_DATA/mnist %s", not_there);
    snprintf(where, FS_PATH_MAX, "data/mnist");
    not_here = why_not(where);
    if (!not_here) {
        snprintf(why, WHY_MAX, "the default folder%s%s", not_there ? "; " : "", passed_over);
        return ERR_OK;
    }
    snprintf(where, FS_PATH_MAX, "digits");
    snprintf(why, WHY_MAX, "%s%sdata/mnist %s; data/fetch_mnist.sh downloads MNIST", passed_over,
             not_there ? ", " : "", not_here);
    return ERR_OK;
}

err_t dataset_reader_open(const dataset_t *dataset, dataset_reader_t *out)
{
    const dataset_info_t *info = &dataset->info;
    image_reader_t *r;
    *out = (dataset_reader_t){.dataset = dataset};
    if (!dataset->source && !dataset->files) return ERR_OK;
    TRY(mem_new(sizeof *r, "a reader of images", &r));
    out->impl = r;
    TRY(mem_new_array(info->height * info->width, 3, "an image", &r->rgb));
    if (info->task == TASK_DETECT) TRY(detection_scratch_reserve(info, &r->objects));
    return image_decoder_new((image_limits_t){0}, &r->decoder);
}

void dataset_reader_close(dataset_reader_t *reader)
{
    image_reader_t *r = reader->impl;
    if (r) {
        if (reader->dataset->source) source_free_buffer(reader->dataset->source, &r->buffer);
        image_decoder_free(&r->decoder);
        render_scratch_free(&r->scratch);
        detection_scratch_free(&r->objects);
        mem_free(&r->rgb);
        mem_free(&reader->impl);
    }
    *reader = (dataset_reader_t){0};
}

/* Extends [from, from + length) by the margin and clips it to [0, end); at least 1 long. */
static void add_margin(double *from, double *length, double end)
{
    double to = fmin(*from + *length * (1 + TRANSFORM_MARGIN), end);
    *from = fmax(*from - *length * TRANSFORM_MARGIN, 0);
    *from = fmax(fmin(*from, end - 1), 0);
    *length = fmax(to - *from, 1);
}

/* What is shown of an image: all, or an object's box in the image as shown, extended by TRANSFORM_MARGIN on each side and
 * clipped to the image. */
static image_rect_t region_of(const dataset_t *dataset, const dataset_request_t *request,
                              const sample_t *sample, const image_info_t *info)
{
    double width = (double)info->width, height = (double)info->height;
    if (!samples_of(dataset->info.task)->of_objects) return (image_rect_t){0, 0, width, height};
    const double *stored = sample->annotations[dataset->list.of[request->split][request->index].object].box;
    image_rect_t box = orient_to_shown(info->orientation, info->stored_width, info->stored_height,
                                       (image_rect_t){stored[0], stored[1], stored[2], stored[3]});
    add_margin(&box.x, &box.width, width);
    add_margin(&box.y, &box.height, height);
    return box;
}

/* Both return the CPU time at which the image was decoded. */
static err_t show_in_square(dataset_reader_t *reader, const dataset_request_t *request,
                            const sample_t *sample, image_bytes_t bytes, double *decoded_cpu)
{
    const transform_settings_t *s = &reader->dataset->settings;
    image_reader_t *r = reader->impl;
    image_info_t info;
    image_t image;
    image_rect_t place;
    TRY(source_info(sample, bytes.name, &info));
    image_rect_t region = region_of(reader->dataset, request, sample, &info);
    transform_t transform = request->random
                                ? transform_random(s, request->seed, request->epoch, request->index, region)
                                : transform_fixed(s, region);
    map_size_t size = {info.height, info.width};
    render_window_t window = render_window(&transform, size);
    TRY(image_decode_part(r->decoder, bytes, window.part, window.width, window.height, &image, &place));
    *decoded_cpu = clock_thread_sec();
    return render(&transform, size, &image, place, &r->scratch, r->rgb);
}

static err_t show_on_canvas(dataset_reader_t *reader, const dataset_request_t *request,
                            const sample_t *sample, image_bytes_t bytes, double *decoded_cpu)
{
    image_reader_t *r = reader->impl;
    image_info_t info;
    image_t image;
    image_rect_t place;
    TRY(source_info(sample, bytes.name, &info));
    TRY(detection_find_place(&reader->dataset->settings, request, reader->image, &info, bytes.name,
                             &r->view));
    const image_rect_t whole = {0, 0, (double)info.width, (double)info.height};
    const map_size_t scaled = r->view.place.scaled;
    TRY(image_decode_part(r->decoder, bytes, whole, scaled.width, scaled.height, &image, &place));
    *decoded_cpu = clock_thread_sec();
    return resize(&image, place, r->view.flipped, scaled.width, scaled.height, &r->scratch.resize, r->rgb);
}

/* Turns the hint about samples into one about images. */
static source_near_t find_near(const dataset_t *dataset, const dataset_request_t *request)
{
    const sampler_near_t *near = &request->near;
    const sample_ref_t *refs = dataset->list.of[request->split];
    source_near_t found = {near->first, near->n, near->n, near->n_runs};
    if (near->n < 1 || !refs) return found;
    found.first = refs[near->first].image;
    found.n = refs[near->first + near->n - 1].image - found.first + 1;
    return found;
}

static err_t read_image(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    const dataset_t *dataset = reader->dataset;
    const dataset_info_t *info = &dataset->info;
    const samples_ops_t *samples = samples_of(info->task);
    const sample_ref_t *ref = samples->list ? &dataset->list.of[request->split][request->index] : NULL;
    content_t *content = dataset->content;
    image_reader_t *r = reader->impl;
    char name[FS_PATH_MAX + 512];
    sample_t sample;
    double start = clock_sec();
    reader->image = ref ? ref->image : request->index;
    r->buffer.near = find_near(dataset, request);
    err_t err = source_read(dataset->source, request->split, reader->image, &r->buffer, &sample);
    reader->cost.read += clock_sec() - start;
    TRY(err);
    snprintf(name, sizeof name, "%s (%s, %s)", sample.name, split_words[request->split], info->source);
    if (samples->of_objects && ref->object >= sample.n_annotations)
        RAISE(ERR_DATA, "%s has lost annotations since it was opened", name);
    if (dataset->relabels && sample.label >= 0) sample.label = dataset->relabels[sample.label];
    if (content) TRY(content_note(content, request->split, reader->image, sample.bytes, sample.n_bytes));
    const image_bytes_t bytes = {name, sample.bytes, sample.n_bytes};
    start = clock_sec();
    double start_cpu = clock_thread_sec(), decoded_cpu = start_cpu;
    TRY(samples->on_canvas ? show_on_canvas(reader, request, &sample, bytes, &decoded_cpu)
                           : show_in_square(reader, request, &sample, bytes, &decoded_cpu));
    double end_cpu = clock_thread_sec(), wait = clock_sec() - start - (end_cpu - start_cpu);
    reader->cost.decode += decoded_cpu - start_cpu;
    reader->cost.resize += end_cpu - decoded_cpu;
    reader->cost.cpu_wait += wait > 0 ? wait : 0;
    out->bytes = r->rgb;
    out->place = samples->on_canvas ? &r->view.place : NULL;
    const samples_item_t item = {&sample,
                                 name,
                                 samples->of_objects ? &sample.annotations[ref->object] : NULL,
                                 samples->on_canvas ? &r->view : NULL,
                                 dataset->classes.output,
                                 dataset->settings.skip_unmasked,
                                 &r->objects};
    return request->fields ? samples->fill(info, &item, request->fields) : ERR_OK;
}

err_t dataset_note(dataset_reader_t *reader, split_t split, int64_t image)
{
    image_reader_t *r = reader->impl;
    sample_t sample;
    TRY(source_read(reader->dataset->source, split, image, &r->buffer, &sample));
    return content_note(reader->dataset->content, split, image, sample.bytes, sample.n_bytes);
}

err_t dataset_format(dataset_reader_t *reader, split_t split, int64_t index, char out[DATASET_FORMAT_MAX])
{
    const dataset_t *dataset = reader->dataset;
    image_reader_t *r = reader->impl;
    sample_t sample;
    out[0] = '\0';
    /* Shards would be read; packing has seen every image. */
    if (!dataset->source || dataset->source->ops == &source_shards) return ERR_OK;
    if (dataset->list.of[split]) index = dataset->list.of[split][index].image;
    TRY(source_describe(dataset->source, split, index, &r->buffer, &sample));
    const char *dot = strrchr(sample.name, '.');
    size_t n = 0;
    for (const char *c = dot ? dot + 1 : ""; *c && n < DATASET_FORMAT_MAX - 1; c++)
        out[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    out[n] = '\0';
    if (strcmp(out, "jpeg") == 0) memcpy(out, "jpg", sizeof "jpg");
    return ERR_OK;
}

/* Depends only on the images' sizes, so that a folder and its shards have equal blocks. */
static void set_blocks(dataset_t *dataset)
{
    const source_t *source = dataset->source;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        double n_bytes = 0, n_samples = (double)dataset->info.n_samples[split];
        for (int64_t i = 0; i < source->n_samples[split]; i++)
            n_bytes += (double)source->entries[split][i].n_bytes;
        double n = n_bytes > 0 ? DATASET_BLOCK_BYTES * n_samples / n_bytes : 1;
        dataset->info.block[split] = n < 1 ? 1 : (int64_t)(n < n_samples ? n : n_samples);
    }
}

uint64_t dataset_hash_source(uint64_t hash, transform_task_t task)
{
    const uint64_t parts[] = {hash, (uint64_t)task};
    return XXH3_64bits(parts, sizeof parts);
}

/* Sets everything that follows from the source and the settings. */
static err_t set_images(dataset_t *dataset, const open_watch_t *watch)
{
    dataset_info_t *info = &dataset->info;
    const source_t *source = dataset->source;
    const char *where = source->path, **names;
    transform_settings_t *settings = &dataset->settings;
    sample_list_t *list = &dataset->list;
    TRY(transform_resolve(settings, source->has_annotations, where));
    const samples_ops_t *samples = samples_of(settings->task);
    if (samples->list && !list->of[SPLIT_TRAIN]) TRY(samples->list(source, settings, watch, list));
    if (samples->on_canvas) settings->canvases = list->canvases;
    /* The classes of detection are outputs, of which not all are a category. */
    const bool outputs = settings->task == TASK_DETECT;
    class_map_t *classes = &dataset->classes;
    err_t err = ERR_OK;
    if (outputs) err = class_map_new(source->categories, source->n_categories, settings->n_outputs, classes);
    if (err != ERR_OK) return err_context(err, "%s", where);
    info->n_classes = outputs ? classes->n_classes : source->n_categories;
    TRY(arena_new(&dataset->arena, (size_t)info->n_classes * sizeof *names, &names));
    for (int k = 0; k < info->n_classes; k++) names[k] = k == 0 ? "background" : "";
    for (int k = 0; k < source->n_categories; k++)
        names[outputs ? classes->output[k] : k] = source->categories[k].name;
    info->class_names = names;
    info->kind = "images";
    snprintf(info->source, sizeof info->source, "%s", where);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        info->n_samples[split] = samples->list ? list->n[split] : source->n_samples[split];
    info->objects = list->objects;
    info->notes = source->notes;
    info->about = source->about;
    info->hint = source->hint;
    transform_describe(settings, info->transform, sizeof info->transform);
    const canvases_t *c = &settings->canvases;
    const map_size_t square = {settings->input_size, settings->input_size},
                     size = samples->on_canvas ? c->size[c->n - 1] : square;
    info->height = size.height;
    info->width = size.width;
    info->channels = 3;
    info->task = settings->task;
    info->norm = pixel_norm_imagenet();
    dataset->read = read_image;
    set_blocks(dataset);
    info->hash = dataset_hash_source(source->hash, settings->task);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        if (source->n_samples[split] > INT32_MAX)
            RAISE(ERR_DATA, "%s: %" PRId64 " %s images exceed the limit of %d", where,
                  source->n_samples[split], split_words[split], INT32_MAX);
    return ERR_OK;
}

static void name_file(const void *context, split_t split, int64_t index, char out[CONTENT_NAME_MAX])
{
    const source_t *source = context;
    source_buffer_t buffer = {0};
    sample_t sample;
    bool known = source_describe(source, split, index, &buffer, &sample) == ERR_OK;
    snprintf(out, CONTENT_NAME_MAX, "%.500s (%s, %.400s)", known ? sample.name : "an image",
             split_words[split], source->path);
    source_free_buffer(source, &buffer);
}

static err_t new_content(dataset_t *dataset)
{
    const source_t *source = dataset->source;
    if (!source->ops->files) return ERR_OK;
    TRY(content_new(source->n_samples, &dataset->content));
    dataset->content->name_of = name_file;
    dataset->content->context = source;
    return ERR_OK;
}

static err_t open_images(dataset_t *dataset, const char *where, const open_watch_t *watch)
{
    TRY(source_open_watched(where, &dataset->settings.list, watch, &dataset->source));
    TRY(set_images(dataset, watch));
    TRY(new_content(dataset));
    content_t *content = dataset->content;
    source_buffer_t buffer = {0};
    sample_t sample;
    if (content) TRY(content_new_names(content));
    for (split_t split = 0; content && split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < content->n[split]; i++) {
            TRY(source_describe(dataset->source, split, i, &buffer, &sample)); /* files need no buffer */
            content->names[split][i] = content_name(split, sample.name, (int64_t)sample.n_bytes);
            content->times[split][i] = dataset->source->entries[split][i].time_ns;
        }
    if (dataset->info.n_classes < 1) RAISE(ERR_DATA, "%s has no categories", where);
    return ERR_OK;
}

static err_t new_dataset(const transform_settings_t *settings, dataset_t **out)
{
    TRY(mem_new(sizeof **out, "a dataset", out));
    if (settings) (*out)->settings = *settings;
    for (split_t split = 0; split < SPLIT_COUNT; split++) (*out)->info.block[split] = 1;
    return ERR_OK;
}

err_t dataset_open(const char *where, const transform_settings_t *settings, dataset_t **out)
{
    return dataset_open_watched(where, settings, NULL, out);
}

err_t dataset_open_watched(const char *where, const transform_settings_t *settings, const open_watch_t *watch,
                           dataset_t **out)
{
    const holdout_t *holdout = settings ? &settings->list.holdout : NULL;
    dataset_t *dataset = NULL;
    if (holdout && holdout->share > 0 && holdout->required && !dataset_is_shared(where))
        RAISE(ERR_USAGE, "--val-split: %s has validation images of its own; omit the option", where);
    TRY(new_dataset(settings, &dataset));
    err_t err = dataset_is_shared(where)       ? open_images(dataset, where, watch)
                : strcmp(where, "digits") == 0 ? digits_open(dataset)
                : dataset_is_built_in(where)   ? synthetic_open(dataset, dataset->settings.input_size)
                                               : idx_open(where, dataset);
    if (err != ERR_OK) {
        dataset_close(&dataset);
        return err;
    }
    if (!dataset->read) dataset_measure(dataset);
    *out = dataset;
    return ERR_OK;
}

void dataset_close(dataset_t **dataset)
{
    dataset_t *d = *dataset;
    if (!d) return;
    for (split_t split = 0; split < SPLIT_COUNT; split++) mem_free(&d->list.of[split]);
    content_free(&d->content);
    class_map_free(&d->classes);
    source_close(&d->source);
    image_files_free(&d->files);
    dataset_free_memory(d);
    mem_free(dataset);
}

/* Of images in memory, all may have the same of several labels. */
static bool labels_differ(const dataset_t *dataset)
{
    const uint8_t *labels = dataset->labels[SPLIT_TRAIN];
    const int64_t n = dataset->info.n_samples[SPLIT_TRAIN];
    return !labels || n < 2 || memcmp(labels, labels + 1, (size_t)(n - 1)) != 0;
}

err_t dataset_check_training(const dataset_t *dataset)
{
    const dataset_info_t *info = &dataset->info;
    const samples_ops_t *samples = samples_of(info->task);
    const char *hint = info->hint ? info->hint : "", *begin = hint[0] ? "; " : "";
    if (info->n_samples[SPLIT_TRAIN] < 1)
        RAISE(ERR_DATA, "%s has no %s%s%s", info->source, samples->none, begin, hint);
    if (!samples->one_label || (info->n_classes > 1 && labels_differ(dataset))) return ERR_OK;
    char class_name[32];
    const int k = info->n_classes > 1 ? dataset->labels[SPLIT_TRAIN][0] : 0;
    snprintf(class_name, sizeof class_name, "%d", k);
    RAISE(ERR_DATA,
          "%s has training images of one class only, %s, so that every answer would be right: accuracy 1, "
          "loss 0, nothing learned%s%s",
          info->source, info->class_names ? info->class_names[k] : class_name, begin, hint);
}

/* Ends the bytes of a list of samples. */
typedef struct tail {
    int64_t n[SPLIT_COUNT];
    dataset_objects_t objects;
    canvases_t canvases;
} tail_t;

/* The source, followed by the list of samples. */
err_t dataset_save(const dataset_t *dataset, void **bytes, int64_t *n_bytes)
{
    const sample_list_t *list = &dataset->list;
    TRY(source_save(dataset->source, bytes, n_bytes));
    if (!samples_of(dataset->info.task)->list) return ERR_OK;
    const tail_t tail = {.n = {list->n[SPLIT_TRAIN], list->n[SPLIT_VAL]},
                         .objects = list->objects,
                         .canvases = list->canvases};
    const size_t n_refs = (size_t)(tail.n[SPLIT_TRAIN] + tail.n[SPLIT_VAL]) * sizeof(sample_ref_t);
    TRY(mem_resize((size_t)*n_bytes + n_refs + sizeof tail, "the list of samples", bytes));
    char *at = (char *)*bytes + *n_bytes;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        const size_t n_split = (size_t)tail.n[split] * sizeof(sample_ref_t);
        if (n_split) memcpy(at, list->of[split], n_split);
        at += n_split;
    }
    memcpy(at, &tail, sizeof tail);
    *n_bytes += (int64_t)(n_refs + sizeof tail);
    return ERR_OK;
}

/* The rank that opened the dataset has checked it; only lengths and indices are checked again. */
static err_t restore_images(dataset_t *dataset, void **bytes, int64_t n_bytes)
{
    sample_list_t *list = &dataset->list;
    if (samples_of(dataset->settings.task)->list) { /* from the end; what is left is the source's part */
        tail_t tail;
        int64_t left = n_bytes - (int64_t)sizeof tail;
        const int64_t most = left / (int64_t)sizeof(sample_ref_t);
        if (left >= 0) memcpy(&tail, (const char *)*bytes + left, sizeof tail);
        if (left < 0 || tail.n[SPLIT_TRAIN] < 0 || tail.n[SPLIT_TRAIN] > most || tail.n[SPLIT_VAL] < 0 ||
            tail.n[SPLIT_VAL] > most - tail.n[SPLIT_TRAIN])
            RAISE(ERR_DATA, "the list of samples from rank 0 is damaged: its lengths do not match");
        n_bytes = left - (tail.n[SPLIT_TRAIN] + tail.n[SPLIT_VAL]) * (int64_t)sizeof(sample_ref_t);
        const char *at = (const char *)*bytes + n_bytes;
        for (split_t split = 0; split < SPLIT_COUNT; split++) {
            const size_t n_split = (size_t)tail.n[split] * sizeof(sample_ref_t);
            TRY(mem_new(n_split, "the list of samples", &list->of[split]));
            memcpy(list->of[split], at, n_split);
            at += n_split;
            list->n[split] = tail.n[split];
        }
        list->objects = tail.objects;
        list->canvases = tail.canvases;
    }
    TRY(source_restore(bytes, n_bytes, &dataset->source));
    if (list->canvases.n < 0 || list->canvases.n > CANVAS_MAX)
        RAISE(ERR_DATA, "the list of samples from rank 0 has %d canvases", list->canvases.n);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < list->n[split]; i++)
            if (list->of[split][i].image < 0 || list->of[split][i].object < 0 ||
                list->of[split][i].image >= dataset->source->n_samples[split])
                RAISE(ERR_DATA, "the list of samples from rank 0 refers to unknown images");
    TRY(set_images(dataset, NULL));
    return new_content(dataset);
}

err_t dataset_restore(const transform_settings_t *settings, void **bytes, int64_t n_bytes, dataset_t **out)
{
    dataset_t *dataset = NULL;
    TRY(new_dataset(settings, &dataset));
    err_t err = restore_images(dataset, bytes, n_bytes);
    if (err == ERR_OK)
        *out = dataset;
    else
        dataset_close(&dataset);
    return err;
}

void dataset_weigh(const void *weigher, int64_t epoch, int64_t index, sampler_weight_t *out)
{
    const dataset_weigher_t *w = weigher;
    const dataset_t *dataset = w->dataset;
    *out = (sampler_weight_t){0};
    if (!samples_of(dataset->info.task)->on_canvas) return;
    const sample_ref_t *ref = &dataset->list.of[w->split][index];
    const canvas_view_t view = transform_view(&dataset->settings, w->seed, epoch, ref->image);
    detection_weigh(&dataset->settings, &dataset->source->entries[w->split][ref->image], ref->object, &view,
                    out);
}

bool dataset_name(const dataset_t *dataset, split_t split, int64_t index, char *out, size_t n_bytes)
{
    source_buffer_t buffer = {0};
    sample_t sample;
    if (!dataset->source) return false;
    if (dataset->list.of[split]) index = dataset->list.of[split][index].image;
    const bool known = source_describe(dataset->source, split, index, &buffer, &sample) == ERR_OK;
    if (known) snprintf(out, n_bytes, "%s", sample.name);
    source_free_buffer(dataset->source, &buffer);
    return known;
}

static int by_size(const void *a, const void *b)
{
    const sample_t *x = a, *y = b;
    const int32_t short_x = x->width < x->height ? x->width : x->height,
                  short_y = y->width < y->height ? y->width : y->height;
    if (short_x != short_y) return short_x < short_y ? -1 : 1;
    return x->width != y->width ? (x->width > y->width) - (x->width < y->width)
                                : (x->height > y->height) - (x->height < y->height);
}

void dataset_look(const dataset_t *dataset, double max_sec, images_sizes_t *out)
{
    enum { STRIDE = 39 }; /* odd: so that a few looks, too, are spread */
    const source_t *source = dataset->source;
    sample_t seen[IMAGES_LOOKS];
    source_buffer_t buffer = {0};
    *out = (images_sizes_t){0};
    if (!source) return;
    const int64_t n_images = source->n_samples[SPLIT_TRAIN],
                  looks = n_images < IMAGES_LOOKS ? n_images : IMAGES_LOOKS;
    const source_entry_t *entries = source->entries[SPLIT_TRAIN];
    const double start = clock_sec();
    int n = 0;
    for (int64_t i = 0; i < looks && (i == 0 || clock_sec() < start + max_sec); i++) {
        const int64_t k = looks == IMAGES_LOOKS ? i * STRIDE % looks : i, index = k * n_images / looks;
        sample_t sample = {.width = entries[index].width, .height = entries[index].height};
        if (sample.width == 0 && source_read(source, SPLIT_TRAIN, index, &buffer, &sample) != ERR_OK)
            continue;
        seen[n++] = sample;
    }
    source_free_buffer(source, &buffer);
    qsort(seen, (size_t)n, sizeof *seen, by_size);
    if (n == 0) return;
    for (int i = 0, first = 0; i < n; i++) {
        if (by_size(&seen[first], &seen[i]) != 0) first = i;
        if (2 * (i + 1 - first) > n) out->width = seen[i].width, out->height = seen[i].height;
    }
    const int at[] = {0, n / 2, n - 1};
    int64_t *const to[] = {&out->shortest, &out->median, &out->longest};
    for (int k = 0; k < 3; k++) {
        const sample_t *s = &seen[at[k]];
        *to[k] = s->width < s->height ? s->width : s->height;
    }
    out->alike = by_size(&seen[0], &seen[n - 1]) == 0;
    out->n = n;
}

bool dataset_has_labels(const dataset_t *dataset)
{
    return dataset->source && dataset->info.task == TASK_CLASSIFY;
}

err_t dataset_set_labels(dataset_t *dataset, const int32_t *labels, int n_classes)
{
    int32_t *relabels;
    const size_t n_bytes = (size_t)dataset->info.n_classes * sizeof *labels;
    ASSERT(dataset_has_labels(dataset) && !dataset->relabels);
    TRY(arena_new(&dataset->arena, n_bytes, &relabels));
    memcpy(relabels, labels, n_bytes);
    dataset->relabels = relabels;
    dataset->info.n_classes = n_classes;
    dataset->info.class_names = NULL;
    return ERR_OK;
}
