#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The scripts alone, with fakes of mpirun and dptrain where possible.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    scripts=$root/scripts
    bin=$BATS_TEST_TMPDIR/bin
    mkdir "$bin"
    # A program for run.sh; the fake mpirun never starts it.
    printf '#!/bin/sh\nexit 0\n' >"$bin/dptrain"
    chmod +x "$bin/dptrain"
    export DPTRAIN_BIN=$bin/dptrain
    # Separate tests cover the note about root.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    export XDG_CACHE_HOME=${DPTRAIN_TEST_WORK:-$BATS_FILE_TMPDIR}/cache # measured once for all
    unset DPTRAIN_BIND
}

fake_mpirun() { # the script's body
    { printf '#!/usr/bin/env bash\nif [[ $1 == --version ]]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi\n'; cat; } >"$bin/mpirun"
    chmod +x "$bin/mpirun"
    PATH=$bin:$PATH
}

# Waits until the file has a line; fails after 60 s.
wait_for() { # PATTERN FILE
    local i
    for ((i = 0; i < 600; i++)); do
        ! grep -qs "$1" "$2" || return 0
        sleep 0.1
    done
    return 1
}

# Others ask topo_t.simulated or launch_owns_process().
@test "the files that ask whether their rank is simulated are in the lowest layers" {
    [ "$(cd "$root/src" && grep -rl 'sim_is_rank()' . | LC_ALL=C sort | xargs)" = "./base/clock.c ./base/process.c ./base/sim.h \
./cluster/comm/mpi/host.c ./cluster/comm/mpi/mpi.c ./cluster/comm/mpi/open.c ./cluster/comm/mpi/shared_memory.c \
./cluster/watch/side_channel.c ./cluster/watch/watchdog.c ./main.c" ]
}

@test "every script has help" {
    for script in install_deps quickstart test dev/check_layers dev/house bench/best bundle bench/gpu_suite bench/gpu_losses bench/gpu_steps bench/gpu_detection setup_ssh \
        on_hosts stage_data bench/detection_balance bench/image dev/fuzz dev/check_links simulate; do
        run "$scripts/$script.sh" --help
        echo "$script: $output"
        [ "$status" -eq 0 ]
        [[ "$output" == "usage: scripts/$script.sh"* ]]
    done
    # A door of the program, also through a link.
    ln -s "$scripts/run.sh" "$bin/start"
    for script in "$scripts/run.sh" "$bin/start"; do
        run "$script" --help
        [[ "$status" -eq 0 && "$output" == "usage: dptrain run "* ]]
    done
}

@test "simulate.sh refuses ranks, hosts and times that do not exist" {
    refused() { # WORDS ARGUMENTS...
        run "$scripts/simulate.sh" "${@:2}"
        echo "$output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$1"* ]]
    }
    refused "-np N, the number of ranks, is missing" -- train
    refused "expected a command of dptrain after --" -np 4
    refused "invalid --latency '2'" -np 4 --latency 2 -- train
    refused "invalid --gbps '0'" -np 4 --gbps 0 -- train
    refused "invalid --slow 'node4'" -np 4 --slow node4 -- train
    refused "invalid --slow 'node4': the hosts are node0 … node3" -np 4 --slow node4:10 -- train
    refused "invalid --slow-pair 'node1:10'" -np 4 --slow-pair node1:10 -- train
    refused "node1 and node2 are connected to different switches" -np 4 --switches 2:2 --slow-pair node1,node2:10 -- train
    refused "--hang 4: the ranks are 0 … 3" -np 4 --hang 4 -- train
    refused "invalid --lose '1@'" -np 4 --lose 1@ -- train
    refused "invalid --switches '2'" -np 4 --switches 2 -- train
    refused "none with spaces" -np 4 -- train --out "a b"
}

# The tree of another user, with stand-ins of everything that quickstart.sh starts.
@test "quickstart.sh in a tree that the user cannot write runs its program, and writes into the current folder" {
    # Not in TMPDIR, which may be this user's alone.
    place=$(mktemp -d /tmp/dptrain-tree.XXXXXX)
    mkdir -p "$place"/{tree/scripts,home}
    cp "$scripts"/{quickstart,lib}.sh "$place/tree/scripts/"
    printf '#!/bin/sh\necho "the program: $*"\n' >"$place/tree/dptrain"
    printf '#!/bin/sh\nwhile [ "$1" != --out ]; do shift; done\nmkdir -p "$2"; echo >"$2/ckpt-1.h5"\n' >"$place/tree/scripts/run.sh"
    chmod +x "$place/tree/dptrain" "$place/tree/scripts/run.sh"
    chmod 755 "$place"
    chmod -R a+rX,a-w "$place/tree"
    as=()
    if [[ $(id -u) -eq 0 ]]; then
        chown 65534 "$place/home"
        as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    fi
    # No make: it would write.
    printf '#!/bin/sh\necho make was started; exit 1\n' >"$place/home/make"
    chmod +x "$place/home/make"
    run env -C "$place/home" HOME="$place/home" PATH="$place/home:$PATH" DPTRAIN_BIN= "${as[@]}" "$place/tree/scripts/quickstart.sh" --skip-install
    echo "$output"
    chmod -R u+w "$place"
    [ -e "$place/home/runs/quickstart/ckpt-1.h5" ] && written=yes
    chmod -x "$place/tree/dptrain"
    chmod -R a-w "$place/tree"
    again=0
    env -C "$place/home" PATH="$place/home:$PATH" "${as[@]}" "$place/tree/scripts/quickstart.sh" --skip-install >"$BATS_TEST_TMPDIR/again" 2>&1 || again=$?
    chmod -R u+w "$place"
    rm -rf "$place"
    [[ "$status" -eq 0 && $written == yes ]]
    [[ "$output" == *"running the program that is built there"*"the program: eval $place/home/runs/quickstart"* ]]
    cat "$BATS_TEST_TMPDIR/again"
    [ "$again" -eq 4 ]
    grep -q "cannot build in $place/tree, which belongs to " "$BATS_TEST_TMPDIR/again"
}

@test "container.sh: help of every command, and errors in its options" {
    run "$scripts/container.sh" --help
    [[ "$status" -eq 0 && "$output" == "usage: scripts/container.sh COMMAND"* ]]
    for verb in build up check exec down; do
        run "$scripts/container.sh" $verb --help
        echo "$output"
        [[ "$status" -eq 0 && "$output" == "usage: scripts/container.sh $verb "* ]]
        run "$scripts/container.sh" $verb --no-such-option
        [[ "$status" -eq 2 && "$output" == *"'--no-such-option' of $verb"* ]]
    done
    for words in "up --port 0" "up --port 65536" "up --shm-size 64" "up --mount data" "up --mount /a:/" "up --mount /a://dev/shm" "up --mount /opt/dptrain:ro" "up --image -x" "up --gpus 2" "up --engine lxc" "up --name a/b" \
        "up --user x" "exec --timeout 0" "down --engine" "build --image"; do
        # shellcheck disable=SC2086 # these are words
        run "$scripts/container.sh" $words
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"needs a value"* || "$output" == *"invalid --"* ]]
    done
    run "$scripts/container.sh" up --mount /a --mount /b:/a:ro node1
    [[ "$status" -eq 2 && "$output" == *"--mount: two folders for /a in the container" ]]
    run "$scripts/container.sh" down --push node1
    [[ "$status" -eq 2 && "$output" == *"unknown option '--push' of down"* ]]
    run "$scripts/container.sh" build --engine docker --image a:b --build-arg CUDA=1 --dry-run
    if command -v docker >/dev/null; then
        [[ "$status" -eq 0 && "$output" == "docker build --file "*"/Containerfile --tag a:b --build-arg REVISION="*" --build-arg CUDA=1 "* ]]
    else
        [[ "$status" -eq 4 && "$output" == *"docker was not found"* ]]
    fi
}

@test "container.sh: what a host answers is data; no command in it runs" {
    export PWN=$BATS_TEST_TMPDIR/PWN PATH=$bin:$PATH
    code='BASH_VERSINFO[$(>"$PWN")]'
    printf '#!/bin/sh\nprintf "a\\t1\\t-\\t-\\t-\\t-\\tyes\\t-\\t-\\t-\\n"\n' >"$bin/dptrain"
    printf '#!/bin/sh\ncat "%s/answer"\n' "$BATS_TEST_TMPDIR" >"$bin/ssh"
    chmod +x "$bin/ssh"
    printf '%s\n' "name a $code" 'engine podman true' "root $code /" "image 0123 $code" "memlock $code" "unprivileged $code" "shm ${code}k" \
        'shm 512m' 'end' >"$BATS_TEST_TMPDIR/answer"
    run "$scripts/container.sh" up --dry-run a:1
    echo "$output"
    [ "$status" -eq 0 ]
    [ ! -e "$PWN" ]
    sed -i 's/^shm 512m/shm 08k/' "$BATS_TEST_TMPDIR/answer"
    run "$scripts/container.sh" up --dry-run a:1
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"a: /dev/shm of 0 MB is too small"* ]]
    # Codes that another host reports.
    . "$scripts/lib.sh"
    . "$scripts/cluster/hosts.sh"
    ssh_cause "$code" '' a 22 here
    [[ "$CAUSE" == "ssh ended with code 255" && ! -e $PWN ]]
}

@test "control characters of files and hosts do not reach a terminal" {
    escape=$'\e]0;title\a\x7f\xc2\x9b31m'
    no_controls() { ! LC_ALL=C grep -q $'[\x01-\b\v-\x1f\x7f]\|\xc2[\x80-\x9f]' <<<"$output"; }
    # Those of our own messages stay.
    . "$scripts/lib.sh"
    run say "one …"$'\r\n'"  two"$'\t'"é$escape"
    [[ "$output" == *": one …"$'\n  two\té?]0;title???31m' ]]
    run show '%s|%5s' "a$escape" b
    [ "$output" = 'a?]0;title???31m|    b' ]
    # Messages, and tables that are printed.
    export PATH=$bin:$PATH HOME=$BATS_TEST_TMPDIR
    printf '#!/bin/sh\nprintf "a\\t1\\t-\\t-\\t-\\t-\\tyes\\t-\\t-\\t-\\n"\n' >"$bin/dptrain"
    printf '#!/bin/sh\necho "state exited%s"; echo end; echo "odd%s" >&2; exit 255\n' "$escape" "$escape" >"$bin/ssh"
    chmod +x "$bin/ssh"
    run "$scripts/container.sh" check a:1
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"exited?]0;title???31m"* ]]
    no_controls
    sed -i.both 's/^echo "state.*end; /case " $* " in *" -G "*) echo hostname a; exit ;; esac; /' "$bin/ssh"
    for words in "setup_ssh --check a:1" "run -H a:1 -- train"; do
        # shellcheck disable=SC2086 # these are words
        run "$scripts/"${words/ /.sh }
        echo "$output"
        # The program masks each byte, the scripts each character.
        [[ "$status" -ne 0 && "$output" == *odd\?]0\;title\?\?\?@(|\?)31m* ]]
        no_controls
    done
    mv "$bin/ssh.both" "$bin/ssh"
    if command -v script >/dev/null; then
        run script -qec "'$scripts/on_hosts.sh' a:1 -- true" /dev/null
        echo "$output"
        [[ "$output" == *"a: state exited?]0;title???31m"*"a: odd?]0;title???31m"* || "$output" == *"a: odd?]0;title???31m"*"a: state exited?]0;title???31m"* ]]
        output=${output//$'\r'/}
        no_controls
    fi
    # What ranks and mpirun print as errors.
    fake_mpirun <<<"echo started; echo 'dptrain: error: $escape' >&2; exit 3"
    run "$scripts/run.sh" -np 1 train
    echo "$output"
    [[ "$status" -eq 3 && "$output" == *"error: ?]0;title????31m"* ]]
    no_controls
}

@test "an unknown option is a usage error that names it" {
    for script in install_deps run quickstart test dev/check_layers dev/house bench/best bundle bench/gpu_suite bench/gpu_losses bench/gpu_steps bench/gpu_detection setup_ssh \
        on_hosts stage_data bench/detection_balance bench/image dev/fuzz dev/check_links; do
        run "$scripts/$script.sh" --no-such-option
        echo "$script: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"'--no-such-option'"* ]]
    done
}

@test "an unknown option names the nearest one" {
    while IFS='|' read -r words nearest; do
        # shellcheck disable=SC2086 # these are words
        set -- $words
        run "$scripts/$1.sh" "${@:2}"
        echo "$words: $output"
        [ "$status" -eq 2 ]
        if [[ -n $nearest ]]; then [[ "$output" == *"did you mean $nearest?"* ]]; else [[ "$output" != *"did you mean"* ]]; fi
    done <<'EOF'
run --hostfil hosts train|-hostfile
run --restart=2 train|--restarts
run --lr 0.1 train|
setup_ssh --removed|--remove
regress run --start 2|--starts
cluster_health --includ a|--include
container up --port-number 22 a|--port
container down --push|
aws config --typ x|--type
mpijob --img x|--image
on_hosts --job 2|--jobs
stage_data --file 2|--files
simulate --np 2|-np
EOF
}

