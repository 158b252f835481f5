/* SPDX-License-Identifier: MIT */
/* Lays out contact sheets and draws their tiles, and pages of one image. An image that cannot be decoded gets a marked
 * tile. Objects and captions are left to objects.c. */
#include "data/show/sheet.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "data/annotation/mask.h"
#include "data/image/resize.h"
#include "data/show/objects.h"

/* In pixels. */
enum {
    MARGIN = 24,
    GAP = 16,
    SEAM = 4, /* between an image and the one beside it */
    TITLE_SCALE = 2,
    TITLE = 28,
    LINE = 14,
    HEAD = TITLE + LINE + 8,
    CAPTION = 6,
    TEXT_MAX = 512
};

static const rgb_t paper = {250, 250, 248}, ink = {32, 36, 42}, faint = {100, 106, 114},
                   empty = {234, 234, 230}, alarm_red = {196, 38, 46};

enum { SMALL = 280, LARGE = 640 }; /* an image on a page of its own: its longer side, in pixels */

err_t single_page(const image_t *image, int64_t below, page_box_t *at, page_t **out)
{
    const int64_t longer = image->width > image->height ? image->width : image->height;
    const int64_t times = longer < SMALL ? SMALL / longer : 1; /* small ones are enlarged by a whole factor */
    int64_t width = image->width * times, height = image->height * times;
    resize_scratch_t scratch = {0};
    uint8_t *reduced = NULL;
    err_t err = ERR_OK;
    if (longer > LARGE) {
        width = (image->width * LARGE + longer - 1) / longer;
        height = (image->height * LARGE + longer - 1) / longer;
    }
    page_source_t source = {image->width, image->height, 3, image->rgb};
    if (width < image->width || height < image->height) {
        image_rect_t whole = {0, 0, (double)image->width, (double)image->height};
        TRY_OUT(err, mem_new_array(width * height, 3, "an image", &reduced));
        TRY_OUT(err, resize(image, whole, false, width, height, &scratch, reduced));
        source = (page_source_t){width, height, 3, reduced};
    }
    const int64_t inside = width > SINGLE_WIDTH ? width : SINGLE_WIDTH;
    TRY_OUT(err, page_new(inside + 2 * SINGLE_MARGIN, height + 2 * SINGLE_MARGIN + SINGLE_GAP + below, paper,
                          out));
    *at = (page_box_t){SINGLE_MARGIN, SINGLE_MARGIN, width, height};
    page_place(*out, *at, &source);
out:
    resize_scratch_free(&scratch);
    mem_free(&reduced);
    return err;
}

err_t detected_set(detected_t *d, const detection_t *detections, int64_t n, const category_t *categories,
                   double threshold)
{
    arena_reset(&d->memory);
    d->n = 0;
    TRY(arena_new(&d->memory, (size_t)(n + 1) * sizeof *d->annotations, &d->annotations));
    TRY(arena_new(&d->memory, (size_t)(n + 1) * sizeof *d->labels, &d->labels));
    for (int64_t i = 0; i < n; i++) {
        const detection_t *from = &detections[i];
        annotation_t *a = &d->annotations[d->n];
        if (!(from->score >= threshold)) continue;
        *a = (annotation_t){.id = i + 1, .category = from->category, .area = from->box[2] * from->box[3]};
        memcpy(a->box, from->box, sizeof a->box);
        if (from->mask) {
            const size_t n_text = strlen(from->mask);
            uint32_t *runs;
            TRY(arena_new(&d->memory, (n_text + 1) * sizeof *runs, &runs));
            TRY(rle_parse(from->mask, n_text, runs, &a->n_runs));
            a->segmentation = SEGMENTATION_RLE;
            a->runs = runs;
        }
        TRY(arena_format(&d->memory, &d->labels[d->n], "%s %.2f", categories[from->category].name,
                         from->score));
        d->n++;
    }
    return ERR_OK;
}

void detected_free(detected_t *d)
{
    arena_free(&d->memory);
    *d = (detected_t){0};
}

