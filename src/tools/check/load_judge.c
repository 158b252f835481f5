/* SPDX-License-Identifier: MIT */
/* Judges the other work on a host. Everything here is a warning, because it can end before the job starts;
 * --strict turns warnings into failures. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/figure.h"
#include "tools/check/load.h"

static const double busy_share = 0.1;    /* of the job's CPUs */
static const double busy_process = 0.5;  /* CPUs of one process: it halves the speed of a rank bound there */
static const double stolen_share = 0.05; /* one tick of the kernel in 0.2 s */
static const double got_share = 0.9;     /* of the fair share */

static void judge_cpus(check_t *check, const load_facts_t *f)
{
    char text[256], average[32] = "";
    size_t used = (size_t)snprintf(text, sizeof text, "%.1f of %d CPU%s in use by others", f->busy, f->n_cpus,
                                   f->n_cpus == 1 ? "" : "s");
    bool busy =
        f->busy > busy_share * f->n_cpus || (f->n_culprits > 0 && f->culprits[0].cpus >= busy_process);
    for (int i = 0; busy && i < f->n_culprits && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s %.1f (%d)", i ? ", " : ": ",
                                 f->culprits[i].at.name, f->culprits[i].cpus, f->culprits[i].at.pid);
    if (busy && f->average >= 0) snprintf(average, sizeof average, "; load average %.1f", f->average);
    if (f->busy < 0)
        check_line(check, check_host(check), "CPUs in use", CHECK_SKIP, NULL, "not reported by the kernel");
    else
        check_measured(
            check, check_host(check), "CPUs in use", busy ? CHECK_WARN : CHECK_OK,
            "all ranks wait for the slowest: end those processes (numbers in parentheses), or leave "
            "the host out; unnamed ones are in another container",
            f->busy, "%s%s", text, average);
}

static void judge_leftovers(check_t *check, const load_facts_t *f)
{
    char text[256] = "";
    size_t used = 0;
    if (f->n_leftovers == 0) {
        check_line(check, check_host(check), "other jobs", CHECK_OK, NULL, "no other dptrain process");
        return;
    }
    for (int i = 0; i < f->n_leftovers && i < LOAD_MAX_LEFTOVERS && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? " " : "", f->leftovers[i].at.pid);
    check_line(
        check, check_host(check), "other jobs", CHECK_WARN,
        "if they are left over from an earlier job: kill PROCESS, with -9 if it stays; otherwise wait for "
        "that job to end",
        "%d other dptrain process%s of this user, the oldest for %s: %s%s", f->n_leftovers,
        f->n_leftovers == 1 ? "" : "es", figure_duration(f->oldest_sec).text, text,
        f->n_leftovers > LOAD_MAX_LEFTOVERS ? " …" : "");
}

void load_judge(check_t *check, const load_facts_t *f)
{
    judge_cpus(check, f);
    judge_leftovers(check, f);
    if (f->stolen < 0)
        check_line(check, check_host(check), "stolen time", CHECK_SKIP, NULL, "not reported by the kernel");
    else
        check_measured(check, check_host(check), "stolen time",
                       f->stolen > stolen_share ? CHECK_WARN : CHECK_OK,
                       "the hypervisor gives these CPUs to other virtual machines: use dedicated cores, or "
                       "leave the host out",
                       f->stolen, "%s of the CPU time", figure_share(f->stolen).text);
}

void load_judge_rank(check_t *check, double got, double fair)
{
    if (got >= got_share * fair)
        check_measured(check, check_rank(check), "CPU time", CHECK_OK, NULL, got, "gets %s of a CPU",
                       figure_share(got).text);
    else /* rounded, so that ranks have equal lines */
        check_measured(
            check, check_rank(check), "CPU time", CHECK_WARN,
            "another process on the same core, another virtual machine, or a quota (docker --cpus, "
            "cpu.max) takes the rest",
            got, "gets about %s of a CPU", figure_share(0.1 * rint(10 * got)).text);
}
