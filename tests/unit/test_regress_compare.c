/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Two recordings, made here: a verdict of every kind and its reason, what a slower machine measured, turns,
 * parts, fingerprints, runs that are not whole, samples that are no times; and that the same records give the
 * same bytes. */
#include "tests/tap.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "report/regress/compare.h"
#include "report/regress/history.h"

enum { BATCHES = 12, PER_BATCH = 4, STARTS = 5 };

/* A recording that is to be made, of a metric "gemm gemm" and, with parts, "step weak". */
typedef struct plan {
    const char *id;   /* of its runs, a digit follows */
    const char *with; /* ids of those that they took turns with; NULL */
    int n_starts;     /* 0: STARTS */
    uint64_t seed;
    double gemm, noise, spread; /* seconds (0: 1 ms), standard deviations of ln */
    double backward;            /* of a step, beside 4 ms forward and no data; 0: no step */
    double clock[STARTS];       /* 0: 1 ms */
    bool backwards;             /* the last start first */
    bool zero;                  /* each first sample is none */
    double load;                /* share of samples that other load prolongs threefold */
    bool jumps;                 /* the machine between two speeds, the same in all recordings */
    const char *hardware, *job, *software, *why, *verdict; /* NULL: the usual */
    const char *more;                                      /* records behind those of the last run */
} plan_t;

static char text[4 << 20];
static size_t n_text;
static report_t reports[2];
static comparison_t comparison;
static const compare_options_t usual = {.min_effect = 0.03, .alpha = 0.01, .n_resamples = 500, .seed = 1};

__attribute__((format(printf, 1, 2))) static void put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    n_text += (size_t)vsnprintf(text + n_text, sizeof text - n_text, format, args);
    va_end(args);
}

static void put_samples(const char *name, const double *sec)
{
    put(",\"%s\":[", name);
    for (int i = 0; i < BATCHES * PER_BATCH; i++) put("%s%.10g", i ? "," : "", sec[i]);
    put("]");
}

/* Partners go in opposite orders, and meet the same jumps. */
static int partner(const plan_t *p, int start)
{
    return p->n_starts - 1 - start;
}

static double jump(const plan_t *p, int start, int i)
{
    if (p->with) start = partner(p, start);
    rng_t rng = rng_new(77, RNG_TEST, (uint64_t)(start * BATCHES + i / PER_BATCH));
    return p->jumps && rng_uniform(&rng) < 0.5 ? 1.6 : 1;
}

static void put_point(const plan_t *p, int start, const char *name, double sec, double part, rng_t *rng)
{
    double whole[BATCHES * PER_BATCH], parts[3][BATCHES * PER_BATCH];
    double level = exp(p->spread * rng_normal(rng)), clock = p->clock[start] > 0 ? p->clock[start] : 1e-3;
    for (int i = 0; i < BATCHES * PER_BATCH; i++) {
        double factor = level * jump(p, start, i) * (p->load > 0 && rng_uniform(rng) < p->load ? 3 : 1);
        parts[0][i] = 0;
        parts[1][i] = factor * sec * exp(p->noise * rng_normal(rng));
        parts[2][i] = factor * part * exp(p->noise * rng_normal(rng));
        whole[i] = p->zero && i == 0 ? 0 : parts[1][i] + parts[2][i];
    }
    put("{\"record\":\"bench\",\"schema\":1,\"run\":\"%s%d\",\"case\":\"%s\",\"test\":\"%s\",\"key\":{"
        "\"ranks\":2},"
        "\"metrics\":{},\"unit\":\"s\",\"verdict\":\"%s\",\"n\":%d,\"p50\":%g,\"clock_sec\":%g,\"batch_n\":[",
        p->id, start, name, part > 0 ? "weak" : name, p->verdict ? p->verdict : "ok", BATCHES * PER_BATCH,
        (sec + part) * level, clock);
    for (int b = 0; b < BATCHES; b++) put("%s%d", b ? "," : "", PER_BATCH);
    put("]");
    put_samples("samples", whole);
    if (part > 0) {
        put_samples("data_samples", parts[0]);
        put_samples("forward_samples", parts[1]);
        put_samples("backward_samples", parts[2]);
    }
    put("}\n");
}