err_t detected_draw(const detected_page_t *p, page_t **out)
{
    const image_t *image = p->image;
    const image_info_t info = {.stored_width = image->width,
                               .stored_height = image->height,
                               .orientation = 1,
                               .width = image->width,
                               .height = image->height};
    const sample_t sample = {.name = p->name,
                             .label = -1,
                             .n_annotations = p->detected->n,
                             .annotations = p->detected->annotations};
    objects_image_t over = {
        .info = &info, .sample = &sample, .categories = p->categories, .labels = p->detected->labels};
    objects_t objects = {0};
    TRY(single_page(image, 2 * LINE, &over.at, out));
    err_t err = objects_draw(&objects, &over, *out);
    objects_free(&objects);
    const caption_t caption = {.x = over.at.x,
                               .y = over.at.y + over.at.height + SINGLE_GAP,
                               .width = (*out)->width - 2 * SINGLE_MARGIN,
                               .line = LINE};
    caption_draw(&caption, p->categories, &sample, p->name, *out);
    if (err != ERR_OK) page_free(out);
    return err;
}

static const double least_shape = 0.6, most_shape = 1.4; /* of a tile: height / width */

typedef struct layout {
    int64_t tile_width, tile_height, cell_width, cell_height, columns, rows, width, height;
} layout_t;

typedef struct drawing {
    const sheet_t *sheet;
    layout_t layout;
    page_t *page;
    image_decoder_t *decoder;
    source_buffer_t buffer;
    resize_scratch_t scratch;
    uint8_t *rgb; /* of a tile */
    objects_t objects;
    int64_t n_bad;
} drawing_t;

/* The number of columns for a page about 1.5 times as wide as high, with few empty places. */
static int64_t count_columns(int64_t n, int64_t cell_width, int64_t cell_height)
{
    const double wanted = sqrt(1.5 * (double)n * (double)cell_height / (double)cell_width);
    int64_t best = 1;
    double least = INFINITY;
    for (int64_t c = (int64_t)ceil(0.75 * wanted); (double)c <= 1.3 * wanted + 1 && c <= n; c++) {
        const double loss =
            (double)((n + c - 1) / c * c - n) / (double)n + 0.3 * fabs(log((double)c / wanted));
        if (loss < least) least = loss, best = c;
    }
    return best;
}

static layout_t lay_out(int64_t n, int64_t tile, bool beside, double shape)
{
    const int64_t tile_height = (int64_t)floor((double)tile * shape + 0.5);
    layout_t l = {.tile_width = tile,
                  .tile_height = tile_height,
                  .cell_width = (beside ? 2 * tile + SEAM : tile) + GAP,
                  .cell_height = tile_height + CAPTION + 2 * LINE + GAP};
    l.columns = count_columns(n, l.cell_width, l.cell_height);
    l.rows = (n + l.columns - 1) / l.columns;
    l.width = 2 * MARGIN + l.columns * l.cell_width - GAP;
    /* The last line has no descenders below its baseline. */
    l.height = 2 * MARGIN + HEAD + l.rows * l.cell_height - GAP - (LINE - FONT_BASELINE);
    return l;
}

static err_t check_size(int64_t n, int64_t tile, bool beside)
{
    const layout_t l = lay_out(n, tile, beside, most_shape);
    if (l.width > SHEET_MAX_PIXELS / l.height)
        RAISE(ERR_USAGE,
              "%" PRId64 " tiles of %" PRId64 " pixels make a sheet of up to %" PRId64 " × %" PRId64
              " pixels, more than the limit of %d; choose fewer or smaller tiles",
              n, tile, l.width, l.height, SHEET_MAX_PIXELS);
    return ERR_OK;
}

err_t sheet_check(int64_t n, int64_t tile)
{
    return check_size(n, tile, false);
}

/* The median of the images' shapes, so that most fill their tiles. */
static double usual_shape(double *shapes, int64_t n)
{
    return n > 0 ? fmin(fmax(stats_median(shapes, n), least_shape), most_shape) : 1;
}

