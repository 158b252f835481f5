/* SPDX-License-Identifier: MIT */
/* One job at a time writes to an output folder: its file owner.json names the job and the process of rank 0.
 * A thread of the owner reads the file every second and writes to it every 10 s.
 *
 * Another job takes the folder over if that process is known to be dead (same host, boot and PID namespace),
 * or if the file has not changed for 60 s of observation; clocks are never compared. A later process of the
 * same job takes it over at once. The former owner notices before it writes again.
 *
 * Right on NFS: the right to replace the file is a hard link of a fixed name, which one process can make; every
 * read opens the file; every write is flushed by a close. Not collective: only rank 0 calls these functions. */
#ifndef STORE_OWNER_OWNER_H
#define STORE_OWNER_OWNER_H

#include <stdbool.h>

#include "base/err.h"

#define OWNER_FILE "owner.json"

typedef struct owner owner_t;

typedef struct owner_times {
    double renew_sec; /* between writes by the owner */
    double stale_sec; /* without a change, until another job may take over */
    double grace_sec; /* for a living process of this host, which may be about to end */
} owner_times_t;

/* 10, 60 and 2 s; tests use others. */
extern const owner_times_t owner_times;

/* Prepares to own the folder, which exists.
 *
 *   job   id of the job; NULL or "": this process is a job of its own
 *   times borrowed */
err_t owner_open(const char *folder, const char *job, const owner_times_t *times, owner_t **out);

/* Tries once to take the folder.
 *
 *   taken   false: it belongs to another job that may be dead; call again after half a second
 *
 * ERR_USAGE naming the owner if it is alive, ERR_SYSTEM if the folder cannot be used. */
err_t owner_try(owner_t *owner, bool *taken);

/* What owner_try waits for, as a sentence. */
enum { OWNER_TEXT_MAX = 2048 };
void owner_describe_wait(const owner_t *owner, char out[OWNER_TEXT_MAX]);

/* Call before writing to the folder: ERR_SYSTEM if another process has taken it. Accept NULL, and are
 * thread-safe.
 *
 *   owner_check    trusts a verification by the thread that is at most 20 s old; else owner_verify
 *   owner_verify   reads the file */
err_t owner_check(owner_t *owner);
err_t owner_verify(owner_t *owner);

/* Gives the folder up and removes the file, without freeing anything: for a process that is about to end. */
void owner_leave(owner_t *owner);

/* As owner_leave; then ends the thread. *owner may be NULL. Waits for the disk for 5 s at most. */
void owner_close(owner_t **owner);

#endif
