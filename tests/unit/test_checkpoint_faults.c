/* SPDX-License-Identifier: MIT */
/* A write that fails, at any moment, leaves the older checkpoint intact and no other files.
 * RUN np=0 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "store/checkpoint/store.h"
#include "tests/tap.h"
#include "tests/unit/checkpoint_sample.h"

enum { N_LIMITS = UNDER_SANITIZER ? 20 : 80, N_KILLS = UNDER_SANITIZER ? 10 : 40 };

static char path[FS_PATH_MAX];

/* In front of the C library's function, by which base/mem allocates: one of its calls finds no memory. */
static long n_blocks, missing = -1;

void *aligned_alloc(size_t alignment, size_t n_bytes)
{
    static void *(*library)(size_t alignment, size_t n_bytes);
    if (!library) {
        void *found = dlsym(RTLD_NEXT, "aligned_alloc");
        if (!found) abort();
        memcpy(&library, &found, sizeof library);
    }
    return n_blocks++ == missing ? NULL : library(alignment, n_bytes);
}

/* Texts of many lengths move the places where the table of contents needs a larger block. */
static void test_memory(void)
{
    enum { N_LENGTHS = UNDER_SANITIZER ? 5 : 70 };
    static char text[2 * N_LENGTHS];
    sample_t s;
    bool failed = true, whole = true, closed = true;
    long n_tried = 0;
    sample_fill(&s, false);
    for (int i = 0; i < N_LENGTHS; i++) {
        memset(text, 'x', (size_t)(2 * i));
        s.attrs[0].text = text;
        s.content.n_arrays = i % 2 ? 1 : 6;
        for (long block = 0, n_write = 1, n_read = 1; block < n_write || block < n_read; block++, n_tried++) {
            checkpoint_t *c = NULL;
            n_blocks = 0;
            ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
            n_write = n_blocks;
            n_blocks = 0;
            missing = block;
            failed = failed && checkpoint_write(path, &s.content) == (block < n_write ? ERR_SYSTEM : ERR_OK);
            n_blocks = 0;
            missing = block;
            err_t err = checkpoint_open(path, &c);
            whole = whole && (err == ERR_OK || (err == ERR_SYSTEM && n_blocks == block + 1));
            n_read = n_blocks + (err != ERR_OK);
            missing = -1;
            checkpoint_close(&c);
            closed = closed && sample_balanced();
        }
    }
    OK(failed, "%ld writes without memory for one block fail", n_tried);
    OK(whole, "and so do as many readers");
    OK(closed, "nothing stays open or allocated");
    unlink(path);
}

/* Writes while no file may grow beyond `limit` bytes. */
static err_t write_limited(const ckpt_content_t *content, size_t limit)
{
    struct rlimit before, now;
    ASSERT(getrlimit(RLIMIT_FSIZE, &before) == 0);
    now = (struct rlimit){.rlim_cur = limit, .rlim_max = before.rlim_max};
    ASSERT(setrlimit(RLIMIT_FSIZE, &now) == 0);
    err_t err = checkpoint_write(path, content);
    ASSERT(setrlimit(RLIMIT_FSIZE, &before) == 0);
    return err;
}

/* The file-size limit stands for a full disk: it can fail any single write. */
static void test_limits(bool large, const char *what)
{
    sample_t s;
    size_t n;
    sample_fill(&s, large);
    ASSERT(checkpoint_write(path, &s.content) == ERR_OK);
    char *data = sample_slurp(path, &n);
    bool failed = true, whole = true, alone = true, closed = true;
    for (int i = 0; i < N_LIMITS; i++) {
        size_t limit = i < 4 ? (size_t)i * 171 : n / N_LIMITS * (size_t)i;
        failed = failed && write_limited(&s.content, i == N_LIMITS - 1 ? n - 1 : limit) == ERR_SYSTEM &&
                 sample_says(path) && sample_says(strerror(EFBIG));
        whole = whole && sample_same(path, data, n);
        alone = alone && sample_count(sample_folder) == 1;
        closed = closed && sample_balanced();
    }
    OK(failed, "%s: %d writes beyond a limit fail and say why and where", what, N_LIMITS);
    OK(whole, "%s: the older checkpoint stays as it was", what);
    OK(alone, "%s: no temporary file stays", what);
    OK(closed, "%s: nothing stays open in HDF5", what);
    OK_CALL(checkpoint_write(path, &s.content), "%s: with room again it is written", what);
    OK(sample_same(path, data, n), "%s: and is the same", what);
    free(data);
    free(s.large);
}