static err_t find_shape(drawing_t *d, double *out)
{
    double *shapes = NULL;
    int64_t n = 0;
    err_t err = ERR_OK;
    TRY(mem_new_array(d->sheet->n, sizeof *shapes, "shapes of images", &shapes));
    for (int64_t i = 0; i < d->sheet->n && (err == ERR_OK || err == ERR_DATA); i++) {
        sample_t sample;
        image_info_t info;
        const pick_t pick = d->sheet->picks[i];
        err = source_read(d->sheet->source, pick.split, pick.index, &d->buffer, &sample);
        if (err == ERR_OK)
            err = image_info((image_bytes_t){sample.name, sample.bytes, sample.n_bytes}, &info);
        if (err == ERR_OK) shapes[n++] = (double)info.height / (double)info.width;
    }
    *out = usual_shape(shapes, n);
    mem_free(&shapes);
    return err == ERR_DATA ? ERR_OK : err;
}

static page_box_t place_tile(const layout_t *l, int64_t number)
{
    return (page_box_t){MARGIN + number % l->columns * l->cell_width,
                        MARGIN + HEAD + number / l->columns * l->cell_height, l->tile_width, l->tile_height};
}

/* The place of an image of width × height in its tile. */
static page_box_t fit_tile(page_box_t tile, int64_t width, int64_t height)
{
    double factor = fmin((double)tile.width / (double)width, (double)tile.height / (double)height);
    if (factor >= 2) factor = floor(factor); /* so that pixels are equally large */
    int64_t w = (int64_t)floor((double)width * factor + 0.5),
            h = (int64_t)floor((double)height * factor + 0.5);
    w = w < 1 ? 1 : w > tile.width ? tile.width : w;
    h = h < 1 ? 1 : h > tile.height ? tile.height : h;
    return (page_box_t){tile.x + (tile.width - w) / 2, tile.y + (tile.height - h) / 2, w, h};
}

/* The rectangle `place` of an image, whose pixels stay visible where it is enlarged. */
static err_t put_pixels(drawing_t *d, const image_t *image, image_rect_t place, page_box_t at)
{
    if (at.width >= 2 * image->width) {
        const page_source_t pixels = {image->width, image->height, 3, image->rgb};
        page_place(d->page, at, &pixels);
        return ERR_OK;
    }
    TRY(resize(image, place, false, at.width, at.height, &d->scratch, d->rgb));
    const page_source_t small = {at.width, at.height, 3, d->rgb};
    page_place(d->page, at, &small);
    return ERR_OK;
}

/* Draws a cross with an explanation. */
static void draw_bad(page_t *page, page_box_t tile)
{
    static const char *const lines[] = {"cannot be", "decoded"};
    for (int64_t x = 0; x < tile.width; x++) {
        const int64_t y = x * (tile.height - 1) / (tile.width > 1 ? tile.width - 1 : 1);
        page_mix(page, (page_box_t){tile.x + x, tile.y + y, 1, 1}, alarm_red, 0.6);
        page_mix(page, (page_box_t){tile.x + x, tile.y + tile.height - 1 - y, 1, 1}, alarm_red, 0.6);
    }
    const int64_t middle = tile.x + tile.width / 2, top = tile.y + tile.height / 2 - LINE;
    page_fill(page, (page_box_t){middle - 30, top - 4, 60, 2 * LINE + 4}, empty);
    for (int i = 0; i < 2; i++)
        page_text(page, middle - page_text_width(1, lines[i]) / 2, top + i * LINE,
                  (text_style_t){1, alarm_red}, lines[i]);
}

/* Reports ERR_DATA, which concerns one image, and continues. */
static err_t report_bad(drawing_t *d, err_t err)
{
    if (err == ERR_DATA && d->sheet->tell) d->sheet->tell(err_message());
    return err == ERR_DATA ? ERR_OK : err;
}

