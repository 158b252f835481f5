/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Files and folders, whole transfers, files that appear whole, in a folder of the test's own. */
#include "tests/tap.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"

static char root[256];

static void check_join(void)
{
    char out[FS_PATH_MAX], longer[FS_PATH_MAX + 1];
    OK(fs_join(out, "a", "b") == ERR_OK && strcmp(out, "a/b") == 0, "a + b");
    OK(fs_join(out, "a/", "b") == ERR_OK && strcmp(out, "a/b") == 0, "a/ + b");
    OK(fs_join(out, "/", "b") == ERR_OK && strcmp(out, "/b") == 0, "/ + b");
    OK(fs_join(out, "", "b") == ERR_OK && strcmp(out, "b") == 0, "nothing + b");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    OK(fs_join(out, longer, "b") == ERR_USAGE, "a path that is too long is refused");
    longer[FS_PATH_MAX - 3] = '\0';
    OK(fs_join(out, longer, "b") == ERR_OK && strlen(out) == FS_PATH_MAX - 1, "the longest path fits");
}

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file) fclose(file);
}

static void check_make_folder(void)
{
    char path[FS_PATH_MAX], file[FS_PATH_MAX], below[FS_PATH_MAX];
    snprintf(path, sizeof path, "%s/a/b//c", root);
    OK_CALL(fs_make_folder(path), "a folder and its parents are made");
    OK(fs_is_folder(path) && fs_exists(path), "and there");
    OK_CALL(fs_make_folder(path), "making it again is fine");
    snprintf(path, sizeof path, "%s/a/b/slash/", root);
    OK(fs_make_folder(path) == ERR_OK && fs_is_folder(path), "a slash at the end is fine");
    snprintf(file, sizeof file, "%s/file", root);
    write_file(file);
    OK(fs_exists(file) && !fs_is_folder(file), "a file exists and is no folder");
    OK(fs_stem("a.d/b.c.txt") == 7 && fs_stem("a.d/b") == 5 && fs_stem("a/.b") == 4 && fs_stem("") == 0,
       "a path up to its ending");
    OK(fs_has_suffix("a/W.NPZ", ".npz") && !fs_has_suffix(".npz", ".npz") && !fs_has_suffix("npz", ".npz"),
       "suffixes in any case, after a name");
    OK(fs_make_folder(file) == ERR_USAGE, "a folder cannot replace a file");
    snprintf(below, sizeof below, "%.250s/file/x", root);
    OK(fs_make_folder(below) == ERR_USAGE && strstr(err_message(), file), "nor be below one: %s",
       err_message());
    OK(!fs_exists(below), "which is not there then");

    char here[FS_PATH_MAX];
    bool moved = getcwd(here, sizeof here) && chdir(root) == 0;
    OK(moved && fs_make_folder("relative/x") == ERR_OK && fs_is_folder("relative/x"), "relative paths work");
    OK(moved && fs_make_folder(".") == ERR_OK, "so does the folder one is in");
    if (!moved || chdir(here) != 0) exit(1);
}

static int count_entries(const char *path)
{
    DIR *folder = opendir(path);
    int n = 0;
    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n - 2;
}

static void check_writable(void)
{
    char path[FS_PATH_MAX];
    snprintf(path, sizeof path, "%s/a/b/c", root);
    OK_CALL(fs_check_writable(path), "a folder of our own is writable");
    OK(count_entries(path) == 0, "and nothing is left in it");
    snprintf(path, sizeof path, "%s/none", root);
    OK(fs_check_writable(path) == ERR_SYSTEM && strstr(err_message(), path), "a missing one is not: %s",
       err_message());
    if (geteuid() == 0) {
        tap_skip("root may write anywhere");
    } else {
        snprintf(path, sizeof path, "%s/a", root);
        chmod(path, 0500);
        OK(fs_check_writable(path) == ERR_SYSTEM, "a folder without write permission is not");
        chmod(path, 0700);
    }
}

static void check_sync(void)
{
    char path[FS_PATH_MAX];
    snprintf(path, sizeof path, "%s/file", root);
    OK_CALL(fs_sync(path), "a file is flushed");
    OK_CALL(fs_sync(root), "a folder is flushed");
    snprintf(path, sizeof path, "%s/none", root);
    OK(fs_sync(path) == ERR_SYSTEM && strstr(err_message(), path), "what is missing is named: %s",
       err_message());
}

