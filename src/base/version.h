/* SPDX-License-Identifier: MIT */
/* What this binary is. */
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

extern const char *const version_number;   /* "0.1.0" */
extern const char *const version_git_hash; /* of the tree it was built from, with -dirty; or "unknown" */
extern const char *const version_compiler;
extern const char *const version_flags; /* optimisation flags */

#endif
