/* SPDX-License-Identifier: MIT */
/* Plain file access for the io case: a temporary folder, sequential reads and writes, and eviction from
 * the page cache, verified by mincore. */
#include "tools/bench/io_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/figure.h"
#include "base/mem.h"
#include "cluster/session/signals.h"

static err_t check_room(const char *folder, int64_t n_bytes)
{
    struct statvfs info;
    if (statvfs(folder, &info) != 0)
        RAISE(ERR_SYSTEM, "--io-dir %s: cannot query free space: %s", folder, strerror(errno));
    int64_t room = (int64_t)(info.f_bavail * info.f_frsize);
    if (room < n_bytes)
        RAISE(ERR_USAGE,
              "--io-dir %s has %s free, but needs %s: %s too little; free some space, or choose a smaller "
              "--io-bytes or another --io-dir",
              folder, figure_bytes((double)room).text, figure_bytes((double)n_bytes).text,
              figure_bytes((double)(n_bytes - room)).text);
    if (fs_size_limit() < n_bytes)
        RAISE(ERR_USAGE,
              "the file size limit is %s (ulimit -f), but --io-bytes needs %s; raise the limit or choose a "
              "smaller --io-bytes",
              figure_bytes((double)fs_size_limit()).text, figure_bytes((double)n_bytes).text);
    return ERR_OK;
}

err_t io_check_folder(const char *folder, int64_t n_bytes)
{
    if (!fs_exists(folder)) RAISE(ERR_USAGE, "--io-dir %s: no such folder", folder);
    if (!fs_is_folder(folder)) RAISE(ERR_USAGE, "--io-dir %s is a file; expected a folder", folder);
    TRY(check_room(folder, n_bytes));
    err_t err = fs_check_writable(folder);
    return err == ERR_OK ? ERR_OK : err_context(err, "--io-dir");
}

void io_filesystem(const char *folder, char *out, size_t n_bytes)
{
    static const struct {
        unsigned long magic;
        const char *name;
    } known[] = {
        {0xef53, "ext4"},        {0x58465342, "xfs"}, {0x9123683e, "btrfs"},  {0x01021994, "tmpfs"},
        {0x794c7630, "overlay"}, {0x6969, "nfs"},     {0x0bd00bd0, "lustre"}, {0x47504653, "gpfs"},
        {0x65735546, "fuse"},    {0x2fc12fc1, "zfs"}, {0x01021997, "9p"},     {0x00c36400, "ceph"},
    };
    struct statfs info;
    snprintf(out, n_bytes, "unknown");
    if (statfs(folder, &info) != 0) return;
    unsigned long magic = (unsigned long)info.f_type & 0xffffffffUL;
    snprintf(out, n_bytes, "0x%lx", magic);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].magic == magic) snprintf(out, n_bytes, "%s", known[i].name);
}

err_t io_temp_new(const char *folder, char out[FS_PATH_MAX])
{
    char path[FS_PATH_MAX];
    TRY(fs_join(path, folder, "dptrain-bench-XXXXXX"));
    if (!mkdtemp(path))
        RAISE(ERR_SYSTEM, "--io-dir %s: cannot create a folder in it: %s", folder, strerror(errno));
    memcpy(out, path, sizeof path);
    return ERR_OK;
}

void io_temp_remove(const char *temp)
{
    char path[FS_PATH_MAX];
    DIR *dir = opendir(temp);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (entry->d_type != DT_DIR && fs_join(path, temp, entry->d_name) == ERR_OK) unlink(path);
    if (dir) closedir(dir);
    rmdir(temp);
}

static size_t part_bytes(int64_t n)
{
    return n < IO_PART ? (size_t)n : IO_PART;
}

err_t io_write(const char *path, const uint8_t *bytes, int64_t n, int *out)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot create '%s': %s", path, strerror(errno));
    while (n > 0 && !stop_requested()) {
        size_t n_part = part_bytes(n);
        int reason = fs_write_all(fd, FS_HERE, bytes, n_part);
        if (reason) {
            close(fd);
            RAISE(ERR_SYSTEM, "cannot write '%s': %s", path, strerror(reason));
        }
        bytes += n_part;
        n -= (int64_t)n_part;
    }
    *out = fd;
    return ERR_OK;
}

err_t io_flush(int fd, const char *path)
{
    if (fsync(fd) != 0) RAISE(ERR_SYSTEM, "cannot flush '%s': %s", path, strerror(errno));
    return ERR_OK;
}

err_t io_read(const char *path, uint8_t *out, int64_t n)
{
    err_t err = ERR_OK;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    while (n > 0 && !stop_requested()) {
        size_t n_part = part_bytes(n), n_read;
        int reason = fs_read_all(fd, FS_HERE, out, n_part, &n_read);
        if (reason) RAISE_OUT(err, ERR_SYSTEM, "cannot read '%s': %s", path, strerror(reason));
        if (n_read < n_part) RAISE_OUT(err, ERR_SYSTEM, "'%s' is truncated", path);
        out += n_part;
        n -= (int64_t)n_part;
    }
out:
    close(fd);
    return err;
}

/* The caller must be able to write the file: otherwise mincore reports all pages as cached. */
static err_t count_resident(int fd, const char *path, int64_t *n_resident)
{
    struct stat info;
    *n_resident = 0;
    if (fstat(fd, &info) != 0) RAISE(ERR_SYSTEM, "cannot stat '%s': %s", path, strerror(errno));
    if (info.st_size == 0) return ERR_OK;
    size_t n_bytes = (size_t)info.st_size, n_page = (size_t)sysconf(_SC_PAGESIZE);
    size_t n_pages = (n_bytes + n_page - 1) / n_page;
    unsigned char *resident;
    TRY(mem_new(n_pages, "pages of a file", &resident));
    void *map = mmap(NULL, n_bytes, PROT_READ, MAP_SHARED, fd, 0);
    bool known = map != MAP_FAILED && mincore(map, n_bytes, resident) == 0;
    for (size_t i = 0; i < n_pages; i++) *n_resident += !known || (resident[i] & 1);
    if (map != MAP_FAILED) munmap(map, n_bytes);
    mem_free(&resident);
    return ERR_OK;
}

err_t io_drop(const char *path, int64_t *n_left)
{
    enum { TRIES = 3 }; /* pages just added by another CPU may survive one attempt */
    err_t err = ERR_OK;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open '%s': %s", path, strerror(errno));
    TRY_OUT(err, io_flush(fd, path));
    *n_left = 1;
    for (int i = 0; *n_left > 0 && i < TRIES; i++) {
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        TRY_OUT(err, count_resident(fd, path, n_left));
    }
out:
    close(fd);
    return err;
}
