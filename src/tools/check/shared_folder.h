/* SPDX-License-Identifier: MIT */
/* Decides whether a folder is the same on all hosts. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_SHARED_FOLDER_H
#define TOOLS_CHECK_SHARED_FOLDER_H

#include "tools/check/check.h"

/* Reference hosts look for the files of all hosts, and all hosts look for theirs. Up to SHARED_ALL
 * hosts, every host is one; beyond, only 3 are, because n² look-ups would overload a file server. */
enum { SHARED_ALL = 32 };
bool shared_is_reference(int host, int n_hosts);

/* The reference host that shares its folder with most hosts. Hosts that do not share it with this one are
 * reported.
 *
 *   seen  [n_hosts × n_hosts]: the row's host has seen the file of the column's */
int shared_find_root(const bool *seen, int n_hosts);
/* Whether two hosts, at least one of them a reference, see each other's files. */
bool shared_mutual(const bool *seen, int n_hosts, int a, int b);

/* Add lines about the folder's speed.
 *
 *   sec  to create, stat and remove a small file */
void shared_judge_latency(check_t *check, double sec);
void shared_judge_speed(check_t *check, const char *name, double bytes_per_sec);

#endif
