/* SPDX-License-Identifier: MIT */
/* Counts images, formats, sizes, objects and categories in one pass over a source, and chooses images with a seeded
 * sampler, optionally of one category. show.c prints the counts. */
#include "data/show/survey.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/stats.h"
#include "data/dataset/sampler.h"
#include "text/progress.h"

/* The values of all images of a split, for medians. */
typedef struct sizes {
    double *values;
    int64_t n;
} sizes_t;

typedef struct surveyor {
    const source_t *source;
    const survey_options_t *options;
    survey_t *survey;
    int64_t *seen; /* per category: the number, from 1, of the last image that has it */
    int64_t n_seen, n_total;
    sizes_t width, height, bytes;
    source_buffer_t buffer;
} surveyor_t;

static void count_category(surveyor_t *s, int32_t category, bool object)
{
    s->survey->categories[category].n_objects += object;
    s->survey->categories[category].n_images += s->seen[category] != s->n_seen;
    s->seen[category] = s->n_seen;
}

static void count_annotations(surveyor_t *s, const sample_t *sample, survey_split_t *split)
{
    if (sample->label >= 0) count_category(s, sample->label, false);
    split->n_empty += sample->label < 0 && sample->n_annotations == 0;
    for (int32_t i = 0; i < sample->n_annotations; i++) {
        const annotation_t *a = &sample->annotations[i];
        count_category(s, a->category, !a->crowd);
        split->n_crowds += a->crowd != 0;
        split->n_objects += !a->crowd;
        if (!a->crowd)
            split->n_sizes[a->area < 32 * 32   ? SURVEY_SMALL
                           : a->area < 96 * 96 ? SURVEY_MEDIUM
                                               : SURVEY_LARGE]++;
    }
}

static err_t read_image(surveyor_t *s, split_t number, int64_t index, sample_t *sample)
{
    image_info_t info;
    survey_split_t *split = &s->survey->splits[number];
    TRY(source_read(s->source, number, index, &s->buffer, sample));
    TRY(image_info((image_bytes_t){sample->name, sample->bytes, sample->n_bytes}, &info));
    split->n_formats[info.format]++;
    split->n_turned += info.orientation != 1;
    return ERR_OK;
}

/* Annotations of unreadable images count, too. */
static err_t count_image(surveyor_t *s, split_t number, int64_t index)
{
    survey_split_t *split = &s->survey->splits[number];
    sample_t sample;
    s->n_seen++;
    split->n_bytes += source_stored_bytes(s->source, &s->source->entries[number][index]);
    err_t err = s->options->read ? read_image(s, number, index, &sample) : ERR_OK;
    if (err != ERR_OK && err != ERR_DATA) return err;
    const bool unreadable = err == ERR_DATA;
    if (unreadable && s->options->tell) s->options->tell(err_message());
    if (unreadable || !s->options->read) err = source_describe(s->source, number, index, &s->buffer, &sample);
    if (err != ERR_OK && err != ERR_DATA) return err;
    /* Not reported yet, because the image was not read. */
    if (err == ERR_DATA && !unreadable && s->options->tell) s->options->tell(err_message());
    split->n_unreadable += unreadable || err == ERR_DATA;
    if (err == ERR_OK) count_annotations(s, &sample, split);
    const source_entry_t *entry = &s->source->entries[number][index];
    int32_t width = entry->width, height = entry->height;
    if (err == ERR_OK && sample.width > 0) width = sample.width, height = sample.height;
    s->bytes.values[s->bytes.n++] = (double)source_stored_bytes(s->source, entry);
    if (width == 0) return ERR_OK;
    s->width.values[s->width.n++] = width;
    s->height.values[s->height.n++] = height;
    return ERR_OK;
}

static survey_range_t range_of(sizes_t *sizes)
{
    if (sizes->n == 0) return (survey_range_t){0};
    const double median = stats_median(sizes->values, sizes->n); /* sorts */
    return (survey_range_t){sizes->n, sizes->values[0], median, sizes->values[sizes->n - 1]};
}

