/* SPDX-License-Identifier: MIT */
/* The hosts of a job: from a description, a command or an allocation; which of them are this machine, how ssh reaches the others,
 * and how many ranks each gets. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/job.h"

enum { AT_ONCE = 4096, RESOLVE_SEC = 10, COMMAND_SEC = 60, OUTPUT_BYTES = 16 << 20 };

/* ---- The list ---- */
static void take_table(job_t *job)
{
    const hosts_t *table = &job->table;
    launch_need(arena_new(&job->start, (size_t)table->n * sizeof *job->nodes, &job->nodes));
    job->n_nodes = table->n;
    for (int i = 0; i < table->n; i++) {
        const host_t *h = &table->at[i];
        job->nodes[i] = (node_t){.name = h->address,
                                 .alias = h->address,
                                 .slots = h->slots,
                                 .gpu_ids = h->ids,
                                 .n_gpu_ids = h->ids && h->gpus != HOST_GPUS_NONE ? h->slots : 0,
                                 .port = h->port,
                                 .user = h->user,
                                 .key_file = h->key_file,
                                 .env_file = h->env_file,
                                 .setup = h->setup,
                                 .envs = h->envs,
                                 .n_envs = h->n_envs,
                                 .patience_sec = -1};
    }
}

/* The output of --hosts-command: a list in one line, as -H takes it, or a hostfile. If the command fails, the hosts of its last
 * success stay. */
static err_t read_command(job_t *job)
{
    const char *command = job->options.hosts_command;
    char *text = NULL;
    int code;
    TRY(launch_output(job, WORDS("bash", "-c", command), COMMAND_SEC, OUTPUT_BYTES, true, &text, &code));
    if (code == 0 && text[strspn(text, " \t\r\n")]) {
        mem_free(&job->hosts_text);
        job->hosts_text = text;
    } else {
        mem_free(&text);
        if (!job->hosts_text)
            RAISE(ERR_SYSTEM, "--hosts-command failed (code %d) or printed nothing: %s", code, command);
        say(job,
            "--hosts-command failed (code %d) or printed nothing; the hosts are those of its last success",
            code);
    }
    const char *all = job->hosts_text;
    const size_t n = strcspn(all, "\n");
    const bool one_line = !all[n] || !all[n + strspn(all + n, " \t\r\n")];
    if (one_line && memchr(all, ':', n) && strcspn(all, " \t\r") >= n) {
        char *line;
        launch_need(arena_new(&job->start, n + 1, &line));
        memcpy(line, all, n);
        line[n] = '\0';
        return hosts_read_list(line, &job->table);
    }
    return hosts_read_hostfile(all, "--hosts-command", &job->table);
}

/* The hostfile or list. */
static err_t read_source(job_t *job)
{
    struct stat s;
    const char *text;
    if (stat(job->source, &s) != 0 || !S_ISFIFO(s.st_mode)) return hosts_read(job->source, &job->table);
    TRY(user_text(job, job->source, OUTPUT_BYTES, &text));
    return signals_pending() ? ERR_OK : hosts_read_hostfile(text, job->source, &job->table);
}

void hosts_slurm_slots(const char *text, int *out, int n)
{
    int i = 0;
    for (const char *at = text; *at && i < n;) {
        char *end;
        const size_t length = strcspn(at, ",");
        const long slots = strtol(at, &end, 10);
        long times = 1;
        if (strncmp(end, "(x", 2) == 0) {
            times = strtol(end + 2, &end, 10);
            end += *end == ')';
        }
        const bool is_valid =
            end == at + length && *at >= '0' && *at <= '9' && slots >= 1 && slots <= HOSTS_MAX_SLOTS;
        for (; times > 0 && i < n; times--) out[i++] = is_valid ? (int)slots : 1;
        at += length + (at[length] == ',');
    }
    while (i < n) out[i++] = 1;
}

