/* SPDX-License-Identifier: MIT */
/* Preloaded into the launcher by tests/cli/restarts.bats: files on a server that does not answer, or gives them to another user; an
 * old kernel.
 *
 *   SHIM_SLOW     to look at this path takes 30 s
 *   SHIM_SLOW_FOLDER  to look at this path by stat takes 30 s
 *   SHIM_FOREIGN  this path, and what is under it, belongs to user 60000
 *   SHIM_NO_LOCK  files cannot be locked (ENOLCK)
 *   SHIM_UNREAD   to read this file is an error (EIO)
 *   SHIM_STUCK    to open or write this file takes 300 s when the file of this name with .stuck is there
 *   SHIM_NO_PIDFD the kernel has no pidfd_open (ENOSYS) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_here(const char *variable, int fd, const char *path)
{
    const char *value = getenv(variable);
    char link[64], name[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (!path && readlink(link, name, sizeof name - 1) > 0) path = name;
    const size_t n = value && path && strncmp(path, value, strlen(value)) == 0 ? strlen(value) : 0;
    return n > 0 && (!path[n] || path[n] == '/');
}

long syscall(long number, ...)
{
    static long (*next)(long, ...);
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_pidfd_open && getenv("SHIM_NO_PIDFD")) return errno = ENOSYS, -1;
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int lstat(const char *path, struct stat *out)
{
    if (is_here("SHIM_SLOW", -1, path)) sleep(30);
    const int code = (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
    if (code == 0 && is_here("SHIM_FOREIGN", -1, path)) out->st_uid = 60000;
    return code;
}

int stat(const char *path, struct stat *out)
{
    const char *slow = getenv("SHIM_SLOW_FOLDER");
    if (slow && strcmp(path, slow) == 0) sleep(30);
    return (int)syscall(SYS_newfstatat, AT_FDCWD, path, out, 0);
}

int fstat(int fd, struct stat *out)
{
    const int code = (int)syscall(SYS_newfstatat, fd, "", out, AT_EMPTY_PATH);
    if (code == 0 && is_here("SHIM_FOREIGN", fd, NULL)) out->st_uid = 60000;
    return code;
}

static void get_stuck(int fd, const char *path)
{
    char flag[4096];
    if (!is_here("SHIM_STUCK", fd, path)) return;
    snprintf(flag, sizeof flag, "%s.stuck", getenv("SHIM_STUCK"));
    if (access(flag, F_OK) == 0) sleep(300);
}

int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int mode = flags & O_CREAT ? va_arg(list, int) : 0;
    va_end(list);
    get_stuck(-1, path);
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t n_bytes)
{
    get_stuck(fd, NULL);
    return syscall(SYS_write, fd, data, n_bytes);
}

int flock(int fd, int how)
{
    return getenv("SHIM_NO_LOCK") ? (errno = ENOLCK, -1) : (int)syscall(SYS_flock, fd, how);
}

ssize_t pread(int fd, void *out, size_t n_bytes, off_t offset)
{
    if (is_here("SHIM_UNREAD", fd, NULL)) return errno = EIO, -1;
    return syscall(SYS_pread64, fd, out, n_bytes, offset);
}
