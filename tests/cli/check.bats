#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dptrain check on this machine, whose ranks count as separate hosts (--ranks-per-host).
# shellcheck disable=SC2154 # common.bash and bats set variables

# shellcheck source=tests/cli/common.bash
load common

setup() {
    common_setup
    name=$(hostname)
    name=${name:0:63}
}

# Two hosts, each in its own folder: DIR/0 and DIR/1.
on_two_folders() { # DIR ARGUMENTS...
    mpi_flags 2 && mpi_parts
    mpirun "${MPI_FLAGS[@]}" -np 1 --wdir "$1/0" "$dptrain" check --ranks-per-host 1 "${@:2}" : \
        -np 1 --wdir "$1/1" "$dptrain" check --ranks-per-host 1 "${@:2}"
}

# Puts a program first in PATH on every rank.
fake() { # NAME <<<SCRIPT
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    cat >"$BATS_TEST_TMPDIR/bin/$1"
    chmod +x "$BATS_TEST_TMPDIR/bin/$1"
    export PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# Prints a line of the JSON file.
found() { # FILE HOST CHECK NAME
    jq -r --arg h "$2" --arg c "$3" --arg n "$4" \
        '.lines[] | select(.host == $h and .check == $c and .name == $n) | .status + " " + .found' "$1"
}

@test "the checks are listed, and selected by name" {
    run "$dptrain" check --list
    [ "$status" -eq 0 ]
    [ "$(cut -d ' ' -f 1 <<<"$output" | head -n 3 | xargs)" = "topology reach gpu" ]
    run "$dptrain" check --only ''
    [ "$status" -eq 2 ]
    [[ $output == *"--only is empty"* ]]
    run "$dptrain" check --only hots
    [ "$status" -eq 2 ]
    grep -q "unknown check 'hots'; did you mean 'host'" <<<"$output"
    run "$dptrain" check --skip host,gpus
    [ "$status" -eq 2 ]
    run "$dptrain" check --only host,clock --skip clock
    grep -q '^host$' <<<"$output"
    [ "$(grep -cE '^([a-z]+|ready.*)$' <<<"$output")" -eq 2 ] # host, ready
}

@test "one process without a launcher: a table, and the same as JSON" {
    run "$dptrain" check --only topology,gpu,clock,versions --data digits --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(tail -n 1 <<<"$output") =~ ^ready(, with warnings)?$ ]]
    [ "$(awk '{ if (length($0) > 80) n++ } END { print n + 0 }' <<<"$output")" -eq 0 ]
    jq -e '.record == "check" and .hosts == 1 and .ranks == 1 and .ready and (.lines | length > 8)' "$out/check.json"
    jq -e 'all(.lines[]; (.status | IN("ok", "skip")) == (.advice == null))' "$out/check.json"
    [[ $(found "$out/check.json" "$name" versions dptrain) =~ ^ok\ [0-9a-f]{16}$ ]]
}

@test "each check is announced when it begins" {
    run "$dptrain" check --only host,versions
    [ "${lines[0]}" = "checking host (1 of 2)" ]
    [ "${lines[1]}" = "checking versions (2 of 2)" ]
    # A check that hangs has been announced: run.sh --timeout-start does not end the job.
    fake nvidia-smi <<<$'#!/bin/sh\nexec sleep 600'
    "$dptrain" check --only gpu,host --smi-timeout 600 >"$BATS_TEST_TMPDIR/said" 3>&- &
    for _ in {1..600}; do
        [[ ! -s $BATS_TEST_TMPDIR/said ]] || break
        sleep 0.1
    done
    kill -KILL $!
    [ "$(head -n 1 "$BATS_TEST_TMPDIR/said")" = "checking gpu (1 of 2)" ]
}

