/* SPDX-License-Identifier: MIT */
/* The command line of `dptrain run`: its options, also as mpirun, torchrun, Horovod, DeepSpeed and Accelerate spell them, and what
 * to write instead of those that mean something else there. The words after them are the program's. Hosts, environment and
 * network are left to their files. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/launch.h"
#include "text/opt.h"

/* ---- The tables ---- */
#define FIELD(name) offsetof(launch_values_t, name)
#define UP_TO       999999999

static const char *const launchers[] = {"mpirun", "srun", NULL};
static const char *const transports[] = {"auto", "efa", "ib", "tcp", NULL};

static const opt_t of_hosts[] = {
    {"np", OPT_INT, FIELD(np), NULL, 1, UP_TO, NULL, "N",
     "number of ranks; also -np, -n [one per GPU if the job uses GPUs, otherwise one per core; with hosts, one per slot]",
     OPT_COMMON},
    {"hostfile", OPT_STRING, FIELD(hostfile), NULL, 0, 0, NULL, "FILE",
     "hosts in the format of OpenMPI, DeepSpeed, MPICH (node:4), Slurm (node[1-4]), PBS or LSF, or a specification, "
     "*.yaml; also -hostfile, -machinefile, --spec, -f",
     OPT_COMMON},
    {"host", OPT_STRING, FIELD(host), NULL, 0, 0, NULL, "LIST", "hosts: a:2,b:2,[fd00::7]:2; also -H, -host",
     OPT_COMMON},
    {"include", OPT_STRING, FIELD(include), NULL, 0, 0, NULL, "FILTER",
     "only these hosts and slots, in DeepSpeed's syntax: a@b:0,2", OPT_MORE},
    {"exclude", OPT_STRING, FIELD(exclude), NULL, 0, 0, NULL, "FILTER", "all hosts and slots except these",
     OPT_MORE},
    {"chief", OPT_STRING, FIELD(chief), NULL, 0, 0, NULL, "HOST",
     "host of rank 0 [the chief of the specification, or the first host]", OPT_MORE},
    {"num-gpus", OPT_INT, FIELD(num_gpus), NULL, 1, UP_TO, NULL, "N",
     "ranks per host, overriding slots; also -N, --npernode, --nproc-per-node", OPT_COMMON},
    {"nnodes", OPT_INT, FIELD(nnodes), NULL, 1, UP_TO, NULL, "N",
     "number of hosts to expect, as for torchrun; --hostfile or --host names them; also --num-machines",
     OPT_MORE},
    {"ssh-port", OPT_INT, FIELD(ssh_port), NULL, 1, 65535, NULL, "PORT",
     "sshd's port, unless setup_ssh.sh's configuration or the specification sets one", OPT_MORE},
    {"tree-spawn", OPT_FLAG, FIELD(tree_spawn), "true", 0, 0, NULL, "",
     "start mpirun's daemons over logins between the hosts; off: over logins from this host only", OPT_MORE},
    {"wdir", OPT_STRING, FIELD(wdir), NULL, 0, 0, NULL, "DIR",
     "working folder on every host; also -wdir [the current folder]", OPT_MORE},
    {"launcher", OPT_CHOICE, FIELD(launcher), "mpirun", 0, 0, launchers, "",
     "program that starts the ranks; srun only inside Slurm", OPT_MORE},
    {"checks", OPT_FLAG, FIELD(checks), "true", 0, 0, NULL, "",
     "probe the hosts before the start; without it, several hosts need --interface and --transport",
     OPT_MORE},
};

static const opt_t of_network[] = {
    {"interface", OPT_STRING, FIELD(interface), NULL, 0, 0, NULL, "WHICH",
     "a name, or a subnet such as 10.0.0.0/24 [the fastest subnet that all hosts share]", OPT_COMMON},
    {"transport", OPT_CHOICE, FIELD(transport), "auto", 0, 0, transports, "",
     "efa (with aws-ofi-nccl), ib (UCX) or tcp; auto: the best of these that every host has", OPT_COMMON},
    {"ports", OPT_STRING, FIELD(ports), NULL, 0, 0, NULL, "LOW-HIGH",
     "TCP ports (IPv4) that MPI may use, for firewalls: one per rank of a host, the last ones for mpirun. Concurrent jobs need "
     "separate ranges. NCCL uses the system's ephemeral ports",
     OPT_MORE},
};

