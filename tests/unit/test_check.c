/* SPDX-License-Identifier: MIT */
/* dptrain check without a cluster: lines become rows and a table, facts become lines, nvidia-smi's output is
 * parsed. RUN np=0 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

#define MB ((int64_t)1 << 20)
#define GB ((int64_t)1 << 30)

/* Ranks of a fictitious job: 2 on each of 4 hosts. */
enum { N_RANKS = 8, N_HOSTS = 4 };
static const check_options_t options;
static check_rank_t ranks[N_RANKS];
static comm_t comms[N_RANKS];

static void make_ranks(void)
{
    for (int r = 0; r < N_RANKS; r++) {
        ranks[r] = (check_rank_t){.host = r / 2, .local_rank = r % 2};
        snprintf(ranks[r].host_name, sizeof ranks[r].host_name, "node%d", r / 2 + 1);
        comms[r] = (comm_t){.rank = r, .size = N_RANKS};
        comms[r].topo = (topo_t){.rank = r, .size = N_RANKS, .local_rank = r % 2, .local_size = 2};
    }
}

static check_t check_of(int rank)
{
    return (check_t){.options = &options,
                     .comm = &comms[rank],
                     .ranks = ranks,
                     .host = rank / 2,
                     .n_hosts = N_HOSTS,
                     .current = "host"};
}

/* Appends the lines of a rank, as if gathered, and frees its text. */
static void take(check_lines_t *lines, check_t *check)
{
    static char kept[1 << 16];
    static size_t used;
    if (lines->n == 0) used = 0;
    memcpy(kept + used, check->text, check->n_text);
    check_lines_unpack(kept + used, check->n_text, lines);
    used += check->n_text;
    mem_free(&check->text);
}

static const check_line_t *find(const check_lines_t *lines, const char *name)
{
    static const check_line_t none = {.name = "", .found = "", .advice = "", .status = CHECK_SKIP};
    for (int64_t i = 0; i < lines->n; i++)
        if (strcmp(lines->line[i].name, name) == 0) return &lines->line[i];
    return &none;
}

static bool says(const check_lines_t *lines, const char *name, check_status_t status, const char *part)
{
    const check_line_t *line = find(lines, name);
    bool right = line->name[0] && line->status == status && strstr(line->found, part) &&
                 (line->advice[0] != '\0') == (status > CHECK_SKIP);
    if (!right)
        printf("# %s: %s '%s' advice '%s'\n", name, check_status_names[line->status], line->found,
               line->advice);
    return right;
}

/* Every rank adds lines through `say`; merges them into rows. */
static void rows_of(void (*say)(check_t *check), check_lines_t *lines, check_rows_t *rows)
{
    check_t first = check_of(0);
    *lines = (check_lines_t){0};
    for (int r = 0; r < N_RANKS; r++) {
        check_t check = check_of(r);
        say(&check);
        if (check.text) take(lines, &check);
    }
    check_rows_new(&first, lines, rows);
}

static bool row_is(const check_rows_t *rows, int i, check_status_t status, const char *where)
{
    char text[256];
    check_t check = check_of(0);
    if (i >= rows->n) return false;
    check_row_where(&check, rows, i, 40, text, sizeof text);
    bool right = rows->row[i].line->status == status && strcmp(text, where) == 0;
    if (!right) printf("# row %d: %s at '%s'\n", i, check_status_names[rows->row[i].line->status], text);
    return right;
}

static void say_everywhere(check_t *check)
{
    check_line(check, check_host(check), "kernel", CHECK_OK, NULL, "6.1");
    check_line(check, check_job(check), "job", CHECK_OK, NULL, "one");
    check_line(check, check_rank(check), "CPUs", CHECK_OK, NULL, "bound");
}

static void say_different(check_t *check)
{
    int rank = check->comm->rank;
    bool old = check->host == 2;
    check_line(check, check_host(check), "kernel", old ? CHECK_WARN : CHECK_OK, "update", "%s",
               old ? "5.10" : "6.1");
    check_line(check, check_rank(check), "CPUs", rank >= 5 ? CHECK_WARN : CHECK_OK, "bind",
               rank >= 5 ? "no" : "yes");
}

