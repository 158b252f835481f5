/* SPDX-License-Identifier: MIT */
/* Dispatches to a subcommand of registry.c, says what to type instead of an unknown one, and answers --version. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "base/log.h"
#include "base/version.h"
#include "cluster/watch/deadline.h"
#include "cmd/cmd.h"

/* Words for what dptrain does under other names, joined by |. Verbs of a command need no row. */
static const struct {
    const char *words, *command;
} meant[] = {
    {"fit|learn|finetune|fine-tune", "train"},
    {"resume|continue", "train --out DIR --resume auto"},
    {"test|validate|val|evaluate|evaluation|accuracy", "eval"},
    {"score", "eval --results FILE.json --data SRC"},
    {"infer|inference|classify|recognize|detect", "predict"},
    {"save|convert|weights", "checkpoint export"},
    {"inspect", "checkpoint show"},
    {"benchmark|benchmarks|perf|measure", "bench all --quick"},
    {"comm|allreduce|all_reduce|all_reduce_perf", "bench comm"},
    {"gemm|matmul", "bench gemm"},
    {"conv", "bench conv"},
    {"mem|memory", "bench mem"},
    {"io|disk", "bench io"},
    {"step|throughput|speed", "bench step"},
    {"summary|results|metrics|log|logs", "report"},
    {"diff", "report compare"},
    {"plot|chart|charts|graph", "report html"},
    {"dataset|datasets", "data"},
    {"prepare|preprocess|import", "data pack"},
    {"digits|generate", "data synth"},
    {"doctor|diagnose|preflight|selftest|status", "check"},
    {"nodes|cluster", "hosts"},
    {"list|ls|models|devices|gpus|env|layers", "info"},
    {"launch|start|submit|mpirun|mpiexec|srun|torchrun|horovodrun|deepspeed|accelerate", "run"},
    {"ssh|setup", "ssh-setup"},
    {"nccl-tests|nccl", "nccl-bw"},
    {"config|settings", "train --print-config"},
    {"commands|options|man|usage", "--help"},
};

/* Appends a command, behind "or" if it is not the first. */
static void add_command(char *list, size_t n_bytes, const char *command, const char *verb)
{
    size_t used = strlen(list);
    snprintf(list + used, n_bytes - used, "%sdptrain %s%s%s", used ? " or " : "", command, verb[0] ? " " : "",
             verb);
}

/* Raises ERR_USAGE with what to type instead. */
static err_t raise_unknown(const char *word)
{
    const char *names[32];
    char list[256] = "";
    int n = 0;
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) {
        names[n++] = cmd->name;
        if (opt_is_among(word, cmd->verbs)) add_command(list, sizeof list, cmd->name, word);
    }
    for (size_t i = 0; !list[0] && i < sizeof meant / sizeof *meant; i++)
        if (opt_is_among(word, meant[i].words)) add_command(list, sizeof list, meant[i].command, "");
    if (list[0]) RAISE(ERR_USAGE, "unknown command '%s'; write %s", word, list);
    const char *nearest = opt_nearest(word, names, n);
    if (nearest) RAISE(ERR_USAGE, "unknown command '%s'; did you mean '%s'?", word, nearest);
    RAISE(ERR_USAGE, "unknown command '%s'; dptrain --help lists them", word);
}

static const cmd_t *find_command(const char *name)
{
    for (const cmd_t *cmd = cmds; cmd->name; cmd++)
        if (strcmp(cmd->name, name) == 0) return cmd;
    return NULL;
}

/* Runs a command with the words that follow its name in `words`. `data --help pack` is `data pack --help`. */
static err_t run_command(const cmd_t *cmd, int n, char **words, void (*abort_job)(err_t code))
{
    if (n > 2 && cmd_is_help(words[1]) && opt_is_among(words[2], cmd->verbs)) {
        char *help = words[1];
        words[1] = words[2];
        words[2] = help;
    }
    const cmd_context_t context = {n - 1, words + 1, {cmd->name}, abort_job};
    if (cmd->local) deadline_enter(DEADLINE_RUN, "");
    return cmd->run(&context);
}

/* `help`, --help and -h stand alone or before the name of a command and a topic of its help. */
static err_t run_words(int argc, char **argv, void (*abort_job)(err_t code))
{
    const char *word = argc > 1 ? argv[1] : "";
    err_t err = isa_check();
    if (err != ERR_OK) return cmd_fail(err);
    if (strcmp(word, "help") == 0 || cmd_is_help(word)) {
        static char help[] = "--help";
        const char *name = argc > 2 ? argv[2] : "";
        if (name[0] == '\0' || name[0] == '-' || opt_is_among(name, "all|help|version"))
            return cmd_help_commands(argv[1], cmds);
        const cmd_t *cmd = find_command(name);
        if (!cmd) return cmd_fail(raise_unknown(name));
        argv[1] = argv[2];
        argv[2] = help;
        return run_command(cmd, argc - 1, argv + 1, abort_job);
    }
    if (strcmp(word, "version") == 0 || strcmp(word, "--version") == 0) {
        if (log_speaks())
            print_out("dptrain %s (%s, %s)\n", version_number, version_git_hash, version_compiler);
        return ERR_OK;
    }
    if (word[0] == '-' || argc < 2) {
        const cmd_context_t context = {argc - 1, argv + 1, {"train"}, abort_job};
        return cmd_train(&context);
    }
    const cmd_t *cmd = find_command(word);
    return cmd ? run_command(cmd, argc - 1, argv + 1, abort_job) : cmd_fail(raise_unknown(word));
}

err_t cmd_dispatch(int argc, char **argv, void (*abort_job)(err_t code))
{
    TRY(run_words(argc, argv, abort_job));
    /* A full disk or a quota. Commands whose output is a document have checked it before. */
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) return ERR_OK;
    return cmd_fail(err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot write standard output: %s",
                              errno ? strerror(errno) : "part of it is lost; is the disk full?"));
}
