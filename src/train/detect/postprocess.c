/* SPDX-License-Identifier: MIT */
/* Regions, objects and masks, chosen and drawn from the network's outputs. Boxes, anchors and suppression are
 * compute/boxes', running the network detector.c's. */
#include "train/detect/postprocess.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "compute/boxes/boxes.h"
#include "data/image/orient.h"
#include "data/transform/canvas.h"

const proposals_options_t proposals_evaluation = {1000, 1000, 0.7, false},
                          proposals_training = {2000, 2000, 0.7, false};

static const float sizes[PROPOSALS_LEVELS] = {32, 64, 128, 256, 512},
                   ratios[PROPOSALS_PER_CELL] = {0.5f, 1, 2}, least_region = 1e-3f;

anchor_grid_t proposals_grid(int level, map_size_t canvas, int64_t height, int64_t width, bool aligned)
{
    const int64_t stride = (int64_t)4 << level;
    if (aligned) canvas = (map_size_t){stride * height, stride * width};
    return anchor_grid(canvas.height, canvas.width, height, width, sizes[level], ratios, PROPOSALS_PER_CELL,
                       !aligned);
}

/* Whether a region or an object is kept. */
static bool has_area(box_t box, bool aligned, float least)
{
    return aligned ? box.x2 > box.x1 && box.y2 > box.y1 : box_is_at_least(box, least);
}

err_t proposals_new(const proposals_options_t *options, int64_t n_cells, proposals_t *p)
{
    const int64_t most = PROPOSALS_LEVELS * options->before, n_anchors = PROPOSALS_PER_CELL * n_cells;
    static const char what[] = "regions";
    *p = (proposals_t){.options = *options};
    TRY(mem_new_array(n_anchors > most ? n_anchors : most, sizeof *p->keys, what, &p->keys));
    TRY(mem_new_array(most, sizeof *p->top, what, &p->top));
    TRY(mem_new_array(options->after, sizeof *p->taken, what, &p->taken));
    TRY(mem_new_array(most, sizeof *p->boxes, what, &p->boxes));
    TRY(mem_new_array(most, sizeof *p->sorted, what, &p->sorted));
    TRY(mem_new_array(most, sizeof *p->scores, what, &p->scores));
    TRY(mem_new_array(most, sizeof *p->levels, what, &p->levels));
    return mem_new_array(most, sizeof *p->sorted_levels, what, &p->sorted_levels);
}

void proposals_free(proposals_t *p)
{
    mem_free(&p->keys);
    mem_free(&p->top);
    mem_free(&p->taken);
    mem_free(&p->boxes);
    mem_free(&p->sorted);
    mem_free(&p->scores);
    mem_free(&p->levels);
    mem_free(&p->sorted_levels);
}

int64_t proposals_find(proposals_t *p, const proposals_level_t *levels, map_size_t canvas, map_size_t image,
                       box_t *out)
{
    int64_t n = 0;
    for (int level = 0; level < PROPOSALS_LEVELS; level++) {
        const proposals_level_t *l = &levels[level];
        const anchor_grid_t grid = proposals_grid(level, canvas, l->height, l->width, p->options.aligned);
        const int64_t n_top = select_top(l->logits, anchor_count(&grid), p->options.before, p->keys, p->top);
        for (int64_t i = 0; i < n_top; i++) {
            const float *d = l->deltas + 4 * p->top[i];
            const box_delta_t delta = {d[0], d[1], d[2], d[3]};
            box_t box = box_decode(delta, anchor_at(&grid, p->top[i]), (box_weights_t){1, 1, 1, 1});
            box = box_clip(box, (float)image.height, (float)image.width);
            if (!has_area(box, p->options.aligned, least_region)) continue;
            p->boxes[n] = box;
            p->levels[n] = level;
            p->scores[n++] = 1 / (1 + expf(-l->logits[p->top[i]]));
        }
    }
    select_top(p->scores, n, n, p->keys, p->top);
    for (int64_t i = 0; i < n; i++) {
        p->sorted[i] = p->boxes[p->top[i]];
        p->sorted_levels[i] = p->levels[p->top[i]];
    }
    n = select_nms(p->sorted, p->sorted_levels, n, p->options.nms, p->options.after, p->taken);
    for (int64_t i = 0; i < n; i++) out[i] = p->sorted[p->taken[i]];
    return n;
}

static const char *const resizes[] = {"antialias", "torchvision", NULL};

