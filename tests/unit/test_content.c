/* SPDX-License-Identifier: MIT */
/* RUN np=0
 * Hashes of image files: readings compared in a process, kept in files, by two processes and after changes; files of
 * hashes that are damaged, foreign, or no files at all. */
#include <sys/stat.h>

#include "base/mem.h"
#include "data/dataset/content.h"
#include "tests/folder.h"
#include "tests/tap.h"

enum { N_TRAIN = 40, N_VAL = 10 };

static void name_of(const void *context, split_t split, int64_t index, char out[CONTENT_NAME_MAX])
{
    (void)context;
    snprintf(out, CONTENT_NAME_MAX, "%s/%lld.jpg", split_names[split], (long long)index);
}

/* A folder's table; skip: a file that is missing, and shifts those after it. */
static content_t *make(int64_t skip)
{
    const int64_t n[SPLIT_COUNT] = {[SPLIT_TRAIN] = N_TRAIN, [SPLIT_VAL] = N_VAL};
    content_t *content = NULL;
    if (content_new(n, &content) != ERR_OK || content_new_names(content) != ERR_OK) abort();
    content->name_of = name_of;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < n[split]; i++) {
            char name[CONTENT_NAME_MAX];
            snprintf(name, sizeof name, "%lld.jpg", (long long)(i + (i >= skip)));
            content->names[split][i] = content_name(split, name, 7);
            content->times[split][i] = 1000 + i;
        }
    return content;
}

/* Every `step`th file, of text and its number. */
static err_t read_files(content_t *content, const char *text, int64_t first, int64_t step)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = first; i < content->n[split]; i += step) {
            char bytes[64];
            int n = snprintf(bytes, sizeof bytes, "%s %d %lld", text, split, (long long)i);
            TRY(content_note(content, split, i, bytes, (size_t)n));
        }
    return ERR_OK;
}

static int count_known(const content_t *content)
{
    int n = 0;
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < content->n[split]; i++) n += content_get(content, split, i) != 0;
    return n;
}

static void test_readings(void)
{
    content_t *content = make(N_TRAIN);
    OK(read_files(content, "a", 0, 1) == ERR_OK && count_known(content) == N_TRAIN + N_VAL,
       "all files are read");
    OK_CALL(read_files(content, "a", 0, 1), "and again");
    OK(content_note(content, SPLIT_VAL, 3, "b", 1) == ERR_DATA &&
           SAYS("val/3.jpg", "has changed since this run"),
       "other bytes are an error that names the file");
    char hosts[2][CONTENT_HOST_MAX] = {"node1", "node2"};
    content->hosts = hosts, content->n_hosts = 2, content->who = 2;
    OK(content_note(content, SPLIT_TRAIN, 39, "b", 1) == ERR_DATA && SAYS("train/39.jpg", "node1", "node2"),
       "and both hosts");
    content->hosts = NULL;
    content->counts_changed = true;
    OK(content_note(content, SPLIT_VAL, 3, "b", 1) == ERR_OK &&
           content_note(content, SPLIT_VAL, 4, "b", 1) == ERR_OK && content->n_changed == 2 &&
           content->first_changed == N_TRAIN + 3,
       "or are counted");
    content_free(&content);
    content_free(&content);
    OK(!content, "freed twice");
}

