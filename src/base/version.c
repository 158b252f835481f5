/* SPDX-License-Identifier: MIT */
/* Strings that the Makefile defines for this file alone, so that a new commit recompiles only this file. */
#include "base/version.h"

const char *const version_number = DPTRAIN_VERSION;
const char *const version_git_hash = DPTRAIN_GIT_HASH;
const char *const version_flags = DPTRAIN_FLAGS;
#ifdef __clang__
const char *const version_compiler = __VERSION__;
#else
const char *const version_compiler = "GCC " __VERSION__;
#endif
