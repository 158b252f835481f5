/* SPDX-License-Identifier: MIT */
/* The target folder of a packing. Before anything is written it is checked and cleaned: the source itself, foreign files and the
 * shards of another run are refused. When a signal ends the process, its temporary file is removed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "store/h5/seal.h"
#include "tools/pack/parts.h"

/* realpath(3) of the part that exists; the rest unchanged. */
static bool resolve_path(const char *path, char out[FS_PATH_MAX])
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
    if (resolve_path(from, a) && resolve_path(to, b) && strcmp(a, b) == 0)
        RAISE(ERR_USAGE, "%s is the source itself; choose another folder for the shards", to);
    return ERR_OK;
}

err_t pack_check_apart(const char *from, const char *to)
{
    char classes[FS_PATH_MAX], a[FS_PATH_MAX], b[FS_PATH_MAX];
    TRY(check_other(from, to));
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        TRY(source_classes(from, split, classes));
        if (!classes[0] || !resolve_path(classes, a) || !resolve_path(to, b)) continue;
        const size_t n = strlen(a);
        if (strncmp(a, b, n) == 0 && (b[n] == '/' || b[n] == '\0'))
            RAISE(
                ERR_USAGE,
                "%s is in %s, where every folder is a class of images; choose another folder for the shards",
                to, classes);
    }
    return ERR_OK;
}

typedef struct finds {
    char stranger[SHARD_NAME_MAX]; /* the first file of another plan; "" if none */
    uint64_t plan;
} finds_t;

/* Refuses to replace a file that does not begin as ours do. */
static err_t check_ours(const char *path, const char *begin)
{
    char first[64] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    size_t n_read;
    int reason = fd < 0 ? errno : fs_read_all(fd, FS_HERE, first, strlen(begin), &n_read);
    if (fd >= 0) close(fd);
    if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", path, strerror(reason));
    if (strcmp(first, begin) != 0)
        RAISE(ERR_USAGE,
              "%s was not written by dptrain data pack and would be replaced; choose another folder", path);
    return ERR_OK;
}

/* True for the intact seal of another plan. A file without an intact seal is rewritten. */
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
        RAISE(ERR_SYSTEM, "cannot delete %s: %s", path, strerror(errno));
    return ERR_OK;
}

/* Removes temporary files; with `clear` also shards. Without it, notes the first shard of another plan. */
static err_t scan_folder(const char *folder, bool clear, finds_t *finds)
{
    DIR *dir = opendir(folder);
    char path[FS_PATH_MAX];
    err_t err = ERR_OK;
    if (!dir) RAISE(ERR_SYSTEM, "cannot read the folder %s: %s", folder, strerror(errno));
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

err_t pack_prepare_folder(const source_t *source, const pack_options_t *options)
{
    const char *out = options->out;
    char index[FS_PATH_MAX], manifest[FS_PATH_MAX];
    TRY(check_other(source->path, out));
    TRY(fs_make_folder(out));
    TRY(fs_check_writable(out));
    TRY(fs_join(index, out, SHARD_INDEX_NAME));
    TRY(fs_join(manifest, out, SHARD_MANIFEST_NAME));
    TRY(check_ours(index, "dptrain index "));
    return check_ours(manifest, "{\"format\":\"dptrain shards\"");
}

err_t pack_prepare(const source_t *source, const pack_options_t *options, uint64_t plan)
{
    const char *out = options->out;
    char index[FS_PATH_MAX], manifest[FS_PATH_MAX];
    finds_t finds = {.plan = plan};
    TRY(pack_prepare_folder(source, options));
    TRY(fs_join(index, out, SHARD_INDEX_NAME));
    TRY(fs_join(manifest, out, SHARD_MANIFEST_NAME));
    TRY(scan_folder(out, false, &finds));
    if (!finds.stranger[0] && is_strange(index, "index", plan)) /* its shards may be gone */
        snprintf(finds.stranger, sizeof finds.stranger, "%s", SHARD_INDEX_NAME);
    if (finds.stranger[0] && !options->force)
        RAISE(
            ERR_USAGE,
            "%s holds shards of other data, --shard-size, --resize or --quality (%s); choose another folder, "
            "or delete them with --force",
            out, finds.stranger);
    if (!options->force) return ERR_OK;
    /* The manifest goes first, because it marks a folder as complete. */
    TRY(remove_file(manifest));
    TRY(remove_file(index));
    TRY(scan_folder(out, true, &finds));
    return fs_sync(out);
}

/* The file of interrupt_removes, and the thread that makes it. The handler makes only async-signal-safe calls. It runs on that
 * thread, which would otherwise begin the next file between the removal and the end of the process; packing multiplies no
 * matrices (base/process.h). */
static char victim[FS_PATH_MAX];
static atomic_bool armed;
static pthread_t maker;

static void on_signal(int number)
{
    if (!pthread_equal(pthread_self(), maker)) { /* the thread of thread_receive_signals, or MPI's */
        pthread_kill(maker, number);
        return;
    }
    if (atomic_load(&armed)) unlink(victim);
    signal(number, SIG_DFL);
    raise(number); /* takes effect when this handler returns */
}

void interrupt_removes(const char *path)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    static bool caught;
    atomic_store(&armed, false);
    if (!path) return;
    snprintf(victim, sizeof victim, "%s", path);
    atomic_store(&armed, true);
    if (caught) return;
    caught = true;
    maker = pthread_self();
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigset_t mine;
    sigemptyset(&mine);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction before;
        /* Signals that the launcher or nohup ignores stay ignored. */
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(signals[i], &action, NULL);
        sigaddset(&mine, signals[i]);
    }
    pthread_sigmask(SIG_UNBLOCK, &mine, NULL);
}
