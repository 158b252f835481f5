/* SPDX-License-Identifier: MIT */
/* The command that starts the ranks: mpirun's flags for this machine and its version, placement, binding near GPUs, and the wrapper
 * around the program. The network's flags are in network.c. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/hosts/machine.h"
#include "launch/job.h"

enum { VERSION_SEC = 10, VERSION_BYTES = 1 << 16, MAX_CPUS = 8192 };

#define TOPOLOGY "/sys/devices/system/cpu/cpu0/topology"

/* The CPUs of an affinity mask. Machines may have more than cpu_set_t holds. */
typedef struct cpus {
    cpu_set_t sets[MAX_CPUS / CPU_SETSIZE];
} cpus_t;

static bool words_equal(const words_t *a, const words_t *b)
{
    int i = 0;
    if (a->n != b->n) return false;
    while (i < a->n && strcmp(a->at[i], b->at[i]) == 0) i++;
    return i == a->n;
}

/* ---- This machine ---- */
int ranks_cores(void)
{
    cpus_t mine, cores = {0};
    int n = 0;
    if (sched_getaffinity(0, sizeof mine, mine.sets) != 0) return (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int cpu = 0; cpu < MAX_CPUS; cpu++) {
        if (!CPU_ISSET_S((size_t)cpu, sizeof mine, mine.sets)) continue;
        const int core = machine_core(cpu);
        n += !CPU_ISSET_S((size_t)core, sizeof cores, cores.sets);
        CPU_SET_S((size_t)core, sizeof cores, cores.sets);
    }
    return n;
}

/* mpirun needs /proc and /sys to bind, and some sandboxes forbid it. It binds to the machine's first cores regardless of its own
 * affinity mask, so it must not bind if the mask excludes CPUs. */
static bool may_bind(void)
{
    cpus_t mine, first = {0};
    if (access("/proc/self/status", R_OK) != 0 || !fs_is_folder(TOPOLOGY)) return false;
    if (sched_getaffinity(0, sizeof mine, mine.sets) != 0) return false;
    if (CPU_COUNT_S(sizeof mine, mine.sets) != sysconf(_SC_NPROCESSORS_CONF)) return false;
    CPU_SET_S(0, sizeof first, first.sets);
    const bool may = sched_setaffinity(0, sizeof first, first.sets) == 0;
    return may && sched_setaffinity(0, sizeof mine, mine.sets) == 0;
}

/* ---- mpirun's flags ---- */
/* OpenMPI's major version; 4 without mpirun. */
static int mpi_version(job_t *job)
{
    const char *const mark = "(Open MPI) ";
    char *text = NULL;
    int major = 4, code;
    char path[FS_PATH_MAX], real[FS_PATH_MAX];
    /* Until version 4 mpirun is a link to orterun, which need not be asked. */
    if (!fs_find_program("mpirun", path) ||
        (realpath(path, real) && strcmp(strrchr(real, '/'), "/orterun") == 0))
        return major;
    if (launch_output(job, WORDS("mpirun", "--version"), VERSION_SEC, VERSION_BYTES, false, &text, &code) ==
            ERR_OK &&
        text) {
        const char *at = strstr(text, mark);
        char *end;
        const long version = at ? strtol(at + strlen(mark), &end, 10) : 0;
        if (version > 0 && version < 1000 && *end == '.') major = (int)version;
    }
    mem_free(&text);
    return major;
}

