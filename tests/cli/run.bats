#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# run.sh on hosts: probes, choices, and the resulting command. The hosts are folders, each with its own /sys and
# addresses; ssh, mpirun and dptrain are fakes. tests/cluster/run.bats uses real ones.
# shellcheck disable=SC2016 # stand-ins' bodies are not for this shell
# shellcheck disable=SC2030,SC2031 # every test is a subshell, on purpose

setup() {
    root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    run_sh=$root/scripts/run.sh
    bin=$BATS_TEST_TMPDIR/bin
    export HOSTS=$BATS_TEST_TMPDIR/hosts HOME=$BATS_TEST_TMPDIR/home
    mkdir "$bin" "$HOSTS" "$HOME"
    cd "$BATS_TEST_TMPDIR" || return
    stand_in dptrain </dev/null
    # ssh OPTIONS HOST COMMAND: uses the last two words.
    stand_in ssh <<<'host=${*: -2:1} command=${!#}
        echo "$*" >>"$HOSTS/ssh.log"
        [[ -d $HOSTS/$host ]] || { echo "ssh: connect to host $host port 22: Connection refused" >&2; exit 255; }
        export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys PATH=$HOSTS/$host/bin:$PATH
        [[ ! -e $HOSTS/$host/slow ]] || sleep 30
        eval "$command"'
    stand_in ip <<<'cat "$HOSTS/${FAKE_HOST:-none}/addr" 2>/dev/null'
    stand_in hostname <<<'echo "${FAKE_HOST:-head}"'
    stand_in orted </dev/null
    stand_in mpirun <<<'if [[ $1 == --version ]]; then echo "mpirun (Open MPI) ${FAKE_MPI:-4.1.4}"; exit; fi
        printf "%s\n" "$@" >"$HOSTS/mpirun.words"'
    export DPTRAIN_BIN=$bin/dptrain PATH=$bin:$PATH DPTRAIN_BIND=none
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    unset NCCL_SOCKET_IFNAME NCCL_NET SLURM_JOB_NODELIST
    host a eth0=10.0.0.1/24 eth1=192.168.7.1/20
    host b eth0=10.0.0.2/24 eth1=192.168.7.2/20
}