@test "three identical hosts share one row each" {
    run on_ranks 3 check --ranks-per-host 1 --only clock,versions,shared --data digits --shared "$BATS_TEST_TMPDIR" \
        --shared-bytes 1M --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^dptrain check: 3 ranks on 3 hosts$' <<<"$output"
    grep -q '^  ok    C library        all 3 hosts ' <<<"$output"
    grep -q '^  ok    libraries        all 3 hosts  [0-9]* as they should be$' <<<"$output"
    grep -q '^  ok    shared           all 3 hosts ' <<<"$output"
    [ "$(found "$out/check.json" "$name#3" shared shared)" = "ok $BATS_TEST_TMPDIR" ]
    [[ $(found "$out/check.json" "$name#2" clock "wall clock") = "ok 0.0"* ]]
    [ -z "$(find "$BATS_TEST_TMPDIR" -name '.dptrain-check*')" ]
}

@test "a host with a different config or without the data is named" {
    mkdir -p "$out/0" "$out/1"
    echo 'epochs = 3' >"$out/0/run.conf"
    echo 'epochs = 4' >"$out/1/run.conf"
    "$dptrain" data synth digits --out "$out/0/data" --train 20 --val 10
    run on_two_folders "$out" --only versions --config run.conf --data ./data
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^  ok    config           $name#1 " <<<"$output"
    grep -q "^  FAIL  config           $name#2 .*; $name#1" <<<"$output"
    grep -q "^  FAIL  data             $name#2 .*the data folder ./data does" <<<"$output"
    grep -q '^      -> copy the same data' <<<"$output"
    # mpirun of OpenMPI 5 adds words of its own between lines of dashes.
    [ "$(sed '/^------/,$d' <<<"$output" | tail -n 1)" = "NOT READY: $name#2" ]
    "$dptrain" data synth digits --out "$out/1/data" --train 20 --val 10 --seed 2
    run on_two_folders "$out" --only versions --data ./data
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  data             $name#2 .*; $name#1" <<<"$output"
}

@test "a folder that differs on one host is named" {
    [[ $EUID -eq 0 ]] && unshare --mount true 2>/dev/null || skip "mounts need root"
    mkdir -p "$out/0" "$out/1" "$out/shared" "$out/own"
    mpi_flags 3 && mpi_parts
    args=(check --ranks-per-host 1 --only shared --shared-timeout 5 --json "$out/check.json")
    # shellcheck disable=SC2016 # for sh to expand
    hidden=(unshare --mount sh -c 'mount --bind "$0" "$1"; shift; exec "$@"' "$out/own" "$out/shared")
    run mpirun "${MPI_FLAGS[@]}" -np 1 "$dptrain" "${args[@]}" --shared "$out/shared" : \
        -np 1 "${hidden[@]}" "$dptrain" "${args[@]}" --shared "$out/shared" : \
        -np 1 "$dptrain" "${args[@]}" --shared "$out/shared"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $(found "$out/check.json" "$name#2" shared shared) = "fail "*"is not the same folder as on $name#1" ]]
    [[ $(found "$out/check.json" "$name#3" shared shared) = "ok "* ]]
    # The first host differs; without the option it is a warning.
    cd "$out"
    args=(check --ranks-per-host 1 --only shared --shared-timeout 5 --out "$out/shared/run" --json "$out/check.json")
    run mpirun "${MPI_FLAGS[@]}" -np 1 "${hidden[@]}" "$dptrain" "${args[@]}" : -np 2 "$dptrain" "${args[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(found "$out/check.json" "$name#1" shared shared) = "warn "*"is not the same folder as on $name#2" ]]
    [ -z "$(find "$out" -name '.dptrain-check*')" ]
}

# Runs a check on two hosts, the second with a command before the program.
on_two_hosts() { # COMMAND ARGUMENTS...
    mpi_flags 2 && mpi_parts
    # shellcheck disable=SC2086 # the words of COMMAND
    mpirun "${MPI_FLAGS[@]}" --bind-to none -np 1 "$dptrain" check --ranks-per-host 1 "${@:2}" : \
        -np 1 $1 "$dptrain" check --ranks-per-host 1 "${@:2}"
}