err_t survey_run(const source_t *source, const survey_options_t *options, survey_t *out)
{
    surveyor_t s = {.source = source, .options = options, .survey = out};
    err_t err;
    *out = (survey_t){0};
    const int64_t *n = source->n_samples;
    const int64_t most = n[SPLIT_TRAIN] > n[SPLIT_VAL] ? n[SPLIT_TRAIN] : n[SPLIT_VAL];
    s.n_total = n[SPLIT_TRAIN] + n[SPLIT_VAL];
    TRY_OUT(err, mem_new_array(source->n_categories, sizeof *out->categories, "counts", &out->categories));
    TRY_OUT(err, mem_new_array(source->n_categories, sizeof *s.seen, "counts", &s.seen));
    TRY_OUT(err, mem_new_array(most, sizeof(double), "sizes of images", &s.width.values));
    TRY_OUT(err, mem_new_array(most, sizeof(double), "sizes of images", &s.height.values));
    TRY_OUT(err, mem_new_array(most, sizeof(double), "sizes of images", &s.bytes.values));
    for (split_t number = 0; number < SPLIT_COUNT; number++) {
        survey_split_t *split = &out->splits[number];
        split->n_images = n[number];
        s.width.n = s.height.n = s.bytes.n = 0;
        for (int64_t i = 0; i < split->n_images; i++) {
            TRY_OUT(err, count_image(&s, number, i));
            progress_draw("counting images", s.n_seen, s.n_total, "");
        }
        split->width = range_of(&s.width);
        split->height = range_of(&s.height);
        split->bytes = range_of(&s.bytes);
    }
out:
    progress_clear_line();
    source_free_buffer(source, &s.buffer);
    mem_free(&s.seen);
    mem_free(&s.width.values);
    mem_free(&s.height.values);
    mem_free(&s.bytes.values);
    if (err != ERR_OK) survey_free(out);
    return err;
}

void survey_free(survey_t *survey)
{
    mem_free(&survey->categories);
}

static err_t check_category(const source_t *source, pick_t pick, int32_t category, source_buffer_t *buffer,
                            bool *out)
{
    sample_t sample;
    *out = category < 0;
    if (*out) return ERR_OK;
    err_t err = source_describe(source, pick.split, pick.index, buffer, &sample);
    if (err == ERR_OK) *out = sample.label == category;
    for (int32_t i = 0; err == ERR_OK && !*out && i < sample.n_annotations; i++)
        *out = sample.annotations[i].category == category;
    return err == ERR_DATA ? ERR_OK : err;
}

static int compare_picks(const void *a, const void *b)
{
    const pick_t *x = a, *y = b;
    if (x->split != y->split) return x->split < y->split ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

err_t pick_images(const source_t *source, int32_t category, uint64_t seed, int64_t n_most, pick_t *picks,
                  int64_t *n)
{
    const int64_t n_train = source->n_samples[SPLIT_TRAIN], n_all = n_train + source->n_samples[SPLIT_VAL];
    const sampler_options_t options = {.n_samples = n_all, .global_batch = n_all, .seed = seed};
    sampler_t *sampler = NULL;
    source_buffer_t buffer = {0};
    err_t err = ERR_OK;
    *n = 0;
    if (n_all == 0) return ERR_OK;
    TRY(sampler_new(&options, &sampler));
    const int64_t *order = sampler_at(sampler, 0, 0, 0, 1).index;
    for (int64_t i = 0; i < n_all && *n < n_most; i++) {
        const bool train = order[i] < n_train;
        const pick_t pick = {train ? SPLIT_TRAIN : SPLIT_VAL, train ? order[i] : order[i] - n_train};
        bool wanted = false;
        TRY_OUT(err, check_category(source, pick, category, &buffer, &wanted));
        if (wanted) picks[(*n)++] = pick;
    }
    qsort(picks, (size_t)*n, sizeof *picks, compare_picks);
out:
    source_free_buffer(source, &buffer);
    sampler_free(&sampler);
    return err;
}
