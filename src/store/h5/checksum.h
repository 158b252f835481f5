/* SPDX-License-Identifier: MIT */
/* The checksum of HDF5's metadata: lookup3 by Bob Jenkins (public domain, burtleburtle.net/bob/c/lookup3.c),
 * hashlittle() with the initial value 0. */
#ifndef STORE_H5_CHECKSUM_H
#define STORE_H5_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint32_t h5_checksum(const void *data, size_t n_bytes);

#endif