@test "a host with other CPUs or limits is named; --expect-cpus" {
    n=$(nproc)
    mkdir -p "$out"
    run on_two_hosts "" --only machine --expect-cpus "$n" --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(found "$out/check.json" "$name#2" machine "usable CPUs")" = "ok $n" ]
    [ "$(found "$out/check.json" "$name#2" machine "expected CPUs")" = "ok $n" ]
    [ "$(found "$out/check.json" "$name#2" machine kernel)" = "ok $(uname -r)" ]
    grep -q '^  ok    kernel settings  all 2 hosts  [0-9]* as they should be$' <<<"$output"
    ((n > 1)) || skip "one CPU"
    cpu=$(taskset -cp $$ | grep -o '[0-9]*$')
    run on_two_hosts "taskset -c $cpu" --only machine --expect-cpus "$n" --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(found "$out/check.json" "$name#2" machine "usable CPUs")" = "fail 1; $name#1 has $n" ]
    [ "$(found "$out/check.json" "$name#2" machine "expected CPUs")" = "fail 1 instead of $n" ]
    grep -q "^NOT READY: $name#2$" <<<"$output"
    run on_two_hosts "prlimit --stack=4194304" --only host --json "$out/check.json"
    [ "$status" -eq 0 ]
    [[ $(found "$out/check.json" "$name#2" host "ulimit -s") == "warn 4.0 MiB; $name#1 has "* ]]
    run "$dptrain" check --only clock --expect-cpus 3
    [[ $output == *--expect-cpus*"the check machine"* ]]
}

@test "a library of the same version with other bytes is named" {
    mkdir -p "$out/lib"
    library=$(ldd "$dptrain" | awk '$1 ~ /^libpng/ { print $3; exit }')
    [[ -n $library ]] || skip "dptrain is not linked to libpng"
    cp "$library" "$out/lib"
    echo >>"$out/lib/${library##*/}"
    run on_two_hosts "env LD_LIBRARY_PATH=$out/lib" --only versions --data digits --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 0 ]
    jq -e --arg h "$name#2" '[.lines[] | select(.name == "libraries" and .status == "warn")] | length == 1 and
        .[0].host == $h and (.[0].found | startswith("libpng"))' "$out/check.json"
}

@test "a profile is written, and other machines fail by it" {
    mkdir -p "$out"
    args=(--skip load,clock,network,transport,shared --data digits)
    run on_two_hosts "" "${args[@]}" --write-profile "$out/profile.json"
    echo "$output"
    [ "$status" -eq 0 ]
    jq -e '.record == "check_profile" and .hosts == 2 and any(.facts[]; .check == "machine" and .name == "memory" and .value > 1e6)' \
        "$out/profile.json"
    # Speeds depend on what else runs here.
    run on_two_hosts "" --skip load,clock,network,transport,shared,speed --data digits --profile "$out/profile.json"
    echo "$output"
    [ "$status" -eq 0 ]
    jq '(.facts[] | select(.name == "GEMM") | .value) *= 100' "$out/profile.json" >"$out/other.json"
    run on_two_hosts "" --only speed --profile "$out/other.json" --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 1 ]
    [[ $(found "$out/check.json" "$name#2" speed GEMM) == "fail "*"the profile has "* ]]
    # Hosts of a kind, but not that one.
    jq '(.facts[] | select(.name == "kernel") | .text) = "5.10.0"' "$out/profile.json" >"$out/other.json"
    run on_two_hosts "" --only machine --profile "$out/other.json"
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  kernel           all 2 hosts  .*; the profile has" <<<"$(tr -s '\n' <<<"$output")"
    echo '{"record": "end"}' >"$out/other.json"
    run on_two_hosts "" --only machine --profile "$out/other.json"
    [ "$status" -eq 3 ]
    [[ $output == *--profile*other.json* ]]
}

@test "a missing folder, and one that does not respond" {
    run on_ranks 2 check --ranks-per-host 1 --only shared --shared "$out/none"
    [ "$status" -eq 1 ]
    grep -q "^NOT READY: $name#1, $name#2$" <<<"$output"
    # A dead mount blocks the process that accesses it.
    fake stat <<<$'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 60\nexit 0'
    mkdir -p "$out"
    run on_ranks 2 check --ranks-per-host 1 --only shared --shared "$out" --shared-timeout 5
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^NOT READY: $name#2$" <<<"$output"
    grep -q 'did not respond within 5 s' <<<"$(tr -s '\n ' '  ' <<<"$output")"
    grep -q 'a dead mount' <<<"$output"
}

@test "what was found is said before a timeout ends the check" {
    fake stat <<<$'#!/bin/sh\n[ "$OMPI_COMM_WORLD_RANK" = 1 ] && exec sleep 600\nexit 0'
    mkdir -p "$out"
    run on_ranks 2 check --ranks-per-host 1 --device cpu --only gpu,shared --expect-gpus 500 --shared "$out" \
        --shared-timeout 600 --timeout 10
    echo "$output"
    [ "$status" -eq 5 ]
    grep -q "found before the end: $name#1: gpu, expected GPUs: .* instead of 500" <<<"$output"
}

# Output of nvidia-smi for two H200, and a kernel log; rank 1's host takes DRIVER, ECC, LANES, LINK and XID from its environment.
# OLD refuses the fields that not all drivers have.
fake_smi() {
    fake nvidia-smi <<'EOF2'
#!/bin/sh
driver=550.54.15 ecc=0 lanes=16 link='26.562 GB/s'
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || { driver=${DRIVER:-$driver} ecc=${ECC:-$ecc} lanes=${LANES:-$lanes} link=${LINK:-$link}; }
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || [ -z "$HANG" ] || exec sleep 60
case $1 in
*compute-apps*) exit 0 ;;
nvlink | *pcie.link*)
    [ -z "$OLD" ] || { echo 'Field "pcie.link.gen.max" is not a valid field to query.'; exit 2; }
    ;;
