/* SPDX-License-Identifier: MIT */
/* Opens a source of images on all ranks of a job. */
#ifndef TOOLS_PACK_OPEN_H
#define TOOLS_PACK_OPEN_H

#include "cluster/comm/comm.h"
#include "data/source/source.h"

/* Rank 0 opens the source as source_open does and sends its list to the other ranks (data/source/share.h),
 * which only open the files they read images from.
 *
 *   rules may be NULL
 *   what  the phase for messages, a constant string: "opening the data"
 *   out   close with source_close
 *
 * Collective. */
err_t pack_open(comm_t *comm, const char *path, const list_rules_t *rules, const char *what, source_t **out);

#endif
