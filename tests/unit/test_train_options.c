/* SPDX-License-Identifier: MIT */
/* RUN np=0 : options of a run: conflicts, lengths, intervals, and what a resumed run takes over. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "train/start/options.h"

typedef struct parsed {
    train_options_t options;
    err_t err;
} parsed_t;

/* Words up to a NULL. */
static void parse(parsed_t *p, char **words)
{
    int n = 0;
    while (words[n]) n++;
    p->err = train_options_bind(&p->options);
    if (p->err == ERR_OK) p->err = opt_parse(p->options.groups, TRAIN_N_GROUPS, n, words, NULL, 0, NULL);
    if (p->err == ERR_OK) p->err = train_options_check(&p->options);
}
#define WORDS(...) ((char *[]){__VA_ARGS__, NULL})

static void check_defaults_and_conflicts(void)
{
    parsed_t p;
    parse(&p, (char *[]){NULL});
    OK(p.err == ERR_OK && p.options.batch == 64 && p.options.epochs == 3 && p.options.steps == 0, "defaults");
    parse(&p, WORDS("--batch-per-rank", "16"));
    OK(p.err == ERR_OK && p.options.batch == 0 && p.options.batch_per_rank == 16,
       "a batch per rank replaces it");
    parse(&p, WORDS("--batch", "8", "--batch-per-rank", "8"));
    OK(p.err == ERR_USAGE, "both are refused: %s", err_message());
    parse(&p, WORDS("--steps", "5", "--epochs", "2"));
    OK(p.err == ERR_USAGE, "steps and epochs are refused: %s", err_message());
    parse(&p, WORDS("--resume", "auto"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--out"), "--resume auto requires a folder: %s",
       err_message());
    parse(&p, WORDS("--resume", "auto", "--out", "x", "--overwrite"));
    OK(p.err == ERR_USAGE, "resuming and overwriting are refused: %s", err_message());
}

/* The rate follows the samples per step, so it needs those that --lr is for. */
static void check_scale(void)
{
    parsed_t p;
    parse(&p, WORDS("--lr-scale", "linear", "--batch", "32"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--lr-batch") && strstr(err_message(), "--batch-per-rank"),
       "no batch that --lr is for: %s", err_message());
    parse(&p, WORDS("--lr-scale", "linear"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--lr-batch"), "nor is it the default batch");
    parse(&p, WORDS("--lr-scale", "linear", "--batch-per-rank", "32"));
    OK(p.err == ERR_OK && p.options.schedule.lr_batch == 0, "that of one rank");
    parse(&p, WORDS("--lr-batch", "32", "--batch", "256"));
    OK(p.err == ERR_OK && strcmp(p.options.schedule.lr_scale, "linear") == 0,
       "--lr-batch alone asks for scaling");
    parse(&p, WORDS("--lr-batch", "32", "--lr-scale", "none"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--lr-scale none"), "but not against --lr-scale: %s",
       err_message());
    parse(&p, WORDS("--lr-scale", "linear", "--batch", "32", "--resume", "auto", "--out", "x"));
    OK(p.err == ERR_OK, "a checkpoint may have it");
    parse(&p, WORDS("--reproducible", "4", "--batch", "64", "--lr-batch", "32"));
    OK(p.err == ERR_OK, "--reproducible: such a rate does not depend on the ranks");
    parse(&p, WORDS("--reproducible", "4", "--batch-per-rank", "64", "--lr-batch", "32"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--lr-scale none"), "this one does: %s", err_message());
    parse(&p, WORDS("--model", "fasterrcnn_resnet18_fpn", "--batch", "8", "--lr-batch", "16"));
    OK(p.err == ERR_OK && fabs(p.options.schedule.lr - 0.02) < 1e-12,
       "a detector's own rate, which follows the batch, is not scaled twice");
}

static void check_algorithms(void)
{
    parsed_t p;
    parse(&p, WORDS("--reproducible", "4"));
    OK(p.err == ERR_OK && strcmp(p.options.algorithms, "fixed") == 0, "reproducible runs measure nothing");
    parse(&p, WORDS("--reproducible", "4", "--algorithms", "some.txt"));
    OK(p.err == ERR_OK && strcmp(p.options.algorithms, "some.txt") == 0, "but take a file");
    parse(&p, WORDS("--reproducible", "4", "--algorithms", "measure"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--algorithms fixed"), "measuring is refused: %s",
       err_message());
    parse(&p, WORDS("--seed", "4"));
    OK(p.err == ERR_OK && strcmp(p.options.algorithms, "measure") == 0, "others measure");
}

static void check_intervals(void)
{
    parsed_t p;
    parse(&p, WORDS("--checkpoint-every", "500"));
    OK(p.err == ERR_OK && p.options.checkpoint_steps == 500 && p.options.checkpoint_sec <= 0, "500 steps");
    parse(&p, WORDS("--checkpoint-every", "1.5m"));
    OK(p.err == ERR_OK && p.options.checkpoint_steps == 0 && p.options.checkpoint_sec >= 90 &&
           p.options.checkpoint_sec <= 90,
       "one and a half minutes");
    const char *bad[] = {"0", "-5", "5x", "m", "", "2.5", "5mm", "inf", "nan"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[8];
        snprintf(text, sizeof text, "%s", bad[i]);
        parse(&p, WORDS("--checkpoint-every", text));
        OK(p.err == ERR_USAGE, "'%s' is refused", bad[i]);
    }
}

static void check_evaluation(void)
{
    parsed_t p;
    parse(&p, (char *[]){NULL});
    OK(p.err == ERR_OK && p.options.eval && p.options.eval_epochs == 1 && p.options.eval_steps == 0,
       "every epoch is evaluated");
    parse(&p, WORDS("--eval-every", "3"));
    OK(p.err == ERR_OK && p.options.eval_epochs == 3 && p.options.eval_steps == 0, "every third");
    parse(&p, WORDS("--eval-every", "500s"));
    OK(p.err == ERR_OK && p.options.eval_epochs == 0 && p.options.eval_steps == 500, "every 500 steps");
    const char *bad[] = {"0", "-5", "5x", "s", "", "2.5", "5ss", " 5", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[24];
        snprintf(text, sizeof text, "%s", bad[i]);
        parse(&p, WORDS("--eval-every", text));
        OK(p.err == ERR_USAGE && strstr(err_message(), "such as 500s"), "'%s' is refused", bad[i]);
    }
    parse(&p, WORDS("--no-eval"));
    OK(p.err == ERR_OK && !p.options.eval, "none is evaluated");
    parse(&p, WORDS("--no-eval", "--eval-samples", "10"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--eval-samples"), "not with --eval-samples");
    parse(&p, WORDS("--no-eval", "--target-accuracy", "0.9"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--target-accuracy"), "not with a target");
    parse(&p, WORDS("--no-eval", "--keep-best"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--keep-best"), "nor to keep the best");
    parse(&p, WORDS("--target", "loss=0.1", "--target-accuracy", "0.9"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "mutually exclusive"), "one target at a time");
    static const char *const no_targets[] = {"accuracy", "=1", "loss=", "loss=low", "loss=1 2", "loss=inf"};
    char text[32];
    for (size_t i = 0; i < sizeof no_targets / sizeof *no_targets; i++) {
        snprintf(text, sizeof text, "%s", no_targets[i]);
        parse(&p, WORDS("--target", text));
        OK(p.err == ERR_USAGE && strstr(err_message(), "METRIC=X"), "--target '%s' is refused",
           no_targets[i]);
    }
    parse(&p, WORDS("--no-eval", "--schedule", "plateau"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "plateau"), "not with a schedule that needs it");
}

/* The options that a run with these words writes to its checkpoint. */
static char *saved_by(char **words)
{
    parsed_t p;
    char *text = NULL;
    parse(&p, words);
    if (p.err == ERR_OK)
        p.err = opt_config_write(p.options.groups, TRAIN_N_GROUPS, train_options_per_run, &text);
    return p.err == ERR_OK ? text : NULL;
}

static err_t resume(parsed_t *p, const char *saved, char **words)
{
    char *storage = NULL;
    parse(p, words);
    if (p->err == ERR_OK) p->err = train_options_inherit(&p->options, saved, &storage);
    mem_free(&storage); /* strings are not looked at below */
    return p->err;
}

static void check_resume(void)
{
    parsed_t p;
    char *saved =
        saved_by(WORDS("--lr", "0.5", "--steps", "40", "--batch", "10", "--seed", "7", "--out", "a"));
    OK(saved && strstr(saved, "lr = 0.5\n") && !strstr(saved, "\nout ="), "what is saved");
    OK(resume(&p, saved, WORDS("--out", "b")) == ERR_OK && p.options.steps == 40 && p.options.batch == 10 &&
           p.options.seed == 7,
       "options not given are inherited");
    OK(resume(&p, saved, WORDS("--seed", "7", "--threads", "3")) == ERR_OK && p.options.runtime.threads == 3,
       "the same value may be given again; threads may change");
    OK(resume(&p, saved, WORDS("--epochs", "9")) == ERR_OK && p.options.steps == 0 && p.options.epochs == 9,
       "epochs replace steps");
    OK(resume(&p, saved, WORDS("--batch-per-rank", "5")) == ERR_OK && p.options.batch == 0 &&
           p.options.batch_per_rank == 5,
       "a batch per rank replaces the batch");
    OK(resume(&p, saved, WORDS("--seed", "8", "--momentum", "0.5")) == ERR_USAGE &&
           strstr(err_message(), "--seed 8 (it was 7)") && strstr(err_message(), "--momentum 0.5"),
       "others are named: %s", err_message());
    OK(resume(&p, saved, WORDS("--precision", "bf16")) == ERR_USAGE &&
           strstr(err_message(), "--precision bf16 (it was fp32)"),
       "another precision is another run: %s", err_message());
    OK(resume(&p, "lr = 0.5\nsteps\n", WORDS("--out", "b")) == ERR_USAGE && strstr(err_message(), "line 2"),
       "a broken line is named: %s", err_message());
    OK(resume(&p, "lr = 0.5\nnew-option = 1\n", WORDS("--out", "b")) == ERR_USAGE &&
           strstr(err_message(), "new-option"),
       "an option of a newer program is named: %s", err_message());
    mem_free(&saved);
    saved = saved_by(WORDS("--lr", "0.5", "--batch-per-rank", "16", "--lr-batch", "16"));
    OK(resume(&p, saved, WORDS("--batch", "32")) == ERR_OK && p.options.schedule.lr_batch == 16 &&
           strcmp(p.options.schedule.lr_scale, "linear") == 0,
       "the batch that --lr is for stays, whatever the batch is given by");
    OK(resume(&p, saved, WORDS("--batch", "32", "--lr-batch", "8")) == ERR_USAGE &&
           strstr(err_message(), "--lr-batch 8 (it was 16)"),
       "it does not change: %s", err_message());
    mem_free(&saved);
    OK(resume(&p, "lr = 0.5\nlr-scale = linear\nbatch = 32\n", WORDS("--resume", "auto", "--out", "b")) ==
               ERR_OK &&
           p.options.schedule.lr_batch == 0,
       "a run from before --lr-batch goes on");
}

static const char *flip_of(const parsed_t *p)
{
    return transform_flip(&p->options.transform);
}

/* One option for data of any kind, which was two: --flip, on, for images of any size, and --augment-flip, off, for those in
 * memory. */
static void check_flip(void)
{
    static const struct {
        char *words[3];
        const char *flip;
    } cases[] = {{{NULL}, "auto"},
                 {{"--flip", NULL}, "true"},
                 {{"--no-flip", NULL}, "false"},
                 {{"--augment-flip", NULL}, "true"},
                 {{"--no-augment-flip", NULL}, "auto"},
                 {{"--flip", "--no-augment-flip", NULL}, "auto"}};
    parsed_t p;
    bool right = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        parse(&p, (char **)cases[i].words);
        right = right && p.err == ERR_OK && strcmp(flip_of(&p), cases[i].flip) == 0;
    }
    OK(right, "--flip, its earlier name, and neither");
    parse(&p, WORDS("--augment-flip", "--no-flip"));
    OK(p.err == ERR_USAGE && strstr(err_message(), "--augment-flip"), "a contradiction: %s", err_message());

    static const char *const saved[][2] = {{"flip = true\naugment-flip = false\n", "auto"},
                                           {"flip = true\naugment-flip = true\n", "true"},
                                           {"flip = false\naugment-flip = false\n", "false"}};
    for (size_t i = 0; i < sizeof saved / sizeof *saved; i++)
        right = right && resume(&p, saved[i][0], WORDS("--out", "b")) == ERR_OK &&
                strcmp(flip_of(&p), saved[i][1]) == 0;
    OK(right, "what checkpoints of earlier versions say");
    OK(resume(&p, saved[1][0], WORDS("--flip")) == ERR_OK && strcmp(flip_of(&p), "true") == 0 &&
           resume(&p, saved[1][0], WORDS("--augment-flip")) == ERR_OK &&
           resume(&p, saved[2][0], WORDS("--no-flip")) == ERR_OK,
       "the same may be given again, by either name");
    OK(resume(&p, saved[0][0], WORDS("--flip")) == ERR_USAGE &&
           strstr(err_message(), "--flip true (it was auto)"),
       "… but no other: %s", err_message());
    OK(resume(&p, saved[2][0], WORDS("--augment-flip")) == ERR_USAGE &&
           strstr(err_message(), "--flip true (it was false)"),
       "… by either name: %s", err_message());
    char *now = saved_by(WORDS("--flip"));
    OK(now && resume(&p, now, WORDS("--out", "b")) == ERR_OK && strcmp(flip_of(&p), "true") == 0,
       "what is saved is read");
    mem_free(&now);
}

int main(void)
{
    tap_plan(6 + 9 + 4 + 11 + 24 + 12 + 7 + 1);
    check_defaults_and_conflicts();
    check_scale();
    check_algorithms();
    check_intervals();
    check_evaluation();
    check_resume();
    check_flip();
    OK(mem_live() == 0, "allocations balance");
    return tap_done();
}
