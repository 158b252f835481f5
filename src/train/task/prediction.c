/* SPDX-License-Identifier: MIT */
/* Ranks the classes of an image and shows them. Reading images is left to data/load/image_files.c. */
#include "train/task/prediction.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/image/resize.h"
#include "data/show/caption.h"
#include "data/show/font.h"

/* NaN ranks below all other scores. */
static bool is_better(const float *logits, int a, int b)
{
    if (isnan(logits[a]) || isnan(logits[b])) return !isnan(logits[a]) || (isnan(logits[b]) && a < b);
    return logits[a] > logits[b] || (!(logits[a] < logits[b]) && a < b);
}

void prediction_rank(const float *logits, int n_classes,
                     double (*probability)(const float *logits, int n_classes, int k), int n,
                     prediction_class_t *out)
{
    int n_kept = 0;
    for (int k = 0; k < n_classes; k++) {
        int at = n_kept < n ? n_kept++ : n;
        for (; at > 0 && is_better(logits, k, out[at - 1].class); at--)
            if (at < n) out[at] = out[at - 1];
        if (at < n) out[at].class = k;
    }
    for (int i = 0; i < n; i++) out[i].probability = probability(logits, n_classes, out[i].class);
}

/* The class's name, or its number. */
typedef struct class_text {
    char text[256];
} class_text_t;

static class_text_t class_text(const prediction_t *p, int i)
{
    class_text_t out;
    const char *const *names = p->info->class_names;
    if (names)
        snprintf(out.text, sizeof out.text, "%s", names[p->best[i].class]);
    else
        snprintf(out.text, sizeof out.text, "%d", p->best[i].class);
    return out;
}

void prediction_print(const prediction_t *p)
{
    log_info("%s", p->image);
    for (int i = 0; i < p->n; i++) log_info("  %.4f  %s", p->best[i].probability, class_text(p, i).text);
}

void prediction_json(const prediction_t *p, const char *error, json_t *j)
{
    json_object_begin(j, NULL);
    json_string(j, "record", "prediction");
    json_string(j, "image", p->image);
    if (error) {
        json_string(j, "error", error);
    } else {
        json_array_begin(j, "classes");
        for (int i = 0; i < p->n; i++) {
            json_object_begin(j, NULL);
            json_int(j, "class", p->best[i].class);
            if (p->info->class_names) json_string(j, "name", p->info->class_names[p->best[i].class]);
            json_real(j, "probability", p->best[i].probability);
            json_object_end(j);
        }
        json_array_end(j);
    }
    json_object_end(j);
}

/* In pixels. */
enum {
    MARGIN = 16,
    SMALL = 280,
    LARGE = 640,
    WIDTH = 320,
    GAP = 12,
    LINE = 22,
    SCALE = 2,
    BAR = 18,
    NUMBER = 92
};

static const rgb_t paper = {250, 250, 248}, ink = {32, 36, 42}, faint = {100, 106, 114},
                   bar_blue = {176, 203, 232};

static double share_of(double probability)
{
    return probability > 0 ? fmin(probability, 1) : 0; /* NaN: 0 */
}

static void draw_classes(const prediction_t *p, int64_t y, page_t *page)
{
    char text[32];
    int64_t width = page->width - 2 * MARGIN;
    caption_fitting(page, MARGIN, y, width, (text_style_t){1, faint}, p->image);
    y += LINE;
    for (int i = 0; i < p->n; i++, y += LINE) {
        double probability = p->best[i].probability;
        int64_t filled = (int64_t)(share_of(probability) * (double)width);
        page_fill(page, (page_box_t){MARGIN, y, filled, BAR}, bar_blue);
        snprintf(text, sizeof text, "%.4f", probability);
        page_text(page, MARGIN + 2, y + 2, (text_style_t){SCALE, ink}, text);
        caption_fitting(page, MARGIN + NUMBER, y + 2, width - NUMBER, (text_style_t){SCALE, ink},
                        class_text(p, i).text);
    }
}

/* The size at which an image is drawn: large ones are reduced, small ones enlarged by a whole factor. */
static void drawn_size(const image_t *image, int64_t *width, int64_t *height)
{
    int64_t longer = image->width > image->height ? image->width : image->height;
    *width = image->width * (longer < SMALL ? SMALL / longer : 1);
    *height = image->height * (longer < SMALL ? SMALL / longer : 1);
    if (longer <= LARGE) return;
    *width = (image->width * LARGE + longer - 1) / longer;
    *height = (image->height * LARGE + longer - 1) / longer;
}

err_t prediction_draw(const prediction_t *p, const image_t *image, page_t **out)
{
    int64_t width, height;
    const int channels = 3;
    resize_scratch_t scratch = {0};
    uint8_t *reduced = NULL;
    page_t *page = NULL;
    err_t err;
    drawn_size(image, &width, &height);
    page_source_t source = {image->width, image->height, channels, image->rgb};
    if (width < image->width || height < image->height) {
        image_rect_t whole = {0, 0, (double)image->width, (double)image->height};
        TRY_OUT(err, mem_new_array(width * height, 3, "an image", &reduced));
        TRY_OUT(err, resize(image, whole, false, width, height, &scratch, reduced));
        source = (page_source_t){width, height, channels, reduced};
    }
    int64_t inside = width > WIDTH ? width : WIDTH;
    TRY_OUT(err, page_new(inside + 2 * MARGIN, height + 2 * MARGIN + GAP + (p->n + 1) * LINE, paper, &page));
    page_place(page, (page_box_t){MARGIN, MARGIN, width, height}, &source);
    draw_classes(p, MARGIN + height + GAP, page);
    *out = page;
    page = NULL;
out:
    page_free(&page);
    resize_scratch_free(&scratch);
    mem_free(&reduced);
    return err;
}