static void say_measured(check_t *check)
{
    static const double free_gb[] = {7, 3, 9, 5};
    check_measured(check, check_host(check), "memory", CHECK_OK, NULL, check_more(free_gb[check->host]),
                   "%g GB", free_gb[check->host]);
    check_measured(check, check_host(check), "disk", check->host == 1 ? CHECK_FAIL : CHECK_OK, "clean up",
                   check_more(free_gb[check->host]), "%g GB", free_gb[check->host]);
}

static void test_rows(void)
{
    check_lines_t lines;
    check_rows_t rows;
    rows_of(say_everywhere, &lines, &rows);
    OK(lines.n == N_HOSTS + 1 + N_RANKS && rows.n == 3, "equal lines are one row");
    OK(row_is(&rows, 0, CHECK_OK, "all 4 hosts") && row_is(&rows, 1, CHECK_OK, "job") &&
           row_is(&rows, 2, CHECK_OK, "all 8 ranks"),
       "about all hosts, the job, all ranks");
    check_rows_free(&rows);
    check_lines_free(&lines);

    rows_of(say_different, &lines, &rows);
    OK(rows.n == 4 && row_is(&rows, 0, CHECK_OK, "node1, node2, node4") &&
           row_is(&rows, 2, CHECK_WARN, "node3"),
       "a host that differs has its own row");
    OK(row_is(&rows, 3, CHECK_WARN, "node3 rank 5, node4"), "ranks are named, a whole host by its name");
    check_rows_free(&rows);
    check_lines_free(&lines);

    rows_of(say_measured, &lines, &rows);
    OK(rows.n == 3 && row_is(&rows, 0, CHECK_OK, "all 4 hosts") &&
           strcmp(rows.row[0].line->found, "3 GB") == 0 && strcmp(rows.row[0].last->found, "9 GB") == 0,
       "measured values become a row with their range");
    OK(row_is(&rows, 2, CHECK_FAIL, "node2") && strcmp(rows.row[1].line->found, "5 GB") == 0,
       "except those that fail");
    check_rows_free(&rows);
    check_lines_free(&lines);
}

/* The widest line, in characters. */
static int widest(const char *text)
{
    int most = 0, n = 0;
    for (; *text; text++) {
        n = *text == '\n' ? 0 : n + (((unsigned char)*text & 0xC0) != 0x80);
        if (n > most) most = n;
    }
    return most;
}

static void say_long(check_t *check)
{
    check_line(check, check_host(check), "disk of --out", check->host == 2 ? CHECK_FAIL : CHECK_OK,
               "a long piece of advice of many words, so that it has to be broken into several lines of the "
               "terminal",
               check->host == 2
                   ? "nothing is left there, and this too is said in more words than fit into one line"
                   : "fine");
}

static void test_table(void)
{
    check_lines_t lines;
    check_rows_t rows;
    char text[4096] = "";
    check_t check = check_of(0);
    rows_of(say_long, &lines, &rows);
    FILE *file = fmemopen(text, sizeof text - 1, "w");
    check_print_table(&check, &rows, file);
    fclose(file);
    OK(widest(text) <= 80, "the table is %d columns wide", widest(text));
    OK(strstr(text, "\n  FAIL  disk of --out    node3 ") &&
           strstr(text, "ok    disk of --out    node1, node2, node4"),
       "with a row for the failing host");
    OK(strstr(text, "\nNOT READY: node3\n") && strstr(text, "-> a long piece of advice"),
       "and at its end the host's name and what to do");
    if (tap_failed) printf("# %s\n", text);
    check_rows_free(&rows);
    check_lines_free(&lines);
}

static const char smi_good[] = "0, GPU-1b2c3d4e-0000-1111-2222-333344445555, NVIDIA H200, 00000000:1B:00.0, "
                               "550.54.15, Enabled, 700.00, 700.00, "
                               "0x0000000000000001, 0, 0, [N/A], No, No, 97, 600, 143771\r\n"
                               "1, GPU-aaaaaaaa-0000-1111-2222-333344445555, NVIDIA H200, 00000000:2B:00.0, "
                               "550.54.15, Enabled, 700.00, 700.00, "
                               "0x0000000000000004, 0, 0, [N/A], No, No, 0, 71000, 143771\n";
/* One fault each: a row waits, volatile errors, aggregate errors, heat, power limit, persistence, remapping.
 */
