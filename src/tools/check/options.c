/* SPDX-License-Identifier: MIT */
/* Options of `dptrain check` and their validation before MPI starts. */
#include <stdio.h>
#include <string.h>

#include "data/dataset/dataset.h"
#include "tools/check/lines.h"
#include "tools/check/network.h"

#define FIELD(name) offsetof(check_options_t, name)
static const opt_t table[] = {
    {"only", OPT_STRING, FIELD(only), NULL, 0, 0, NULL, "NAMES", "run only these checks, such as gpu,clock",
     OPT_COMMON},
    {"level", OPT_INT, FIELD(level), "1", 1, 3, NULL, "N",
     "1: seconds; 2: a minute, with longer measurements; 3: several minutes, with a burn-in of every rank",
     OPT_COMMON},
    {"burn-in", OPT_REAL, FIELD(burn_in_sec), "180", 1, 1e6, NULL, "SEC",
     "duration of the burn-in of --level 3, in seconds", OPT_MORE},
    {"skip", OPT_STRING, FIELD(skip), NULL, 0, 0, NULL, "NAMES", "skip these checks", OPT_COMMON},
    {"list", OPT_FLAG, FIELD(list), "false", 0, 0, NULL, NULL, "list the checks and exit", OPT_COMMON},
    {"json", OPT_STRING, FIELD(json), NULL, 0, 0, NULL, "FILE", "also write all results to FILE, as JSON",
     OPT_COMMON},
    {"data", OPT_STRING, FIELD(data), NULL, 0, 0, NULL, "DIR",
     "the job's --data; must be identical on all hosts", OPT_COMMON},
    {"content", OPT_FLAG, FIELD(content), "false", 0, 0, NULL, NULL,
     "also read every image file of --data on every host, and compare the bytes between hosts and with earlier "
     "readings",
     OPT_MORE},
    {"config", OPT_STRING, FIELD(config), NULL, 0, 0, NULL, "FILE",
     "the job's --config; must be identical on all hosts", OPT_COMMON},
    {"out", OPT_STRING, FIELD(out), NULL, 0, 0, NULL, "DIR", "the job's --out; must have free space [runs]",
     OPT_COMMON},
    {"shared", OPT_STRING, FIELD(shared), NULL, 0, 0, NULL, "DIR",
     "directory that all hosts must share [that of --out, with several hosts]", OPT_COMMON},
    {"shared-bytes", OPT_SIZE, FIELD(shared_bytes), "64M", 1 << 10, 1e12, NULL, "SIZE",
     "size of the file that measures the shared directory", OPT_MORE},
    {"shared-timeout", OPT_REAL, FIELD(shared_timeout_sec), "15", 0.1, 3600, NULL, "SEC",
     "time within which one host's file must appear on all hosts, in seconds", OPT_MORE},
    {"smi-timeout", OPT_REAL, FIELD(smi_timeout_sec), "30", 0.1, 3600, NULL, "SEC",
     "timeout of nvidia-smi, in seconds", OPT_MORE},
    {"ports", OPT_STRING, FIELD(ports), NULL, 0, 0, NULL, "LO-HI",
     "TCP ports that hosts must reach on each other [MPI's range where one is set, else any]", OPT_MORE},
    {"reach", OPT_STRING, FIELD(reach), NULL, 0, 0, NULL, "HOSTS",
     "started on each of HOSTS at the same time, without mpirun: which of them this one reaches (cluster_health.sh does it "
     "where MPI does not start)",
     OPT_MORE},
    {"strict", OPT_FLAG, FIELD(strict), "false", 0, 0, NULL, NULL, "warnings fail, too", OPT_COMMON},
    {"expect-gpus", OPT_INT, FIELD(expect_gpus), "0", 0, 1024, NULL, "N",
     "fail if a host does not have exactly N GPUs; 0: any number", OPT_COMMON},
    {"expect-cpus", OPT_INT, FIELD(expect_cpus), "0", 0, 1 << 20, NULL, "N",
     "fail if a host does not have exactly N CPUs for the job's ranks; 0: any number", OPT_COMMON},
    {"expect-gbps", OPT_REAL, FIELD(expect_gbps), "0", 0, 1e6, NULL, "GBIT",
     "fail if a pair of hosts exchanges less than GBIT/s through MPI, one way; 0: any", OPT_MORE},
    {"expect-busbw", OPT_REAL, FIELD(expect_busbw), "0", 0, 1e6, NULL, "GB",
     "fail if the bus bandwidth of all ranks' allreduce is below GB/s; 0: any", OPT_MORE},
    {"profile", OPT_STRING, FIELD(profile), NULL, 0, 0, NULL, "FILE",
     "fail what differs from the machine that FILE describes (--write-profile)", OPT_COMMON},
    {"write-profile", OPT_STRING, FIELD(write_profile), NULL, 0, 0, NULL, "FILE",
     "if all hosts are ready, write what they are to FILE, for --profile", OPT_COMMON},
    {"history", OPT_STRING, FIELD(history), NULL, 0, 0, NULL, "FILE",
     "append the hosts' results to FILE, and name hosts that failed in the last checks of it", OPT_MORE},
    {"drain-command", OPT_STRING, FIELD(drain_command), NULL, 0, 0, NULL, "CMD",
     "run CMD for each host that is not ready, but not if more than half are not: {host} and {reason} in its words are "
     "replaced, or both are appended",
     OPT_MORE},
    {"allow-busy", OPT_FLAG, FIELD(allow_busy), "false", 0, 0, NULL, NULL,
     "only warn where other processes take more than half of a rank's CPU time", OPT_COMMON},
    {"expect-transport", OPT_CHOICE, FIELD(expect_transport), NULL, 0, 0, transport_names, NULL,
     "fail if MPI or NCCL uses another transport between hosts", OPT_COMMON},
    {"infiniband", OPT_STRING, FIELD(infiniband), "/sys/class/infiniband", 0, 0, NULL, "DIR",
     "directory where the kernel lists InfiniBand and EFA devices", OPT_HIDDEN},
};

