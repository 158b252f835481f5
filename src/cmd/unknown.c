/* SPDX-License-Identifier: MIT */
/* Words that name no command or verb: what to type instead. */
#include <stdio.h>
#include <string.h>

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
static void add(char *list, size_t n_bytes, const char *command, const char *verb)
{
    size_t used = strlen(list);
    snprintf(list + used, n_bytes - used, "%sdptrain %s%s%s", used ? " or " : "", command, verb[0] ? " " : "",
             verb);
}

err_t cmd_unknown(const char *word)
{
    const char *names[32];
    char list[256] = "";
    int n = 0;
    for (const cmd_t *cmd = cmds; cmd->name; cmd++) {
        names[n++] = cmd->name;
        if (opt_is_among(word, cmd->verbs)) add(list, sizeof list, cmd->name, word);
    }
    for (size_t i = 0; !list[0] && i < sizeof meant / sizeof *meant; i++)
        if (opt_is_among(word, meant[i].words)) add(list, sizeof list, meant[i].command, "");
    if (list[0]) RAISE(ERR_USAGE, "unknown command '%s'; write %s", word, list);
    const char *nearest = opt_nearest(word, names, n);
    if (nearest) RAISE(ERR_USAGE, "unknown command '%s'; did you mean '%s'?", word, nearest);
    RAISE(ERR_USAGE, "unknown command '%s'; dptrain --help lists them", word);
}

err_t cmd_unknown_verb(const char *command, const char *word, const char *const *verbs)
{
    char list[128];
    int n = 0;
    opt_join(verbs, ", ", list, sizeof list);
    while (verbs[n]) n++;
    const char *nearest = word[0] ? opt_nearest(word, verbs, n) : NULL;
    if (nearest)
        RAISE(ERR_USAGE, "dptrain %s: unknown verb '%s'; did you mean '%s'?", command, word, nearest);
    if (!word[0]) RAISE(ERR_USAGE, "dptrain %s: expected a verb: %s", command, list);
    RAISE(ERR_USAGE, "dptrain %s: unknown verb '%s'; expected one of %s", command, word, list);
}