/* Objects of an image over its pixels. */
static err_t draw_image(drawing_t *d, const sample_t *sample, const char *const *labels, page_box_t tile)
{
    image_info_t info;
    TRY(source_info(sample, sample->name, &info));
    const page_box_t at = fit_tile(tile, info.width, info.height);
    const image_rect_t all = {0, 0, (double)info.width, (double)info.height};
    const image_bytes_t bytes = {sample->name, sample->bytes, sample->n_bytes};
    image_rect_t place;
    image_t pixels;
    TRY(image_decode_part(d->decoder, bytes, all, at.width, at.height, &pixels, &place));
    TRY(put_pixels(d, &pixels, place, at));
    const objects_image_t image = {.info = &info,
                                   .sample = sample,
                                   .categories = d->sheet->source->categories,
                                   .labels = labels,
                                   .at = at};
    return report_bad(d, objects_draw(&d->objects, &image, d->page));
}

static caption_t caption_of(page_box_t tile)
{
    return (caption_t){.x = tile.x, .y = tile.y + tile.height + CAPTION, .width = tile.width, .line = LINE};
}

/* The detections of an image that the buffer holds, on the right of its tile. */
static err_t draw_beside(drawing_t *d, int64_t number, sample_t sample, page_box_t tile)
{
    const sheet_beside_t *beside = &d->sheet->beside[number];
    tile.x += tile.width + SEAM;
    page_fill(d->page, tile, empty);
    sample.label = -1;
    sample.n_annotations = beside->detected->n;
    sample.annotations = beside->detected->annotations;
    const caption_t caption = caption_of(tile);
    caption_draw(&caption, d->sheet->source->categories, &sample, beside->text, d->page);
    return draw_image(d, &sample, beside->detected->labels, tile);
}

static err_t draw_tile(drawing_t *d, int64_t number)
{
    const layout_t *l = &d->layout;
    const source_t *source = d->sheet->source;
    const pick_t pick = d->sheet->picks[number];
    const page_box_t tile = place_tile(l, number);
    const caption_t caption = caption_of(tile);
    char text[TEXT_MAX];
    sample_t sample;
    page_fill(d->page, tile, empty);
    err_t err = source_read(source, pick.split, pick.index, &d->buffer, &sample);
    if (err == ERR_OK) err = draw_image(d, &sample, NULL, tile);
    if (err == ERR_OK && d->sheet->beside) err = draw_beside(d, number, sample, tile);
    if (err == ERR_DATA) {
        page_fill(d->page, tile, empty);
        draw_bad(d->page, tile);
        d->n_bad++;
        TRY(report_bad(d, err));
        err = source_describe(source, pick.split, pick.index, &d->buffer, &sample);
    }
    if (err == ERR_DATA) { /* it cannot be described */
        snprintf(text, sizeof text, "%s/#%" PRId64, split_names[pick.split], pick.index);
        caption_fitting(d->page, caption.x, caption.y + caption.line, caption.width, (text_style_t){1, faint},
                        text);
    }
    if (err != ERR_OK) return err == ERR_DATA ? ERR_OK : err;
    snprintf(text, sizeof text, "%s/%s", split_names[pick.split], sample.name);
    caption_draw(&caption, source->categories, &sample, text, d->page);
    return ERR_OK;
}

static void draw_heading(const drawing_t *d, const char *title, const char *about)
{
    const int64_t room = d->layout.width - 2 * MARGIN;
    const text_style_t large = {TITLE_SCALE, ink};
    caption_fitting(d->page, MARGIN + 1, MARGIN, room - 1, large, title); /* twice: bold */
    caption_fitting(d->page, MARGIN, MARGIN, room - 1, large, title);
    caption_fitting(d->page, MARGIN, MARGIN + TITLE, room, (text_style_t){1, faint}, about);
}

