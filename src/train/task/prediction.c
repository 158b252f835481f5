/* SPDX-License-Identifier: MIT */
/* Ranks the classes of an image and shows them. Reading images is left to data/load/image_files.c. */
#include "train/task/prediction.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/record.h"
#include "data/show/caption.h"
#include "data/show/single.h"

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
    json_record_begin(j, RECORD_PREDICTION);
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
enum { LINE = 22, SCALE = 2, BAR = 18, NUMBER = 92 };

static const rgb_t ink = {32, 36, 42}, faint = {100, 106, 114}, bar_blue = {176, 203, 232};

static double share_of(double probability)
{
    return probability > 0 ? fmin(probability, 1) : 0; /* NaN: 0 */
}

static void draw_classes(const prediction_t *p, int64_t y, page_t *page)
{
    char text[32];
    int64_t width = page->width - 2 * SINGLE_MARGIN;
    caption_fitting(page, SINGLE_MARGIN, y, width, (text_style_t){1, faint}, p->image);
    y += LINE;
    for (int i = 0; i < p->n; i++, y += LINE) {
        double probability = p->best[i].probability;
        int64_t filled = (int64_t)(share_of(probability) * (double)width);
        page_fill(page, (page_box_t){SINGLE_MARGIN, y, filled, BAR}, bar_blue);
        snprintf(text, sizeof text, "%.4f", probability);
        page_text(page, SINGLE_MARGIN + 2, y + 2, (text_style_t){SCALE, ink}, text);
        caption_fitting(page, SINGLE_MARGIN + NUMBER, y + 2, width - NUMBER, (text_style_t){SCALE, ink},
                        class_text(p, i).text);
    }
}

err_t prediction_draw(const prediction_t *p, const image_t *image, page_t **out)
{
    page_box_t at;
    TRY(single_page(image, (p->n + 1) * LINE, &at, out));
    draw_classes(p, at.y + at.height + SINGLE_GAP, *out);
    return ERR_OK;
}
