/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The command line of dptrain run: spellings of other launchers, quotes in --mpi-args, and what may be shown of it. */
#include "tests/tap.h"

#include <unistd.h>

#include "base/mem.h"
#include "launch/job.h"
#include "launch/launch.h"

static job_t job;

static void reset(void)
{
    words_t *const lists[] = {&job.given,       &job.x,         &job.env_files,
                              &job.flags_given, &job.mca_given, &job.words};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) words_free(lists[i]);
    mem_free(&job.config_text);
    arena_free(&job.arena);
    job = (job_t){.called_as = "dptrain run"};
}

/* Reads a copy of `line`, split at |. */
static err_t read_line(const char *line)
{
    static char copy[512];
    char *argv[32];
    int argc = 0;
    reset();
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok(copy, "|"); word; word = strtok(NULL, "|")) argv[argc++] = word;
    return options_read(&job, argc, argv);
}

static bool is_line(const words_t *words, const char *line)
{
    const char *text = options_line(&job, words);
    if (strcmp(text, line) != 0) printf("# %s\n", text);
    return strcmp(text, line) == 0;
}

static bool fails(const char *line, const char *says)
{
    const err_t err = read_line(line);
    if (err != ERR_USAGE || !strstr(err_message(), says)) printf("# %d: %s\n", (int)err, err_message());
    return err == ERR_USAGE && strstr(err_message(), says);
}

/* The same values however they are spelled. */
static void check_spellings(void)
{
    static const char *const lines[] = {
        "-np|8|-N|4|-hostfile|list|--max_restarts=3|train",
        "--np=8|--num_gpus|4|--spec=list|--restarts|3|train",
        "mpirun|-n|08|-npernode|4|-machinefile|list|--max-restarts|3|--|train",
        "torchrun|--nproc_per_node=4|--standalone|--num-processes|8|-f|list|"
        "--restarts=3|dptrain|train"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        OK(read_line(lines[i]) == ERR_OK && job.options.np == 8 && job.options.num_gpus == 4 &&
               job.options.restarts == 3 && strcmp(job.source, "list") == 0 && is_line(&job.words, "train"),
           "%s", lines[i]);
    }
    OK(read_line("-np|2|-np|3|--no-checks|-H|a") == ERR_OK && job.options.np == 3 && !job.options.checks &&
           job.options.tree_spawn && job.options.restarts == -1 && job.options.grace == 30 &&
           strcmp(job.source, "a:1") == 0 && job.words.n == 0,
       "the last of two counts; a name alone is a list; defaults");
    OK(read_line("deepspeed|-np|2|--dry-run|--|train|--out|a b") == ERR_OK && job.n_own == 3 &&
           is_line(&job.given, "-np 2 --dry-run -- train --out 'a b'"),
       "given: without the other launcher's name; its own options are counted");
}

static void check_passed(void)
{
    OK(read_line(
           "-mca|pml|^ucx|--mpi-args|-x A=1 --mca coll \"^hcoll,x y\" '' --tag-output a\\ b -bind-to core|-x|B|train") ==
               ERR_OK &&
           is_line(&job.flags_given,
                   "--mca pml '^ucx' --mca coll '^hcoll,x y' --tag-output 'a b' --bind-to core") &&
           is_line(&job.mca_given, "pml coll") && is_line(&job.x, "A=1 B") && job.places_given,
       "mpirun's words keep their order, and quotes their meaning");
    words_t shown = {0};
    options_shown(&job, &job.given, &shown);
    OK(strstr(options_line(&job, &shown), "A=1") == NULL && strstr(options_line(&job, &shown), "'-x A --mca"),
       "a value of -x is not shown, also in --mpi-args");
    words_free(&shown);
}

static void check_config(void)
{
    char path[] = "/tmp/dptrain-options.XXXXXX", line[128];
    const int fd = mkstemp(path);
    const char text[] =
        "np = 4 # ranks\nhost = a:2,b:2\nx = A=1\nmca = pml ob1\nchecks = false\nbind-to = core\n";
    OK(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1, "a file");
    close(fd);
    snprintf(line, sizeof line, "--config|%s|-np|2|-x|A=2|-bind-to|none|train", path);
    OK(read_line(line) == ERR_OK && job.options.np == 2 && strcmp(job.source, "a:2,b:2") == 0 &&
           !job.options.checks && is_line(&job.x, "A=1 A=2") &&
           is_line(&job.flags_given, "--mca pml ob1 --bind-to none"),
       "options of a file; the command line wins");
    snprintf(line, sizeof line, "--config|%s|-hostfile|c|--mca|pml|ucx|train", path);
    OK(read_line(line) == ERR_OK && strcmp(job.source, "c") == 0 && !job.options.host &&
           is_line(&job.flags_given, "--bind-to core --mca pml ucx"),
       "other hosts, and the same setting");
    unlink(path);
}

static void check_refused(void)
{
    static const char *const lines[][2] = {
        {"--mpi-args|a \"b", "a quote is not closed"},
        {"--mpi-args|-np 4", "write -np outside"},
        {"-x|1=2", "invalid -x '1=2'"},
        {"--mca|pml", "--mca needs a name and a value"},
        {"--mca|btl|--dry-run", "--mca btl: its value is missing"},
        {"-np|0", "invalid -np '0'"},
        {"-np", "-np needs a value"},
        {"--ports|30000-20000", "invalid --ports '30000-20000'"},
        {"-H|a:1|-hostfile|b", "hosts given twice: a:1 and b"},
        {"--hostfil|x", "did you mean -hostfile?"},
        {"--nnodes=1:4", "--restarts"},
        {"--rdzv_backend=c10d", "--rdzv_backend=c10d is another launcher's: omit it"},
        {"-np|3|-x|MINE=secret|python|train.py", "write dptrain run -np 3 -x MINE -- train"},
        {"--|srun|-n4|--ntasks-per-node=2|train", "write dptrain run -np 4 --num-gpus 2 -- train"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        OK(fails(lines[i][0], lines[i][1]), "%s", lines[i][0]);
}

/* What the program gets is not counted, so that its --help is its own. */
static void check_own(void)
{
    char *words[] = {"mpirun", "-np", "2", "-x", "--help", "--mca", "a", "b", "train", "-np"};
    OK(launch_count_own(10, words) == 8, "the launcher's own words end at the command");
    OK(launch_count_own(2, words) == 2, "a missing value");
}

int main(void)
{
    tap_plan(28);
    check_spellings();
    check_passed();
    check_config();
    check_refused();
    check_own();
    reset();
    OK(mem_live() == 0, "no memory leaks");
    return tap_done();
}
