/* SPDX-License-Identifier: MIT */
/* A source of images as a dataset: reads, decodes, crops and resizes each sample on demand. samples.c fills
 * its fields and chooses who lists them, data/transform chooses the part shown. */
#include "data/load/images.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/clock.h"
#include "base/mem.h"
#include "data/image/orient.h"
#include "data/load/samples.h"
#include "data/source/source.h"
#include "data/transform/transform.h"

typedef struct images {
    source_t *source;
    transform_settings_t settings;
    const samples_ops_t *samples; /* of the task */
    const char **names;           /* of the classes */
    class_map_t classes;          /* TASK_DETECT */
    sample_list_t list;           /* samples->list: the samples */
    int32_t *labels;              /* images_set_labels: of the source's; NULL: the same */
} images_t;

typedef struct reader {
    source_buffer_t buffer;
    image_decoder_t *decoder;
    render_scratch_t scratch;
    uint8_t *rgb;          /* the transformed image: [height, width, 3] */
    detection_view_t view; /* TASK_DETECT: how the last image is shown */
    detection_scratch_t objects;
} reader_t;

/* Depends only on the images' sizes, so that a folder and its shards have equal blocks. */
static void set_blocks(dataset_t *dataset)
{
    const source_t *source = ((const images_t *)dataset->impl)->source;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        double n_bytes = 0, n_samples = (double)dataset->info.n_samples[split];
        for (int64_t i = 0; i < source->n_samples[split]; i++)
            n_bytes += (double)source->entries[split][i].n_bytes;
        double n = n_bytes > 0 ? DATASET_BLOCK_BYTES * n_samples / n_bytes : 1;
        dataset->info.block[split] = n < 1 ? 1 : (int64_t)(n < n_samples ? n : n_samples);
    }
}

uint64_t images_hash(const source_t *source, transform_task_t task)
{
    const uint64_t parts[] = {source->hash, (uint64_t)task};
    return XXH3_64bits(parts, sizeof parts);
}

static err_t new_images(dataset_t *dataset, const transform_settings_t *settings, images_t **out)
{
    TRY(mem_new(sizeof **out, "a set of images", out));
    dataset->impl = *out;
    (*out)->settings = *settings;
    (*out)->samples = samples_of(settings->task);
    return ERR_OK;
}

/* Sets everything that follows from the source and the settings. */
static err_t set_dataset(dataset_t *dataset)
{
    images_t *p = dataset->impl;
    dataset_info_t *info = &dataset->info;
    const source_t *source = p->source;
    const char *where = source->path;
    TRY(transform_resolve(&p->settings, source->has_annotations, where));
    p->samples = samples_of(p->settings.task);
    if (p->samples->list && !p->list.of[SPLIT_TRAIN])
        TRY(p->samples->list(source, &p->settings, dataset->watch, &p->list));
    if (p->samples->on_canvas) p->settings.canvases = p->list.canvases;
    /* The classes of detection are outputs, of which not all are a category. */
    const bool outputs = p->settings.task == TASK_DETECT;
    err_t err = outputs ? class_map_new(source->categories, source->n_categories, &p->classes) : ERR_OK;
    if (err != ERR_OK) return err_context(err, "%s", where);
    info->n_classes = outputs ? p->classes.n_classes : source->n_categories;
    TRY(mem_new_array(info->n_classes, sizeof *p->names, "names of categories", &p->names));
    for (int k = 0; k < info->n_classes; k++) p->names[k] = k == 0 ? "background" : "";
    for (int k = 0; k < source->n_categories; k++)
        p->names[outputs ? p->classes.output[k] : k] = source->categories[k].name;
    info->class_names = p->names;
    snprintf(info->source, sizeof info->source, "%s", where);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        info->n_samples[split] = p->samples->list ? p->list.n[split] : source->n_samples[split];
    info->objects = p->list.objects;
    info->notes = source->notes;
    info->about = source->about;
    info->hint = source->hint;
    transform_describe(&p->settings, info->transform, sizeof info->transform);
    const canvases_t *c = &p->settings.canvases;
    const map_size_t square = {p->settings.input_size, p->settings.input_size},
                     size = p->samples->on_canvas ? c->size[c->n - 1] : square;
    info->height = size.height;
    info->width = size.width;
    info->channels = 3;
    info->task = p->settings.task;
    info->norm = pixel_norm_imagenet();
    info->hash = images_hash(source, p->settings.task);
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
    const source_t *source = ((const images_t *)dataset->impl)->source;
    if (!source->ops->files) return ERR_OK;
    TRY(content_new(source->n_samples, &dataset->content));
    dataset->content->name_of = name_file;
    dataset->content->context = source;
    return ERR_OK;
}

