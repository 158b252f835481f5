/* SPDX-License-Identifier: MIT */
/* Whether a folder is the same one on all hosts. Private to src/tools/check. Not collective. */
#ifndef TOOLS_CHECK_SHARED_FOLDER_H
#define TOOLS_CHECK_SHARED_FOLDER_H

#include "tools/check/check.h"

/* Hosts whose files all others look for; they look for everybody's. All hosts while they are few, so that any
 * may be the odd one out; 3 of many, as n² look-ups would bring a file server down. */
enum { SHARED_ALL = 32 };
bool shared_is_reference(int host, int n_hosts);

/* seen[a * n_hosts + b]: host a has seen the file of host b. The reference that shares its folder with most
 * hosts: who does not share it with that one is the odd one. */
int shared_find_root(const bool *seen, int n_hosts);
/* Whether two hosts, one of them a reference, see each other's files. */
bool shared_mutual(const bool *seen, int n_hosts, int a, int b);

/* How fast it is: of one small file, seconds to make, look at and remove it; bytes a second. */
void shared_judge_latency(check_t *check, double sec);
void shared_judge_speed(check_t *check, const char *name, double bytes_per_sec);

#endif