static err_t read_slurm(job_t *job, const char *list)
{
    const char *tasks = getenv("SLURM_TASKS_PER_NODE"), *line, *rest;
    words_t names = {0};
    char *text = NULL;
    int code, n, *slots;
    TRY(launch_output(job, WORDS("scontrol", "show", "hostnames", list), COMMAND_SEC, OUTPUT_BYTES, false,
                      &text, &code));
    for (rest = text; (line = print_next_line(&rest, &n));)
        words_add(&names, start_text(job, "%.*s", n, line));
    mem_free(&text);
    launch_need(arena_new(&job->start, (size_t)(names.n + 1) * sizeof *slots, &slots));
    launch_need(arena_new(&job->start, (size_t)(names.n + 1) * sizeof *job->nodes, &job->nodes));
    hosts_slurm_slots(tasks ? tasks : "", slots, names.n);
    for (int i = 0; i < names.n; i++)
        job->nodes[job->n_nodes++] =
            (node_t){.name = names.at[i], .alias = names.at[i], .slots = slots[i], .patience_sec = -1};
    words_free(&names);
    if (code != 0) RAISE(ERR_SYSTEM, "scontrol cannot list the hosts of this allocation");
    for (int i = 0; i < job->n_nodes; i++)
        if (!word_is_name(job->nodes[i].name))
            RAISE(ERR_SYSTEM, "scontrol lists '%s', which is not a host name", job->nodes[i].name);
    return ERR_OK;
}

/* Moves the host of rank 0 to the front. */
static err_t put_first(job_t *job, const char *name)
{
    int i = 0;
    while (i < job->n_nodes && strcmp(job->nodes[i].name, name) != 0) i++;
    if (i == job->n_nodes) {
        message_t list = {0};
        if (job->supervisor && job->is_again) return ERR_OK; /* a chief that is lost is replaced */
        for (i = 0; i < job->n_nodes; i++) message_append(&list, " %s", job->nodes[i].name);
        RAISE(ERR_USAGE, "--chief %s: the hosts are%s", name, list.text);
    }
    const node_t first = job->nodes[i];
    memmove(job->nodes + 1, job->nodes, (size_t)i * sizeof first);
    job->nodes[0] = first;
    return ERR_OK;
}

bool hosts_given(job_t *job)
{
    const char *role = getenv("K_MPI_JOB_ROLE"), *slurm = getenv("SLURM_JOB_NODELIST"), *file;
    char program[FS_PATH_MAX];
    if (job->source || job->options.hosts_command) return true;
    /* The launcher of an MPIJob (mpijob.sh) finds its workers here. */
    if (role && strcmp(role, "launcher") == 0 && fs_exists("/etc/mpi/hostfile"))
        job->source = "/etc/mpi/hostfile";
    if (job->source) return true;
    if (slurm && slurm[0]) return fs_find_program("scontrol", program);
    /* In an allocation of PBS or LSF: a line per slot. */
    file = getenv("PBS_NODEFILE");
    if (!file || !file[0]) file = getenv("LSB_DJOB_HOSTFILE");
    if (!file || !file[0]) return false;
    job->source = job_text(job, "%s", file);
    say(job, "the hosts are those of this allocation: %s", file);
    return true;
}

void hosts_clear(job_t *job)
{
    for (int i = 0; i < job->n_nodes; i++) {
        answer_free(&job->nodes[i].answer);
        words_free(&job->nodes[i].flags);
        words_free(&job->nodes[i].hidden);
    }
    job->n_nodes = 0;
    hosts_free(&job->table);
    words_free(&job->ssh);
    words_add_list(&job->ssh, "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", NULL);
    job->how = BY_SSH;
    job->ssh_own_config = job->ssh_all_ways = job->probed = false;
}

err_t hosts_find(job_t *job)
{
    const launch_values_t *o = &job->options;
    const char *slurm = getenv("SLURM_JOB_NODELIST");
    const bool is_srun = strcmp(o->launcher, "srun") == 0, is_given = hosts_given(job);
    if (!slurm || !slurm[0]) slurm = NULL;
    if (job->source || o->hosts_command) {
        TRY(o->hosts_command ? read_command(job) : read_source(job));
        TRY(hosts_filter(&job->table, o->include, o->exclude));
        take_table(job);
    } else if (is_given) {
        TRY(read_slurm(job, slurm));
    } else if (o->chief || o->include || o->exclude || is_srun) {
        RAISE(ERR_USAGE, "%s needs hosts: -hostfile, -H, or a Slurm allocation",
              o->chief     ? "--chief"
              : o->include ? "--include"
              : o->exclude ? "--exclude"
                           : "--launcher srun");
    } else if (slurm) {
        say(job, "in a Slurm allocation, but scontrol was not found: using this machine alone");
    }
    if (job->n_nodes == 0) return ERR_OK;
    if (o->chief) TRY(put_first(job, o->chief));
    if (slurm) job->how = BY_SRUN;
    if (is_srun && job->how != BY_SRUN) RAISE(ERR_USAGE, "--launcher srun: not in a Slurm allocation");
    return ERR_OK;
}