static const char smi_bad[] = "0, GPU-0, NVIDIA A100, 00000000:07:00.0, 535.129.03, Enabled, 400.00, 400.00, "
                              "0x0000000000000000, 0, 0, No, "
                              "Yes, No, [N/A], [N/A], 40960\n"
                              "1, GPU-1, NVIDIA A100, 00000000:0A:00.0, 535.129.03, Enabled, 400.00, 400.00, "
                              "0x0000000000000000, 2, 2, No, No, "
                              "No, 0, 0, 40960\n"
                              "2, GPU-2, NVIDIA A100, 00000000:0B:00.0, 535.129.03, Enabled, 400.00, 400.00, "
                              "0x0000000000000040, 0, 7, No, No, "
                              "No, 0, 0, 40960\n"
                              "3, GPU-3, NVIDIA A100, 00000000:0C:00.0, 535.129.03, Disabled, 300.00, "
                              "400.00, 0x0000000000000000, 0, 0, No, No, "
                              "Yes, 0, 0, 40960\n";

static void test_smi(void)
{
    smi_gpu_t gpus[SMI_MAX_GPUS];
    int n;
    check_t check = check_of(0);
    check_lines_t lines = {0};
    OK(smi_parse(smi_good, gpus, &n) == ERR_OK && n == 2, "nvidia-smi's output is parsed");
    OK(strcmp(gpus[0].uuid, "GPU-1b2c3d4e000011112222333344445555") == 0 && gpus[0].pages_pending == -1 &&
           gpus[0].power_limit == 700 && gpus[1].slowdown == 4 && strcmp(gpus[1].driver, "550.54.15") == 0,
       "field by field, including unsupported ones");
    smi_judge(&check, gpus, n);
    take(&lines, &check);
    OK(lines.n == 4 && says(&lines, "GPU memory", CHECK_OK, "no uncorrected") &&
           says(&lines, "GPU clocks", CHECK_OK, "") && says(&lines, "GPU power", CHECK_OK, "") &&
           says(&lines, "GPU persistence", CHECK_OK, "on"),
       "healthy GPUs have a line for each part");
    check_lines_free(&lines);

    check = check_of(0);
    lines = (check_lines_t){0};
    OK(smi_parse(smi_bad, gpus, &n) == ERR_OK && n == 4, "an A100's output is parsed");
    smi_judge(&check, gpus, n);
    take(&lines, &check);
    static const char *const memory[] = {"GPU 0: bad memory will be", "GPU 1: 2 uncorrected ECC errors since",
                                         "GPU 2: 7 uncorrected ECC errors over its lifetime",
                                         "GPU 3: remapping"};
    static const check_status_t statuses[] = {CHECK_FAIL, CHECK_FAIL, CHECK_WARN, CHECK_FAIL};
    bool right = lines.n == 7;
    for (int i = 0; right && i < 4; i++)
        right = strstr(lines.line[i].found, memory[i]) && lines.line[i].status == statuses[i];
    OK(right, "each fault of memory has a line");
    OK(says(&lines, "GPU clocks", CHECK_WARN, "GPU 2: slowed by heat") &&
           says(&lines, "GPU power", CHECK_WARN, "GPU 3: limited to 300 W of 400 W") &&
           says(&lines, "GPU persistence", CHECK_WARN, "GPU 3"),
       "and so have heat, a power limit and missing persistence");
    check_lines_free(&lines);
    OK(smi_parse("Unable to determine the device handle for GPU0000:1B:00.0: Unknown Error\n", gpus, &n) ==
               ERR_DATA &&
           strstr(err_message(), "Unable to determine"),
       "unexpected output is an error that quotes it");
    OK(smi_parse("", gpus, &n) == ERR_OK && n == 0, "an empty list is not an error");
}

static host_facts_t good_host(void)
{
    return (host_facts_t){.n_ranks = 2,
                          .size = 8,
                          .memory_free = 64 * GB,
                          .memory_total = 80 * GB,
                          .memlock = INT64_MAX,
                          .n_files = 65536,
                          .shm_total = 32 * GB,
                          .shm_free = 32 * GB,
                          .out_free = 100 * GB,
                          .temp_free = 10 * GB,
                          .out_writable = true,
                          .temp_writable = true,
                          .n_processes = INT64_MAX,
                          .stack = 8 * MB};
}

/* Lines about facts; check_lines_free them. */
static check_lines_t judge(host_facts_t facts)
{
    check_t check = check_of(0);
    check_lines_t lines = {0};
    host_judge(&check, &facts);
    take(&lines, &check);
    check_facts_judge(&check, NULL, &lines);
    return lines;
}