void mpi_flags(job_t *job, int np)
{
    words_t *flags = &job->mpi_flags;
    const char *btl = getenv("OMPI_MCA_btl"), *components = getenv("HWLOC_COMPONENTS");
    const char *bind = getenv("DPTRAIN_BIND");
    char path[FS_PATH_MAX];
    words_free(flags);
    words_free(&job->part_flags);
    job->near_gpus = false;
    job->mpi_major = mpi_version(job);
    if (job->mpi_major >= 5) {
        /* Raw: otherwise it holds a line back until its end, which a progress line does not reach. */
        words_add_list(flags, "--output", ":raw", NULL);
        /* Ranks of one machine need no TCP, and it warns of interfaces that cannot reach each other. */
        if (np > 0 && (!btl || !*btl)) words_add_list(flags, "--mca", "btl", "^tcp", NULL);
    }
    /* In a chroot without /sys, hwloc prints an error per process; without /proc, UCX does. */
    if (!fs_is_folder(TOPOLOGY)) setenv("HWLOC_HIDE_ERRORS", "2", 1);
    if (access("/proc/sys/kernel/random/boot_id", R_OK) != 0) setenv("UCX_LOG_LEVEL", "fatal", 0);
    /* hwloc looks for an X server in every process, which without /etc/hosts waits for a DNS timeout. */
    if (!components || !*components) setenv("HWLOC_COMPONENTS", "-gl", 1);
    /* Without ssh, mpirun starts local ranks only in isolated mode. */
    if (np > 0 && job->mpi_major < 5 && !fs_find_program("ssh", path) && !fs_find_program("rsh", path))
        words_add_list(flags, "--mca", "plm", "isolated", NULL);
    const int n_cores = ranks_cores();
    /* DPTRAIN_BIND=none: two concurrent jobs would both be bound to the first cores. */
    if (np > n_cores || (bind && strcmp(bind, "none") == 0) || !may_bind()) {
        if (np > 0 && job->mpi_major < 5) words_add(flags, "--oversubscribe");
        if (np > 0 && job->mpi_major >= 5) words_add_list(flags, "--map-by", ":OVERSUBSCRIBE", NULL);
        words_add_list(flags, "--bind-to", "none", NULL);
    } else if (np == 0)
        words_add_list(flags, "--bind-to", "core:overload-allowed", NULL);
    else /* divides the cores among the ranks, for their threads */
        words_add_list(flags, "--map-by", start_text(job, "slot:PE=%d", n_cores / np), "--bind-to", "core",
                       NULL);
}

void mpi_runtime_flag(job_t *job, const char *name_in_4, const char *name_in_5, const char *value)
{
    if (job->mpi_major < 5)
        words_add_list(&job->mpi_flags, "--mca", name_in_4, value, NULL);
    else
        words_add_list(&job->mpi_flags, "--prtemca", name_in_5, value, NULL);
}

/* Removes a flag with its value, or (`name`) with this name and its value. */
static void drop_flag(words_t *flags, const char *flag, const char *name)
{
    const int n = name ? 3 : 2;
    for (int i = 0; i + n <= flags->n;)
        if (strcmp(flags->at[i], flag) == 0 && (!name || strcmp(flags->at[i + 1], name) == 0))
            words_remove(flags, i, n);
        else
            i++;
}

/* The user's flags replace the launcher's; mpirun refuses a setting that is given twice. */
static void add_given_flags(job_t *job)
{
    for (int i = 0; i < job->mca_given.n; i++) {
        drop_flag(&job->mpi_flags, "--mca", job->mca_given.at[i]);
        drop_flag(&job->mpi_flags, "--prtemca", job->mca_given.at[i]);
    }
    if (job->places_given) {
        drop_flag(&job->mpi_flags, "--bind-to", NULL);
        drop_flag(&job->mpi_flags, "--map-by", NULL);
    }
    words_add_all(&job->mpi_flags, &job->flags_given);
}

/* ---- Binding near GPUs ---- */
const char *ranks_cpu_share(job_t *job, const char *list, int k, int n)
{
    words_t parts = {0};
    for (const char *at = list; *at;) {
        const int n_bytes = (int)strcspn(at, ",");
        const char *dash = memchr(at, '-', (size_t)n_bytes);
        const int64_t low = strtol(at, NULL, 10), high = dash ? strtol(dash + 1, NULL, 10) : low;
        const int64_t count = high - low + 1;
        if (count < n)
            words_add(&parts, start_text(job, "%.*s", n_bytes, at));
        else
            words_add(&parts, start_text(job, "%lld-%lld", (long long)(low + count * k / n),
                                         (long long)(low + count * (k + 1) / n - 1)));
        at += n_bytes + (at[n_bytes] == ',');
    }
    const char *share = words_join(&job->start, &parts, ",");
    words_free(&parts);
    return share;
}

/* The CPUs of each local rank, `0-7;8-15`: those near its GPU, divided among the ranks whose GPUs are near the same. NULL: the CPUs
 * of some GPU are unknown. */
