# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh, of the storm and of tests/cluster
# Hosts and links of three namespace hosts, one rank on each.
# shellcheck source=tests/cluster/cluster.bash
. "$root/tests/cluster/cluster.bash"
storm_kind link_cut 0 4 'resumes without the host'
storm_kind link_5s 0 3 'goes on'
storm_kind host_lost 0 3 'resumes without the host'
storm_kind host_back 0 4 'resumes without the host, later with it'
storm_kind wrong_binary 0 3 'resumes without the host'
storm_kind daemon_killed 0 2 resumes

storm_draw_host() { echo "rank=$(between 0 11) wait=$(between 0 60)"; }
draw_link_cut() { storm_draw_host; }
draw_link_5s() { storm_draw_host; }
draw_host_lost() { storm_draw_host; }
draw_host_back() { storm_draw_host; }
draw_wrong_binary() { storm_draw_host; }
draw_daemon_killed() { storm_draw_host; }

# Three hosts, with copies of what a job needs where all see it.
storm_hosts_begin() {
    cluster_up 3 && cluster_trust || return 1
    mkdir -p "$cluster/shared/attack/real"
    cp "$real" "$cluster/shared/attack/real/dptrain"
    cp "$work/shim.so" "$cluster/shared/attack/"
    job_wrapper "$cluster/shared/attack" "$cluster/shared/attack/shim.so" "$cluster/shared/attack/real/dptrain"
    { cat "$cluster/shared/attack/dptrain" && echo; } >"$cluster/shared/attack/other"
    chmod +x "$cluster/shared/attack/other"
}

# Sets host: one of the job other than node1, where run.sh is. Fails if there is none.
storm_far_host() {
    local n i far=()
    n=$(life_last ranks ranks)
    for ((i = 0; i < n; i++)); do
        host=$(storm_host "$i")
        [[ $host == node1 ]] || far+=("$host")
    done
    ((${#far[@]} > 0)) && host=${far[P[rank] % ${#far[@]}]}
}

# Whether the job's last start has a host.
storm_has() { [[ $(grep '^{"record":"job_ranks"' "$dir/run/job.jsonl" | tail -n 1) == *"\"$1\""* ]]; } # HOST

# The job goes on without the host.
storm_without() { # HOST
    words="$1"
    storm_resumes
    [[ $outcome != resumed ]] || ! storm_has "$1" || bad+=(still-there)
}

strike_link_cut() {
    local host
    storm_far_host || return 0
    cluster_cut "$host" && storm_struck "link of $host cut"
    storm_without "$host"
    cluster_mend "$host"
}

strike_link_5s() {
    local host
    storm_far_host || return 0
    cluster_cut "$host" && storm_struck "link of $host away for 5 s"
    sleep 5
    cluster_mend "$host"
    storm_goes_on
}

# Power loss, as far as the others can see: nothing answers, and no process of the job is left on the host.
storm_power_off() { # HOST
    cluster_cut "$1"
    cluster_exec "$1" pkill -KILL -x 'dptrain|orted|prted' || true
    storm_struck "$1 lost"
}

# For the rest of the job, unless too few are left.
strike_host_lost() {
    local host
    storm_far_host || return 0
    storm_power_off "$host"
    storm_without "$host"
    # Stays away in the next fault too; later jobs have it again.
    if [[ -n ${storm_away:-} ]]; then cluster_mend "$storm_away"; fi
    storm_away=$host
}

# Comes back, and is used again at the next start after its cool-down.
strike_host_back() {
    local host
    storm_far_host || return 0
    storm_power_off "$host"
    storm_without "$host"
    [[ $outcome == resumed ]] || { cluster_mend "$host" && return; }
    cluster_mend "$host"
    sleep 5
    n_faults_before=$(life_count fault)
    storm_hit KILL dptrain 0
    storm_outcome $((timeout_sec + grace_sec))
    if [[ $outcome == fault ]]; then storm_again; else bad+=(hang); fi
    storm_has "$host" || bad+=(not-back)
}

# Another program on one host, noticed when the ranks start again.
strike_wrong_binary() {
    local host
    storm_far_host || return 0
    cluster_exec "$host" mount --bind "$cluster/shared/attack/other" "$cluster/shared/attack/dptrain"
    storm_hit KILL dptrain 0
    storm_without "$host"
    words="$host: .*differs|$host is left out .*differs"
    storm_judge
    cluster_exec "$host" umount "$cluster/shared/attack/dptrain"
}

strike_daemon_killed() {
    local host
    storm_far_host || return 0
    words="daemon on $host|on $host"
    cluster_exec "$host" pkill -KILL -x 'orted|prted' && storm_struck "mpirun's daemon on $host killed"
    storm_resumes
}
