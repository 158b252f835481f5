/* SPDX-License-Identifier: MIT */
/* A process that is ended by SIGINT, SIGTERM or SIGHUP leaves no temporary file. One at a time. */
#ifndef TOOLS_PACK_INTERRUPT_H
#define TOOLS_PACK_INTERRUPT_H

/* From now on: that file is removed, and the signal then does what it always does. NULL: nothing is. `path`
 * is copied. */
void interrupt_removes(const char *path);

#endif
