/* SPDX-License-Identifier: MIT */
/* Paths, folders, reading, and writing under a temporary name until a file is complete; zlib's inflate over a file, because its
 * gzread ignores foreign bytes after the compressed data. No other file includes zlib. Checkpoints and shards have their own
 * writers (store/h5, data/shard). */
#include "base/fs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/clock.h"
#include "base/mem.h"

/* ---- Paths, folders and small files ---- */
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
    static const char controls[] =
        "\1\2\3\4\5\6\a\b\t\n\v\f\r\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37\177";
    size_t n = 0;
    if (word[0] && word[strspn(word, plain)] == '\0') {
        snprintf(out, n_bytes, "%s", word);
        return;
    }
    /* Between $' and ' a backslash is an escape, between ' and ' it is itself. */
    const bool escapes = word[strcspn(word, controls)] != '\0';
    if (escapes) out[n++] = '$';
    out[n++] = '\'';
    for (; *word && n + 6 < n_bytes; word++) {
        if (*word == '\n')
            n = (size_t)(stpcpy(out + n, "\\n") - out);
        else if (strchr(controls, *word))
            n += (size_t)snprintf(out + n, 5, "\\%03o", (unsigned)*word);
        else if (*word == '\'')
            n = (size_t)(stpcpy(out + n, escapes ? "\\'" : "'\\''") - out);
        else if (*word == '\\' && escapes)
            n = (size_t)(stpcpy(out + n, "\\\\") - out);
        else
            out[n++] = *word;
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

int fs_stem(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return (int)(dot && dot > name ? (size_t)(dot - path) : strlen(path));
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

int64_t fs_read_count(const char *folder, const char *name)
{
    char path[FS_PATH_MAX], line[32];
    int64_t n;
    return fs_join(path, folder, name) == ERR_OK && fs_read_line(path, line, sizeof line) &&
                   sscanf(line, "%" SCNd64, &n) == 1
               ? n
               : -1;
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
        if (n < 0 && errno == EAGAIN) {
            struct pollfd ready = {.fd = fd, .events = POLLOUT};
            poll(&ready, 1, -1);
            continue;
        }
        if (n <= 0) return n < 0 ? errno : EIO;
        done += (size_t)n;
    }
    return 0;
}

static err_t read_open(int fd, const char *path, int64_t max_bytes, char **out, size_t *n_bytes)
{
    err_t err = ERR_OK;
    char *bytes = NULL;
    struct stat info;
    int64_t n = 0, room = 0;
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
    return err;
}

static err_t open_to_read(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) RAISE(ERR_USAGE, "cannot read %s: %s", path, strerror(errno));
    return ERR_OK;
}

err_t fs_read_file(const char *path, int64_t max_bytes, char **out, size_t *n_bytes)
{
    int fd;
    TRY(open_to_read(path, &fd));
    const err_t err = read_open(fd, path, max_bytes, out, n_bytes);
    close(fd);
    return err;
}

err_t fs_read_text_of(int fd, const char *path, int64_t max_bytes, char **out)
{
    char *text = NULL;
    size_t n;
    TRY(read_open(fd, path, max_bytes, &text, &n));
    if (strlen(text) != n) {
        mem_free(&text);
        RAISE(ERR_USAGE, "%s is not a text file: it contains a zero byte", path);
    }
    *out = text;
    return ERR_OK;
}