/* ---- Slots and ranks ---- */
bool hosts_use_no_gpus(const job_t *job)
{
    const char *typed = words_value(&job->words, "--device"), *device = typed ? typed : job->device;
    return (job->words.n > 0 && strcmp(job->words.at[0], "data") == 0) ||
           (device && opt_is_among(device, "cpu|ref"));
}

/* One per GPU if the job uses GPUs and the host has some, otherwise one per core, as OpenMPI does. */
static int slots_of(const answer_t *host, bool no_gpus, bool *by_gpu)
{
    *by_gpu = !no_gpus && host->n_gpus > 0;
    const int64_t n = *by_gpu ? host->n_gpus : host->n_cores > 0 ? host->n_cores : 1;
    return (int)(n < HOSTS_MAX_SLOTS ? n : HOSTS_MAX_SLOTS);
}

void hosts_fill_slots(job_t *job)
{
    const bool no_gpus = hosts_use_no_gpus(job);
    for (int i = 0; i < job->n_nodes; i++) {
        message_t names = {0};
        bool by_gpu, is_gpu;
        if (job->nodes[i].slots != 0) continue;
        const int slots = slots_of(&job->nodes[i].answer, no_gpus, &by_gpu);
        /* All hosts that get as many are named in one message. */
        for (int k = i; k < job->n_nodes; k++) {
            node_t *node = &job->nodes[k];
            if (node->slots != 0 || slots_of(&node->answer, no_gpus, &is_gpu) != slots || is_gpu != by_gpu)
                continue;
            node->slots = slots;
            message_append(&names, " %s", node->name);
        }
        const char *text =
            start_text(job, "slots of%s: %d, one per %s", names.text, slots, by_gpu ? "GPU" : "core");
        if (words_have(&job->slots_said, text)) continue;
        words_add(&job->slots_said, job_text(job, "%s", text));
        say(job, "%s", text);
    }
}

err_t hosts_count_here(job_t *job)
{
    const words_t none = {0};
    char program[FS_PATH_MAX];
    node_t here = {.name = "this machine", .is_local = true, .patience_sec = -1};
    bool by_gpu;
    job->np = ranks_cores();
    if (hosts_use_no_gpus(job) || !fs_find_program("nvidia-smi", program)) return ERR_OK;
    job->nodes = &here;
    job->n_nodes = 1;
    const err_t err = ask_hosts(job, "slots", &none, probe_sec());
    job->nodes = NULL;
    job->n_nodes = 0;
    const int slots = slots_of(&here.answer, false, &by_gpu);
    answer_free(&here.answer);
    if (!by_gpu) return err;
    job->np = slots;
    say(job, "%d rank%s, one per GPU of this machine", slots, slots == 1 ? "" : "s");
    return err;
}

err_t hosts_share(job_t *job)
{
    int64_t total = 0, left;
    for (int i = 0; i < job->n_nodes; i++) {
        if (job->options.num_gpus > 0) job->nodes[i].slots = (int)job->options.num_gpus;
        total += job->nodes[i].slots;
    }
    left = job->np > 0 ? job->np : total;
    if (left > total)
        RAISE(ERR_USAGE,
              "%d ranks, but the hosts have %lld slot%s: set slots=N in the hostfile, or HOST:N in -H",
              job->np, (long long)total, total == 1 ? "" : "s");
    job->np = (int)left;
    for (int i = 0; i < job->n_nodes; i++) {
        node_t *node = &job->nodes[i];
        node->ranks = (int)(left < node->slots ? left : node->slots);
        left -= node->ranks;
    }
    while (job->n_nodes > 1 && job->nodes[job->n_nodes - 1].ranks == 0) {
        answer_free(&job->nodes[job->n_nodes - 1].answer);
        job->n_nodes--;
    }
    return ERR_OK;
}

void hosts_select(job_t *job, const int *index, int n)
{
    node_t *kept;
    launch_need(arena_new(&job->start, (size_t)(n + 1) * sizeof *kept, &kept));
    for (int i = 0; i < n; i++) {
        kept[i] = job->nodes[index[i]];
        job->nodes[index[i]].answer = (answer_t){0};
    }
    for (int i = 0; i < job->n_nodes; i++) answer_free(&job->nodes[i].answer);
    job->nodes = kept;
    job->n_nodes = n;
}

