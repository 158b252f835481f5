/* SPDX-License-Identifier: MIT */
/* A job and its hosts, as the files of src/launch share them. Private to this room.
 *
 * Errors of the user's words, files and hosts are raised (ERR_USAGE, ERR_DATA, ERR_SYSTEM, ERR_PEER) and printed by launch_run. Texts
 * live in an arena of the job or of its current start; without memory the launcher ends, and the job with it (launch_start_child). */
#ifndef LAUNCH_JOB_H
#define LAUNCH_JOB_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/process.h"
#include "cluster/hosts/hosts.h"
#include "text/json.h"
#include "text/opt.h"

/* ---- Texts ---- */
/* Words of a command line; NULL-terminated, so that exec takes them. Texts are borrowed. */
typedef struct words {
    const char **at;
    int n;
} words_t;

void words_add(words_t *words, const char *word);
void words_add_all(words_t *words, const words_t *more);
/* Adds words up to a NULL. */
void words_add_list(words_t *words, ...) __attribute__((sentinel));
/* Removes `n` words from `at` on. */
void words_remove(words_t *words, int at, int n);
bool words_have(const words_t *words, const char *word);
void words_free(words_t *words);
void words_sort(words_t *words);
/* The value of the last `NAME VALUE` or `NAME=VALUE`; NULL: none. */
const char *words_value(const words_t *words, const char *name);
/* Words that need not be freed, for one call. */
#define WORDS(...)                                                                                           \
    (&(const words_t){(const char *[]){__VA_ARGS__, NULL},                                                   \
                      (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *))})

/* A whole number in [0, 10^15) without anything around it; false: it is not one. Leading zeros are fine. */
bool word_number(const char *text, int64_t *out);
/* What follows the last slash. */
const char *word_base(const char *path);
/* Letters, digits, dots, dashes and underscores, not beginning with a dash; not empty. */
bool word_is_name(const char *text);

/* ---- What a host answers ---- */
enum { ANSWER_NAME = 256, ANSWER_ADDRESSES = 256, ANSWER_LINES = 64 };

typedef struct address {
    char interface[64], text[48]; /* an address of IPv4 or IPv6 */
    int bits;                     /* of its subnet's prefix */
    int64_t mbits_per_sec;        /* of the interface; 0: unknown */
} address_t;

typedef enum folder_seen { FOLDER_NONE, FOLDER_OF_JOB, FOLDER_WITH_RECORDS } folder_seen_t;

/* The lines `KEY VALUE…` of the script that a host runs (host.sh); what is not of this form is not kept. Texts are "" and numbers -1
 * if the host did not say them. */
typedef struct answer {
    bool complete; /* it said all of it */
    char name[ANSWER_NAME], shell[ANSWER_NAME], machine[ANSWER_NAME], program[ANSWER_NAME], full[ANSWER_NAME];
    bool has_wdir, has_daemon, has_no_ip, lacks_data;
    bool is_alive, is_stopped;   /* ranks are there; none of them runs */
    int64_t port_low, port_high; /* ephemeral ports */
    int64_t n_cores, n_gpus;     /* what a job may use there */
    address_t *addresses;
    int n_addresses;
    bool has_efa, has_ib, has_roce; /* ready */
    const char *ofi;                /* the first folder of aws-ofi-nccl; NULL: none */
    words_t gpu_cpus;        /* of each GPU, in the order of their bus, the CPUs near it: "0-7,16-23" */
    folder_seen_t folder;    /* what it sees of the run's folder */
    int64_t newest;          /* step of the newest checkpoint there */
    int64_t check;           /* exit code of dptrain check */
    words_t fails;           /* of its checks: "gpu, GPUs: GPU 1 fell off the bus" */
    words_t same;            /* NAME VALUE that all hosts must have: NCCL, config, OpenMPI */
    words_t phases;          /* RANK PHASE of ranks that were killed */
    char swept[ANSWER_NAME]; /* what was removed there */
} answer_t;

/* Reads an answer. `arena` keeps its lists; free them with answer_free. */
void answer_read(const char *text, size_t n_bytes, const char *ofi_folders, arena_t *arena, answer_t *out);
void answer_free(answer_t *answer);

