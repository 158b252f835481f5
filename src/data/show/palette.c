/* SPDX-License-Identifier: MIT */
/* Category colours in Oklab, where equal distances look equal (B. Ottosson, "A perceptual color space for
 * image processing", 2020). Consecutive numbers differ in hue; similar hues differ in lightness or chroma,
 * with a period of eight. A search chose the constants: any two of 91 colours (COCO's ids) are at least 0.041
 * apart; 0.02 is just visible. */
#include "data/show/palette.h"

#include <math.h>

/* sRGB's transfer curve (IEC 61966-2-1); colours out of gamut are clipped. */
static uint8_t srgb_encode(double linear)
{
    double x = fmin(fmax(linear, 0), 1);
    x = x <= 0.0031308 ? 12.92 * x : 1.055 * pow(x, 1 / 2.4) - 0.055;
    return (uint8_t)(255 * x + 0.5);
}

static double cube(double x)
{
    return x * x * x;
}

rgb_t palette_colour(int32_t category)
{
    static const double lightness[] = {0.77, 0.62, 0.69, 0.84}, strength[] = {0.21, 0.09};
    static const double first = 0.94, step = 0.4199; /* turns */
    const double hue = 2 * acos(-1) * fmod(first + step * category, 1);
    const double light = lightness[category % 4], chroma = strength[category / 4 % 2];
    const double a = chroma * cos(hue), b = chroma * sin(hue);
    const double l = cube(light + 0.3963377774 * a + 0.2158037573 * b);
    const double m = cube(light - 0.1055613458 * a - 0.0638541728 * b);
    const double s = cube(light - 0.0894841775 * a - 1.2914855480 * b);
    return (rgb_t){srgb_encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
                   srgb_encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
                   srgb_encode(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}
