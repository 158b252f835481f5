# SPDX-License-Identifier: MIT
# Runs the README's commands in a new root of a Debian release, made by debootstrap: `load platform`. The root is deleted with
# the test's folder; mounts and processes are in namespaces of their own, and end with the command.
# shellcheck shell=bash
# shellcheck disable=SC2154 # status, output: run sets them

# Prints Debian's mirror from apt's configuration.
platform_mirror() {
    # shellcheck disable=SC2016 # $(...) is for apt
    apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
        awk '$1 == "Debian" && $2 == "main" && $3 !~ /security/ { print $3; exit }'
}

# Prints why this machine cannot make a root, or nothing if it can.
platform_why() {
    local tool
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || { echo "builds and tests in a new root, up to an hour; scripts/test.sh --slow"; return; }
    [[ $(id -u) -eq 0 ]] || { echo "needs root"; return; }
    for tool in debootstrap unshare chroot; do
        command -v "$tool" >/dev/null || { echo "no $tool here (scripts/install_deps.sh --test)"; return; }
    done
    [[ -d $root/.git ]] || { echo "no git repository here"; return; }
    [[ -n $(platform_mirror) ]] || { echo "apt has no mirror of Debian"; return; }
    unshare --mount --pid --fork true 2>/dev/null || echo "no namespaces here"
}

# For setup_file: a minimal root of the release in $platform, with a clone of this repository in /root/dptrain.
platform_make() { # RELEASE
    local certificates=/etc/ssl/certs/ca-certificates.crt
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    platform=$BATS_FILE_TMPDIR/root platform_missing=$(platform_why)
    export root platform platform_missing
    [[ -z $platform_missing ]] || return 0
    debootstrap --variant=minbase --include=ca-certificates "$1" "$platform" "$(platform_mirror)" >"$BATS_FILE_TMPDIR/log" 2>&1 || {
        tail "$BATS_FILE_TMPDIR/log" "$platform/debootstrap/debootstrap.log"
        return 1
    }
    # What lets this machine reach its mirrors lets the root reach them.
    apt-config dump | grep -i '^Acquire::.*Proxy ' >"$platform/etc/apt/apt.conf.d/90proxy" || true
    ! [[ -e $certificates ]] || cp "$certificates" "$platform$certificates"
    git clone -q "$root" "$platform/root/dptrain"
}

# For setup.
platform_setup() { [[ -z $platform_missing ]] || skip "$platform_missing"; }

# Runs a command in the clone, with /proc, /sys, terminals, shared memory and $DPTRAIN_DATA, unless the first word is `bare`.
platform_run() { # [bare] COMMAND
    # pivot_root, because nsenter (tests/cluster) leaves a chroot.
    # shellcheck disable=SC2016 # for the shell in the namespaces
    local data=${DPTRAIN_DATA:-} begin='mount --bind "$1" "$1" && mount -t proc proc "$1/proc" && mount --rbind --make-rslave /sys "$1/sys" &&
        mount -t devpts devpts "$1/dev/pts" && mount -t tmpfs tmpfs "$1/dev/shm" && { [ -z "$3" ] || mount --bind "$3" "$1/mnt"; } &&
        cd "$1" && pivot_root . . && umount -l . &&'
    # shellcheck disable=SC2016 # likewise
    [[ $1 != bare ]] || { begin='cd "$1" &&' data='' && shift; }
    # shellcheck disable=SC2016 # likewise
    env -i HOME=/root LC_ALL=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${data:+DPTRAIN_DATA=/mnt} \
        unshare --mount --pid --fork --kill-child sh -c "$begin"' exec chroot . bash -c "cd /root/dptrain && $2"' sh "$platform" "$1" "$data"
}

# Runs it with standard output and error in $output, which is printed; fails as it does.
platform_expect() { # [bare] COMMAND
    run platform_run "$@" </dev/null
    # Not the compiler's lines, nor what is skipped there as here.
    grep -vE '^  CC |: # (SKIP|skip) ' <<<"$output" | tail -n 100
    [ "$status" -eq 0 ]
}

# The first command of the README, in a root as debootstrap leaves it.
platform_quickstart() {
    platform_expect bare scripts/quickstart.sh
    [[ $output == *"finished after "*"accuracy "*"Next:"* ]]
}

# Prints what is below the prefix of make install.
platform_installed() { (cd "$platform/usr/local" && find . | LC_ALL=C sort); }

# What a user sees at a terminal.
platform_install() {
    local before
    platform_expect 'apt-get install -q -y --no-install-recommends bash-completion man-db'
    before=$(platform_installed)
    platform_expect 'make install'
    platform_expect 'cd / && man dptrain-train | cat'
    [[ $output == *"dptrain-train - "*"--batch N"* ]]
    run platform_run 'cd / && timeout 60 script -qc "bash --norc -i" /dev/null' < <(
        printf '%s\n' '. /usr/share/bash-completion/bash_completion' $'false && dptrain check\t\t' $'false && dptrain train --momen\t' exit
    )
    echo "$output"
    [[ $output == *"check "*"checkpoint"* && $output == *"--momentum "* ]]
    platform_expect 'cd / && OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 dptrain run -np 2 train --steps 5 --no-eval --out /tmp/run --overwrite'
    platform_expect 'scripts/dev/check_links.sh --root /usr/local/share/doc/dptrain'
    platform_expect 'make uninstall'
    diff <(echo "$before") <(platform_installed)
}

# The second command of the README.
platform_test() { platform_expect "scripts/test.sh --jobs $((2 * $(nproc)))"; }
