/* SPDX-License-Identifier: MIT */
/* COCO's annotations, and the masks of those that were read. */
#include "base/mem.h"
#include "data/annotation/mask.h"
#include "data/coco/coco.h"
#include "tests/fuzz/fuzz.h"

enum { MAX_MASK = 1 << 16 };

/* Of small images: what is large is slow, and no other code. */
static void draw(const coco_t *coco)
{
    static uint8_t mask[MAX_MASK];
    for (int64_t i = 0; i < coco->n_images; i++) {
        const coco_image_t *image = &coco->images[i];
        if ((int64_t)image->width * image->height > MAX_MASK) continue;
        for (int32_t k = 0; k < image->n_annotations; k++) {
            const annotation_t *a = &image->annotations[k];
            err_t err = mask_draw(a, image->width, image->height, mask);
            MUST(err == ERR_OK || err == ERR_DATA);
            MUST(a->category >= 0 && a->category < coco->n_categories && a->box[2] > 0 && a->box[3] > 0);
            MUST(a->box[0] >= 0 && a->box[0] + a->box[2] <= image->width + 1e-9 * image->width);
        }
        MUST(image->truths ? image->n_truths >= image->n_annotations : image->n_truths == 0);
        for (int32_t k = 0; k < image->n_truths; k++) {
            err_t err = mask_draw(&image->truths[k], image->width, image->height, mask);
            MUST(err == ERR_OK || err == ERR_DATA);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    coco_t *coco = NULL;
    err_t err = coco_read(fuzz_file(data, n), NULL, NULL, &coco);
    MUST((err == ERR_OK && coco) || (err == ERR_DATA && !coco));
    if (coco) draw(coco);
    coco_free(&coco);
    MUST(mem_live() == 0);
    return 0;
}