@test "an option without its value, or with a bad one, is a usage error" {
    for words in "run -np" "run -np 0" "run -np x" "run -hostfile" "run --grace -1" "run --restarts -1" "run --min-ranks 0" "run --wait-hosts x" "run --hosts-command" "quickstart --epochs" \
        "quickstart --epochs 1.5" "quickstart --np 0" "test --jobs 0" "test --only" "dev/check_layers --root" "dev/house --list x" \
        "bundle --out" "bench/gpu_suite --budget 0" "bench/gpu_suite --out" "bench/gpu_losses --seeds 1,x" "bench/gpu_losses --batch 1" "bench/gpu_losses --only cpu,tpu" "bench/gpu_steps --rounds x" "bench/gpu_detection --size 640" "bench/gpu_detection --device tpu" "bench/best --pairs 0" "bench/best --cases x --records /tmp/r" "bench/best --venv" \
        "bench/image --rounds 0" "bench/image --venv" "dev/fuzz --seconds 0" \
        "setup_ssh --jobs 0" "setup_ssh --timeout x" "on_hosts --timeout -1" "on_hosts --copy" "stage_data --files 0" "stage_data --probe"; do
        # shellcheck disable=SC2086 # these are words
        set -- $words
        run "$scripts/$1.sh" "${@:2}"
        echo "$words: $output"
        [ "$status" -eq 2 ]
        [[ "$output" == *"$2 needs a value"* || "$output" == *"invalid $2 '"* ]]
    done
}

# Steps with images whose positives and seconds follow from canvas and objects n: 128 n / (n + 20); 0.5 + 8 for 800x1088
# + 2 for 128 positives.
put_balance() { # FILE
    awk 'BEGIN {
        srand(1)
        split("800x1088 1088x800 800x1344 832x832", canvas)
        split("870400 870400 1075200 692224", area)
        print "{\"record\":\"run\"}"
        for (step = 0; step < 60; step++) {
            printf "{\"record\":\"step\",\"step\":%d", step
            if (step % 2) { print "}"; continue }
            for (i = 0; i < 8; i++) {
                c = 1 + int(4 * rand()); objects = int(25 * rand()); positives = int(128 * objects / (objects + 20) + 0.5)
                printf "%s{\"image\":%d,\"canvas\":\"%s\",\"objects\":%d,\"positives\":%d,\"sec\":%.9f,\"rank\":%d}",
                    i ? "," : ",\"images\":[", step * 8 + i, canvas[c], objects, positives,
                    0.5 + 8 * area[c] / 870400 + 2 * positives / 128, i / 4
            }
            print "]}"
        }
    }' >"$1"
}

@test "detection_balance.sh replays recorded images and fits their costs" {
    put_balance "$BATS_TEST_TMPDIR/metrics.jsonl"
    page=$("$scripts/bench/detection_balance.sh" "$BATS_TEST_TMPDIR" 2>"$BATS_TEST_TMPDIR/why") || { cat "$BATS_TEST_TMPDIR/why"; return 1; }
    echo "$page"
    [[ "$page" == *"Recorded: 240 images of 30 steps on 2 ranks, 4 canvases, up to 70 positives."* ]]
    [[ "$page" == *"Positives of an image with n objects: 128 · n / (n + 20.0), off by 0 "* ]]
    [[ "$page" == *"Seconds of an image: 0.500, 8.000 for a canvas of 800×1088 and 2.000 for 128 positives."* ]]
    awk -F'|' '/^\| as they come/ { for (i = 3; i < 15; i++) plain[i] = $i }
        /^\| dealt by/ { n++; for (i = 3; i < 15; i++) if (i < 7 ? $i != plain[i] : $i <= plain[i]) bad = 1 }
        /^\| one canvas.*estimated/ { n++; for (i = 3; i < 15; i++) if ($i <= plain[i] || $i > 1) bad = 1; if ($14 < 0.98) bad = 1 }
        END { exit bad || n != 2 }' <<<"$page"
}

@test "detection_balance.sh names what is wrong with records" {
    run "$scripts/bench/detection_balance.sh"
    [ "$status" -eq 2 ]
    echo '{"record":"step","step":0}' >"$BATS_TEST_TMPDIR/none"
    run "$scripts/bench/detection_balance.sh" "$BATS_TEST_TMPDIR/none"
    echo "$output"
    [[ "$status" -eq 3 && "$output" == *"no step of $BATS_TEST_TMPDIR/none has \`images\`"* ]]
    echo '{"record":"step","step":0,"images":[{"canvas":"800x1088"}]}' >>"$BATS_TEST_TMPDIR/none"
    run "$scripts/bench/detection_balance.sh" "$BATS_TEST_TMPDIR/none"
    [[ "$status" -eq 3 && "$output" == *"none, line 2: invalid \`images\`"* ]]
    echo '{' >"$BATS_TEST_TMPDIR/none"
    run "$scripts/bench/detection_balance.sh" "$BATS_TEST_TMPDIR/none"
    [[ "$status" -eq 3 && "$output" == *"none, line 1: "*JSON* ]]
}

@test "install_deps.sh --list names the packages, more of them with --test" {
    run "$scripts/install_deps.sh" --list
    [ "$status" -eq 0 ]
    [[ "$output" == *libopenmpi-dev* && "$output" == *libdnnl-dev* && "$output" != *shellcheck* ]]
    run "$scripts/install_deps.sh" --list --test
    [ "$status" -eq 0 ]
    [[ "$output" == *libopenmpi-dev* && "$output" == *shellcheck* ]]
}

# A PATH with only the tools that the script itself needs.
small_path() {
    local tool
    mkdir "$BATS_TEST_TMPDIR/small"
    for tool in bash dirname readlink env id "$@"; do ln -s "$(command -v "$tool")" "$BATS_TEST_TMPDIR/small/$tool"; done
    echo "$BATS_TEST_TMPDIR/small"
}

@test "install_deps.sh without apt lists missing packages and ends with 4" {
    PATH=$(small_path) run "$scripts/install_deps.sh" --test
    echo "$output"
    [ "$status" -eq 4 ]
    for word in "command mpicc" "command bats" "library libpng" "library HDF5" "library oneDNN"; do
        [[ "$output" == *"$word"* ]]
    done
    [[ "$output" != *dnf* ]]
    printf '#!/bin/sh\n' >"$BATS_TEST_TMPDIR/small/dnf"
    chmod +x "$BATS_TEST_TMPDIR/small/dnf"
    PATH=$BATS_TEST_TMPDIR/small run "$scripts/install_deps.sh" --test
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"have not been tried"*"dnf install gcc "*" onednn-devel "*" ShellCheck "* ]]
}

@test "install_deps.sh asks apt-get only for missing packages, and not at all if there are none" {
    cat >"$bin/dpkg-query" <<'EOF'
#!/usr/bin/env bash
case ${!#} in
make) echo config-files; exit 0 ;;
libpng-dev) exit 1 ;;
git) [[ -e $ALL_THERE ]] && echo installed || echo not-installed ;;
*) echo installed ;;
esac
EOF
    cat >"$bin/apt-get" <<'EOF'