/* ---- Hosts ---- */
typedef struct node {
    const char *name;     /* as the list of hosts has it */
    const char *own_name; /* as it called itself at an earlier start; NULL: unknown */
    const char *alias;    /* for mpirun and ssh */
    int slots, ranks;     /* slots 0: as the host says */
    const int *gpu_ids;   /* ids of its GPUs */
    int n_gpu_ids;        /* 0: not given */
    int port;             /* of sshd; 0: not given */
    const char *user, *key_file, *env_file, *setup; /* NULL: not given */
    const host_env_t *envs;
    int n_envs;
    bool is_local;
    double patience_sec; /* to answer; below 0: as long as the others; 0: it is not asked */
    answer_t answer;
    int code;              /* of the shell that asked it; 124: no answer in time */
    const char *said;      /* the last text on its standard error, printable */
    const char *interface; /* for the job's network; NULL: unknown */
    words_t flags;         /* mpirun's words for this host alone: -x NAME=VALUE */
    words_t hidden;        /* NAME=VALUE for this host alone, not for command lines */
} node_t;

/* ---- Options ---- */
typedef struct launch_values {
    int64_t np, num_gpus, nnodes, ssh_port, restarts, min_ranks, wait_hosts, cool_down, timeout_start,
        grace; /* restarts -1: none */
    const char *hostfile, *host, *include, *exclude, *chief, *wdir, *launcher, *interface, *transport, *ports;
    const char *hosts_command, *log_dir, *bind_to, *map_by, *mpi_args, *env_file, *x, *mca, *config;
    bool tree_spawn, checks, report_bindings, dry_run;
} launch_values_t;

typedef enum how { BY_SSH, BY_SRUN } how_t; /* other hosts are reached */
typedef enum transport { TRANSPORT_TCP, TRANSPORT_IB, TRANSPORT_EFA } transport_t;

/* What is known of a fault of a start. */
typedef struct fault {
    double at_sec; /* first sign, by clock_sec; 0: none */
    char what[ERR_MESSAGE_MAX], host[ANSWER_NAME], phase[ANSWER_NAME];
    int64_t rank; /* -1: unknown */
} fault_t;

typedef struct supervisor supervisor_t; /* of --restarts */

