/* SPDX-License-Identifier: MIT */
/* A source of images for all ranks of a job. */
#ifndef TOOLS_PACK_OPEN_H
#define TOOLS_PACK_OPEN_H

#include "cluster/comm/comm.h"
#include "data/source/source.h"

/* Collective. Rank 0 opens it as source_open does, the others get what it found (data/source/share.h) and
 * look at no more files than they read images from. what: a constant string, "opening the data". Close it
 * with source_close. */
err_t pack_open(comm_t *comm, const char *path, const char *what, source_t **out);

#endif