#!/usr/bin/env bash
echo "apt-get ($DEBIAN_FRONTEND) $*" >>"$CALLS"
EOF
    printf '#!/usr/bin/env bash\nexec "$@"\n' >"$bin/sudo"
    printf '#!/usr/bin/env bash\nexit 1\n' >"$bin/python3"
    chmod +x "$bin"/*
    export CALLS=$BATS_TEST_TMPDIR/calls ALL_THERE=$BATS_TEST_TMPDIR/all
    PATH=$bin:$PATH run "$scripts/install_deps.sh"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$(sed -n 1p "$CALLS")" == *"-q update" ]]
    [[ "$(sed -n 2p "$CALLS")" == *"noninteractive) -q -y install --no-install-recommends make git libpng-dev" ]]

    printf '#!/usr/bin/env bash\necho installed\n' >"$bin/dpkg-query"
    rm "$CALLS"
    export DPTRAIN_PNGSUITE=$BATS_TEST_TMPDIR/suite
    mkdir "$DPTRAIN_PNGSUITE" && touch "$DPTRAIN_PNGSUITE/basn0g01.png"
    DPTRAIN_VENV=$BATS_TEST_TMPDIR/venv PATH=$bin:$PATH run "$scripts/install_deps.sh" --test
    [ "$status" -eq 0 ]
    [ ! -e "$CALLS" ]

    printf '#!/usr/bin/env bash\nexit 1\n' >"$bin/dpkg-query"
    printf '#!/usr/bin/env bash\nexit 100\n' >"$bin/apt-get"
    PATH=$bin:$PATH run "$scripts/install_deps.sh"
    [ "$status" -eq 4 ]
    [[ "$output" == *"apt-get update failed"* ]]
}

@test "install_deps.sh --test: services of packages that were not there neither start nor are enabled" {
    export CALLS=$BATS_TEST_TMPDIR/calls DPTRAIN_POLICY_RC=$BATS_TEST_TMPDIR/policy-rc.d DPTRAIN_PNGSUITE=$BATS_TEST_TMPDIR/suite
    mkdir "$DPTRAIN_PNGSUITE" && touch "$DPTRAIN_PNGSUITE/basn0g01.png"
    printf '#!/usr/bin/env bash\n[[ " $GONE " == *" ${!#} "* ]] || echo installed\n' >"$bin/dpkg-query"
    # Asks as a package's script does before it starts a service.
    cat >"$bin/apt-get" <<'EOF'
#!/usr/bin/env bash
[[ $* == *install* ]] || exit 0
for unit in ssh ssh.service podman.socket cron; do
    [[ ! -x $DPTRAIN_POLICY_RC ]] || { code=0; "$DPTRAIN_POLICY_RC" "$unit" start || code=$?; echo "start $unit: $code" >>"$CALLS"; }
done
exit "${CODE:-0}"
EOF
    printf '#!/usr/bin/env bash\n%s\n' '[[ $* != *openssh-server* ]] || printf "%s\n" /lib/systemd/system/ssh.service /etc/init.d/ssh' \
        '[[ $* != *podman* ]] || printf "%s\n" /usr/lib/systemd/system/podman.socket /usr/lib/systemd/system/podman-kube@.service' >"$bin/dpkg"
    printf '#!/usr/bin/env bash\necho "systemctl $*" >>"$CALLS"\n' >"$bin/systemctl"
    printf '#!/usr/bin/env bash\nexec "$@"\n' >"$bin/sudo"
    printf '#!/usr/bin/env bash\nexit 1\n' >"$bin/python3"
    chmod +x "$bin"/*
    export GONE='openssh-server podman' DPTRAIN_VENV=$BATS_TEST_TMPDIR/venv PATH=$bin:$PATH
    run "$scripts/install_deps.sh" --test
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -v ' stop ' "$CALLS")" = 'start ssh: 101
start ssh.service: 101
start podman.socket: 101
start cron: 0
systemctl -q disable ssh.service podman.socket' ]
    [ ! -e "$DPTRAIN_POLICY_RC" ]
    # One that was there stays as it is; and so does a policy. Also if the installation fails.
    printf '#!/bin/sh\nexit 104\n' >"$DPTRAIN_POLICY_RC"
    chmod +x "$DPTRAIN_POLICY_RC"
    rm "$CALLS"
    GONE=podman CODE=100 run "$scripts/install_deps.sh" --test
    [ "$status" -eq 4 ]
    [ "$(grep -c ': 104' "$CALLS")" -eq 4 ]
    grep -qx 'systemctl -q disable podman.socket' "$CALLS"
    [ "$(grep -c "systemctl.*ssh" "$CALLS")" -eq 0 ]
    [ "$(tail -n 1 "$DPTRAIN_POLICY_RC")" = 'exit 104' ]
    # Without such a package nothing is asked.
    rm "$CALLS" "$DPTRAIN_POLICY_RC"
    GONE=jq run "$scripts/install_deps.sh" --test
    [ "$status" -eq 0 ]
    [ ! -e "$CALLS" ]
}

@test "install_deps.sh --test creates the venv once; without a network it prints a note, as without PngSuite" {
    export DPTRAIN_PNGSUITE=$BATS_TEST_TMPDIR/suite
    printf '#!/usr/bin/env bash\necho installed\n' >"$bin/dpkg-query"
    cp "$bin/dpkg-query" "$bin/apt-get"
    # python3 -m venv FOLDER, and then its -m pip, which logs its arguments or fails as without a network.
    cat >"$bin/python3" <<'EOF'
#!/usr/bin/env bash
[[ $2 == venv ]] || exec "$FAKE_PIP" "${@:3}"
mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
EOF
    cat >"$bin/pip" <<'EOF'
#!/usr/bin/env bash
[[ ! -e $NO_NETWORK ]] || { printf 'WARNING: retrying\nERROR: no matching distribution\n' >&2; exit 1; }
echo "$*" >>"$CALLS"
EOF
    chmod +x "$bin"/*
    export FAKE_PIP=$bin/pip CALLS=$BATS_TEST_TMPDIR/calls NO_NETWORK=$BATS_TEST_TMPDIR/no_network
    export DPTRAIN_VENV=$BATS_TEST_TMPDIR/venv PATH=$bin:$PATH
    touch "$NO_NETWORK"
    run "$scripts/install_deps.sh" --test
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"so their tests will be skipped: ERROR: no matching distribution"* ]]
    [[ "$output" == *"could not fetch PngSuite, so its tests will be skipped:"* ]]
    [ -z "$(ls "$BATS_TEST_TMPDIR"/suite* 2>/dev/null)" ]
    rm "$NO_NETWORK"
    for _ in 1 2; do "$scripts/install_deps.sh" --test; done
    [ "$(wc -l <"$CALLS")" -eq 1 ]
    [[ "$(cat "$CALLS")" == install*--no-deps*tensorboard==* ]]
    run "$scripts/install_deps.sh"
    [ "$status" -eq 0 ]
    [[ "$output" != *venv* ]]
}

@test "install_deps.sh --aws creates its venv once, and never without the option; a failure is an error" {
    printf '#!/usr/bin/env bash\necho installed\n' >"$bin/dpkg-query"
    cp "$bin/dpkg-query" "$bin/apt-get"
    # python3 -m venv FOLDER, and then its -m pip.
    cat >"$bin/python3" <<'EOF'
#!/usr/bin/env bash
[[ $2 == venv ]] || exec "$FAKE_PIP" "${@:3}"
mkdir -p "$3/bin" && cp "$0" "$3/bin/python" && printf '#!/bin/sh\n' >"$3/bin/pcluster" && chmod +x "$3/bin/pcluster"
EOF
    cat >"$bin/pip" <<'EOF'
#!/usr/bin/env bash
[[ ! -e $NO_NETWORK ]] || { printf 'ERROR: no matching distribution\n' >&2; exit 1; }
echo "$*" >>"$CALLS"
EOF
    chmod +x "$bin"/*
    export FAKE_PIP=$bin/pip CALLS=$BATS_TEST_TMPDIR/calls NO_NETWORK=$BATS_TEST_TMPDIR/no_network
    export DPTRAIN_AWS_VENV=$BATS_TEST_TMPDIR/venv PATH=$bin:$PATH
    run "$scripts/install_deps.sh" --list --aws
    [[ "$status" -eq 0 && "$output" == *nodejs* && "$output" == *aws-parallelcluster==3.* && "$output" == *awscli==* ]]
    touch "$NO_NETWORK"
    run "$scripts/install_deps.sh" --aws
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"could not install AWS ParallelCluster from PyPI: ERROR: no matching distribution"* ]]
    rm "$NO_NETWORK"
    run "$scripts/install_deps.sh"
    [[ "$status" -eq 0 && "$output" != *venv* && ! -e $CALLS ]]
    for _ in 1 2; do "$scripts/install_deps.sh" --aws; done
    [ "$(wc -l <"$CALLS")" -eq 1 ]
    [[ "$(cat "$CALLS")" == install*aws-parallelcluster==3.*moto*server* ]]
}

@test "dptrain.sbatch names its nodes and those that are down, and stages data on every node first" {
    place=$BATS_TEST_TMPDIR/home
    mkdir -p "$place/scripts"
    printf '#!/bin/sh\necho "run.sh: $*"\n' >"$place/scripts/run.sh"
    printf '#!/bin/sh\necho "srun: $*"\n' >"$bin/srun"
    printf '#!/bin/sh\n[ "$3" = gpus ] && echo "n[3-4] (down: no capacity)"\n' >"$bin/sinfo"
    chmod +x "$place/scripts/run.sh" "$bin"/*
    export PATH=$bin:$PATH DPTRAIN_HOME=$place SLURM_SUBMIT_DIR=$place SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n[1-2]'
    SLURM_JOB_PARTITION=gpus DPTRAIN_STAGE=/shared/data:/scratch/data run "$scripts/dptrain.sbatch" train
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "dptrain.sbatch: nodes of job 7: n[1-2]" ]
    [ "${lines[1]}" = "dptrain.sbatch: not available: n[3-4] (down: no capacity)" ]
    [ "${lines[2]}" = "srun: --ntasks=2 --ntasks-per-node=1 $place/scripts/stage_data.sh --here /shared/data /scratch/data" ]
    [[ "${lines[3]}" == "run.sh: "*" -- train --out runs/slurm-7 --resume auto" ]]
    printf '#!/bin/sh\nexit 5\n' >"$place/scripts/run.sh"
    SLURM_RESTART_COUNT="BASH_VERSINFO[\$(>$place/PWN)]" run "$scripts/dptrain.sbatch" train
    [[ "$status" -eq 5 && ! -e $place/PWN ]]
    DPTRAIN_STAGE=data run "$scripts/dptrain.sbatch" train
    [[ "$status" -eq 2 && "$output" == *"invalid DPTRAIN_STAGE 'data'"* ]]
    printf '#!/bin/sh\nexit 3\n' >"$bin/srun"
    DPTRAIN_STAGE=/a:/b run "$scripts/dptrain.sbatch" train
    [[ "$status" -eq 3 && "$output" != *run.sh* ]]
}

@test "run.sh --dry-run prints the command, quoted" {
    fake_mpirun <<<'' # 4.1's flags
    run "$scripts/run.sh" -np 1 --dry-run train --out 'a b'
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == "mpirun "*" -np 1 $DPTRAIN_BIN train --out 'a b'" ]]
    [[ "$output" == *"-x DPTRAIN_BIN"* ]]
}

@test "run.sh allows more ranks than cores, and binds otherwise" {
    fake_mpirun <<<''
    run "$scripts/run.sh" -np 100000 --dry-run
    [[ "$output" == *"--oversubscribe --bind-to none"* ]]
    DPTRAIN_BIND=none run "$scripts/run.sh" -np 1 --dry-run
    [[ "$output" == *"--bind-to none"* ]]
    # shellcheck source=scripts/lib.sh
    . "$scripts/lib.sh"
    may_bind || skip "this machine does not let processes be bound"
    run "$scripts/run.sh" -np 1 --dry-run
    echo "$output"
    [[ "$output" == *"--map-by slot:PE=$(allowed_cores) --bind-to core"* ]]
}

@test "run.sh run as root prints one note about it" {
    unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
    run "$scripts/run.sh" -np 1 --dry-run
    if [ "$(id -u)" -eq 0 ]; then
        [ "$(grep -c 'running as root' <<<"$output")" -eq 1 ]
    else
        [[ "$output" != *root:* ]]
    fi
}

@test "run.sh without a program, or without mpirun, ends with 4" {
    DPTRAIN_BIN=/no/such/file run "$scripts/run.sh" -np 1
    [ "$status" -eq 4 ]
    [[ "$output" == *"/no/such/file"* ]]
    PATH=$(small_path nproc sed grep cat taskset mktemp rm timeout) run "$scripts/run.sh" -np 1
    echo "$status $output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"mpirun was not found"* ]]
}

@test "run.sh passes dptrain's output and exit codes 0 to 5 on" {
    # mpirun speaks of a rank that fails.
    fake_mpirun <<<'printf "first\nsecond\n"; rule=$(printf "%074d" 0 | tr 0 -)
        ((${!#} == 0)) || printf "%s\n" "$rule" "Primary job  terminated normally, but 1 process returned" \
            "a non-zero exit code. Per user-direction, the job has been aborted." "$rule" >&2
        exit "${!#}"'
    for code in 0 1 2 3 4 5; do
        run "$scripts/run.sh" -np 1 "$code"
        echo "$code: $status $output"
        [ "$status" -eq "$code" ]
        [ "$output" = $'first\nsecond' ]
    done
    # A bare chroot may lack /proc.
    unshare --mount mount -t tmpfs none /proc 2>/dev/null || skip "cannot hide /proc"
    run unshare --mount sh -c 'mount -t tmpfs none /proc && exec "$0" -np 1 3' "$scripts/run.sh"
    echo "$output"
    [[ "$status" -eq 3 && "$output" == *$'first\nsecond' ]]
}

@test "run.sh keeps the exit code, and the output of a process that mpirun left" {
    fake_mpirun <<<'(sleep 1; echo late) & echo first; exit "${!#}"'
    for code in 0 3; do
        TMPDIR=$BATS_TEST_TMPDIR run "$scripts/run.sh" -np 1 "$code"
        echo "$code: $status $output"
        [ "$status" -eq "$code" ]
        [ "$output" = $'first\nlate' ]
        [ -z "$(ls -d "$BATS_TEST_TMPDIR"/dptrain-run.* 2>/dev/null)" ]
    done
}

@test "run.sh starts mpirun with the signals and open files that it has itself, and none of its own variables" {
    fake_mpirun <<<'grep -E "Sig(Blk|Ign)" /proc/self/status; ls /proc/$$/fd; env | grep -E "^(COLUMNS|CALLED_AS|DPTRAIN_TERMINAL)="; exit 0'
    unset COLUMNS DPTRAIN_TERMINAL
    "$bin/mpirun" alone >"$BATS_TEST_TMPDIR/alone"
    "$scripts/run.sh" -np 1 >"$BATS_TEST_TMPDIR/under"
    diff "$BATS_TEST_TMPDIR/alone" "$BATS_TEST_TMPDIR/under"
}

@test "run.sh turns a lost host into 5" {
    fake_mpirun <<<'echo started; exit 205'
    run "$scripts/run.sh" -np 1
    [ "$status" -eq 5 ]
    [[ "$output" == *"a host is lost; "* ]]
}

@test "run.sh prints why mpirun could not start, and ends with 4" {
    fake_mpirun <<<'echo "not enough slots" >&2; exit 1'
    run "$scripts/run.sh" -np 1
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"not enough slots"*"mpirun could not start"* ]]
}

@test "run.sh forwards SIGTERM and SIGINT as SIGUSR1, and ends with 143 and 130" {
    fake_mpirun <<<'trap "echo checkpoint; exit 0" USR1; trap "exit 1" TERM; echo started; while :; do sleep 0.1; done'
    for signal in TERM INT; do
        export FLAG=$BATS_TEST_TMPDIR/flag.$signal
        # bats lets background processes ignore SIGINT; env restores it.
        env --default-signal=INT "$scripts/run.sh" -np 1 >"$FLAG.out" 2>&1 3>&- &
        pid=$!
        wait_for '^started' "$FLAG.out"
        kill "-$signal" "$pid"
        code=0
        wait "$pid" || code=$?
        cat "$FLAG.out"
        [ "$code" -eq $((128 + $(kill -l "$signal"))) ]
        grep -q '^checkpoint$' "$FLAG.out"
        grep -q "SIG$signal: asking the job for a checkpoint" "$FLAG.out"
    done
}

# Runs run.sh until its fake_mpirun has said `started`, then sends SIGTERM once or, when it has been heard, twice. Sets code; the output is in $FLAG.out.
terminate() { # TIMES RUN.SH'S ARGUMENTS...
    local pid
    export FLAG=$BATS_TEST_TMPDIR/flag
    rm -f "$FLAG.out"
    "$scripts/run.sh" "${@:2}" >"$FLAG.out" 2>&1 3>&- &
    pid=$!
    wait_for '^started' "$FLAG.out"
    kill -TERM "$pid"
    wait_for 'SIGTERM: asking the job' "$FLAG.out"
    # Within 0.2 s it would be the same signal, come twice.
    (($1 == 1)) || { sleep 0.3 && kill -TERM "$pid"; }
    code=0
    wait "$pid" || code=$?
    cat "$FLAG.out"
}

@test "run.sh asks a job that saves nothing to stop, not for a checkpoint" {
    fake_mpirun <<<'trap "exit 0" USR1; echo started; while :; do sleep 0.1; done'
    terminate 1 -np 2 -- bench comm
    [ "$code" -eq 143 ]
    grep -q 'SIGTERM: asking the job to stop; it has 30 s' "$FLAG.out"
}

@test "run.sh ends an unresponsive job after the grace period, or at the second signal, with 143" {
    fake_mpirun <<<'trap "" USR1; trap "exit 1" TERM; echo started; while :; do sleep 0.1; done'
    terminate 1 -np 1 --grace 1
    [ "$code" -eq 143 ]
    grep -q 'stopped by SIGTERM' "$FLAG.out"

    terminate 2 -np 1 --grace 1000
    [ "$code" -eq 143 ]
}

@test "run.sh ends a job that prints nothing within --timeout-start" {
    fake_mpirun <<<'trap "exit 1" TERM; while :; do sleep 0.1; done'
    run "$scripts/run.sh" -np 1 --timeout-start 1
    echo "$output"
    [ "$status" -eq 5 ]
    [[ "$output" == *"printed nothing within 1 s"* ]]
}

@test "run.sh takes hosts from a pipe, and a signal ends it while nobody writes there" {
    run "$scripts/run.sh" --dry-run -hostfile <(sleep 0.5; echo localhost slots=2) -- train
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *" -np 2 -H localhost:2 "* ]]
    mkfifo "$BATS_TEST_TMPDIR/hosts"
    "$scripts/run.sh" --dry-run -hostfile "$BATS_TEST_TMPDIR/hosts" -- train >"$BATS_TEST_TMPDIR/out" 2>&1 3>&- &
    pid=$!
    for ((i = 0; i < 600; i++)); do
        ! pgrep -P "$pid" -x cat || break
        sleep 0.1
    done
    kill -TERM "$pid"
    code=0
    wait "$pid" || code=$?
    cat "$BATS_TEST_TMPDIR/out"
    [ "$code" -eq 143 ]
}

@test "run.sh removes its temporary folder" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp
    mkdir "$TMPDIR"
    fake_mpirun <<<'echo started; exit 3'
    run "$scripts/run.sh" -np 1
    [ "$status" -eq 3 ]
    [ -z "$(ls -A "$TMPDIR")" ]
}

@test "a script's folder survives children that are killed as they start" {
    # shellcheck source=scripts/lib.sh
    run bash -c '. "$0/lib.sh"; make_work test "$1"
        for ((i = 0; i < 300; i++)); do sleep 9 & kill $!; wait $!; [[ -d $work ]] || exit 1; done 2>/dev/null' \
        "$scripts" "$BATS_TEST_TMPDIR"
    [ "$status" -eq 0 ]
    [ -z "$(find "$BATS_TEST_TMPDIR" -name 'dptrain-test.*')" ]
}

@test "check_layers.sh finds every kind of violation, by file and line" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/scripts/dev "$tree"/src/{base,low/{a,b},high,odd} "$tree"/kernels/{ref,cpu/deep}
    cat >"$tree/scripts/dev/layers.txt" <<'EOT'
# a comment
base:
low/a: base
low/b: base
    low/a
kernels/ref: base
kernels/cpu: base
high: low/b
main.c: high

<mpi.h>: low/b
<cuda_runtime_api.h>: low/a kernels/cpu
<cuda*.h>: kernels/cpu
EOT
    touch "$tree/src/low/a/own.h"
    printf '#include <stdio.h>\n#include "base/mem.h"\n' >"$tree/src/base/mem.c"
    printf '#include "own.h"\n#include "base/mem.h"\n#include <cuda_runtime_api.h>\n' >"$tree/src/low/a/good.c"
    printf '#include <mpi.h>\n#include "low/a/own.h"\n#include "base/mem.h"\n' >"$tree/src/low/b/good.c"
    printf '#include "low/b/b.h"\n' >"$tree/src/high/good.c"
    printf '#include "high/high.h"\n' >"$tree/src/main.c"
    printf '#include "base/mem.h"\n' >"$tree/kernels/ref/good.c"
    printf '#include "kernels/cpu/cpu.h"\n#include "base/mem.h"\n#include <cuda.h>\n#include <cuda_runtime_api.h>\n' \
        >"$tree/kernels/cpu/deep/good.cu"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]

    printf '\n#include "low/a/own.h"\n' >"$tree/src/base/up.c"
    printf '  #  include "low/b/b.h"\n' >"$tree/src/low/a/sideways.h"
    printf '#include "base/mem.h"\n' >"$tree/src/high/skips.c"
    printf '#include "kernels/ref/ref.h"\n' >"$tree/src/low/b/kernel.c"
    printf '#include "kernels/ref/ref.h"\n' >"$tree/kernels/cpu/other.c"
    printf '#include "../a/own.h"\n' >"$tree/src/low/a/dots.c"
    printf '#include "missing.h"\n' >"$tree/src/low/a/missing.c"
    printf '#include <mpi.h>\n' >"$tree/src/low/a/mpi.c"
    printf '#include "mpi.h"\n' >"$tree/src/high/quoted.c"
    printf '#include <cuda_runtime.h>\n' >"$tree/src/low/a/cuda.c"
    printf '#include "tests/tap.h"\n' >"$tree/src/high/tests.c"
    printf '#include <stdio.h>\n' >"$tree/src/odd/x.c"
    printf '#include MACRO\n' >"$tree/src/high/macro.c"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    for place in src/base/up.c:2 src/low/a/sideways.h:1 src/high/skips.c:1 src/low/b/kernel.c:1 kernels/cpu/other.c:1 \
        src/low/a/dots.c:1 src/low/a/missing.c:1 src/low/a/mpi.c:1 src/high/quoted.c:1 src/low/a/cuda.c:1 \
        src/high/tests.c:1 src/odd/x.c:1 src/high/macro.c:1; do
        grep -q "^$place: " <<<"$output" || { echo "missing: $place"; return 1; }
    done
    [ "$(grep -c '^[^ ]*:[0-9]*: ' <<<"$output")" -eq 13 ]
}

@test "check_layers.sh finds include cycles, counting a .c and its .h as one" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/scripts/dev "$tree"/src/{low,high} "$tree"/kernels/cpu
    printf 'low:\nhigh: low\nkernels/cpu: low\n' >"$tree/scripts/dev/layers.txt"
    touch "$tree"/src/low/{a,b,c}.h
    printf '#include "low/a.h"\n#include "low/b.h"\n' >"$tree/src/low/a.c"
    printf '#include "low/c.h"\n' >"$tree/src/low/b.h"
    printf '#include "low/b.h"\n#include "low/c.h"\n' >"$tree/src/high/x.c"
    printf '#include "low/c.h"\n' >"$tree/kernels/cpu/y.c"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]

    printf '#include <stdio.h>\n#include "a.h"\n' >"$tree/src/low/c.c"
    printf '#include "kernels/cpu/z.cuh"\n' >>"$tree/kernels/cpu/y.c"
    printf '#include "kernels/cpu/y.h"\n' >"$tree/kernels/cpu/z.cu"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(grep -c ': include cycle: ' <<<"$output")" -eq 2 ]
    grep -qE '^src/low/(a\.c:2|b\.h:1|c\.c:2): include cycle: src/low/[abc]( -> src/low/[abc]){3}$' <<<"$output"
    grep -qE '^kernels/cpu/(y\.c:2|z\.cu:1): include cycle: kernels/cpu/[yz]( -> kernels/cpu/[yz]){2}$' <<<"$output"
}

@test "check_layers.sh finds files of a room that use each other's symbols" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/scripts/dev "$tree"/src/{low,high} "$tree"/kernels/cpu "$tree"/build/{src/{low,high},kernels/cpu}
    list=$tree/scripts/dev/layers.txt
    printf 'low:\nhigh: low\nkernels/cpu:\n' >"$list"
    printf '#include "low/low.h"\nvoid a(void);\nvoid c(void);\nvoid c(void) { a(); }\n' >"$tree/src/high/c.c"
    touch "$tree/src/low/low.h"
    printf 'void a(void);\nvoid b(void);\nvoid a(void) { b(); }\n' >"$tree/src/low/a.c"
    printf 'void b(void);\nextern const int t;\nvoid b(void) { (void)t; }\n' >"$tree/src/low/b.c"
    printf 'extern const int t;\nconst int t = 1;\n' >"$tree/src/low/t.c"
    printf 'void k(void);\nvoid c(void);\nvoid k(void) { c(); }\n' >"$tree/kernels/cpu/k.c"
    build() { for file in "$@"; do gcc -I "$tree/src" -c -o "$tree/build/${file%.c}.o" "$tree/$file"; done; }
    build src/high/c.c src/low/{a,b,t}.c kernels/cpu/k.c
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 0 ]
    [ -z "$output" ]

    # a -> b -> t -> a, and back from the table.
    printf 'void a(void);\nextern void (*const t)(void);\nvoid (*const t)(void) = a;\n' >"$tree/src/low/t.c"
    printf 'void b(void);\nextern void (*const t)(void);\nvoid b(void) { t(); }\n' >"$tree/src/low/b.c"
    build src/low/{b,t}.c
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"src/low/a.c:1: "*": a.c b.c t.c"* ]]
    [ "$(grep -c '^[^ ]*:[0-9]*: ' <<<"$output")" -eq 1 ]

    # Without objects nothing is known of symbols.
    run "$scripts/dev/check_layers.sh" --root "$tree" --build "$tree/none"
    [ "$status" -eq 0 ]

    printf 'circle low: a.c b.c t.c\n' >>"$list"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 0 ]

    # A larger circle is a violation, as is one in the list that is gone.
    printf 'circle low: a.c b.c\ncircle high: c.c d.c\n' | cat <(head -n 3 "$list") - >"$list.new"
    mv "$list.new" "$list"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ "$output" == *"src/low/a.c:1: "* && "$output" == *"layers.txt:4: "* && "$output" == *"layers.txt:5: "* ]]
    [ "$(grep -c '^[^ ]*:[0-9]*: ' <<<"$output")" -eq 3 ]

    # The figures of the same tree.
    run "$scripts/dev/house.sh" --root "$tree" --list names
    echo "$output"
    [ "$output" = $'src/low/b.c src/low/a.c b\nsrc/low/t.c src/low/b.c t' ]
}

@test "check_layers.sh rejects a list with cycles or unused dependencies" {
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/scripts/dev "$tree"/src/{low/{a,b},high}
    printf 'low/a: high\nhigh: low/a\nlow/b:\n<mpi.h>: high\n' >"$tree/scripts/dev/layers.txt"
    printf '#include "high/high.h"\n' >"$tree/src/low/a/up.c"
    run "$scripts/dev/check_layers.sh" --root "$tree"
    echo "$output"
    [ "$status" -eq 1 ]
    for line in "1: low/a includes high, which is not listed before it" "2: high no longer includes low/a" \
        "3: low/b: the rooms of low/ are not listed together" "4: high no longer includes <mpi.h>"; do
        [[ "$output" == *"scripts/dev/layers.txt:$line"* ]] || { echo "missing: $line"; return 1; }
    done
}

@test "check_layers.sh on a tree without sources is an error, not a pass" {
    mkdir -p "$BATS_TEST_TMPDIR/empty"/{src,scripts/dev}
    run "$scripts/dev/check_layers.sh" --root "$BATS_TEST_TMPDIR/empty"
    [ "$status" -eq 4 ]
    touch "$BATS_TEST_TMPDIR/empty/scripts/dev/layers.txt"
    run "$scripts/dev/check_layers.sh" --root "$BATS_TEST_TMPDIR/empty"
    [ "$status" -eq 4 ]
    run "$scripts/dev/check_layers.sh" --root "$BATS_TEST_TMPDIR/bin"
    [ "$status" -eq 2 ]
}

@test "test.sh lists its entries; an --only without matches is an error" {
    run "$scripts/test.sh" --list --only '^(san/)?unit/test_base_rng|shellcheck|fuzz/'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = $'san/fuzz/mutations\nsource/shellcheck\nsan/unit/test_base_rng\nunit/test_base_rng' ]
    # Those of bats once each, and of those that mostly wait no two together, but for the last ones.
    run "$scripts/test.sh" --list --no-san --only '^(cli|container|k8s|aws|cluster|sim|platform)/'
    diff <(LC_ALL=C sort <<<"$output") <(cd "$root/tests" && find . -path ./fuzz -prune -o -name '*.bats' -print | sed 's,^./,,; s,[.]bats$,,' | LC_ALL=C sort)
    order=$(sed -E 's,^cli/.*,c,; s,.*/.*,w,' <<<"$output" | tr -d '\n')
    [[ $order =~ ^c+(wc+)+w*$ ]]
    run "$scripts/test.sh" --list --only no_such_test
    [ "$status" -eq 2 ]
}

