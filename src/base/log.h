/* SPDX-License-Identifier: MIT */
/* Messages for the user. Rank 0 speaks for the job: log_info and log_warn print nothing on other ranks.
 * Errors print on every rank, so callers check log_speaks first for an error that all ranks share.
 * Information goes to stdout, warnings and errors to stderr.
 *
 * If DPTRAIN_LOG_DIR names a folder (created if its parent exists), each rank appends all of its messages,
 * including those not printed, to rank-N.log in it, with the time (UTC). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdio.h>

/* Until called, the rank is the launcher's (0 without a launcher). */
void log_set_rank(int rank, int size, const char *host);

/* True on rank 0. */
bool log_speaks(void);

/* Other threads print no more, not even a message that waits for stdout's reader. For the last words of a
 * process. If nobody reads stdout, this thread's messages replace what waits in a terminal, or go to stderr:
 * mpirun stops reading when it gets a signal. */
void log_last_words(void);

/* `hook` is called when the reader of a stream keeps a message waiting, with true, and when it reads again. */
void log_set_blocked(void (*hook)(bool begins));

/* Writes to stdout without formatting, for the progress line. */
void log_draw(const char *text);

/* For a thread that prints in the pauses of all others (text/progress.h). log_hold_pause keeps it from printing until
 * log_end_pause; both nest, and the functions here that print call them. log_begin_pause is for that thread: false if
 * another is printing, or stdout's reader keeps it waiting; otherwise call log_leave_pause after at most a line. */
void log_hold_pause(void);
void log_end_pause(void);
bool log_begin_pause(void);
void log_leave_pause(void);
/* When something was last printed or drawn, by clock_sec; 0: never. */
double log_last_sec(void);

/* `clear` is called before each printed message, to remove the progress line (text/progress.h). */
void log_set_clear_line(void (*clear)(void));

/* Of the three kinds of information, --quiet leaves out notes (what a command does), and only --verbose prints
 * details. */
typedef enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE } log_level_t;
void log_set_level(log_level_t level);
log_level_t log_get_level(void);

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* An error before the ranks can agree on one. Rank 0 prints at once, which ends the job; another rank prints
 * 2 s later, because then it failed alone. */
void log_early_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* From now on all ranks have the same early error, so the others print nothing. */
void log_share_errors(void);

/* An error or a warning of this rank alone; the message ends with rank and host. */
void log_rank_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_rank_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints results for people. Texts may come from files and from other hosts: their control characters reach no terminal. All
 * other output for people goes through the functions above and text/table.h, which do the same; tests/static.sh heads allows
 * no other printf to a terminal. */

/* As printf and fprintf, but control characters are replaced by ?, except line breaks and tabs. */
void print_out(const char *format, ...) __attribute__((format(printf, 1, 2)));
void print_to(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same in place: C0, DEL and C1, the latter in UTF-8 and as raw bytes, and what changes the writing direction. Other
 * text stays as it is. */
void print_mask(char *text);

/* Goes through the lines of a text: returns the first one and its length, and moves *rest past it. NULL: none is left. An
 * empty line at the end is none. *rest may be NULL. */
const char *print_next_line(const char **rest, int *n);

#endif
