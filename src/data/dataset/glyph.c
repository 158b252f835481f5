/* SPDX-License-Identifier: MIT */
/* The strokes of the ten digits in several variants, and an antialiased canvas for lines and Catmull–Rom
 * splines. */
#include "data/dataset/glyph.h"

#include <math.h>

#include "base/err.h"

enum { MAX_VARIANTS = 3 };

#define CURVE(count, ...)                                                                                    \
    {                                                                                                        \
        true, count,                                                                                         \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
#define LINES(count, ...)                                                                                    \
    {                                                                                                        \
        false, count,                                                                                        \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }

/* clang-format off */
static const struct {
    uint32_t n_variants;
    glyph_t variants[MAX_VARIANTS];
} glyphs[10] = {
    /* 0 */
    {2, {{1, {CURVE(9, {54,4},{28,14},{16,42},{20,76},{46,96},{74,84},{85,52},{76,18},{50,4})}},
         {1, {CURVE(9, {66,10},{36,6},{16,32},{14,68},{36,95},{68,90},{86,60},{82,26},{58,6})}}}},
    /* 1: a bar, with a nose, with nose and foot */
    {3, {{1, {LINES(2, {52,4},{50,96})}},
         {1, {LINES(3, {32,26},{54,5},{53,96})}},
         {2, {LINES(3, {34,24},{52,6},{51,94}), LINES(2, {28,95},{74,94})}}}},
    /* 2: sharp foot, looped foot */
    {2, {{2, {CURVE(7, {19,26},{34,7},{62,6},{79,26},{68,50},{42,74},{18,93}), LINES(2, {18,93},{84,91})}},
         {1, {CURVE(11, {18,22},{42,5},{70,12},{74,36},{54,64},{30,86},{16,86},{22,72},{42,78},{62,92},{86,88})}}}},
    /* 3: round, flat-topped */
    {2, {{2, {CURVE(5, {20,14},{48,4},{75,18},{68,38},{42,47}), CURVE(6, {42,47},{72,54},{82,74},{62,94},{34,94},{16,82})}},
         {2, {LINES(3, {22,8},{76,8},{46,42}), CURVE(6, {46,42},{72,48},{82,70},{64,93},{36,95},{16,84})}}}},
    /* 4: open, closed, rounded open */
    {3, {{2, {LINES(3, {28,6},{20,56},{84,54}), LINES(2, {70,20},{66,96})}},
         {2, {LINES(3, {64,5},{14,64},{88,62}), LINES(2, {66,8},{64,96})}},
         {2, {CURVE(5, {24,8},{20,38},{34,54},{60,48},{74,38}), LINES(3, {78,6},{74,38},{68,96})}}}},
    /* 5: one move with corners, hat apart */
    {2, {{2, {LINES(3, {78,7},{32,8},{27,44}), CURVE(6, {27,44},{54,37},{78,54},{76,80},{50,95},{18,84})}},
         {2, {CURVE(7, {34,10},{26,40},{54,40},{78,58},{72,84},{44,96},{18,84}), LINES(2, {34,10},{82,6})}}}},
    /* 6: curved back, straight back */
    {2, {{1, {CURVE(10, {70,6},{44,20},{24,48},{20,76},{40,95},{68,90},{78,70},{62,54},{38,60},{24,76})}},
         {1, {CURVE(9, {52,3},{30,38},{18,72},{32,94},{62,94},{76,74},{62,58},{38,64},{22,80})}}}},
    /* 7: plain, with a hook, crossed */
    {3, {{1, {LINES(3, {16,9},{84,8},{44,96})}},
         {1, {CURVE(8, {17,22},{20,8},{48,11},{80,8},{78,24},{62,48},{50,74},{46,96})}},
         {2, {LINES(3, {18,8},{84,9},{46,96}), LINES(2, {34,52},{78,50})}}}},
    /* 8: one move, two rings */
    {2, {{1, {CURVE(11, {72,18},{48,4},{26,18},{34,38},{62,56},{78,76},{52,96},{24,80},{36,56},{64,38},{73,16})}},
         {2, {CURVE(7, {52,48},{28,34},{32,10},{56,3},{74,20},{66,40},{48,49}),
              CURVE(7, {48,48},{74,60},{78,84},{52,96},{24,84},{26,62},{52,47})}}}},
    /* 9: straight leg, curved leg */
    {2, {{2, {CURVE(7, {76,24},{58,6},{30,12},{22,36},{42,52},{66,44},{76,20}), LINES(3, {76,20},{74,56},{66,96})}},
         {2, {CURVE(7, {74,26},{54,5},{28,14},{24,38},{46,50},{68,40},{77,18}), CURVE(5, {77,18},{80,54},{70,84},{46,96},{24,86})}}}},
};
/* clang-format on */

const glyph_t *glyph_of(int digit, uint32_t pick)
{
    ASSERT(digit >= 0 && digit < 10);
    return &glyphs[digit].variants[pick % glyphs[digit].n_variants];
}

void canvas_clear(canvas_t *canvas)
{
    for (int i = 0; i < GLYPH_PIXELS; i++) canvas->distance2[i] = 1e6f;
}

static int clamp_index(float value)
{
    return value <= 0 ? 0 : value >= GLYPH_SIDE ? GLYPH_SIDE : (int)value;
}

void canvas_line(canvas_t *canvas, point_t from, point_t to, float reach)
{
    float dx = to.x - from.x, dy = to.y - from.y, length2 = dx * dx + dy * dy;
    float scale = length2 > 0 ? 1.0f / length2 : 0;
    int x0 = clamp_index((dx < 0 ? to.x : from.x) - reach),
        x1 = clamp_index((dx < 0 ? from.x : to.x) + reach + 1);
    int y0 = clamp_index((dy < 0 ? to.y : from.y) - reach),
        y1 = clamp_index((dy < 0 ? from.y : to.y) + reach + 1);
    for (int y = y0; y < y1; y++) {
        float *row = canvas->distance2 + y * GLYPH_SIDE;
        float py = (float)y + 0.5f - from.y;
        for (int x = x0; x < x1; x++) {
            float px = (float)x + 0.5f - from.x;
            float t = (px * dx + py * dy) * scale;
            t = t < 0 ? 0 : t;
            t = t > 1 ? 1 : t;
            float ex = px - t * dx, ey = py - t * dy, d = ex * ex + ey * ey;
            row[x] = d < row[x] ? d : row[x];
        }
    }
}

/* Interpolates between b and c at t (Catmull & Rom, "A class of local interpolating splines", 1974). */
static float catmull_rom(float a, float b, float c, float d, float t)
{
    return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

void canvas_stroke(canvas_t *canvas, bool smooth, const point_t *points, int n, float reach)
{
    enum { N_STEPS = 3 };
    for (int i = 0; i + 1 < n; i++) {
        point_t b = points[i], c = points[i + 1], from = b;
        if (!smooth) {
            canvas_line(canvas, b, c, reach);
            continue;
        }
        point_t a = points[i > 0 ? i - 1 : 0], d = points[i + 2 < n ? i + 2 : n - 1];
        for (int k = 1; k <= N_STEPS; k++) {
            float t = (float)k / N_STEPS;
            point_t to = {catmull_rom(a.x, b.x, c.x, d.x, t), catmull_rom(a.y, b.y, c.y, d.y, t)};
            canvas_line(canvas, from, to, reach);
            from = to;
        }
    }
}

void canvas_ink(const canvas_t *canvas, float radius, float softness, float ink, float *image)
{
    float outer = radius + softness, scale = 1.0f / (2 * softness);
    for (int i = 0; i < GLYPH_PIXELS; i++) {
        if (canvas->distance2[i] >= outer * outer) continue;
        float c = (outer - sqrtf(canvas->distance2[i])) * scale;
        c = c > 1 ? 1 : c;
        image[i] += ink * c * c * (3 - 2 * c);
    }
}
