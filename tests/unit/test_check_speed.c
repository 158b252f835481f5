/* SPDX-License-Identifier: MIT */
/* The check `speed`, from made-up rates: which values are measured again, slow CPUs, burn-ins. RUN np=0 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "tools/check/host.h"
#include "tools/check/lines.h"

enum { MAX = 8 };
static check_options_t options;
static check_rank_t ranks[1] = {{.host_name = "node1"}};
static comm_t comm = {.size = 1, .topo = {.size = 1, .local_size = 1}};
static check_line_t line;
static check_t check;

/* Reads the only line. */
static bool says(const char *name, check_status_t status, const char *part)
{
    check_lines_t lines = {0};
    bool right = check_lines_unpack(check.text, check.n_text, &lines) == ERR_OK && lines.n == 1;
    if (right) line = lines.line[0];
    if (right) printf("# %s %s: %s\n", check_status_names[line.status], line.name, line.found);
    right = right && strcmp(line.name, name) == 0 && line.status == status && strstr(line.found, part);
    mem_free(&lines.line);
    return right;
}

static void test_suspects(void)
{
    const uint64_t kinds[MAX] = {1, 1, 1, 1, 2, 2, 1, 1}, one[2] = {1, 1};
    const double values[MAX] = {100, 99, 94, 101, 50, 30, NAN, 96}, two[2] = {80, 100};
    double scratch[MAX];
    bool s[MAX];
    OK(speed_suspects(values, kinds, MAX, scratch, s) == 2 && s[2] && s[5] && !s[4] && !s[6] && !s[7],
       "more than 5 %% below the median of a kind; a rank without a value is none");
    OK(speed_suspects(two, one, 2, scratch, s) == 1 && s[0] && !s[1], "the slower of two");
    OK(speed_suspects(two, kinds, 1, scratch, s) == 0 && !s[0], "a single rank has no others");
}

static void judge_cpus(const double *rates, int n)
{
    speed_cpu_t cpus[MAX];
    double scratch[MAX];
    for (int i = 0; i < n; i++) cpus[i] = (speed_cpu_t){10 + i, 1e9 * rates[i]};
    mem_free(&check.text);
    check.n_text = 0;
    speed_judge_cpus(&check, cpus, n, scratch);
}

static void test_cpus(void)
{
    judge_cpus((double[]){100, 98, 97, 99, 90}, 5);
    OK(says("slowest CPU", CHECK_OK, "90 GFLOP/s") && line.value == 90e9, "ten percent are no finding");
    judge_cpus((double[]){100, 98, 97, 50, 99}, 5);
    OK(says("slowest CPU", CHECK_FAIL, "CPU 13: 50 GFLOP/s, 49 % below"), "one at half speed is named");
    judge_cpus((double[]){100, 60}, 2);
    OK(says("slowest CPU", CHECK_FAIL, "CPU 11: "), "the slower of two is named");
    judge_cpus((double[]){100, 98, 97, 50, 99, 48, 51, 49}, 8);
    OK(says("slowest CPU", CHECK_WARN, "4 are slow"), "half of them slow: cores of two kinds");
    judge_cpus((double[]){100}, 1);
    OK(says("slowest CPU", CHECK_OK, "100 GFLOP/s"), "a single CPU has no others");
}

static void judge_burn(double first, double last, int64_t n_wrong)
{
    const speed_burn_t burn = {1000, n_wrong, first, last};
    mem_free(&check.text);
    check.n_text = 0;
    speed_judge_burn(&check, &burn);
}

static void test_burn(void)
{
    judge_burn(100e9, 95e9, 0);
    OK(says("burn-in", CHECK_OK, "95 GFLOP/s"), "a burn-in at constant speed");
    judge_burn(100e9, 80e9, 0);
    OK(says("burn-in", CHECK_WARN, "20 % slower"), "one that throttles");
    judge_burn(100e9, 80e9, 3);
    OK(says("burn-in", CHECK_FAIL, "3 of 1000 products"), "wrong results come first");
}

int main(void)
{
    tap_plan(3 + 5 + 3 + 1);
    check = (check_t){.options = &options, .comm = &comm, .ranks = ranks, .n_hosts = 1, .current = "speed"};
    test_suspects();
    test_cpus();
    test_burn();
    mem_free(&check.text);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