static bool host_says(host_facts_t facts, const char *name, check_status_t status, const char *part)
{
    check_lines_t lines = judge(facts);
    bool right = says(&lines, name, status, part);
    check_lines_free(&lines);
    return right;
}

static void test_host(void)
{
    host_facts_t f = good_host();
    check_lines_t lines = judge(f);
    bool fine = lines.n == 10;
    for (int64_t i = 0; i < lines.n; i++) fine &= lines.line[i].status == CHECK_OK;
    check_lines_free(&lines);
    OK(fine, "a good host has no findings");
#define WITH(field, value) (f = good_host(), f.field = (value), f)
    OK(host_says(WITH(memory_free, GB), "free memory", CHECK_WARN, "1.0 GiB of 80 GiB") &&
           host_says(WITH(memory_free, 300 * MB), "free memory", CHECK_FAIL, "300 MiB") &&
           host_says(WITH(memory_free, -1), "free memory", CHECK_SKIP, "unknown"),
       "memory, for each rank of the host");
    OK(host_says(WITH(swap_used, GB), "swap", CHECK_WARN, "1.0 GiB in use"), "swap");
    OK(host_says(WITH(shm_free, 64 * MB), "/dev/shm", CHECK_WARN, "64 MiB free of 32 GiB for 2 ranks") &&
           host_says(WITH(shm_free, 20 * MB), "/dev/shm", CHECK_FAIL, "20 MiB") &&
           host_says(WITH(shm_total, -1), "/dev/shm", CHECK_FAIL, "not mounted"),
       "/dev/shm");
    const peer_memory_t refused = {true, "a filter", "--cap-add=SYS_PTRACE"};
    f = good_host();
    f.copies = refused;
    lines = judge(f);
    OK(says(&lines, "memory copies", CHECK_WARN, "a filter") &&
           strcmp(find(&lines, "memory copies")->advice, refused.advice) == 0,
       "copies between ranks, refused by the kernel: cause and advice");
    check_lines_free(&lines);
    f.n_ranks = 1;
    OK(host_says(f, "memory copies", CHECK_OK, "one rank"), "which one rank does not need");
    f = good_host();
    f.shm_total = f.shm_free = 64 * MB;
    f.n_ranks = 8;
    lines = judge(f);
    OK(says(&lines, "/dev/shm", CHECK_FAIL, "64 MiB free of 64 MiB for 8 ranks") &&
           strstr(find(&lines, "/dev/shm")->advice, "--shm-size"),
       "docker's 64 MB for 8 ranks, with docker's option");
    check_lines_free(&lines);
    f = good_host();
    f.rdma = true;
    f.memlock = 64 << 10;
    OK(host_says(f, "ulimit -l", CHECK_FAIL, "64 KiB can be locked, but RDMA needs more") &&
           host_says(WITH(memlock, 64 << 10), "ulimit -l", CHECK_WARN, "64 KiB can be locked") &&
           host_says(WITH(memlock, 8 * MB), "ulimit -l", CHECK_OK, "8.0 MiB"),
       "locked memory, with RDMA and without");
    OK(host_says(WITH(n_files, 256), "ulimit -n", CHECK_WARN, "256 open files"), "open files");
    OK(host_says(WITH(out_free, GB), "disk of --out", CHECK_WARN, "1.0 GiB free") &&
           host_says(WITH(out_free, MB), "disk of --out", CHECK_FAIL, "1.0 MiB free") &&
           host_says(WITH(out_writable, false), "disk of --out", CHECK_FAIL, "not writable") &&
           host_says(WITH(temp_writable, false), "disk of /tmp", CHECK_WARN, "not writable"),
       "disks");
    OK(host_says(WITH(n_processes, 4096), "ulimit -u", CHECK_OK, "4096 processes") &&
           host_says(WITH(stack, -1), "ulimit -s", CHECK_SKIP, "none"),
       "limits that are only compared");
}

static bool clock_says(double offset, double error, check_status_t status, const char *part)
{
    check_t check = check_of(2);
    check_lines_t lines = {0};
    clock_judge(&check, offset, error);
    take(&lines, &check);
    bool right = says(&lines, "wall clock", status, part);
    check_lines_free(&lines);
    return right;
}

static void test_clock(void)
{
    OK(clock_says(0.4, 1e-4, CHECK_OK, "0.400 s behind rank 0's") &&
           clock_says(-3, 1e-4, CHECK_WARN, "3.000 s ahead") &&
           clock_says(3600, 1e-4, CHECK_FAIL, "3600 s behind"),
       "clocks that are off");
    OK(clock_says(1.5, 1, CHECK_OK, "1.500 s behind"), "an offset within the uncertainty is ok");
}

