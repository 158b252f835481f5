/* SPDX-License-Identifier: MIT */
/* The folder of checkpoints: found by looking, newest good one first, old ones and leftovers removed.
 * RUN np=0 */
#include <errno.h>

#include <fcntl.h>

#include "store/checkpoint/store.h"
#include "store/h5/seal.h"
#include "tests/tap.h"
#include "tests/unit/checkpoint_sample.h"

typedef struct passed {
    int n;
    char paths[8][FS_PATH_MAX], reasons[8][200];
} passed_t;

static void note_passed(void *context, const char *path, const char *reason)
{
    passed_t *passed = context;
    ASSERT(passed->n < 8);
    snprintf(passed->paths[passed->n], FS_PATH_MAX, "%s", path);
    snprintf(passed->reasons[passed->n++], 200, "%s", reason);
}

static void put_file(const char *name, const char *text)
{
    char path[FS_PATH_MAX];
    sample_path(path, name);
    sample_spit(path, text, strlen(text));
}

static bool is_there(const char *name)
{
    char path[FS_PATH_MAX];
    sample_path(path, name);
    return fs_exists(path);
}

static void write_step(int64_t step)
{
    char path[FS_PATH_MAX];
    const h5_attr_t attr = h5_int("step", step);
    ckpt_content_t content = {NULL, 0, &attr, 1};
    ASSERT(checkpoint_store_path(sample_folder, step, path) == ERR_OK);
    ASSERT(checkpoint_write(path, &content) == ERR_OK);
}

static void damage_step(int64_t step)
{
    char path[FS_PATH_MAX];
    size_t n;
    ASSERT(checkpoint_store_path(sample_folder, step, path) == ERR_OK);
    char *data = sample_slurp(path, &n);
    data[n - 1] ^= 1;
    sample_spit(path, data, n);
    free(data);
}

/* The folder holds exactly these steps, newest first. */
static bool steps_are(int n, const int64_t *expected)
{
    int64_t *steps = NULL;
    int n_steps = 0;
    if (checkpoint_store_list(sample_folder, &steps, &n_steps) != ERR_OK) return false;
    bool same = n_steps == n && (n == 0 || memcmp(steps, expected, (size_t)n * sizeof *steps) == 0);
    if (!same) printf("# %d files, the first of step %d\n", n_steps, n_steps ? (int)steps[0] : -1);
    mem_free(&steps);
    return same;
}
#define STEPS_ARE(...)                                                                                       \
    steps_are((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})

static void test_empty(void)
{
    char path[FS_PATH_MAX] = "", file[FS_PATH_MAX];
    int n_found = 7, n_removed = 7;
    int64_t *steps = NULL;
    OK(checkpoint_store_latest("/tmp/no/such/folder", NULL, NULL, path, &n_found) == ERR_DATA &&
           n_found == 0 && sample_says("/tmp/no/such/folder does not exist"),
       "an absent folder: a fresh start is right");
    n_found = 7;
    OK(checkpoint_store_latest(sample_folder, NULL, NULL, path, &n_found) == ERR_DATA && n_found == 0 &&
           sample_says("no checkpoint in the folder") && sample_says(sample_folder),
       "an empty folder: a fresh start is right");
    put_file("plain", "text");
    sample_path(file, "plain");
    OK(checkpoint_store_latest(file, NULL, NULL, path, &n_found) == ERR_DATA && n_found == -1 &&
           sample_says(file) && sample_says("Not a directory"),
       "a folder that cannot be read: a fresh start would be wrong");
    OK(checkpoint_store_list(file, &steps, &n_found) == ERR_DATA && !steps, "nor can it be listed");
    OK(checkpoint_store_clean("/tmp/no/such/folder", &n_removed) == ERR_OK && n_removed == 0,
       "nothing to clean in an absent folder");
    unlink(file);
}

static void test_list(void)
{
    static const char *const others[] = {
        "ckpt-00000000001.h5",   "ckpt-0000000000012.h5", "ckpt-00000000000a.h5", "ckpt-000000000001.h5.bak",
        ".ckpt-000000000001.h5", "CKPT-000000000001.h5",  "ckpt-000000000001.hd", "ckpt--00000000001.h5"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) put_file(others[i], "text");
    char path[FS_PATH_MAX], name[FS_PATH_MAX];
    sample_path(name, "ckpt-000000000042.h5");
    OK(checkpoint_store_path(sample_folder, 42, path) == ERR_OK && strcmp(path, name) == 0,
       "a step's file name");
    for (int64_t step = 5; step <= 300; step *= 3) write_step(step);
    write_step(999999999999);
    OK(STEPS_ARE(999999999999, 135, 45, 15, 5), "listed newest first, by number; other names are ignored");
    ASSERT(checkpoint_store_prune(sample_folder, (ckpt_keep_t){1, -1}, -1, NULL) == ERR_OK);
    bool all = true;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) all = all && is_there(others[i]);
    OK(all && STEPS_ARE(999999999999), "pruning leaves other names alone");
    sample_remove(sample_folder);
    ASSERT(mkdir(sample_folder, 0777) == 0);
}

