/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : recorded steps: when they can be had, one for each size of batch, and on a
 * device that recorded work runs when launched, and only then, with the values of its launch. */
#include <string.h>

#include "tests/op_util.h"
#include "tests/tap.h"
#include "train/run/recorded_step.h"

/* A stand-in for a device: counts calls, and fails on request. */
static struct {
    int n_begun, n_ended, n_failed, n_released, slot;
    bool fails;
} seen;
static int graphs[RECORDED_STEP_MAX * BACKEND_SLOTS];

static err_t begin(int slot)
{
    seen.n_begun++;
    seen.slot = slot;
    return ERR_OK;
}

static err_t end(bool failed, void **out)
{
    *out = failed || seen.fails ? NULL : &graphs[seen.n_ended - seen.n_failed];
    seen.n_ended++;
    seen.n_failed += failed || seen.fails;
    if (seen.fails) RAISE(ERR_SYSTEM, "recording a step: no memory");
    return ERR_OK;
}

static void release(void *graph)
{
    seen.n_released += graph != NULL;
}

static const backend_graph_t graph_ops = {.begin = begin, .end = end, .release = release};
static const backend_t recorder = {.name = "recorder", .graph = &graph_ops};

static err_t count(void *context)
{
    ++*(int *)context;
    return ERR_OK;
}

static err_t broken_work(void *context)
{
    (void)context;
    RAISE(ERR_DATA, "layer 3 is broken");
}

static bool wants_next(recorded_step_t *r, int64_t n)
{
    recorded_step_ran(r, n);
    return recorded_step_wants(r, n, 0);
}

static void test_choice(void)
{
    recorded_step_t r;
    OK(recorded_step_open(&recorder, "auto", NULL, &r) == ERR_OK && !r.why_not && !r.required &&
           wants_next(&r, 8),
       "auto records");
    OK(recorded_step_open(&recorder, "on", NULL, &r) == ERR_OK && !r.why_not && r.required &&
           wants_next(&r, 8),
       "so does on");
    OK(recorded_step_open(&recorder, "off", NULL, &r) == ERR_OK && strcmp(r.why_not, "switched off") == 0 &&
           !wants_next(&r, 8),
       "off does not");
    OK(recorded_step_open(&recorder, "auto", "of --accumulate", &r) == ERR_OK &&
           strcmp(r.why_not, "of --accumulate") == 0 && !wants_next(&r, 8),
       "nor does auto where something stands in the way, which is kept");
    OK(recorded_step_open(&recorder, "on", "of --accumulate", &r) == ERR_USAGE &&
           strstr(err_message(), "--cuda-graph on is not available: of --accumulate; use --cuda-graph auto"),
       "on then is an error that says what: %s", err_message());
}

/* Records batches of 64 − i in every slot. */
static bool records(recorded_step_t *r, int i, recorded_work_t work)
{
    bool right = wants_next(r, 64 - i);
    for (int slot = 0; slot < BACKEND_SLOTS; slot++) {
        right = right && recorded_step_wants(r, 64 - i, slot) && !recorded_step_find(r, 64 - i, slot);
        right = right && recorded_step_record(r, 64 - i, slot, work) == ERR_OK && seen.slot == slot;
        right = right && !recorded_step_wants(r, 64 - i, slot);
    }
    return right;
}

static void test_sizes(void)
{
    enum { N = RECORDED_STEP_MAX * BACKEND_SLOTS };
    recorded_step_t r;
    int n_run = 0;
    const recorded_work_t work = {count, &n_run}, broken = {broken_work, NULL};
    bool right = true;
    memset(&seen, 0, sizeof seen);
    must(recorded_step_open(&recorder, "auto", NULL, &r), "recorded_step_open");
    OK(!recorded_step_find(&r, 64, 0) && !recorded_step_wants(&r, 64, 0),
       "at first there is none, and none is recorded");
    OK(wants_next(&r, 64) && !recorded_step_find(&r, 64, 0),
       "after a batch has run, the next of its size is recorded");
    OK(recorded_step_record(&r, 64, 0, broken) == ERR_DATA &&
           strcmp(err_message(), "layer 3 is broken") == 0 && seen.n_ended == 1 && seen.n_failed == 1 &&
           !recorded_step_find(&r, 64, 0) && recorded_step_wants(&r, 64, 0),
       "an error of the work is the caller's; the recording is ended and not kept");
    seen.fails = true;
    OK(recorded_step_record(&r, 64, 0, work) == ERR_SYSTEM && strstr(err_message(), "no memory") &&
           !recorded_step_find(&r, 64, 0) && seen.n_released == 0,
       "as is one of the device");
    seen.fails = false;
    for (int i = 0; i < RECORDED_STEP_MAX; i++) right = right && records(&r, i, work);
    for (int i = 0; i < N; i++)
        right = right && recorded_step_find(&r, 64 - i / BACKEND_SLOTS, i % BACKEND_SLOTS) == &graphs[i];
    OK(right && n_run == N + 1, "one for each size of batch and slot, found by them");
    OK(!wants_next(&r, 7) && !recorded_step_find(&r, 7, 0), "a size beyond %d is not recorded",
       RECORDED_STEP_MAX);
    recorded_step_close(&r);
    OK(seen.n_released == N && !recorded_step_find(&r, 64, 0), "all are released");
    recorded_step_close(&r);
    OK(seen.n_released == N, "once");
    OK(wants_next(&r, 64) && recorded_step_record(&r, 64, 0, work) == ERR_OK && wants_next(&r, 63), "again");
    recorded_step_give_up(&r, "recording failed");
    OK(seen.n_released == N + 1 && strcmp(r.why_not, "recording failed") == 0 && !wants_next(&r, 64) &&
           !recorded_step_find(&r, 64, 0),
       "given up: released, and nothing more is recorded");
}