static void test_files(void)
{
    const char *path = folder_path("cache/content");
    content_t *content = make(N_TRAIN), *other = make(N_TRAIN);
    OK(content_file_read(content, path, CONTENT_CACHE) == ERR_OK && count_known(content) == 0,
       "no file is an empty one");
    read_files(content, "a", 0, 2);
    read_files(other, "a", 1, 2);
    OK(content_file_write(content, path, CONTENT_CACHE) == ERR_OK &&
           content_file_write(other, path, CONTENT_CACHE) == ERR_OK,
       "two processes write what each has read");
    content_free(&content), content_free(&other);
    content = make(N_TRAIN);
    OK(content_file_read(content, path, CONTENT_CACHE) == ERR_OK && count_known(content) == N_TRAIN + N_VAL,
       "both are kept");
    OK_CALL(read_files(content, "a", 0, 1), "the same bytes");
    content_free(&content);
    content = make(N_TRAIN);
    content_file_read(content, path, CONTENT_CACHE);
    OK(content_note(content, SPLIT_TRAIN, 5, "b", 1) == ERR_DATA &&
           SAYS("train/5.jpg", "neither its size nor its time", "touch"),
       "other bytes");
    content_free(&content);
    content = make(N_TRAIN);
    content->times[SPLIT_TRAIN][5]++;
    content_file_read(content, path, CONTENT_CACHE);
    OK(count_known(content) == N_TRAIN + N_VAL - 1 && !content_get(content, SPLIT_TRAIN, 5),
       "a newer file is not known");
    content_free(&content);
    content = make(7);
    for (int64_t i = 7; i < N_TRAIN; i++) content->times[SPLIT_TRAIN][i]++;
    for (int64_t i = 7; i < N_VAL; i++) content->times[SPLIT_VAL][i]++;
    content_file_read(content, path, CONTENT_CACHE);
    OK(count_known(content) == N_TRAIN + N_VAL - 2, "without a file the others are found");
    content_free(&content);

    /* A run's file does not depend on times. */
    content = make(N_TRAIN);
    content_file_read(content, path, CONTENT_CACHE);
    folder_put("run", "left over", 9);
    OK_CALL(content_file_write(content, folder_path("run"), CONTENT_RUN), "a run's file");
    content_free(&content);
    content = make(N_TRAIN);
    content->times[SPLIT_TRAIN][5]++;
    content_file_read(content, folder_path("run"), CONTENT_RUN);
    OK(content_note(content, SPLIT_TRAIN, 5, "b", 1) == ERR_DATA && SAYS("train/5.jpg", "the resumed run"),
       "a newer file with other bytes");
    OK_CALL(content_file_write(content, folder_path("empty"), CONTENT_CACHE), "to the cache");
    content_free(&content);
    content = make(N_TRAIN);
    OK(content_file_read(content, folder_path("empty"), CONTENT_CACHE) == ERR_OK && count_known(content) == 0,
       "goes only what this process has read");
    read_files(content, "b", 3, 100);
    OK(content_file_read(content, folder_path("run"), CONTENT_RUN) == ERR_DATA && SAYS("train/3.jpg"),
       "a reading that came before the file");
    content_free(&content);
}

static bool ignored(const char *path)
{
    content_t *content = make(N_TRAIN);
    bool empty = content_file_read(content, path, CONTENT_CACHE) == ERR_OK && count_known(content) == 0;
    content_free(&content);
    return empty;
}

static void test_damage(void)
{
    char *bytes = NULL;
    size_t n = 0;
    const char *path = folder_path("cache/content"), *bad = folder_path("bad");
    bool all = fs_read_file(path, 1 << 20, &bytes, &n) == ERR_OK;
    for (size_t i = 0; i < n; i++) {
        bytes[i] ^= 4;
        folder_put("bad", bytes, n);
        bytes[i] ^= 4;
        all = all && ignored(bad);
    }
    OK(all, "a file with a flipped bit is ignored");
    folder_put("bad", bytes, n - 1);
    OK(ignored(bad), "a truncated file");
    folder_put("bad", bytes, n);
    OK(!ignored(bad), "not the whole one");
    mem_free(&bytes);
    unlink(bad);
    OK(mkfifo(bad, 0600) == 0 && ignored(bad), "a FIFO does not hang");
    content_t *content = make(N_TRAIN);
    read_files(content, "a", 0, 1);
    OK(content_file_write(content, bad, CONTENT_CACHE) == ERR_OK && !ignored(bad), "and is replaced");
    int n_caches = 0;
    for (int i = 0; i < CONTENT_MAX_CACHES + 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "many/content-%d.xxh3", i);
        content_file_write(content, folder_path(name), CONTENT_CACHE);
    }
    for (int i = 0; i < CONTENT_MAX_CACHES + 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "many/content-%d.xxh3", i);
        n_caches += fs_exists(folder_path(name));
    }
    OK(n_caches == CONTENT_MAX_CACHES, "at most %d caches are kept", CONTENT_MAX_CACHES);
    content_free(&content);
}

int main(void)
{
    tap_plan(6 + 12 + 6 + 1);
    /* Warnings about damaged files. */
    if (!folder_begin() || !freopen("/dev/null", "w", stderr)) abort();
    test_readings();
    test_files();
    test_damage();
    folder_clear();
    rmdir(folder);
    OK(mem_live_bytes() == 0, "all memory is freed");
    return tap_done();
}
