/* SPDX-License-Identifier: MIT */
/* Messages to people. Rank 0 speaks for the job: log_info and log_warn of other ranks are dropped; errors
 * always print, so a caller with an error that all ranks share asks log_speaks first. Information goes to
 * stdout, warnings and errors to stderr.
 *
 * Where DPTRAIN_LOG_DIR names a folder, which is made when its parent is there, each rank adds all of its
 * messages to rank-N.log in it, those that are dropped elsewhere too, with the time (UTC). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>

/* Until called, the rank is what the launcher's environment says (0 without a launcher). */
void log_set_rank(int rank, int size, const char *host);

/* True on the rank that speaks. */
bool log_speaks(void);

/* Called before each message that people see, to remove a line that is being redrawn (base/progress.h). */
void log_set_clear_line(void (*clear)(void));

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An error of this rank alone: its number and host are added. */
void log_rank_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