static const opt_t of_environment[] = {
    {"x", OPT_STRING, FIELD(x), NULL, 0, 0, NULL, "NAME[=VALUE]",
     "a variable for the ranks, with its value here or another one; also -x; may be repeated", OPT_COMMON},
    {"mca", OPT_STRING, FIELD(mca), NULL, 0, 0, NULL, "NAME VALUE",
     "a setting of OpenMPI, which replaces the one chosen here; also -mca, --gmca, --prtemca; may be repeated",
     OPT_MORE},
    {"bind-to", OPT_STRING, FIELD(bind_to), NULL, 0, 0, NULL, "WHERE",
     "mpirun's binding, which replaces the one chosen here", OPT_MORE},
    {"map-by", OPT_STRING, FIELD(map_by), NULL, 0, 0, NULL, "WHERE",
     "mpirun's mapping, which replaces the one chosen here", OPT_MORE},
    {"mpi-args", OPT_STRING, FIELD(mpi_args), NULL, 0, 0, NULL, "\"WORDS\"",
     "words for mpirun, quoted as for a shell", OPT_MORE},
    {"env-file", OPT_STRING, FIELD(env_file), NULL, 0, 0, NULL, "FILE",
     "NAME=VALUE lines for the ranks' environment, after ~/.dptrain_env and ./.dptrain_env; may be repeated",
     OPT_MORE},
    {"log-dir", OPT_STRING, FIELD(log_dir), NULL, 0, 0, NULL, "DIR",
     "log the output of rank N, with timestamps, to DIR/rank-N.log on its host, and the launcher's messages to DIR/run.sh.log here",
     OPT_COMMON},
    {"report-bindings", OPT_FLAG, FIELD(report_bindings), NULL, 0, 0, NULL, "",
     "each rank prints the CPUs that it may use", OPT_MORE},
};

static const opt_t of_restarts[] = {
    {"restarts", OPT_INT, FIELD(restarts), NULL, 0, UP_TO, NULL, "N",
     "after a lost rank or host (code 5), resume from the newest checkpoint on the hosts that are left; N restarts without a new "
     "checkpoint in between end the job; also --max-restarts",
     OPT_COMMON},
    {"min-ranks", OPT_INT, FIELD(min_ranks), NULL, 1, UP_TO, NULL, "M",
     "wait while fewer ranks are possible, also at the first start [1]", OPT_MORE},
    {"wait-hosts", OPT_INT, FIELD(wait_hosts), "300", 0, UP_TO, NULL, "SEC",
     "time to wait for hosts, then end with code 5", OPT_MORE},
    {"cool-down", OPT_INT, FIELD(cool_down), "60", 0, UP_TO, NULL, "SEC",
     "how long to leave out a host that did not answer or failed a check", OPT_MORE},
    {"hosts-command", OPT_STRING, FIELD(hosts_command), NULL, 0, 0, NULL, "CMD",
     "before each start, run CMD, which prints a hostfile or a list of hosts; instead of --hostfile and --host",
     OPT_MORE},
};

static const opt_t of_others[] = {
    {"timeout-start", OPT_INT, FIELD(timeout_start), "300", 0, UP_TO, NULL, "SEC",
     "end the job if it has printed nothing by then; 0: never", OPT_MORE},
    {"grace", OPT_INT, FIELD(grace), "30", 0, UP_TO, NULL, "SEC",
     "time from the first signal to the end of the job", OPT_MORE},
    {"dry-run", OPT_FLAG, FIELD(dry_run), NULL, 0, 0, NULL, "",
     "print the command and exit; still probes the hosts", OPT_COMMON},
    {"config", OPT_STRING, FIELD(config), NULL, 0, 0, NULL, "FILE",
     "read options from FILE, lines key = value, each key once; the command line wins", OPT_MORE},
};

#define N_OF(table) ((int)(sizeof(table) / sizeof *(table)))
enum { N_GROUPS = 5, MAX_CONFIG = 1 << 20 };

static opt_group_t tables[N_GROUPS] = {
    {"Ranks and hosts", of_hosts, N_OF(of_hosts), NULL, 0},
    {"Network, for several hosts", of_network, N_OF(of_network), NULL, 0},
    {"Environment and output of the ranks", of_environment, N_OF(of_environment), NULL, 0},
    {"Restarts after faults", of_restarts, N_OF(of_restarts), NULL, 0},
    {"Other options", of_others, N_OF(of_others), NULL, 0},
};

opt_group_t *launch_options(int *n)
{
    *n = N_GROUPS;
    return tables;
}