err_t fs_read_text(const char *path, int64_t max_bytes, char **out)
{
    int fd;
    TRY(open_to_read(path, &fd));
    const err_t err = fs_read_text_of(fd, path, max_bytes, out);
    close(fd);
    return err;
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

bool fs_find_program(const char *name, char out[FS_PATH_MAX])
{
    for (const char *at = getenv("PATH"); at && *at;) {
        const size_t n = strcspn(at, ":");
        if (snprintf(out, FS_PATH_MAX, "%.*s/%s", (int)n, at, name) < FS_PATH_MAX && access(out, X_OK) == 0 &&
            !fs_is_folder(out))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* ---- Files that others may have put there ---- */
/* A server may give all files to one user: then it gives it a new one, too. */
static bool gives_all_files(const char *path, uid_t owner)
{
    char trial[FS_PATH_MAX + 32];
    struct stat s;
    snprintf(trial, sizeof trial, "%.*s/.dptrain.XXXXXX",
             strrchr(path, '/') ? (int)(strrchr(path, '/') - path) : 1, strrchr(path, '/') ? path : ".");
    const int fd = mkostemp(trial, O_CLOEXEC);
    if (fd < 0) return false;
    const bool is = fstat(fd, &s) == 0 && s.st_uid == owner;
    close(fd);
    unlink(trial);
    return is;
}

void fs_own_open(const char *path, int flags, fs_own_t *out)
{
    *out = (fs_own_t){.fd = -1};
    /* Opened only if it is regular: to open a fifo or a device may do something. */
    if (lstat(path, &out->stat) != 0) {
        out->reason = errno;
        if (errno != ENOENT || !(flags & O_CREAT)) return;
        out->stat.st_mode = S_IFREG;
        out->stat.st_uid = geteuid();
        out->reason = 0;
    }
    if (!S_ISREG(out->stat.st_mode)) return;
    const uid_t owner = out->stat.st_uid;
    out->is_foreign = owner != 0 && owner != geteuid() && !gives_all_files(path, owner);
    if (out->is_foreign) return;
    out->fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (out->fd >= 0 && fstat(out->fd, &out->stat) == 0) return;
    out->reason = errno;
    if (out->fd >= 0) close(out->fd);
    out->fd = -1;
}

err_t fs_own_check(const fs_own_t *own, const char *path, const char *option)
{
    const mode_t mode = own->stat.st_mode;
    if (own->reason) RAISE(ERR_SYSTEM, "%s: %s", path, strerror(own->reason));
    if (!S_ISREG(mode))
        RAISE(ERR_DATA, "%s: it is a %s, not a regular file; remove it, or choose another %s", path,
              S_ISLNK(mode)    ? "symbolic link"
              : S_ISDIR(mode)  ? "folder"
              : S_ISFIFO(mode) ? "fifo"
                               : "device or socket",
              option);
    if (own->is_foreign)
        RAISE(ERR_DATA, "%s: it belongs to user %d; remove it, or choose another %s", path,
              (int)own->stat.st_uid, option);
    return ERR_OK;
}

/* ---- Files under a temporary name ---- */
err_t fs_temp_fail(const fs_temp_t *t, int reason)
{
    RAISE(ERR_SYSTEM, "the %s %s cannot be written: %s", t->kind, t->path, strerror(reason));
}

err_t fs_temp_open(fs_temp_t *t, const char *kind, const char *path)
{
    t->fd = -1;
    t->kind = kind;
    t->temp[0] = '\0';
    char temp[FS_PATH_MAX];
    TRY(fs_temp_path(path, t->folder, temp));
    memcpy(t->path, path, strlen(path) + 1);
    unlink(temp); /* left by this process after an error */
    t->fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (t->fd >= 0) memcpy(t->temp, temp, sizeof temp);
    return t->fd < 0 ? fs_temp_fail(t, errno) : ERR_OK;
}

err_t fs_temp_write(const fs_temp_t *t, int64_t offset, const void *data, size_t n_bytes)
{
    int reason = fs_write_all(t->fd, offset, data, n_bytes);
    return reason ? fs_temp_fail(t, reason) : ERR_OK;
}

err_t fs_temp_stream(const fs_temp_t *t, FILE **out)
{
    int fd = fcntl(t->fd, F_DUPFD_CLOEXEC, 0);
    *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (*out) return ERR_OK;
    int reason = errno;
    if (fd >= 0) close(fd);
    return fs_temp_fail(t, reason);
}

err_t fs_temp_commit(fs_temp_t *t)
{
    if (fsync(t->fd) != 0) return fs_temp_fail(t, errno);
    int closed = close(t->fd); /* network file systems report some errors only here */
    t->fd = -1;
    if (closed != 0 || rename(t->temp, t->path) != 0) return fs_temp_fail(t, errno);
    t->temp[0] = '\0';
    return fs_sync(t->folder);
}

void fs_temp_discard(fs_temp_t *t)
{
    if (t->fd >= 0) close(t->fd);
    t->fd = -1;
    if (t->temp[0]) unlink(t->temp);
    t->temp[0] = '\0';
}

/* ---- Decompression ---- */
enum { CHUNK_BYTES = 1 << 16 };

struct gunzip {
    int fd;
    bool at_file_end, at_end; /* of the file, of the decompressed data */
    int64_t n_read;
    z_stream z;
    uint8_t chunk[CHUNK_BYTES];
};

err_t gunzip_new(int fd, gunzip_t **out)
{
    gunzip_t *g = NULL;
    TRY(mem_new(sizeof *g, "a file buffer", &g));
    g->fd = fd;
    if (inflateInit2(&g->z, 15 + 16) == Z_OK) {
        *out = g;
        return ERR_OK;
    }
    mem_free(&g);
    RAISE(ERR_SYSTEM, "cannot initialise zlib");
}

void gunzip_free(gunzip_t **gunzip)
{
    if (!*gunzip) return;
    inflateEnd(&(*gunzip)->z);
    mem_free(gunzip);
}

static err_t refill_chunk(gunzip_t *g)
{
    size_t got;
    if (g->z.avail_in > 0 || g->at_file_end) return ERR_OK;
    int reason = fs_read_all(g->fd, FS_HERE, g->chunk, CHUNK_BYTES, &got);
    if (reason) RAISE(ERR_SYSTEM, "cannot read it: %s", strerror(reason));
    g->z.next_in = g->chunk;
    g->z.avail_in = (uInt)got;
    g->at_file_end = got < CHUNK_BYTES;
    g->n_read += (int64_t)got;
    return ERR_OK;
}

static err_t next_member(gunzip_t *g)
{
    TRY(refill_chunk(g));
    g->at_end = g->z.avail_in == 0;
    if (g->at_end) return ERR_OK;
    if (g->z.next_in[0] != 0x1f)
        RAISE(ERR_DATA, "foreign bytes follow the gzip data; download or create the file again");
    ASSERT(inflateReset(&g->z) == Z_OK);
    return ERR_OK;
}

err_t gunzip_read(gunzip_t *g, void *out, size_t n, size_t *got)
{
    z_stream *z = &g->z;
    for (*got = 0; *got < n && !g->at_end;) {
        TRY(refill_chunk(g));
        const size_t left = n - *got, room = left < 1 << 30 ? left : 1 << 30;
        z->next_out = (uint8_t *)out + *got;
        z->avail_out = (uInt)room;
        int status = inflate(z, Z_NO_FLUSH);
        *got += room - z->avail_out;
        if (status == Z_STREAM_END)
            TRY(next_member(g));
        else if (status == Z_BUF_ERROR && z->avail_in == 0 && g->at_file_end)
            RAISE(ERR_DATA, "truncated: its gzip data ends early; download or create the file again");
        else if (status == Z_MEM_ERROR)
            RAISE(ERR_SYSTEM, "zlib is out of memory");
        else if (status != Z_OK && status != Z_BUF_ERROR)
            RAISE(ERR_DATA, "damaged: its gzip data has an %s; download or create the file again",
                  z->msg ? z->msg : "error");
    }
    return ERR_OK;
}

int64_t gunzip_n_read(const gunzip_t *g)
{
    return g->n_read;
}
