/* SPDX-License-Identifier: MIT */
/* The check `load` and the GPUs' use by others, from texts of /proc and nvidia-smi. RUN np=0 */
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/folder.h"
#include "tests/tap.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

enum { JOB = 77 };
static check_options_t options;
static check_rank_t ranks[2] = {{.host_name = "node1"}, {.local_rank = 1, .host_name = "node1"}};
static comm_t comm = {.size = 2, .topo = {.size = 2, .local_size = 2}};

static check_t new_check(void)
{
    return (check_t){.options = &options, .comm = &comm, .ranks = ranks, .n_hosts = 1, .current = "load"};
}

static bool says(check_t *check, const char *name, check_status_t status, const char *part)
{
    check_lines_t lines = {0};
    bool right = false;
    if (check->text) check_lines_unpack(check->text, check->n_text, &lines);
    for (int64_t i = 0; i < lines.n; i++) {
        const check_line_t *line = &lines.line[i];
        if (strcmp(line->name, name) != 0) continue;
        printf("# %s %s: %s\n", check_status_names[line->status], name, line->found);
        right |= line->status == status && strstr(line->found, part);
    }
    mem_free(&lines.line);
    return right;
}

static const char stat_text[] =
    "4242 (a (b) c) R 1 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 98765 1000 200 18446744073709551615 1 "
    "1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

static void test_parse(void)
{
    process_t p;
    OK(process_parse(stat_text, &p) && p.pid == 4242 && p.parent == 1 && p.state == 'R' && p.ticks == 300 &&
           p.started == 98765 && p.cpu == 1 && strcmp(p.name, "a (b) c") == 0,
       "a process with parentheses in its name");
    OK(!process_parse("4242 (sh) S 1", &p) && !process_parse("", &p), "truncated text is rejected");
}

static void write_child(int parent, int pid, const char *name, int ticks, int cpu)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "%d/stat", pid);
    int n = snprintf(
        text, sizeof text,
        "%d (%s) R %d 1 1 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 5 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 %d 0\n", pid,
        name, parent, ticks, cpu);
    folder_put(path, text, (size_t)n);
}

static void write_process(int pid, const char *name, int ticks, int cpu)
{
    write_child(1, pid, name, ticks, cpu);
}

static void write_cpus(int busy0, int busy1, int stolen)
{
    char text[256];
    int n = snprintf(
        text, sizeof text,
        "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 %d 0 0 500 5 0 0 %d 0 0\ncpu1 0 %d 0 500 5 0 0 0 0 0\nintr 5\n",
        busy0, stolen, busy1);
    folder_put("stat", text, (size_t)n);
}

/* A second in which a job's rank uses 0.1 CPUs, `make` 0.6 on CPU 0 and `sh` 0.9 on CPU 1. */
static void read_both(const cpu_set_t *cpus, load_facts_t *facts)
{
    const int pids[] = {JOB};
    load_snapshot_t before, after;
    write_cpus(1000, 1000, 10);
    write_process(JOB, "dptrain", 100, 0);
    write_process(200, "make", 100, 0);
    write_process(201, "sh", 100, 1);
    write_process(300, "dptrain", 500, 0);
    ASSERT(load_snapshot_read(folder, cpus, pids, 1, &before) == ERR_OK);
    write_cpus(1000 + 70, 1000 + 90, 14);
    write_process(JOB, "dptrain", 110, 0);
    write_process(200, "make", 160, 0);
    write_process(201, "sh", 190, 1);
    ASSERT(load_snapshot_read(folder, cpus, pids, 1, &after) == ERR_OK);
    after.sec = before.sec + 100.0 / (double)sysconf(_SC_CLK_TCK);
    OK(after.stolen - before.stolen == (CPU_ISSET(0, cpus) ? 4 : 0), "stolen ticks");
    load_compare(&before, &after, cpus, facts);
    load_snapshot_free(&before);
    load_snapshot_free(&after);
}

static bool is_near(double a, double b)
{
    return a > b - 1e-6 && a < b + 1e-6;
}