const node_t *hosts_of_rank(const job_t *job, int64_t rank)
{
    int64_t n = 0;
    for (int i = 0; i < job->n_nodes; i++) {
        n += job->nodes[i].ranks;
        if (rank < n) return &job->nodes[i];
    }
    return NULL;
}

/* Equal, or equal up to the first dot; an address has none. */
static bool is_same_name(const char *a, const char *b)
{
    struct in6_addr address;
    if (strcmp(a, b) == 0) return true;
    if (strchr(a, ':') || inet_pton(AF_INET, a, &address) == 1) return false;
    const size_t n = strcspn(a, "."), m = strcspn(b, ".");
    return n == m && n > 0 && strncmp(a, b, n) == 0;
}

bool hosts_listed(const node_t *node, const words_t *names)
{
    const char *const own[] = {node->name, node->alias, node->own_name ? node->own_name : node->answer.name};
    for (int i = 0; i < names->n; i++)
        for (int k = 0; k < 3; k++)
            if (own[k] && own[k][0] && is_same_name(own[k], names->at[i])) return true;
    return false;
}

/* ---- Where the hosts are ---- */
/* The names and addresses of this machine. */
static void own_names(job_t *job, words_t *out)
{
    char text[INET6_ADDRSTRLEN];
    struct ifaddrs *all = NULL;
    words_add_list(out, "localhost", "ip6-localhost", job->host,
                   start_text(job, "%.*s", (int)strcspn(job->host, "."), job->host), NULL);
    if (getifaddrs(&all) != 0) return;
    for (const struct ifaddrs *at = all; at; at = at->ifa_next) {
        const struct sockaddr *sa = at->ifa_addr;
        if (!sa || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6)) continue;
        const void *address = sa->sa_family == AF_INET
                                  ? (const void *)&((const struct sockaddr_in *)(const void *)sa)->sin_addr
                                  : (const void *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
        if (inet_ntop(sa->sa_family, address, text, sizeof text)) words_add(out, start_text(job, "%s", text));
    }
    freeifaddrs(all);
}

/* Marks the nodes whose name resolves to this machine: looks whether any does, then in each half. Other processes look names up, until a
 * moment that does not depend on their number. */
static void mark_resolved(job_t *job, const int *index, int n, const words_t *mine, double until)
{
    words_t words = {0};
    char *text = NULL;
    int code, n_line;
    bool is_found = false;
    for (; n > AT_ONCE; n -= AT_ONCE, index += AT_ONCE) mark_resolved(job, index, AT_ONCE, mine, until);
    const double left = until - clock_sec();
    if (left <= 0 || signals_pending()) return;
    words_add_list(&words, "getent", "ahosts", NULL);
    for (int i = 0; i < n; i++) words_add(&words, job->nodes[index[i]].name);
    if (launch_output(job, &words, left, OUTPUT_BYTES, false, &text, &code) == ERR_OK) {
        const char *rest = text, *line;
        while (!is_found && (line = print_next_line(&rest, &n_line))) {
            const char *address = start_text(job, "%.*s", (int)strcspn(line, " \n"), line);
            /* Debian's 127.0.1.1 is this machine, too. */
            is_found = strncmp(address, "127.", 4) == 0 || words_have(mine, address);
        }
    }
    mem_free(&text);
    words_free(&words);
    if (is_found && n == 1) job->nodes[index[0]].is_local = true;
    if (!is_found || n == 1) return;
    mark_resolved(job, index, n / 2, mine, until);
    mark_resolved(job, index + n / 2, n - n / 2, mine, until);
}

static void mark_local(job_t *job)
{
    words_t mine = {0};
    int *others, n = 0;
    own_names(job, &mine);
    launch_need(arena_new(&job->start, (size_t)(job->n_nodes + 1) * sizeof *others, &others));
    for (int i = 0; i < job->n_nodes; i++) {
        node_t *node = &job->nodes[i];
        node->is_local = words_have(&mine, node->name);
        if (!node->is_local) others[n++] = i;
        /* Colons have a meaning in mpirun's lists; the ssh configuration resolves the alias. */
        if (!strchr(node->name, ':')) continue;
        char *alias = (char *)(uintptr_t)start_text(job, "ip6-%s", node->name);
        for (char *at = alias; *at; at++)
            if (*at == ':' || *at == '%') *at = '-';
        node->alias = alias;
    }
    const double until = clock_sec() + RESOLVE_SEC;
    if (job->how == BY_SSH && n > 0) mark_resolved(job, others, n, &mine, until);
    if (clock_sec() >= until)
        say(job,
            "the names of the hosts do not all resolve within %d s; this machine is known by its own names",
            RESOLVE_SEC);
    for (int i = 0; i < job->n_nodes; i++)
        if (job->nodes[i].is_local && strchr(job->nodes[i].name, ':')) job->nodes[i].alias = job->host;
    words_free(&mine);
}