static int make_file(char path[FS_PATH_MAX], const char *name)
{
    snprintf(path, FS_PATH_MAX, "%s/%s", root, name);
    return open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
}

static void check_whole_transfers(void)
{
    char path[FS_PATH_MAX], got[16];
    size_t n = 0;
    int fd = make_file(path, "transfers");
    OK(fs_write_all(fd, FS_HERE, "abcdef", 6) == 0 && fs_write_all(fd, FS_HERE, "ghi", 3) == 0,
       "written in turn");
    OK(fs_write_all(fd, 2, "XY", 2) == 0 && lseek(fd, 0, SEEK_CUR) == 9,
       "an offset leaves the position alone");
    OK(fs_read_all(fd, 0, got, 9, NULL) == 0 && memcmp(got, "abXYefghi", 9) == 0, "read back from an offset");
    OK(fs_read_all(fd, 5, got, sizeof got, &n) == 0 && n == 4 && memcmp(got, "fghi", 4) == 0,
       "up to the end");
    OK(fs_read_all(fd, 5, got, sizeof got, NULL) == EIO,
       "an end too early is an error where no count is asked for");
    OK(fs_read_all(fd, FS_HERE, got, 1, &n) == 0 && n == 0, "nothing is left at the position");
    close(fd);
    OK(fs_read_all(fd, FS_HERE, got, 1, &n) == EBADF && n == 0, "an error is the errno");
    OK(fs_write_all(fd, FS_HERE, got, 1) == EBADF, "of writing, too");
    fd = open("/dev/full", O_WRONLY);
    OK(fs_write_all(fd, FS_HERE, got, 1) == ENOSPC, "a full disk is said");
    close(fd);
}

enum { PIPED = 1 << 20 };
static int ends[2];
static char sent[PIPED], received[PIPED];

static void on_signal(int number)
{
    (void)number;
}

static void *write_slowly(void *unused)
{
    static int reason;
    (void)unused;
    reason = fs_write_all(ends[1], FS_HERE, sent, PIPED);
    close(ends[1]);
    return &reason;
}

/* A pipe takes and gives 64 KiB at a time: both sides see short transfers, and signals meanwhile. */
static void check_short_transfers(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
    pthread_t writer;
    void *reason = NULL;
    size_t n = 0;
    for (int i = 0; i < PIPED; i++) sent[i] = (char)(i * 31 + i / 251);
    if (sigaction(SIGUSR1, &action, NULL) != 0 || pipe(ends) != 0 ||
        pthread_create(&writer, NULL, write_slowly, NULL) != 0)
        exit(1);
    for (int i = 0; i < 3; i++) {
        usleep(2000);
        pthread_kill(writer, SIGUSR1);
    }
    OK(fs_read_all(ends[0], FS_HERE, received, PIPED + 0, &n) == 0 && n == PIPED,
       "a pipe's bytes come whole");
    pthread_join(writer, &reason);
    OK(*(int *)reason == 0 && memcmp(sent, received, PIPED) == 0, "as they were sent, despite signals");
    OK(fs_read_all(ends[0], FS_HERE, received, 1, &n) == 0 && n == 0, "and end");
    close(ends[0]);
}