static const char *gpu_binding(job_t *job, const node_t *node)
{
    const words_t *cpus = &node->answer.gpu_cpus;
    const int n_ids = node->n_gpu_ids, n_gpus = n_ids > 0 ? n_ids : cpus->n;
    int like[ANSWER_LINES], n_ranks[ANSWER_LINES] = {0},
                            nth[ANSWER_LINES] = {0}; /* like: the first GPU with these CPUs */
    words_t shares = {0};
    const char *list = NULL;
    if (cpus->n == 0 || cpus->n > ANSWER_LINES) return NULL;
    for (int g = 0; g < cpus->n; g++)
        for (like[g] = 0; strcmp(cpus->at[like[g]], cpus->at[g]) != 0;) like[g]++;
    for (int r = 0; r < node->ranks; r++) {
        const int gpu = n_ids > 0 ? node->gpu_ids[r % n_gpus] : r % n_gpus;
        if (gpu < 0 || gpu >= cpus->n) return NULL;
        n_ranks[like[gpu]]++;
    }
    for (int r = 0; r < node->ranks; r++) {
        const int gpu = like[n_ids > 0 ? node->gpu_ids[r % n_gpus] : r % n_gpus];
        words_add(&shares, ranks_cpu_share(job, cpus->at[gpu], nth[gpu]++, n_ranks[gpu]));
    }
    if (shares.n > 0) list = words_join(&job->start, &shares, ";");
    words_free(&shares);
    return list;
}

