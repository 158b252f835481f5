/* SPDX-License-Identifier: MIT */
/* RUN np=0 device=ref,cpu,cuda : host/device buffers: what is copied, when, and who owns the memory; on the
 * backend itself, and on one that only records its calls. */
#include <string.h>

#include "tests/op_util.h"
#include "tests/tap.h"

enum { N = 1000 };

/* A device whose memory is the host's, and that records its calls. */
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

/* Whether these calls were made since the last check. */
static bool noted(const char *calls)
{
    bool same = strcmp(notes.calls, calls) == 0;
    if (!same) printf("# %s, not %s\n", notes.calls, calls);
    memset(notes.calls, 0, sizeof notes.calls);
    return same;
}

static void test_copies(void)
{
    hd_buffer_t b;
    memset(&notes, 0, sizeof notes);
    must(hd_buffer_new(&noting, N, "a buffer", &b), "a buffer");
    OK(noted("ha") && b.host != b.device, "both sides are allocated");
    OK(hd_buffer_push(&b, 100, 20) == ERR_OK && noted("u") && notes.to == (char *)b.device + 100 &&
           notes.from == (char *)b.host + 100 && notes.n_bytes == 20,
       "a push copies its range without waiting");
    OK(hd_buffer_pull(&b, N - 1, 1) == ERR_OK && noted("ds") && notes.to == (char *)b.host + N - 1 &&
           notes.from == (char *)b.device + N - 1 && notes.n_bytes == 1,
       "a pull copies its range and waits");
    OK(hd_buffer_push_all(&b) == ERR_OK && noted("u") && notes.n_bytes == N &&
           hd_buffer_pull_all(&b) == ERR_OK && noted("ds") && notes.n_bytes == N,
       "push_all and pull_all copy everything");
    OK(hd_buffer_push(&b, N, 0) == ERR_OK && hd_buffer_pull(&b, 0, 0) == ERR_OK && noted(""),
       "an empty range is not copied");
    hd_buffer_free(&b);
    OK(noted("rr") && n_blocks == 0 && !b.host && !b.device, "both sides are released");
    hd_buffer_free(&b);
    OK(noted(""), "only once");
}