static void test_host(const backend_t *host)
{
    recorded_step_t r;
    OK(recorded_step_open(host, "auto", NULL, &r) == ERR_OK && strstr(r.why_not, "only steps on a GPU") &&
           !wants_next(&r, 8),
       "on the host nothing is recorded");
    OK(recorded_step_open(host, "on", NULL, &r) == ERR_USAGE && strstr(err_message(), "only steps on a GPU"),
       "--cuda-graph on there: %s", err_message());
    recorded_step_close(&r);
}

/* total += more, on the device. */
typedef struct sum {
    const backend_t *device;
    hd_buffer_t total, more, velocity;
} sum_t;

static err_t add_more(void *context)
{
    const sum_t *s = context;
    return s->device->accumulate(s->total.device, s->more.device, 1, DTYPE_F32);
}

static err_t add_and_fail(void *context)
{
    TRY(add_more(context));
    return broken_work(NULL);
}

static float total_of(const sum_t *s)
{
    must(hd_buffer_pull_all(&s->total), "the total");
    return *(float *)s->total.host;
}

static err_t launch(const sum_t *s, void *recording, int slot, double lr)
{
    const backend_step_t values = {.lr = lr};
    return s->device->graph->launch(recording, slot, &values);
}

/* total −= lr, of the launch. */
static err_t take_rate(void *context)
{
    const sum_t *s = context;
    const optim_args_t args = {.weight = s->total.device,
                               .gradient = s->more.device,
                               .state = {s->velocity.device},
                               .n = 1,
                               .gradient_scale = 1};
    return s->device->optim[OPTIM_SGD](&args);
}

/* Nothing waits between launches in different slots. */
static void test_slots(sum_t *s)
{
    recorded_step_t r;
    *(float *)s->total.host = 0, *(float *)s->more.host = 1;
    must(hd_buffer_push_all(&s->total), "the total");
    must(hd_buffer_push_all(&s->more), "the term");
    must(recorded_step_open(s->device, "on", NULL, &r), "recorded_step_open");
    recorded_step_ran(&r, 5);
    for (int slot = 0; slot < BACKEND_SLOTS; slot++)
        must(recorded_step_record(&r, 5, slot, (recorded_work_t){take_rate, s}), "recording");
    must(launch(s, recorded_step_find(&r, 5, 0), 0, 1), "slot 0");
    must(launch(s, recorded_step_find(&r, 5, 1), 1, 10), "slot 1");
    OK(total_of(s) == -11, "steps in flight in two slots have their own values: %g", total_of(s));
    must(launch(s, recorded_step_find(&r, 5, 0), 0, 100), "slot 0");
    OK(total_of(s) == -111, "and new ones when the slot is used again");
    recorded_step_close(&r);
}

static void test_device(const backend_t *device)
{
    recorded_step_t r;
    sum_t s = {.device = device};
    must(hd_buffer_new(device, sizeof(float), "a total", &s.total), "memory");
    must(hd_buffer_new(device, sizeof(float), "a term", &s.more), "memory");
    must(hd_buffer_new(device, sizeof(float), "a velocity", &s.velocity), "memory");
    *(float *)s.more.host = 3;
    must(hd_buffer_push_all(&s.more), "the term");
    must(recorded_step_open(device, "on", NULL, &r), "recorded_step_open");
    recorded_step_ran(&r, 5);
    OK(recorded_step_record(&r, 5, 0, (recorded_work_t){add_and_fail, &s}) == ERR_DATA &&
           strcmp(err_message(), "layer 3 is broken") == 0 && !recorded_step_find(&r, 5, 0),
       "a recording that fails is none");
    OK(recorded_step_record(&r, 5, 0, (recorded_work_t){add_more, &s}) == ERR_OK && total_of(&s) == 0,
       "recording does not run the work");
    void *recording = recorded_step_find(&r, 5, 0);
    must(recording ? ERR_OK : ERR_GATE, "no recording");
    OK(launch(&s, recording, 0, 0) == ERR_OK && total_of(&s) == 3, "it runs when launched");
    *(float *)s.more.host = 10;
    must(hd_buffer_push_all(&s.more), "the term");
    bool ran = true;
    for (int i = 0; i < 20; i++) ran = launch(&s, recording, 0, 0) == ERR_OK && ran;
    OK(ran && total_of(&s) == 203, "again and again, on what its buffers then hold");
    OK(add_more(&s) == ERR_OK && total_of(&s) == 213, "work outside a recording runs at once");
    recorded_step_close(&r);
    test_slots(&s);
    hd_buffer_free(&s.total);
    hd_buffer_free(&s.more);
    hd_buffer_free(&s.velocity);
}

int main(int argc, char **argv)
{
    const backend_t *backend = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &backend, why) != ERR_OK) tap_skip_all(err_message());
    backend = util_open(argc, argv, 1);
    tap_plan(15 + (backend->graph ? 7 : 2) + 1);
    test_choice();
    test_sizes();
    if (backend->graph)
        test_device(backend);
    else
        test_host(backend);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