static void put_run(const plan_t *p, int start)
{
    rng_t rng = rng_new(p->seed, RNG_TEST, (uint64_t)start);
    put("{\"record\":\"bench_run\",\"schema\":1,\"id\":\"%s%d\",\"time\":\"2026-11-21T08:0%d:00Z\",%s", p->id,
        start, start, p->job ? p->job : "\"ranks\":2,\"threads\":1");
    if (p->with) put(",\"interleaved_with\":\"%s%d\"", p->with, partner(p, start));
    put(",\"fingerprint\":{%s,\"fabric_id\":\"2b\",\"fabric\":{\"hosts\":1},\"software\":%s}}\n",
        p->hardware ? p->hardware : "\"hardware_id\":\"1a\",\"hardware\":{\"cpu\":\"A\",\"memory_gib\":24}",
        p->software ? p->software : "{\"git\":\"abc\",\"flags\":\"-O3\"}");
    put_point(p, start, "gemm", p->gemm > 0 ? p->gemm : 1e-3, 0, &rng);
    if (p->backward > 0) put_point(p, start, "step", 4e-3, p->backward, &rng);
    if (!p->why || p->why[0])
        put("{\"record\":\"bench_end\",\"schema\":1,\"run\":\"%s%d\",\"reason\":\"%s\",\"n_points\":%d}\n",
            p->id, start, p->why ? p->why : "finished", 1 + (p->backward > 0));
}

static void add_plan(const char *name, plan_t p, report_t *report)
{
    n_text = 0;
    if (p.n_starts == 0) p.n_starts = STARTS;
    for (int i = 0; i < p.n_starts; i++) put_run(&p, p.backwards ? p.n_starts - 1 - i : i);
    if (p.more) put("%s", p.more);
    report->keep_samples = true;
    int fd = memfd_create("records", MFD_CLOEXEC);
    if (fd < 0 || write(fd, text, n_text) != (ssize_t)n_text || lseek(fd, 0, SEEK_SET) != 0) exit(4);
    if (report_read(report, fd, name) != ERR_OK) exit(4);
    close(fd);
}

static void read_plan(const char *name, plan_t p, report_t *report)
{
    report_free(report);
    add_plan(name, p, report);
}

static err_t compare_with(plan_t base, plan_t now, const compare_options_t *options)
{
    if (!base.id) base.id = "a";
    if (!now.id) now.id = "b";
    if (base.seed == 0) base.seed = 1;
    if (now.seed == 0) now.seed = 2;
    read_plan("base.jsonl", base, &reports[0]);
    read_plan("new.jsonl", now, &reports[1]);
    compare_free(&comparison);
    return compare_reports(&reports[0], &reports[1], options, &comparison);
}

static err_t compare(plan_t base, plan_t now)
{
    return compare_with(base, now, &usual);
}

static bool has_note(const char *words)
{
    for (int i = 0; i < comparison.n_notes; i++)
        if (strstr(comparison.notes[i], words)) return true;
    for (int i = 0; i < comparison.n_notes; i++) printf("# note: %s\n", comparison.notes[i]);
    return false;
}

/* Of the first metric. */
static bool is(verdict_t verdict)
{
    const compare_metric_t *m = comparison.metrics;
    if (m && m->verdict == verdict) return true;
    if (m)
        printf("# %s: %g (%g to %g), q %g, p_rank %g, blocks %d %d: %s\n", verdict_names[m->verdict],
               m->difference.ratio, m->difference.low, m->difference.high, m->q, m->difference.p_rank,
               m->difference.n_batches[0], m->difference.n_batches[1], m->reason);
    else
        printf("# %s\n", err_message());
    return false;
}

static bool why_has(const char *words)
{
    const compare_metric_t *m = comparison.metrics;
    if (m && strstr(m->reason, words)) return true;
    printf("# %s\n", m ? m->reason : "no metric");
    return false;
}

static const plan_t quiet = {.noise = 0.01, .spread = 0.003};

static plan_t of(double gemm)
{
    plan_t p = quiet;
    p.gemm = gemm;
    return p;
}

