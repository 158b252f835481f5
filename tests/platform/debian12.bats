#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Debian 12, minimal: OpenMPI 4.1, oneDNN 2.6, HDF5 1.10, GCC 12. Up to an hour: scripts/test.sh --slow.

# shellcheck source=tests/platform/platform.bash
load platform

setup_file() { platform_make bookworm; }

setup() { platform_setup; }

@test "Debian 12: quickstart.sh installs, builds, trains and evaluates, without /proc" { platform_quickstart; }

@test "Debian 12: after make install the commands, TAB and man work, and make uninstall leaves nothing" { platform_install; }

@test "Debian 12: test.sh passes" { platform_test; }