# Runs a plan of one entry, as test.sh does.
drive() { # SECONDS COMMAND
    export DPTRAIN_TEST_WORK=$BATS_TEST_TMPDIR/work
    rm -rf "$DPTRAIN_TEST_WORK"
    mkdir -p "$DPTRAIN_TEST_WORK/logs"
    printf 'a/b [x]\t%s\t%s\n' "$1" "$2" >"$DPTRAIN_TEST_WORK/plan"
    run "$root/tests/driver.sh" "a/b [x]"
    echo "$output"
}

@test "a test that fails, crashes, stops early, hangs or is missing fails; a good one passes" {
    drive 10 'printf 1..2\\nok\ 1\\nok\ 2\\n'
    [ "$status" -eq 0 ]
    drive 10 'printf 1..2\\nok\ 1\\nnot\ ok\ 2\ -\ that\\n'
    [ "$status" -ne 0 ]
    [[ "$output" == *"not ok 2 - that"* ]]
    drive 10 'printf 1..2\\nok\ 1\\n'
    [ "$status" -ne 0 ]
    drive 10 'bash -c echo\ 1..1\;echo\ ok\ 1\;kill\ -SEGV\ \$\$'
    [ "$status" -ne 0 ]
    drive 1 'bash -c echo\ 1..1\;echo\ ok\ 1\;sleep\ 30'
    [ "$status" -ne 0 ]
    [[ "$output" == *"stopped after 1 s"* ]]
    drive 10 '/no/such/test'
    [ "$status" -ne 0 ]
    drive 10 'printf 1..2\\nok\ 2\\nok\ 1\\n'
    [ "$status" -ne 0 ]
    drive 10 'echo ok\ 1'
    [ "$status" -ne 0 ]
    [[ "$output" == *"no plan"* ]]
}