esac
for gpu in 0 1; do
    case $1 in
    nvlink) printf 'GPU %d: NVIDIA H200 (UUID: GPU-%d)\n\t Link 0: 26.562 GB/s\n\t Link 1: %s\n' $gpu $gpu "$link" && continue ;;
    *pcie.link*) echo "$gpu, NVIDIA H200, P0, 5, 5, $lanes, 16, 3, 0, 0" && continue ;;
    esac
    echo "$gpu, GPU-0000000$gpu-1111-2222-3333-444455556666, NVIDIA H200, 00000000:1$gpu:00.0, $driver, Enabled," \
        "700.00, 700.00, 0x0000000000000001, $ecc, $ecc, [N/A], No, No, 0, 600, 143771"
done
EOF2
    fake dmesg <<'EOF2'
#!/bin/sh
[ -z "$SECRET" ] || { echo 'dmesg: read kernel buffer failed: Operation not permitted' >&2; exit 1; }
echo '[    0.000000] Linux version 6.1.0-28-amd64'
[ "$OMPI_COMM_WORLD_RANK" != 1 ] || [ -z "$XID" ] || echo "[ 9.503025] NVRM: Xid (PCI:0000:11:00): $XID, pid=7, name=python3, text"
EOF2
}

@test "nvidia-smi: healthy, with errors, with a different driver, hanging" {
    fake_smi
    run on_ranks 2 check --ranks-per-host 1 --device cpu --only gpu
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^  ok    GPU memory       all 2 hosts  no uncorrected errors$' <<<"$output"
    export DRIVER=535.129.03 ECC=3
    run on_ranks 2 check --ranks-per-host 1 --device cpu --only gpu
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  GPU memory       $name#2 .* GPU 1: 3 uncorrected ECC errors" <<<"$output"
    grep -q "^  warn  GPU driver       $name#2 .* 535.129.03; $name#1 has 550.54.15" <<<"$output"
    grep -q "^NOT READY: $name#2$" <<<"$output"
    export HANG=1
    run on_ranks 2 check --ranks-per-host 1 --device cpu --only gpu --smi-timeout 5
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  nvidia-smi       $name#2 " <<<"$output"
}

