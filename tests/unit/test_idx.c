/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * The IDX format: good files plain and packed, every kind of bad one, every byte of the header flipped. */
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/fs.h"
#include "base/mem.h"
#include "data/dataset/idx.h"
#include "tests/tap.h"

enum {
    N = 5,
    H = 3,
    W = 4,
    N_VALUES = N * H * W,
    N_HEADER = 16,
    N_FILE = N_HEADER + N_VALUES,
    MAX = 1 << 20
};

static char folder[] = "/tmp/dptrain-idx-XXXXXX";
static char path[FS_PATH_MAX];
static uint8_t good[N_FILE];

/* Not cut to nothing first, as file systems flush a file that was: thousands of these would take a minute. */
static void put(const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || ftruncate(fd, (off_t)n) != 0 || close(fd) != 0)
        abort();
}

/* gzip in one piece; its size. */
static size_t pack(const void *bytes, size_t n, uint8_t *out, size_t room)
{
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)room};
    if (deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    deflateEnd(&z);
    return room - z.avail_out;
}

static bool same_values(shape_t shape, const uint8_t *values)
{
    return shape_equal(shape, shape_3d(N, H, W)) && memcmp(values, good + N_HEADER, N_VALUES) == 0;
}

/* The file as it lies there is read as the good data. */
static bool reads_well(void)
{
    shape_t shape;
    uint8_t *values = NULL;
    bool well = idx_read(path, 3, MAX, &shape, &values) == ERR_OK && same_values(shape, values);
    mem_free(&values);
    return well;
}

/* The file is refused with this code, in a message that names the file and says `words`; nothing leaks. */
static bool refused(int n_dims, int64_t max_bytes, err_t code, const char *words)
{
    shape_t shape;
    uint8_t *values = NULL;
    int64_t n_live = mem_live();
    err_t err = idx_read(path, n_dims, max_bytes, &shape, &values);
    bool right = err == code && !values && mem_live() == n_live && strstr(err_message(), path) &&
                 strstr(err_message(), words);
    if (!right) printf("# got %d: %s\n", err, err ? err_message() : "(no error)");
    mem_free(&values);
    return right;
}

static bool bad(const char *words)
{
    return refused(3, MAX, ERR_DATA, words);
}

static void test_good(void)
{
    uint8_t packed[512];
    put(good, N_FILE);
    OK(reads_well(), "a plain file");
    size_t n = pack(good, N_FILE, packed, sizeof packed);
    put(packed, n);
    OK(reads_well(), "a gzip file");
    n = pack(good, 30, packed, sizeof packed);
    n += pack(good + 30, N_FILE - 30, packed + n, sizeof packed - n);
    put(packed, n);
    OK(reads_well(), "a gzip file of two members");
}

static void test_plain_bad(void)
{
    uint8_t bytes[N_FILE + 1] = {0};
    bool all = true;
    memcpy(bytes, good, N_FILE);
    unlink(path);
    OK(bad("does not exist"), "a missing file");
    put("", 0);
    OK(bad("is empty"), "an empty file");
    for (size_t n = 1; n < N_FILE; n++) {
        put(good, n);
        all = bad("truncated") && all;
    }
    OK(all, "a plain file cut at every length is truncated");
    put(bytes, sizeof bytes);
    OK(bad("follow"), "a trailing byte");
    put("\x89PNG\r\n\x1a\n0123456789", 18);
    OK(bad("a PNG image"), "an image file is said to be one");
    put((const uint8_t[N_FILE]){0}, N_FILE);
    OK(bad("zero bytes"), "an unfinished download");
    put(good, N_FILE);
    OK(refused(1, MAX, ERR_DATA, "a file of images"), "images where labels belong");
    bytes[2] = 0x0d;
    put(bytes, N_FILE);
    OK(bad("wrong magic 0x00000d03"), "floats");
    bytes[2] = 8;
    bytes[7] = 0;
    put(bytes, N_HEADER);
    OK(bad("holds no values"), "zero samples");
    memset(bytes + 4, 0xff, 12);
    put(bytes, N_FILE);
    OK(refused(3, INT64_MAX, ERR_DATA, "more than"), "sizes whose product overflows");
    put(good, N_FILE);
    OK(refused(3, N_VALUES - 1, ERR_DATA, "more than the 59 bytes"), "larger than allowed");
    shape_t shape;
    uint8_t *values = NULL;
    OK_CALL(idx_read(path, 3, N_VALUES, &shape, &values), "exactly as large as allowed");
    mem_free(&values);
}

static void test_not_files(void)
{
    char saved[FS_PATH_MAX];
    memcpy(saved, path, sizeof saved);
    snprintf(path, sizeof path, "%s", folder);
    OK(bad("not a regular file"), "a folder");
    memcpy(path, saved, sizeof saved);
    unlink(path);
    if (mkfifo(path, 0600) != 0) abort();
    OK(bad("not a regular file"), "a FIFO does not block");
    unlink(path);
    if (geteuid() == 0) {
        tap_skip("root reads every file");
        return;
    }
    put(good, N_FILE);
    chmod(path, 0);
    OK(bad("Permission denied"), "an unreadable file");
    chmod(path, 0600);
}