#define FIELD(name) offsetof(detections_options_t, name)
const opt_t detections_option_table[] = {
    {"resize", OPT_CHOICE, FIELD(resize), "antialias", 0, 0, resizes, NULL,
     "how images are resized: with antialiasing, as in training, or as torchvision's detectors do", OPT_MORE},
    {"score-threshold", OPT_REAL, FIELD(score_threshold), "0.05", 0, 1, NULL, "X",
     "keep objects with a larger probability", OPT_MORE},
    {"nms", OPT_REAL, FIELD(nms), "0.5", 0, 1, NULL, "X",
     "drop boxes that overlap a better one of their class by a larger IoU", OPT_MORE},
    {"detections", OPT_INT, FIELD(detections), "100", 1, DETECTIONS_MOST, NULL, "N",
     "most objects of an image", OPT_MORE},
};
const int n_detections_options = sizeof detections_option_table / sizeof detections_option_table[0];

bool detections_interpolate(const detections_options_t *options)
{
    return options->resize && strcmp(options->resize, resizes[1]) == 0;
}

static const box_weights_t box_weights = {10, 10, 5, 5};
static const float least_object = 1e-2f;

err_t detections_new(const detections_options_t *options, int n_classes, int64_t most_regions,
                     detections_t *d)
{
    const int64_t most = most_regions * (n_classes - 1);
    static const char what[] = "detections";
    *d = (detections_t){.options = *options, .n_classes = n_classes};
    TRY(mem_new_array(n_classes, sizeof *d->probabilities, what, &d->probabilities));
    TRY(mem_new_array(most, sizeof *d->scores, what, &d->scores));
    TRY(mem_new_array(most, sizeof *d->candidates, what, &d->candidates));
    TRY(mem_new_array(most, sizeof *d->keys, what, &d->keys));
    TRY(mem_new_array(most, sizeof *d->order, what, &d->order));
    TRY(mem_new_array(options->detections, sizeof *d->taken, what, &d->taken));
    TRY(mem_new_array(most, sizeof *d->boxes, what, &d->boxes));
    return mem_new_array(most, sizeof *d->classes, what, &d->classes);
}

void detections_free(detections_t *d)
{
    mem_free(&d->probabilities);
    mem_free(&d->scores);
    mem_free(&d->candidates);
    mem_free(&d->keys);
    mem_free(&d->order);
    mem_free(&d->taken);
    mem_free(&d->boxes);
    mem_free(&d->classes);
}

static void softmax(const float *logits, int n, float *out)
{
    float largest = -INFINITY, sum = 0;
    for (int k = 0; k < n; k++) largest = fmaxf(largest, logits[k]);
    for (int k = 0; k < n; k++) sum += out[k] = expf(logits[k] - largest);
    for (int k = 0; k < n; k++) out[k] /= sum;
}

int64_t detections_find(detections_t *d, const detections_input_t *in, found_t *out)
{
    int64_t n = 0;
    for (int64_t r = 0; r < in->n; r++) {
        softmax(in->logits + r * d->n_classes, d->n_classes, d->probabilities);
        for (int k = 1; k < d->n_classes; k++) {
            const float score = d->probabilities[k], *v = in->deltas + 4 * (r * d->n_classes + k);
            if (!(score > (float)d->options.score_threshold)) continue;
            const box_delta_t delta = {v[0], v[1], v[2], v[3]};
            const box_t box = box_clip(box_decode(delta, in->regions[r], box_weights),
                                       (float)in->image.height, (float)in->image.width);
            if (!has_area(box, d->options.aligned, least_object)) continue;
            d->candidates[n] = (found_t){box, score, k};
            d->scores[n++] = score;
        }
    }
    select_top(d->scores, n, n, d->keys, d->order);
    for (int64_t i = 0; i < n; i++) {
        d->boxes[i] = d->candidates[d->order[i]].box;
        d->classes[i] = d->candidates[d->order[i]].class;
    }
    n = select_nms(d->boxes, d->classes, n, d->options.nms, d->options.detections, d->taken);
    for (int64_t i = 0; i < n; i++) out[i] = d->candidates[d->order[d->taken[i]]];
    return n;
}

void paste_free(paste_t *paste)
{
    mem_free(&paste->swaps);
}

box_t paste_box(box_t b, map_size_t scaled, map_size_t image)
{
    const float x = (float)image.width / (float)scaled.width, y = (float)image.height / (float)scaled.height;
    return (box_t){b.x1 * x, b.y1 * y, b.x2 * x, b.y2 * y};
}

/* One dimension of a box in an image: the pixels first … last - 1 get what the mask has there. */
typedef struct span {
    float begin, end; /* of the box */
    int64_t from, n;  /* whole pixels over which the mask is resized; n is 0: aligned */
    int64_t first, last;
} span_t;