@test "links, corrected errors and Xid errors of GPUs: healthy, faulty, not reported" {
    fake_smi
    gpus=(check --ranks-per-host 1 --device cpu --only gpu --json "$out/check.json")
    row() { found "$out/check.json" "$name#$1" gpu "$2"; }
    run on_ranks 2 "${gpus[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(row 2 "GPU PCIe")" = "ok 16 lanes, generation 5" ]
    [ "$(row 2 NVLink)" = "ok 2 links active" ]
    [[ $(row 2 "GPU ECC") = "ok 6 corrected errors"* ]]
    [[ $(row 2 "Xid errors") = "ok none"* ]]
    LANES=8 LINK='<inactive>' XID=79 run on_ranks 2 "${gpus[@]}"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(row 1 "GPU PCIe"; row 1 NVLink; row 1 "Xid errors")" = $'ok 16 lanes, generation 5\nok 2 links active\nok none since boot' ]
    [ "$(row 2 "GPU PCIe")" = $'fail GPU 0: 8 of 16 lanes\nfail GPU 1: 8 of 16 lanes' ]
    [[ $(row 2 NVLink) = "fail GPU 0: 1 of 2 links "*$'\n'"fail GPU 1: "* ]]
    [ "$(row 2 "Xid errors")" = "fail 0000:11:00: 79 (fell off the bus)" ]
    XID=31 run on_ranks 2 "${gpus[@]}" --strict
    [ "$status" -eq 0 ]
    # An older driver, and a kernel log that only root may read.
    OLD=1 SECRET=1 run on_ranks 2 "${gpus[@]}"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $(row 1 "GPU PCIe, ECC") = "skip "*pcie.link.gen.max* ]]
    [[ $(row 1 NVLink) = "skip "* ]]
    [[ $(row 1 "Xid errors") = "skip "*"not permitted"* ]]
    # The log says why nvidia-smi hangs.
    HANG=1 XID=119 run on_ranks 2 "${gpus[@]}" --smi-timeout 5
    [ "$status" -eq 1 ]
    [[ $(row 2 "Xid errors") = "fail "*119* ]]
}