static void check_verdicts(void)
{
    OK(compare(quiet, of(1.06e-3)) == ERR_OK && is(VERDICT_WORSE), "6 %% slower is worse");
    const compare_metric_t *m = comparison.metrics;
    OK(m->tested && m->q <= 0.01 && m->difference.low > 1 && !m->interleaved && m->n_runs[0] == STARTS &&
           m->n_samples[1] == STARTS * BATCHES * PER_BATCH && !m->reason[0],
       "with what it was judged by");
    OK(comparison.n_metrics == 1 && comparison.n_of[VERDICT_WORSE] == 1 &&
           comparison.verdict == VERDICT_WORSE,
       "and so is the whole");
    OK(compare(quiet, of(0.94e-3)) == ERR_OK && is(VERDICT_BETTER) && comparison.verdict == VERDICT_BETTER,
       "6 %% faster is better");
    OK(compare(quiet, quiet) == ERR_OK && is(VERDICT_SAME) && comparison.verdict == VERDICT_SAME, "the same");
    OK(compare(quiet, of(1.012e-3)) == ERR_OK && is(VERDICT_SAME) && comparison.metrics->q < 0.05,
       "what surely is less than the minimum effect is the same too");
    OK(compare(quiet, of(1.027e-3)) == ERR_OK && is(VERDICT_INCONCLUSIVE) && why_has("slower, but possibly"),
       "what surely is slower, but not surely by the minimum effect");
    plan_t noisy = {.noise = 0.1, .spread = 0.05};
    OK(compare(noisy, noisy) == ERR_OK && is(VERDICT_INCONCLUSIVE) && why_has("more starts") &&
           why_has("-") && comparison.verdict == VERDICT_INCONCLUSIVE,
       "where starts differ, more of them are wanted");
    compare_options_t loose = usual;
    loose.min_effect = 0.5;
    OK(compare_with(quiet, of(1.06e-3), &loose) == ERR_OK && is(VERDICT_SAME),
       "the minimum effect is the user's");
}

static void check_few(void)
{
    plan_t one = quiet;
    one.n_starts = 1;
    OK(compare(quiet, one) == ERR_OK && is(VERDICT_INCONCLUSIVE) && why_has("one start on a side"),
       "one start on a side is too few");
    one.gemm = 2e-3;
    OK(compare(quiet, one) == ERR_OK && is(VERDICT_INCONCLUSIVE) && why_has("one start on a side") &&
           isnan(comparison.metrics->detectable),
       "however large the change is");
    static const char single[] =
        "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"%s\",\"ranks\":2,\"threads\":1,\"fingerprint\":{"
        "\"hardware_id\":\"1a\",\"fabric_id\":\"2b\",\"software\":{\"git\":\"abc\"}}}\n{\"record\":\"bench\","
        "\"schema\":1,\"run\":\"%s\",\"case\":\"x\",\"test\":\"y\",\"key\":{},\"unit\":\"s\",\"p50\":1,"
        "\"samples\":"
        "[%s]}\n{\"record\":\"bench_end\",\"schema\":1,\"run\":\"%s\",\"reason\":\"finished\"}\n";
    char records[2][1024];
    snprintf(records[0], sizeof records[0], single, "c1", "c1", "1", "c1");
    snprintf(records[1], sizeof records[1], single, "c2", "c2", "1.5", "c2");
    plan_t none = {.n_starts = -1, .more = records[0]}, other = {.n_starts = -1, .more = records[1]};
    OK(compare(none, other) == ERR_OK && comparison.n_metrics == 1 && is(VERDICT_INCONCLUSIVE) &&
           comparison.metrics->n_samples[0] == 1 && why_has("too few samples"),
       "single samples are compared, and nothing can be told");
    snprintf(records[1], sizeof records[1], single, "c2", "c2", "null,NaN,0,-1", "c2");
    OK(compare(none, other) == ERR_OK && is(VERDICT_INCONCLUSIVE) && why_has("no valid samples") &&
           !comparison.metrics->tested && isnan(comparison.metrics->difference.ratio),
       "a side without times");
    OK(has_note("invalid samples left out (not times above 0): 4") &&
           has_note("measurements left out for lack of samples: 1"),
       "is noted");
}

/* Three starts of one sample a side: all of one side are above all of the other, which one order of ten is.
 */
