# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # variables of attack.sh
# A rank that stops, dies, hangs, is slow or fails at its n-th call of an MPI function.
kind mpi_stop 4
kind mpi_kill 3
kind mpi_segv 1
kind mpi_exit 3
kind mpi_hang 3
kind mpi_slow 1
kind mpi_fail 2
kind mpi_flip 1

mpi_calls=(MPI_Init_thread MPI_Finalize MPI_Comm_split_type MPI_Comm_split MPI_Win_allocate_shared MPI_Barrier MPI_Bcast
    MPI_Allgather MPI_Alltoall MPI_Allreduce MPI_Allreduce)

mpi_draw() { # ACT [CALL...]
    local np act=$1
    shift
    [[ $# -gt 0 ]] || set -- "${mpi_calls[@]}"
    np=$(pick 2 3)
    echo "np=$np rank=$(between 0 $((np - 1))) call=$(pick "$@") at=$(between 0 99) act=$act via=$(pick run run run mpirun)" \
        "allreduce=$(pick host mpi)"
}

draw_mpi_stop() { mpi_draw stop; }
draw_mpi_kill() { mpi_draw kill; }
draw_mpi_segv() { mpi_draw "$(pick segv abort)"; }
draw_mpi_exit() { mpi_draw "exit:$(pick 0 0 1)"; }
draw_mpi_hang() { mpi_draw block; }
draw_mpi_slow() { mpi_draw delay:2; }
draw_mpi_fail() { mpi_draw fail MPI_Barrier MPI_Bcast MPI_Allgather MPI_Alltoall MPI_Allreduce MPI_Allreduce; }
draw_mpi_flip() { mpi_draw flip MPI_Alltoall MPI_Allreduce MPI_Bcast; }

# A rank is lost: code 5 (under bare mpirun, mpirun's own), named with its host.
mpi_lost() { # [|OTHER WORDS]
    codes=5
    words="[rR]ank ${P[rank]}\\b${1:-}"
    job_with_shim
    # Bare mpirun ends with 128 + the signal, or the rank's code.
    [[ ${P[via]} != mpirun ]] || codes="5 1 131 134 137 139 ${P[act]#exit:}"
    judge
}

run_mpi_stop() { mpi_lost; }
run_mpi_kill() { mpi_lost; }
run_mpi_segv() { mpi_lost; }
run_mpi_exit() { mpi_lost; }
# A rank that hangs inside MPI has arrived, as far as anyone can know.
run_mpi_hang() { mpi_lost '|transport|no rank is missing'; }

run_mpi_slow() {
    codes=0
    job_with_shim
    judge
}

run_mpi_fail() {
    codes="4 5"
    words='MPI_|MPI '
    job_with_shim
    judge
}

# A result that differs on one rank: a wrong decision, or wrong weights of one replica.
run_mpi_flip() {
    codes="0 1 3 4 5" replica=yes
    job_with_shim
    # A count or a name that is wrong may end the job in any way, but it ends.
    floor=-1
    judge_end
    if [[ $code -eq 0 ]]; then judge_resume; fi
}
