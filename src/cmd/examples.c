/* SPDX-License-Identifier: MIT */
/* Three commands to start from, the first ones of each --help; tests/cli/help.bats runs them, those of one help in order in one
 * folder, or checks them where they need hosts or minutes. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cmd/cmd.h"

enum { N_EXAMPLES = 3 };

typedef struct example {
    const char *what, *command;
} example_t;

static const struct {
    const char *name; /* command, or command and verb */
    example_t examples[N_EXAMPLES];
} all[] = {
    {"",
     {{"is this machine ready?", "dptrain check"},
      {"train LeNet-5 on 2 ranks of it", "mpirun -np 2 dptrain train --out runs/first"},
      {"the same on several hosts", "dptrain run -hostfile hosts -- train --out runs/second"}}},
    {"train",
     {{"LeNet-5 on 2 ranks of this machine", "mpirun -np 2 dptrain train --out runs/first"},
      {"go on after an interruption", "mpirun -np 2 dptrain train --out runs/first --resume auto"},
      {"ResNet-50 on a folder of images, on several hosts",
       "dptrain run -hostfile hosts -- train --model resnet50 --data imagenet"}}},
    {"eval",
     {{"the newest checkpoint of a run", "dptrain eval runs/first"},
      {"an image of its worst mistakes", "dptrain eval runs/first --png worst.png"},
      {"score a file of detections as pycocotools does",
       "dptrain eval --results bbox.json --data instances_val2017.json"}}},
    {"predict",
     {{"the class of an image", "dptrain predict runs/first digit.png"},
      {"of a folder of images, as JSON", "dptrain predict runs/first photos --json predicted.json"},
      {"draw the objects that a detector finds", "dptrain predict runs/coco photos --out found"}}},
    {"checkpoint",
     {{"what a checkpoint holds", "dptrain checkpoint show runs/first"},
      {"compare its bytes with its hashes", "dptrain checkpoint verify runs/first"},
      {"weights for NumPy or PyTorch", "dptrain checkpoint export runs/first --out weights.npz"}}},
    {"replay",
     {{"the recorded steps of a run", "dptrain replay runs/first"},
      {"from step 300 to the next recorded bits", "dptrain replay runs/first --step 300"},
      {"on 2 ranks", "mpirun -np 2 dptrain replay runs/first"}}},
    {"bench",
     {{"everything, in two minutes", "mpirun -np 2 dptrain bench all --quick"},
      {"allreduce, as nccl-tests measure it", "mpirun -np 2 dptrain bench comm -b 8 -e 64M -f 2"},
      {"training steps of ResNet-50", "mpirun -np 2 dptrain bench step --step-model resnet50"}}},
    {"report",
     {{"tables of one or several recordings", "dptrain report runs/first/metrics.jsonl"},
      {"one case, as CSV", "dptrain report bench.jsonl --case comm --format csv"},
      {"the same with charts", "dptrain report html bench.jsonl --out bench.html"}}},
    {"report compare",
     {{"is it slower than before?", "dptrain report compare before.jsonl after.jsonl"},
      {"of a folder of starts each", "dptrain report compare before after"},
      {"for a script", "dptrain report compare before after --format json"}}},
    {"report history",
     {{"when it became slower", "dptrain report history recordings"},
      {"one case", "dptrain report history recordings --case step"},
      {"for a script", "dptrain report history recordings --format json"}}},
    {"report html",
     {{"a page with charts", "dptrain report html bench.jsonl --out bench.html"},
      {"of training runs", "dptrain report html runs/first runs/second --out runs.html"},
      {"of a folder of recordings", "dptrain report html recordings --out recordings.html"}}},
    {"data",
     {{"pack a folder of images", "dptrain data pack --from photos --out packed"},
      {"find damage", "dptrain data verify packed"},
      {"a sheet of its images", "dptrain data show packed --out sheet.png"}}},
    {"data synth",
     {{"70000 digits as IDX files", "dptrain data synth digits --out digits"},
      {"train on them", "dptrain train --data ./digits"},
      {"JPEGs of shapes, a folder per class", "dptrain data synth shapes --out shapes"}}},
    {"data pack",
     {{"a folder with a folder per class", "dptrain data pack --from photos --out packed"},
      {"by 8 processes", "mpirun -np 8 dptrain data pack --from coco --out shards"},
      {"train on the shards", "dptrain train --data packed --model resnet18"}}},
    {"data verify",
     {{"compare every byte", "dptrain data verify packed"},
      {"by 8 processes", "mpirun -np 8 dptrain data verify packed"},
      {"then train", "dptrain train --data packed --model resnet18"}}},
    {"data show",
     {{"a summary", "dptrain data show data/mnist"},
      {"a sheet of images", "dptrain data show packed --out sheet.png"},
      {"of a category", "dptrain data show coco --category person --out people.png"}}},
    {"check",
     {{"this machine", "dptrain check"},
      {"all hosts, with the data", "dptrain run -hostfile hosts -- check --data /shared/mnist"},
      {"only the network and the clocks", "dptrain run -hostfile hosts -- check --only network,clock"}}},
    {"hosts",
     {{"what a hostfile says", "dptrain hosts show hosts"},
      {"a hostfile from a list", "dptrain hosts hostfile node[1-4]:8"},
      {"ssh's configuration from a specification", "dptrain hosts ssh-config cluster.yaml"}}},
    {"info",
     {{"build, libraries and devices", "dptrain info"},
      {"the layers of a model", "dptrain info --model resnet50"},
      {"with batch 32 in bf16", "dptrain info --model resnet50 --batch 32 --precision bf16"}}},
};

static bool is_named(const cmd_context_t *context, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s%s%s", context->name[0], context->name[1] ? " " : "",
             context->name[1] ? context->name[1] : "");
    return strcmp(full, name) == 0;
}

void cmd_print_examples(const cmd_context_t *context, bool tsv)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!is_named(context, all[i].name)) continue;
        if (!tsv) print_out("\nExamples:\n");
        for (int k = 0; k < N_EXAMPLES; k++) {
            const example_t *example = &all[i].examples[k];
            print_out(tsv ? "example\t%s\t%s\n" : "  # %s\n  %s\n", example->what, example->command);
        }
    }
}