bool ranks_bind_to_gpus(job_t *job)
{
    const char *bind = getenv("DPTRAIN_BIND"), *visible = getenv("CUDA_VISIBLE_DEVICES"), **lists;
    if (job->n_nodes == 0 || (bind && strcmp(bind, "none") == 0)) return false;
    /* Which GPUs the ranks take is not known here. */
    if (words_value(&job->words, "--gpus") || (visible && *visible) ||
        env_find(&job->hidden, "CUDA_VISIBLE_DEVICES") >= 0)
        return false;
    launch_need(arena_new(&job->start, (size_t)job->n_nodes * sizeof *lists, &lists));
    for (int i = 0; i < job->n_nodes; i++) {
        const node_t *node = &job->nodes[i], *last = i > 0 ? node - 1 : NULL;
        /* Most hosts are equal. */
        const bool is_like = last && last->ranks == node->ranks && last->n_gpu_ids == 0 &&
                             node->n_gpu_ids == 0 &&
                             words_equal(&last->answer.gpu_cpus, &node->answer.gpu_cpus);
        lists[i] = is_like ? lists[i - 1] : gpu_binding(job, node);
        if (!lists[i]) return false;
    }
    for (int i = 0; i < job->n_nodes; i++)
        words_add_list(&job->nodes[i].flags, "-x", start_text(job, "DPTRAIN_CPUS=%s", lists[i]), NULL);
    /* The probe lists GPUs by bus. */
    env_default(job, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    say(job, "ranks are bound near their GPUs: %s on %s", lists[0], job->nodes[0].name);
    /* The ranks bind themselves. */
    drop_flag(&job->mpi_flags, "--bind-to", NULL);
    drop_flag(&job->mpi_flags, "--map-by", NULL);
    words_add_list(&job->mpi_flags, "--bind-to", "none", NULL);
    return job->near_gpus = true;
}

/* ---- The command ---- */
/* Adds the wrapper, which sets the variables in a bundle, runs the host's setup, binds the rank, reports the binding, and then execs
 * the program. None is added if there is nothing to do. */
static void add_wrapper(job_t *job, const char *setup, bool near_gpus, const char *bundle, words_t *out)
{
    static const char bind[] =
        "IFS=\";\" read -ra cpus <<<\"${DPTRAIN_CPUS:-}\"\n"
        "l=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-0}}\n"
        "[[ $l =~ ^[0-9]+$ ]] || exit 4\n"
        "[[ -z ${cpus[l]:-} ]] || taskset -cp \"${cpus[l]}\" $$ >/dev/null || exit 4\n";
    static const char report[] =
        "printf \"rank %s on %s: CPUs %s\\n\" \"${OMPI_COMM_WORLD_RANK:-${SLURM_PROCID:-0}}\" \"$(hostname)\" \\\n"
        "\"$(sed -n \"s/^Cpus_allowed_list:[[:space:]]*//p\" /proc/self/status)\" >&2\n";
    const char *variables = bundle ? start_text(job, "eval \"$%s\"; unset %s\n", bundle, bundle) : "";
    const char *script = start_text(job, "%s%s%s%s%s", variables, setup ? setup : "", setup ? "\n" : "",
                                    near_gpus ? bind : "", job->options.report_bindings ? report : "");
    if (*script) words_add_list(out, "bash", "-c", start_text(job, "%sexec \"$0\" \"$@\"", script), NULL);
}

static void add_program(const job_t *job, words_t *out)
{
    words_add(out, job->program);
    words_add_all(out, &job->words);
}

/* Whether a host and the next one are in the same part. Within a part OpenMPI starts with the local host, wherever it is in the list,
 * so a chief on another host needs a part of its own. */
static bool part_goes_on(const job_t *job, int i, bool any_local)
{
    const node_t *a = &job->nodes[i], *b = a + 1;
    if (i + 1 == job->n_nodes || (i == 0 && !a->is_local && any_local)) return false;
    if (!a->setup != !b->setup || (a->setup && strcmp(a->setup, b->setup) != 0)) return false;
    return words_equal(&a->flags, &b->flags) && words_equal(&a->hidden, &b->hidden);
}

/* One part for each group of consecutive hosts with the same settings. Folder and environment apply only to their part, so each part
 * repeats part_flags. */
static void add_parts(job_t *job, words_t *out)
{
    words_t list = {0};
    int np = 0, n_parts = 0;
    const bool any_local = job_has_local_node(job);
    for (int i = 0; i < job->n_nodes; i++) {
        const node_t *node = &job->nodes[i];
        words_add(&list, start_text(job, "%s:%d", node->alias, node->ranks));
        np += node->ranks;
        if (part_goes_on(job, i, any_local)) continue;
        const char *bundle = env_bundle_node(job, node);
        if (n_parts++ > 0) words_add(out, ":");
        words_add_all(out, &job->part_flags);
        words_add_all(out, &node->flags);
        if (bundle) words_add_list(out, "-x", bundle, NULL);
        words_add_list(out, "-np", start_text(job, "%d", np), "-H", words_join(&job->start, &list, ","),
                       NULL);
        add_wrapper(job, node->setup, job->near_gpus, bundle, out);
        add_program(job, out);
        words_free(&list);
        np = 0;
    }
    words_free(&list);
    if (n_parts < 2 || job->mpi_major < 5) return;
    /* PMIx before 5.0.11 then ends with a segmentation fault where its parameter files contain settings of OpenMPI, as Debian's do
     * (open-mpi/ompi#13303); the ranks read those themselves. The daemons need it in their environment too. */
    setenv("PMIX_MCA_mca_base_param_files", "none", 0);
    if (job_is_spread(job) && !words_have(&job->mpi_flags, "prte_launch_agent"))
        words_add_list(&job->mpi_flags, "--prtemca", "prte_launch_agent",
                       start_text(job, "env PMIX_MCA_mca_base_param_files=%s prted",
                                  getenv("PMIX_MCA_mca_base_param_files")),
                       NULL);
}

/* The plugin of Slurm that MPI uses. */
static err_t find_slurm_plugin(job_t *job, const char **out)
{
    char *text = NULL;
    int code;
    TRY(launch_output(job, WORDS("sh", "-c", "srun --mpi=list 2>&1 | grep -owE 'pmix|pmi2'"), VERSION_SEC,
                      VERSION_BYTES, false, &text, &code));
    *out = strstr(text, "pmix") ? "pmix" : strstr(text, "pmi2") ? "pmi2" : NULL;
    mem_free(&text);
    if (*out) return ERR_OK;
    RAISE(ERR_SYSTEM, "this Slurm has no pmix or pmi2 plugin, which MPI needs; use --launcher mpirun");
}

/* srun starts ranks without mpirun; OpenMPI's settings become variables. Slurm binds ranks and passes on the environment, from which
 * secrets are removed. */
static err_t compose_srun(job_t *job)
{
    words_t *command = &job->command, nodes = {0};
    const words_t *flags = &job->mpi_flags;
    const char *plugin;
    for (int i = 0; i < job->flags_given.n; i += 3)
        if (strcmp(job->flags_given.at[i], "--mca") != 0)
            RAISE(ERR_USAGE, "--launcher srun: %s is mpirun's; use --launcher mpirun",
                  job->flags_given.at[i]);
    for (int i = 0; i < job->n_nodes; i++) {
        const node_t *node = &job->nodes[i];
        if (node->flags.n > 0 || node->hidden.n > 0 || node->setup)
            RAISE(ERR_USAGE, "--launcher srun: %s has its own variables or setup; use --launcher mpirun",
                  node->name);
    }
    TRY(find_slurm_plugin(job, &plugin));
    words_add(command, "env");
    for (char **at = environ; *at; at++) {
        const char *name = start_text(job, "%.*s", (int)strcspn(*at, "="), *at);
        if (env_is_secret(name)) words_add_list(command, "-u", name, NULL);
    }
    for (int i = 0; i + 2 < flags->n; i++)
        if (strcmp(flags->at[i], "--mca") == 0) {
            const char *name = flags->at[i + 1];
            if (strncmp(name, "plm", 3) != 0 && strncmp(name, "oob", 3) != 0)
                words_add(command, start_text(job, "OMPI_MCA_%s=%s", name, flags->at[i + 2]));
            i += 2;
        }
    for (int i = 0; i < job->env.n; i++)
        if (strchr(job->env.at[i], '=')) words_add(command, job->env.at[i]);
    if (!job->options.dry_run) words_add(command, start_text(job, "DPTRAIN_JOB=%s", job->id));
    words_add_list(command, "srun", start_text(job, "--mpi=%s", plugin), "--ntasks",
                   start_text(job, "%d", job->np), start_text(job, "--chdir=%s", job->wdir), NULL);
    /* Nodes of the allocation may be left out. */
    if (job->supervisor) {
        for (int i = 0; i < job->n_nodes; i++) words_add(&nodes, job->nodes[i].name);
        words_add_list(command, start_text(job, "--nodes=%d", job->n_nodes),
                       start_text(job, "--nodelist=%s", words_join(&job->start, &nodes, ",")), NULL);
        words_free(&nodes);
    }
    add_wrapper(job, NULL, false, env_bundle(job, &job->hidden), command);
    add_program(job, command);
    return ERR_OK;
}

err_t ranks_compose(job_t *job)
{
    words_t parts = {0}, *flags = &job->part_flags;
    words_free(&job->command);
    words_free(&job->trial);
    add_given_flags(job);
    if (strcmp(job->options.launcher, "srun") == 0) return compose_srun(job);
    for (int i = 0; i < job->env.n; i++) words_add_list(flags, "-x", job->env.at[i], NULL);
    if (!job->options.dry_run) {
        words_add_list(&job->mpi_flags, "--report-uri", start_text(job, "%s/uri", job->work), NULL);
        /* The job's processes have its id, for the cleanup. */
        words_add_list(flags, "-x", start_text(job, "DPTRAIN_JOB=%s", job->id), NULL);
    }
    if (job->n_nodes > 0) {
        words_t hosts = {0};
        add_parts(job, &parts);
        for (int i = 0; i < job->n_nodes; i++) words_add(&hosts, job->nodes[i].alias);
        words_add_all(&job->trial, flags);
        words_add_list(&job->trial, "-H", words_join(&job->start, &hosts, ","), NULL);
        words_free(&hosts);
    } else {
        const char *np = start_text(job, "%d", job->np), *bundle = env_bundle(job, &job->hidden);
        words_add_all(&parts, flags);
        if (bundle) words_add_list(&parts, "-x", bundle, NULL);
        words_add_list(&parts, "-np", np, NULL);
        add_wrapper(job, NULL, false, bundle, &parts);
        add_program(job, &parts);
        words_add_list(&job->trial, "-np", np, NULL);
    }
    words_add(&job->command, "mpirun");
    words_add_all(&job->command, &job->mpi_flags);
    words_add_all(&job->command, &parts);
    words_free(&parts);
    return ERR_OK;
}
