/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Pages: fills, enlarged images and text, to the pixel, and cut off at the edges. */
#include <string.h>

#include "base/mem.h"
#include "data/show/page.h"
#include "tests/tap.h"

static const rgb_t white = {255, 255, 255}, red = {200, 10, 20}, blue = {1, 2, 3};

static bool is(const page_t *page, int64_t x, int64_t y, rgb_t want)
{
    const uint8_t *p = page->rgb + 3 * (y * page->width + x);
    return p[0] == want.r && p[1] == want.g && p[2] == want.b;
}

/* The pixels of this colour. */
static int count(const page_t *page, rgb_t colour)
{
    int n = 0;
    for (int64_t y = 0; y < page->height; y++)
        for (int64_t x = 0; x < page->width; x++) n += is(page, x, y, colour);
    return n;
}

static page_t *new_page(int64_t width, int64_t height)
{
    page_t *page = NULL;
    if (page_new(width, height, white, &page) != ERR_OK) abort();
    return page;
}

static void test_fill(void)
{
    page_t *page = new_page(10, 7);
    OK(page->width == 10 && page->height == 7 && count(page, white) == 70,
       "a new page has the background everywhere");
    page_fill(page, (page_box_t){2, 3, 4, 2}, red);
    OK(count(page, red) == 8 && is(page, 2, 3, red) && is(page, 5, 4, red), "a box");
    page_fill(page, (page_box_t){-3, -2, 5, 3}, blue);
    OK(count(page, blue) == 2 && is(page, 0, 0, blue) && is(page, 1, 0, blue), "cut off at the upper left");
    page_fill(page, (page_box_t){9, 6, 100, 100}, blue);
    OK(count(page, blue) == 3 && is(page, 9, 6, blue), "cut off at the lower right");
    page_fill(page, (page_box_t){20, 2, 4, 4}, blue);
    page_fill(page, (page_box_t){2, -9, 4, 4}, blue);
    page_fill(page, (page_box_t){2, 2, 0, -1}, blue);
    OK(count(page, blue) == 3, "outside the page, or empty: nothing");
    page_free(&page);
    page_free(&page);
    OK(!page, "a freed page can be freed again");
}