@test "a port that came up slower, or lost its link, is named with its host" {
    for host in 0 1; do
        mkdir -p "$out/$host/ib/mlx5_0/ports/1/counters"
        cd "$out/$host/ib/mlx5_0/ports/1"
        echo '4: ACTIVE' >state
        echo InfiniBand >link_layer
        echo "$((400 - 200 * host)) Gb/sec (4X NDR)" >rate
        echo "$((host * 3))" >counters/link_downed
    done
    run on_two_folders "$out" --only transport --infiniband ./ib --json "$out/check.json"
    echo "$output"
    [ "$(found "$out/check.json" "$name#1" transport "link rates")" = "ok 1 x 400 Gbit/s" ]
    [[ $(found "$out/check.json" "$name#2" transport "link rates") = "warn 1 x 200 Gbit/s; $name#1 has 1 x 400"* ]]
    [ "$(found "$out/check.json" "$name#1" transport "port errors")" = "ok 0 since boot, none during the test" ]
    [[ $(found "$out/check.json" "$name#2" transport "port errors") = "warn mlx5_0:1: "*" 3" ]]
}

@test "a process of another job is named; with --strict it is a failure" {
    # The kernel names a process after its file.
    mkdir -p "$out"
    cp "$(command -v sleep)" "$out/dptrain"
    "$out/dptrain" 60 3>&- &
    other=$!
    run on_ranks 2 check --only load --allow-busy --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 0 ]
    [[ " $(found "$out/check.json" "$name" load "other jobs") " =~ ^\ warn\ .*process.*\ $other\  ]]
    [ "$(tail -n 1 <<<"$output")" = "ready, with warnings" ]
    for line in "CPUs in use" "stolen time"; do
        found "$out/check.json" "$name" load "$line" | grep -qE '^(ok|warn|skip) '
    done
    [ "$(jq '[.lines[] | select(.check == "load" and .name == "CPU time").rank] | sort == [0, 1]' "$out/check.json")" = true ]
    run "$dptrain" check --only load --allow-busy --strict --json "$out/check.json"
    kill "$other"
    [ "$status" -eq 1 ]
    [ "$(tail -n 1 <<<"$output")" = "NOT READY: $name" ]
    jq -e '.ready | not' "$out/check.json"
}

@test "--expect-gpus: a host with fewer is named" {
    run "$dptrain" check --device cpu --only gpu --expect-gpus 500
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  expected GPUs  .* [0-9]* instead of 500$" <<<"$output"
    fake_smi
    run "$dptrain" check --device cpu --only gpu --expect-gpus 2
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q "^  ok    expected GPUs  .* 2$" <<<"$output"
    run "$dptrain" check --device cpu --only gpu --expect-gpus 8
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  expected GPUs  .* 2 instead of 8$" <<<"$output"
}

@test "a host without its GPU is named, and so are ranks that share one" {
    dptrain=$root/build/emu/dptrain
    [[ -x $dptrain ]] || skip "build/emu/dptrain is not built (make emu-tests; it needs CUDA's headers)"
    fake_smi
    mpi_flags 2 && mpi_parts
    run mpirun "${MPI_FLAGS[@]}" -np 1 -x DPTRAIN_EMU_GPUS=2 "$dptrain" check --ranks-per-host 1 --only gpu : \
        -np 1 -x DPTRAIN_EMU_GPUS=0 "$dptrain" check --ranks-per-host 1 --only gpu
    echo "$output"
    [ "$status" -eq 1 ]
    grep -q "^  FAIL  device           $name#2 " <<<"$output"
    grep -q "^  warn  GPUs             $name#1 .* 1 of 2 are idle" <<<"$output"
    grep -q "^NOT READY: $name#2$" <<<"$output"
    DPTRAIN_EMU_GPUS=1 run on_ranks 2 check --only gpu
    [ "$status" -eq 1 ]
    grep -q '^  FAIL  own GPU          all 2 ranks  2 ranks use one GPU$' <<<"$output"
}

@test "a process of another job on the rank's GPU is named" {
    dptrain=$root/build/emu/dptrain
    [[ -x $dptrain ]] || skip "build/emu/dptrain is not built (make emu-tests; it needs CUDA's headers)"
    # The emulated GPU's number, as NVIDIA writes it.
    gpu=GPU-64707472-6169-6e2d-656d-752d47505500
    fake nvidia-smi <<EOF2
#!/bin/sh
case \$1 in
*compute-apps*) echo "$gpu, \$PPID, 500, dptrain"; [ -z "\$OTHER" ] || echo "$gpu, \$OTHER, 30000, /usr/bin/python3" ;;
*) echo "0, $gpu, Emulated, 00000000:10:00.0, 550.1, Enabled, 700.00, 700.00, 0x0, 0, 0, [N/A], No, No, 0, 500, 80000" ;;
esac
EOF2
    export DPTRAIN_EMU_GPUS=1
    run "$dptrain" check --only gpu
    echo "$output"
    [ "$status" -eq 0 ]
    grep -q '^  ok    GPU use .* not in use by others$' <<<"$output"
    OTHER=$$ run "$dptrain" check --only gpu --json "$out/check.json"
    echo "$output"
    [ "$status" -eq 1 ]
    [ "$(found "$out/check.json" "$name" gpu "GPU use")" = "fail GPU 0: in use by python3 ($$) with 29 GiB" ]
}