# A tree with test.sh and tests of a GPU that print the given TAP; test.sh runs with few tools.
make_tests() { # NAME TAP...
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"/{scripts,tests/unit,build/tests/unit}
    cp "$scripts"/{test,lib}.sh "$tree/scripts/" && cp "$root/tests/driver.sh" "$tree/tests/"
    printf '#!/bin/sh\necho "  cuda     Fake GPU, CUDA 13.0"\n' >"$tree/dptrain"
    while (($# > 0)); do
        printf '/* RUN np=0 device=cuda */\n' >"$tree/tests/unit/test_$1.c"
        printf '#!/bin/sh\ncat <<E\n%s\nE\n' "$2" >"$tree/build/tests/unit/test_$1"
        shift 2
    done
    chmod +x "$tree"/build/tests/unit/* "$tree/dptrain"
    unset DPTRAIN_BIN DPTRAIN_TEST_LOGS
    PATH=$(small_path awk cat chmod cp cut date grep head mkdir mktemp mpirun mv nproc rm sed sort tail timeout tr uname wc xargs sh)
    export PATH
}

@test "test.sh without perl runs two entries at a time, and names the one that failed" {
    make_tests good $'1..2\nok 1\nok 2' bad $'1..2\nok 1'
    run "$tree/scripts/test.sh" --gpu --jobs 2
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"unit/test_good [cuda] ."*" ok "* && $output == *$'Failed:\n  unit/test_bad [cuda]: 1 of 2 checks ran\n'* ]]
    [[ $output == *$'\n2 entries, 3 checks, '*$'\n1 passed, 1 failed, 0 skipped' ]]
    rm "$tree/tests/unit/test_bad.c"
    run "$tree/scripts/test.sh" --gpu
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *$'\n1 entries, 2 checks, '*$'\n1 passed, 0 failed, 0 skipped' ]]
}

@test "test.sh --gpu runs the emulator's programs if DPTRAIN_BIN has an emulated GPU" {
    make_tests a $'1..1\nnot ok 1'
    mkdir -p "$tree/build/emu/unit"
    printf '#!/bin/sh\necho 1..1\necho ok 1\n' >"$tree/build/emu/unit/test_a"
    printf '#!/bin/sh\necho "  cuda     emulated GPU, CUDA 13.0"\n' >"$tree/build/emu/dptrain"
    chmod +x "$tree/build/emu"/{dptrain,unit/test_a}
    DPTRAIN_BIN=$tree/build/emu/dptrain run "$tree/scripts/test.sh" --gpu
    echo "$output"
    [ "$status" -eq 0 ]
    run "$tree/scripts/test.sh" --gpu
    [ "$status" -eq 1 ]
}

@test "test.sh counts an entry without any check as skipped, and prints skips by reason, then failures" {
    make_tests whole '1..0 # SKIP no /dev/abc' each $'1..3\nok 1 a # skip no root\nok 2 b # skip no /dev/abc\nok 3 # SKIP no /dev/abc' \
        part $'1..3\nok 1 - a\nok 2 b # skip takes 5 s; scripts/test.sh --slow runs it\nok 3 # SKIP waits (--slow)' bad $'1..1\nnot ok 1 # skip'
    run "$tree/scripts/test.sh" --gpu
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $output == *"unit/test_each [cuda] ."*" skipped: no root "*"unit/test_part [cuda] ."*" ok (2 of 3 checks skipped) "* ]]
    [[ $output == *$'\n4 entries, 2 checks, '*$'\n1 passed, 1 failed, 2 skipped' ]]
    [ "$(sed -n '/^Skipped:/,/^4 entries/p' <<<"$output" | sed '$d')" = 'Skipped:
  1 entry, 2 checks: no /dev/abc (unit/test_each [cuda], unit/test_whole [cuda])
  1 entry, 1 check: no root (unit/test_each [cuda])
  2 checks: scripts/test.sh --slow runs it (unit/test_part [cuda])

Failed:
  unit/test_bad [cuda]: 1 of 1 checks failed' ]
}

@test "test.sh prints each entry's place and, from the second run on, the time left" {
    local one=$'1..1\nok 1'
    make_tests a "$one" b "$one" c "$one" d "$one"
    run "$tree/scripts/test.sh" --gpu --jobs 2
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output != *left* ]]
    [ "$(grep -oE '\] [1-4] of 4  ' <<<"$output" | LC_ALL=C sort | tr -d '\n')" = '] 1 of 4  ] 2 of 4  ] 3 of 4  ] 4 of 4  ' ]
    [ "$(cut -f 1 "$tree/build/test-times" | LC_ALL=C sort | tr '\n' ,)" = \
        'unit/test_a [cuda],unit/test_b [cuda],unit/test_c [cuda],unit/test_d [cuda],' ]
    # One is new: the mean of the others. One is no longer there.
    printf '%s\t120\n' 'unit/test_a [cuda]' 'unit/test_b [cuda]' 'unit/test_c [cuda]' gone >"$tree/build/test-times"
    run "$tree/scripts/test.sh" --gpu --jobs 1
    echo "$output"
    [ "$(grep -oE ', [0-9]+ (s|min) left$' <<<"$output" | tr -d '\n')" = ', 6 min left, 4 min left, 2 min left' ]
    grep -qx $'gone\t120' "$tree/build/test-times"
    printf '%s\t160\n' unit/test_{a,b,c,d}' [cuda]' >"$tree/build/test-times"
    # Two at a time: b ends after a has.
    printf '#!/bin/sh\nuntil grep "1 of 2" "%s"; do :; done\necho 1..1\necho ok 1\n' "$BATS_TEST_TMPDIR/out" >"$tree/build/tests/unit/test_b"
    DPTRAIN_GPU_SECONDS=60 "$tree/scripts/test.sh" --gpu --jobs 2 --only 'test_[ab]' >"$BATS_TEST_TMPDIR/out"
    cat "$BATS_TEST_TMPDIR/out"
    grep -q 'test_a .* of CPU, 80 s left$' "$BATS_TEST_TMPDIR/out"
    [ "$(grep -c $'\t160$' "$tree/build/test-times")" -eq 2 ]
}

@test "a skipped test passes, unless it ran checks or ended with an error" {
    drive 10 'printf 1..0\ #\ SKIP\ no\ such\ CPU\\n'
    [ "$status" -eq 0 ]
    [[ $output == *"skipped: no such CPU"* ]]
    drive 10 'printf 1..2\\nok\ 1\ #\ skip\\nok\ 2\ #\ skip\\n'
    [ "$status" -eq 0 ]
    [[ $output == *"skipped: no reason given"* ]]
    [ "$(cut -f 2 "$DPTRAIN_TEST_WORK/verdicts")" -eq 0 ]
    drive 10 'printf 1..0\ #\ SKIP\ no\ such\ CPU\\nnot\ ok\ 1\\n'
    [ "$status" -ne 0 ]
    [[ $output == *"skipped, but checks ran"* ]]
    drive 10 'printf 1..0\ #\ SKIP\ no\ such\ CPU\\nok\ 1\\n'
    [ "$status" -ne 0 ]
    drive 10 'bash -c echo\ 1..0\;exit\ 1'
    [ "$status" -ne 0 ]
}

@test "fetch_mnist.sh copies from a mirror, keeps valid files, and rejects files that are not MNIST's" {
    [ -n "${DPTRAIN_DATA:-}" ] || skip "DPTRAIN_DATA is not set"
    mirror=$BATS_TEST_TMPDIR/mirror folder=$BATS_TEST_TMPDIR/mnist
    mkdir "$mirror"
    cp "$DPTRAIN_DATA"/mnist/*-ubyte.gz "$mirror"
    export DPTRAIN_MNIST_URL=file://$mirror
    run "$root/data/fetch_mnist.sh" "$folder"
    echo "$output"
    [ "$status" -eq 0 ]
    for file in "$mirror"/*; do cmp "$file" "$folder/${file##*/}"; done
    run "$root/data/fetch_mnist.sh" "$folder"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'already there' <<<"$output")" -eq 4 ]

    rm "$folder/t10k-labels-idx1-ubyte.gz"
    chmod u+w "$mirror"/*
    printf 'x' | dd of="$mirror/t10k-labels-idx1-ubyte.gz" bs=1 seek=100 conv=notrunc status=none
    run "$root/data/fetch_mnist.sh" "$folder"
    echo "$output"
    [ "$status" -eq 3 ]
    [ ! -e "$folder/t10k-labels-idx1-ubyte.gz" ]

    rm "$mirror/t10k-labels-idx1-ubyte.gz"
    run "$root/data/fetch_mnist.sh" "$folder"
    [ "$status" -eq 4 ]
}

@test "a download that fails leaves no folder behind, keeps its parts, and goes on the next time" {
    tree=$BATS_TEST_TMPDIR/tree mirror=$BATS_TEST_TMPDIR/mirror folder=$tree/data/mnist
    mkdir -p "$tree/data" "$mirror"
    cp "$root"/data/*.sh "$tree/data"
    export DPTRAIN_MNIST_URL=file://$mirror DPTRAIN_COCO_URL=file://$mirror
    # Files that are quick to make, under MNIST's names, whose sums the copy of the script knows.
    for name in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
        seq 2000 | sed "s/^/$name/" >"$mirror/$name-ubyte.gz"
        read -r sum _ < <(sha256sum "$mirror/$name-ubyte.gz")
        sed -i -E "s/\"[0-9a-f]{64} [0-9]+ ($name-ubyte.gz)\"/\"$sum $(wc -c <"$mirror/$name-ubyte.gz") \1\"/" "$tree/data/fetch_mnist.sh"
    done
    for script in fetch_mnist fetch_coco; do
        DPTRAIN_MNIST_URL=file:///no/mirror DPTRAIN_COCO_URL=file:///no/mirror run "$tree/data/$script.sh"
        echo "$output"
        [ "$status" -eq 4 ]
    done
    # Nothing but the scripts.
    [ "$(ls -A "$tree/data")" = "$(cd "$root/data" && printf '%s\n' *.sh)" ]

    mv "$mirror/t10k-labels-idx1-ubyte.gz" "$mirror/away"
    run "$tree/data/fetch_mnist.sh"
    [ "$status" -eq 4 ]
    [ ! -e "$folder" ]
    [ "$(find "$folder.part" -type f | wc -l)" -eq 3 ]
    # What was complete is not downloaded again.
    rm "$mirror"/*images*
    mv "$mirror/away" "$mirror/t10k-labels-idx1-ubyte.gz"
    head -c 100 "$mirror/t10k-labels-idx1-ubyte.gz" >"$folder.part/t10k-labels-idx1-ubyte.gz.part"
    run "$tree/data/fetch_mnist.sh"
    echo "$output"
    [[ "$status" -eq 0 && "$output" != *images*from* ]]
    [ ! -e "$folder.part" ]
    [ "$(find "$folder" -type f -name '*.gz' | wc -l)" -eq 4 ]
    # A folder that is there stays as it was.
    rm "$folder"/t10k-* "$mirror"/*
    before=$(ls -A "$folder")
    run "$tree/data/fetch_mnist.sh" "$folder/"
    [ "$status" -eq 4 ]
    [ "$(ls -A "$folder")" = "$before" ]
}

@test "fetch_coco.sh rejects files that are not COCO's, keeps existing ones, and unpacks atomically" {
    mirror=$BATS_TEST_TMPDIR/mirror folder=$BATS_TEST_TMPDIR/coco
    export DPTRAIN_COCO_URL=file://$mirror
    run "$root/data/fetch_coco.sh" --only images "$folder"
    [ "$status" -eq 2 ]
    [[ $output == *"train, val or annotations"* ]]
    command -v unzip >/dev/null || skip "unzip is not here"
    mkdir -p "$mirror/annotations"
    run "$root/data/fetch_coco.sh" --only annotations "$folder"
    [ "$status" -eq 4 ]
    echo '{}' >"$mirror/annotations/annotations_trainval2017.zip"
    run "$root/data/fetch_coco.sh" --only annotations "$folder"
    [ "$status" -eq 3 ]
    [[ ! -e $folder && ! -e $folder.part ]]
    # A partial file already takes its space, so an interrupted download can be resumed.
    fakes=$BATS_TEST_TMPDIR/fakes
    mkdir "$fakes"
    printf '#!/bin/sh\necho head\necho disk 2000 1000 1000 50%% /\n' >"$fakes/df"
    chmod +x "$fakes/df"
    PATH=$fakes:$PATH run "$root/data/fetch_coco.sh" --only annotations "$folder"
    [ "$status" -eq 4 ]
    [[ $output == *"has 1000 MB left; annotations takes 1072 MB"* ]]
    mkdir "$folder.part"
    truncate -s 100M "$folder.part/annotations_trainval2017.zip.part"
    PATH=$fakes:$PATH run "$root/data/fetch_coco.sh" --only annotations "$folder"
    [ "$status" -eq 3 ]
    [[ $output != *"MB left"* ]]
    [[ ! -e $folder && ! -e $folder.part ]]
    mkdir "$folder"
    echo mine >"$folder/annotations_trainval2017.zip"
    run "$root/data/fetch_coco.sh" --only annotations "$folder"
    [ "$status" -eq 3 ]
    [[ $output == *"$folder/annotations_trainval2017.zip is not COCO's"*"remove it"* ]]
    [ "$(cat "$folder/annotations_trainval2017.zip")" = mine ]
    mkdir "$folder/annotations"
    touch "$folder/annotations/instances_train2017.json"
    run "$root/data/fetch_coco.sh" --only annotations "$folder"
    [ "$status" -eq 0 ]
    [[ $output == *"annotations: already there"* ]]

    command -v python3 >/dev/null || skip "python3 is not here"
    (cd "$BATS_TEST_TMPDIR" && mkdir val2017 && echo a >val2017/1.jpg && python3 -m zipfile -c val.zip val2017)
    # shellcheck source=data/fetch.sh
    . "$root/data/fetch.sh"
    aside=$BATS_TEST_TMPDIR/aside
    mkdir "$aside"
    fetch_unzip "$BATS_TEST_TMPDIR/val.zip" val2017
    [ "$(cat "$folder/val2017/1.jpg")" = a ]
    # Adds to existing files, but never overwrites one.
    echo mine >"$folder/val2017/2.jpg"
    fetch_unzip "$BATS_TEST_TMPDIR/val.zip" val2017
    echo mine >"$folder/val2017/1.jpg"
    run fetch_unzip "$BATS_TEST_TMPDIR/val.zip" val2017
    [ "$status" -eq 3 ]
    [[ $output == *"$folder/val2017/1.jpg differs from the archive's"* ]]
    [ "$(cat "$folder/val2017/1.jpg" "$folder/val2017/2.jpg")" = "$(printf 'mine\nmine')" ]
    [ -z "$(ls -A "$aside")" ]
    rm -r "$folder/val2017"
    head -c 60 "$BATS_TEST_TMPDIR/val.zip" >"$BATS_TEST_TMPDIR/cut.zip"
    run fetch_unzip "$BATS_TEST_TMPDIR/cut.zip" val2017
    [ "$status" -eq 3 ]
    [ ! -e "$folder/val2017" ]
    [ -z "$(ls -A "$aside")" ]
}

@test "best.sh names a wrong case, and needs --records and --venv" {
    run "$scripts/bench/best.sh" --venv "$BATS_TEST_TMPDIR" --records "$BATS_TEST_TMPDIR/r" --cases resnet34:8:1
    [ "$status" -eq 2 ]
    [[ "$output" == *"--cases 'resnet34:8:1'"* ]]
    run "$scripts/bench/best.sh" --venv "$BATS_TEST_TMPDIR"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--records"* ]]
    run "$scripts/bench/best.sh" --records "$BATS_TEST_TMPDIR/r"
    [ "$status" -eq 2 ]
    [[ "$output" == *"--venv"* ]]
    run "$scripts/bench/best.sh" --records "$BATS_TEST_TMPDIR/r" --venv "$BATS_TEST_TMPDIR"
    [ "$status" -eq 4 ]
    [[ "$output" == *"--venv $BATS_TEST_TMPDIR"* ]]
}

@test "best.sh --page compares the fastest candidates by medians, and fails if losses differ" {
    command -v python3 || skip "python3 is not here"
    local records=$BATS_TEST_TMPDIR/records case=resnet18:8:1 phase round who precision way sec cpu memory losses=''
    add() {
        read -r phase round who precision way sec cpu memory <<<"$*"
        printf '{"record":"run","case":"%s","phase":"%s","round":%s,"who":"%s","precision":"%s","way":"%s","sec":%s,' \
            "$case" "$phase" "$round" "$who" "$precision" "$way" "$sec"
        printf '"cpu_sec":%s,"memory_bytes":%s,"images":8,"load":1,"losses":[%s]}\n' "$cpu" "$memory" "$losses"
    }
    {
        echo '{"record":"machine","table":"| cpu | X |\n","keep_pages":"A=1"}'
        add trial 0 torch bf16 contiguous 8 8 4e8
        add round 1 dptrain fp32 rule 0.04 0.04 1e8
        add round 1 dptrain bf16 rule 0.02 0.02 1e8
        add round 1 torch fp32 channels_last 0.08 0.08 3e8
        add round 1 torch bf16 compile 0.03 0.04 4e8
        add round 1 torch bf16 channels_last 0.02 0.04 4e8
        add round 2 dptrain bf16 rule 0.02 0.02 1e8
        add round 2 torch bf16 compile 0.05 0.04 4e8
        add round 2 torch bf16 channels_last 0.08 0.04 4e8
    } >"$records"
    run "$scripts/bench/best.sh" --page "$records"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"| 200 | 400 (400 to 400) | 100, channels_last | 250 (100 to 400), channels_last | **2.00** (2.00 to 2.00) |\
 **1.60** (1.00 to 4.00) | **1.60** (1.00 to 4.00) | 2.00 | 100, 400 | 0.25 |"* ]]
    [[ "$output" == *"| ResNet-18, 224×224, batch 8, 1 rank |  |  |  |  |  | 1 |  |  |"* ]]
    [[ "$output" == *"| cpu | X |"* ]]
    case=maskrcnn:train
    losses=0.1,7.0 && add round 1 dptrain fp32 rule 4 4 1e8 >>"$records"
    losses=0.1,7.1 && add round 1 torch fp32 compile 4 4 1e8 >>"$records"
    run "$scripts/bench/best.sh" --page "$records"
    [ "$status" -eq 1 ]
    [[ "$output" == *"maskrcnn:train, fp32, loss 3"* ]]
}

# Stand-ins of Debian's packages, of Python and of PyPI, whose wheels are empty.
play_pypi() {
    printf '#!/usr/bin/env bash\necho installed\n' >"$bin/dpkg-query"
    cp "$bin/dpkg-query" "$bin/apt-get"
    # python3 -m venv FOLDER, with a pip that creates the requested packages, or fails as without a network.
    cat >"$bin/python3" <<'EOF'
#!/usr/bin/env bash
mkdir -p "$3/bin" && cp "$FAKE_PIP" "$3/bin/pip"
EOF
    cat >"$bin/pip" <<'EOF'
#!/usr/bin/env bash
[[ ! -e $NO_NETWORK ]] || { echo 'ERROR: no matching distribution' >&2; exit 1; }
echo "$*" >>"$CALLS"
site=${0%/bin/pip}/lib/python3.11/site-packages/nvidia
for word in "$@"; do
    case $word in
    nvidia-cuda-nvcc==*)
        mkdir -p "$site"/cu13/{bin,include,lib} "$site"/nccl/{include,lib}
        printf '#!/bin/sh\necho release 13.0, V13.0\n' >"$site/cu13/bin/nvcc"
        chmod +x "$site/cu13/bin/nvcc"
        touch "$site/cu13/include/cublasLt.h" "$site/nccl/include/nccl.h" ;;
    nvidia-cudnn-*) mkdir -p "$site"/cudnn/{include,lib} && touch "$site"/cudnn/{include/cudnn.h,lib/libcudnn.so.9} ;;
    nvidia-cuda-nvrtc*)
        lib=$site/cu13/lib
        [[ $word != *-cu12* ]] || lib=$site/cuda_nvrtc/lib
        mkdir -p "$lib" && touch "$lib"/libnvrtc{,-builtins,.alt}.so.1 ;;
    esac
done
EOF
    chmod +x "$bin"/*
    export FAKE_PIP=$bin/pip CALLS=$BATS_TEST_TMPDIR/calls NO_NETWORK=$BATS_TEST_TMPDIR/no_network
    export DPTRAIN_CUDA_HOME="$BATS_TEST_TMPDIR/a cuda"
    unset CUDA_HOME CUDNN_HOME
}

@test "install_deps.sh --cuda uses an installed toolkit, else PyPI's, and advises when neither is available" {
    play_pypi
    printf '#!/usr/bin/env bash\n' >"$bin/nvcc"
    chmod +x "$bin/nvcc"
    PATH=$bin:$PATH run "$scripts/install_deps.sh" --cuda
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"found nvcc: $bin/nvcc"* ]]
    [ ! -e "$CALLS" ]

    rm "$bin/nvcc"
    PATH=$bin:$(small_path uname rm mkdir cp ln mv cat head timeout touch wc chmod)
    touch "$NO_NETWORK"
    run "$scripts/install_deps.sh" --cuda
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"could not install CUDA from PyPI: ERROR: no matching distribution"*"make CUDA=0"* ]]
    [ ! -e "$DPTRAIN_CUDA_HOME" ]
    [ ! -e "$DPTRAIN_CUDA_HOME.part" ]

    rm "$NO_NETWORK"
    run "$scripts/install_deps.sh" --cuda
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$(cat "$CALLS")" == *nvidia-cuda-nvcc==*nvidia-nccl-cu13==* ]]
    [ -x "$DPTRAIN_CUDA_HOME/bin/nvcc" ]
    [ -e "$DPTRAIN_CUDA_HOME/lib64/" ]
    [ -e "$DPTRAIN_CUDA_HOME/include/nccl.h" ]
    run "$scripts/install_deps.sh" --cuda
    [ "$status" -eq 0 ]
    [ "$(wc -l <"$CALLS")" -eq 1 ]
}

@test "install_deps.sh --cudnn adds cuDNN and NVRTC for the toolkit that make takes, wherever that is, unless it has them" {
    play_pypi
    nvcc_of() { printf '#!/bin/sh\necho "release %s, V%s.1"\n' "$1" "$1" >"$bin/nvcc" && chmod +x "$bin/nvcc"; }
    local cudnn=$DPTRAIN_CUDA_HOME/cudnn
    PATH=$bin:$(small_path uname rm mkdir cp ln mv cat head timeout touch wc chmod sed tail)
    # A compiler that finds no cudnn.h.
    printf '#!/bin/sh\nexit 1\n' >"$bin/gcc"
    chmod +x "$bin/gcc"
    nvcc_of 12.4
    touch "$NO_NETWORK"
    run "$scripts/install_deps.sh" --cudnn
    echo "$output"
    [ "$status" -eq 4 ]
    [[ "$output" == *"0.6 GB"*"could not install cuDNN from PyPI: ERROR: no matching distribution"* ]]
    [[ ! -e $cudnn && ! -e $cudnn.part ]]
    rm "$NO_NETWORK"
    run "$scripts/install_deps.sh" --cuda --cudnn
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$(cat "$CALLS")" == *nvidia-cudnn-cu12==9.*nvidia-cuda-nvrtc-cu12==12.* ]]
    [[ -e $cudnn/include/cudnn.h && -e $cudnn/lib/libcudnn.so.9 && -e $cudnn/lib/libnvrtc.so.1 && -e $cudnn/lib/libnvrtc-builtins.so.1 ]]
    [ ! -e "$DPTRAIN_CUDA_HOME/bin" ]
    run "$scripts/install_deps.sh" --cudnn
    [ "$(wc -l <"$CALLS")" -eq 1 ]

    # Another toolkit has another cuDNN.
    nvcc_of 13.1
    run "$scripts/install_deps.sh" --cudnn
    [[ "$(tail -n 1 "$CALLS")" == *nvidia-cudnn-cu13==9.*nvidia-cuda-nvrtc==13.* ]]
    run "$scripts/install_deps.sh" --list --cudnn
    [[ "$output" == *nvidia-cuda-nvcc==*$'\n'"$(sed 's/ /\n/' "$cudnn/packages")" ]]
    # None: that of PyPI comes first, and leaves cuDNN in its place.
    rm "$bin/nvcc"
    run "$scripts/install_deps.sh" --cudnn
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"cuDNN is in $cudnn" ]]
    [[ -x $DPTRAIN_CUDA_HOME/bin/nvcc && -e $cudnn/lib/libcudnn.so.9 ]]
    [ "$(wc -l <"$CALLS")" -eq 3 ]

    nvcc_of 11.8
    run "$scripts/install_deps.sh" --cudnn
    echo "$output"
    [[ "$status" -eq 4 && "$output" == *"CUDA 11"*CUDNN_HOME* ]]
    printf '#!/bin/sh\n' >"$bin/gcc"
    nvcc_of 12.4
    run "$scripts/install_deps.sh" --cudnn
    [[ "$status" -eq 0 && "$output" == *"found cuDNN"* ]]
    [ "$(wc -l <"$CALLS")" -eq 3 ]
}

@test "the table of GPU steps divides PyTorch's time by dptrain's, and finds the gaps in a trace" {
    command -v python3 || skip "python3 is not here"
    export PYTHONDONTWRITEBYTECODE=1
    while read -r round name rate; do
        printf '%s\t64\tfp32\t%s\t{"images_per_sec": 7, "median_images_per_sec": %s}\n' "$round" "$name" "$rate"
    done >"$BATS_TEST_TMPDIR/ends" <<<"0 dptrain 640000
0 eager 64000
1 dptrain 640000
1 eager 128000"
    run python3 "$scripts/bench/peers/gpu_table.py" steps "$BATS_TEST_TMPDIR/ends"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *"| 64 | fp32 | eager | 750.0 | 625.0 to 875.0 | 85333 | **7.50** | 5.00, 6.25 to 8.75, 10.00 |"* ]]
    # A round that dptrain has, and PyTorch has not.
    printf '2\t64\tfp32\tdptrain\t{"images_per_sec": 1}\n' >>"$BATS_TEST_TMPDIR/ends"
    run python3 "$scripts/bench/peers/gpu_table.py" steps "$BATS_TEST_TMPDIR/ends"
    [[ "$output" == *"| 64 | fp32 | eager |"*"| **7.50** |"* ]]
    printf '%s\n' '210, 1980, 2619, 70.1, 700.0, 30, 0x0000000000000001, 0, 4' '1900, 1980, 2619, 690.0, 700.0, 60, 0x0000000000000004, 99, 90' \
        '1980, 1980, 2619, 650.0, 700.0, 61, 0x0000000000000000, 98, 90' '1500, 1980, 2619, 90.0, 700.0, 50, 0x00' >"$BATS_TEST_TMPDIR/clocks"
    run python3 "$scripts/bench/peers/gpu_table.py" clocks "$BATS_TEST_TMPDIR/clocks"
    echo "$output"
    [ "$output" = "before: 210 of 1980 MHz, memory 2619 MHz, 70 of 700 W, 30 °C; busy (2 samples): median 1940, lower quartile 1920 MHz, \
slowed down by the power limit; after: 1980 of 1980 MHz, memory 2619 MHz, 650 of 700 W, 61 °C" ]
    # The second half: 100 to 150, 150 to 190 with another inside, nothing until 200, 200 to 210.
    printf 'Start (ns),Duration (ns),Name\n' >"$BATS_TEST_TMPDIR/trace"
    printf '%s\n' 0,10,a 10,10,a 20,5,a 30,5,a 100,50,b '150,40,"c, d"' 160,5,e 200,10,f >>"$BATS_TEST_TMPDIR/trace"
    run python3 "$scripts/bench/peers/gpu_table.py" gaps "$BATS_TEST_TMPDIR/trace"
    echo "$output"
    [ "$output" = 9.1 ]
}

@test "the table of a GPU's kernels sums launches by name, and finds the longest of each" {
    command -v python3 || skip "python3 is not here"
    export PYTHONDONTWRITEBYTECODE=1
    local csv=$BATS_TEST_TMPDIR/ncu.csv
    launch() { # ID KERNEL NS READ WRITTEN
        printf '"%s","1","dptrain","h","%s","1","7","(1, 1, 1)","(1, 1, 1)","0","9.0","Command line profiler metrics","%s","%s","%s"\n' \
            "$1" "$2" dram__bytes_read.sum byte "$4" "$1" "$2" dram__bytes_write.sum byte "$5" "$1" "$2" gpu__time_duration.sum ns "$3"
    }
    {
        printf '%s\n' '==PROF== Connected to process 1' 'dptrain 0.1.0'
        echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
        launch 0 small 1,000 0 0
        launch 1 norm 200,000 100,000 300,000
        launch 2 norm 300,000 100,000 300,000
        launch 3 'gemm<a, b>' 400,000 0 0
        launch 4 copy 2,000 0 0
    } >"$csv"
    run python3 "$scripts/bench/peers/gpu_table.py" kernels "$csv"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"5 launches, 0.90 ms"*"| \`norm\` | 2 | 0.500 | 55.4 % | 0.00 | 2 |"*"| \`gemm<a, b>\` | 1 | 0.400 |"* ]]
    run python3 "$scripts/bench/peers/gpu_table.py" costliest "$csv"
    [ "$output" = $'1 norm\n0 gemm<a, b>\n0 copy' ]
    sed -i 's/Command line profiler metrics/Speed/; s/dram__bytes_read.sum/DRAM Throughput/' "$csv"
    run python3 "$scripts/bench/peers/gpu_table.py" counters "$csv"
    [[ $output == *"| \`small\`"*"| DRAM Throughput | 0 byte |"* ]]
    grep -v '^"' "$csv" >"$csv.none"
    run python3 "$scripts/bench/peers/gpu_table.py" kernels "$csv.none"
    [ "$status" -eq 1 ]
}

@test "gpu_steps.sh compares ResNet-50 with each mode of PyTorch, and lists what failed; profile, algorithms, memory, clocks" {
    REAL=$(python3 -c 'import sys; print(sys.executable)')
    export REAL CALLS=$BATS_TEST_TMPDIR/calls ASK=$BATS_TEST_TMPDIR/ask TAKEN=$BATS_TEST_TMPDIR/taken
    mkfifo "$ASK" "$TAKEN"
    cat >"$bin/dptrain" <<'EOF'
#!/usr/bin/env bash
[[ $1 != info ]] || { echo "  cuda     Fake GPU, CUDA 13.0, ${FAKE_CUDNN:-cuDNN 9.19.0}"; exit; }
by=cudnn-2
for folder in ${LD_LIBRARY_PATH//:/ }; do [[ ! -e $folder/libcudnn.so.9 || -s $folder/libcudnn.so.9 ]] || by=gemm; done
echo "dptrain $by ${XDG_CACHE_HOME##*/}" >>"$CALLS"
while [[ $1 != --out ]]; do shift; done
echo 5000 >"$ASK" && read -r _ <"$TAKEN"
mkdir -p "$2" && printf '{"record":"%s","algorithms":{%s}}\n{"record":"%s","images_per_sec":7,"median_images_per_sec":%s}\n' run \
    "\"a\":{\"forward\":\"$by\"},\"b\":{\"forward\":\"x\",\"backward_data\":\"y\"},\"c\":{\"forward\":\"$by\"}" end 2000.5 >"$2/metrics.jsonl"
