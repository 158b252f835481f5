/* SPDX-License-Identifier: MIT */
/* RUN np=0 : the background writer: it writes a copy, one at a time, and its errors come back. */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "store/checkpoint/async.h"
#include "store/checkpoint/store.h"
#include "tests/tap.h"

enum { N = 5000 };

static float values[N];
static char name[64];

static ckpt_content_t content_of(const ckpt_array_t *array, const h5_attr_t *attr)
{
    return (ckpt_content_t){array, 1, attr, 1};
}

static bool file_holds(const char *folder, int64_t step, float first, const char *text)
{
    char path[FS_PATH_MAX];
    const char *found = "";
    static float back[N];
    checkpoint_t *checkpoint = NULL;
    bool same = checkpoint_store_path(folder, step, path) == ERR_OK &&
                checkpoint_open(path, &checkpoint) == ERR_OK &&
                checkpoint_read(checkpoint, "/params/w", DTYPE_F32, shape_1d(N), back) == ERR_OK &&
                checkpoint_get_text(checkpoint, "note", &found) == ERR_OK && strcmp(found, text) == 0 &&
                back[0] >= first && back[0] <= first;
    checkpoint_close(&checkpoint);
    return same;
}

/* Submits values with values[0] = first, then overwrites everything that was handed over. */
static err_t submit_and_scribble(ckpt_async_t *async, const char *folder, int64_t step, float first,
                                 int n_deferred)
{
    char text[32] = "as it was";
    snprintf(name, sizeof name, "/params/w");
    values[0] = first;
    ckpt_array_t array = {name, DTYPE_F32, shape_1d(N), values, "I"};
    h5_attr_t attr = h5_text("note", text);
    ckpt_content_t content = content_of(&array, &attr);
    err_t err = ckpt_async_submit(async, folder, step, (ckpt_keep_t){2, -1}, &content, n_deferred);
    if (err == ERR_OK) ckpt_async_copied(async);
    values[0] = -1;
    memset(text, 'x', sizeof text - 1);
    memset(name, 'x', sizeof name - 1);
    array.data = NULL;
    return err;
}

static void check_writes(const char *folder)
{
    ckpt_async_t *async = NULL;
    ckpt_result_t result;
    OK_CALL(ckpt_async_open(16, 60, NULL, &async), "a writer");
    OK(!ckpt_async_take(async, &result), "nothing has ended yet");
    for (int step = 1; step <= 3; step++) {
        OK_CALL(submit_and_scribble(async, folder, step, (float)step, step % 2), "step %d is handed over",
                step);
        OK_CALL(ckpt_async_wait(async), "and written");
        OK(ckpt_async_take(async, &result) && result.error.code == ERR_OK && result.step == step &&
               result.n_bytes == N * (int64_t)sizeof(float),
           "with its result");
        OK(!ckpt_async_take(async, &result), "and is returned once");
        OK(file_holds(folder, step, (float)step, "as it was"), "the file holds the copy");
    }
    int64_t *steps = NULL;
    int n = 0;
    OK(checkpoint_store_list(folder, &steps, &n) == ERR_OK && n == 2 && steps[0] == 3 && steps[1] == 2,
       "the newest two are kept");
    mem_free(&steps);
    OK_CALL(submit_and_scribble(async, folder, 4, 4, 1), "one more");
    ckpt_async_close(&async);
    OK(file_holds(folder, 4, 4, "as it was"), "closing waits for the write in flight");
    OK(async == NULL, "and nulls the handle");
    ckpt_async_close(&async);
}

/* Stands for a device that alters what it is given to keep. */
static bool alters;
int fsync(int fd)
{
    struct stat info;
    char byte;
    if (alters && fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
        pread(fd, &byte, 1, info.st_size / 2) == 1) {
        byte ^= 1;
        if (pwrite(fd, &byte, 1, info.st_size / 2) != 1) return -1;
    }
    return fdatasync(fd);
}

static bool steps_are(const char *folder, int64_t newer, int64_t older)
{
    int64_t *steps = NULL;
    int n = 0;
    bool same = checkpoint_store_list(folder, &steps, &n) == ERR_OK && n == 2 && steps[0] == newer &&
                steps[1] == older;
    mem_free(&steps);
    return same;
}

static void check_altered(const char *folder)
{
    ckpt_async_t *async = NULL;
    ckpt_result_t result;
    bool written = ckpt_async_open(16, 60, NULL, &async) == ERR_OK, reported = true;
    for (int step = 11; step <= 14; step++) {
        alters = step >= 13;
        written = written && submit_and_scribble(async, folder, step, (float)step, 1) == ERR_OK &&
                  ckpt_async_wait(async) == ERR_OK && ckpt_async_take(async, &result);
        reported = reported && result.error.code == (alters ? ERR_SYSTEM : ERR_OK);
    }
    alters = false;
    OK(written && reported && strstr(result.error.message, "step 14 was written, but reads back differently"),
       "a device that alters what is written: %s", result.error.message);
    OK(steps_are(folder, 12, 11) && file_holds(folder, 12, 12, "as it was") &&
           file_holds(folder, 11, 11, "as it was"),
       "the checkpoints before stay, the altered ones go");
    OK(submit_and_scribble(async, folder, 15, 15, 1) == ERR_OK && ckpt_async_wait(async) == ERR_OK &&
           steps_are(folder, 15, 12),
       "the next whole one takes the place of the oldest");
    ckpt_async_close(&async);
}

static err_t refuse(void *context)
{
    if (!*(const bool *)context) return ERR_OK;
    RAISE(ERR_PEER, "the copy is wrong");
}

