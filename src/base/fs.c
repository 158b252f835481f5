/* SPDX-License-Identifier: MIT */
/* Paths, folders and small text files. A text file is written under a temporary name and renamed. Checkpoints
 * and shards have their own writers (store/h5, data/shard). */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

err_t fs_join(char *out, const char *folder, const char *name)
{
    size_t n = strlen(folder);
    const char *slash = n && folder[n - 1] != '/' ? "/" : "";
    if (snprintf(out, FS_PATH_MAX, "%s%s%s", folder, slash, name) >= FS_PATH_MAX)
        RAISE(ERR_USAGE, "the path %.80s… is longer than %d bytes", folder, FS_PATH_MAX);
    return ERR_OK;
}

void fs_quote(const char *word, char *out, size_t n_bytes)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    size_t n = 0;
    if (word[0] && word[strspn(word, plain)] == '\0') {
        snprintf(out, n_bytes, "%s", word);
        return;
    }
    out[n++] = '\'';
    for (; *word && n + 6 < n_bytes; word++) {
        if (*word != '\'') {
            out[n++] = *word;
            continue;
        }
        memcpy(out + n, "'\\''", 4);
        n += 4;
    }
    out[n++] = '\'';
    out[n] = '\0';
}

bool fs_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

bool fs_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool fs_entry_is_folder(DIR *folder, const struct dirent *entry)
{
    struct stat info;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return entry->d_type == DT_DIR;
    return fstatat(dirfd(folder), entry->d_name, &info, 0) == 0 && S_ISDIR(info.st_mode);
}

bool fs_has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), n_suffix = strlen(suffix);
    return n > n_suffix && strcasecmp(path + n - n_suffix, suffix) == 0;
}

err_t fs_make_folder(const char *path)
{
    char part[FS_PATH_MAX];
    TRY(fs_join(part, path, ""));
    for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        /* On network file systems mkdir of an existing folder may fail with an errno other than EEXIST. */
        if (mkdir(part, 0777) != 0) {
            int reason = errno;
            if (fs_exists(part) && !fs_is_folder(part))
                RAISE(ERR_USAGE, "%s is a file; expected a folder", part);
            if (!fs_is_folder(part))
                RAISE(ERR_SYSTEM, "cannot create the folder %s: %s", part, strerror(reason));
        }
        *slash = '/';
    }
    return ERR_OK;
}

err_t fs_check_writable(const char *folder)
{
    char probe[FS_PATH_MAX];
    TRY(fs_join(probe, folder, ".dptrain-XXXXXX"));
    int fd = mkstemp(probe);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot write into the folder %s: %s", folder, strerror(errno));
    close(fd);
    unlink(probe);
    return ERR_OK;
}

fs_token_t fs_temp_token(void)
{
    static _Atomic uint64_t chosen;
    uint64_t number = atomic_load(&chosen), none = 0;
    fs_token_t token;
    if (!number) {
        if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number || !number)
            number = (uint64_t)(1e9 * clock_unix_sec()) | 1;
        if (!atomic_compare_exchange_strong(&chosen, &none, number)) number = none;
    }
    snprintf(token.text, sizeof token.text, "%ld-%016" PRIx64, (long)getpid(), number);
    return token;
}

bool fs_is_temp_suffix(const char *suffix)
{
    if (strncmp(suffix, ".tmp-", 5) != 0) return false;
    size_t digits = strspn(suffix + 5, "0123456789");
    const char *rest = suffix + 5 + digits;
    if (digits == 0) return false;
    return rest[0] == '\0' ||
           (rest[0] == '-' && strspn(rest + 1, "0123456789abcdef") == 16 && rest[17] == '\0');
}

err_t fs_temp_path(const char *path, char folder[FS_PATH_MAX], char temp[FS_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    int n_folder = (int)(name - path);
    if (!name[0] || fs_is_folder(path)) RAISE(ERR_USAGE, "'%s' is a folder, not the name of a file", path);
    if (snprintf(temp, FS_PATH_MAX, "%.*s.%s.tmp-%s", n_folder, path, name, fs_temp_token().text) >=
        FS_PATH_MAX)
        RAISE(ERR_USAGE, "the path %.80s… is longer than %d bytes", path, FS_PATH_MAX);
    snprintf(folder, FS_PATH_MAX, "%.*s", n_folder ? n_folder : 1, n_folder ? path : ".");
    return ERR_OK;
}

err_t fs_check_target(const char *path)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    TRY(fs_temp_path(path, folder, temp));
    return fs_check_writable(folder);
}

