#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # dptrain is common_setup's
# dptrain hosts: output for scripts, mpirun and ssh. tests/unit/test_hosts.c covers invalid input.
load common

setup() {
    common_setup
    cd "$BATS_TEST_TMPDIR" || return 1
    printf 'node1 slots=4\nnode2 slots=4 # a comment\n' >hostfile
    cat >spec.yaml <<'EOT'
nodes:
  - {address: 10.0.0.2, gpus: [0, 1], ssh_config: workers, port: 2222}
  - {address: 10.0.0.1, gpus: 2, chief: true, network_bandwidth: 100}
ssh:
  workers: {username: ubuntu, key_file: /keys/job, shared_envs: {NCCL_DEBUG: WARN, "Q": "a 'b' $c"}, env_file: job.env, setup: ulimit -l}
EOT
}

# Every field is present, even an empty one, because read merges consecutive tabs.
@test "show --format tsv prints one line per host with ten non-empty fields, and one more for each further variable" {
    run "$dptrain" hosts show --format tsv spec.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = $'10.0.0.1\t2\t0,1\t-\t-\t-\tyes\t-\t-\t-' ]
    [ "${lines[1]}" = $'10.0.0.2\t2\t0,1\t2222\tubuntu\t/keys/job\tno\tjob.env\tulimit -l\tNCCL_DEBUG=WARN\tQ=a \'b\' $c' ]
    [ "${#lines[@]}" -eq 2 ]
    "$dptrain" hosts show hostfile --format tsv --ssh-port 22 --user me --key k | awk -F '\t' '
        NF != 10 { exit 1 } { for (i = 1; i <= NF; i++) if ($i == "") exit 1; print }' >fields
    cat fields
    [ "$(sed -n 2p fields)" = $'node2\t4\t-\t22\tme\tk\tno\t-\t-\t-' ]
}

@test "show: a table with totals, and JSON with all fields" {
    run "$dptrain" hosts show spec.yaml
    echo "$output"
    [ "$status" -eq 0 ]
    [[ "${lines[0]}" =~ ^host\ +slots\ +GPUs\ +port\ +user\ +chief\ +Gbit/s\ +key$ ]]
    [[ "${lines[1]}" =~ ^10.0.0.1\ +2\ +0-1\ +-\ +-\ +yes\ +100\ +-$ ]]
    [ "${lines[3]}" = "2 hosts, 4 slots, 4 GPUs" ]
    "$dptrain" hosts show spec.yaml --format json >shown
    jq -e '.hosts[1] | .address == "10.0.0.2" and .gpu_ids == [0, 1] and .port == 2222 and .chief == false
        and .shared_envs == {NCCL_DEBUG: "WARN", Q: "a \u0027b\u0027 $c"} and .ssh_group == "workers" and .max_slots == null' shown
    jq -e '.hosts[0] | .network_bandwidth_gbits == 100 and .user == null and .setup == null and .chief' shown
    "$dptrain" hosts show hostfile --format json | jq -e '.hosts | length == 2 and .[0].gpu_ids == null'
}

@test "mpirun accepts the printed hostfile, with the same slots" {
    printf '# this host\r\nlocalhost slots = 3' >own
    "$dptrain" hosts hostfile own >printed
    [ "$(cat printed)" = "localhost slots=3" ]
    run mpirun --hostfile printed --bind-to none -np 3 sh -c 'echo here'
    [ "$status" -eq 0 ] && [ "$(grep -c '^here$' <<<"$output")" -eq 3 ]
    run mpirun --hostfile printed --bind-to none -np 4 sh -c 'echo here'
    [ "$status" -ne 0 ]
}

# https://docs.open-mpi.org/en/v5.0.x/launching-apps/scheduling.html
@test "OpenMPI's examples of hostfiles and of -H mean the same; those of PBS, MPICH and Slurm are understood" {
    of() { "$dptrain" hosts hostfile "$1" | tr '\n' ' '; }
    printf '# its cores\nfoo.example.com\n\n# two\nbar.example.com slots=2\nyow.example.com slots=4 max-slots=4\n' >ompi
    [ "$(of ompi)" = "foo.example.com bar.example.com slots=2 yow.example.com slots=4 max_slots=4 " ]
    printf 'aa slots=2\nbb slots=2\ncc slots=2\n' >my-hosts
    [ "$(of my-hosts)" = "aa slots=2 bb slots=2 cc slots=2 " ]
    [ "$(of aa,aa,bb)" = "aa slots=2 bb slots=1 " ]
    printf 'n1\nn1\nn2\n' >pbs
    [ "$(of pbs)" = "n1 slots=2 n2 slots=1 " ]
    printf 'node1:4\nnode2:2\n' >mpich
    [ "$(of mpich)" = "node1 slots=4 node2 slots=2 " ]
    printf 'node[01-02,7] slots=8\n' >slurm
    [ "$(of slurm)" = "node01 slots=8 node02 slots=8 node7 slots=8 " ]
    [ "$(of 'node[1-2]:3,x:1')" = "node1 slots=3 node2 slots=3 x slots=1 " ]
    run "$dptrain" hosts show ompi
    [ "${lines[-1]}" = "3 hosts, 6 slots; and on 1 host without slots as many as GPUs where the job uses them, otherwise cores" ]
    [ "$("$dptrain" hosts show --format tsv ompi | cut -f 1,2 | head -n 1)" = $'foo.example.com\t-' ]
}

