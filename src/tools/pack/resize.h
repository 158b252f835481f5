/* SPDX-License-Identifier: MIT */
/* Shrinks images together with their annotations. Not collective; one thread per resizer. */
#ifndef TOOLS_PACK_RESIZE_H
#define TOOLS_PACK_RESIZE_H

#include "base/err.h"
#include "data/annotation/sample.h"

typedef struct pack_resizer pack_resizer_t;

/* shorter_side: the maximum length, in pixels; quality: of JPEG, 1 to 100. */
err_t pack_resizer_new(int64_t shorter_side, int64_t quality, pack_resizer_t **out);
void pack_resizer_free(pack_resizer_t **resizer);

/* Shrinks the image so that its shorter side has shorter_side pixels and its longer one at most RESIZE_MAX.
 * The file format stays, and EXIF's orientation is applied to the image and the annotations. Boxes, areas and
 * polygons are scaled; RLE masks are sampled at the new pixels' centres. An image that is small enough passes
 * through unchanged, byte for byte.
 *
 *   out  valid until the next call, and while `in` is
 *
 * ERR_DATA: the image cannot be decoded. */
err_t pack_resize(pack_resizer_t *resizer, const sample_t *in, sample_t *out);

#endif
