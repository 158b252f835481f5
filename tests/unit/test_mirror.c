/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : blocks with a side on the host and one on the device: what is copied, when,
 * and whose memory it is; on the device itself, and on one that only takes notes. */
#include <string.h>

#include "tests/op_util.h"
#include "tests/tap.h"

enum { N = 1000 };

/* A device whose memory is the host's, and that keeps a list of what it is asked for. */
static struct {
    char calls[16]; /* a letter each */
    const void *to, *from;
    size_t n_bytes;
    bool fails;
} notes;
static int n_blocks;

static void note(char call)
{
    size_t n = strlen(notes.calls);
    if (n + 1 < sizeof notes.calls) notes.calls[n] = call;
}

static err_t note_alloc(size_t n_bytes, const char *what, void **out)
{
    note('a');
    if (notes.fails) RAISE(ERR_SYSTEM, "no memory for %s", what);
    n_blocks++;
    return mem_new(n_bytes, what, out);
}

static err_t note_alloc_host(size_t n_bytes, const char *what, void **out)
{
    note('h');
    n_blocks++;
    return mem_new(n_bytes, what, out);
}

static void note_release(void *block)
{
    note('r');
    n_blocks--;
    mem_free(&block);
}

static bool note_pin(void *host, size_t n_bytes)
{
    (void)host, (void)n_bytes;
    note('p');
    return !notes.fails;
}

static void note_unpin(void *host)
{
    (void)host;
    note('q');
}

static err_t copied(char call, void *to, const void *from, size_t n_bytes)
{
    note(call);
    notes.to = to, notes.from = from, notes.n_bytes = n_bytes;
    memcpy(to, from, n_bytes);
    return ERR_OK;
}

static err_t note_upload(void *device, const void *host, size_t n_bytes)
{
    return copied('u', device, host, n_bytes);
}

static err_t note_download(void *host, const void *device, size_t n_bytes)
{
    return copied('d', host, device, n_bytes);
}

static err_t note_sync(void)
{
    note('s');
    return ERR_OK;
}

static const backend_memory_t note_memory = {
    .alloc = note_alloc,
    .release = note_release,
    .alloc_host = note_alloc_host,
    .release_host = note_release,
    .pin = note_pin,
    .unpin = note_unpin,
    .upload = note_upload,
    .download = note_download,
    .sync = note_sync,
};
static const backend_t noting = {.name = "noting", .memory = &note_memory};

/* What was asked for since the last time. */
static bool noted(const char *calls)
{
    bool same = strcmp(notes.calls, calls) == 0;
    if (!same) printf("# %s, not %s\n", notes.calls, calls);
    memset(notes.calls, 0, sizeof notes.calls);
    return same;
}

static void test_copies(void)
{
    hd_buffer_t m;
    memset(&notes, 0, sizeof notes);
    must(hd_buffer_new(&noting, N, "a block", &m), "a block");
    OK(noted("ha") && m.host != m.device, "two sides are made");
    OK(hd_buffer_push(&m, 100, 20) == ERR_OK && noted("u") && notes.to == (char *)m.device + 100 &&
           notes.from == (char *)m.host + 100 && notes.n_bytes == 20,
       "a push copies its range, and does not wait");
    OK(hd_buffer_pull(&m, N - 1, 1) == ERR_OK && noted("ds") && notes.to == (char *)m.host + N - 1 &&
           notes.from == (char *)m.device + N - 1 && notes.n_bytes == 1,
       "a pull copies its range, and waits");
    OK(hd_buffer_push_all(&m) == ERR_OK && noted("u") && notes.n_bytes == N &&
           hd_buffer_pull_all(&m) == ERR_OK && noted("ds") && notes.n_bytes == N,
       "or all of it");
    OK(hd_buffer_push(&m, N, 0) == ERR_OK && hd_buffer_pull(&m, 0, 0) == ERR_OK && noted(""),
       "nothing is not copied");
    hd_buffer_free(&m);
    OK(noted("rr") && n_blocks == 0 && !m.host && !m.device, "both sides are freed");
    hd_buffer_free(&m);
    OK(noted(""), "once");
}