static void test_compare(void)
{
    cpu_set_t both, first;
    load_facts_t facts = {.stolen = 0.2};
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    both = first;
    CPU_SET(1, &both);
    read_both(&both, &facts);
    OK(facts.n_cpus == 2 && is_near(facts.busy, 1.5), "time of others, without the job's own");
    OK(facts.n_culprits == 2 && strcmp(facts.culprits[0].at.name, "sh") == 0 &&
           is_near(facts.culprits[0].cpus, 0.9) && facts.culprits[1].at.pid == 200,
       "the processes, the busiest first");
    OK(facts.n_leftovers == 1 && facts.leftovers[0].at.pid == 300,
       "a dptrain process that is not a rank of this job");
    check_t check = new_check();
    load_judge(&check, &facts);
    OK(says(&check, "CPUs in use", CHECK_WARN,
            "1.5 of 2 CPUs in use by others: sh 0.9 (201), make 0.6 (200)") &&
           says(&check, "other jobs", CHECK_WARN, "1 other dptrain process of this user") &&
           says(&check, "stolen time", CHECK_WARN, "20 %"),
       "each is a warning");
    mem_free(&check.text);

    facts = (load_facts_t){.stolen = 0.01};
    read_both(&first, &facts);
    OK(facts.n_cpus == 1 && is_near(facts.busy, 0.6) && facts.n_culprits == 1 &&
           facts.culprits[0].at.pid == 200,
       "only CPUs of the job count");
    facts = (load_facts_t){.n_cpus = 16, .busy = 0.4, .stolen = 0.01};
    check = new_check();
    load_judge(&check, &facts);
    load_judge_rank(&check, 0.99, 1);
    OK(says(&check, "CPUs in use", CHECK_OK, "0.4 of 16") &&
           says(&check, "other jobs", CHECK_OK, "no other") && says(&check, "stolen time", CHECK_OK, "1 %") &&
           says(&check, "CPU time", CHECK_OK, "99 %"),
       "a quiet host");
    mem_free(&check.text);
    facts = (load_facts_t){.n_cpus = 16, .busy = -1, .stolen = -1};
    check = new_check();
    load_judge(&check, &facts);
    load_judge_rank(&check, 0.52, 1);
    load_judge_rank(&check, 0.48, 1);
    OK(says(&check, "CPUs in use", CHECK_SKIP, "") && says(&check, "stolen time", CHECK_SKIP, "") &&
           says(&check, "CPU time", CHECK_WARN, "about 50 %"),
       "unknown figures; a rank that gets half of its CPU");
    mem_free(&check.text);
    check = new_check();
    load_judge_rank(&check, 0.49, 0.5);
    OK(says(&check, "CPU time", CHECK_OK, "49 %"), "two ranks on one CPU get half of it each");
    mem_free(&check.text);
}

static bool is_of_job(const load_snapshot_t *s, int pid)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->processes[i].at.pid == pid) return s->processes[i].of_job;
    return false;
}

/* bash 20 started the launcher 21, with a guard and mpirun, and another one, 31. */
static void test_launcher(void)
{
    const int pids[] = {JOB};
    cpu_set_t cpus;
    load_snapshot_t s;
    CPU_ZERO(&cpus);
    CPU_SET(0, &cpus);
    write_child(1, 20, "bash", 0, 0);
    write_child(20, 21, "dptrain", 0, 0);
    write_child(21, 22, "dptrain-guard", 0, 0);
    write_child(21, 23, "mpirun", 0, 0);
    write_child(23, JOB, "dptrain", 0, 0);
    write_child(20, 31, "dptrain", 0, 0);
    write_child(31, 32, "dptrain-guard", 0, 0);
    OK(load_snapshot_read(folder, &cpus, pids, 1, &s) == ERR_OK && is_of_job(&s, 21) && is_of_job(&s, 22) &&
           is_of_job(&s, JOB),
       "the launcher above a rank and its guard are of the job");
    OK(!is_of_job(&s, 20) && !is_of_job(&s, 23) && !is_of_job(&s, 31) && !is_of_job(&s, 32),
       "other programs and other launchers are not");
    load_snapshot_free(&s);
    write_child(23, 20, "bash", 0, 0);
    OK(load_snapshot_read(folder, &cpus, pids, 1, &s) == ERR_OK && is_of_job(&s, 21),
       "a circle of parents ends");
    load_snapshot_free(&s);
}

