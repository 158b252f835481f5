/* SPDX-License-Identifier: MIT */
/* Removes a temporary file when SIGINT, SIGTERM or SIGHUP ends the process. */
#ifndef TOOLS_PACK_INTERRUPT_H
#define TOOLS_PACK_INTERRUPT_H

/* Registers the file to remove, in place of the previous one; NULL: none. Call it before the file is created, always on
 * the same thread. `path` is copied. */
void interrupt_removes(const char *path);

#endif