static err_t open_images(dataset_t *dataset, const char *where, const transform_settings_t *settings)
{
    images_t *p = NULL;
    TRY(new_images(dataset, settings, &p));
    TRY(source_open_watched(where, &settings->list, dataset->watch, &p->source));
    TRY(set_dataset(dataset));
    set_blocks(dataset);
    TRY(new_content(dataset));
    content_t *content = dataset->content;
    source_buffer_t buffer = {0};
    sample_t sample;
    if (content) TRY(content_new_names(content));
    for (split_t split = 0; content && split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < content->n[split]; i++) {
            TRY(source_describe(p->source, split, i, &buffer, &sample)); /* files need no buffer */
            content->names[split][i] = content_name(split, sample.name, (int64_t)sample.n_bytes);
            content->times[split][i] = p->source->entries[split][i].time_ns;
        }
    if (dataset->info.n_classes < 1) RAISE(ERR_DATA, "%s has no categories", where);
    return ERR_OK;
}

/* Ends the bytes of a list of samples. */
typedef struct tail {
    int64_t n[SPLIT_COUNT];
    dataset_objects_t objects;
    canvases_t canvases;
} tail_t;

/* The source, followed by the list of samples. */
static err_t save_images(const dataset_t *dataset, void **bytes, int64_t *n_bytes)
{
    const images_t *p = dataset->impl;
    const sample_list_t *list = &p->list;
    TRY(source_save(p->source, bytes, n_bytes));
    if (!p->samples->list) return ERR_OK;
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
static err_t restore_images(dataset_t *dataset, const transform_settings_t *settings, void **bytes,
                            int64_t n_bytes)
{
    images_t *p = NULL;
    const bool listed = samples_of(settings->task)->list != NULL;
    TRY(new_images(dataset, settings, &p));
    sample_list_t *list = &p->list;
    if (listed) { /* from the end; what is left is the source's part */
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
    TRY(source_restore(bytes, n_bytes, &p->source));
    if (list->canvases.n < 0 || list->canvases.n > CANVAS_MAX)
        RAISE(ERR_DATA, "the list of samples from rank 0 has %d canvases", list->canvases.n);
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < list->n[split]; i++)
            if (list->of[split][i].image < 0 || list->of[split][i].object < 0 ||
                list->of[split][i].image >= p->source->n_samples[split])
                RAISE(ERR_DATA, "the list of samples from rank 0 refers to unknown images");
    TRY(set_dataset(dataset));
    set_blocks(dataset);
    return new_content(dataset);
}

static void close_images(dataset_t *dataset)
{
    images_t *p = dataset->impl;
    if (!p) return;
    content_free(&dataset->content);
    for (split_t split = 0; split < SPLIT_COUNT; split++) mem_free(&p->list.of[split]);
    class_map_free(&p->classes);
    mem_free(&p->names);
    mem_free(&p->labels);
    source_close(&p->source);
    mem_free(&dataset->impl);
}

static err_t open_reader(dataset_reader_t *out)
{
    const dataset_info_t *info = &out->dataset->info;
    reader_t *r;
    TRY(mem_new(sizeof *r, "a reader of images", &r));
    out->impl = r;
    TRY(mem_new_array(info->height * info->width, 3, "an image", &r->rgb));
    if (info->task == TASK_DETECT) TRY(detection_scratch_reserve(info, &r->objects));
    return image_decoder_new((image_limits_t){0}, &r->decoder);
}

static void close_reader(dataset_reader_t *reader)
{
    reader_t *r = reader->impl;
    if (!r) return;
    const images_t *p = reader->dataset->impl;
    source_free_buffer(p->source, &r->buffer);
    image_decoder_free(&r->decoder);
    render_scratch_free(&r->scratch);
    detection_scratch_free(&r->objects);
    mem_free(&r->rgb);
    mem_free(&reader->impl);
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
static image_rect_t region_of(const images_t *p, const dataset_request_t *request, const sample_t *sample,
                              const image_info_t *info)
{
    double width = (double)info->width, height = (double)info->height;
    if (!p->samples->of_objects) return (image_rect_t){0, 0, width, height};
    const double *stored = sample->annotations[p->list.of[request->split][request->index].object].box;
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
    const images_t *p = reader->dataset->impl;
    const transform_settings_t *s = &p->settings;
    reader_t *r = reader->impl;
    image_info_t info;
    image_t image;
    image_rect_t place;
    TRY(source_info(sample, bytes.name, &info));
    image_rect_t region = region_of(p, request, sample, &info);
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
    const images_t *p = reader->dataset->impl;
    reader_t *r = reader->impl;
    image_info_t info;
    image_t image;
    image_rect_t place;
    TRY(source_info(sample, bytes.name, &info));
    TRY(detection_find_place(&p->settings, request, reader->image, &info, bytes.name, &r->view));
    const image_rect_t whole = {0, 0, (double)info.width, (double)info.height};
    const map_size_t scaled = r->view.place.scaled;
    TRY(image_decode_part(r->decoder, bytes, whole, scaled.width, scaled.height, &image, &place));
    *decoded_cpu = clock_thread_sec();
    return resize(&image, place, r->view.flipped, scaled.width, scaled.height, &r->scratch.resize, r->rgb);
}

/* Turns the hint about samples into one about images. */
static source_near_t find_near(const images_t *p, const dataset_request_t *request)
{
    const sampler_near_t *near = &request->near;
    const sample_ref_t *refs = p->list.of[request->split];
    source_near_t found = {near->first, near->n, near->n, near->n_runs};
    if (near->n < 1 || !refs) return found;
    found.first = refs[near->first].image;
    found.n = refs[near->first + near->n - 1].image - found.first + 1;
    return found;
}

static err_t read_image(dataset_reader_t *reader, const dataset_request_t *request, dataset_sample_t *out)
{
    const images_t *p = reader->dataset->impl;
    const dataset_info_t *info = &reader->dataset->info;
    const sample_ref_t *ref = p->samples->list ? &p->list.of[request->split][request->index] : NULL;
    content_t *content = reader->dataset->content;
    reader_t *r = reader->impl;
    char name[FS_PATH_MAX + 512];
    sample_t sample;
    double start = clock_sec();
    reader->image = ref ? ref->image : request->index;
    r->buffer.near = find_near(p, request);
    err_t err = source_read(p->source, request->split, reader->image, &r->buffer, &sample);
    reader->cost.read += clock_sec() - start;
    TRY(err);
    snprintf(name, sizeof name, "%s (%s, %s)", sample.name, split_words[request->split], info->source);
    if (p->samples->of_objects && ref->object >= sample.n_annotations)
        RAISE(ERR_DATA, "%s has lost annotations since it was opened", name);
    if (p->labels && sample.label >= 0) sample.label = p->labels[sample.label];
    if (content) TRY(content_note(content, request->split, reader->image, sample.bytes, sample.n_bytes));
    const image_bytes_t bytes = {name, sample.bytes, sample.n_bytes};
    start = clock_sec();
    double start_cpu = clock_thread_sec(), decoded_cpu = start_cpu;
    TRY(p->samples->on_canvas ? show_on_canvas(reader, request, &sample, bytes, &decoded_cpu)
                              : show_in_square(reader, request, &sample, bytes, &decoded_cpu));
    double end_cpu = clock_thread_sec(), wait = clock_sec() - start - (end_cpu - start_cpu);
    reader->cost.decode += decoded_cpu - start_cpu;
    reader->cost.resize += end_cpu - decoded_cpu;
    reader->cost.cpu_wait += wait > 0 ? wait : 0;
    out->bytes = r->rgb;
    out->place = p->samples->on_canvas ? &r->view.place : NULL;
    const samples_item_t item = {&sample,
                                 name,
                                 p->samples->of_objects ? &sample.annotations[ref->object] : NULL,
                                 p->samples->on_canvas ? &r->view : NULL,
                                 p->classes.output,
                                 &r->objects};
    return request->fields ? p->samples->fill(info, &item, request->fields) : ERR_OK;
}

static err_t note_image(dataset_reader_t *reader, split_t split, int64_t image)
{
    const images_t *p = reader->dataset->impl;
    reader_t *r = reader->impl;
    sample_t sample;
    TRY(source_read(p->source, split, image, &r->buffer, &sample));
    return content_note(reader->dataset->content, split, image, sample.bytes, sample.n_bytes);
}

static err_t format_of_image(dataset_reader_t *reader, split_t split, int64_t index,
                             char out[DATASET_FORMAT_MAX])
{
    const images_t *p = reader->dataset->impl;
    reader_t *r = reader->impl;
    sample_t sample;
    out[0] = '\0';
    if (p->source->ops == &source_shards) return ERR_OK; /* would be read; packing has seen every image */
    if (p->samples->list) index = p->list.of[split][index].image;
    TRY(source_describe(p->source, split, index, &r->buffer, &sample));
    const char *dot = strrchr(sample.name, '.');
    size_t n = 0;
    for (const char *c = dot ? dot + 1 : ""; *c && n < DATASET_FORMAT_MAX - 1; c++)
        out[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    out[n] = '\0';
    if (strcmp(out, "jpeg") == 0) memcpy(out, "jpg", sizeof "jpg");
    return ERR_OK;
}

static void weigh_image(const dataset_t *dataset, split_t split, uint64_t seed, int64_t epoch, int64_t index,
                        sampler_weight_t *out)
{
    const images_t *p = dataset->impl;
    *out = (sampler_weight_t){0};
    if (!p->samples->on_canvas) return;
    const sample_ref_t *ref = &p->list.of[split][index];
    const canvas_view_t view = transform_view(&p->settings, seed, epoch, ref->image);
    detection_weigh(&p->settings, &p->source->entries[split][ref->image], ref->object, &view, out);
}

bool images_name(const dataset_t *dataset, split_t split, int64_t index, char *out, size_t n_bytes)
{
    const images_t *p = dataset->impl;
    source_buffer_t buffer = {0};
    sample_t sample;
    if (dataset->ops != &dataset_images) return false;
    if (p->samples->list) index = p->list.of[split][index].image;
    const bool known = source_describe(p->source, split, index, &buffer, &sample) == ERR_OK;
    if (known) snprintf(out, n_bytes, "%s", sample.name);
    source_free_buffer(p->source, &buffer);
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

void images_look(const dataset_t *dataset, double max_sec, images_sizes_t *out)
{
    enum { STRIDE = 39 }; /* odd: so that a few looks, too, are spread */
    const images_t *p = dataset->impl;
    sample_t seen[IMAGES_LOOKS];
    source_buffer_t buffer = {0};
    *out = (images_sizes_t){0};
    if (dataset->ops != &dataset_images) return;
    const int64_t n_images = p->source->n_samples[SPLIT_TRAIN],
                  looks = n_images < IMAGES_LOOKS ? n_images : IMAGES_LOOKS;
    const source_entry_t *entries = p->source->entries[SPLIT_TRAIN];
    const double start = clock_sec();
    int n = 0;
    for (int64_t i = 0; i < looks && (i == 0 || clock_sec() < start + max_sec); i++) {
        const int64_t k = looks == IMAGES_LOOKS ? i * STRIDE % looks : i, index = k * n_images / looks;
        sample_t sample = {.width = entries[index].width, .height = entries[index].height};
        if (sample.width == 0 && source_read(p->source, SPLIT_TRAIN, index, &buffer, &sample) != ERR_OK)
            continue;
        seen[n++] = sample;
    }
    source_free_buffer(p->source, &buffer);
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

bool images_have_labels(const dataset_t *dataset)
{
    return dataset->ops == &dataset_images && dataset->info.task == TASK_CLASSIFY;
}

err_t images_set_labels(dataset_t *dataset, const int32_t *labels, int n_classes)
{
    images_t *p = dataset->impl;
    ASSERT(images_have_labels(dataset) && !p->labels);
    TRY(mem_new_array(dataset->info.n_classes, sizeof *labels, "labels of classes", &p->labels));
    memcpy(p->labels, labels, (size_t)dataset->info.n_classes * sizeof *labels);
    dataset->info.n_classes = n_classes;
    dataset->info.class_names = NULL;
    return ERR_OK;
}

bool images_detection(const dataset_t *dataset, images_detection_t *out)
{
    if (dataset->ops != &dataset_images || dataset->info.task != TASK_DETECT) return false;
    const images_t *p = dataset->impl;
    *out = (images_detection_t){p->source, &p->settings.canvases, &p->classes};
    return true;
}

const dataset_ops_t dataset_images = {.kind = "images",
                                      .open = open_images,
                                      .close = close_images,
                                      .reader_open = open_reader,
                                      .reader_close = close_reader,
                                      .read = read_image,
                                      .format = format_of_image,
                                      .note = note_image,
                                      .weigh = weigh_image,
                                      .save = save_images,
                                      .restore = restore_images};
