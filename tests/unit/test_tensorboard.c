/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Event files: framing and checksums against an oracle of the test's own, events as protobuf-c reads them. */
#include "tests/tap.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <tensorboard.pb-c.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "train/output/tensorboard.h"

static char root[256];

/* Allocations of any library, where no sanitizer has taken malloc. */
static int64_t n_mallocs;
#ifndef __SANITIZE_ADDRESS__
extern void *__libc_malloc(size_t n_bytes);
void *malloc(size_t n_bytes)
{
    n_mallocs++;
    return __libc_malloc(n_bytes);
}
#endif

static uint32_t slow_crc32c(const uint8_t *data, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static bool masked_crc_is(const uint8_t *stored, const uint8_t *data, size_t n)
{
    uint32_t mask, crc = slow_crc32c(data, n);
    memcpy(&mask, stored, sizeof mask);
    mask = le32toh(mask) - 0xa282ead8u;
    return (mask << 15 | mask >> 17) == crc;
}

static void check_crc(void)
{
    uint8_t bytes[1000] = {0};
    OK(tensorboard_crc32c("123456789", 9) == 0xe3069283u, "CRC-32C of 123456789");
    OK(tensorboard_crc32c(bytes, 32) == 0x8a9136aau, "of 32 zeros (RFC 3720)");
    OK(tensorboard_crc32c(bytes, 0) == 0, "of nothing");
    bool same = true;
    for (int i = 0; i < 1000; i++) bytes[i] = (uint8_t)(i * 31 + i / 7);
    for (size_t n = 0; n < 1000; n++) same &= tensorboard_crc32c(bytes, n) == slow_crc32c(bytes, n);
    OK(same, "of any length");
}

enum { MAX_EVENTS = 16 };

/* The file's events; -1 when a length or checksum is wrong. */
static int read_events(const char *path, Tb__Event *events[MAX_EVENTS])
{
    static uint8_t text[1 << 16];
    FILE *file = fopen(path, "r");
    if (!file) return -1;
    size_t size = fread(text, 1, sizeof text, file), at = 0;
    int n_events = 0;
    fclose(file);
    while (at < size && n_events < MAX_EVENTS) {
        uint64_t n;
        if (size - at < 16) return -1;
        memcpy(&n, text + at, sizeof n);
        n = le64toh(n);
        if (n > size - at - 16 || !masked_crc_is(text + at + 8, text + at, 8) ||
            !masked_crc_is(text + at + 12 + n, text + at + 12, n))
            return -1;
        events[n_events] = tb__event__unpack(NULL, n, text + at + 12);
        if (!events[n_events++]) return -1;
        at += n + 16;
    }
    return n_events;
}

static bool value_is(const Tb__Event *event, size_t i, const char *tag, double value)
{
    if (event->what_case != TB__EVENT__WHAT_SUMMARY || i >= event->summary->n_value) return false;
    const Tb__Summary__Value *v = event->summary->value[i];
    return strcmp(v->tag, tag) == 0 && v->value_case == TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE &&
           memcmp(&v->simple_value, &(float){(float)value}, sizeof(float)) == 0;
}

static void check_file(void)
{
    char folder[300];
    snprintf(folder, sizeof folder, "%s/a/b", root);
    const tensorboard_scalar_t train[] = {{"train/loss", 0.1}, {"train/accuracy", 0}, {"x", 1e300}},
                               val[] = {{"validation/loss", -2.5}};
    tensorboard_t board;
    Tb__Event *events[MAX_EVENTS];
    double before = clock_unix_sec();
    OK_CALL(tensorboard_open(&board, folder, 41), "a file in a folder that was not there");
    OK(read_events(board.path, events) == 2, "whose head can be read at once");
    for (int i = 0; i < 2; i++) tb__event__free_unpacked(events[i], NULL);
    OK_CALL(tensorboard_write(&board, 42, train, 3, false), "several scalars");
    OK(read_events(board.path, events) == 2, "not yet flushed");
    for (int i = 0; i < 2; i++) tb__event__free_unpacked(events[i], NULL);
    OK_CALL(tensorboard_write(&board, INT64_C(1) << 40, val, 1, true), "and one");
    int n = read_events(board.path, events);
    OK(n == 4, "lengths and checksums fit: %d events", n);
    if (n != 4) exit(tap_done());
    bool times = true;
    for (int i = 0; i < n; i++)
        times &= events[i]->wall_time >= before && events[i]->wall_time <= clock_unix_sec();
    OK(times, "every event has its time");
    OK(events[0]->what_case == TB__EVENT__WHAT_FILE_VERSION &&
           strcmp(events[0]->file_version, "brain.Event:2") == 0,
       "the first names the version");
    OK(events[1]->what_case == TB__EVENT__WHAT_SESSION_LOG && events[1]->step == 42 &&
           events[1]->session_log->status == TB__SESSION_LOG__SESSION_STATUS__START,
       "the second starts at the step to come");
    OK(events[2]->step == 42 && events[2]->summary->n_value == 3 &&
           value_is(events[2], 0, "train/loss", 0.1) && value_is(events[2], 1, "train/accuracy", 0) &&
           value_is(events[2], 2, "x", 1e300),
       "scalars come back: tag, value (a zero and a float's infinity too), step");
    OK(events[3]->step == INT64_C(1) << 40 && events[3]->summary->n_value == 1 &&
           value_is(events[3], 0, "validation/loss", -2.5),
       "so does the last one");
    for (int i = 0; i < n; i++) tb__event__free_unpacked(events[i], NULL);
    OK_CALL(tensorboard_close(&board), "closed");
    OK_CALL(tensorboard_close(&board), "and again");
}

/* TensorBoard reads files in the order of their names. */
static void check_names(void)
{
    tensorboard_t first, second, third;
    char path[300], expected[300], host[128] = "";
    gethostname(host, sizeof host - 1);
    int64_t before = (int64_t)clock_unix_sec();
    bool opened = tensorboard_open(&first, root, 0) == ERR_OK;
    long long when = 0;
    OK(opened && sscanf(first.path + strlen(root), "/events.out.tfevents.%10lld.", &when) == 1 &&
           when >= before && when <= (int64_t)clock_unix_sec(),
       "the name has the time: %s", first.path);
    snprintf(expected, sizeof expected, "%s/events.out.tfevents.%lld.%.60s.%ld", root, when, host,
             (long)getpid());
    OK(strcmp(first.path, expected) == 0, "host and process");
    opened = tensorboard_open(&second, root, 0) == ERR_OK;
    OK(opened && strcmp(first.path, second.path) < 0, "a start in the same second sorts later");
    snprintf(path, sizeof path, "%s/events.out.tfevents.9000000000.z.1", root);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
    opened = file && tensorboard_open(&third, root, 0) == ERR_OK;
    OK(opened && strcmp(path, third.path) < 0, "and after a clock that is ahead: %s", third.path);
    tensorboard_close(&first);
    tensorboard_close(&second);
    tensorboard_close(&third);
}

static void check_allocations(void)
{
    tensorboard_t board;
    const tensorboard_scalar_t scalars[] = {{"train/loss", 0.1}, {"train/accuracy", 0.5}};
    if (tensorboard_open(&board, root, 0) != ERR_OK) exit(1);
    int64_t counted = mem_count(), any = n_mallocs;
    err_t err = ERR_OK;
    for (int i = 0; i < 5000 && err == ERR_OK; i++)
        err = tensorboard_write(&board, i, scalars, 2, i % 100 == 0);
    bool still = mem_count() == counted && n_mallocs == any;
    OK(err == ERR_OK && still, "5000 events allocate nothing");
    char *volatile block = malloc(1);
    free(block);
#ifdef __SANITIZE_ADDRESS__
    tap_skip("the sanitizer has malloc");
#else
    OK(n_mallocs == any + 1, "and it would have been noticed");
#endif
    tensorboard_close(&board);
}

/* From now on the file is a full disk. */
static bool fill_disk(const tensorboard_t *board)
{
    int fd = open("/dev/full", O_WRONLY);
    bool done = fd >= 0 && dup2(fd, fileno(board->file)) >= 0;
    if (fd >= 0) close(fd);
    return done;
}

static void check_errors(void)
{
    tensorboard_t board;
    char path[300];
    const tensorboard_scalar_t scalar = {"train/loss", 0.1};
    if (tensorboard_open(&board, root, 0) != ERR_OK || !fill_disk(&board)) exit(1);
    OK(tensorboard_write(&board, 1, &scalar, 1, true) == ERR_SYSTEM && strstr(err_message(), board.path) &&
           strstr(err_message(), "No space"),
       "a full disk is an error: %s", err_message());
    tensorboard_close(&board);
    if (tensorboard_open(&board, root, 0) != ERR_OK || !fill_disk(&board)) exit(1);
    OK(tensorboard_write(&board, 1, &scalar, 1, false) == ERR_OK && tensorboard_close(&board) == ERR_SYSTEM,
       "what was buffered is missed when the file is closed: %s", err_message());

    OK(tensorboard_open(&board, "/proc", 0) == ERR_SYSTEM && strstr(err_message(), "/proc/events"),
       "a folder where no file can be made: %s", err_message());
    snprintf(path, sizeof path, "%s/file", root);
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
    OK(file && tensorboard_open(&board, path, 0) == ERR_USAGE && strstr(err_message(), path),
       "a file in the way: %s", err_message());
    OK_CALL(tensorboard_close(&board), "nothing is open then");

    OK(tensorboard_open(&board, NULL, 0) == ERR_OK &&
           tensorboard_write(&board, 1, &scalar, 1, true) == ERR_OK && tensorboard_close(&board) == ERR_OK,
       "without a folder nothing happens");
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/dptrain-events-XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(root)) return 1;
    tap_plan(30);
    check_crc();
    check_file();
    check_names();
    check_allocations();
    check_errors();
    OK(mem_live() == 0, "every block is freed");
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return tap_done() || system(command) != 0;
}
