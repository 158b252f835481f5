/* SPDX-License-Identifier: MIT */
/* The members of a detection: numbers, boxes and masks. results_read.c decides where they may occur. */
#include "data/score/results_item.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "data/coco/coco.h"

const struct results_member_name results_members[RESULTS_N_MEMBERS] = {
    {"image_id", "an integer", {"image", "imageId"}},
    {"category_id", "an integer", {"category", "class", "class_id", "label"}},
    {"score", "a number", {"scores", "confidence", "conf", "probability"}},
    {"bbox", "a list of 4 numbers", {"box", "boxes", "bboxes"}},
    {"segmentation", "an object with counts and size (compressed RLE)", {"mask", "masks", "rle"}}};

err_t results_item_int(results_item_t *item, const char *text, size_t n_text, int64_t *out)
{
    return item->is_text ? json_text_int(text, n_text, out) : json_parse_int(text, n_text, out);
}

err_t results_item_real(results_item_t *item, const char *text, size_t n_text, double *out)
{
    return item->is_text ? json_text_real(text, n_text, out) : json_parse_real(text, n_text, out);
}

err_t results_item_box(results_item_t *item, const char *text, size_t n_text)
{
    if (item->n_box == 4) RAISE(ERR_DATA, "more than 4 numbers");
    TRY(results_item_real(item, text, n_text, &item->box[item->n_box++]));
    if (item->n_box > 2 && item->box[item->n_box - 1] < 0)
        RAISE(ERR_DATA, "a negative %s, %.*s", item->n_box == 3 ? "width" : "height", (int)n_text, text);
    return ERR_OK;
}

err_t results_item_size(results_item_t *item, const char *text, size_t n_text)
{
    if (item->n_size == 2) RAISE(ERR_DATA, "\"size\" has more than 2 numbers");
    return results_item_int(item, text, n_text, &item->size[item->n_size++]);
}

err_t results_item_run(results_item_t *item, const char *text, size_t n_text)
{
    int64_t run = 0;
    TRY(results_item_int(item, text, n_text, &run));
    if (run < 0 || run > COCO_MAX_PIXELS) RAISE(ERR_DATA, "\"counts\" has a run of %" PRId64 " pixels", run);
    if (item->runs.n == COCO_MAX_RUNS) RAISE(ERR_DATA, "\"counts\" has more than %d runs", COCO_MAX_RUNS);
    TRY(mem_grow(item->runs.n + 1, sizeof *item->runs.runs, "runs of a mask", &item->runs.runs));
    item->runs.runs[item->runs.n++] = (uint32_t)run;
    return ERR_OK;
}

err_t results_item_text(results_item_t *item, const unsigned char *text, size_t n_text)
{
    if (n_text > COCO_MAX_RUNS)
        RAISE(ERR_DATA, "\"counts\" has %zu bytes; expected at most %d", n_text, COCO_MAX_RUNS);
    item->has_counts = n_text > 0;
    if (n_text == 0) return ERR_OK;
    TRY(mem_grow((int64_t)n_text + 1, 1, "text of a mask", &item->text));
    TRY(mem_grow((int64_t)n_text, sizeof *item->runs.runs, "runs of a mask", &item->runs.runs));
    memcpy(item->text, text, n_text);
    item->text[n_text] = '\0';
    item->n_text = n_text;
    return rle_parse(item->text, n_text, item->runs.runs, &item->runs.n);
}

err_t results_item_end_box(results_item_t *item)
{
    item->has[RESULTS_BOX] = item->n_box > 0;
    if (item->n_box == 0 || item->n_box == 4) return ERR_OK;
    RAISE(ERR_DATA, "\"bbox\" has %d numbers; expected 4: x, y, width, height", item->n_box);
}

bool results_item_mask_is_empty(const results_item_t *item)
{
    return item->n_size == 0 && item->n_text == 0 && item->runs.n == 0;
}

err_t results_item_end_mask(results_item_t *item, const truth_image_t *image, const char **out)
{
    if (!item->has_counts || item->n_size < 2)
        RAISE(ERR_DATA, "\"segmentation\" has no %s",
              item->has_counts ? "\"size\" of 2 numbers" : "\"counts\"");
    if (item->size[0] != image->height || item->size[1] != image->width)
        RAISE(ERR_DATA,
              "its mask has %" PRId64 " × %" PRId64 " pixels (width × height), but the image has %d × %d",
              item->size[1], item->size[0], image->width, image->height);
    TRY(rle_check(&item->runs, image->width, image->height));
    if (item->n_text == 0) { /* from numbers */
        TRY(mem_grow(RLE_TEXT_PER_RUN * (int64_t)item->runs.n + 1, 1, "text of a mask", &item->text));
        rle_format(&item->runs, item->text);
    }
    *out = item->text;
    return ERR_OK;
}
