/* SPDX-License-Identifier: MIT */
/* An RGB canvas: fills, blends, placed images and text, all clipped to the page. */
#include "data/show/page.h"

#include "base/mem.h"
#include "data/image/image.h"
#include "data/show/font.h"

err_t page_new(int64_t width, int64_t height, rgb_t background, page_t **out)
{
    ASSERT(width > 0 && height > 0 && width <= INT32_MAX && height <= INT32_MAX);
    page_t *page = NULL;
    TRY(mem_new(sizeof *page, "an image", &page));
    err_t err = mem_new_array(width * height, 3, "an image", &page->rgb);
    if (err != ERR_OK) {
        mem_free(&page);
        return err;
    }
    page->width = width;
    page->height = height;
    page_fill(page, (page_box_t){0, 0, width, height}, background);
    *out = page;
    return ERR_OK;
}

void page_free(page_t **page)
{
    if (!*page) return;
    mem_free(&(*page)->rgb);
    mem_free(page);
}

static int64_t min_int64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_int64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static page_box_t clip_box(const page_t *page, page_box_t box)
{
    int64_t left = max_int64(box.x, 0), top = max_int64(box.y, 0);
    int64_t right = min_int64(box.x + box.width, page->width),
            bottom = min_int64(box.y + box.height, page->height);
    return (page_box_t){left, top, max_int64(right - left, 0), max_int64(bottom - top, 0)};
}

static uint8_t *pixel_at(page_t *page, int64_t x, int64_t y)
{
    return page->rgb + 3 * (y * page->width + x);
}

void page_fill(page_t *page, page_box_t box, rgb_t colour)
{
    page_box_t part = clip_box(page, box);
    for (int64_t y = part.y; y < part.y + part.height; y++) {
        uint8_t *to = pixel_at(page, part.x, y);
        for (int64_t x = 0; x < part.width; x++, to += 3) {
            to[0] = colour.r;
            to[1] = colour.g;
            to[2] = colour.b;
        }
    }
}

static uint8_t mix_byte(uint8_t below, uint8_t above, double share)
{
    return (uint8_t)(below + (above - below) * share + 0.5);
}

void page_mix(page_t *page, page_box_t box, rgb_t colour, double share)
{
    page_box_t part = clip_box(page, box);
    for (int64_t y = part.y; y < part.y + part.height; y++) {
        uint8_t *to = pixel_at(page, part.x, y);
        for (int64_t x = 0; x < part.width; x++, to += 3) {
            to[0] = mix_byte(to[0], colour.r, share);
            to[1] = mix_byte(to[1], colour.g, share);
            to[2] = mix_byte(to[2], colour.b, share);
        }
    }
}

void page_place(page_t *page, page_box_t box, const page_source_t *image)
{
    ASSERT(image->width > 0 && image->height > 0 && image->channels > 0);
    page_box_t part = clip_box(page, box);
    for (int64_t y = part.y; y < part.y + part.height; y++) {
        int64_t row = (y - box.y) * image->height / box.height;
        for (int64_t x = part.x; x < part.x + part.width; x++) {
            int64_t column = (x - box.x) * image->width / box.width;
            const uint8_t *from = image->values + (row * image->width + column) * image->channels;
            uint8_t *to = pixel_at(page, x, y);
            for (int c = 0; c < 3; c++) to[c] = from[image->channels == 3 ? c : 0];
        }
    }
}

static void draw_character(page_t *page, int64_t x, int64_t y, text_style_t style, unsigned char character)
{
    for (int row = 0; row < FONT_HEIGHT; row++)
        for (int column = 0; column < FONT_WIDTH; column++)
            if (font_ink(character, column, row))
                page_fill(
                    page,
                    (page_box_t){x + column * style.scale, y + row * style.scale, style.scale, style.scale},
                    style.colour);
}

int64_t page_text(page_t *page, int64_t x, int64_t y, text_style_t style, const char *text)
{
    ASSERT(style.scale > 0);
    while (*text) {
        const char *spelled;
        const int n = font_spell(&text, &spelled);
        for (int i = 0; i < n; i++, x += FONT_ADVANCE * style.scale)
            draw_character(page, x, y, style, (unsigned char)spelled[i]);
    }
    return x;
}

int64_t page_text_width(int scale, const char *text)
{
    int64_t n = 0;
    const char *spelled;
    while (*text) n += font_spell(&text, &spelled);
    return n > 0 ? (n * FONT_ADVANCE - (FONT_ADVANCE - FONT_WIDTH)) * scale : 0;
}

err_t page_write_png(const page_t *page, const char *path)
{
    const image_t image = {page->width, page->height, page->rgb};
    return png_file_write(path, &image);
}