static void check_order(void)
{
    static char records[2][4096];
    for (int side = 0; side < 2; side++)
        for (int i = 0, n = 0; i < 3; i++)
            n +=
                snprintf(records[side] + n, sizeof records[side] - (size_t)n,
                         "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"%c%d\",\"fingerprint\":{}}\n"
                         "{\"record\":\"bench\",\"schema\":1,\"run\":\"%c%d\",\"case\":\"x\",\"test\":\"y\","
                         "\"key\":{},"
                         "\"unit\":\"s\",\"p50\":1,\"samples\":[%g]}\n"
                         "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"%c%d\",\"reason\":\"finished\"}\n",
                         'c' + side, i, 'c' + side, i, 1 + side + 0.001 * i, 'c' + side, i);
    const plan_t base = {.n_starts = -1, .more = records[0]}, now = {.n_starts = -1, .more = records[1]};
    OK(compare(base, now) == ERR_OK && is(VERDICT_INCONCLUSIVE) && comparison.metrics->difference.low > 1 &&
           why_has("the order of the batches may be chance (p 0."),
       "one metric is not one among many");
}

static void check_clock(void)
{
    plan_t slow = of(1.4e-3);
    for (int i = 0; i < STARTS; i++) slow.clock[i] = i < 4 ? 1.4e-3 : 1e-3;
    OK(compare(quiet, slow) == ERR_OK && is(VERDICT_INCONCLUSIVE) && why_has("in 4 of 5 starts of new") &&
           why_has("up to 40 % longer"),
       "on a slower machine a change is no change");
    OK(!comparison.metrics->tested && isnan(comparison.metrics->q) &&
           comparison.metrics->difference.ratio > 1.3,
       "it is shown, and not tested");
    for (int i = 0; i < STARTS; i++) slow.clock[i] = i < 2 ? 1.2e-3 : 1.05e-3;
    OK(compare(quiet, slow) == ERR_OK && is(VERDICT_WORSE) && comparison.metrics->n_slowed[1] == 2 &&
           comparison.metrics->n_runs[1] == 3 && has_note("starts left out because the machine was slow"),
       "where three starts remain, the others are left out");
    plan_t half = slow;
    half.n_starts = 4;
    OK(compare(quiet, half) == ERR_OK && is(VERDICT_INCONCLUSIVE) && !comparison.metrics->tested &&
           why_has("in 2 of 4 starts of new") && why_has("interleave"),
       "where so many are slow, the others are not trusted either");
    slow.zero = true;
    OK(compare(quiet, slow) == ERR_OK && comparison.metrics->n_invalid[1] == 3 &&
           comparison.metrics->n_invalid[0] == 0,
       "what was no time is counted of these");
    slow.zero = false;
    plan_t burst = quiet;
    burst.clock[2] = 0.93e-3;
    OK(compare(burst, quiet) == ERR_OK && is(VERDICT_SAME) && comparison.metrics->n_runs[0] == STARTS,
       "one start's burst makes no other slow");
    plan_t disturbed = quiet;
    disturbed.verdict = "disturbed";
    OK(compare(disturbed, quiet) == ERR_OK && is(VERDICT_SAME) && comparison.metrics->by_fast &&
           comparison.metrics->n_runs[0] == STARTS,
       "starts that were disturbed are compared by their fastest samples");
    disturbed.gemm = 1.06e-3;
    disturbed.load = 0.7;
    OK(compare(quiet, disturbed) == ERR_OK && is(VERDICT_WORSE) && comparison.metrics->by_fast &&
           fabs(comparison.metrics->difference.ratio - 1.06) < 0.02 && comparison.metrics->median.ratio > 2,
       "which show a change that the medians do not");
    slow.hardware = "\"hardware_id\":\"9f\",\"hardware\":{\"cpu\":\"B\"}";
    for (int i = 0; i < STARTS; i++) slow.clock[i] = 2e-3;
    compare_options_t force = usual;
    force.force = true;
    OK(compare_with(quiet, slow, &force) == ERR_OK && is(VERDICT_WORSE) &&
           comparison.metrics->n_slowed[1] == 0,
       "another machine's clock is another");
}

