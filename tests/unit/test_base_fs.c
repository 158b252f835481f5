/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * Files and folders, in a folder of the test's own. */
#include "tests/tap.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"

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

int main(void)
{
    const char *folder = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/dptrain-fs-XXXXXX", folder ? folder : "/tmp");
    if (!mkdtemp(root)) return 1;
    tap_plan(23);
    check_join();
    check_make_folder();
    check_writable();
    check_sync();
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return tap_done() || system(command) != 0;
}