err_t check_options_bind(check_options_t *options, opt_group_t groups[CHECK_N_GROUPS])
{
    *options = (check_options_t){0};
    groups[0] = (opt_group_t){"Check", table, sizeof table / sizeof table[0], options, 0};
    groups[1] = (opt_group_t){"Runtime", runtime_option_table, n_runtime_options, &options->runtime, 0};
    groups[2] = (opt_group_t){"GPU", gpu_option_table, n_gpu_options, &options->runtime, 0};
    return opt_defaults(groups, CHECK_N_GROUPS);
}

/* ERR_USAGE if a word of a list such as "gpu,clock" is not a check. */
static err_t check_case_names(const char *option, const char *list)
{
    const char *names[32], *at = list;
    int n = 0;
    if (list && !list[0]) RAISE(ERR_USAGE, "--%s is empty; dptrain check --list shows the checks", option);
    for (; check_cases[n]; n++) names[n] = check_cases[n]->name;
    while (at && *at) {
        char word[32];
        size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        at += length + (at[length] == ',');
        bool known = false;
        for (int i = 0; i < n; i++) known |= strcmp(word, names[i]) == 0;
        if (known) continue;
        const char *nearest = opt_nearest(word, names, n);
        if (nearest) RAISE(ERR_USAGE, "--%s: unknown check '%s'; did you mean '%s'?", option, word, nearest);
        RAISE(ERR_USAGE, "--%s: unknown check '%s'; dptrain check --list shows the checks", option, word);
    }
    return ERR_OK;
}

/* Whether a list such as "gpu,clock" contains the word. */
static bool list_contains(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return false;
}

bool check_is_chosen(const check_options_t *options, const char *name)
{
    if (options->only && !list_contains(options->only, name)) return false;
    return !options->skip || !list_contains(options->skip, name);
}

/* Checks are facts by their names, with a blank in front: "shared" is an option, too. */
static const opt_when_t whens[] = {
    {"only|skip|json|strict|level|profile|write-profile|history|drain-command", "list", "false",
     "runs without --list"},
    {"expect-gpus|smi-timeout|share-gpu", " gpu", "yes", "the check gpu"},
    {"data|content|config", " versions", "yes", "the check versions"},
    {"shared|shared-bytes", " shared", "yes", "the check shared"},
    {"burn-in", " speed", "yes", "the check speed"},
    {"burn-in", "level", "3", NULL},
    {"allow-busy", " load", "yes", "the check load"},
    {"expect-cpus", " machine", "yes", "the check machine"},
    {"ports", " reach", "yes", "the check reach"},
    {"expect-gbps|expect-busbw", " network", "yes", "the check network"},
    {"expect-transport", " transport", "yes", "the check transport"},
    {"gpus|share-gpu|workspace", "device", "auto|cuda", NULL},
    {"threads|bucket|cuda-graph", "training", "yes", "training"},
    {NULL, NULL, NULL, NULL},
};

void check_options_warn_idle(const check_options_t *options, const opt_group_t groups[CHECK_N_GROUPS])
{
    enum { MAX_CHECKS = 16, NAME_MAX_BYTES = 24 };
    char names[MAX_CHECKS][NAME_MAX_BYTES];
    opt_fact_t facts[MAX_CHECKS + 2] = {{"training", "no"}};
    for (int i = 0; check_cases[i]; i++) {
        ASSERT(i < MAX_CHECKS);
        snprintf(names[i], sizeof names[i], " %s", check_cases[i]->name);
        const bool runs = !options->list && check_is_chosen(options, check_cases[i]->name);
        facts[i + 1] = (opt_fact_t){names[i], runs ? "yes" : "no"};
    }
    opt_warn_idle(groups, CHECK_N_GROUPS, whens, facts, NULL);
}

err_t check_options_check(const check_options_t *options)
{
    TRY(dataset_check_name(options->data));
    TRY(check_case_names("only", options->only));
    TRY(check_case_names("skip", options->skip));
    if (options->drain_command) {
        TRY(check_drain_command(options->drain_command));
        if (options->runtime.ranks_per_host > 0)
            RAISE(ERR_USAGE, "--drain-command: the hosts of --ranks-per-host are not hosts of their own");
    }
    reach_ports_t ports;
    return reach_ports_parse("ports", options->ports, &ports);
}