/* ---- Spellings ---- */
/* Joined by |; the usual one first, which a suggestion names. */
static const struct {
    const char *key, *words;
} spellings[] = {
    {"np", "-np|-n|--num-processes|--num_processes"},
    {"hostfile", "-hostfile|-machinefile|--machinefile|-f|--spec"},
    {"host", "-H|-host"},
    {"num-gpus", "-N|--num_gpus|--npernode|-npernode|--nproc-per-node|--nproc_per_node"},
    {"nnodes", "--num-machines|--num_machines"},
    {"wdir", "-wdir"},
    {"x", "-x"},
    {"mca", "-mca|--gmca|-gmca|--prtemca"},
    {"bind-to", "-bind-to"},
    {"map-by", "-map-by"},
    {"restarts", "--max-restarts|--max_restarts"},
};

/* What the launcher does anyway. */
static const char ignored[] =
    "--allow-run-as-root|-allow-run-as-root|--oversubscribe|-oversubscribe|-q|--quiet|--standalone|"
    "--multi_gpu|--multi-gpu";

/* Options that hosts come from; those that may be repeated, or have an order among mpirun's words. */
static const char sources[] = "hostfile|host|hosts-command";
static const char passed[] = "x|mca|bind-to|map-by|mpi-args|env-file";

/* An option as typed. */
typedef struct typed {
    const opt_t *opt;  /* NULL: one that is ignored */
    const char *word;  /* its name, also with =VALUE */
    const char *value; /* of --mca the setting's name */
    const char *more;  /* --mca: the setting's value */
} typed_t;

static int name_length(const char *word)
{
    return (int)strcspn(word, "=");
}

/* The option that a word names, with a value behind = or a flag's. Returns how many words it takes; 0: it is none. */
static int find_option(const char *word, typed_t *out)
{
    char name[32];
    const bool is_long = strncmp(word, "--", 2) == 0;
    const char *equals = is_long ? strchr(word, '=') : NULL;
    const size_t n = equals ? (size_t)(equals - word) : strlen(word);
    *out = (typed_t){.word = word};
    if (opt_is_among(word, ignored)) return 1;
    if (n >= sizeof name) return 0;
    memcpy(name, word, n);
    name[n] = '\0';
    const char *key = is_long ? name + 2 : "";
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        if (opt_is_among(name, spellings[i].words)) key = spellings[i].key;
    for (int g = 0; g < N_GROUPS; g++)
        for (int i = 0; i < tables[g].n; i++) {
            const opt_t *opt = &tables[g].table[i];
            const bool is_off = opt->type == OPT_FLAG && !equals && strncmp(key, "no-", 3) == 0;
            if (strcmp(opt->key, is_off ? key + 3 : key) != 0) continue;
            out->opt = opt;
            out->value = equals ? equals + 1 : opt->type != OPT_FLAG ? NULL : is_off ? "false" : "true";
            if (strcmp(key, "mca") == 0) return equals ? 0 : 3;
            return out->value ? 1 : 2;
        }
    return 0;
}

/* How many words in front, after --, name another launcher whose spellings are taken, as in a command that is typed there. */
static int launcher_name(const char *const *words, int n)
{
    const int dashes = n > 0 && strcmp(words[0], "--") == 0;
    words += dashes;
    n -= dashes;
    if (n == 0) return 0;
    const char *name = word_base(words[0]);
    if (opt_is_among(name, "mpirun|mpiexec|mpiexec.hydra|orterun|torchrun|horovodrun|deepspeed"))
        return dashes + 1;
    if (n >= 2 && strcmp(name, "accelerate") == 0 && strcmp(words[1], "launch") == 0) return dashes + 2;
    if (n >= 3 && strncmp(name, "python", 6) == 0 && strcmp(words[1], "-m") == 0 &&
        opt_is_among(words[2], "torch.distributed.run|torch.distributed.launch"))
        return dashes + 3;
    return 0;
}

int launch_count_own(int argc, char **argv)
{
    int at = 0;
    while (at < argc) {
        typed_t option;
        int n = launcher_name((const char *const *)argv + at, argc - at);
        if (n == 0) n = find_option(argv[at], &option);
        if (n == 0) break;
        at += n;
    }
    return at < argc ? at : argc;
}

/* ---- Command lines as text ---- */
const char *options_line(job_t *job, const words_t *words)
{
    words_t quoted = {0};
    for (int i = 0; i < words->n; i++) words_add(&quoted, text_quoted(&job->arena, words->at[i]));
    const char *line = words_join(&job->arena, &quoted, " ");
    words_free(&quoted);
    return line;
}

