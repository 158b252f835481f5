# SPDX-License-Identifier: MIT
# `load terminal`: for tests that open a pseudo-terminal, which a chroot or a container without /dev/pts lacks.
# shellcheck shell=bash

# Called before the first use, so that what needs no terminal is tested everywhere.
need_terminal() { script -qec true /dev/null >/dev/null 2>&1 </dev/null || skip "there is no pseudo-terminal (is /dev/pts mounted?)"; }
