/* SPDX-License-Identifier: MIT */
/* Checks and cleans the target folder before anything is written: foreign files, another packing, the source
 * itself. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "store/h5/seal.h"
#include "tools/pack/shard_plan.h"

/* realpath(3) of what is there, and the rest as it is written. */
static bool resolve(const char *path, char out[FS_PATH_MAX])
{
    char whole[FS_PATH_MAX], there[FS_PATH_MAX]; /* FS_PATH_MAX is PATH_MAX */
    if (fs_join(whole, path[0] == '/' ? "" : "./", path) != ERR_OK) return false;
    memcpy(there, whole, sizeof there);
    for (char *slash; !realpath(there, out); *slash = '\0')
        if (errno != ENOENT || !(slash = strrchr(there, '/')) || slash == there) return false;
    const size_t used = strlen(out), room = FS_PATH_MAX - used;
    return (size_t)snprintf(out + used, room, "%s", whole + strlen(there)) < room;
}

static err_t check_other(const char *from, const char *to)
{
    char a[FS_PATH_MAX], b[FS_PATH_MAX];
    if (resolve(from, a) && resolve(to, b) && strcmp(a, b) == 0)
        RAISE(ERR_USAGE, "%s is what is to be packed; give another folder for the shards", to);
    return ERR_OK;
}

err_t pack_check_apart(const char *from, const char *to)
{
    char classes[FS_PATH_MAX], a[FS_PATH_MAX], b[FS_PATH_MAX];
    TRY(check_other(from, to));
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        TRY(source_classes(from, split, classes));
        if (!classes[0] || !resolve(classes, a) || !resolve(to, b)) continue;
        const size_t n = strlen(a);
        if (strncmp(a, b, n) == 0 && (b[n] == '/' || b[n] == '\0'))
            RAISE(ERR_USAGE,
                  "%s is in %s, where every folder is a class of images: the shards would be taken for one; "
                  "give another folder for them",
                  to, classes);
    }
    return ERR_OK;
}

/* What is in the way. */
typedef struct finds {
    char stranger[SHARD_NAME_MAX]; /* the first file of another packing; "" */
    uint64_t plan;
} finds_t;

/* A file whose first bytes are not those of ours, under a name that we write. */
static err_t check_ours(const char *path, const char *begin)
{
    char first[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    size_t n_read;
    int reason = fd < 0 ? errno : fs_read_all(fd, FS_HERE, first, strlen(begin), &n_read);
    if (fd >= 0) close(fd);
    if (reason) RAISE(ERR_SYSTEM, "%s cannot be read: %s", path, strerror(reason));
    if (strcmp(first, begin) != 0)
        RAISE(ERR_USAGE, "%s was not made by dptrain data pack, which would replace it; give another folder",
              path);
    return ERR_OK;
}

/* A seal of another plan; what has no whole seal is written anew. */
static bool is_strange(const char *path, const char *kind, uint64_t plan)
{
    seal_t seal;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const seal_file_t file = {fd, path, kind};
    bool strange = seal_look(&file, &seal) == ERR_OK && seal.plan != plan;
    close(fd);
    return strange;
}

static err_t remove_file(const char *path)
{
    if (unlink(path) != 0 && errno != ENOENT)
        RAISE(ERR_SYSTEM, "%s cannot be deleted: %s", path, strerror(errno));
    return ERR_OK;
}

/* Goes through the folder: with `clear` all that pack has made is removed, without it what was left over
 * alone. */
static err_t scan(const char *folder, bool clear, finds_t *finds)
{
    DIR *dir = opendir(folder);
    char path[FS_PATH_MAX];
    err_t err = ERR_OK;
    if (!dir) RAISE(ERR_SYSTEM, "the folder %s cannot be read: %s", folder, strerror(errno));
    for (struct dirent *entry; err == ERR_OK && (entry = readdir(dir));) {
        const char *name = entry->d_name;
        bool shard = shard_is_name(name);
        if (!shard && !shard_is_leftover(name)) continue;
        err = fs_join(path, folder, name);
        if (err == ERR_OK && (!shard || clear))
            err = remove_file(path);
        else if (err == ERR_OK && !finds->stranger[0] && is_strange(path, "shard", finds->plan))
            snprintf(finds->stranger, sizeof finds->stranger, "%.63s", name);
    }
    closedir(dir);
    return err;
}

err_t pack_prepare(const source_t *source, const pack_options_t *options, const pack_plan_t *plan)
{
    const char *out = options->out;
    char index[FS_PATH_MAX], manifest[FS_PATH_MAX];
    finds_t finds = {.plan = plan->hash};
    TRY(check_other(source->path, out));
    TRY(fs_make_folder(out));
    TRY(fs_check_writable(out));
    TRY(fs_join(index, out, SHARD_INDEX_NAME));
    TRY(fs_join(manifest, out, SHARD_MANIFEST_NAME));
    TRY(check_ours(index, "dptrain index "));
    TRY(check_ours(manifest, "{\"format\":\"dptrain shards\""));
    TRY(scan(out, false, &finds));
    if (!finds.stranger[0] && is_strange(index, "index", plan->hash)) /* its shards may be gone */
        snprintf(finds.stranger, sizeof finds.stranger, "%s", SHARD_INDEX_NAME);
    if (finds.stranger[0] && !options->force)
        RAISE(ERR_USAGE,
              "%s holds another packing (%s: other data, --shard-size, --resize or --quality); give another "
              "folder, or --force, which deletes it",
              out, finds.stranger);
    if (!options->force) return ERR_OK;
    /* The manifest goes first: what has one is whole. */
    TRY(remove_file(manifest));
    TRY(remove_file(index));
    TRY(scan(out, true, &finds));
    return fs_sync(out);
}