/* Splits a text as xargs does: at blanks; quotes and backslashes keep them. False if a quote is not closed. */
static bool split_words(job_t *job, const char *text, words_t *out)
{
    char *word = NULL, quote = '\0';
    size_t n = 0;
    bool begun = false;
    launch_need(mem_new(strlen(text) + 1, "words", &word));
    for (;; text++) {
        if (!*text || (!quote && strchr(" \t\n", *text))) {
            word[n] = '\0';
            if (begun && !quote) words_add(out, job_text(job, "%s", word));
            if (!*text) break;
            n = 0;
            begun = false;
        } else if (quote ? *text == quote : *text == '\'' || *text == '"') {
            quote = quote ? '\0' : *text;
            begun = true;
        } else {
            if (!quote && *text == '\\' && text[1]) text++;
            word[n++] = *text;
            begun = true;
        }
    }
    mem_free(&word);
    return !quote;
}

void options_shown(job_t *job, const words_t *words, words_t *out)
{
    const char *before = "";
    for (int i = 0; i < words->n; i++) {
        const char *word = words->at[i], *shown = word;
        const char *variable = opt_is_among(before, "-x|--x")  ? word
                               : strncmp(word, "--x=", 4) == 0 ? word + 4
                                                               : NULL;
        const char *args = strcmp(before, "--mpi-args") == 0       ? word
                           : strncmp(word, "--mpi-args=", 11) == 0 ? word + 11
                                                                   : NULL;
        if (variable) {
            shown = job_text(job, "%.*s", (int)(variable - word) + name_length(variable), word);
        } else if (args) {
            words_t inner = {0}, inner_shown = {0};
            split_words(job, args, &inner);
            options_shown(job, &inner, &inner_shown);
            shown = job_text(job, "%.*s%s", (int)(args - word), word, options_line(job, &inner_shown));
            words_free(&inner);
            words_free(&inner_shown);
        }
        words_add(out, shown);
        before = word;
    }
}

/* The command here for a job that was typed for another launcher: of `given`, the first n_own words, and more. */
static const char *suggest(job_t *job, int n_own, const words_t *more)
{
    const words_t own = {job->given.at, n_own};
    words_t shown = {0};
    options_shown(job, &own, &shown);
    if (more) words_add_all(&shown, more);
    const char *line = options_line(job, &shown);
    words_free(&shown);
    return job_text(job, "%s %s%s-- train …", job->called_as, line, *line ? " " : "");
}

/* ---- Other launchers ---- */
/* srun's -N counts hosts, ours the ranks of a host, so its words are not taken, but their meaning is said. */
static err_t refuse_srun(job_t *job, int n_own, const char *const *words, int n)
{
    words_t taken = {0};
    for (int i = 0; i < n; i++) {
        const char *word = words[i], *value = i + 1 < n ? words[i + 1] : "";
        int n_name = (int)strlen(word);
        if (strncmp(word, "--", 2) == 0 && strchr(word, '=')) {
            n_name = name_length(word);
            value = word + n_name + 1;
        } else if (word[0] == '-' && word[1] && word[1] != '-' && word[2] >= '0' && word[2] <= '9') {
            n_name = 2;
            value = word + 2;
        }
        const char *name = job_text(job, "%.*s", n_name, word);
        if (value[0] < '1' || value[0] > '9') continue;
        if (opt_is_among(name, "-n|--ntasks")) words_add_list(&taken, "-np", value, NULL);
        if (opt_is_among(name, "--ntasks-per-node|--tasks-per-node"))
            words_add_list(&taken, "--num-gpus", value, NULL);
    }
    const char *command = suggest(job, n_own, &taken);
    words_free(&taken);
    RAISE(ERR_USAGE,
          "srun is another launcher's: write %s; in an allocation, --launcher srun starts the ranks by it",
          command);
}

/* Raises ERR_USAGE if the words at `at` name a launcher whose options cannot be taken word by word. */
static err_t refuse_launcher(job_t *job, int at)
{
    const char *const *words = job->given.at + at;
    int n = job->given.n - at;
    if (strcmp(words[0], "--") == 0) {
        words++;
        n--;
    }
    const char *name = n > 0 ? word_base(words[0]) : "";
    if (strcmp(name, "srun") == 0) return refuse_srun(job, at, words + 1, n - 1);
    if (!opt_is_among(name, "accelerate|jsrun|aprun|prun|flux|colossalai|composer|bpsrun|ray")) return ERR_OK;
    RAISE(ERR_USAGE, "%s is another launcher's: write %s", name, suggest(job, at, WORDS("-np", "N")));
}