static void check_turns(void)
{
    plan_t base = {.noise = 0.01, .jumps = true, .n_starts = 4}, now = base;
    now.gemm = 1.05e-3;
    for (int i = 0; i < STARTS; i++) now.clock[i] = 1.5e-3;
    OK(compare(base, now) == ERR_OK && is(VERDICT_INCONCLUSIVE), "5 %% on a machine that jumps are not seen");
    now.with = "a";
    OK(compare(base, now) == ERR_OK && comparison.metrics->interleaved && is(VERDICT_WORSE) &&
           fabs(comparison.metrics->difference.ratio - 1.05) < 0.01,
       "in turn they are, whatever the clock says");
    OK(comparison.metrics->median.high - comparison.metrics->median.low < 0.03,
       "each with its own partner, whose jumps were its own");
    now.with = NULL;
    base.with = "b";
    OK(compare(base, now) == ERR_OK && comparison.metrics->interleaved && is(VERDICT_WORSE),
       "where base names its partners as well");
    base.n_starts = 3;
    OK(compare(base, now) == ERR_OK && !comparison.metrics->interleaved &&
           has_note("only some starts interleaved: 1"),
       "where some have none, as if none had");
}

static void check_parts(void)
{
    plan_t base = quiet, now = quiet;
    base.backward = 8e-3;
    now.backward = 9e-3;
    OK(compare(base, now) == ERR_OK && comparison.n_metrics == 2 && is(VERDICT_SAME),
       "two metrics, in order");
    const compare_metric_t *step = comparison.metrics->next;
    OK(step->verdict == VERDICT_WORSE && step->n_parts == 4 && step->attributed_to &&
           strcmp(step->attributed_to->name, "backward") == 0 && fabs(step->attributed_to->share - 1) < 0.1,
       "the part that a step's change came from is named");
    double base_sec = 0, new_sec = 0, share = 0;
    for (int i = 0; i < step->n_parts; i++) {
        base_sec += step->parts[i].difference.base;
        new_sec += step->parts[i].difference.now;
        share += step->parts[i].share;
    }
    OK(strcmp(step->parts[3].name, "other") == 0 && fabs(base_sec / step->difference.base - 1) < 1e-12 &&
           fabs(new_sec / step->difference.now - 1) < 1e-12 && fabs(share - 1) < 1e-9,
       "the parts and what they leave add up to the step and its change");
    OK(strcmp(step->label, "step weak") == 0 && strcmp(step->key, "ranks=2") == 0, "label and key");
    OK(fabs(step->parts[2].difference.ratio - 1.125) < 0.01 && fabs(step->parts[1].share) < 0.1, "shares");
    OK(fabs(step->parts[0].share) < 1e-9 && isnan(step->parts[0].difference.ratio) &&
           fabs(step->parts[0].difference.base) < 1e-12,
       "a part that takes no time has no ratio");
    OK(compare(base, base) == ERR_OK && !comparison.metrics->next->attributed_to,
       "what is the same has nothing to blame");
    now.backward = 7e-3;
    OK(compare(base, now) == ERR_OK && comparison.metrics->next->verdict == VERDICT_BETTER &&
           comparison.metrics->next->attributed_to &&
           strcmp(comparison.metrics->next->attributed_to->name, "backward") == 0,
       "a gain has its part too");
}

static bool refused(plan_t base, plan_t now, const char *words)
{
    err_t err = compare(base, now);
    if (err == ERR_DATA && strstr(err_message(), words)) return true;
    printf("# %d: %s\n", (int)err, err == ERR_OK ? "compared" : err_message());
    return false;
}

