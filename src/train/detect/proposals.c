/* SPDX-License-Identifier: MIT */
/* Chooses regions. Boxes, anchors and suppression are compute/boxes'. */
#include "train/detect/proposals.h"

#include <math.h>

#include "base/mem.h"
#include "compute/boxes/select.h"

const proposals_options_t proposals_evaluation = {1000, 1000, 0.7};

static const float sizes[PROPOSALS_LEVELS] = {32, 64, 128, 256, 512},
                   ratios[PROPOSALS_PER_CELL] = {0.5f, 1, 2}, least_side = 1e-3f;

anchor_grid_t proposals_grid(int level, map_size_t canvas, int64_t height, int64_t width)
{
    return anchor_grid(canvas.height, canvas.width, height, width, sizes[level], ratios, PROPOSALS_PER_CELL);
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

/* Appends the best of a level to the n candidates before it. */
static int64_t add_level(proposals_t *p, const proposals_level_t *l, int level, map_size_t canvas,
                         map_size_t image, int64_t n)
{
    const anchor_grid_t grid = proposals_grid(level, canvas, l->height, l->width);
    const int64_t n_top = select_top(l->logits, anchor_count(&grid), p->options.before, p->keys, p->top);
    for (int64_t i = 0; i < n_top; i++) {
        const float *d = l->deltas + 4 * p->top[i];
        const box_delta_t delta = {d[0], d[1], d[2], d[3]};
        box_t box = box_decode(delta, anchor_at(&grid, p->top[i]), (box_weights_t){1, 1, 1, 1});
        box = box_clip(box, (float)image.height, (float)image.width);
        if (!box_is_at_least(box, least_side)) continue;
        p->boxes[n] = box;
        p->levels[n] = level;
        p->scores[n++] = 1 / (1 + expf(-l->logits[p->top[i]]));
    }
    return n;
}

int64_t proposals_find(proposals_t *p, const proposals_level_t *levels, map_size_t canvas, map_size_t image,
                       box_t *out)
{
    int64_t n = 0;
    for (int level = 0; level < PROPOSALS_LEVELS; level++)
        n = add_level(p, &levels[level], level, canvas, image, n);
    select_top(p->scores, n, n, p->keys, p->top);
    for (int64_t i = 0; i < n; i++) {
        p->sorted[i] = p->boxes[p->top[i]];
        p->sorted_levels[i] = p->levels[p->top[i]];
    }
    n = select_nms(p->sorted, p->sorted_levels, n, p->options.nms, p->options.after, p->taken);
    for (int64_t i = 0; i < n; i++) out[i] = p->sorted[p->taken[i]];
    return n;
}
