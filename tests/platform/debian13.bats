#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Debian 13, minimal: OpenMPI 5, oneDNN 3, HDF5 1.14, GCC 14. Up to an hour: scripts/test.sh --slow.

# shellcheck source=tests/platform/platform.bash
load platform

setup_file() { platform_make trixie; }

setup() { platform_setup; }

@test "Debian 13: quickstart.sh installs, builds, trains and evaluates, without /proc" { platform_quickstart; }

@test "Debian 13: after make install the commands, TAB and man work, and make uninstall leaves nothing" { platform_install; }

@test "Debian 13: test.sh passes" { platform_test; }