static void test_ownership(void)
{
    static char host[N], device[N];
    hd_buffer_t b;
    memset(host, 'h', N), memset(device, 'd', N);
    OK(hd_buffer_wrap(&noting, N, "a buffer", host, device, &b) == ERR_OK && noted("p") && b.host == host &&
           b.device == device && host[0] == 'h' && device[0] == 'd',
       "both sides of the caller's are used unchanged, and the host side is pinned");
    hd_buffer_free(&b);
    OK(noted("q") && host[N - 1] == 'h', "… and unpinned, but not released, when freed");
    OK(hd_buffer_wrap(&noting, N, "a buffer", host, NULL, &b) == ERR_OK && noted("pa") && b.host == host,
       "the host side is the caller's: the device side is allocated");
    hd_buffer_free(&b);
    OK(noted("rq") && n_blocks == 0, "… and released when freed");
    OK(hd_buffer_wrap(&noting, N, "a buffer", NULL, device, &b) == ERR_OK && noted("h") && b.device == device,
       "the device side is the caller's: the host side is allocated");
    hd_buffer_free(&b);
    OK(noted("r") && n_blocks == 0, "… and released when freed");
    notes.fails = true;
    OK(hd_buffer_new(&noting, N, "a buffer", &b) == ERR_SYSTEM &&
           strcmp(err_message(), "no memory for a buffer") == 0 && n_blocks == 0 && !b.host && !b.device &&
           noted("har"),
       "if the device has no memory, nothing stays allocated");
    OK(hd_buffer_wrap(&noting, N, "a buffer", host, device, &b) == ERR_OK && (hd_buffer_free(&b), noted("p")),
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
    hd_buffer_t b;
    OK_CALL(hd_buffer_new(backend, N, "a buffer", &b), "a buffer of %s", backend->name);
    OK((b.host == b.device) == !backend->memory && all(b.host, 0, N, 0), "%s",
       backend->memory ? "it has two sides, and the host side is zero"
                       : "its sides are the same memory, which is zero");
    unsigned char *host = b.host;
    memset(host, 1, N);
    OK(hd_buffer_pull_all(&b) == ERR_OK && all(host, 0, N, backend->memory ? 0 : 1), "%s",
       backend->memory ? "so is the device side" : "a pull changes nothing");
    memset(host, 2, N);
    must(hd_buffer_push(&b, 300, 400), "a push");
    must(backend_sync(backend), "waiting");
    memset(host, 3, N);
    must(hd_buffer_pull(&b, 200, 400), "a pull");
    bool right = backend->memory ? all(host, 0, 200, 3) && all(host, 200, 300, 0) && all(host, 300, 600, 2) &&
                                       all(host, 600, N, 3)
                                 : all(host, 0, N, 3);
    OK(right, "%s", backend->memory ? "only the given ranges are pushed and pulled" : "nor does a push");

    void *copy = NULL;
    must(backend_alloc(backend, N, "a copy", &copy), "a copy");
    memset(host, 4, N);
    must(hd_buffer_push_all(&b), "a push");
    must(backend_copy(backend, copy, b.device, N), "a copy");
    must(backend_zero(backend, b.device, N / 2), "clearing");
    must(hd_buffer_pull_all(&b), "a pull");
    OK(all(host, 0, N / 2, 0) && all(host, N / 2, N, 4), "backend_zero clears the device side");
    must(backend_copy(backend, b.device, copy, N), "a copy");
    must(hd_buffer_pull_all(&b), "a pull");
    OK(all(host, 0, N, 4), "backend_copy copies it");
    backend_release(backend, &copy);
    backend_release(backend, &copy);
    OK(!copy, "memory is released; a second release does nothing");
    hd_buffer_free(&b);
    hd_buffer_free(&b);
    OK(!b.host && !b.device, "so is a buffer");
}

/* Around host memory of the caller, such as the gradient buffer of a communicator. */
static void test_wrap(const backend_t *backend)
{
    hd_buffer_t b;
    unsigned char *host = NULL;
    must(mem_new(N, "a buffer", &host), "memory");
    memset(host, 7, N);
    OK(hd_buffer_wrap(backend, N, "a buffer", host, NULL, &b) == ERR_OK && b.host == host &&
           all(host, 0, N, 7),
       "a buffer around the caller's memory, which stays unchanged");
    must(hd_buffer_push_all(&b), "a push");
    must(backend_zero(backend, b.device, 1), "clearing");
    must(hd_buffer_pull_all(&b), "a pull");
    OK(host[0] == 0 && all(host, 1, N, 7), "the backend's results are pulled into it");
    hd_buffer_free(&b);
    OK(all(host, 1, N, 7), "the memory outlives the buffer");
    mem_free(&host);
    OK(hd_buffer_new(backend, 0, "an empty buffer", &b) == ERR_OK && hd_buffer_push_all(&b) == ERR_OK &&
           hd_buffer_pull_all(&b) == ERR_OK,
       "an empty buffer");
    hd_buffer_free(&b);
}

/* Every flipped bit of an odd number of bytes, and equal words that change places, which a sum would not show. */
static void test_hash(const backend_t *backend)
{
    enum { ODD = 1003 };
    hd_buffer_t b;
    uint64_t whole, other, seeded;
    int n_missed = 0, n_apart = 0;
    must(hd_buffer_new(backend, ODD, "a buffer", &b), "a buffer");
    unsigned char *host = b.host;
    for (int i = 0; i < ODD; i++) host[i] = (unsigned char)(i * 7 + i / 256);
    must(hd_buffer_push_all(&b), "a push");
    must(hd_buffer_hash(&b, 5, &whole), "a hash");
    OK(whole == hd_buffer_hash_host(&b, 5), "both sides have the same hash");
    must(hd_buffer_hash(&b, 6, &seeded), "a hash");
    OK(seeded != whole, "the seed changes it");
    for (int bit = 0; bit < 8 * ODD; bit += bit < 8 * ODD - 70 ? 61 : 1) {
        host[bit / 8] ^= (unsigned char)(1 << bit % 8);
        must(hd_buffer_push_all(&b), "a push");
        must(hd_buffer_hash(&b, 5, &other), "a hash");
        n_missed += other == whole;
        n_apart += other != hd_buffer_hash_host(&b, 5);
        host[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    OK(n_missed == 0 && n_apart == 0, "so does each flipped bit, on both sides alike (%d, %d)", n_missed,
       n_apart);
    for (int i = 0; i < 8; i++) {
        unsigned char byte = host[i];
        host[i] = host[800 + i], host[800 + i] = byte;
    }
    must(hd_buffer_push_all(&b), "a push");
    must(hd_buffer_hash(&b, 5, &other), "a hash");
    OK(other != whole && other == hd_buffer_hash_host(&b, 5), "and two words that change places");
    hd_buffer_free(&b);
    must(hd_buffer_new(backend, 0, "an empty buffer", &b), "an empty buffer");
    must(hd_buffer_hash(&b, 5, &other), "a hash");
    OK(other == hd_buffer_hash_host(&b, 5), "nothing has a hash, too");
    hd_buffer_free(&b);
}

int main(int argc, char **argv)
{
    const backend_t *backend = NULL;
    char why[BACKEND_WHY_MAX];
    if (argc > 1 && backend_find(argv[1], &backend, why) != ERR_OK) tap_skip_all(err_message());
    backend = util_open(argc, argv, 1);
    tap_plan(33);
    test_copies();
    test_ownership();
    test_sides(backend);
    test_wrap(backend);
    test_hash(backend);
    if (backend->close) backend->close();
    OK(mem_live() == 0, "everything was freed");
    return tap_done();
}