/* The page and the memory for n tiles of this width and shape. */
static err_t open_page(drawing_t *d, int64_t n, int64_t tile, bool beside, double shape)
{
    d->layout = lay_out(n, tile, beside, shape);
    TRY(page_new(d->layout.width, d->layout.height, paper, &d->page));
    return mem_new_array(d->layout.tile_width * d->layout.tile_height, 3, "a tile", &d->rgb);
}

/* Leaves the page to the caller, or, after an error, frees it. */
static err_t close_page(drawing_t *d, err_t err, page_t **out)
{
    if (err == ERR_OK)
        *out = d->page;
    else
        page_free(&d->page);
    resize_scratch_free(&d->scratch);
    objects_free(&d->objects);
    mem_free(&d->rgb);
    return err;
}

err_t sheet_draw(const sheet_t *sheet, int64_t *n_bad, page_t **out)
{
    drawing_t d = {.sheet = sheet};
    double shape = 1;
    err_t err;
    ASSERT(sheet->n > 0 && sheet->n <= SHEET_MAX_IMAGES);
    TRY_OUT(err, check_size(sheet->n, sheet->tile, sheet->beside != NULL));
    TRY_OUT(err, image_decoder_new((image_limits_t){0}, &d.decoder));
    TRY_OUT(err, find_shape(&d, &shape));
    TRY_OUT(err, open_page(&d, sheet->n, sheet->tile, sheet->beside != NULL, shape));
    char text[TEXT_MAX];
    const source_t *source = sheet->source;
    const int64_t n_all = source->n_samples[SPLIT_TRAIN] + source->n_samples[SPLIT_VAL];
    snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " images%s", sheet->n, n_all,
             source->has_annotations ? "; crowds are hatched" : "");
    draw_heading(&d, sheet->title ? sheet->title : source->path, sheet->about ? sheet->about : text);
    for (int64_t i = 0; i < sheet->n; i++) TRY_OUT(err, draw_tile(&d, i));
    *n_bad = d.n_bad;
out:
    source_free_buffer(sheet->source, &d.buffer);
    image_decoder_free(&d.decoder);
    return close_page(&d, err, out);
}

static err_t draw_sample(drawing_t *d, const sheet_samples_t *sheet, int64_t number)
{
    const sheet_sample_t *s = &sheet->samples[number];
    const image_t *image = &s->image;
    const page_box_t tile = place_tile(&d->layout, number), at = fit_tile(tile, image->width, image->height);
    const caption_t caption = caption_of(tile);
    const image_info_t info = {.stored_width = image->width,
                               .stored_height = image->height,
                               .orientation = 1,
                               .width = image->width,
                               .height = image->height};
    const objects_image_t over = {
        .info = &info, .sample = &s->sample, .categories = sheet->categories, .at = at};
    page_fill(d->page, tile, empty);
    TRY(put_pixels(d, image, (image_rect_t){0, 0, (double)image->width, (double)image->height}, at));
    caption_draw(&caption, sheet->categories, &s->sample, s->text, d->page);
    return sheet->boxed ? objects_draw(&d->objects, &over, d->page) : ERR_OK;
}

err_t sheet_draw_samples(const sheet_samples_t *sheet, page_t **out)
{
    drawing_t d = {.sheet = NULL};
    double *shapes = NULL;
    err_t err;
    ASSERT(sheet->n > 0 && sheet->n <= SHEET_MAX_IMAGES);
    TRY_OUT(err, check_size(sheet->n, sheet->tile, false));
    TRY_OUT(err, mem_new_array(sheet->n, sizeof *shapes, "shapes of samples", &shapes));
    for (int64_t i = 0; i < sheet->n; i++)
        shapes[i] = (double)sheet->samples[i].image.height / (double)sheet->samples[i].image.width;
    TRY_OUT(err, open_page(&d, sheet->n, sheet->tile, false, usual_shape(shapes, sheet->n)));
    draw_heading(&d, sheet->title, sheet->about);
    for (int64_t i = 0; i < sheet->n; i++) TRY_OUT(err, draw_sample(&d, sheet, i));
out:
    mem_free(&shapes);
    return close_page(&d, err, out);
}
