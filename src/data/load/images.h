/* SPDX-License-Identifier: MIT */
/* Images of any size in a source (source.h: image folders, COCO, shards of either) as a dataset: each
 * is read and decoded when it is wanted, transformed as transform.h says, in RGB, input-size pixels wide and
 * high.
 */
#ifndef DATA_LOAD_IMAGES_H
#define DATA_LOAD_IMAGES_H

#include "data/dataset/dataset.h"

/* norm is that of ImageNet's training images, which torchvision and most published weights use. Where a
 * split has no images n_samples is 0. ERR_DATA: the folder is no source, or has no training images.
 * ERR_USAGE as transform_resolve. */
extern const dataset_ops_t dataset_images;

#endif