/* The configuration that setup_ssh.sh writes on every host; container.sh has another in its containers. */
static const char *common_config(job_t *job)
{
    const char *path = getenv("DPTRAIN_SSH_CONFIG"), *home = getenv("HOME");
    return path && path[0] ? path : start_text(job, "%s/.ssh/dptrain_config", home ? home : "");
}

/* Whether that configuration has all other hosts. */
static bool config_has_all(job_t *job, const char *path)
{
    intern_t known = {0};
    const char *interned;
    char *text = NULL;
    bool has_all = true;
    if (!fs_exists(path) || fs_read_text(path, OUTPUT_BYTES, &text) != ERR_OK) return false;
    for (char *at = text, *next; *at; at = next) {
        next = at + strcspn(at, "\n");
        if (*next) *next++ = '\0';
        char *rest = NULL, *word = strtok_r(at, " \t\r", &rest);
        if (!word || strcasecmp(word, "host") != 0) continue;
        while ((word = strtok_r(NULL, " \t\r", &rest))) launch_need(intern_text(&known, word, &interned));
    }
    for (int i = 0; i < job->n_nodes && has_all; i++) {
        const size_t before = known.n;
        if (job->nodes[i].is_local) continue;
        launch_need(intern_text(&known, job->nodes[i].alias, &interned));
        has_all = known.n == before;
    }
    intern_free(&known);
    mem_free(&text);
    return has_all;
}

/* A configuration on this host alone, with the hosts' port, user and key. It is written again where a cleaner has removed it. */
err_t hosts_write_config(job_t *job)
{
    char path[FS_PATH_MAX];
    const char *home = getenv("HOME");
    err_t err = ERR_OK;
    if (!job->ssh_own_config) return ERR_OK;
    TRY(job_make_work(job));
    TRY(fs_join(path, job->work, "ssh_config"));
    FILE *file = fopen(path, "we");
    if (!file) RAISE(ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    for (int i = 0; i < job->n_nodes; i++) {
        const node_t *node = &job->nodes[i];
        fprintf(file, "Host %s\n", node->alias);
        if (strcmp(node->alias, node->name) != 0) hosts_write_path("HostName", node->name, file);
        if (node->port) fprintf(file, "    Port %d\n", node->port);
        if (node->user) fprintf(file, "    User %s\n", node->user);
        if (node->key_file) hosts_write_path("IdentityFile", node->key_file, file);
    }
    fprintf(file, "Match all\n  Include \"%s/.ssh/config\"\n", home ? home : "");
    const bool is_bad = ferror(file);
    if (fclose(file) != 0 || is_bad)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot write %s: %s", path, strerror(errno));
    return err;
}

err_t hosts_reach(job_t *job)
{
    words_t ssh = {0};
    bool is_special = false, has_others = false;
    mark_local(job);
    for (int i = 0; i < job->n_nodes; i++) has_others |= !job->nodes[i].is_local;
    if (!has_others || job->how != BY_SSH) return ERR_OK;
    const char *config = common_config(job);
    job->ssh_all_ways = config_has_all(job, config);
    for (int i = 0; i < job->n_nodes; i++) {
        node_t *node = &job->nodes[i];
        if (!node->port) node->port = (int)job->options.ssh_port;
        is_special |= node->port || node->user || node->key_file || strchr(node->name, ':');
    }
    job->ssh_own_config = is_special && !job->ssh_all_ways;
    if (job->ssh_own_config) {
        TRY(hosts_write_config(job));
        config = start_text(job, "%s/ssh_config", job->work);
    }
    if (job->ssh_own_config || job->ssh_all_ways) words_add_list(&ssh, "-F", config, NULL);
    words_add_all(&ssh, &job->ssh);
    words_free(&job->ssh);
    job->ssh = ssh;
    return ERR_OK;
}