/* Runs in a child with its own mounts: 0 passed, 1 failed, 2 cannot be tried here. */
static int child_full_disk(void)
{
    char tiny[FS_PATH_MAX], file[FS_PATH_MAX];
    sample_t s;
    sample_path(tiny, "tiny");
    mkdir(tiny, 0777);
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", tiny, "tmpfs", 0, "size=512k") != 0)
        return 2;
    sample_fill(&s, false);
    ASSERT(fs_join(file, tiny, "a.h5") == ERR_OK && checkpoint_write(file, &s.content) == ERR_OK);
    sample_fill(&s, true);
    bool pass = true;
    for (int i = 0; i < 5; i++)
        pass = pass && checkpoint_write(file, &s.content) == ERR_SYSTEM && sample_says(file) &&
               sample_says("No space left on device") && sample_count(tiny) == 1 &&
               checkpoint_verify(file) == ERR_OK && sample_balanced();
    pass = pass && mount(NULL, tiny, NULL, MS_REMOUNT | MS_RDONLY, "size=512k") == 0 &&
           checkpoint_write(file, &s.content) == ERR_SYSTEM && sample_says("Read-only file system") &&
           checkpoint_verify(file) == ERR_OK;
    free(s.large);
    return pass ? 0 : 1;
}

static void test_full_disk(void)
{
    char tiny[FS_PATH_MAX];
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int result = child_full_disk();
        fflush(stdout);
        _exit(result);
    }
    int status = 0;
    ASSERT(child > 0 && waitpid(child, &status, 0) == child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
        tap_skip("mounting a small tmpfs is not allowed here");
    else
        OK(status == 0, "a full disk and a read-only one are reported; the older checkpoint stays whole");
    sample_path(tiny, "tiny");
    rmdir(tiny);
}

static void test_bad_places(void)
{
    static const ckpt_content_t empty = {NULL, 0, NULL, 0};
    char place[FS_PATH_MAX];
    sample_path(place, "absent/a.h5");
    OK(checkpoint_write(place, &empty) == ERR_SYSTEM && sample_says(place) && sample_says("No such file"),
       "a folder that is absent");
    ASSERT(fs_join(place, path, "a.h5") == ERR_OK);
    OK(checkpoint_write(place, &empty) == ERR_SYSTEM && sample_says(place) && sample_says("Not a directory"),
       "a folder that is a file");
    sample_path(place, "taken");
    ASSERT(mkdir(place, 0777) == 0);
    OK(checkpoint_write(place, &empty) == ERR_USAGE && sample_says(place) && sample_count(sample_folder) == 2,
       "a name that is a folder, found out before anything is written");
    rmdir(place);
    OK(checkpoint_write("/proc/ckpt.h5", &empty) == ERR_SYSTEM && sample_says("/proc/ckpt.h5"),
       "a folder where no file can be made");
    OK(sample_balanced(), "nothing stays open or allocated");
}

/* A writer killed at no particular moment: whatever has the name of a checkpoint is one. */
static void test_kills(void)
{
    sample_t s;
    bool whole = true;
    int n_removed = 0, n_all = 0;
    sample_fill(&s, true);
    for (int i = 0; i < N_KILLS; i++) {
        int ready[2];
        char byte = 0;
        ASSERT(pipe(ready) == 0);
        pid_t child = fork();
        if (child == 0) {
            for (int64_t step = 0;; step++) {
                char file[FS_PATH_MAX];
                if (checkpoint_store_path(sample_folder, step % 3, file) == ERR_OK &&
                    checkpoint_write(file, &s.content) == ERR_OK && write(ready[1], &byte, 1) != 1)
                    _exit(1);
            }
        }
        ASSERT(child > 0 && read(ready[0], &byte, 1) == 1);
        usleep((useconds_t)(i * 431 % 9000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(ready[0]), close(ready[1]);
        int64_t *steps = NULL;
        int n = 0, removed = 0;
        ASSERT(checkpoint_store_list(sample_folder, &steps, &n) == ERR_OK);
        for (int k = 0; k < n; k++) {
            char file[FS_PATH_MAX];
            whole = whole && checkpoint_store_path(sample_folder, steps[k], file) == ERR_OK &&
                    checkpoint_verify(file) == ERR_OK;
        }
        n_all += n;
        mem_free(&steps);
        ASSERT(checkpoint_store_clean(sample_folder, &removed) == ERR_OK);
        n_removed += removed;
    }
    free(s.large);
    OK(whole && n_all >= N_KILLS, "after each of %d kills every checkpoint is whole (%d looked at)", N_KILLS,
       n_all);
    bool clean = true;
    DIR *dir = opendir(sample_folder);
    for (struct dirent *entry; (entry = readdir(dir));) clean = clean && !strstr(entry->d_name, ".tmp-");
    closedir(dir);
    OK(clean, "what the killed writers left was cleaned up (%d files)", n_removed);
}

int main(void)
{
    sample_begin();
    sample_path(path, "a.h5");
    signal(SIGXFSZ, SIG_IGN);
    tap_plan(3 + 6 + 6 + 1 + 5 + 2);
    test_memory();
    test_limits(false, "small");
    test_limits(true, "large");
    test_full_disk();
    test_bad_places();
    test_kills();
    sample_remove(sample_folder);
    return tap_done();
}