err_t fs_cache_path(char *out, const char *name)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[FS_PATH_MAX];
    /* The XDG base directory specification ignores relative paths. */
    if (cache && cache[0] == '/')
        TRY(fs_join(folder, cache, "dptrain"));
    else if (home && home[0] == '/')
        TRY(fs_join(folder, home, ".cache/dptrain"));
    else
        RAISE(ERR_USAGE, "neither XDG_CACHE_HOME nor HOME is set");
    return fs_join(out, folder, name);
}

static err_t write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    if (!file) RAISE(ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    bool written = fputs(text, file) >= 0;
    if (fclose(file) != 0 || !written) RAISE(ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    return ERR_OK;
}

err_t fs_write_text(const char *path, const char *text)
{
    char folder[FS_PATH_MAX], temp[FS_PATH_MAX];
    TRY(fs_temp_path(path, folder, temp));
    TRY(fs_make_folder(folder));
    err_t err = write_file(temp, text);
    if (err == ERR_OK && rename(temp, path) != 0)
        err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot rename %s to %s: %s", temp, path,
                        strerror(errno));
    if (err != ERR_OK) unlink(temp);
    return err;
}

int64_t fs_size_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur > (rlim_t)INT64_MAX) return INT64_MAX;
    return (int64_t)limit.rlim_cur;
}

err_t fs_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open %s to flush it: %s", path, strerror(errno));
    int reason = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    /* Some network file systems do not support fsync of a folder. */
    if (reason && reason != EINVAL && reason != ENOTSUP)
        RAISE(ERR_SYSTEM, "cannot flush %s to its device: %s", path, strerror(reason));
    return ERR_OK;
}

int fs_read_all(int fd, int64_t offset, void *out, size_t n_bytes, size_t *n_read)
{
    size_t done = 0;
    int reason = 0;
    while (done < n_bytes) {
        ssize_t n = offset == FS_HERE
                        ? read(fd, (char *)out + done, n_bytes - done)
                        : pread(fd, (char *)out + done, n_bytes - done, (off_t)offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) reason = errno;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (n_read) *n_read = done;
    return reason ? reason : n_read || done == n_bytes ? 0 : EIO;
}

int fs_write_all(int fd, int64_t offset, const void *data, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        const char *at = (const char *)data + done;
        ssize_t n = offset == FS_HERE ? write(fd, at, n_bytes - done)
                                      : pwrite(fd, at, n_bytes - done, (off_t)offset + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : EIO;
        done += (size_t)n;
    }
    return 0;
}

err_t fs_read_file(const char *path, int64_t max_bytes, char **out, size_t *n_bytes)
{
    err_t err = ERR_OK;
    char *bytes = NULL;
    struct stat info;
    int64_t n = 0, room = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_USAGE, "cannot read %s: %s", path, strerror(errno));
    /* The size that a pipe or a file in /proc reports is 0, and a record grows while it is read. */
    const int64_t size = fstat(fd, &info) == 0 ? info.st_size : 0, first = size > 4095 ? size : 4095;
    while (n == room && room <= max_bytes) {
        size_t got;
        room = room ? 2 * room : first + 1;
        if (room > max_bytes + 1) room = max_bytes + 1;
        TRY_OUT(err, mem_grow(room, 1, "a file", &bytes));
        int reason = fs_read_all(fd, FS_HERE, bytes + n, (size_t)(room - n), &got);
        if (reason) RAISE_OUT(err, ERR_USAGE, "cannot read %s: %s", path, strerror(reason));
        n += (int64_t)got;
    }
    if (n > max_bytes)
        RAISE_OUT(err, ERR_USAGE, "%s is larger than %lld bytes, the limit for such files", path,
                  (long long)max_bytes);
    bytes[n] = '\0';
    if (n_bytes) *n_bytes = (size_t)n;
    *out = bytes;
    bytes = NULL;
out:
    mem_free(&bytes);
    close(fd);
    return err;
}

err_t fs_read_text(const char *path, int64_t max_bytes, char **out)
{
    char *text = NULL;
    size_t n;
    TRY(fs_read_file(path, max_bytes, &text, &n));
    if (strlen(text) != n) {
        mem_free(&text);
        RAISE(ERR_USAGE, "%s is not a text file: it contains a zero byte", path);
    }
    *out = text;
    return ERR_OK;
}

bool fs_read_line(const char *path, char *out, size_t n_bytes)
{
    FILE *file = fopen(path, "re");
    bool got = file && fgets(out, (int)n_bytes, file);
    if (file) fclose(file);
    if (!got) out[0] = '\0';
    out[strcspn(out, "\n")] = '\0';
    return out[0] != '\0';
}

void fs_hold_standard(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return;
}
