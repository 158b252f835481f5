/* SPDX-License-Identifier: MIT */
/* Smaller images, with what is known of them. Not collective; one thread each. */
#ifndef TOOLS_PACK_RESIZE_H
#define TOOLS_PACK_RESIZE_H

#include "base/err.h"
#include "data/annotation/sample.h"

typedef struct pack_resizer pack_resizer_t;

/* quality: of JPEG, 1 to 100. */
err_t pack_resizer_new(int64_t shorter_side, int64_t quality, pack_resizer_t **out);
void pack_resizer_free(pack_resizer_t **resizer);

/* *out: the sample with its shorter side at shorter_side pixels; valid until the next call, and as long as
 * `in`. One whose shorter side is no longer, which includes every one that would have to grow, stays as it
 * is, byte for byte. A side that would be longer than RESIZE_MAX becomes that, and the shorter one shorter. A
 * JPEG becomes a JPEG, a PNG a PNG. The new image is as shown: EXIF's orientation is carried out, on the
 * annotations too. Boxes, areas and points are scaled; runs are sampled anew, each new pixel being what the
 * old one at its centre was. ERR_DATA where it cannot be decoded. */
err_t pack_resize(pack_resizer_t *resizer, const sample_t *in, sample_t *out);

#endif