/* Facts of 8 ranks, each bound to a separate core of the NUMA node of its GPU. */
static void good_topology(topology_facts_t all[N_RANKS])
{
    memset(all, 0, N_RANKS * sizeof *all);
    for (int r = 0; r < N_RANKS; r++) {
        all[r] = (topology_facts_t){.host = r / 2,
                                    .known = true,
                                    .bound = true,
                                    .n_cpus = 2,
                                    .n_host_cpus = 8,
                                    .n_host_cores = 4,
                                    .nodes = (uint64_t)1 << r % 2,
                                    .n_host_nodes = 2,
                                    .gpu_node = r % 2,
                                    .gpu_distance = 10};
        CPU_SET((size_t)(r % 2), &all[r].cores);
    }
}

static bool topology_says(const topology_facts_t *all, int rank, const char *name, check_status_t status,
                          const char *part)
{
    check_t check = check_of(rank);
    check_lines_t lines = {0};
    topology_judge(&check, all);
    take(&lines, &check);
    bool right = says(&lines, name, status, part);
    check_lines_free(&lines);
    return right;
}

static void test_topology(void)
{
    topology_facts_t all[N_RANKS];
    good_topology(all);
    OK(topology_says(all, 0, "ranks", CHECK_OK, "2 on 4 cores (8 CPUs)") &&
           topology_says(all, 3, "CPUs", CHECK_OK, "bound to 2 CPUs of NUMA node 1") &&
           topology_says(all, 3, "GPU and CPUs", CHECK_OK, "in one NUMA node"),
       "ranks that are bound well");
    all[3].cores = all[2].cores;
    OK(topology_says(all, 2, "CPUs", CHECK_WARN, "2 ranks are bound to the same 1 core") &&
           topology_says(all, 3, "CPUs", CHECK_WARN, "2 ranks") &&
           topology_says(all, 0, "CPUs", CHECK_OK, "bound"),
       "two ranks on one core");
    good_topology(all);
    all[5].gpu_node = 0;
    all[5].gpu_distance = 21;
    OK(topology_says(all, 5, "GPU and CPUs", CHECK_WARN, "NUMA node 0, the CPUs are not (distance 21)"),
       "a far GPU");
    all[4].bound = false;
    OK(topology_says(all, 4, "CPUs", CHECK_WARN, "not bound, 2 NUMA nodes"), "an unbound rank");
    all[6].n_host_cores = 1;
    OK(topology_says(all, 6, "ranks", CHECK_WARN, "2 on 1 core "), "more ranks than cores");
}

static void test_shared(void)
{
    bool seen[16] = {0};
    for (int i = 0; i < 16; i++) seen[i] = i / 4 != 0 && i % 4 != 0;
    seen[0] = true;
    OK(shared_find_root(seen, 4) == 1 && shared_mutual(seen, 4, 2, 3) && !shared_mutual(seen, 4, 0, 1),
       "the host that differs is found, even if it is the first");
    seen[0 * 4 + 1] = true;
    OK(!shared_mutual(seen, 4, 0, 1), "visibility must be mutual");
    int n = 0;
    for (int host = 0; host < 1000; host++) n += shared_is_reference(host, 1000);
    OK(n == 3 && shared_is_reference(7, 32), "with many hosts, three are references");
}

static void test_process(void)
{
    char out[8];
    int code;
    static const char *const echo[] = {"sh", "-c", "echo 0123456789; exit 3", NULL};
    static const char *const sleeper[] = {"sleep", "60", NULL};
    static const char *const missing[] = {"no-such-program-here", NULL};
    OK(process_run(echo, 60, out, sizeof out, &code) == ERR_OK && code == 3 && strcmp(out, "0123456") == 0,
       "a program's exit code and the beginning of its output");
    OK(process_run(sleeper, 0.1, out, sizeof out, &code) == ERR_PEER, "a deadline");
    OK(process_run(missing, 60, out, sizeof out, &code) == ERR_DATA, "a missing program");
}

int main(void)
{
    tap_plan(42);
    make_ranks();
    test_rows();
    test_table();
    test_smi();
    test_host();
    test_clock();
    test_topology();
    test_shared();
    test_process();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
