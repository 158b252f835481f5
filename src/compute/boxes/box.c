/* SPDX-License-Identifier: MIT */
/* Overlap, coding and clipping of single boxes. Arithmetic is in float32, in torchvision's order, because
 * comparisons with thresholds decide what is kept. */
#include "compute/boxes/box.h"

#include <math.h>

box_delta_t box_encode(box_t box, box_t from, box_weights_t weights)
{
    float from_w = from.x2 - from.x1, from_h = from.y2 - from.y1;
    float from_x = from.x1 + 0.5f * from_w, from_y = from.y1 + 0.5f * from_h;
    float w = box.x2 - box.x1, h = box.y2 - box.y1;
    float x = box.x1 + 0.5f * w, y = box.y1 + 0.5f * h;
    return (box_delta_t){weights.x * (x - from_x) / from_w, weights.y * (y - from_y) / from_h,
                         weights.w * logf(w / from_w), weights.h * logf(h / from_h)};
}

box_t box_decode(box_delta_t delta, box_t from, box_weights_t weights)
{
    const float limit = (float)log(1000.0 / 16);
    float from_w = from.x2 - from.x1, from_h = from.y2 - from.y1;
    float x = delta.dx / weights.x * from_w + (from.x1 + 0.5f * from_w);
    float y = delta.dy / weights.y * from_h + (from.y1 + 0.5f * from_h);
    float w = expf(fminf(delta.dw / weights.w, limit)) * from_w;
    float h = expf(fminf(delta.dh / weights.h, limit)) * from_h;
    return (box_t){x - 0.5f * w, y - 0.5f * h, x + 0.5f * w, y + 0.5f * h};
}

static float between(float x, float low, float high)
{
    return fminf(fmaxf(x, low), high);
}

box_t box_clip(box_t b, float height, float width)
{
    return (box_t){between(b.x1, 0, width), between(b.y1, 0, height), between(b.x2, 0, width),
                   between(b.y2, 0, height)};
}

int box_level(box_t box, int lowest, int highest)
{
    enum { LEVEL = 4 };
    const float size = 224, epsilon = 1e-6f;
    float side = sqrtf(box_area(box));
    if (!(side > 0)) return lowest;
    float level = floorf(LEVEL + log2f(side / size) + epsilon);
    return (int)between(level, (float)lowest, (float)highest);
}