stand_in() { # NAME, the body on stdin
    { echo '#!/usr/bin/env bash'; cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

host() { # NAME INTERFACE=ADDRESS/BITS...
    local pair n=1
    mkdir -p "$HOSTS/$1/bin" "$HOSTS/$1/sys/class/net"
    printf '1: lo    inet 127.0.0.1/8 scope host lo\n' >"$HOSTS/$1/addr"
    for pair in "${@:2}"; do
        n=$((n + 1))
        printf '%d: %s    inet %s brd + scope global %s\n' $n "${pair%%=*}" "${pair#*=}" "${pair%%=*}" >>"$HOSTS/$1/addr"
    done
}

speed() { # HOST INTERFACE MBIT
    mkdir -p "$HOSTS/$1/sys/class/net/$2"
    echo "$3" >"$HOSTS/$1/sys/class/net/$2/speed"
}

# ssh that also keeps its configuration, -F FILE.
stand_in_with_config() {
    sed -i '2i [[ $1 != -F ]] || { cp "$2" "$HOSTS/config.$$" && mv "$HOSTS/config.$$" "$HOSTS/config"; } || exit 255' "$bin/ssh"
}

# An adapter in /sys, from Mellanox or Amazon.
rdma() { # HOST NAME DRIVER STATE LINK
    local device=$HOSTS/$1/sys/class/infiniband/$2
    mkdir -p "$device/ports/1" "$device/device"
    ln -s "../drivers/$3" "$device/device/driver"
    echo "4: $4" >"$device/ports/1/state"
    echo "$5" >"$device/ports/1/link_layer"
}

# Prints the command of a dry run.
line() { # ARGUMENTS...
    run "$run_sh" --dry-run "$@"
    echo "$status: $output"
}

has() { # WORDS...
    local words
    for words in "$@"; do
        [[ "$output" == *"$words"* ]] || { echo "missing: $words"; return 1; }
    done
}

@test "hosts: all their slots in one command, over the subnet that they share" {
    host b eth0=10.0.0.2/24
    line -H a:2,b:3 -- train --out 'x y'
    [ "$status" -eq 0 ]
    has "interface eth0 (10.0.0.0/24): the only one that all hosts share" "transport tcp: no host has" \
        "--mca oob_tcp_if_include 10.0.0.0/24 --mca btl_tcp_if_include 10.0.0.0/24" \
        "--mca btl tcp,vader,self --mca btl_tcp_flags send" "-x NCCL_SOCKET_IFNAME==eth0" "-x NCCL_NET=Socket" "--wdir $PWD" \
        "-np 5 -H a:2,b:3 $DPTRAIN_BIN train --out 'x y'"
    # One login per host.
    [ "$(wc -l <"$HOSTS/ssh.log")" -eq 2 ]
}

@test "fewer ranks than slots, ranks per host, too many ranks" {
    line -H a:2,b:2 -np 3
    has "-np 3 -H a:2,b:1 "
    line -H a:2,b:2 -np 2
    has "-np 2 -H a:2 "
    line -H a:2,b:2 --num-gpus 4
    has "-np 8 -H a:4,b:4 "
    line -H a:2,b:2 -np 5
    [ "$status" -eq 2 ]
    has "5 ranks, but the hosts have 4 slots"
    line -H a -np 5
    has "5 ranks, but the hosts have 1 slot:"
}

@test "a host without slots has as many as its GPUs where the job uses them, otherwise its cores" {
    local cores words
    cores=$(bash -c '. "$1/scripts/lib.sh"; allowed_cores' _ "$root")
    printf '#!/bin/sh\nprintf "GPU %%d: one\\n" 0 1 2\n' >"$HOSTS/a/bin/nvidia-smi"
    chmod +x "$HOSTS/a/bin/nvidia-smi"
    printf 'a\nb\n' >open
    line -hostfile open -- train
    has "slots of a: 3, one per GPU" "slots of b: $cores, one per core" "-np $((3 + cores)) -H a:3,b:$cores "
    # The probe is the only login.
    [ "$(wc -l <"$HOSTS/ssh.log")" -eq 2 ]
    for words in "--device cpu" --device=ref; do
        # shellcheck disable=SC2086 # these are words
        line -hostfile open -- train $words
        has "slots of a b: $cores, one per core" "-np $((2 * cores)) -H a:$cores,b:$cores "
    done
    line -hostfile open -np 2 -- train
    has "-np 2 -H a:2 "
    line -hostfile open --num-gpus 4 -- train
    has "-np 8 -H a:4,b:4 "
    line -hostfile open --no-checks --interface 10.0.0.0/24 --transport tcp -- train
    has "slots of a: 3, one per GPU" "-np $((3 + cores)) -H a:3,b:$cores "
    rm -r "$HOSTS/b"
    line -hostfile open --no-checks --interface 10.0.0.0/24 --transport tcp -- train
    [ "$status" -eq 4 ]
    has "b has no slots=N, and does not say its cores: refused"
}

@test "the chief comes first, in a separate part if this host is another one" {
    line -H a:2,b:1 --chief b
    has "-np 3 -H b:1,a:2 "
    local here
    here=$(uname -n)
    DPTRAIN_SYSFS=$HOSTS/a/sys FAKE_HOST=a line -H "$here:2,b:1" --chief b
    has "-np 1 -H b:1 $DPTRAIN_BIN : " " -np 2 -H $here:2 $DPTRAIN_BIN"
    line -H a:2,b:1 --chief c
    [ "$status" -eq 2 ]
    has "--chief c: the hosts are a b"
}

@test "the positional form of launch recipes" {
    printf 'a slots=4\nb slots=4\n' >hostfile
    line 8 256 hostfile
    has "-np 8 -H a:4,b:4 $DPTRAIN_BIN train --batch-per-rank 256"
    line 4 32 hostfile train --epochs 2
    has "-np 4 -H a:4 $DPTRAIN_BIN train --batch-per-rank 32 --epochs 2"
    line -np 2 4 32 hostfile
    [ "$status" -eq 2 ]
    line -hostfile hostfile 4 32 hostfile
    [ "$status" -eq 2 ]
    has "hosts given twice"
    line 4 32 nowhere
    [ "$status" -eq 2 ]
    has "cannot read the hostfile nowhere"
}

@test "the fastest of several subnets is used; an interface of a single host never" {
    for h in a b; do speed $h eth0 1000; speed $h eth1 100000; done
    host c docker0=172.17.0.1/16 eth0=10.0.0.3/24 eth1=192.168.7.3/20 ib0=10.9.0.1/24
    speed c ib0 400000
    line -H a:1,b:1,c:1
    has "interface eth1 (192.168.0.0/20): the fastest that all hosts share" "btl_tcp_if_include 192.168.0.0/20"
    line -H a:1,c:1 --interface ib0
    [ "$status" -eq 4 ]
    has "--interface ib0: a has no such interface with an address: eth0 10.0.0.0/24, eth1 192.168.0.0/20"
    line -H a:1,c:1 --interface 10.9.0.0/24
    [ "$status" -eq 4 ]
    has "a has no address there"
    line -H a:1,c:1 --interface 10.0.0.0/24
    has "interface eth0 (10.0.0.0/24): set by --interface"
    line -H a:1,b:1 --interface eth0
    has "btl_tcp_if_include eth0"
    # A bridge is a host's network if the user says so.
    host d br-ex=10.8.0.4/24 eth0=10.0.0.4/24
    host e br-ex=10.8.0.5/24 eth0=10.0.0.5/24
    line -H d:1,e:1 --interface br-ex
    has "btl_tcp_if_include br-ex"
    line -H d:1,e:1 --interface 10.8.0.0/24
    has "interface br-ex (10.8.0.0/24): set by --interface"
    line -H d:1,e:1
    has "interface eth0 (10.0.0.0/24): the only one that all hosts share"
}

@test "hosts that share no subnet: an error that lists the subnets of each" {
    host c docker0=172.17.0.1/16 eth0=10.5.0.3/24
    host a docker0=172.17.0.1/16 eth0=10.0.0.1/24
    line -H a:1,c:1
    [ "$status" -eq 4 ]
    has "a has eth0 10.0.0.0/24" "c has eth0 10.5.0.0/24" "the hosts share no subnet"
}

@test "one subnet with different interface names: NCCL gets each host's" {
    host b ens5=10.0.0.2/24
    line -H a:1,b:1
    has "-x NCCL_SOCKET_IFNAME==eth0 -np 1 -H a:1 $DPTRAIN_BIN : " " -x NCCL_SOCKET_IFNAME==ens5 -np 1 -H b:1"
}

@test "transport: the one that every host has, and the reason" {
    rdma a mlx5_0 mlx5_core ACTIVE InfiniBand
    line -H a:1,b:1
    has "transport tcp: InfiniBand is active on 1 of 2 hosts, not on b"
    line -H a:1,b:1 --transport ib
    [ "$status" -eq 4 ]
    has "no active InfiniBand or RoCE port on b"
    rdma b mlx5_0 mlx5_core DOWN InfiniBand
    line -H a:1,b:1
    has "transport tcp: InfiniBand is active on 1 of 2 hosts, not on b"
    rm -r "$HOSTS/b/sys/class/infiniband"
    rdma b mlx5_0 mlx5_core ACTIVE InfiniBand
    line -H a:1,b:1
    has "transport ib: every host has an active" "--mca pml ucx --mca btl '^openib'" "-x NCCL_NET=IB"
    NCCL_NET=mine line -H a:1,b:1 --transport tcp
    has "transport tcp: set by --transport" "-x NCCL_NET "
}

@test "transport efa: variables of libfabric and NCCL, and the plugin's folder" {
    for h in a b; do rdma $h efa_0 efa ACTIVE Unspecified; done
    mkdir ofi && touch ofi/libnccl-net.so
    line -H a:1,b:1
    has "transport efa: every host has an EFA device" "a: aws-ofi-nccl was not found"
    DPTRAIN_OFI_NCCL=$PWD/ofi line -H a:1,b:1
    has "-x FI_PROVIDER=efa -x FI_EFA_USE_DEVICE_RDMA=1 -x 'NCCL_NET=AWS Libfabric'" "-x LD_LIBRARY_PATH=$PWD/ofi:" \
        "--mca pml ob1 --mca btl tcp,vader,self"
    [[ "$output" != *"aws-ofi-nccl was not found"* ]]
}

@test "OpenMPI 5: the names of PRRTE" {
    FAKE_MPI=5.0.6 line -H a:1,b:1 --ports 20000-20099 --no-tree-spawn
    has "--prtemca prte_if_include eth0" "--prtemca plm_ssh_args " "--prtemca plm_ssh_no_tree_spawn 1" \
        "--mca btl tcp,sm,self --mca btl_tcp_flags send --mca opal_reachable weighted" \
        "--prtemca oob_tcp_dynamic_ipv4_ports 20084-20099" "--mca btl_tcp_if_include 10.0.0.0/24" "--mca opal_abort_delay 1"
    [[ "$output" != *vader* && "$output" != *" oob_tcp_if_include"* && "$output" != *" : "* ]]
    # Parts of a command end PMIx before 5.0.11, on every host, unless it reads no files.
    host c eth5=10.0.0.3/24
    FAKE_MPI=5.0.6 line -H a:1,c:1
    has " : " "--prtemca prte_if_include eth0,eth5" \
        "--prtemca prte_launch_agent 'env PMIX_MCA_mca_base_param_files=none prted'"
    FAKE_MPI=5.0.6 line -H a:1,b:1 --no-checks --interface 10.0.0.0/24 --transport tcp
    has "--prtemca prte_if_include 10.0.0.0/24"
    FAKE_MPI=5.0.6 line -np 100000
    has "--output :raw" "--map-by :OVERSUBSCRIBE --bind-to none" "--mca btl '^tcp'"
    FAKE_MPI=5.0.6 OMPI_MCA_btl=self,sm line -np 2
    [[ "$output" != *" btl "* ]]
}

@test "ports: MPI uses its range; NCCL's are reported" {
    line -H a:1,b:1 --ports 20000-20999
    has "--mca btl_tcp_port_min_v4 20000 --mca btl_tcp_port_range_v4 984 --mca oob_tcp_dynamic_ipv4_ports 20984-20999" \
        "a: NCCL uses the system's ports"
    line -H a:1,b:1 --ports 20000-20001
    has "--mca btl_tcp_port_range_v4 1 --mca oob_tcp_dynamic_ipv4_ports 20001-20001"
    line -H a:1,b:2 --ports 20000-20001
    [ "$status" -eq 2 ]
    has "1 ports for 2 ranks of a host"
    for bad in 20000 5-10 30000-20000 20000-70000; do
        line -H a:1,b:1 --ports $bad
        [ "$status" -eq 2 ]
    done
}

@test "all hosts that cannot take part are named, with the cause, and nothing starts" {
    mkdir "$HOSTS/c"
    touch "$HOSTS/c/slow"
    host d eth0=10.0.0.4/24
    # An old copy of the program.
    printf '#!/bin/sh\n[ $# -gt 0 ] && exec /usr/bin/sha256sum "$@"\ncat >/dev/null; echo 123 -\n' >"$HOSTS/d/bin/sha256sum"
    chmod +x "$HOSTS/d/bin/sha256sum"
    DPTRAIN_ASK_SECONDS=10 run "$run_sh" -H a:1,nobody:1,c:1,d:1 --wdir /no/such
    echo "$output"
    [ "$status" -eq 4 ]
    has "nobody: probe over ssh failed: refused: no sshd listens on port 22 -> on nobody: start sshd" \
        "c: probe over ssh failed: no answer within 10 s" "d: $DPTRAIN_BIN differs from the one here" \
        "a: no working folder /no/such" "4 of 4 hosts cannot take part"
    [ ! -e "$HOSTS/mpirun.words" ]
    line -H a:1,nobody:1 --no-checks
    [ "$status" -eq 2 ]
    line -H a:1,nobody:1 --no-checks --interface 10.0.0.0/24 --transport tcp
    [ "$status" -eq 0 ]
    has "-H a:1,nobody:1"
    [[ $output != *NCCL_SOCKET_IFNAME* ]]
    line -H a:1,nobody:1 --no-checks --interface eth0 --transport tcp
    has "NCCL_SOCKET_IFNAME==eth0"
}

@test "what a host answers is data: no command in it runs, and a number is a number" {
    local cores code='BASH_VERSINFO[$(>"$HOSTS/PWN")]'
    cores=$(bash -c '. "$1/scripts/lib.sh"; allowed_cores' _ "$root")
    # As a login shell that prints words of its own, before the probe.
    sed -i 's/^ *eval "$command"/cat "$HOSTS\/$host\/noise" 2>\&-; &/' "$bin/ssh"
    printf '%s\n' "gpus $code" "cores $code" 'cores 08' "check $code" "newest $code" "ephemeral $code 7" 'addr e9 fd00::1/999999999999999999' \
        "addr $code 10.0.0.9/$code" "ofi $PWD" 'name ../*' >"$HOSTS/b/noise"
    printf 'a\nb\n' >open
    for h in a b; do rdma $h efa_0 efa ACTIVE Unspecified; done
    run timeout 60 "$run_sh" --dry-run -hostfile open --ports 20000-20999 -- train
    echo "$output"
    [ "$status" -eq 0 ]
    [ ! -e "$HOSTS/PWN" ]
    has "slots of a b: $cores, one per core" "-H a:$cores,b:$cores " "b: aws-ofi-nccl was not found"
    [[ "$output" != *"-x LD_LIBRARY_PATH"* ]]
    # CPUs near a GPU.
    unset DPTRAIN_BIND
    printf '%s\n' "gpu 0000:3b:00.0 0-$code" >"$HOSTS/b/noise"
    mkdir -p "$HOSTS/a/sys/bus/pci/devices/0000:3b:00.0"
    echo 0-7 >"$HOSTS/a/sys/bus/pci/devices/0000:3b:00.0/local_cpulist"
    printf '#!/bin/sh\necho 00000000:3B:00.0\n' >"$HOSTS/a/bin/nvidia-smi"
    chmod +x "$HOSTS/a/bin/nvidia-smi"
    line -H a:1,b:1
    [ "$status" -eq 0 ]
    [[ ! -e $HOSTS/PWN && "$output" != *DPTRAIN_CPUS* ]]
    # The last phases of killed ranks.
    printf '%s\n' "phase $code x" 'phase 1 computing' >"$HOSTS/b/noise"
    stand_in mpirun <<<'echo started; echo "dptrain: error: timed out; check the other hosts (rank 0 on a)" >&2; exit 5'
    run "$run_sh" -H a:1,b:1
    echo "$output"
    [ "$status" -eq 5 ]
    has "rank 1 on b had not ended"
    [ ! -e "$HOSTS/PWN" ]
    DPTRAIN_ASK_SECONDS=$code line -H a:1
    [[ "$status" -eq 2 && ! -e $HOSTS/PWN ]]
    has "invalid DPTRAIN_ASK_SECONDS"
}

@test "hosts whose names are alike up to the first dot: mpirun is told to use all of them" {
    local h n=10
    for h in n.alpha n.beta n.gamma n m.alpha 10.0.0.7; do
        n=$((n + 1))
        host $h eth0=10.0.0.$n/24
    done
    line -H n.alpha:1,a:1,n.beta:1,n.gamma:1
    [ "$status" -eq 0 ]
    has "--mca orte_keep_fqdn_hostnames 1 " "-np 4 -H n.alpha:1,a:1,n.beta:1,n.gamma:1 "
    line -H n:1,n.beta:1
    has "--mca orte_keep_fqdn_hostnames 1 "
    FAKE_MPI=5.0.6 line -H n.alpha:1,n.beta:1
    has "--prtemca prte_keep_fqdn_hostnames 1 "
    line -H n.alpha:1,n.beta:1 --no-checks --interface eth0 --transport tcp
    has "--mca orte_keep_fqdn_hostnames 1 "
    # The user's value replaces it.
    line -H n.alpha:1,n.beta:1 --mca orte_keep_fqdn_hostnames 0
    has "--mca orte_keep_fqdn_hostnames 0 "
    [ "$(grep -o keep_fqdn <<<"${lines[-1]}" | wc -l)" -eq 1 ]
    # Names that differ before the dot, and addresses.
    mv "$HOSTS/a" "$HOSTS/10.0.0.1"
    for h in n.alpha:1,m.alpha:1 n.alpha:1,b:1 10.0.0.1:1,10.0.0.7:1; do
        line -H $h
        [[ "$status" -eq 0 && "$output" != *keep_fqdn* ]]
    done
}

@test "a login shell that cannot start mpirun's daemon is named, with its host" {
    export SHELL_OF
    printf '#!/bin/sh\n[ "$1" = passwd ] && echo "me:x:1:1:Me:/home/me:$SHELL_OF"\n' >"$HOSTS/b/bin/getent"
    chmod +x "$HOSTS/b/bin/getent"
    for SHELL_OF in /usr/bin/fish /opt/nu; do
        run "$run_sh" -H a:1,b:1
        echo "$output"
        [ "$status" -eq 4 ]
        has "b: its login shell $SHELL_OF "
        [[ "$output" != *"a: "* && ! -e $HOSTS/mpirun.words ]]
    done
    for SHELL_OF in /bin/zsh /usr/bin/tcsh /bin/bash ''; do
        line -H a:1,b:1
        [ "$status" -eq 0 ]
    done
    # No daemon is started on this machine.
    SHELL_OF=/usr/bin/fish
    cp "$HOSTS/b/bin/getent" "$bin"
    DPTRAIN_SYSFS=$HOSTS/a/sys FAKE_HOST=a line -H "$(uname -n):1"
    [ "$status" -eq 0 ]
}

@test "one host under two names: both are named, and nothing starts" {
    stand_in hostname <<<'echo "${SAME:-$FAKE_HOST}"'
    host c eth0=10.0.0.3/24
    SAME=node7 run "$run_sh" -H a:1,b:1
    echo "$output"
    [ "$status" -eq 2 ]
    has "a and b are one host, node7"
    [ ! -e "$HOSTS/mpirun.words" ]
    stand_in hostname <<<'echo "${FAKE_HOST/c/a}"'
    line -H a:1,b:1,c:1
    [ "$status" -eq 2 ]
    has "a and c are one host, a"
    # Hosts may have one name, as containers do.
    printf '#!/bin/sh\n[ "$1" = /proc/self/ns/net ] && echo "net:[$FAKE_HOST]1" && exit\nexec /usr/bin/readlink "$@"\n' >"$HOSTS/a/bin/readlink"
    sed 's/\]1/]2/' "$HOSTS/a/bin/readlink" >"$HOSTS/c/bin/readlink"
    chmod +x "$HOSTS"/?/bin/readlink
    line -H a:1,b:1,c:1
    [ "$status" -eq 0 ]
}

@test "one host under two names is also found when a supervised job gathers its hosts" {
    stand_in hostname <<<'echo node7'
    stand_in dptrain <<<'[[ "$*" != *--print-config ]] || printf "%s\n" "model = mlp" "resume = none" "out = $HOSTS/out"'
    for words in "-H a:1,b:1" "--hosts-command echo\ a:1,b:1" "-H a:1,b:1 --min-ranks 1 --wait-hosts 1"; do
        eval "words=($words)"
        run "$run_sh" "${words[@]}" --restarts 1
        echo "$output"
        [ "$status" -eq 2 ]
        has "a and b are one host, node7"
        [ ! -e "$HOSTS/mpirun.words" ]
    done
}

@test "after a fault, hosts that need an ssh configuration are reached, also if the temporary folder is cleaned" {
    export TMPDIR=$BATS_TEST_TMPDIR/tmp CLEAN
    mkdir "$TMPDIR"
    sed -i '2i [[ $1 != -F || -e $2 ]] || { echo "Can'"'"'t open user config file $2" >\&2; exit 255; }' "$bin/ssh"
    printf '%s\n' 'nodes: [{address: a, chief: true, port: 2200, ssh_config: one}, {address: b, ssh_config: one}]' 'ssh: {one: {username: me}}' >hosts.yaml
    stand_in mpirun <<<'[[ $1 != --version ]] || exit 0
        echo started; eval "$CLEAN"; echo "dptrain: error: timed out (rank 1 on b)" >&2; exit 5'
    for CLEAN in : 'rm -r "$TMPDIR"/dptrain-run.*'; do
        rm -f "$HOSTS/ssh.log"
        run timeout 60 "$run_sh" -hostfile hosts.yaml
        echo "$output"
        [ "$status" -eq 5 ]
        has "timed out (rank 1 on b)"
        [[ "$output" != *"could not be reached"* ]]
        # The probe, and the cleaning up.
        [ "$(wc -l <"$HOSTS/ssh.log")" -eq 4 ]
        [ -z "$(ls "$TMPDIR")" ]
    done
}

@test "a hostile host ends the job with its name, in time, and its words reach nobody as they are" {
    local body bodies
    export DPTRAIN_ASK_SECONDS=2 CODE='`>"$HOSTS/PWN"`$(>"$HOSTS/PWN");>"$HOSTS/PWN"'
    # Of the host b, another program answers.
    sed -i 's/^ *eval "$command"/[[ ! -e $HOSTS\/$host\/answers ]] || . "$HOSTS\/$host\/answers"; &/' "$bin/ssh"
    bodies=(
        # A complete answer with escape sequences and code, and the same on standard error.
        'all() { printf "%s\n" "name $CODE" "machine $CODE" "program $CODE" "wdir ok" "orted yes" \
            $'\''shell /bin/\e[31m$(>"$HOSTS/PWN")\a'\'' $'\''full \e]0;title\a\e[2J'\''"$CODE" end; }; all; all >&2; exit 0'
        $'printf \'\\e[2J\\r\\x9b31m%s\\n\' "$CODE" >&2; exit 1'
        'exec yes'
        'exec yes $'\''\e[31mno end'\'' >&2'
        'exec yes "cores 5"'
        'exec sleep 100'
        'exit 0'
        'head -c 10000000 /dev/zero | tr "\0" "\033" >&2; exit 255'
        'trap "" TERM; while :; do sleep 1; done')
    for body in "${bodies[@]}"; do
        echo "$body" >"$HOSTS/b/answers"
        SECONDS=0
        run timeout 30 "$run_sh" -H a:1,b:1
        echo "$body: $SECONDS s: ${output:0:2000}"
        [ "$status" -eq 4 ]
        has "b: " " of 2 hosts cannot take part"
        ((SECONDS <= 25 && ${#output} < 4000))
        ! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' <<<"$output" || return 1
        [[ ! -e $HOSTS/PWN && ! -e $HOSTS/mpirun.words ]]
    done
    # After a fault.
    cat >"$HOSTS/b/answers" <<<'script=$(cat); [[ $script == *"sweep "*exit* ]] || exec bash -s <<<"$script"
        printf "swept \e[2J%s\nphase 1 \e[31m%s\nend\n" "$CODE" "$CODE"; exit 0'
    stand_in mpirun <<<'[[ $1 != --version ]] || exit 0
        echo started; rule=$(printf %074d 0 | tr 0 -)
        printf "%s\n" "$rule" "process rank 1 with PID 7 on node b exited on signal 9 (Killed)." "$rule" >&2; exit 137'
    run timeout 60 "$run_sh" -H a:1,b:1
    echo "$output"
    [ "$status" -eq 5 ]
    has "b: cleaned up after the job: ?[2J" "rank 1 on b was killed by signal 9" 'in "?[31m'
    ! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' <<<"$output" || return 1
    [ ! -e "$HOSTS/PWN" ]
}

@test "--config: options from a file, and the command line wins" {
    printf '%s\n' '# a job' 'np = 3' 'mca = pml cm' 'x = FROM=file' 'log-dir = logs' >job.conf
    line --config job.conf -- train
    [ "$status" -eq 0 ]
    has "-np 3 " "--mca pml cm " "-x DPTRAIN_LOG_DIR "
    line --config job.conf -np 2 --mca pml ob1 -- train
    [ "$status" -eq 0 ]
    has "-np 2 " "--mca pml ob1 "
    [[ "$output" != *"pml cm"* ]]
    printf 'host = a:1,b:1\nnum-gpus = 2\ntransport = tcp\n' >hosts.conf
    line --config hosts.conf
    has "-np 4 -H a:2,b:2 " "transport tcp: set by --transport"
    line --config hosts.conf -H b:3 --num-gpus 1
    has "-np 1 -H b:1 "
    printf '%s\n' 'np = 2' '' 'nq = 3' >bad.conf
    line --config bad.conf
    [ "$status" -eq 2 ]
    has "bad.conf, line 3: " --nq
    printf '%s\n' 'np = two' >bad.conf
    line --config bad.conf
    [ "$status" -eq 2 ]
    has "bad.conf, line 1: " np two
    line --config no.conf
    [ "$status" -ne 0 ]
    has no.conf
}

@test "on this machine alone there is a rank per GPU, or per core if the job does not use GPUs" {
    cores=$(bash -c '. "$1/scripts/lib.sh"; allowed_cores' _ "$root")
    stand_in nvidia-smi <<<'printf "GPU %d: one\n" 0 1 2'
    line -- train
    [ "$status" -eq 0 ]
    has "3 ranks, one per GPU" " -np 3 "
    CUDA_VISIBLE_DEVICES=1 line -- train
    has "1 rank, one per GPU" " -np 1 "
    line -np 2 -- train
    has " -np 2 "
    for words in "train --device cpu" "train --device=ref" "data pack"; do
        # shellcheck disable=SC2086 # these are words
        line -- $words
        has " -np $cores "
        [[ "$output" != *GPU* ]]
    done
    # Empty and -1 hide all GPUs.
    for visible in '' -1; do
        CUDA_VISIBLE_DEVICES=$visible line -- train
        has " -np $cores "
    done
    stand_in nvidia-smi <<<'exit 9'
    line -- train
    has " -np $cores "
}

@test "what looks like an option is a setting's value, unless it is an option" {
    line -np 1 --mca plm_rsh_args '-p 2222' -- train
    [ "$status" -eq 0 ]
    has "--mca plm_rsh_args '-p 2222'"
    line -np 1 --mca pml --dry-run -- train
    [ "$status" -eq 2 ]
    has "--mca pml: its value is missing"
}

@test "a host whose name resolves to this machine is not reached by ssh" {
    host head.here eth0=10.0.0.9/24
    # As Debian's /etc/hosts has it.
    stand_in getent <<<'for name; do [[ $name != head.here ]] || echo "127.0.1.1  STREAM head"; [[ $name != [ab] ]] || echo "10.9.9.9  STREAM"; done'
    cp -r "$HOSTS/head.here" "$HOSTS/none" # what ip prints here
    line -H a:1,head.here:1,b:1
    [ "$status" -eq 0 ]
    has "-np 1 -H a:1 " "-H head.here:1,b:1 "
    ! grep -q head.here "$HOSTS/ssh.log" || return 1
    [ "$(wc -l <"$HOSTS/ssh.log")" -eq 2 ]
}

@test "without sha256sum no host is blamed" {
    stand_in sha256sum <<<'[[ $# -eq 0 ]] || exit 1; cat >/dev/null; echo "00  -"'
    line -H a:1,b:1
    [ "$status" -eq 4 ]
    has "sha256sum ended with code 1"
    [[ "$output" != *differs* ]]
}

@test "ranks are bound near GPUs only where it is known which they take" {
    for h in a b; do
        printf '#!/bin/sh\ncase $1 in -L) echo "GPU 0: one" ;; *) echo 00000000:3B:00.0 ;; esac\n' >"$HOSTS/$h/bin/nvidia-smi"
        chmod +x "$HOSTS/$h/bin/nvidia-smi"
        mkdir -p "$HOSTS/$h/sys/bus/pci/devices/0000:3b:00.0"
        echo 0-7 >"$HOSTS/$h/sys/bus/pci/devices/0000:3b:00.0/local_cpulist"
    done
    unset DPTRAIN_BIND CUDA_VISIBLE_DEVICES
    line -H a:1,b:1 -- train
    has "ranks are bound near their GPUs: 0-7"
    for words in "train --device cpu" "train --gpus 1"; do
        # shellcheck disable=SC2086 # these are words
        line -H a:1,b:1 -- $words
        [[ "$status" -eq 0 && "$output" != *"bound near"* ]]
    done
    CUDA_VISIBLE_DEVICES=1 line -H a:1,b:1 -- train
    [[ "$status" -eq 0 && "$output" != *"bound near"* ]]
}

@test "host.sh looks for mpirun in a bundle also where it only checks" {
    mkdir -p bundle/bin job
    printf '#!/bin/sh\necho "mpirun (Open MPI) 4.1.9"\n' >bundle/bin/mpirun
    chmod +x bundle/bin/mpirun
    run bash -c '. "$1"; fleet yes "job " "" /bin/true "$PWD/job" "$PWD/bundle" "" out ""' _ "$root/src/launch/host.sh"
    echo "$output"
    [[ "$output" == *"same OpenMPI mpirun (Open MPI) 4.1.9"* ]]
}

@test "an empty value, as of a variable that is not set, is refused; network options without a network are named" {
    for option in --hostfile --host --hosts-command --chief --wdir --interface --ports --env-file --bind-to --log-dir; do
        line "$option" '' -- train
        echo "$option: $output"
        [ "$status" -eq 2 ]
        has "''"
    done
    printf '%s\n' 'hostfile =' >empty.conf
    line --config empty.conf
    [ "$status" -eq 2 ]
    for option in --exclude --include --mpi-args; do
        line "$option" '' -- train
        [ "$status" -eq 0 ]
    done
    for words in "--interface eth0" "--transport tcp"; do
        # shellcheck disable=SC2086 # these are words
        line -np 2 $words
        [ "$status" -eq 0 ]
        has "${words% *} has no effect"
    done
}

# The words of mpirun in a dry run and at a start are equal, but for what a start alone needs: the file that names its daemons, the
# job's id, and the file that says what the user sent. OpenMPI 4 starts without -q, since its messages name lost ranks.
as_printed() { # ARGUMENTS...
    local i dry start=() words
    rm -f "$HOSTS/mpirun.words"
    line "$@"
    [[ "$status" -eq 0 && ! -e $HOSTS/mpirun.words ]]
    eval "dry=(${lines[-1]})"
    run "$run_sh" "$@"
    [ "$status" -eq 0 ]
    mapfile -d '' words <"$HOSTS/mpirun.words"
    for ((i = 0; i < ${#words[@]}; i++)); do
        case ${words[i]}:${words[i + 1]:-} in --report-uri:* | -x:DPTRAIN_JOB=* | -x:DPTRAIN_ASKED) i=$((i + 1)) ;; *) start+=("${words[i]}") ;; esac
    done
    [ "${dry[0]}" = mpirun ]
    # The folder for temporary files has another name each time.
    diff <(printf '%s\n' "${dry[@]:1}" | sed 's/dptrain-run\.[^/]*/WORK/') <(printf '%s\n' "${start[@]}" | sed 's/dptrain-run\.[^/]*/WORK/')
}

@test "a dry run prints the command that a start uses" {
    stand_in mpirun <<<'if [[ $1 == --version ]]; then echo "mpirun (Open MPI) ${FAKE_MPI:-4.1.4}"; exit; fi
        printf "%s\0" "$@" >"$HOSTS/mpirun.words"; echo started'
    printf 'MINE=a  b\n' >mine.env
    printf '%s\n' 'nodes:' '- {address: a, gpus: [0, 2], chief: true, port: 2200, ssh_config: one}' '- {address: b, gpus: 2, ssh_config: two}' 'ssh:' \
        '  one: {shared_envs: {B: "a b;\"c"}}' '  two: {setup: ". /opt/venv; x=$y"}' >hosts.yaml
    for FAKE_MPI in 4.1.4 5.0.6; do
        export FAKE_MPI
        as_printed -np 2 -- train --out $'a b\'c"\n\t$d\\ ~*' --name '' '#x' '~' 'x=~'
        as_printed -H a:2,b:1 --ports 20000-20999 --mca coll '^hcoll,x y' --log-dir logs -- train
        as_printed -hostfile hosts.yaml --env-file mine.env -x Q='it'"'"'s' --report-bindings -- bench comm
    done
}

@test "ssh: setup_ssh.sh's configuration if it covers the hosts, otherwise port, user and key of their description" {
    printf '%s\n' 'nodes: [{address: a, chief: true, port: 2200, ssh_config: one}, {address: b, ssh_config: two}]' \
        'ssh: {one: {username: me}, two: {key_file: /keys/b}}' >hosts.yaml
    # What is temporary is gone when the job ends.
    stand_in_with_config
    line -hostfile hosts.yaml --ssh-port 2222
    has "plm_rsh_args '-F "
    grep -A 1 '^Host a$' "$HOSTS/config" | grep 'Port 2200'
    grep -A 1 '^Host b$' "$HOSTS/config" | grep 'Port 2222'
    line -hostfile hosts.yaml
    has "plm_rsh_args '-F " "--mca plm_rsh_no_tree_spawn 1" "-np 2 -H a:1,b:1 "
    grep -A 2 '^Host a$' "$HOSTS/config" | tr -s '\n ' ' ' | grep -F 'Host a Port 2200 User me'
    grep -A 1 '^Host b$' "$HOSTS/config" | grep -F 'IdentityFile "/keys/b"'
    mkdir "$HOME/.ssh"
    printf 'Host a\n  Port 1\nHost b x\n' >"$HOME/.ssh/dptrain_config"
    line -hostfile hosts.yaml
    has "plm_rsh_args '-F $HOME/.ssh/dptrain_config -o"
    [[ "$output" != *no_tree_spawn* ]]
    grep -q -- "-F $HOME/.ssh/dptrain_config .* b bash -s" "$HOSTS/ssh.log"
    host c eth0=10.0.0.3/24
    line -H a:1,c:1
    [[ "$output" != *dptrain_config* ]]
}

@test "an IPv6 address gets an alias for mpirun, which the ssh configuration resolves" {
    host ip6-fd77--2 eth0=10.0.0.5/24
    stand_in_with_config
    printf '%s\n' 'nodes: [{address: a, chief: true, ssh_config: all}, {address: "fd77::2", port: 2200, ssh_config: all}]' 'ssh: {all: {}}' >hosts.yaml
    line -hostfile hosts.yaml
    [ "$status" -eq 0 ]
    has "-np 2 -H a:1,ip6-fd77--2:1 " "--mca plm_rsh_no_tree_spawn 1"
    grep -A2 'Host ip6-fd77--2$' "$HOSTS/config" | tr -s '\n ' ' ' | grep -F 'HostName "fd77::2" Port 2200'
    mkdir "$HOME/.ssh"
    printf 'Host a\nHost fd77::2 ip6-fd77--2\n  HostName fd77::2\n' >"$HOME/.ssh/dptrain_config"
    line -hostfile hosts.yaml
    has "plm_rsh_args '-F $HOME/.ssh/dptrain_config -o" "-H a:1,ip6-fd77--2:1 "
}

# A job whose single rank, or whose N ranks, print their environment: what reaches it, and what mpirun's command line shows.
job_that_prints() {
    stand_in mpirun <<<'if [[ $1 == --version ]]; then echo "mpirun (Open MPI) ${FAKE_MPI:-4.1.4}"; exit; fi
        printf "%s\n" "$@" >"$HOSTS/mpirun.words"
        # One part; -x NAME=VALUE sets, the program begins after -np N or -H LIST.
        while [[ $1 != -np ]]; do [[ $1 != -x || $2 != *=* ]] || export "$2"; shift; done
        shift 2; [[ $1 != -H ]] || shift 2
        exec "$@"'
    stand_in dptrain <<<'env'
}

@test "the environment: known prefixes and files, later ones win, no secrets" {
    printf 'FROM=home\nSAME=home\n' >"$HOME/.dptrain_env"
    printf '# here\n\nSAME=here\r\n' >.dptrain_env
    printf 'WITH=a  b;c,d $x "y\nNCCL_DEBUG=WARN\nAWS_SECRET_ACCESS_KEY=1\n' >mine.env
    chmod 644 .dptrain_env
    export NCCL_DEBUG=INFO UCX_TLS=rc FI_LOG_LEVEL=1 UCX_IB_PKEY=3 NCCL_TOKEN=abc OTHER=1 NCCL_APPKEY=abc
    line -np 1 --env-file mine.env
    [ "$status" -eq 0 ]
    has "-x UCX_TLS" "-x FI_LOG_LEVEL" "-x UCX_IB_PKEY" "variables from files, values not shown: FROM SAME WITH NCCL_DEBUG" \
        "NCCL_TOKEN is not passed on" "NCCL_APPKEY is not passed on" "mine.env, line 3: AWS_SECRET_ACCESS_KEY is not passed on" "reading $PWD/.dptrain_env"
    [[ "$output" != *"-x NCCL_TOKEN"* && "$output" != *"-x AWS"* && "$output" != *OTHER* && "$output" != *"-x NCCL_DEBUG "* ]]
    job_that_prints
    run "$run_sh" -np 1 --env-file mine.env
    echo "$output"
    [ "$status" -eq 0 ]
    has $'\nFROM=home\n' $'\nSAME=here\n' $'\nWITH=a  b;c,d $x "y\n' $'\nNCCL_DEBUG=WARN\n' $'\nUCX_TLS=rc\n'
    [[ "$output" != *DPTRAIN_ENV_* ]]
    # No value from a file is in the command line.
    run grep -E 'home$|here|WARN|c,d' "$HOSTS/mpirun.words"
    [ "$status" -eq 1 ]
    printf 'A=1\nexport B=2\n' >bad.env
    line -np 1 --env-file bad.env
    [ "$status" -eq 2 ]
    has "bad.env, line 2: expected NAME=VALUE, not: export B=2"
    line -np 1 --env-file no.env
    [ "$status" -eq 2 ]
}

@test "-x: the value here or another one, before files; never a secret" {
    printf 'SAME=file\n' >mine.env
    export HERE='a b' NCCL_DEBUG=INFO
    job_that_prints
    run "$run_sh" -np 1 --env-file mine.env -x HERE -x SAME=x -x NCCL_DEBUG=WARN -x NOT_SET -x MY_TOKEN=1 -x 'Q=it'"'"'s "q"'
    echo "$output"
    [ "$status" -eq 0 ]
    has $'\nHERE=a b\n' $'\nSAME=x\n' $'\nNCCL_DEBUG=WARN\n' $'\nQ=it\'s "q"\n' "-x NOT_SET: it is not set here" \
        "-x MY_TOKEN is not passed on"
    [[ "$output" != *MY_TOKEN=* ]]
    line -x 1=2
    [ "$status" -eq 2 ]
    has "invalid -x '1=2': expected NAME or NAME=VALUE"
}

@test "LD_LIBRARY_PATH, OMP_ and CUDA_ variables reach all hosts, CUDA_VISIBLE_DEVICES only by -x" {
    export LD_LIBRARY_PATH=/opt/lib OMP_NUM_THREADS=3 CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0,1
    line -H a:2,b:2
    has "-x LD_LIBRARY_PATH" "-x OMP_NUM_THREADS" "-x CUDA_DEVICE_ORDER" "CUDA_VISIBLE_DEVICES is passed to no other host"
    [[ "${lines[-1]}" == mpirun*"-x OMP_NUM_THREADS"* && "${lines[-1]}" != *CUDA_VISIBLE_DEVICES* ]]
    line -H a:2,b:2 -x CUDA_VISIBLE_DEVICES
    [[ "$output" != *"is passed to no other host"* ]]
    job_that_prints
    run "$run_sh" -np 1 -x CUDA_VISIBLE_DEVICES=2
    echo "$output"
    has $'\nCUDA_VISIBLE_DEVICES=2\n'
}

@test "mpirun's flags: --mca, --bind-to, --map-by and --mpi-args replace what run.sh chooses" {
    line -H a:2,b:2 --mca btl_tcp_if_include eth1 -mca pml ^ucx -bind-to none -map-by slot
    [ "$status" -eq 0 ]
    has "--mca btl_tcp_if_include eth1" "--mca pml '^ucx'" "--bind-to none --map-by slot"
    [[ "$output" != *"btl_tcp_if_include 10.0"* && "$output" != *"pml ob1"* ]]
    [ "$(grep -o -- --bind-to <<<"$output" | wc -l)" -eq 1 ]
    line -H a:2,b:2 --mpi-args '-x FOO=1 --mca coll "^hcoll,x y" --tag-output'
    has "--mca coll '^hcoll,x y' --tag-output" "-x DPTRAIN_ENV_"
    line --mpi-args='--bind-to core'
    has "--bind-to core"
    line --mpi-args '-np 4'
    [ "$status" -eq 2 ]
    has "--mpi-args: write -np outside of it"
    line --mpi-args 'a "b'
    [ "$status" -eq 2 ]
    line --mca pml
    [ "$status" -eq 2 ]
    has "--mca needs a name and a value"
    run "$run_sh" --mca btl --dry-run train
    [ "$status" -eq 2 ]
    has "--mca btl: its value is missing (found '--dry-run')"
    line --mca mpi_preconnect -1 -np 2 --allow-run-as-root --oversubscribe -q
    [ "$status" -eq 0 ]
    has "--mca mpi_preconnect -1"
}

@test "the working folder must be there on this machine, too" {
    line --wdir "$BATS_TEST_TMPDIR/nowhere" -np 2
    [ "$status" -eq 4 ]
    has "no working folder $BATS_TEST_TMPDIR/nowhere: create it, mount it, or choose another by --wdir"
    : >file
    line --wdir "$PWD/file" -np 2
    [ "$status" -eq 4 ]
}

@test "in an allocation of PBS or LSF: on its hosts" {
    printf 'a\na\nb\n' >nodes
    PBS_NODEFILE=$PWD/nodes line train
    has "the hosts are those of this allocation: $PWD/nodes" "-np 3 -H a:2,b:1 "
    LSB_DJOB_HOSTFILE=$PWD/nodes line --num-gpus 4 train
    has "-np 8 -H a:4,b:4 "
    PBS_NODEFILE=$PWD/nodes line -H b:2 train
    has "-np 2 -H b:2 "
}

@test "the spellings of other launchers, and what to write instead of their options" {
    local words
    printf 'a slots=4\nb slots=4\n' >hostfile
    for words in "-np 8 -hostfile" "--np 8 --hostfile" "--np=8 -machinefile" "-n 8 --machinefile" "-f"; do
        # shellcheck disable=SC2086 # these are words
        line $words hostfile
        has "-np 8 -H a:4,b:4 "
    done
    line -machinefile hostfile -N 2
    has "-np 4 -H a:2,b:2 "
    # One host: this one.
    line -N 3
    has " -np 3 $DPTRAIN_BIN"
    line -np 64 -N 8
    [ "$status" -eq 2 ]
    has "64 ranks, 8 on each host: that needs 8 hosts; give them by -hostfile or -H"
    # The first commands on Horovod's and torchrun's pages.
    line -np 4 -H localhost:4 train
    [ "$status" -eq 0 ]
    has "-np 4 -H localhost:4 $DPTRAIN_BIN train"
    line -np 4 -H a:2,b:2 -bind-to none -map-by slot -x NCCL_DEBUG=INFO -x LD_LIBRARY_PATH -x PATH -mca pml ob1 -mca btl ^openib train
    [ "$status" -eq 0 ]
    has "--bind-to none --map-by slot --mca pml ob1 --mca btl '^openib'" "-np 4 -H a:2,b:2 "
    line --standalone --nnodes=1 --nproc-per-node=4 train
    has " -np 4 $DPTRAIN_BIN train"
    typed() { # PROGRAM WORDS...
        run "$run_sh" "$1" --dry-run "${@:2}"
        echo "$status: $output"
    }
    typed torchrun --standalone --nnodes=1 --nproc-per-node=4 train
    has " -np 4 $DPTRAIN_BIN train"
    typed horovodrun -np 4 -H localhost:4 train
    has "-np 4 -H localhost:4 $DPTRAIN_BIN train"
    line --nnodes=2 --nproc_per_node=3 --max-restarts=3 -hostfile hostfile train
    has "-np 6 -H a:3,b:3 "
    line --nnodes 3 --nproc-per-node 2 -hostfile hostfile train
    [ "$status" -eq 2 ]
    has "--nnodes 3, but 2 hosts: write the hosts by -H or -hostfile"
    # As typed: the program is the difference.
    for words in "horovodrun -np 4 -H localhost:4 python train.py" \
        "torchrun --standalone --nnodes=1 --nproc-per-node=4 YOUR_TRAINING_SCRIPT.py --arg1" \
        "mpirun -np 4 -H localhost:4 python3 train.py" "mpirun -np 4 ./train.sh"; do
        # shellcheck disable=SC2086 # these are words
        typed $words
        [ "$status" -eq 2 ]
        has "dptrain is the program, not " ": write $run_sh --dry-run " " -- train "
        [ "${#lines[@]}" -eq 1 ]
    done
    for words in "--nnodes=1:4|--restarts" "--rdzv-backend=c10d|omit it" "--host-discovery-script x|write --hosts-command CMD" \
        "--min-np 2|write --min-ranks M" "--gloo|omit it" "--ntasks-per-node=2|write --num-gpus N" "--master_port=1|omit it"; do
        # shellcheck disable=SC2086 # these are words
        line ${words%|*} train
        [ "$status" -eq 2 ]
        has "another launcher's: " "${words#*|}"
        [ "${#lines[@]}" -eq 1 ]
    done
    for words in "--ntasks=4|-np N" "--ntasks-per-node=2|--num-gpus N" "-ppn 4|--num-gpus N" "-hosts a,b|-H LIST" \
        "-genv A B|-x NAME=VALUE" "--display-map|--mpi-args"; do
        # shellcheck disable=SC2086 # these are words
        line ${words%|*} train
        [ "$status" -eq 2 ]
        has "another launcher's: write ${words#*|}"
    done
    typed srun -n 4 --mpi=pmix train
    [ "$status" -eq 2 ]
    has "srun is another launcher's: write $run_sh -np 4 -- train" "in an allocation, --launcher srun"
    [ "${#lines[@]}" -eq 1 ]
    # Behind run.sh's own options, and behind --.
    for words in "horovodrun -np 3" "torchrun --nproc_per_node 3" "deepspeed --num_gpus=3" "mpirun -np 3 dptrain" "mpiexec -n 3" \
        "accelerate launch --multi_gpu --num_processes 3" "python3 -m torch.distributed.run --nproc-per-node=3" "/opt/bin/mpirun -n 3"; do
        for before in "" "--"; do
            # shellcheck disable=SC2086 # these are words
            line $before $words train --epochs 1
            [ "$status" -eq 0 ]
            has " -np 3 $DPTRAIN_BIN train --epochs 1"
        done
    done
    line -- horovodrun -np 3 -x MINE=secret python train.py
    [ "$status" -eq 2 ]
    has "python train.py" "write $run_sh --dry-run -np 3 -x MINE -- train"
    for words in "srun -N 2 --ntasks-per-node=4 train|--num-gpus 4 -- train" "srun -n4 --mpi pmix dptrain train|-np 4 -- train" \
        "jsrun -n 4 train|-np N -- train" "accelerate test|-np N -- train"; do
        # shellcheck disable=SC2086 # these are words
        line -- ${words%|*}
        [ "$status" -eq 2 ]
        has "write $run_sh --dry-run ${words#*|}"
        [ "${#lines[@]}" -eq 1 ]
    done
    line accelerate launch --mixed_precision bf16 train
    [ "$status" -eq 2 ]
    has "--mixed_precision is another launcher's: write --precision bf16"
    # The program's name, as behind mpirun.
    for words in dptrain ./dptrain /opt/bin/dptrain; do
        typed mpirun -np 2 "$words" train --epochs 1
        has " -np 2 $DPTRAIN_BIN train --epochs 1"
    done
}

@test "no value of an environment file is in a process list while a job runs" {
    rm "$bin/mpirun"
    command -v mpirun >/dev/null || skip "mpirun is not here"
    printf 'MINE=not-for-everybody\n' >mine.env
    # Fixed strings from a file: no argument of grep has the value.
    stand_in dptrain <<<'echo "rank has $MINE"; printf %s "$MINE" >"value.$$"
        grep -slFf "value.$$" /proc/[0-9]*/cmdline && echo "SEEN"; exit 0'
    run "$run_sh" -np 2 --env-file mine.env
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(grep -c 'rank has not-for-everybody' <<<"$output")" -eq 2 ]
    [[ "$output" != *SEEN* ]]
}

@test "a job holds the folder of OpenMPI's sessions, and leaves nothing in it" {
    export TMPDIR=$BATS_TEST_TMPDIR
    local sessions
    sessions=$TMPDIR/ompi.$(uname -n | cut -d . -f 1).$(id -u)
    stand_in mpirun <<<'if [[ $1 == --version ]]; then echo "mpirun (Open MPI) 4.1.4"; exit; fi
        ls "$SESSIONS"'
    SESSIONS=$sessions run "$run_sh" -np 1
    echo "$output"
    [[ $output == *dptrain.[0-9]* ]]
    [ -z "$(ls "$sessions")" ]
}

@test "names that suggest secrets, also by a pattern of the user" {
    export NCCL_PASS=1 UCX_PWD=2 FI_AUTH_X=3 DPTRAIN_ACCESS=4 NCCL_PRIVATE=5 UCX_MY_pin=6 FI_LOG_LEVEL=7
    DPTRAIN_SECRET_PATTERN='_PIN$' line -np 1
    for name in NCCL_PASS UCX_PWD FI_AUTH_X DPTRAIN_ACCESS NCCL_PRIVATE UCX_MY_pin; do
        has "$name is not passed on"
        [[ "$output" != *"-x $name"* ]]
    done
    has "-x FI_LOG_LEVEL"
    [[ "$output" != *DPTRAIN_SECRET_PATTERN* ]]
    DPTRAIN_SECRET_PATTERN='(' line -np 1
    [ "$status" -eq 2 ]
    has "invalid DPTRAIN_SECRET_PATTERN '('"
}

@test "the current folder's .dptrain_env is read only if nobody else can write it, and never sets what loads code" {
    local name n=1 names=(LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH PATH BASH_ENV ENV SHELLOPTS PS4 IFS HOME PYTHONSTARTUP PYTHONPATH GCONV_PATH PERL5OPT
        OMPI_MCA_mca_base_component_path OMPI_MCA_mca_base_param_files OMPI_MCA_orte_launch_agent PMIX_MCA_pmix_lib_path PRTE_MCA_prte_base_path
        OPAL_PREFIX HWLOC_PLUGINS_PATH NCCL_NET_PLUGIN UCX_MODULE_DIR CUDA_INJECTION64_PATH OMP_TOOL_LIBRARIES OMPI_COMM_WORLD_LOCAL_RANK)
    printf '%s=/no/such.so\n' FROM "${names[@]}" OMPI_MCA_btl >.dptrain_env
    chmod 644 .dptrain_env
    line -np 1
    [ "$status" -eq 0 ]
    has "reading $PWD/.dptrain_env" "values not shown: FROM OMPI_MCA_btl"$'\n'
    for name in "${names[@]}"; do
        n=$((n + 1))
        has "$PWD/.dptrain_env, line $n: $name is not taken from here"
    done
    # A file that the user names may set them.
    line -np 1 --env-file .dptrain_env
    has "values not shown: FROM ${names[*]} OMPI_MCA_btl"
    for mode in 664 646; do
        chmod $mode .dptrain_env
        line -np 1
        [ "$status" -eq 0 ]
        has "ignoring $PWD/.dptrain_env: others can write it; chmod go-w"
        [[ "$output" != *"values not shown"* && "$output" != *"not taken"* ]]
    done
    chmod 644 .dptrain_env
    [ "$(id -u)" -eq 0 ] || skip "only root can give a file away"
    chown 60000 .dptrain_env
    line -np 1
    has "ignoring $PWD/.dptrain_env: it belongs to another user"
    [[ "$output" != *"values not shown"* ]]
}

@test "shared_envs, env_file, setup and GPUs of a description apply to their host only" {
    printf 'A=1\n' >a.env
    printf '%s\n' 'nodes:' '- {address: a, gpus: [0, 2], chief: true, ssh_config: one}' '- {address: b, gpus: 2, ssh_config: two}' 'ssh:' \
        '  one: {env_file: a.env, shared_envs: {A: 0, B: "a b;\"c", API_KEY: 1}}' '  two: {setup: ". /opt/venv"}' >hosts.yaml
    line -hostfile hosts.yaml
    has '-x CUDA_VISIBLE_DEVICES=0,2 -x DPTRAIN_ENV_0 -np 2 -H a:2 bash -c' "$DPTRAIN_BIN : " "-np 2 -H b:2 bash -c" "opt/venv" \
        "shared_envs: API_KEY is not passed on"
    [[ "$output" != *A=1* && "$output" != *B=* && "$output" != *DPTRAIN_ENV_1* ]]
    # OpenMPI applies settings only to their part, so each part repeats the common ones.
    [ "$(grep -o -- "--wdir $PWD " <<<"$output" | wc -l)" -eq 2 ]
    [ "$(grep -o -- '-x NCCL_NET=Socket ' <<<"$output" | wc -l)" -eq 2 ]
    [[ "$output" != *"CUDA_VISIBLE_DEVICES=0,1"* ]]
    # The file's variables win over shared_envs.
    job_that_prints
    sed '/address: b/d' hosts.yaml >a.yaml
    run "$run_sh" --no-checks --interface eth0 --transport tcp -hostfile a.yaml
    echo "$output"
    has $'\nA=1\n' $'\nB=a b;"c\n' $'\nCUDA_VISIBLE_DEVICES=0,2\n'
}

@test "ranks are bound near their GPUs, if these are known" {
    unset DPTRAIN_BIND
    for h in a b; do
        for bus in 0000:3b:00.0 0000:86:00.0; do mkdir -p "$HOSTS/$h/sys/bus/pci/devices/$bus"; done
        echo 0-7,16-23 >"$HOSTS/$h/sys/bus/pci/devices/0000:3b:00.0/local_cpulist"
        echo 8-15,24-31 >"$HOSTS/$h/sys/bus/pci/devices/0000:86:00.0/local_cpulist"
        printf '#!/bin/sh\nprintf "00000000:3B:00.0\\n00000000:86:00.0\\n"\n' >"$HOSTS/$h/bin/nvidia-smi"
        chmod +x "$HOSTS/$h/bin/nvidia-smi"
    done
    line -H a:2,b:2
    has "'DPTRAIN_CPUS=0-7,16-23;8-15,24-31'" "-x CUDA_DEVICE_ORDER=PCI_BUS_ID" "--bind-to none"
    [[ "$output" != *"--bind-to core"* ]]
    # Two ranks per GPU: each gets half of every range.
    line -H a:4,b:4
    has "'DPTRAIN_CPUS=0-3,16-19;8-11,24-27;4-7,20-23;12-15,28-31'"
    # A host without known GPUs: as without GPUs.
    rm "$HOSTS/b/bin/nvidia-smi"
    line -H a:2,b:2
    [[ "$output" != *DPTRAIN_CPUS* ]]
}

@test "the wrapper binds the rank, reports, and execs the program" {
    unset DPTRAIN_BIND
    stand_in dptrain <<<'sed -n "s/^Cpus_allowed_list:.//p" /proc/self/status; echo "$*"'
    stand_in nvidia-smi <<<'printf "00000000:3B:00.0\n"'
    export DPTRAIN_SYSFS=$HOSTS/sys
    mkdir -p "$DPTRAIN_SYSFS/bus/pci/devices/0000:3b:00.0"
    echo 0-1 >"$DPTRAIN_SYSFS/bus/pci/devices/0000:3b:00.0/local_cpulist"
    # Is the rank.
    stand_in mpirun <<<'[[ $1 != --version ]] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
        while [[ $1 != bash ]]; do shift; done
        DPTRAIN_CPUS="5000;0" OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_RANK=$LOCAL_RANK exec "$@"'
    LOCAL_RANK=1 run "$run_sh" -H localhost:1 --report-bindings train 'a b'
    echo "$output"
    [[ "$status" -eq 0 && "$output" == *"rank 3 on head: CPUs 0"* && "$output" == *$'0\ntrain a b'* ]]
    LOCAL_RANK='cpus[$(>PWN)]' run "$run_sh" -H localhost:1 train
    echo "$output"
    [[ "$status" -eq 4 && ! -e PWN ]]
}

@test "daemons on many hosts are started from here, or through each other if setup_ssh.sh has set up every host" {
    local i list=''
    # Without a name server each of the names would be waited for.
    stand_in getent <<<'exit 2'
    mkdir "$HOME/.ssh"
    for ((i = 1; i <= 70; i++)); do
        list+=,h$i:1
        ((i == 70)) || printf 'Host h%d\n' $i
    done >"$HOME/.ssh/dptrain_config"
    line -H "${list#,}" --no-checks --interface eth0 --transport tcp
    has "--mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_num_concurrent 128"
    echo 'Host h70' >>"$HOME/.ssh/dptrain_config"
    line -H "${list#,}" --no-checks --interface eth0 --transport tcp
    has "plm_rsh_args '-F"
    [[ "$output" != *no_tree_spawn* ]]
}

@test "no more logins at a time than allowed, and all of them" {
    # shellcheck source=scripts/cluster/hosts.sh
    . "$root/scripts/cluster/hosts.sh"
    local work=$BATS_TEST_TMPDIR/each at_once=3
    mkdir "$work"
    one() {
        local now
        touch "$work/now.$1"
        now=("$work"/now.*)
        echo "${#now[@]}" >"$work/count.$1"
        sleep 0.05
        rm "$work/now.$1"
    }
    hosts_each one {1..12}
    [ "$(cat "$work"/count.* | wc -l)" -eq 12 ]
    [ "$(cat "$work"/count.* | sort -n | tail -n 1)" -le 3 ]
}

@test "a single local host needs neither ssh nor a network" {
    line -H localhost:2
    has "-np 2 -H localhost:2"
    [[ "$output" != *if_include* ]]
    [ ! -e "$HOSTS/ssh.log" ]
}

@test "who waits for another program says so" {
    cc -shared -fPIC -o clock.so "$root/tests/attack/wall_clock.c" || skip "cc does not work here"
    DPTRAIN_MONOTONIC=$PWD/sec LD_PRELOAD=$PWD/clock.so line --no-checks --interface eth0 --transport tcp \
        --hosts-command 'echo 6 >"$DPTRAIN_MONOTONIC"; sleep 2; echo a:1,b:1' -- train
    [ "$status" -eq 0 ]
    has "waiting for bash -c echo 6" "for at most 60 s" "-H a:1,b:1 "
}

@test "from a machine outside its hosts: a job that has no rank yet is left alone, and one whose ranks have gone is ended" {
    cc -shared -fPIC -o clock.so "$root/tests/attack/wall_clock.c" || skip "cc does not work here"
    export DPTRAIN_MONOTONIC=$PWD/sec RANKS
    stand_in ssh <<<'host=${*: -2:1}; export FAKE_HOST=$host DPTRAIN_SYSFS=$HOSTS/$host/sys
        script=$(cat; echo x)
        if grep -q "^alive " <<<"$script"; then echo "$host" >>"$HOSTS/asked"; echo "alive $(<"$HOSTS/ranks")"; echo end; exit; fi
        bash -s <<<"${script%x}"'
    # The clock is fast until the hosts have been asked so often, or mpirun is told to end.
    stand_in mpirun <<<'[[ $1 != --version ]] || { echo "mpirun (Open MPI) 4.1.4"; exit; }
        trap "exit 1" TERM
        sec=0
        asked() {
            local i
            for ((i = 0; i < 600; i++)); do
                (($(grep -c "^a$" "$HOSTS/asked") < $1)) || return 0
                echo $((sec += 2)) >"$DPTRAIN_MONOTONIC"
                sleep 0.2
            done
        }
        echo "$RANKS" >"$HOSTS/ranks"; asked 2; echo no >"$HOSTS/ranks"; [[ $RANKS == no ]] || asked 1000; echo started; exit 3'
    for RANKS in no yes; do
        : >"$HOSTS/asked"
        LD_PRELOAD=$PWD/clock.so run timeout 200 "$run_sh" -H a:1,b:1 --timeout-start 100000
        echo "$status: $output"
        [ "$status" -eq "$([[ $RANKS == no ]] && echo 3 || echo 5)" ]
        [[ $RANKS == no || "$output" == *"mpirun outlived its ranks"* ]]
    done
}

@test "inside Slurm: the allocation's hosts, probed by srun, started by mpirun or srun" {
    export SLURM_JOB_NODELIST='[a-b]' SLURM_TASKS_PER_NODE='2(x2)'
    stand_in scontrol <<<'[[ "$*" == "show hostnames [a-b]" ]] && printf "a\nb\n"'
    stand_in srun <<<'[[ $1 != --mpi=list ]] || { echo "MPI plugin types are... none pmi2 pmix"; exit; }
        for word; do case $word in --nodelist=*) export FAKE_HOST=${word#*=} ;; bash) break ;; esac; shift; done
        export DPTRAIN_SYSFS=$HOSTS/$FAKE_HOST/sys
        exec "$@"'
    line train
    [ "$status" -eq 0 ]
    has "-np 4 -H a:2,b:2 $DPTRAIN_BIN train"
    [[ "$output" != *plm_rsh* ]]
    [ ! -e "$HOSTS/ssh.log" ]
    MY_TOKEN=1 line --launcher srun train
    has " -u MY_TOKEN " "OMPI_MCA_btl_tcp_if_include=10.0.0.0/24" "NCCL_SOCKET_IFNAME==eth0" \
        "srun --mpi=pmix --ntasks 4 --chdir=$PWD $DPTRAIN_BIN train"
    host c ens5=10.0.0.3/24
    stand_in scontrol <<<'printf "a\nc\n"'
    line --launcher srun train
    [ "$status" -eq 0 ]
    has "NCCL_SOCKET_IFNAME==ens5,eth0"
    stand_in scontrol <<<'printf "a\nb\n"'
    # Slurm passes the environment on; its command line has no values.
    printf 'MINE=for  me\n' >mine.env
    line --launcher srun --env-file mine.env train
    [[ "$output" == *DPTRAIN_ENV_0* && "$output" != *"for  me"* ]]
    stand_in dptrain <<<'echo "rank has $MINE"'
    FAKE_HOST=a run "$run_sh" --launcher srun --env-file mine.env train
    echo "$output"
    [ "$status" -eq 0 ]
    has "rank has for  me"
    SLURM_TASKS_PER_NODE='BASH_VERSINFO[$(>PWN)],1' line train
    [[ "$status" -eq 0 && ! -e PWN ]]
    has "-np 2 -H a:1,b:1 "
    stand_in scontrol <<<'echo "-oProxyCommand=x"; echo b'
    line train
    [ "$status" -eq 4 ]
    has "'-oProxyCommand=x', which is not a host name"
    rm "$bin/scontrol"
    PATH=$bin:/usr/bin:/bin line -np 2 train
    has "in a Slurm allocation, but scontrol was not found: using this machine alone" " -np 2 $DPTRAIN_BIN train"
    unset SLURM_JOB_NODELIST
    line --launcher srun -H a:1
    [ "$status" -eq 2 ]
    line --launcher srun
    has "--launcher srun needs hosts: -hostfile, -H, or a Slurm allocation"
}

# Waits until the file out has a line.
says() { # PATTERN
    local i
    for ((i = 0; i < 600; i++)); do
        ! grep -q "$1" out || return 0
        sleep 0.1
    done
    return 1
}

@test "SIGUSR1 requests a checkpoint, and a second one does not end the job" {
    stand_in mpirun <<<'[[ $1 != --version ]] || exit 0
        trap "n=\$((n + 1)); ((n < 2)) || { echo checkpoint; exit 0; }" USR1; trap "exit 1" TERM
        echo started; touch "$HOSTS/flag"; while :; do sleep 0.1; done'
    "$run_sh" -np 1 >out 2>&1 3>&- &
    pid=$!
    says '^started'
    kill -USR1 "$pid"
    says 'asking the job for a checkpoint'
    sleep 0.3
    kill -USR1 "$pid"
    sleep 0.3
    # The job is still running: run.sh requested only once.
    kill -0 "$pid"
    kill -TERM "$pid"
    wait "$pid" || true
    cat out
    [ "$(grep -c 'asking the job for a checkpoint' out)" -eq 1 ]
}

@test "a rank logs its output, with timestamps" {
    program=$root/dptrain
    DPTRAIN_LOG_DIR=$PWD/logs run "$program" train --data "$PWD/nothing"
    echo "$output"
    [ "$status" -ne 0 ]
    [ "$(ls logs)" = rank-0.log ]
    grep -E '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z dptrain: error: .*nothing' logs/rank-0.log
    touch file
    DPTRAIN_LOG_DIR=$PWD/file run "$program" train --data "$PWD/nothing"
    [[ "$output" == *"no log of rank 0: cannot write to $PWD/file"* ]]
    line -np 2 --log-dir logs
    has "-x DPTRAIN_LOG_DIR "
}
