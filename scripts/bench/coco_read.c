/* SPDX-License-Identifier: MIT */
/* Reads a file of COCO's annotations for scripts/bench/coco.sh: coco_read FILE. Prints seconds, the peak of
 * its resident memory in KiB, images and annotations. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/coco/coco.h"
#include "scripts/bench/peak_memory.h"

int main(int argc, char **argv)
{
    coco_t *coco = NULL;
    if (argc != 2) {
        log_error("usage: coco_read FILE");
        return ERR_USAGE;
    }
    double start = clock_sec();
    err_t err = coco_read(argv[1], NULL, NULL, &coco);
    double sec = clock_sec() - start;
    if (err != ERR_OK) {
        log_error("%s", err_message());
        return (int)err;
    }
    printf("%.3f %ld %" PRId64 " %" PRId64 "\n", sec, peak_kib(), coco->n_images, coco->n_annotations);
    coco_free(&coco);
    return 0;
}