static void test_use(void)
{
    smi_app_t apps[SMI_MAX_APPS];
    smi_gpu_t gpus[] = {{.index = 0, .uuid = "GPU-aa", .memory_total = 80e9},
                        {.index = 1, .uuid = "GPU-bb", .memory_total = 80e9, .memory_used = 60e9},
                        {.index = 2, .uuid = "GPU-cc", .memory_total = 80e9, .busy = 95},
                        {.index = 3, .uuid = "GPU-dd", .busy = 99}};
    smi_rank_t users[] = {{"GPU-aa", JOB}, {"GPU-bb", 99999999}, {"GPU-cc", 99999998}};
    smi_use_t use = {.gpus = gpus, .n_gpus = 4, .apps = apps, .ranks = users, .n_ranks = 3};
    char text[512];
    users[0].pid = getppid();
    snprintf(
        text, sizeof text,
        "GPU-a-a, %d, 512, /usr/bin/dptrain\nGPU-a-a, %d, 2048, /opt/x/python3\nGPU-b-b, 88888888, [N/A], "
        "[Not Found]\n",
        (int)getppid(), (int)getpid());
    OK(smi_apps_parse(text, apps, &use.n_apps) == ERR_OK && use.n_apps == 3 &&
           strcmp(apps[1].name, "python3") == 0 && apps[1].visible &&
           apps[1].memory == 2048.0 * 1024 * 1024 && !apps[2].visible && apps[2].memory == -1 &&
           strcmp(apps[0].uuid, "GPU-aa") == 0,
       "nvidia-smi's list of processes is parsed");
    check_t check = new_check();
    smi_judge_use(&check, &use);
    snprintf(text, sizeof text, "GPU 0: in use by python3 (%d) with 2.0 GiB", (int)getpid());
    OK(says(&check, "GPU use", CHECK_FAIL, text), "a process of another job on a GPU is a failure");
    OK(says(&check, "GPU use", CHECK_WARN, "GPU 1: 56 GiB of 75 GiB in use") &&
           says(&check, "GPU use", CHECK_WARN, "GPU 2: 95 % busy") &&
           !says(&check, "GPU use", CHECK_WARN, "GPU 3"),
       "memory and kernels of nobody visible are warnings, on GPUs of the job");
    mem_free(&check.text);

    options.runtime.share_gpu = true;
    check = new_check();
    smi_judge_use(&check, &use);
    OK(says(&check, "GPU use", CHECK_WARN, text), "with --share-gpu a warning");
    mem_free(&check.text);
    options.runtime.share_gpu = false;

    /* Seen from within a container, the ranks themselves have other numbers. */
    OK(smi_apps_parse("GPU-a-a, 88888888, 512, [Not Found]\n", apps, &use.n_apps) == ERR_OK, "one process");
    use.n_gpus = 1;
    check = new_check();
    smi_judge_use(&check, &use);
    OK(says(&check, "GPU use", CHECK_OK, "not in use by others"), "is the rank's own");
    mem_free(&check.text);
    OK(smi_apps_parse("GPU-a-a, 88888888, 512, x\nGPU-a-a, 88888889, 512, x\n", apps, &use.n_apps) ==
               ERR_OK &&
           use.n_apps == 2,
       "two processes");
    check = new_check();
    smi_judge_use(&check, &use);
    OK(says(&check, "GPU use", CHECK_FAIL, "1 in another container"), "one of them is not");
    mem_free(&check.text);
    OK(smi_apps_parse("0, GPU-a, NVIDIA\n", apps, &use.n_apps) == ERR_DATA &&
           strstr(err_message(), "0, GPU-a"),
       "unexpected output is an error that quotes it");
}

int main(void)
{
    if (!folder_begin()) tap_skip_all("no folder can be made in /tmp");
    tap_plan(2 + 2 + 4 + 4 + 3 + 9 + 1);
    test_parse();
    test_compare();
    test_launcher();
    test_use();
    folder_clear();
    rmdir(folder);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