/* What to write instead of options of other launchers. */
static const struct {
    const char *words; /* joined by |, with dashes for underscores */
    const char *hint;  /* NULL: --mpi-args passes them on */
} hints[] = {
    {"--node-rank|--master-addr|--master-port|--machine-rank",
     "omit it, the ranks of all hosts are started from one of them"},
    {"--log-dir|-r|--redirects|-t|--tee|--output-filename|-output-filename", "write --log-dir DIR"},
    {"--tag-output|-tag-output|--timestamp-output|-timestamp-output", "write --log-dir DIR"},
    {"-p", "write --ssh-port PORT"},
    {"--host-discovery-script", "write --hosts-command CMD, with --restarts"},
    {"--min-np|--min-num-proc", "write --min-ranks M, with --restarts"},
    {"--max-np|--max-num-proc", "write -np N, the most ranks, with --restarts"},
    {"--mixed-precision", "write --precision bf16 behind train"},
    {"--gpu-ids", "write --gpus LIST behind train"},
    {"--config-file", "omit it, no file is needed; --config FILE reads options"},
    {"--mpi|--gloo", "omit it, mpirun starts the ranks"},
    {"--network-interface|--network-interfaces|-iface", "write --interface NAME"},
    {"--start-timeout", "write --timeout-start SEC"},
    {"--ntasks", "write -np N"},
    {"--ntasks-per-node|--tasks-per-node|--gpus-per-node|-ppn|-perhost",
     "write --num-gpus N, the ranks per host"},
    {"-w|--nodelist|-hosts|--hosts", "write -H LIST"},
    {"-genv|-env", "write -x NAME=VALUE"},
    {"--num-nodes", "write the hosts by -H or -hostfile"},
    {"--display-map|-display-map|--display-allocation|--display|--rankfile|-rankfile|-rf|--prefix|--output",
     NULL},
};

/* Whether options of torchrun and Accelerate that begin like this say where ranks meet. */
static bool is_rendezvous(const char *name)
{
    return strncmp(name, "--rdzv-", 7) == 0 || strncmp(name, "--main-process-", 15) == 0;
}

static err_t raise_unknown(job_t *job, const char *word)
{
    const char *name = job_text(job, "%.*s", name_length(word), word);
    char *plain = NULL;
    const char *hint = NULL;
    launch_need(mem_strdup(name, &plain));
    if (strncmp(plain, "--", 2) == 0)
        for (char *at = plain; *at; at++)
            if (*at == '_') *at = '-';
    for (size_t i = 0; i < sizeof hints / sizeof *hints && !hint; i++)
        if (opt_is_among(plain, hints[i].words))
            hint = hints[i].hint ? hints[i].hint : job_text(job, "write --mpi-args \"%s …\"", word);
    if (is_rendezvous(plain)) hint = hints[0].hint;
    mem_free(&plain);
    if (hint) RAISE(ERR_USAGE, "%s is another launcher's: %s", word, hint);

    enum { MAX_NAMES = 160 };
    const char *names[MAX_NAMES], *typed[MAX_NAMES];
    int n = 0;
    typed[n++] = "--help";
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++)
        for (const char *at = spellings[i].words; *at; at += *at == '|') {
            typed[n++] = job_text(job, "%.*s", (int)strcspn(at, "|"), at);
            at += strcspn(at, "|");
        }
    for (int g = 0; g < N_GROUPS; g++)
        for (int i = 0; i < tables[g].n; i++) {
            const opt_t *opt = &tables[g].table[i];
            typed[n++] = job_text(job, "--%s", opt->key);
            if (opt->type == OPT_FLAG) typed[n++] = job_text(job, "--no-%s", opt->key);
        }
    ASSERT(n <= MAX_NAMES);
    for (int i = 0; i < n; i++) names[i] = typed[i] + strspn(typed[i], "-");
    name += strspn(name, "-");
    const char *nearest = strlen(name) > 1 ? opt_nearest(name, names, n) : NULL, *meant = NULL;
    for (int i = 0; nearest && i < n && !meant; i++)
        if (names[i] == nearest) meant = typed[i];
    RAISE(ERR_USAGE,
          "unknown option '%s' (dptrain's options follow its command, or --); %s%s%s--help lists the options",
          word, meant ? "did you mean " : "", meant ? meant : "", meant ? "? " : "");
}

/* ---- Values ---- */
static err_t check_number(const char *name, const char *text, int min)
{
    const size_t n = strlen(text);
    if (n < 1 || n > 9 || strspn(text, "0123456789") != n || strtol(text, NULL, 10) < min)
        RAISE(ERR_USAGE, "invalid %.*s '%s': expected a whole number, at least %d", name_length(name), name,
              text, min);
    return ERR_OK;
}