static void test_packed_bad(void)
{
    uint8_t packed[512];
    size_t n = pack(good, N_FILE, packed, sizeof packed);
    bool all = true;
    for (size_t cut = 2; cut < n; cut++) {
        put(packed, cut);
        all = bad("truncated") && all;
    }
    OK(all, "a gzip file cut at every length is truncated");
    packed[n] = 'x';
    put(packed, n + 1);
    OK(bad("foreign bytes follow"), "foreign bytes behind the gzip data");
    for (size_t i = n - 8; i < n; i++) {
        packed[i] ^= 1;
        put(packed, n);
        all = bad("damaged") && all;
        packed[i] ^= 1;
    }
    OK(all, "a flipped bit in the checksum or the length");
    uint8_t longer[N_FILE + 1] = {0};
    memcpy(longer, good, N_FILE);
    put(packed, pack(longer, N_FILE + 1, packed, sizeof packed));
    OK(bad("follow"), "a trailing byte inside the gzip data");
    put(packed, pack(good, N_FILE - 1, packed, sizeof packed));
    OK(bad("59 bytes of values, but its header says 5×3×4 = 60"), "a short payload inside whole gzip data");

    /* A count of 4 GB on a small file must cost no such memory: the data ends long before. */
    memcpy(longer, "\0\0\10\1\377\377\377\377", 8);
    put(packed, pack(longer, N_FILE, packed, sizeof packed));
    OK(refused(1, INT64_MAX, ERR_DATA, "truncated"), "a small gzip file that promises 4 GB");
    OK(refused(1, INT64_MAX, ERR_DATA, "more than 100 times its"), "its header is enough to refuse it");
}

/* Highly compressible data outgrows the first guess of its size. */
static void test_growth(void)
{
    enum { SIDE = 1 << 21 };
    uint8_t *zeros = calloc(1, SIDE + 8), *packed = malloc(1 << 16), *values = NULL;
    if (!zeros || !packed) abort();
    shape_t shape;
    memcpy(zeros, "\0\0\10\1\0\40\0\0", 8);
    zeros[8 + SIDE - 1] = 77;
    put(packed, pack(zeros, SIDE + 8, packed, 1 << 16));
    OK_CALL(idx_read(path, 1, SIDE, &shape, &values), "data that shrinks a thousandfold");
    OK(values && shape.dim[0] == SIDE && memcmp(values, zeros + 8, SIDE) == 0, "its values");
    mem_free(&values);
    free(zeros);
    free(packed);
}

/* Counts flips of one byte that were neither refused as bad data nor harmless. */
static int count_wrong_flips(const uint8_t *file, size_t n_file, size_t n_flipped)
{
    uint8_t bytes[512];
    int n_wrong = 0;
    for (size_t i = 0; i < n_flipped; i++)
        for (int flip = 1; flip < 256; flip++) {
            memcpy(bytes, file, n_file);
            bytes[i] ^= (uint8_t)flip;
            put(bytes, n_file);
            shape_t shape;
            uint8_t *values = NULL;
            err_t err = idx_read(path, 3, (int64_t)8 << 30, &shape, &values);
            bool fine = err == ERR_OK ? same_values(shape, values)
                                      : err == ERR_DATA && !values && strstr(err_message(), path);
            if (!fine) printf("# byte %zu ^ %d: %d %s\n", i, flip, err, err_message());
            n_wrong += !fine;
            mem_free(&values);
        }
    return n_wrong;
}

static void test_flips(void)
{
    uint8_t packed[512];
    size_t n = pack(good, N_FILE, packed, sizeof packed);
    OK(count_wrong_flips(good, N_FILE, N_HEADER) == 0, "every byte of the header in every way wrong");
    OK(count_wrong_flips(packed, n, n) == 0, "every byte of a gzip file in every way wrong");
}

static void test_write(void)
{
    struct stat info;
    shape_t shape = shape_3d(N, H, W);
    OK_CALL(idx_write(path, shape, good + N_HEADER), "writing");
    OK(stat(path, &info) == 0 && info.st_size == N_FILE && reads_well(), "reads back");
    OK_CALL(idx_write(path, shape, good + N_HEADER), "writing over it");
    uint8_t label = 3;
    OK(idx_write(path, shape_1d(0), &label) == ERR_USAGE, "nothing to write is refused");
    OK(idx_write(path, shape_1d((int64_t)1 << 32), &label) == ERR_USAGE, "a count beyond 32 bits is refused");
    OK(reads_well(), "the old file is still there");
    char saved[FS_PATH_MAX];
    memcpy(saved, path, sizeof saved);
    OK(idx_write("/nonexistent-folder/x", shape, good) == ERR_SYSTEM &&
           strstr(err_message(), "/nonexistent-folder/x"),
       "a folder that does not exist is named");
    unlink(path);
    OK(rmdir(folder) == 0, "nothing else is left in the folder");
}

int main(void)
{
    if (!mkdtemp(folder) || fs_join(path, folder, "file") != ERR_OK) tap_skip_all("no folder in /tmp");
    memcpy(good, (const uint8_t[]){0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, H, 0, 0, 0, W}, N_HEADER);
    for (int i = 0; i < N_VALUES; i++) good[N_HEADER + i] = (uint8_t)(i * 37 + 11);
    tap_plan(3 + 12 + 3 + 7 + 2 + 2 + 8 + 1);
    test_good();
    test_plain_bad();
    test_not_files();
    test_packed_bad();
    test_growth();
    test_flips();
    test_write();
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