static void check_refused(const char *folder)
{
    ckpt_async_t *async = NULL;
    ckpt_result_t result;
    bool refused = true;
    OK_CALL(ckpt_async_open(16, 60, NULL, &async), "a writer that looks at each copy");
    ckpt_async_check_copies(async, refuse, &refused);
    OK(submit_and_scribble(async, folder, 31, 31, 1) == ERR_OK && ckpt_async_wait(async) == ERR_OK &&
           ckpt_async_take(async, &result) && result.error.code == ERR_PEER &&
           strcmp(result.error.message, "the copy is wrong") == 0 && steps_are(folder, 15, 12),
       "a copy that is refused is not written");
    refused = false;
    OK(submit_and_scribble(async, folder, 32, 32, 1) == ERR_OK && ckpt_async_wait(async) == ERR_OK &&
           ckpt_async_take(async, &result) && result.error.code == ERR_OK && steps_are(folder, 32, 15),
       "the next one is");
    ckpt_async_close(&async);
}

static void check_errors(const char *folder)
{
    ckpt_async_t *async = NULL;
    ckpt_result_t result;
    char blocked[FS_PATH_MAX];
    if (fs_join(blocked, folder, "a-file") != ERR_OK) return;
    int fd = open(blocked, O_CREAT | O_WRONLY, 0600);
    if (fd >= 0) close(fd);
    OK_CALL(ckpt_async_open(1 << 20, 60, NULL, &async), "a writer");
    OK_CALL(submit_and_scribble(async, blocked, 1, 1, 1), "a folder that is a file is not noticed at once");
    OK_CALL(ckpt_async_wait(async), "waiting succeeds");
    OK(ckpt_async_take(async, &result) && result.error.code == ERR_SYSTEM &&
           strstr(result.error.message, "a-file"),
       "the result is: %s", result.error.message);
    OK_CALL(submit_and_scribble(async, folder, 8, NAN, 1), "a state with NaN");
    OK_CALL(ckpt_async_wait(async), "is looked at in the background");
    OK(ckpt_async_take(async, &result) && result.error.code == ERR_GATE &&
           strstr(result.error.message, "/params/w contains NaN") && !file_holds(folder, 8, NAN, "as it was"),
       "and not written: %s", result.error.message);
    OK_CALL(submit_and_scribble(async, folder, 9, 9, 0), "the writer goes on");
    ckpt_async_close(&async);
    OK(file_holds(folder, 9, 9, "as it was"), "and writes the next");
}

/* Feeds an array of N floats without data, in pieces of `piece`; with `cut`, not all of it. */
static err_t feed(ckpt_async_t *async, const char *folder, int64_t step, int piece, bool cut)
{
    ckpt_array_t array = {"/params/w", DTYPE_F32, shape_1d(N), NULL, "I"};
    h5_attr_t attr = h5_text("note", "fed");
    ckpt_content_t content = content_of(&array, &attr);
    TRY(ckpt_async_submit(async, folder, step, (ckpt_keep_t){2, -1}, &content, 0));
    for (int i = 0; i < (cut ? N / 2 : N); i += piece)
        TRY(ckpt_async_feed(async, values + i, (size_t)(N - i < piece ? N - i : piece) * sizeof *values));
    return cut ? ckpt_async_feed(async, NULL, 0) : ERR_OK;
}

static void check_fed(const char *folder)
{
    ckpt_async_t *async = NULL;
    ckpt_result_t result;
    bool right = true;
    OK_CALL(ckpt_async_open(16, 60, NULL, &async), "a writer that is fed");
    for (int step = 41; step <= 43; step++) {
        values[0] = (float)step;
        right &= feed(async, folder, step,
                      step == 41   ? 7
                      : step == 42 ? N
                                   : 1000,
                      false) == ERR_OK &&
                 ckpt_async_wait(async) == ERR_OK && ckpt_async_take(async, &result) &&
                 result.error.code == ERR_OK && file_holds(folder, step, (float)step, "fed");
    }
    OK(right, "it writes what it is given, in pieces of any size");
    OK(feed(async, folder, 44, 100, true) == ERR_OK && ckpt_async_wait(async) == ERR_OK &&
           ckpt_async_take(async, &result) && result.error.code == ERR_PEER && steps_are(folder, 43, 42),
       "without the rest it writes nothing: %s", result.error.message);
    values[N - 1] = NAN;
    OK(feed(async, folder, 45, 100, false) == ERR_OK && ckpt_async_wait(async) == ERR_OK &&
           ckpt_async_take(async, &result) && result.error.code == ERR_GATE &&
           strstr(result.error.message, "/params/w") && steps_are(folder, 43, 42),
       "nor a state with NaN: %s", result.error.message);
    values[N - 1] = 0;
    OK(feed(async, "/nonexistent", 46, 100, false) == ERR_OK && ckpt_async_wait(async) == ERR_OK &&
           ckpt_async_take(async, &result) && result.error.code == ERR_SYSTEM,
       "after an error it takes no more: %s", result.error.message);
    ckpt_async_close(&async);
}

int main(void)
{
    char folder[] = "/tmp/dptrain-async-XXXXXX";
    if (!mkdtemp(folder)) return 1;
    tap_plan(2 + 3 * 5 + 4 + 9 + 3 + 3 + 5 + 1);
    check_writes(folder);
    check_errors(folder);
    check_altered(folder);
    check_refused(folder);
    check_fed(folder);
    OK(mem_live() == 0, "allocations balance");
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) != 0 || tap_done();
}