static err_t check_ports(job_t *job)
{
    const char *text = job->options.ports;
    const size_t n = strspn(text, "0123456789"), dash = text[n] == '-';
    const size_t m = dash ? strspn(text + n + 1, "0123456789") : 0;
    long low = 0, high = 0;
    if (n >= 1 && n <= 5 && m >= 1 && m <= 5 && !text[n + 1 + m]) {
        low = strtol(text, NULL, 10);
        high = strtol(text + n + 1, NULL, 10);
    }
    if (low < 1024 || low >= high || high > 65535)
        RAISE(ERR_USAGE, "invalid --ports '%s': expected a range such as 20000-20999, within 1024-65535",
              text);
    job->low_port = (int)low;
    job->high_port = (int)high;
    return ERR_OK;
}

/* What goes on to mpirun and the ranks: words of -x, --mca, --bind-to, --map-by, --mpi-args and --env-file. */
static err_t add_passed(job_t *job, const typed_t *option);

/* -hostfile "$FILE" of a variable that is not set does not mean this machine alone. */
static err_t raise_empty(const opt_t *opt)
{
    RAISE(ERR_USAGE, "invalid --%s '': expected %s", opt->key, opt->unit);
}

/* The words of --mpi-args; those among them that are options here are read as such. */
static err_t add_mpi_args(job_t *job, const char *text)
{
    static const char own[] = "-np|--np|-n|-H|-host|--host|-hostfile|--hostfile|-machinefile|--machinefile";
    words_t words = {0};
    err_t err = ERR_OK;
    if (!split_words(job, text, &words))
        RAISE_OUT(err, ERR_USAGE, "invalid --mpi-args '%s': a quote is not closed", text);
    for (int i = 0, n; i < words.n; i += n) {
        typed_t option;
        const char *word = words.at[i];
        n = 1;
        if (!*word) continue;
        if (opt_is_among(word, own)) RAISE_OUT(err, ERR_USAGE, "--mpi-args: write %s outside of it", word);
        const int takes = find_option(word, &option);
        if (takes < 2 || !opt_is_among(option.opt->key, "x|mca|bind-to|map-by")) {
            words_add(&job->flags_given, word);
            continue;
        }
        n = takes;
        option.value = i + 1 < words.n ? words.at[i + 1] : NULL;
        option.more = takes == 3 && i + 2 < words.n ? words.at[i + 2] : NULL;
        if (!option.value && takes == 2)
            RAISE_OUT(err, ERR_USAGE, "%s needs a value; --help lists the options", word);
        TRY_OUT(err, add_passed(job, &option));
    }
out:
    words_free(&words);
    return err;
}

static err_t add_passed(job_t *job, const typed_t *option)
{
    const char *key = option->opt->key, *value = option->value;
    /* mpirun distinguishes --mca, --gmca and --prtemca. */
    const char *name = option->word + strspn(option->word, "-");
    if (!*value && opt_is_among(key, "env-file|bind-to|map-by")) return raise_empty(option->opt);
    if (strcmp(key, "env-file") == 0) {
        words_add(&job->env_files, value);
    } else if (strcmp(key, "mpi-args") == 0) {
        return add_mpi_args(job, value);
    } else if (strcmp(key, "x") == 0) {
        const size_t n = strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
        if (n == 0 || (value[0] >= '0' && value[0] <= '9') || (value[n] && value[n] != '='))
            RAISE(ERR_USAGE, "invalid -x '%s': expected NAME or NAME=VALUE", value);
        words_add(&job->x, value);
    } else if (strcmp(key, "mca") == 0) {
        const char *more = option->more;
        if (!more)
            RAISE(ERR_USAGE, "%s needs a name and a value, such as: --mca btl_tcp_if_include eth0",
                  option->word);
        typed_t other;
        if (find_option(more, &other) > 0)
            RAISE(ERR_USAGE, "%s %s: its value is missing (found '%s')", option->word, value, more);
        words_add(&job->mca_given, value);
        words_add_list(&job->flags_given, job_text(job, "--%s", name), value, more, NULL);
    } else {
        job->places_given = true;
        words_add_list(&job->flags_given, job_text(job, "--%s", key), value, NULL);
    }
    return ERR_OK;
}

/* ---- The command line ---- */
typedef struct typed_list {
    typed_t *at;
    int n;
} typed_list_t;

static const typed_t *find_typed(const typed_list_t *list, const char *keys)
{
    for (int i = 0; i < list->n; i++)
        if (opt_is_among(list->at[i].opt->key, keys)) return &list->at[i];
    return NULL;
}

