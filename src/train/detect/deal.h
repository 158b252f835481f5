/* SPDX-License-Identifier: MIT */
/* Deals work of known cost to ranks. Not collective: every rank computes the same. */
#ifndef TRAIN_DETECT_DEAL_H
#define TRAIN_DETECT_DEAL_H

#include <stdint.h>

#include "base/err.h"

/* The most expensive first, of equal ones the first, each to the rank with the least so far, of equal ones the
 * first.
 *
 *   costs  [n] ≥ 0
 *   mine   [n] receives the indices dealt to `rank`, the most expensive first
 *   most   the largest number dealt to any rank
 *
 * Returns how many are this rank's in *n_mine. */
err_t deal(const int64_t *costs, int64_t n, int rank, int size, int64_t *mine, int64_t *n_mine,
           int64_t *most);

#endif