static void test_place(void)
{
    static const uint8_t grey[6] = {0, 50, 100, 150, 200, 250};
    static const uint8_t colours[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    page_source_t image = {3, 2, 1, grey}, rgb = {2, 2, 3, colours}, two = {3, 1, 2, grey};
    page_t *page = new_page(14, 9);
    page_place(page, (page_box_t){1, 2, 12, 8}, &image); /* the last row is off the page */
    bool all = true;
    for (int64_t y = 0; y < 9; y++)
        for (int64_t x = 0; x < 14; x++) {
            uint8_t v = y >= 2 && x >= 1 && x < 13 ? grey[(y - 2) / 4 * 3 + (x - 1) / 4] : 255;
            all = is(page, x, y, (rgb_t){v, v, v}) && all;
        }
    OK(all, "grey, four times as large, cut off below");
    page_place(page, (page_box_t){-1, -1, 4, 4}, &rgb);
    OK(is(page, 0, 0, (rgb_t){1, 2, 3}) && is(page, 1, 0, (rgb_t){4, 5, 6}) &&
           is(page, 2, 2, (rgb_t){10, 11, 12}),
       "colours, cut off at the upper left");
    page_place(page, (page_box_t){0, 0, 3, 1}, &two);
    OK(is(page, 0, 0, (rgb_t){0, 0, 0}) && is(page, 1, 0, (rgb_t){100, 100, 100}) &&
           is(page, 2, 0, (rgb_t){200, 200, 200}),
       "of two channels, the first is shown");
    page_place(page, (page_box_t){0, 0, 1, 1}, &image);
    OK(is(page, 0, 0, (rgb_t){0, 0, 0}) && is(page, 1, 0, (rgb_t){100, 100, 100}),
       "a box smaller than the image");
    page_free(&page);
}

/* As many characters differ from all before as there are; all have ink but the blank. */
static void test_font(void)
{
    static bool seen[95][FONT_HEIGHT][FONT_WIDTH];
    int n_distinct = 0, n_inked = 0;
    for (int c = 32; c < 127; c++) {
        int n_ink = 0;
        for (int y = 0; y < FONT_HEIGHT; y++)
            for (int x = 0; x < FONT_WIDTH; x++)
                n_ink += seen[c - 32][y][x] = font_ink((unsigned char)c, x, y);
        bool distinct = true;
        for (int before = 0; before < c - 32; before++)
            distinct = memcmp(seen[before], seen[c - 32], sizeof seen[0]) != 0 && distinct;
        n_distinct += distinct;
        n_inked += n_ink > 0;
    }
    OK(n_distinct == 95, "every character looks different");
    OK(n_inked == 94, "every character but the blank has ink");
    bool all = true;
    for (int y = 0; y < FONT_HEIGHT; y++)
        for (int x = 0; x < FONT_WIDTH; x++)
            all = font_ink('\n', x, y) == font_ink('?', x, y) && font_ink(127, x, y) == font_ink('?', x, y) &&
                  font_ink(200, x, y) == font_ink('?', x, y) && all;
    OK(all, "what is not printable ASCII is a question mark");
}

static bool spells(const char *text, const char *want)
{
    char got[256] = "";
    size_t n = 0;
    for (const char *at = text, *spelled; *at;) {
        const int n_more = font_spell(&at, &spelled);
        if (n + (size_t)n_more >= sizeof got) return false;
        memcpy(got + n, spelled, (size_t)n_more);
        n += (size_t)n_more;
    }
    got[n] = '\0';
    if (strcmp(got, want) != 0) printf("# %s: %s, not %s\n", text, got, want);
    return strcmp(got, want) == 0;
}

static void test_spelling(void)
{
    OK(spells("cat 7~", "cat 7~") && spells("", ""), "ASCII is itself");
    OK(spells("Bär, Größe, blåbær, señor, château, łódź, ďábel, Œuvre, İstanbul",
              "Bar, Grosse, blabaer, senor, chateau, lodz, dabel, OEuvre, Istanbul"),
       "letters of Latin lose their marks");
    OK(spells("Phở bò, Ỹ ỹ Ț ș", "Pho bo, Y y T s"), "… further ones");
    OK(spells("Щука, ёж, дім ґ", "Shchuka, yozh, dim g") && spells("Θάλασσα ψ", "Thalassa ps"),
       "Cyrillic and Greek are transliterated");
    OK(spells("cafe\u0301 na\u00adive", "cafe naive"),
       "marks that follow, as in names of macOS, are left out");
    OK(spells("“a” – b… 2×3\u00a0€", "\"a\" - b... 2x3 EUR"), "punctuation");
    OK(spells("猫\U0001F408 \u0600", "?? ?") && spells("\u0180\u0380", "??"), "what has no spelling");
    OK(spells("a\xff\xc3 \xc3", "a?? ?") && spells("\t\x7f", "??"),
       "what is not UTF-8, or control characters");
}

/* At this scale and place the page holds the letter F. */
static bool shows_f(const page_t *page, int64_t left, int64_t top, int scale)
{
    static const char *const rows[7] = {"#####", "#....", "#....", "####.", "#....", "#....", "#...."};
    bool all = true;
    for (int64_t y = 0; y < 7 * scale; y++)
        for (int64_t x = 0; x < 5 * scale; x++)
            all = is(page, left + x, top + y, rows[y / scale][x / scale] == '#' ? red : white) && all;
    return all;
}

static void test_text(void)
{
    page_t *page = new_page(60, 40);
    int64_t end = page_text(page, 3, 4, (text_style_t){1, red}, "F");
    OK(end == 9 && shows_f(page, 3, 4, 1) && count(page, red) == 14, "a letter");
    end = page_text(page, 20, 10, (text_style_t){3, red}, " F");
    OK(end == 56 && shows_f(page, 38, 10, 3) && count(page, red) == 14 * 10,
       "thrice as large, after a blank");
    OK(page_text_width(1, "") == 0 && page_text_width(1, "F") == 5 && page_text_width(2, "FF") == 22,
       "width without the space behind");
    page_fill(page, (page_box_t){0, 0, 60, 40}, white);
    page_text(page, -2, 38, (text_style_t){1, red}, "F");
    OK(count(page, red) == 3, "cut off at the edges");
    page_fill(page, (page_box_t){0, 0, 60, 40}, white);
    page_text(page, 100, -50, (text_style_t){2, red}, "nowhere");
    OK(count(page, red) == 0, "off the page: nothing");
    page_t *plain = new_page(60, 40);
    end = page_text(page, 0, 0, (text_style_t){1, red}, "Faß");
    page_text(plain, 0, 0, (text_style_t){1, red}, "Fass");
    OK(end == 24 && page_text_width(1, "Faß") == 23 &&
           memcmp(page->rgb, plain->rgb, (size_t)(page->width * page->height * 3)) == 0,
       "characters outside ASCII are spelled in it");
    page_free(&plain);
    page_free(&page);
}

int main(void)
{
    tap_plan(6 + 4 + 3 + 8 + 6 + 1);
    test_fill();
    test_place();
    test_font();
    test_spelling();
    test_text();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