/* Checks an option as it was typed, and adds it to the list. Of options that cannot be repeated the last one counts. */
static err_t add_typed(const typed_t *option, typed_list_t *list)
{
    const opt_t *opt = option->opt;
    const typed_t *source = opt_is_among(opt->key, sources) ? find_typed(list, sources) : NULL;
    if (source) RAISE(ERR_USAGE, "hosts given twice: %s and %s", source->value, option->value);
    if (opt_is_among(opt->key, "include|exclude") && find_typed(list, opt->key))
        RAISE(ERR_USAGE, "--%s is given twice", opt->key);
    if (strcmp(opt->key, "nnodes") == 0 && strchr(option->value, ':'))
        RAISE(ERR_USAGE, "%.*s %s is another launcher's: write -hostfile FILE --restarts N --min-ranks M",
              name_length(option->word), option->word, option->value);
    if (opt->type == OPT_INT) TRY(check_number(option->word, option->value, (int)opt->min));
    int i = list->n;
    if (!opt_is_among(opt->key, "x|mca|mpi-args|env-file"))
        for (i = 0; i < list->n && list->at[i].opt != opt;) i++;
    if (i == list->n) launch_need(mem_grow(++list->n, sizeof *list->at, "options", &list->at));
    list->at[i] = *option;
    return ERR_OK;
}

/* Reads the launcher's own options, without names of other launchers. *at: the first word after them. */
static err_t read_typed(job_t *job, typed_list_t *list, int *at)
{
    words_t *given = &job->given;
    for (*at = 0; *at < given->n;) {
        typed_t option;
        const int left = given->n - *at, n_name = launcher_name(given->at + *at, left);
        if (n_name > 0) {
            words_remove(given, *at, n_name);
            continue;
        }
        TRY(refuse_launcher(job, *at));
        const char *const *words = given->at + *at;
        const int n = find_option(words[0], &option);
        if (n == 0 && words[0][0] == '-' && strcmp(words[0], "--") != 0) return raise_unknown(job, words[0]);
        if (n == 0) break;
        if (n >= 2 && n <= left) option.value = words[1];
        if (n == 3 && n <= left) option.more = words[2];
        if (n > left && n == 2) RAISE(ERR_USAGE, "%s needs a value; --help lists the options", words[0]);
        if (n > left)
            RAISE(ERR_USAGE, "%s needs a name and a value, such as: --mca btl_tcp_if_include eth0", words[0]);
        if (option.opt) TRY(add_typed(&option, list));
        *at += n;
    }
    return ERR_OK;
}

/* Sets the program's words from those at `at`; NUM_GPUS BATCH_PER_GPU HOSTFILE, of launch recipes for image networks, are
 * options, too. */
static err_t read_words(job_t *job, int at, typed_list_t *list)
{
    const char *const *words = job->given.at + at;
    int n = job->given.n - at;
    if (n > 0 && strcmp(word_base(words[0]), "dptrain") == 0) { /* as behind mpirun */
        words++;
        n--;
    }
    const char *name = n > 0 ? word_base(words[0]) : "", *dot = strrchr(name, '.');
    if (strncmp(name, "python", 6) == 0 || (dot && opt_is_among(dot, ".py|.sh"))) {
        const words_t program = {(const char **)words, n};
        RAISE(ERR_USAGE, "dptrain is the program, not %s: write %s", options_line(job, &program),
              suggest(job, job->n_own, NULL));
    }
    if (n >= 3 && *words[0] && *words[1] && !words[0][strspn(words[0], "0123456789")] &&
        !words[1][strspn(words[1], "0123456789")]) {
        typed_t np, hostfile;
        if (fs_is_folder(words[2]) || access(words[2], R_OK) != 0)
            RAISE(ERR_USAGE, "cannot read the hostfile %s", words[2]);
        TRY(check_number("NUM_GPUS", words[0], 1));
        TRY(check_number("BATCH_PER_GPU", words[1], 1));
        if (find_typed(list, "np")) RAISE(ERR_USAGE, "NUM_GPUS and -np both set the number of ranks");
        find_option("-np", &np);
        find_option("-hostfile", &hostfile);
        np.value = words[0];
        hostfile.value = words[2];
        TRY(add_typed(&np, list));
        TRY(add_typed(&hostfile, list));
        words_add_list(&job->words, "train", "--batch-per-rank", words[1], NULL);
        words += 3;
        n -= 3;
        for (int i = 0; i < 2 && n > 0; i++)
            if (strcmp(words[0], i == 0 ? "--" : "train") == 0) {
                words++;
                n--;
            }
    }
    for (int i = 0; i < n; i++) words_add(&job->words, words[i]);
    return ERR_OK;
}