static span_t span_of(const paste_t *p, float begin, float end, int64_t n_pixels)
{
    const float middle = (end + begin) * 0.5f,
                half = (end - begin) * 0.5f * ((float)PASTE_PADDED / PASTE_SIDE);
    span_t s = {.begin = begin, .end = end};
    if (p->aligned) {
        s.first = (int64_t)floorf(begin), s.last = (int64_t)ceilf(end);
    } else {
        s.first = s.from = (int64_t)(middle - half);
        s.last = (int64_t)(middle + half) + 1;
        s.n = s.last - s.from;
    }
    if (s.first < 0) s.first = 0;
    if (s.last > n_pixels) s.last = n_pixels;
    return s;
}

/* Where a pixel lies in the padded mask. */
static bilinear_t span_at(const span_t *s, int64_t pixel)
{
    if (s->n > 0) return bilinear_at(pixel - s->from, PASTE_PADDED, s->n);
    const float at = ((float)pixel + 0.5f - s->begin) / (s->end - s->begin) * PASTE_SIDE + 0.5f,
                within = fminf(fmaxf(at, 0), PASTE_PADDED - 1);
    const int64_t first = within < PASTE_PADDED - 1 ? (int64_t)within : PASTE_PADDED - 2;
    return (bilinear_t){first, first + 1, within - (float)first};
}

/* Column by column, as RLE stores masks. */
err_t paste_mask(paste_t *p, const float *logits, int64_t stride, box_t box, map_size_t image, rle_t *out)
{
    const span_t across = span_of(p, box.x1, box.x2, image.width),
                 down = span_of(p, box.y1, box.y2, image.height);
    int64_t n = 0;
    bool inside = false;
    for (int y = 0; y < PASTE_PADDED; y++)
        for (int x = 0; x < PASTE_PADDED; x++) p->mask[y][x] = 0;
    for (int y = 0; y < PASTE_SIDE; y++)
        for (int x = 0; x < PASTE_SIDE; x++)
            p->mask[y + 1][x + 1] = 1 / (1 + expf(-logits[stride * (y * PASTE_SIDE + x)]));
    for (int64_t x = across.first; x < across.last; x++) {
        const bilinear_t cols = span_at(&across, x);
        float column[PASTE_PADDED];
        for (int k = 0; k < PASTE_PADDED; k++)
            column[k] = bilinear_mix(p->mask[k][cols.first], p->mask[k][cols.second], cols.share);
        TRY(mem_grow(n + image.height + 2, sizeof *p->swaps, "a mask", &p->swaps));
        if (inside && down.first > 0) p->swaps[n++] = (uint32_t)(x * image.height), inside = false;
        for (int64_t y = down.first; y < down.last; y++) {
            const bilinear_t rows = span_at(&down, y);
            const float value = bilinear_mix(column[rows.first], column[rows.second], rows.share);
            if ((value > 0.5f || (p->aligned && value == 0.5f)) == inside) continue;
            p->swaps[n++] = (uint32_t)(x * image.height + y);
            inside = !inside;
        }
        if (inside && (down.last < image.height || x + 1 == across.last)) {
            p->swaps[n] = (uint32_t)(x * image.height + down.last);
            n += p->swaps[n] < image.height * image.width; /* a run that ends with the image has no end */
            inside = false;
        }
    }
    return rle_from_swaps(p->swaps, n, (int32_t)image.width, (int32_t)image.height, out);
}

err_t object_to_stored(const image_info_t *info, bool masks, uint8_t **bitmap, detector_object_t *d)
{
    const image_rect_t shown = {d->box[0], d->box[1], d->box[2], d->box[3]};
    const image_rect_t box =
        orient_to_stored(info->orientation, info->stored_width, info->stored_height, shown);
    d->box[0] = box.x, d->box[1] = box.y, d->box[2] = box.width, d->box[3] = box.height;
    if (!masks) return ERR_OK;
    /* An image with an EXIF orientation is rare, hence pixel by pixel. */
    const int64_t n = info->stored_width * info->stored_height;
    TRY(mem_grow(2 * n, 1, "a mask", bitmap));
    uint8_t *from = *bitmap, *to = from + n;
    TRY(rle_decode(&d->mask, (int32_t)info->width, (int32_t)info->height, from));
    for (int64_t y = 0; y < info->stored_height; y++)
        for (int64_t x = 0; x < info->stored_width; x++) {
            const image_rect_t pixel = {(double)x, (double)y, 1, 1};
            const image_rect_t at =
                orient_to_shown(info->orientation, info->stored_width, info->stored_height, pixel);
            to[y * info->stored_width + x] = from[(int64_t)at.y * info->width + (int64_t)at.x];
        }
    return rle_encode(to, (int32_t)info->stored_width, (int32_t)info->stored_height, &d->mask);
}