typedef struct job {
    const char *called_as, *speaker; /* "scripts/run.sh" and "run.sh:", before messages */
    launch_values_t options;
    words_t given;       /* the command line as typed, behind called_as */
    int n_own;           /* of them, the launcher's options; a -- that ends them is none */
    words_t x;           /* -x NAME[=VALUE], also those of --mpi-args */
    words_t env_files;   /* --env-file */
    words_t flags_given; /* --mca NAME VALUE, --bind-to and --map-by WHERE, --mpi-args: words for mpirun */
    words_t mca_given;   /* names of the settings among them */
    bool places_given;   /* they say where ranks run */
    int low_port, high_port; /* --ports; 0: not given */
    const char *source;      /* the description of hosts; NULL: none */
    const char *device;      /* the program's --device, if it is known; NULL: not */
    bool is_again;           /* this is not the first start */

    words_t words; /* for the program */
    const char *program, *program_name;
    const char *prefix;      /* folder of a bundle that has mpirun and its daemon; NULL: none */
    const char *host;        /* this one's name */
    const char *here, *wdir; /* the current folder, and the ranks'; absolute */
    char id[64];             /* names the job, over hosts and starts: its ranks have it as DPTRAIN_JOB */

    arena_t arena, start; /* of the job, and of its current start */
    arena_t answers;      /* of the last question to the hosts (ask_hosts) */
    int until_fd;         /* a question ends when this becomes readable; -1: none */
    bool is_deaf;         /* signals do not end a question */
    hosts_t table;
    node_t *nodes;
    int n_nodes; /* 0: this machine alone, without a list */
    how_t how;
    words_t ssh; /* ssh's options */
    bool ssh_own_config,
        ssh_all_ways; /* a configuration on this host only; every host can log in to every other */
    bool probed;
    char *config_text;       /* holds the values of --config; owned */
    char *hosts_text;        /* of --hosts-command's last success; owned */
    const char *ofi_folders; /* that may have aws-ofi-nccl (ask_ofi_folders) */
    words_t pipes;           /* PATH TEXT of the pipes that were read, in turn */
    words_t slots_said;      /* messages about slots that were printed */

    int np;
    int mpi_major;      /* of OpenMPI: 4 has ORTE and vader, 5 has PRRTE and sm */
    const char *subnet; /* of the network, or an interface's name; NULL: none */
    transport_t transport;
    words_t mpi_flags, part_flags;
    words_t env;    /* NAME (with its value here) or NAME=VALUE for the ranks, which the launcher chose */
    words_t hidden; /* NAME=VALUE of users: not for command lines */
    int n_bundles;
    words_t command, trial; /* the ranks' start; mpirun's words to try it with another program */
    bool near_gpus;         /* ranks are bound near their GPUs */

    int stopped_by;      /* the signal that the user sent; 0: none */
    words_t phases;      /* RANK PHASE of ranks that were killed at the end of a start */
    words_t suspects;    /* hosts that may not answer */
    words_t families;    /* FAMILY:PID of mpirun's daemons that may be left, HOST, in turn */
    int64_t timeout_sec; /* the program's --timeout; 0: not asked yet */

    char work[FS_PATH_MAX];        /* folder for temporary files; "": none */
    int work_fd;                   /* it, locked while the launcher lives; 0 or -1: none */
    char session[FS_PATH_MAX];     /* holds the folder of OpenMPI's sessions; "": none */
    int log_fd;                    /* --log-dir's run.sh.log; 0 or -1: none */
    supervisor_t *supervisor;      /* NULL: without --restarts */
    void (*look)(struct job *job); /* called every look_sec while the ranks run; NULL: not */
    double look_sec;
} job_t;

/* Whether ranks run on other hosts. */
static inline bool job_is_spread(const job_t *job)
{
    return job->n_nodes > 1 || (job->n_nodes == 1 && !job->nodes[0].is_local);
}

/* Whether this machine is one of the nodes. */
static inline bool job_has_local_node(const job_t *job)
{
    bool has = false;
    for (int i = 0; i < job->n_nodes; i++) has |= job->nodes[i].is_local;
    return has;
}