static void check_fingerprints(void)
{
    plan_t other = quiet;
    compare_options_t force = usual;
    force.force = true;
    other.hardware = "\"hardware_id\":\"9f\",\"hardware\":{\"cpu\":\"B\",\"memory_gib\":48,\"gpu\":\"G\"}";
    OK(refused(quiet, other, "cpu: \"A\" → \"B\"; memory_gib: 24 → 48; gpu: not recorded → \"G\"; --force"),
       "another machine is refused, field by field");
    OK(compare_with(quiet, other, &force) == ERR_OK && is(VERDICT_SAME) &&
           has_note("compared by --force: memory_gib: 24 → 48"),
       "unless forced");
    other.hardware = "\"hardware_id\":\"9f\",\"hardware\":{\"cpu\":\"A\",\"memory_gib\":24}";
    OK(refused(quiet, other, "hardware: 1a → 9f"), "the id says what the fields do not");
    other.hardware = NULL;
    other.job = "\"ranks\":4,\"threads\":2";
    OK(refused(quiet, other, "ranks: 2 → 4; threads: 1 → 2"), "so are ranks and threads");
    other.job = NULL;
    other.more =
        "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"zz\",\"ranks\":2,\"threads\":1,\"fingerprint\":{"
        "\"hardware_id\":\"9f\",\"hardware\":{\"cpu\":\"B\",\"memory_gib\":24},\"fabric_id\":\"2b\","
        "\"fabric\":{\"hosts\":1},\"software\":{\"git\":\"abc\",\"flags\":\"-O3\"}}}\n"
        "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"zz\",\"reason\":\"finished\"}\n";
    OK(refused(quiet, other, "cpu: \"A\" → \"A\" and \"B\""), "and two machines in one recording");
    plan_t mixed = other;
    OK(refused(mixed, other, "cpu: \"A\" and \"B\" in both"), "even in both");
    mixed.more = other.more =
        "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"zz\",\"ranks\":4,\"threads\":1,\"fingerprint\":{"
        "\"hardware_id\":\"1a\",\"hardware\":{\"cpu\":\"A\",\"memory_gib\":24},\"fabric_id\":\"2b\","
        "\"fabric\":{\"hosts\":1},\"software\":{\"git\":\"abc\",\"flags\":\"-O3\"}}}\n"
        "{\"record\":\"bench_end\",\"schema\":1,\"run\":\"zz\",\"reason\":\"finished\"}\n";
    OK(compare(mixed, other) == ERR_OK && refused(quiet, other, "ranks: 2 → 2 and 4"),
       "ranks may be several, the same in both");
    other.more = NULL;
    other.software = "{\"git\":\"def\",\"flags\":\"-O3\",\"mpi\":\"5\"}";
    OK(compare(quiet, other) == ERR_OK && has_note("software: git: \"abc\" → \"def\"") &&
           has_note("software: mpi: not recorded → \"5\"") && comparison.n_notes == 2,
       "what differs in software is noted");
    char flags[2][2048];
    for (int i = 0; i < 2; i++)
        snprintf(flags[i], sizeof flags[i], "{\"git\":\"abc\",\"flags\":\"%01200d -march=%s é\"}", 0,
                 i ? "b" : "a");
    plan_t old = quiet;
    old.software = flags[0];
    other.software = flags[1];
    OK(compare(old, other) == ERR_OK && has_note("flags: \"… -march=a é\" → \"… -march=b é\""),
       "a long text from where it differs");
    other.software = "{\"git\":\"def\",\"flags\":\"-O3\",\"mpi\":\"5\"}";
    OK(compare(quiet, other) == ERR_OK, "again");
    OK(strcmp(comparison.sides[1].git, "def") == 0 && strcmp(comparison.sides[0].name, "base.jsonl") == 0 &&
           strcmp(comparison.sides[0].first, "2026-11-21T08:00:00Z") == 0 &&
           strcmp(comparison.sides[0].last, "2026-11-21T08:04:00Z") == 0 &&
           comparison.sides[0].n_runs == STARTS,
       "the head's figures");
}

static void check_runs(void)
{
    plan_t cut = quiet, other = quiet;
    cut.why = "interrupted";
    OK(refused(quiet, cut, "new.jsonl: no complete run") && strstr(err_message(), "b0 (interrupted)"),
       "a recording that was interrupted is refused");
    cut.why = "";
    OK(refused(cut, quiet, "a2 (no end record) and 2 more"), "so is one that was cut off");
    other.n_starts = -1;
    OK(refused(quiet, other, "no complete run"), "and one that is empty");
    other.n_starts = 0;
    other.more =
        "{\"record\":\"bench_run\",\"schema\":1,\"id\":\"zz\"}\n{\"record\":\"bench\",\"schema\":1,\"run\":"
        "\"zz\",\"case\":\"gemm\",\"test\":\"gemm\",\"key\":{\"ranks\":2},\"unit\":\"s\",\"p50\":9,"
        "\"samples\":[9]}\n{\"record\":\"bench\",\"schema\":7}\n{\"record\":\"be";
    OK(compare(quiet, other) == ERR_OK && is(VERDICT_SAME) && comparison.metrics->n_runs[1] == STARTS &&
           comparison.sides[1].n_left_out == 1 &&
           has_note("new: incomplete runs left out: zz (no end record)"),
       "whole runs are compared without one that was cut off");
    OK(has_note("new.jsonl: records left out: 1, their schema is newer than 1") &&
           has_note("new.jsonl: lines left out: 1, the first in line 19: truncated"),
       "lines that were left out are noted");
    other.more = NULL;
    other.backward = 8e-3;
    OK(compare(quiet, other) == ERR_OK && comparison.n_metrics == 1 &&
           has_note("only in new (1): step weak ranks=2"),
       "a metric that one side has");
    plan_t foreign = {.n_starts = -1,
                      .more = "{\"record\":\"run\",\"schema\":1,\"options\":{\"model\":\"m\"},\"topology\":{"
                              "\"ranks\":2,\"threads\":1},\"first_step\":0}\n"
                              "{\"record\":\"step\",\"step\":10,\"step_sec\":1}\n"
                              "{\"record\":\"end\",\"reason\":\"finished\"}\n"};
    OK(refused(quiet, foreign, "no metric in common; base has gemm gemm ranks=2; new has train m"),
       "none in common");
}

