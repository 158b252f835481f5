/* SPDX-License-Identifier: MIT */
/* Decodes a few images before a run begins. */
#ifndef TRAIN_FEED_PROBE_H
#define TRAIN_FEED_PROBE_H

#include "data/load/loader.h"

/* Not collective. Reads and transforms one image of each file format in each split, found among up to 64
 * samples at equal distances. Corrupt images are added to `bad`; ERR_DATA names the image if there are more
 * than --max-bad allows. Does nothing for images in memory. */
err_t probe_images(const dataset_t *dataset, corrupt_samples_t *bad);

#endif
