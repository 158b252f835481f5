/* SPDX-License-Identifier: MIT */
/* Reads a file of COCO's annotations for scripts/bench/coco.sh: coco_read FILE. Prints seconds, the peak of
 * its resident memory in KiB, images and annotations. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/coco/coco.h"

/* VmHWM: ru_maxrss would also count what the process was before it became this program. */
static long peak_kib(void)
{
    char line[256];
    long peak = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %ld", &peak) == 1) break;
    if (file) fclose(file);
    return peak;
}

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