printf '%s\n' 'finished after 40 steps' 'profile, mean of 30 steady steps' '  ms  1 2' '  most expensive layer: conv1'
EOF
    cat >"$bin/python3" <<'EOF'
#!/usr/bin/env bash
[[ $1 != *gpu_table.py ]] || exec "$REAL" "$@"
[[ $* != *--describe* ]] || { echo PyTorch 9; exit; }
echo "${*:2}" >>"$CALLS"
[[ $* != *compile* ]] || { echo 'no compiler' >&2; exit 1; }
echo 8500 >"$ASK" && read -r _ <"$TAKEN"
while (($# > 0)); do
    [[ $1 != --out ]] || echo '{"record": "end", "median_images_per_sec": 1000.0}' >"$2"
    [[ $1 != --kernels ]] || echo '   1.000 ms     53  a_kernel' >"$2"
    shift
done
EOF
    # A sample before the first run, and one in each.
    cat >"$bin/nvidia-smi" <<'EOF'
#!/usr/bin/env bash
sample() { echo "1980, 1980, 2619, 650.0, 700.0, 61, 0x0000000000000000, 98, $1"; }
sample 500
while read -r mb; do sample "$mb" && echo >"$TAKEN"; done <>"$ASK"
EOF
    chmod +x "$bin"/{dptrain,python3,nvidia-smi}
    export PYTHONDONTWRITEBYTECODE=1
    unset LD_LIBRARY_PATH
    PATH=$bin:$PATH run "$scripts/bench/gpu_steps.sh" --model resnet50 --quick \
        --precision bf16,tf32 --batch 256,64 --ways eager-nhwc,compile-nhwc,eager --logs "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q -- '--model resnet50 --steps 40 --warmup 12 --block 10 .* --way eager --channels-last --kernels .* --batch 256 --precision bf16' "$CALLS"
    [ "$(grep -c -- --kernels "$CALLS")" -eq "$(grep -cE 'way compile|--kernels' "$CALLS")" ]
    [[ "$output" == *$'Kernels of eager-nhwc, batch 256, bf16: ms and launches a step\n\n```\n   1.000 ms     53  a_kernel\n```\n'* ]]
    grep -q a_kernel "$BATS_TEST_TMPDIR/kernels-eager-256-bf16.txt"
    # The most valuable first.
    [[ "$output" == "- round 1, batch 256, bf16, dptrain: 2000 images/s, after "* ]]
    [[ "$output" == *$'```\nprofile, mean of 30 steady steps\n'*"most expensive layer: conv1"* ]]
    for precision in bf16 tf32; do
        for way in eager eager-nhwc; do
            [[ "$output" == *"| 256 | $precision | $way | 256000.0 | "*" | 1000 | **2.00** |"*"| 8389 MB (0.56) |"* ]]
        done
        [[ "$output" == *"| 64 | $precision | dptrain-no-cudnn | "* ]]
        [[ "$output" == *"- not measured: compile-nhwc, batch 64, $precision: no compiler"* ]]
    done
    # With the library in both rounds; without it in the first, where files that are none hide it.
    [ "$(grep -c 'dptrain cudnn-2 cache' "$CALLS")" -eq 8 ]
    [ "$(grep -c 'dptrain gemm hidden' "$CALLS")" -eq 4 ]
    [[ "$output" == *"Algorithms of dptrain, batch 256, bf16:"*"| cudnn-2 |  |  | 2 | a c |"*"| x | y |  | 1 | b |"*\
"Algorithms of dptrain-no-cudnn, batch 256, bf16:"*"| gemm |  |  | 2 | a c |"* ]]
    [[ "$output" == *"median 1980, lower quartile 1980 MHz, slowed down by nothing"* ]]
    FAKE_CUDNN='cuDNN missing' PATH=$bin:$PATH run "$scripts/bench/gpu_steps.sh" --model resnet50 --quick --ways eager
    [[ "$status" -eq 0 && "$output" == *"not measured: dptrain with cuDNN: "*"cuDNN missing"* && "$output" != *no-cudnn* ]]
    [ -z "$(pgrep -f "$bin/nvidia-smi")" ]
}

@test "make compiles kernels again when the architectures or the flags change, and only then" {
    local cuda=$BATS_TEST_TMPDIR/cuda
    mkdir -p "$cuda"/{bin,lib64,include}
    touch "$cuda"/lib64/libcudart_static.a "$cuda"/include/{cublasLt,nccl}.h
    cat >"$cuda/bin/nvcc" <<'EOT'
#!/bin/bash
if [[ $1 == --list-gpu-code ]]; then printf '%s\n' sm_80 sm_90; exit; fi
while [[ $1 != -o ]]; do shift; done
touch "$2"
EOT
    chmod +x "$cuda/bin/nvcc"
    compile() { # VARIABLES...
        make -C "$root" BUILD="$BATS_TEST_TMPDIR/build" CUDA=1 CUDA_HOME="$cuda" NVCC="$cuda/bin/nvcc" "$@" \
            "$BATS_TEST_TMPDIR/build/kernels/cuda/relu.cu.o" | grep -c NVCC || true
    }
    [ "$(compile CUDA_ARCHS=80)" -eq 1 ]
    [ "$(compile CUDA_ARCHS=80)" -eq 0 ]
    [ "$(compile CUDA_ARCHS=90)" -eq 1 ]
    [ "$(compile CUDA_ARCHS=90 NVCCFLAGS=--use_fast_math)" -eq 1 ]
    [ "$(compile CUDA_ARCHS=90 NVCCFLAGS=--use_fast_math)" -eq 0 ]
}

@test "make finds cuDNN 9 beside the toolkit, names another version, and compiles the backend again when it comes or goes" {
    local cuda=$BATS_TEST_TMPDIR/cuda pypi=$BATS_TEST_TMPDIR/pypi
    mkdir -p "$cuda"/{bin,lib64,include} "$pypi/cudnn/include"
    touch "$cuda"/lib64/libcudart_static.a "$cuda"/include/{cublasLt,nccl}.h
    printf '#!/bin/sh\necho sm_90\n' >"$cuda/bin/nvcc"
    # Knows no folders of the system, and writes empty objects.
    cat >"$bin/cc" <<'EOT'
#!/bin/bash
[[ " $* " == *" -c "* ]] || exec gcc -nostdinc "$@"
while [[ $1 != -o ]]; do shift; done
: >"$2"
EOT
    chmod +x "$cuda/bin/nvcc" "$bin/cc"
    export DPTRAIN_CUDA_HOME=$pypi
    unset CUDNN CUDNN_HOME
    make_cudnn() {
        make -C "$root" BUILD="$BATS_TEST_TMPDIR/build" CC="$bin/cc" need_dnnl= CUDA=1 CUDA_HOME="$cuda" NVCC="$cuda/bin/nvcc" "$@" 2>&1
    }
    found() { make_cudnn info "$@" | grep -oE '^cuDNN .*|-DDPTRAIN_CUDNN|-isystem [^ ]*cudnn[^ ]*|rpath,[^ ]*cudnn[^ ]*' | tr -s '\n ' ' '; }
    compiled() { make_cudnn "$@" "$BATS_TEST_TMPDIR/build/kernels/cuda/gemm.o" | grep -c 'CC  ' || true; }
    header() { printf '#define CUDNN_%s\n' "MAJOR $1" 'MINOR 28' 'PATCHLEVEL 1' 'MAX_SM_MAJOR_NUMBER 12'; }

    [[ "$(found)" == 'cuDNN no (cudnn.h was not found; '*'--cuda --cudnn) ' ]]
    run make_cudnn info CUDNN=1
    [[ "$status" -ne 0 && "$output" == *'CUDNN=1'*cudnn.h* ]]
    [ "$(compiled)" -eq 1 ]
    [ "$(compiled)" -eq 0 ]
    header 8 >"$cuda/include/cudnn.h"
    [ "$(found)" = "cuDNN no (cuDNN 8.28.1 in $cuda/include is not version 9) " ]
    [ "$(compiled)" -eq 0 ]
    header 9 >"$cuda/include/cudnn.h"
    [ "$(found)" = "cuDNN 9.28.1, $cuda/include -DDPTRAIN_CUDNN " ]
    [ "$(compiled)" -eq 1 ]
    [ "$(compiled)" -eq 0 ]
    [ "$(found CUDNN=0)" = "cuDNN no (CUDNN=0) " ]
    [ "$(compiled CUDNN=0)" -eq 1 ]
    header 8 >"$cuda/include/cudnn.h"
    header 9 >"$pypi/cudnn/include/cudnn.h"
    local expected="-DDPTRAIN_CUDNN -isystem $pypi/cudnn/include rpath,$pypi/cudnn/lib "
    [ "$(found)" = "cuDNN 9.28.1, $pypi/cudnn/include $expected" ]
    [ "$(found CUDNN_HOME="$cuda")" = "cuDNN no (cuDNN 8.28.1 in $cuda/include is not version 9) " ]
}

# A tree in which every program of gpu_suite.sh is a stand-in: FAKE_NAME is ok, mute (fails without a message), idle (ends with 0 and has
# done nothing), fail, once (fails the first time) or hang, with a child in a group of its own. Fail and once also write whether the
# libraries' logs are on. FAKE_GPUS is their number.
make_suite() {
    suite=$BATS_TEST_TMPDIR/suite
    mkdir -p "$suite"/{scripts/bench/peers,build/scripts/bench,build/tests/unit,tests/unit,bin} "$BATS_TEST_TMPDIR/out"
    cp "$scripts/lib.sh" "$suite/scripts/"
    cp "$scripts/bench/gpu_suite.sh" "$suite/scripts/bench/"
    printf '/* RUN np=0 device=cuda */\n' >"$suite/tests/unit/test_op_fake.c"
    cat >"$suite/fake" <<'EOT'
#!/bin/bash
name=${0##*/}
[[ $name != gpu_steps.sh || " $* " != *' --model resnet50 '* ]] || name=resnet
mode=FAKE_${name//[.-]/_} mode=${!mode:-ok}
case "$name $*" in
*\ --version) exit ;;
'dptrain info') echo "  cuda     ${FAKE_GPU:-Fake GPU}, CUDA 13.0, cuBLASLt 13.1"; exit ;;
"python3 -c import nvidia"*) echo "${FAKE_PACKAGES:-}" && exit ;;
"python3 -c"*) exit ;;
'nvidia-smi -L') for ((i = 0; i < ${FAKE_GPUS:-2}; i++)); do echo "GPU $i: Fake"; done; exit ;;
nvidia-smi*) echo Fake; exit ;;
esac
printf 'figure of %s \e[31m\n' "$name"
[[ $mode != once || -e $SUITE/failed.$name ]] || { touch "$SUITE/failed.$name"; mode=fail; }
case $mode in
hang) timeout 7000 sleep 6999 ;;
mute) exit 3 ;;
idle) echo "==ERROR== ERR_NVGPUCTRPERM"; exit 0 ;;
fail) echo "$name broke, NCCL_DEBUG=${NCCL_DEBUG:-off}" >&2; exit 3 ;;
esac
for ((i = 1; i <= $#; i++)); do
    if [[ ${!i} == --out ]]; then
        i=$((i + 1))
        mkdir -p "${!i}"
        printf '%s\n' '{"record":"step","loss":1.5}' '{"record":"end","images_per_sec":1234.5}' >"${!i}/metrics.jsonl"
    fi
done
case $name in
gpu_products) echo conv >"${!#}" ;;
compute-sanitizer) echo '========= ERROR SUMMARY: 0 errors' ;;
python3) [[ $* != *' --way compile '* ]] || { mkdir -p "$TORCHINDUCTOR_CACHE_DIR" && : >"$TORCHINDUCTOR_CACHE_DIR/a.best_config"; } ;;
resnet) echo "$TORCHINDUCTOR_CACHE_DIR"/* "libraries ${LD_LIBRARY_PATH:-}" ;;
esac
EOT
    chmod +x "$suite/fake"
    local program
    for program in dptrain scripts/{run,test}.sh scripts/bench/gpu_{steps,detection,losses}.sh build/scripts/bench/gpu_{ops,products} \
        build/tests/unit/test_op_fake bin/{compute-sanitizer,ncu,mpirun,nvidia-smi,python3}; do
        cp "$suite/fake" "$suite/$program"
    done
    unset DPTRAIN_BIN
    export SUITE=$suite PATH=$suite/bin:$PATH
}

suite() { # OPTIONS...
    rm -f "$BATS_TEST_TMPDIR"/out/*.md
    run "$suite/scripts/bench/gpu_suite.sh" --no-build --out "$BATS_TEST_TMPDIR/out" "$@"
    echo "$output"
    page=$(cat "$BATS_TEST_TMPDIR"/out/gpu-*.md 2>/dev/null) || page=''
}

row() { [[ $page == *"| $1 | $2"* ]] || { echo "no row: $1, $2"; return 1; }; } # STAGE RESULT

@test "gpu_suite.sh: all stages pass, the most valuable first, with their figures on the console and the page, in few files" {
    make_suite
    suite --quick
    [ "$status" -eq 0 ]
    stages=(tests smoke losses sanitizer resnet detection products operators ncu steps comm)
    for name in "${stages[@]}"; do row "$name" passed; done
    [[ $output$page == *'figure of gpu_ops ?[31m'* && $output$page != *$'\e'* ]]
    [ "$(grep -oE '^[^ ]*: [a-z]+, up to' <<<"$output" | sed 's/.*: //; s/,.*//' | paste -sd ' ')" = "${stages[*]}" ]
    [[ $output == *"figure of gpu_ops"* && $page == *"| resnet50 | bf16 | off | 1.5 |"*"figure of resnet"*"figure of gpu_ops"* ]]
    # What torch.compile chose by time beside the tests does not count.
    [[ $page != *best_config* ]]
    [ "$(ls "$BATS_TEST_TMPDIR/out" | wc -l)" -le 8 ]
    [[ $(tar -tzf "$BATS_TEST_TMPDIR/out/gpu-suite-logs.tar.gz") == *logs/sanitizer-lenet5-race.txt* ]]
    FAKE_gpu_losses_sh=fail FAKE_gpu_ops=mute suite --quick --only losses,operators
    [ "$status" -eq 1 ]
    row losses 'failed | code 3: gpu_losses.sh broke, NCCL_DEBUG=off |'
    [[ $page == *"figure of gpu_losses.sh"*"Messages:"*"gpu_losses.sh broke"* && $output == *"gpu_losses.sh broke"* ]]
    row operators 'failed | code 3'
    [[ $page == *"figure of gpu_ops"* ]]
    # Without its summary compute-sanitizer has looked at nothing.
    FAKE_compute_sanitizer=idle FAKE_ncu=idle suite --quick --only sanitizer,ncu
    row sanitizer 'failed | code 1: '
    row ncu 'not run | this machine does not permit ncu'
    [[ $page == *'| lenet5-race | racecheck | failed, code 0: '* ]]
}

