/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * What a host answers, and what of it is kept; parts of its CPUs. */
#include <string.h>

#include "launch/job.h"
#include "tests/tap.h"

static answer_t answer;
static arena_t arena;

static void reads(const char *text)
{
    answer_free(&answer);
    answer_read(text, strlen(text), "/opt/a /opt/b", &arena, &answer);
}

static bool has_share(job_t *job, const char *list, int k, int n, const char *part)
{
    return strcmp(ranks_cpu_share(job, list, k, n), part) == 0;
}

int main(void)
{
    int64_t number = 7;
    job_t job = {0};
    tap_plan(14);

    reads(
        "Welcome!\nname node1\nwdir ok\norted yes\nephemeral 32768 60999\naddr eth0 10.0.0.1/24\nspeed eth0 25000\n"
        "rdma mlx5_0 mlx5_core ACTIVE InfiniBand\nofi /opt/b\ngpu :3b:00.0 0-7,16-23\ngpus 1\ncores 8\nend\n");
    OK(answer.complete && strcmp(answer.name, "node1") == 0 && answer.has_wdir && answer.has_daemon,
       "a probe");
    OK(answer.n_addresses == 1 && answer.addresses[0].mbits_per_sec == 25000 &&
           answer.addresses[0].bits == 24,
       "an address");
    OK(answer.has_ib && !answer.has_efa && strcmp(answer.ofi, "/opt/b") == 0, "adapters");
    OK(answer.gpu_cpus.n == 1 && answer.n_gpus == 1 && answer.n_cores == 8, "GPUs and cores");

    reads(
        "name -oProxyCommand=x\nname a/b\ncores 1e9\ncores -1\ngpus 9999999999999999\nephemeral 9 5\nofi /opt\nofi /opt/a/x\n");
    OK(!answer.complete && !answer.name[0] && answer.n_cores == -1 && answer.n_gpus == -1,
       "invalid names and numbers are dropped");
    OK(answer.port_low == -1 && !answer.ofi, "nor are ports in no order, or folders that were not asked for");
    reads(
        "addr e/0 10.0.0.1/24\naddr eth0 10.0.0.1/33\naddr eth0 10.0.0.1\naddr eth0 $(x)/8\ngpu :3b:00.0 0-$(x)\ngpu x 0-1\n");
    OK(answer.n_addresses == 0 && answer.gpu_cpus.n == 0, "nor addresses and CPUs of another form");
    reads("swept \033[2J\nname x\nend");
    OK(strcmp(answer.swept, "?[2J") == 0 && !answer.complete,
       "control characters are replaced; a line without its end is none");
    reads("phase 3 computing step 7\nphase 03 x\nphase x y\nsame NCCL 2.19\nsame PATH /tmp\n");
    OK(answer.phases.n == 1 && answer.same.n == 1, "phases of ranks, and what all hosts have the same");

    OK(word_number("08", &number) && number == 8 && word_number("0", &number) && number == 0,
       "numbers may have zeros in front");
    OK(!word_number("", &number) && !word_number(" 1", &number) && !word_number("1000000000000000", &number),
       "and nothing else");

    OK(has_share(&job, "0-15,64-79", 1, 2, "8-15,72-79"), "the second half of two ranges");
    OK(has_share(&job, "3", 1, 2, "3"), "a range that is too short to be divided");
    int slots[4];
    hosts_slurm_slots("2(x2),x,7", slots, 4);
    OK(slots[0] == 2 && slots[1] == 2 && slots[2] == 1 && slots[3] == 7, "Slurm's slots");

    answer_free(&answer);
    arena_free(&arena);
    arena_free(&job.start);
    return tap_done();
}
