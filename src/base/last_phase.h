/* SPDX-License-Identifier: MIT */
/* What this rank was last doing, kept outside the process: scripts/run.sh reads it after a rank was killed. A rank that
 * run.sh started has a page in /dev/shm, dptrain-JOB.RANK (JOB from DPTRAIN_JOB); a note costs a copy of a few bytes.
 * Without run.sh nothing happens. */
#ifndef BASE_LAST_PHASE_H
#define BASE_LAST_PHASE_H

enum { LAST_PHASE_TEXT = 64 };

/* Creates the page. Failures are ignored: the page only serves a message. */
void last_phase_open(void);
/* Removes it: this rank ends knowingly. Async-signal-safe. */
void last_phase_close(void);
void last_phase_note(const char *text);

#endif