# OpenMPI is asked itself; version 5 does not add lines up.
@test "a host without slots, and one in several lines, have the slots that OpenMPI gives them" {
    local file slots files=('localhost' 'localhost max_slots=3')
    mpi_version
    ((mpi_major >= 5)) || files+=('localhost\nlocalhost\nlocalhost' 'localhost slots=2\nlocalhost')
    for file in "${files[@]}"; do
        printf "%b\n" "$file" >own
        # Version 5 shows it several times, first without the cores.
        slots=$(mpirun --hostfile own --display-allocation -np 1 true 2>/dev/null |
            sed -n 's/.*[[:space:]]slots=\([0-9]*\) max.*/\1/p' | tail -n 1)
        run env DPTRAIN_BIN="$dptrain" DPTRAIN_BIND=none "$root/scripts/run.sh" --dry-run -hostfile own -- train --device cpu
        echo "$file: $slots; $output"
        [[ "$output" == *" -np $slots -H localhost:$slots "* ]]
    done
}

@test "ssh reads the printed config as intended" {
    command -v ssh >/dev/null || skip "ssh is not installed"
    printf 'node1\nfe80::1%%eth0\n' >six
    "$dptrain" hosts ssh-config spec.yaml --user me --ssh-port 2200 --known-hosts '/tmp/known hosts' >config
    cat config
    run ssh -G -F config 10.0.0.2
    for line in 'hostname 10.0.0.2' 'user ubuntu' 'port 2222' 'identityfile /keys/job' 'identitiesonly yes' \
        'batchmode yes' 'stricthostkeychecking true' 'userknownhostsfile /tmp/known hosts'; do
        grep -qx "$line" <<<"$output" || { echo "not there: $line"; return 1; }
    done
    run ssh -G -F config 10.0.0.1
    grep -qx 'user me' <<<"$output" && grep -qx 'port 2200' <<<"$output"
    "$dptrain" hosts ssh-config six >config
    run ssh -G -F config 'fe80::1%eth0'
    grep -qx 'hostname fe80::1%eth0' <<<"$output"
}

@test "--include and --exclude select hosts and slots as DeepSpeed does" {
    run "$dptrain" hosts show --format tsv hostfile --include node1@node2:2,0
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = $'node1\t4\t-\t-\t-\t-\tyes\t-\t-\t-' ] && [ "${lines[1]}" = $'node2\t2\t0,2\t-\t-\t-\tno\t-\t-\t-' ]
    [ "$("$dptrain" hosts hostfile hostfile --exclude node1@node2:3)" = "node2 slots=3" ]
    run "$dptrain" hosts show hostfile --include node1 --exclude node2
    [ "$status" -eq 2 ] && [[ "$output" == *"cannot be combined"* ]]
    run "$dptrain" hosts show hostfile --include node3
    [ "$status" -eq 2 ] && [[ "$output" == *"no host node3 in hostfile"* ]]
    run "$dptrain" hosts hostfile hostfile --exclude node1@node2
    [ "$status" -eq 2 ] && [[ "$output" == *"leaves no host"* ]]
}

@test "a source is a file or a list; a missing file is an error" {
    [ "$("$dptrain" hosts hostfile 'a:2,[fe80::1]:4')" = $'a slots=2\nfe80::1 slots=4' ]
    printf 'in-the-file\n' >a:2
    [ "$("$dptrain" hosts hostfile a:2)" = in-the-file ]
    [ "$("$dptrain" hosts hostfile <(echo b slots=3) | cat)" = "b slots=3" ]
    for source in hosts.txt ./hosts missing.yaml node1 dir/a:2; do
        run "$dptrain" hosts show "$source"
        echo "$output"
        [ "$status" -eq 3 ] && [[ "$output" == *"no such file: $source"* ]]
    done
    run "$dptrain" hosts show .
    [ "$status" -eq 3 ] && [[ "$output" == *"is a folder"* ]]
    run "$dptrain" hosts show a:x,b
    [ "$status" -eq 2 ] && [[ "$output" == *"entry 1: invalid 'a:x'"* ]]
    printf 'a\0b\n' >zero
    run "$dptrain" hosts show zero
    [ "$status" -eq 3 ] && [[ "$output" == *"zero byte"* ]]
    : >empty
    run "$dptrain" hosts show empty
    [ "$status" -eq 3 ] && [[ "$output" == *"empty lists no hosts"* ]]
    printf 'ok\nbad slots=x\n' >bad
    run "$dptrain" hosts show bad
    [ "$status" -eq 3 ] && [[ "$output" == *"bad:2: invalid slots=x"* ]]
}

@test "usage errors, help, and a full disk" {
    run "$dptrain" hosts
    [ "$status" -eq 2 ] && [[ "$output" == *"expected a verb"* ]]
    run "$dptrain" hosts shw hostfile
    [ "$status" -eq 2 ] && [[ "$output" == *"did you mean 'show'"* ]]
    run "$dptrain" hosts show
    [ "$status" -eq 2 ]
    run "$dptrain" hosts hostfile hostfile --format tsv
    [ "$status" -eq 2 ] && [[ "$output" == *"--format applies only to"* ]]
    run "$dptrain" hosts show hostfile --known-hosts f
    [ "$status" -eq 2 ]
    run "$dptrain" hosts show hostfile --user='-oProxyCommand=x'
    [ "$status" -eq 2 ] && [[ "$output" == *"--user"* ]]
    run "$dptrain" hosts --help
    [ "$status" -eq 0 ] && [[ "$output" == *"--include"* ]]
    [ -e /dev/full ] || skip "there is no /dev/full"
    run bash -c "'$dptrain' hosts hostfile hostfile >/dev/full"
    [ "$status" -eq 4 ] && [[ "$output" == *"cannot write the hosts"* ]]
}
