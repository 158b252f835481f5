/* SPDX-License-Identifier: MIT */
/* Version and build of this program. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

extern const char *const version_number;   /* "0.1.0" */
extern const char *const version_git_hash; /* revision; ends in -dirty for a modified tree; or "unknown" */
extern const char *const version_compiler;
extern const char *const version_flags; /* optimization flags */

#endif