/* Reads --config, if it is given. The command line wins: the file names hosts, and where ranks run, only if it does not. */
static err_t read_config(job_t *job, opt_group_t *groups, const typed_list_t *list)
{
    char *text = NULL;
    if (!job->options.config) return ERR_OK;
    for (int g = 0; g < N_GROUPS; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const char *key = groups[g].table[i].key;
            const bool settled = opt_is_among(key, sources)
                                     ? find_typed(list, sources) != NULL
                                     : opt_is_among(key, "bind-to|map-by") && find_typed(list, key);
            if (settled) groups[g].given |= (uint64_t)1 << i;
        }
    TRY(fs_read_text(job->options.config, MAX_CONFIG, &text));
    err_t err = opt_config_read(groups, N_GROUPS, text, job->options.config, &job->config_text);
    mem_free(&text);
    return err;
}

/* Adds what is passed on: first what the config file says, once each, then the command line's, which wins. */
static err_t add_all_passed(job_t *job, const opt_group_t *groups, const typed_list_t *list)
{
    for (int g = 0; g < N_GROUPS; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            if (!opt_is_among(opt->key, passed)) continue;
            typed_t option = {opt, job_text(job, "--%s", opt->key), NULL, NULL};
            memcpy(&option.value, (const char *)groups[g].values + opt->offset, sizeof option.value);
            if (!option.value) continue;
            if (strcmp(opt->key, "mca") == 0) {
                const size_t n = strcspn(option.value, " \t");
                const char *more = option.value + n + strspn(option.value + n, " \t");
                option.value = job_text(job, "%.*s", (int)n, option.value);
                option.more = *more ? more : NULL;
                /* mpirun refuses a setting that is given twice. */
                bool again = false;
                for (int k = 0; k < list->n; k++)
                    again |= list->at[k].opt == opt && strcmp(list->at[k].value, option.value) == 0;
                if (again) continue;
            }
            TRY(add_passed(job, &option));
        }
    for (int i = 0; i < list->n; i++)
        if (opt_is_among(list->at[i].opt->key, passed)) TRY(add_passed(job, &list->at[i]));
    return ERR_OK;
}

/* Sets the values: defaults, then the command line's, then the config file's. */
static err_t set_values(job_t *job, const typed_list_t *list)
{
    opt_group_t groups[N_GROUPS];
    words_t words = {0};
    launch_values_t *values = &job->options;
    for (int g = 0; g < N_GROUPS; g++) {
        groups[g] = tables[g];
        groups[g].values = values;
    }
    TRY(opt_defaults(groups, N_GROUPS));
    values->restarts = -1;
    for (int i = 0; i < list->n; i++) {
        const typed_t *option = &list->at[i];
        if (!opt_is_among(option->opt->key, passed))
            words_add(&words, job_text(job, "--%s=%s", option->opt->key, option->value));
    }
    err_t err = opt_parse(groups, N_GROUPS, words.n, (char **)words.at, NULL, 0, NULL);
    words_free(&words);
    if (err == ERR_OK) err = read_config(job, groups, list);
    TRY(err);
    for (int g = 0; g < N_GROUPS; g++)
        for (int i = 0; i < groups[g].n; i++) {
            const opt_t *opt = &groups[g].table[i];
            const char **value = (const char **)(void *)((char *)values + opt->offset);
            if (opt->type != OPT_STRING || !*value || **value) continue;
            if (!opt_is_among(opt->key, "include|exclude|mpi-args")) return raise_empty(opt);
            *value = NULL; /* a filter may be empty */
        }
    const char *second = values->hosts_command ? values->hosts_command : values->host;
    if ((values->hostfile && second) || (values->hosts_command && values->host))
        RAISE(ERR_USAGE, "hosts given twice: %s and %s", values->hostfile ? values->hostfile : values->host,
              second);
    /* A single name is a list, too; hosts_read would take it for a file. */
    if (values->host && !strpbrk(values->host, ":,")) values->host = job_text(job, "%s:1", values->host);
    job->source = values->hostfile ? values->hostfile : values->host;
    if (values->ports) TRY(check_ports(job));
    return add_all_passed(job, groups, list);
}

err_t options_read(job_t *job, int argc, char **argv)
{
    typed_list_t list = {0};
    err_t err = ERR_OK;
    int at;
    for (int i = 0; i < argc; i++) words_add(&job->given, argv[i]);
    TRY_OUT(err, read_typed(job, &list, &at));
    const char *ask = getenv("DPTRAIN_ASK_SECONDS");
    if (ask && *ask) TRY_OUT(err, check_number("DPTRAIN_ASK_SECONDS", ask, 1));
    job->n_own = at;
    if (at < job->given.n && strcmp(job->given.at[at], "--") == 0) at++;
    TRY_OUT(err, read_words(job, at, &list));
    err = set_values(job, &list);
out:
    mem_free(&list.at);
    return err;
}