static void check_read_file(void)
{
    char path[FS_PATH_MAX], line[8], *bytes = NULL;
    size_t n = 0;
    int fd = make_file(path, "bytes");
    fs_write_all(fd, 0, "ab\0cd\n", 6);
    close(fd);
    OK(fs_read_file(path, 6, &bytes, &n) == ERR_OK && n == 6 && memcmp(bytes, "ab\0cd\n", 7) == 0,
       "the bytes of a file, and a NUL");
    mem_free(&bytes);
    OK(fs_read_file(path, INT64_C(1) << 50, &bytes, &n) == ERR_OK && n == 6,
       "a limit far above the memory costs nothing");
    mem_free(&bytes);
    OK(fs_read_file("/proc/self/smaps", 1 << 20, &bytes, &n) == ERR_OK && n > 4096 && strlen(bytes) == n,
       "a file that reports no size");
    mem_free(&bytes);
    OK(fs_read_file(path, 5, &bytes, &n) == ERR_USAGE && strstr(err_message(), "larger"),
       "one byte too many: %s", err_message());
    OK(fs_read_text(path, 6, &bytes) == ERR_USAGE && strstr(err_message(), "zero byte"), "is no text: %s",
       err_message());
    OK(fs_read_file(root, 6, &bytes, NULL) == ERR_USAGE && strstr(err_message(), "directory"), "a folder: %s",
       err_message());
    OK(!fs_read_line(root, line, sizeof line) && !line[0], "has no line");
    fd = make_file(path, "lines");
    fs_write_all(fd, 0, "0123456789\nsecond\n", 18);
    close(fd);
    OK(fs_read_text(path, 100, &bytes) == ERR_OK && strcmp(bytes, "0123456789\nsecond\n") == 0, "a text");
    mem_free(&bytes);
    OK(fs_read_line(path, line, sizeof line) && strcmp(line, "0123456") == 0, "the line, cut");
    close(make_file(path, "empty"));
    OK(!fs_read_line(path, line, sizeof line) && !line[0], "an empty file has no line");
    OK(fs_read_text(path, 0, &bytes) == ERR_OK && !bytes[0], "but a text");
    mem_free(&bytes);
    unlink(path);
    OK(!fs_read_line(path, line, sizeof line) && fs_read_text(path, 1, &bytes) == ERR_USAGE,
       "one that is missing");
}

static void check_temp(void)
{
    char path[FS_PATH_MAX], *text = NULL;
    fs_temp_t temp;
    FILE *file = NULL;
    int fd = make_file(path, "temps"); /* a folder with nothing else in it */
    close(fd);
    unlink(path);
    fs_make_folder(path);
    int n_before = count_entries(path);
    strcat(path, "/file");
    OK_CALL(fs_temp_open(&temp, "thing", path), "a file to be");
    OK(!fs_exists(path) && fs_exists(temp.temp), "has another name");
    OK(fs_temp_write(&temp, 0, "one", 3) == ERR_OK && fs_temp_commit(&temp) == ERR_OK, "until it is whole");
    OK(fs_read_text(path, 9, &text) == ERR_OK && strcmp(text, "one") == 0 && !fs_exists(temp.temp),
       "and then its own");
    mem_free(&text);
    fs_temp_discard(&temp);
    OK(fs_exists(path), "which discarding leaves alone");
    bool streamed = fs_temp_open(&temp, "thing", path) == ERR_OK && fs_temp_stream(&temp, &file) == ERR_OK &&
                    fputs("two", file) >= 0 && fclose(file) == 0;
    fs_temp_discard(&temp);
    OK(streamed && fs_read_text(path, 9, &text) == ERR_OK && strcmp(text, "one") == 0,
       "what was discarded is gone");
    mem_free(&text);
    streamed = fs_temp_open(&temp, "thing", path) == ERR_OK && fs_temp_stream(&temp, &file) == ERR_OK &&
               fputs("three", file) >= 0 && fclose(file) == 0 && fs_temp_commit(&temp) == ERR_OK;
    OK(streamed && fs_read_text(path, 9, &text) == ERR_OK && strcmp(text, "three") == 0,
       "a stream replaces the file");
    mem_free(&text);
    *strrchr(path, '/') = '\0';
    OK(count_entries(path) == n_before + 1, "nothing else is left");
    OK(fs_temp_open(&temp, "thing", path) == ERR_USAGE, "a folder is refused");
    fs_temp_discard(&temp);
    OK(fs_temp_fail(&temp, ENOSPC) == ERR_SYSTEM && strstr(err_message(), "the thing "),
       "a failure names it: %s", err_message());
    strcat(path, "/none/file");
    OK(fs_temp_open(&temp, "thing", path) == ERR_SYSTEM && strstr(err_message(), path),
       "a missing folder: %s", err_message());
    fs_temp_discard(&temp);
}

int main(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/dptrain-fs-XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(root)) return 1;
    tap_plan(61);
    check_join();
    check_make_folder();
    check_writable();
    check_sync();
    check_whole_transfers();
    check_short_transfers();
    check_read_file();
    check_temp();
    OK(mem_live() == 0, "nothing is left in memory");
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return tap_done() || system(command) != 0;
}