@test "gpu_suite.sh finds cuBLASLt, NCCL and cuDNN 9 in PyTorch's packages, unless the system has them" {
    make_suite
    local packages=$BATS_TEST_TMPDIR/nvidia
    mkdir -p "$packages"/{cublas,nccl,cudnn,old}/lib
    touch "$packages"/cublas/lib/libcublasLt.so.13 "$packages"/nccl/lib/libnccl.so.2 "$packages"/cudnn/lib/libcudnn{,_cnn}.so.9 \
        "$packages/old/lib/libcudnn.so.8"
    export FAKE_PACKAGES=$packages CUDA_HOME=$BATS_TEST_TMPDIR/none
    unset LD_LIBRARY_PATH
    printf '#!/bin/sh\nprintf "\\tlibnccl.so.2 (libc6,x86-64) => /lib/libnccl.so.2\\n\\tlibcudnn.so.8 (libc6,x86-64) => /lib/libcudnn.so.8\\n"\n' >"$suite/bin/ldconfig"
    chmod +x "$suite/bin/ldconfig"
    suite --quick --only resnet
    [[ "$status" -eq 0 && "$page" == *"libraries $packages/cublas/lib:$packages/cudnn/lib"$'\n'* ]]
}

@test "gpu_suite.sh: a signal ends the stage and its children, and the page tells what was measured" {
    make_suite
    FAKE_gpu_ops=hang "$suite/scripts/bench/gpu_suite.sh" --no-build --out "$BATS_TEST_TMPDIR/out" --only smoke,operators,steps \
        >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
    until grep -q 'figure of gpu_ops' "$BATS_TEST_TMPDIR/said" && pgrep -f 'sleep 6999' >/dev/null; do sleep 0.05; done
    kill $!
    wait $! || status=$?
    [ "$status" -eq 143 ]
    [ -z "$(pgrep -f 'sleep 6999')" ]
    # What still ends does not keep the folder in use.
    flock -n "$BATS_TEST_TMPDIR/out/gpu-suite.log" true
    page=$(cat "$BATS_TEST_TMPDIR"/out/gpu-*.md)
    row smoke passed
    row operators 'stopped | by a signal'
    [[ $page == *"figure of gpu_ops"* && $page != *"| steps |"* ]]
}