/* Recordings of other days, `days` of them, whose gemm is off by offsets[]. */
static const double offsets[] = {0, 0.004, -0.004, 0.002, -0.002};
static const char *const ids[] = {"p", "q", "r", "s", "t"};

static plan_t day(int i, double spread)
{
    plan_t p = of(1e-3 * exp(spread / 0.004 * offsets[i]));
    p.id = ids[i];
    p.seed = (uint64_t)(20 + i);
    return p;
}

static err_t compare_days(int days, double spread, plan_t now, const compare_options_t *options)
{
    char name[32];
    report_free(&reports[0]);
    for (int i = 0; i < days; i++) {
        snprintf(name, sizeof name, "day-%d.jsonl", i);
        add_plan(name, day(i, spread), &reports[0]);
    }
    now.id = "b", now.seed = 2;
    read_plan("new.jsonl", now, &reports[1]);
    compare_free(&comparison);
    return compare_reports(&reports[0], &reports[1], options, &comparison);
}

static void check_recordings(void)
{
    compare_options_t days = usual;
    days.recording_spread = 0.02;
    OK(compare_days(1, 0.004, of(1.06e-3), &days) == ERR_OK && is(VERDICT_INCONCLUSIVE) &&
           why_has("variation between recordings is assumed"),
       "6 %% after one recording may be the day");
    const compare_metric_t *m = comparison.metrics;
    OK(isinf(m->difference.recordings.df) && m->detectable > 0.1 && m->detectable < 0.2,
       "what would be found is told: %.3f", m->detectable);
    OK(compare_days(1, 0.004, of(1.15e-3), &days) == ERR_OK && is(VERDICT_WORSE), "15 %% may not");
    OK(compare_days(3, 0.004, of(1.06e-3), &days) == ERR_OK && is(VERDICT_WORSE) &&
           comparison.sides[0].n_recordings == 3,
       "three recordings that agree tell that 6 %% are not");
    m = comparison.metrics;
    OK(m->difference.recordings.df > 1.5 && m->difference.recordings.df < 2.5 && m->detectable < 0.08,
       "because their spread is measured: %.3f", m->detectable);
    OK(compare_days(3, 0.05, of(1.15e-3), &days) == ERR_OK && is(VERDICT_INCONCLUSIVE) &&
           comparison.metrics->difference.recordings.deviation > 0.03,
       "three that differ by 5 %% tell that 15 %% may be the day");
    OK(compare_days(5, 0.004, of(1.035e-3), &days) == ERR_OK && is(VERDICT_WORSE),
       "five find less than three");

    history_t history = {0};
    const history_options_t of_history = {.min_effect = 0.01, .alpha = 0.01, .seed = 1};
    char name[32];
    for (int i = 0; i < 5; i++) {
        report_t one = {0};
        plan_t p = day(i, 0.004);
        snprintf(name, sizeof name, "history-%d.jsonl", i);
        add_plan(name, p, &one);
        if (history_add(&history, &one) != ERR_OK) exit(4);
        report_free(&one);
    }
    days.history = &history;
    OK(history_finish(&history, &of_history) == ERR_OK &&
           compare_days(1, 0.004, of(1.06e-3), &days) == ERR_OK && is(VERDICT_WORSE) &&
           comparison.metrics->difference.recordings.df > 3.5,
       "a history of five tells as much");
    plan_t one = of(1.06e-3);
    one.n_starts = 1;
    OK(compare_days(1, 0.004, one, &days) == ERR_OK && is(VERDICT_WORSE) &&
           !comparison.metrics->difference.assumed,
       "and how starts differ, where a side has one");
    plan_t elsewhere = of(1.06e-3);
    elsewhere.hardware = "\"hardware_id\":\"9f\",\"hardware\":{\"cpu\":\"B\"}";
    compare_options_t force = days;
    force.force = true;
    OK(compare_with(of(1e-3), elsewhere, &force) == ERR_OK &&
           isinf(comparison.metrics->difference.recordings.df),
       "but of its own machine only");
    history_free(&history);
}