const char *text_in(arena_t *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Format a text that lives as long as the job, its current start, or the answers to a question. */
#define job_text(job, ...)   text_in(&(job)->arena, __VA_ARGS__)
#define start_text(job, ...) text_in(&(job)->start, __VA_ARGS__)
#define ask_text(job, ...)   text_in(&(job)->answers, __VA_ARGS__)
/* As it is typed in bash (fs_quote). */
const char *text_quoted(arena_t *arena, const char *word);
const char *words_join(arena_t *arena, const words_t *words, const char *separator);
/* Ends the launcher if `err` is one, which only a lack of memory makes it. */
void launch_need(err_t err);

/* A message for the user, on standard error and in --log-dir: "run.sh: …". Standard error may be closed. */
void say(job_t *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- Files of the room, in the order of a start ---- */
/* options.c: reads the command line; sets options, given, x …, source and words. ERR_USAGE. */
err_t options_read(job_t *job, int argc, char **argv);
/* The words as they may be shown: of -x the names alone, since a value may be secret. Appends them to `out`. */
void options_shown(job_t *job, const words_t *words, words_t *out);
/* Joins words, each as it is typed in a shell. */
const char *options_line(job_t *job, const words_t *words);

/* hosts.c: whether the job has a list of hosts, of its options or an allocation; sets source if it is one of files. */
bool hosts_given(job_t *job);
/* Nodes from the source or the allocation; none for a job on this machine alone. After hosts_clear. */
err_t hosts_find(job_t *job);
void hosts_clear(job_t *job);
/* Slots of n nodes in their order, from SLURM_TASKS_PER_NODE such as 2(x3),1; 1 where it does not say. */
void hosts_slurm_slots(const char *text, int *out, int n);
/* Whether the job's command or its options rule GPUs out. */
bool hosts_use_no_gpus(const job_t *job);
/* Gives nodes without slots theirs, from their answers: one per GPU if the job uses GPUs and the host has some, otherwise one per core. */
void hosts_fill_slots(job_t *job);
/* Sets np by the same rule for a job on this machine alone. */
err_t hosts_count_here(job_t *job);
/* Assigns np ranks (0: one per slot) to nodes in their order, and sets np; nodes without ranks are dropped. */
err_t hosts_share(job_t *job);
/* Keeps these nodes, in this order. */
void hosts_select(job_t *job, const int *index, int n);
/* Sets how the hosts are reached, and which of them are this machine. */
err_t hosts_reach(job_t *job);
/* Writes the configuration of ssh that this job needs, again if a cleaner of temporary files has removed it. */
err_t hosts_write_config(job_t *job);
/* The node of a rank; NULL: this machine. */
const node_t *hosts_of_rank(const job_t *job, int64_t rank);
/* Whether one of the names, which may be those that hosts call themselves, is this node's. */
bool hosts_listed(const node_t *node, const words_t *names);

/* ask.c: runs a part of host.sh on all nodes side by side, and reads their answers. A signal ends it (signals_pending).
 *
 *   part       the function of host.sh that is called with the arguments
 *   sec        that a host has to answer
 *   arguments  one text each, quoted for the shell */
err_t ask_hosts(job_t *job, const char *part, const words_t *arguments, double sec);
/* Why a node did not answer, with advice, for a message: "refused: no sshd listens on port 22 -> on a: start sshd". */
const char *ask_cause(job_t *job, const node_t *node, double sec);
/* Probes all hosts; ERR_SYSTEM if the job cannot run on some, naming each. Or asks them only for their slots. */
err_t probe_hosts(job_t *job);
err_t probe_slots(job_t *job);
/* Why the job cannot run on a node, a reason per line; NULL: it can. `hash` is that of the program here. */
const char *probe_judge(job_t *job, const node_t *node, const char *hash);
double probe_sec(void); /* DPTRAIN_ASK_SECONDS */
/* ERR_USAGE for one host under two names, which would get the ranks of both. */
err_t probe_twins(const job_t *job);
/* SHA-256 of the program here. */
err_t launch_hash(job_t *job, const char **out);
/* Folders that may have aws-ofi-nccl. */
const char *ask_ofi_folders(job_t *job);

/* environment.c: the ranks' environment: sets env, hidden, and flags and hidden of the nodes. */
err_t env_check(void); /* DPTRAIN_SECRET_PATTERN */
err_t env_collect(job_t *job);
bool env_is_secret(const char *name);
/* In a list of NAME and NAME=VALUE: the entry with the name of `word`, -1: none; removes it. */
int env_find(const words_t *list, const char *word);
void env_drop(words_t *list, const char *word);
/* Adds a variable for the ranks unless it has a value already. */
void env_default(job_t *job, const char *name, const char *value);
/* Puts NAME=VALUE lines into one variable of this process, which the ranks' wrapper reads. Returns its name; NULL without lines. */
const char *env_bundle(job_t *job, const words_t *lines);
/* As env_bundle, with all lines for a node. */
const char *env_bundle_node(job_t *job, const node_t *node);

/* network.c: interface, transport and ports; adds to mpi_flags, env and the nodes' flags. */
err_t network_choose(job_t *job);
err_t network_ports(job_t *job);

/* ranks.c: mpirun's flags for np ranks of this machine, or (0) for hosts; and the command that starts the ranks. */
void mpi_flags(job_t *job, int np);
/* A setting of the runtime: ORTE in OpenMPI 4, PRRTE in 5. */
void mpi_runtime_flag(job_t *job, const char *name_in_4, const char *name_in_5, const char *value);
bool ranks_bind_to_gpus(job_t *job);
err_t ranks_compose(job_t *job);
/* Cores, not hardware threads, that this process may use. */
int ranks_cores(void);
/* Part k of n of a list of CPUs like 0-15,64-79; divides every range, so that the threads of a core stay together. */
const char *ranks_cpu_share(job_t *job, const char *list, int k, int n);

/* ---- work.c: files ---- */
/* $TMPDIR, or /tmp. */
const char *job_temp_folder(void);
/* The folder for temporary files, again if a cleaner has removed it. Its files: ssh_config, asked, uri. */
err_t job_make_work(job_t *job);
void job_leave_work(job_t *job);
/* Keeps OpenMPI's folder of sessions; ERR_SYSTEM if it is another user's. */
err_t job_hold_session(job_t *job);
/* ERR_SYSTEM unless MPI has the space that it needs at start. */
err_t job_check_space(const job_t *job);
bool job_is_full(const job_t *job);

/* Files in a folder that others can write, or on a server: no link is followed, and every call has a deadline. Numbers are errnos, 0:
 * none; ETIMEDOUT: no answer. */
/* Opens a regular file of this user or root; *fd -1: there is none. ERR_DATA for another kind or owner, ERR_SYSTEM. `option`: names
 * the file. */
err_t own_open(const char *path, int flags, const char *option, int *fd, int64_t *n_bytes);
int own_read(int fd, int64_t offset, char *out, size_t n_bytes, size_t *n_read);
int own_append(int fd, const char *text, size_t n_bytes);
int own_lock(int fd);                   /* flock, without waiting */
int64_t own_newest(const char *folder); /* step of the newest checkpoint; -1: none */
err_t own_folder(const char *path, bool *is_new);

/* ---- child.c: signals and children ---- */
/* SIGTERM, SIGINT, SIGHUP and SIGUSR1 are queued from now on, and end waits. */
void signals_open(void);
/* The next one; 0: none. */
int signals_take(void);
/* Sets stopped_by: the first signal counts, and SIGUSR1 less than others. */
void job_note_signal(job_t *job, int number);
bool signals_pending(void);
/* A descriptor that is readable while one is pending. */
int signals_fd(void);
/* "TERM", "KILL", …, or "unknown". */
const char *signals_name(int number);

/* Starts words[0] with a session of its own. The kernel ends it by SIGTERM if this thread, the first, ends, unless a guard does. ERR_SYSTEM.
 *
 *   fds          descriptors 0, 1 and 2 of the child; -1: /dev/null for 0, this process's own for the others
 *   environment  NULL: this process's */
err_t launch_start_child(const words_t *words, const int fds[3], char *const *environment, bool is_guarded,
                         pid_t *out);
/* If this process ends, however it does, a guard sends this child SIGTERM; 0: no child any more. Say so before waitpid, after which the number
 * may be another process's. */
void guard_watch(pid_t pid);
void guard_close(void);
/* A descriptor that becomes readable when the child ends; -1: this kernel has none. */
int launch_pidfd(pid_t pid);
/* 128 + signal, or the exit code. */
int launch_exit_code(int status);

enum {
    NO_ANSWER = 124,
    TALKS_AT_ONCE = 128,
    QUIET_SEC = 5
}; /* QUIET_SEC: then the launcher says for whom it waits */

/* A child whose output is collected, and which gets an input. */
typedef struct talk {
    pid_t pid;         /* 0: none, or it has ended */
    int watch, fds[3]; /* pidfd; ends of its pipes; -1: none */
    size_t n_sent;
    char *text[3]; /* what it printed, on descriptors 1 and 2; NULL: nothing */
    size_t n[3];
    double until; /* then it is ended; after that, killed */
    bool is_late;
    int code; /* as launch_exit_code; NO_ANSWER: it was late */
} talk_t;

err_t talk_start(talk_t *talk, const words_t *words, bool has_input, bool keeps_errors,
                 char *const *environment, double sec);
/* Moves inputs and outputs on, until something happens: at them, a signal, or `also` (-1: none) becomes readable. `most`: bytes of
 * output that are kept. */
void talk_poll(talk_t *const *talks, int n, const char *input, size_t n_input, size_t most, int also);
/* Whether the child has ended; then its output and code are complete. */
bool talk_ended(talk_t *talk, size_t most);
/* Kills it if it runs. */
void talk_free(talk_t *talk);

/* Sleeps until a signal. */
void launch_nap(double sec);

/* Runs a command for at most `sec`, and collects the first max_bytes of its standard output; mem_free *out. Standard error is dropped
 * unless `keeps_errors`. *code: as launch_exit_code, or NO_ANSWER. A signal shortens the wait. */
err_t launch_output(job_t *job, const words_t *words, double sec, size_t max_bytes, bool keeps_errors,
                    char **out, int *code);

/* What the program prints with --print-config, as launch_output; and an option's value in it, as the program has resolved it, NULL: it is
 * not set (or `config` is NULL). */
err_t config_ask(job_t *job, double sec, bool keeps_errors, char **out, int *code);
const char *config_value(job_t *job, const char *config, const char *name);
/* The text of a file that the user names, up to a size, in the start's arena. A pipe, such as <(command) in a shell, is read once, by a
 * process of its own, for at most a minute; later starts get the same text. ERR_USAGE. */
err_t user_text(job_t *job, const char *path, size_t max_bytes, const char **out);

/* ---- The job's life ---- */
/* output.c */
enum {
    LAST_BYTES = 16 << 10,  /* of the output, which say where an interrupted run stands */
    SAID_BYTES = 256 << 10, /* of OpenMPI's messages */
    MAX_SILENT = 256,       /* hosts */
};

/* What two threads forward from the ranks, and what they have seen in it. */
typedef struct output {
    pthread_mutex_t lock;
    pthread_t threads[2];
    int fds[2]; /* the read ends */
    int n_joined;
    bool is_over;        /* the threads note nothing any more, and no lock is needed */
    atomic_bool started; /* rank 0 has printed something */
    atomic_int gone;     /* why the output cannot be written any more, an errno; 0: it can */
    char last[LAST_BYTES + 1];
    size_t n_last;
    char said[SAID_BYTES]; /* OpenMPI's own messages */
    size_t n_said;
    char spoke[ERR_MESSAGE_MAX]; /* the first error of a rank */
    bool has_spoken, no_mpi, is_elsewhere;
    char silent[MAX_SILENT][ANSWER_NAME]; /* hosts that do not answer, as ranks say */
    int n_silent;
    double ends_at; /* first sign of an end, by clock_sec; 0: none */
} output_t;

/* Starts the threads. child: the write ends of the ranks' standard output and error. */
err_t output_open(output_t **out, int child[2]);
/* Waits a while for the rest, when mpirun has ended. */
void output_end(output_t *out);
/* Keeps it for a thread that a stray process still writes to. */
void output_close(output_t *out);
bool output_has_finished(const output_t *out); /* the run's last words */

/* How the first rank or host was lost, as mpirun or srun says. */
typedef enum lost { LOST_NOTHING, LOST_HOST, LOST_SIGNAL, LOST_LEFT, LOST_CODE } lost_t;
typedef struct loss {
    lost_t how;
    int64_t rank, code; /* rank -1: unknown; code: the signal of LOST_SIGNAL */
    char host[ANSWER_NAME];
} loss_t;
loss_t output_loss(const output_t *out, int code); /* code: mpirun's or srun's */
/* The rank and its host, or the phase, that a message names. */
bool output_rank_in(const char *text, int64_t *rank, char host[ANSWER_NAME]);
bool output_phase_in(const char *text, char phase[ANSWER_NAME]);

/* job.c: starts the ranks, and supervises them to their end. Returns the job's exit code; *fault says what is known. */
int job_run(job_t *job, fault_t *fault);
bool job_is_training(const job_t *job); /* its words are dptrain train's */
/* Prints the command that continues the job: the one that was typed, or the same with these words instead of its options for the run's
 * folder. */
void job_say_continue(job_t *job, const char *with);
/* life.c: the record of a supervised job in its folder, and what those of its run say. */
/* A job that has no end in the record: its supervisor was killed. */
typedef struct life_job {
    bool is_open;
    char id[64], time[32], place[ANSWER_NAME]; /* of its supervisor: host, boot and space of process ids */
    int64_t pid, start_time, metrics_bytes, n_starts, first_ranks;
    double down_sec;
} life_job_t;

typedef struct life {
    job_t *job;
    char folder[FS_PATH_MAX], path[FS_PATH_MAX], metrics[FS_PATH_MAX];
    int fd;            /* locked; -1: the record is lost */
    double origin_sec; /* `sec` of the records counts from here, by clock_sec */
    bool is_new;       /* the folder was made by life_open */
    bool is_locked;
    life_job_t begun;
    json_t json;
} life_t;

/* ERR_USAGE if another supervisor is alive there; ERR_DATA "FILE:LINE: …" if a line is not a job record. */
err_t life_open(job_t *job, const char *folder, life_t *life);
/* After the first record: where files cannot be locked, the last of several supervisors that begin at once has the job. ERR_USAGE for
 * the others. */
err_t life_confirm(life_t *life);
/* Begins a record of a kind (record_kind_t); the caller adds its fields and calls life_end. */
json_t *life_begin(life_t *life, int kind);
void life_number(life_t *life, const char *key, double sec); /* NAN: null */
void life_end(life_t *life);
void life_lose(life_t *life, const char *why);
/* `removes`: the file too, and its folder if nothing else is in it. */
void life_close(life_t *life, bool removes);
/* Host, boot and space of process ids of this process. */
void life_place(char out[ANSWER_NAME]);

/* Of the records of a run from a byte on (below 0: those of the last megabyte): the first run, the last step, the reason of the last
 * end. -1 and "": none. */
typedef struct life_seen {
    bool has_run;
    int64_t first_step, last_step;
    char resumed_from[FS_PATH_MAX], reason[64];
} life_seen_t;
void life_look(const life_t *life, int64_t from, life_seen_t *seen);

/* The steps whose results were kept, and those that were computed for nothing. */
typedef struct life_steps {
    double good_sec, lost_sec;
    int64_t n_good, n_lost;
} life_steps_t;
/* From a byte on; at the end, steps from `kept` on are lost (-1: none). False: there are no records. */
bool life_count(const life_t *life, int64_t from, int64_t kept, life_steps_t *steps);
/* Bytes of whole lines in metrics.jsonl, of which a full disk or a kill may have torn the last one. */
int64_t life_size(const life_t *life);

/* What a supervisor knows of a host. */
typedef struct supervisor_host {
    const char *name, *own_name; /* own_name: as it calls itself; NULL: unknown */
    const char *why;             /* it was left out last; NULL: never */
    int n_gpus;                  /* at its first start; -1: unknown */
    double left_out_until;       /* by clock_sec */
} supervisor_host_t;

/* A job with --restarts. Numbers of options that are not set are 0. */
struct supervisor {
    job_t *job;
    life_t life;
    words_t words;                      /* the program's, as typed */
    char earlier_id[72];                /* " ID" of the job under a supervisor on another host; "": none */
    const char *resume, *data, *folder; /* --resume, --data (NULL: no path), --out */
    const char *chief;                  /* host of rank 0 at the last start; "": this one; NULL: none yet */
    const char *final;                  /* why no other start can succeed; NULL: it may */
    bool overwrites, is_own_folder, scales_lr;
    bool is_lenient; /* also the first start waits for hosts */
    bool trains;     /* this start has recorded a step */
    int64_t lr_batch, global_batch, per_rank, parts, shards, group;
    int64_t first_ranks; /* ranks of the first start; 0: none yet */
    int64_t newest;      /* step of the newest checkpoint; -1: none */
    int64_t n_starts, n_restarts, n_used,
        n_steps; /* n_used: restarts without a new checkpoint; n_steps -1: unknown */
    int64_t metrics_bytes, metrics_at, n_looks; /* of metrics.jsonl before the job, and before this start */
    double since, fault_at, down_sec;           /* by clock_sec; fault_at 0: it trains */
    supervisor_host_t *hosts;
    int n_hosts;
};

/* prepare.c: a start's hosts, environment, network and command. A signal ends it early, without an error. */
err_t launch_prepare(job_t *job);

#endif