static void test_latest(void)
{
    char path[FS_PATH_MAX] = "";
    int n_found = 0;
    static passed_t passed;
    for (int64_t step = 10; step <= 50; step += 10) write_step(step);
    damage_step(50);
    put_file("ckpt-000000000040.h5", "text");
    OK_CALL(checkpoint_store_latest(sample_folder, note_passed, &passed, path, &n_found),
            "a good one is found");
    OK(strstr(path, "ckpt-000000000030.h5") && n_found == 5, "the newest good one");
    OK(passed.n == 2 && strstr(passed.paths[0], "ckpt-000000000050.h5") &&
           strstr(passed.reasons[0], "is damaged") && strstr(passed.paths[1], "ckpt-000000000040.h5") &&
           strstr(passed.reasons[1], "is not a dptrain checkpoint"),
       "skipped checkpoints are reported with the reason");
    for (int64_t step = 10; step <= 30; step += 10) damage_step(step);
    passed.n = 0;
    OK(checkpoint_store_latest(sample_folder, note_passed, &passed, path, &n_found) == ERR_DATA &&
           n_found == 5 && passed.n == 5 && sample_says("none of the 5 checkpoints") &&
           sample_says("ckpt-000000000050.h5"),
       "none is good: an error, not a fresh start");
    sample_remove(sample_folder);
    ASSERT(mkdir(sample_folder, 0777) == 0);
}

static void test_prune(void)
{
    for (int64_t step = 1; step <= 6; step++) write_step(step);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){9, -1}, -1, NULL) == ERR_OK &&
           STEPS_ARE(6, 5, 4, 3, 2, 1),
       "fewer than kept");
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){4, 1}, 6, NULL) == ERR_OK &&
           STEPS_ARE(6, 5, 4, 3, 1),
       "the best is kept besides the newest");
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){3, 5}, 6, NULL) == ERR_OK && STEPS_ARE(6, 5, 4, 3),
       "also where it is one of them");
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){4, -1}, 6, NULL) == ERR_OK &&
           STEPS_ARE(6, 5, 4, 3),
       "the newest four stay");
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){3, -1}, 3, NULL) == ERR_OK && STEPS_ARE(6, 5, 3),
       "the one just written stays, although others have higher steps");
    damage_step(6), damage_step(5);
    write_step(2);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){3, -1}, -1, NULL) == ERR_OK && STEPS_ARE(6, 3, 2),
       "a damaged one goes before an older one that is whole");
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){1, -1}, -1, NULL) == ERR_OK && STEPS_ARE(3),
       "then the oldest");
    write_step(7);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){1, -1}, 7, NULL) == ERR_OK && STEPS_ARE(7),
       "until there is a newer one");
    char path[FS_PATH_MAX];
    if (checkpoint_store_path(sample_folder, 2, path) != ERR_OK || mkdir(path, 0777) != 0) abort();
    write_step(8);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){1, -1}, 8, NULL) == ERR_OK && fs_is_folder(path),
       "a folder of such a name is left alone");
    if (rmdir(path) != 0) abort();
    damage_step(8);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){1, -1}, -1, NULL) == ERR_OK && STEPS_ARE(8),
       "the last file is never deleted");
    sample_remove(sample_folder);
    ASSERT(mkdir(sample_folder, 0777) == 0);
}

/* Verified files are not read again: one that is damaged later counts as whole. */
static void test_verified(void)
{
    ckpt_verified_t verified = {0};
    for (int64_t step = 1; step <= 3; step++) write_step(step);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){2, -1}, 3, &verified) == ERR_OK && STEPS_ARE(3, 2),
       "pruned to two");
    OK(verified.n == 1 && verified.steps[0] == 2, "what was verified and stays is noted");
    damage_step(2);
    write_step(4);
    OK(ckpt_verified_add(&verified, 3) == ERR_OK &&
           checkpoint_store_prune(sample_folder, (ckpt_keep_t){2, -1}, 4, &verified) == ERR_OK &&
           STEPS_ARE(4, 3) && verified.n == 1 && verified.steps[0] == 3,
       "and what was deleted is forgotten");
    mem_free(&verified.steps);
    OK_CALL(checkpoint_store_read_back(sample_folder, 4), "a checkpoint is read back");
    damage_step(4);
    OK(checkpoint_store_read_back(sample_folder, 4) == ERR_SYSTEM && sample_says("step 4") &&
           sample_says("reads back differently") && STEPS_ARE(3),
       "one that reads back differently is deleted");
    sample_remove(sample_folder);
    ASSERT(mkdir(sample_folder, 0777) == 0);
}

