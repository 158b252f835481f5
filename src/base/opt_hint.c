/* SPDX-License-Identifier: MIT */
/* Options of other programs: what to write instead of them, or that they can be left out. */
#include <stdio.h>
#include <string.h>

#include "base/opt.h"

enum { MAX_WORD = 64 };

/* PyTorch's examples and references, timm, Horovod's examples, Lightning, DeepSpeed; nccl-tests and perf tools. */
static const struct {
    const char *words; /* joined by |, with dashes for underscores */
    const char *key;   /* the hint is given where this option exists */
    const char *text;  /* after "write"; or "omit it: …" */
} hints[] = {
    {"batch-size|train-batch-size|total-batch-size|bs", "batch",
     "--batch N over all ranks, or --batch-per-rank N"},
    {"batch-size|bs", "step-batch", "--step-batch N"},
    {"batch-size-per-gpu|per-gpu-batch-size|per-device-batch-size|train-micro-batch-size-per-gpu",
     "batch-per-rank", "--batch-per-rank N"},
    {"learning-rate|base-lr|blr", "lr", "--lr X"},
    {"num-epochs|max-epochs|n-epochs", "epochs", "--epochs N"},
    {"max-steps|num-steps|iterations|max-iter", "steps", "--steps N"},
    {"workers|num-workers|data-workers|loader-workers", "loader-threads", "--loader-threads N"},
    {"gpu|gpu-ids|device-ids|devices", "gpus", "--gpus LIST"},
    {"cpu|no-cuda|no-gpu", "device", "--device cpu"},
    {"cuda|use-cuda", "device", "--device cuda"},
    {"dist-backend|backend", "comm", "--comm nccl or --comm mpi"},
    {"evaluate|eval-only|test-only", "eval-every", "dptrain eval CHECKPOINT"},
    {"arch|network|net", "model", "--model NAME"},
    {"dataset|data-dir|data-path|train-dir", "data", "--data DIR"},
    {"output|output-dir|log-dir|save-dir|checkpoint-dir", "out", "--out DIR"},
    {"wd", "weight-decay", "--weight-decay X"},
    {"opt|optim", "optimizer", "--optimizer NAME"},
    {"lr-scheduler|scheduler|sched|lr-schedule", "schedule", "--schedule NAME"},
    {"lr-warmup-epochs|warmup-epochs", "warmup", "--warmup EPOCHS"},
    {"lr-steps|lr-step-size", "lr-milestones", "--schedule step with --lr-milestones or --lr-step"},
    {"amp|bf16|fp16|half|mixed-precision|use-amp", "precision", "--precision bf16"},
    {"fp16-allreduce|bf16-allreduce", "wire", "--wire bf16, with NCCL"},
    {"dtype|torch-dtype", "precision", "--precision bf16 or --precision fp32"},
    {"dtype", "datatype", "--datatype LIST"},
    {"test-batch-size|val-batch-size|validation-batch-size|eval-batch-size|per-device-eval-batch-size",
     "eval-crop", "omit it: evaluation sets its own batch size"},
    {"nesterov|use-nesterov", "optimizer", "--optimizer nesterov"},
    {"world-size|nproc-per-node|num-processes|n-gpus|ngpus|num-gpus", "gpus",
     "mpirun -np N dptrain …, or dptrain run -np N"},
    {"local-rank|rank|node-rank|dist-url|master-addr|master-port", "gpus", "omit it: mpirun sets the ranks"},
    {"checkpoint|ckpt|checkpoint-path|resume", "per-category", "dptrain eval CHECKPOINT"},
    {"pretrained|init-checkpoint", "weights", "--weights FILE.npz"},
    {"print-freq|log-interval|display-interval", "log-every", "--log-every N"},
    {"sync-batchnorm|syncbn", "sync-bn", "--sync-bn"},
    {"accum-iter|gradient-accumulation-steps|accumulation-steps|batches-per-allreduce", "accumulate",
     "--accumulate N"},
    {"clip-grad|clip-grad-norm|max-grad-norm|gradient-clip-val", "clip-norm", "--clip-norm X"},
    {"smoothing", "label-smoothing", "--label-smoothing X"},
    {"model-ema|model-ema-decay", "ema", "--ema DECAY"},
    {"precision", "ci", "--ci X, the precision of a median"},
};

static bool exists(const char *key, const char *const *keys, int n)
{
    for (int i = 0; i < n; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

bool opt_hint(const char *key, const char *const *keys, int n, char *out, size_t n_bytes)
{
    char word[MAX_WORD];
    snprintf(word, sizeof word, "%s", key);
    for (char *at = word; *at; at++)
        if (*at == '_') *at = '-';
    if (exists(word, keys, n)) {
        snprintf(out, n_bytes, "write --%s", word);
        return true;
    }
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (opt_is_among(word, hints[i].words) && exists(hints[i].key, keys, n)) {
            const char *text = hints[i].text;
            snprintf(out, n_bytes, "%s%s", strncmp(text, "omit ", 5) == 0 ? "" : "write ", text);
            return true;
        }
    return false;
}