@test "gpu_suite.sh: a failing stage runs again with the libraries' logs, the others go on; code 1" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "takes 7 s; scripts/test.sh --slow runs it"
    make_suite
    FAKE_gpu_ops=fail FAKE_gpu_steps_sh=once FAKE_compute_sanitizer=fail FAKE_ncu=fail FAKE_mpirun=fail suite
    [ "$status" -eq 1 ]
    row operators 'failed | code 3: gpu_ops broke, NCCL_DEBUG=off; again: code 3, see the log'
    row steps 'failed | code 3: gpu_steps.sh broke, NCCL_DEBUG=off; again: passed, see the log'
    for name in sanitizer ncu comm; do row "$name" 'failed | code'; done
    for name in smoke tests losses resnet detection products; do row "$name" passed; done
    grep -q 'gpu_ops broke, NCCL_DEBUG=INFO' "$BATS_TEST_TMPDIR/out/gpu-suite.log"
    FAKE_dptrain=once FAKE_compute_sanitizer=once suite --only smoke,sanitizer
    [ "$(grep -c '; again: passed, see the log' <<<"$page")" -eq 2 ]
    FAKE_dptrain=fail FAKE_test_sh=fail FAKE_resnet=fail suite --quick --only smoke,tests,resnet
    row resnet 'failed | code 3: resnet broke'
    row smoke 'failed | code 1: '
    [[ $page == *'| resnet50 | bf16 | off | failed: dptrain broke'* ]]
    row tests 'failed | code 3'
}

@test "gpu_suite.sh: a stage beyond its time limit is stopped, not failed, and keeps its figures; code 6" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "waits for 30 s; scripts/test.sh --slow runs it"
    make_suite
    local name
    declare -A of=([smoke]=dptrain [tests]=test_sh [losses]=gpu_losses_sh [resnet]=resnet [detection]=gpu_detection_sh [products]=gpu_products
        [operators]=gpu_ops [ncu]=ncu [steps]=gpu_steps_sh [comm]=mpirun [sanitizer]=compute_sanitizer)
    for name in "${!of[@]}"; do
        declare -x "FAKE_${of[$name]}=hang"
        suite --only "$name" --budget 6
        [ "$status" -eq 6 ]
        row "$name" 'stopped | after '
        [[ $name == @(smoke|ncu|sanitizer|comm|detection) || $page == *"## $name"*"figure of"* ]]
        unset "FAKE_${of[$name]}"
        [ -z "$(pgrep -f 'sleep 6999')" ]
    done
    # What follows gets what is left.
    FAKE_gpu_ops=hang suite --only operators,steps --budget 8
    row operators stopped
    row steps 'not run | no time left'
}

@test "gpu_suite.sh: missing tools are named; a page is written without a GPU; the emulated GPU" {
    [[ -n ${DPTRAIN_TEST_SLOW:-} ]] || skip "takes 5 s; scripts/test.sh --slow runs it"
    make_suite
    rm "$suite"/bin/{compute-sanitizer,mpirun,ncu} "$suite/build/scripts/bench/gpu_ops" "$suite/scripts/bench/gpu_losses.sh"
    CUDA_HOME=/nowhere PATH=$suite/bin:$(small_path awk cat chmod cp cut date env find grep gzip head ldconfig mkdir mktemp mv nice nproc paste rm sed \
        setsid sleep sort stat tail tar taskset tee timeout tr uname wc) run "$suite/scripts/bench/gpu_suite.sh" --no-build \
        --out "$BATS_TEST_TMPDIR/out" --quick
    echo "$output"
    page=$(cat "$BATS_TEST_TMPDIR"/out/gpu-*.md)
    [ "$status" -eq 0 ]
    row sanitizer 'not run | compute-sanitizer was not found'
    row ncu 'not run | ncu was not found'
    row operators 'not run | build/scripts/bench/gpu_ops was not found'
    row losses 'not run | scripts/bench/gpu_losses.sh was not found'
    row comm 'not run | mpirun was not found'
    for name in smoke tests resnet detection steps products; do row "$name" passed; done
    FAKE_GPUS=1 suite --quick --python /nowhere/python --only detection,products
    row detection 'not run | no torchvision (/nowhere/python)'
    [[ $page == *"cuDNN: not run"*"/nowhere/python"* ]]
    FAKE_GPU='emulated GPU' suite --quick
    [ "$status" -eq 0 ]
    row resnet 'not run | the GPU is emulated'
    row smoke passed
    sed -i "s/^'dptrain info'.*/'dptrain info') exit ;;/" "$suite/dptrain"
    suite --quick
    [ "$status" -eq 4 ]
    row tests 'not run | no GPU: this build has no CUDA backend'
}

@test "gpu_losses.sh: a signal ends its runs, and removes their folder" {
    program=$BATS_TEST_TMPDIR/program
    printf '#!/bin/sh\n[ "$1" != info ] || { echo "  cuda     Fake GPU, CUDA 13.0"; exit; }\nexec sleep 6998\n' >"$program"
    chmod +x "$program"
    mkdir "$BATS_TEST_TMPDIR/tmp"
    DPTRAIN_BIN=$program TMPDIR=$BATS_TEST_TMPDIR/tmp "$scripts/bench/gpu_losses.sh" --gpus 1 --jobs 2 3>&- &
    until pgrep -f 'sleep 6998' >/dev/null; do sleep 0.05; done
    kill $!
    wait $! || status=$?
    [ "$status" -eq 143 ]
    [ -z "$(pgrep -f 'sleep 6998')" ]
    [ -z "$(ls "$BATS_TEST_TMPDIR/tmp")" ]
}

@test "gpu_suite.sh: a second suite in one folder is refused; code 6 if a stage had no time" {
    make_suite
    suite --only smoke --budget 1
    [ "$status" -eq 6 ]
    row smoke 'not run | no time left'
    exec 9<"$BATS_TEST_TMPDIR/out/gpu-suite.log"
    flock 9
    before=$(cat <&9)
    suite --only smoke
    [[ $status -eq 4 && $output == *"--out $BATS_TEST_TMPDIR/out is in use"* && $(cat "$BATS_TEST_TMPDIR/out/gpu-suite.log") == "$before" ]]
}

@test "gpu_suite.sh rejects an unknown stage and a bundle without tests" {
    run "$scripts/bench/gpu_suite.sh" --only tests,luck
    [ "$status" -eq 2 ]
    [[ "$output" == *"no stage 'luck'"* ]]
    for list in '' '*' tests,; do
        run "$scripts/bench/gpu_suite.sh" --only "$list" --out "$BATS_TEST_TMPDIR"
        [[ $status -eq 2 && $output == *"--only '$list'"* ]]
        run "$scripts/bench/gpu_losses.sh" --only "$list"
        [[ $status -eq 2 && $output == *"--only '$list'"* ]]
    done
    mkdir -p "$BATS_TEST_TMPDIR/dptrain-0/bin"
    tar -czf "$BATS_TEST_TMPDIR/empty.tar.gz" -C "$BATS_TEST_TMPDIR" dptrain-0
    run "$scripts/bench/gpu_suite.sh" --bundle "$BATS_TEST_TMPDIR/empty.tar.gz" --out "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 3 ]
    [[ "$output" == *"--with-tests packs them"* ]]
}