static void rename_step(int64_t from, int64_t to)
{
    char old[FS_PATH_MAX], new[FS_PATH_MAX];
    ASSERT(checkpoint_store_path(sample_folder, from, old) == ERR_OK &&
           checkpoint_store_path(sample_folder, to, new) == ERR_OK && rename(old, new) == 0);
}

/* A file of an earlier dptrain, which its version can still read. */
static void test_other_schema(void)
{
    char path[FS_PATH_MAX];
    for (int64_t step = 1; step <= 4; step++) write_step(step);
    ASSERT(checkpoint_store_path(sample_folder, 2, path) == ERR_OK);
    const seal_file_t file = {open(path, O_RDWR | O_CLOEXEC), path, "checkpoint"};
    seal_t seal = {.schema = CKPT_SCHEMA - 1};
    ASSERT(file.fd >= 0 && seal_write(&file, NULL, 0, &seal) == ERR_OK && close(file.fd) == 0);
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){1, -1}, 4, NULL) == ERR_OK && STEPS_ARE(4, 2),
       "pruning neither counts nor deletes a checkpoint of another version");
    sample_remove(sample_folder);
    ASSERT(mkdir(sample_folder, 0777) == 0);
}

static void test_renamed(void)
{
    static passed_t passed;
    char path[FS_PATH_MAX];
    int n_found = 0;
    for (int64_t step = 1; step <= 4; step++) write_step(step);
    rename_step(1, 99999);
    OK(checkpoint_store_latest(sample_folder, note_passed, &passed, path, &n_found) == ERR_OK &&
           strstr(path, "ckpt-000000000004.h5"),
       "a renamed checkpoint is not the newest");
    OK(passed.n == 1 && strstr(passed.paths[0], "ckpt-000000099999.h5") &&
           strstr(passed.reasons[0], "holds step 1, not 99999"),
       "and is reported");
    OK(checkpoint_store_prune(sample_folder, (ckpt_keep_t){2, -1}, 4, NULL) == ERR_OK &&
           STEPS_ARE(99999, 4, 3),
       "pruning neither counts nor deletes it");
    sample_remove(sample_folder);
    ASSERT(mkdir(sample_folder, 0777) == 0);
}

static void test_clean(void)
{
    char own[100];
    snprintf(own, sizeof own, ".ckpt-000000000004.h5.tmp-%s", fs_temp_token().text);
    static const char *const left[] = {".ckpt-000000000003.h5.tmp-4711",
                                       ".ckpt-000000000005.h5.tmp-1-0123456789abcdef"};
    static const char *const others[] = {".ckpt-000000000003.h5.tmp-",
                                         ".ckpt-000000000003.h5.tmp-12x",
                                         ".ckpt-000000000003.h5.tmp-12-0123",
                                         ".ckpt-000000000003.h5.tmp-12-0123456789abcdef0",
                                         ".other.h5.tmp-1234567",
                                         "ckpt-000000000003.h5.tmp-1234567"};
    put_file(left[0], "half"), put_file(left[1], "half"), put_file(own, "half");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) put_file(others[i], "text");
    write_step(3);
    int n_removed = 0;
    OK_CALL(checkpoint_store_clean(sample_folder, &n_removed), "cleaned");
    OK(n_removed == 3 && !is_there(left[0]) && !is_there(left[1]) && !is_there(own),
       "what earlier writers left is removed, whatever runs under their numbers now");
    bool all = STEPS_ARE(3);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) all = all && is_there(others[i]);
    OK(all, "other files stay");
}

int main(void)
{
    sample_begin();
    tap_plan(5 + 3 + 4 + 10 + 5 + 3 + 1 + 3 + 1);
    test_empty();
    test_list();
    test_latest();
    test_prune();
    test_verified();
    test_renamed();
    test_other_schema();
    test_clean();
    OK(sample_balanced(), "nothing is left open or allocated");
    sample_remove(sample_folder);
    return tap_done();
}