static void test_ownership(void)
{
    static char host[N], device[N];
    hd_buffer_t m;
    memset(host, 'h', N), memset(device, 'd', N);
    OK(hd_buffer_wrap(&noting, N, "a block", host, device, &m) == ERR_OK && noted("p") && m.host == host &&
           m.device == device && host[0] == 'h' && device[0] == 'd',
       "the caller's two sides are taken as they are, and the host's is pinned");
    hd_buffer_free(&m);
    OK(noted("q") && host[N - 1] == 'h', "… and no more, when they are given back");
    OK(hd_buffer_wrap(&noting, N, "a block", host, NULL, &m) == ERR_OK && noted("pa") && m.host == host,
       "one side of the caller's, on the host");
    hd_buffer_free(&m);
    OK(noted("rq") && n_blocks == 0, "… and the other's memory freed");
    OK(hd_buffer_wrap(&noting, N, "a block", NULL, device, &m) == ERR_OK && noted("h") && m.device == device,
       "one on the device");
    hd_buffer_free(&m);
    OK(noted("r") && n_blocks == 0, "… and the other's memory freed");
    notes.fails = true;
    OK(hd_buffer_new(&noting, N, "a block", &m) == ERR_SYSTEM &&
           strcmp(err_message(), "no memory for a block") == 0 && n_blocks == 0 && !m.host && !m.device &&
           noted("har"),
       "a device without memory leaves nothing behind");
    OK(hd_buffer_wrap(&noting, N, "a block", host, device, &m) == ERR_OK && (hd_buffer_free(&m), noted("p")),
       "memory that cannot be pinned is used as it is");
    notes.fails = false;
}

static bool all(const unsigned char *block, size_t from, size_t to, unsigned char value)
{
    for (size_t i = from; i < to; i++)
        if (block[i] != value) return false;
    return true;
}

static void test_sides(const backend_t *backend)
{
    hd_buffer_t m;
    OK_CALL(hd_buffer_new(backend, N, "a block", &m), "a block of %s", backend->name);
    OK((m.host == m.device) == !backend->memory && all(m.host, 0, N, 0), "%s",
       backend->memory ? "it has two sides, the host's is zero"
                       : "its sides are the same memory, which is zero");
    unsigned char *host = m.host;
    memset(host, 1, N);
    OK(hd_buffer_pull_all(&m) == ERR_OK && all(host, 0, N, backend->memory ? 0 : 1), "%s",
       backend->memory ? "so is the device's" : "a pull changes nothing");
    memset(host, 2, N);
    must(hd_buffer_push(&m, 300, 400), "a push");
    must(backend_sync(backend), "waiting");
    memset(host, 3, N);
    must(hd_buffer_pull(&m, 200, 400), "a pull");
    bool right = backend->memory ? all(host, 0, 200, 3) && all(host, 200, 300, 0) && all(host, 300, 600, 2) &&
                                       all(host, 600, N, 3)
                                 : all(host, 0, N, 3);
    OK(right, "%s", backend->memory ? "ranges are pushed and pulled, and no more" : "nor does a push");

    void *copy = NULL;
    must(backend_alloc(backend, N, "a copy", &copy), "a copy");
    memset(host, 4, N);
    must(hd_buffer_push_all(&m), "a push");
    must(backend_copy(backend, copy, m.device, N), "a copy");
    must(backend_zero(backend, m.device, N / 2), "clearing");
    must(hd_buffer_pull_all(&m), "a pull");
    OK(all(host, 0, N / 2, 0) && all(host, N / 2, N, 4), "the backend's side is cleared");
    must(backend_copy(backend, m.device, copy, N), "a copy");
    must(hd_buffer_pull_all(&m), "a pull");
    OK(all(host, 0, N, 4), "and copied");
    backend_release(backend, &copy);
    backend_release(backend, &copy);
    OK(!copy, "memory is released; twice does no harm");
    hd_buffer_free(&m);
    hd_buffer_free(&m);
    OK(!m.host && !m.device, "so is a block");
}

/* Of the caller's, on the host: the gradient buffer of a communicator. */
static void test_wrap(const backend_t *backend)
{
    hd_buffer_t m;
    unsigned char *host = NULL;
    must(mem_new(N, "a buffer", &host), "memory");
    memset(host, 7, N);
    OK(hd_buffer_wrap(backend, N, "a block", host, NULL, &m) == ERR_OK && m.host == host &&
           all(host, 0, N, 7),
       "a block around the caller's memory, which stays as it is");
    must(hd_buffer_push_all(&m), "a push");
    must(backend_zero(backend, m.device, 1), "clearing");
    must(hd_buffer_pull_all(&m), "a pull");
    OK(host[0] == 0 && all(host, 1, N, 7), "what the backend makes comes to it");
    hd_buffer_free(&m);
    OK(all(host, 1, N, 7), "it outlives the block");
    mem_free(&host);
    OK(hd_buffer_new(backend, 0, "an empty block", &m) == ERR_OK && hd_buffer_push_all(&m) == ERR_OK &&
           hd_buffer_pull_all(&m) == ERR_OK,
       "an empty block");
    hd_buffer_free(&m);
}

int main(int argc, char **argv)
{
    const backend_t *backend = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &backend, why) != ERR_OK) tap_skip_all(err_message());
    backend = util_open(argc, argv, 1);
    tap_plan(28);
    test_copies();
    test_ownership();
    test_sides(backend);
    test_wrap(backend);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
