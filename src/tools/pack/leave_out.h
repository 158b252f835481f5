/* SPDX-License-Identifier: MIT */
/* A source without its unusable images (--max-bad). Private to src/tools/pack. */
#ifndef TOOLS_PACK_LEAVE_OUT_H
#define TOOLS_PACK_LEAVE_OUT_H

#include "data/source/source.h"

/* Opens a source with the samples of another, except some. Not collective; the same on all ranks.
 *
 *   of       must outlive *out
 *   samples  [n], numbers over both splits, ascending
 *   out      close with source_close */
err_t leave_out_open(const source_t *of, const int64_t *samples, int64_t n, source_t **out);

#endif