static void check_must_decide(void)
{
    compare_options_t options = usual;
    plan_t base = quiet, now = quiet;
    base.backward = now.backward = 8e-3;
    options.must_decide = "gemm,step/weak";
    OK(compare_with(base, now, &options) == ERR_OK && comparison.n_undecided == 0 &&
           comparison.metrics->must_decide && comparison.metrics->next->must_decide,
       "metrics that must decide are marked");
    now.n_starts = 1;
    options.must_decide = "step";
    OK(compare_with(base, now, &options) == ERR_OK && comparison.n_undecided == 1 &&
           !comparison.metrics->must_decide,
       "and counted if they do not");
    static const char *const wrong[] = {"ste", "step/", "step/weaker", "steps", "step/weak/1"};
    char list[64];
    now.n_starts = STARTS;
    for (int i = 0; i < 5; i++) {
        snprintf(list, sizeof list, "gemm,,%s", wrong[i]);
        options.must_decide = list;
        OK(compare_with(base, now, &options) == ERR_OK && comparison.n_undecided == 1 &&
               strcmp(comparison.not_measured, wrong[i]) == 0 && comparison.metrics->must_decide &&
               !comparison.metrics->next->must_decide,
           "'%s' names no metric", wrong[i]);
    }
}

/* What is printed, by each form. */
static const char *print_all(void)
{
    static char printed[1 << 16];
    FILE *out = fmemopen(printed, sizeof printed, "w");
    if (!out) exit(4);
    bool ok = compare_print(&comparison, &usual, &render_text, out) == ERR_OK &&
              compare_print(&comparison, &usual, &render_markdown, out) == ERR_OK &&
              compare_print_json(&comparison, &usual, out) == ERR_OK;
    fclose(out);
    return ok ? printed : "";
}

static void check_same_bytes(void)
{
    plan_t base = quiet, now = quiet, again = quiet;
    char *first = NULL;
    base.backward = 8e-3;
    now.backward = 9e-3;
    OK(compare(base, now) == ERR_OK && mem_strdup(print_all(), &first) == ERR_OK && strlen(first) > 1000,
       "a comparison is printed");
    OK(compare(base, now) == ERR_OK && strcmp(first, print_all()) == 0,
       "the same records give the same bytes");
    mem_free(&first);
    again.noise = 0.2;
    again.n_starts = 1;
    again.id = "a";
    again.seed = 1;
    again.backward = 8e-3;
    OK(compare(again, again) == ERR_OK && comparison.n_of[VERDICT_SAME] == 2 &&
           comparison.verdict == VERDICT_SAME && fabs(comparison.metrics->difference.low - 1) < 1e-15 &&
           fabs(comparison.metrics->difference.high - 1) < 1e-15 && has_note("hold the same runs"),
       "a recording is the same as itself, however noisy");
    again.n_starts = STARTS;
    plan_t turned = again;
    turned.backwards = true;
    OK(compare(again, turned) == ERR_OK && comparison.verdict == VERDICT_SAME &&
           has_note("hold the same runs"),
       "in whatever order its runs are");
}

int main(void)
{
    tap_plan(60 + 10 + 7);
    check_verdicts();
    check_few();
    check_order();
    check_clock();
    check_turns();
    check_parts();
    check_fingerprints();
    check_runs();
    check_recordings();
    check_must_decide();
    check_same_bytes();
    compare_free(&comparison);
    for (int i = 0; i < 2; i++) report_free(&reports[i]);
    OK(mem_live() == 0, "all memory is given back");
    return tap_done();
}
