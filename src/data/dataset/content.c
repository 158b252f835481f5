/* SPDX-License-Identifier: MIT */
/* Hashes of image files in memory, and what is said when one has changed; reads and writes files of hashes, and bounds
 * their number in the user's cache folder. */
#include "data/dataset/content.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

err_t content_new(const int64_t n[SPLIT_COUNT], content_t **out)
{
    content_t *content = NULL;
    err_t err = ERR_OK;
    TRY(mem_new(sizeof *content, "hashes of files", &content));
    content->who = 1;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        content->n[split] = n[split];
        TRY_OUT(err, mem_new_array(n[split], sizeof **content->entries, "hashes of files",
                                   &content->entries[split]));
    }
    *out = content;
    return ERR_OK;
out:
    content_free(&content);
    return err;
}

void content_free(content_t **in_out)
{
    content_t *content = *in_out;
    if (!content) return;
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        mem_free(&content->entries[split]);
        mem_free(&content->names[split]);
        mem_free(&content->times[split]);
    }
    mem_free(&content->hosts);
    mem_free(in_out);
}

err_t content_new_names(content_t *content)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++) {
        TRY(mem_new_array(content->n[split], sizeof **content->names, "names of files",
                          &content->names[split]));
        TRY(mem_new_array(content->n[split], sizeof **content->times, "times of files",
                          &content->times[split]));
    }
    return ERR_OK;
}

uint64_t content_name(split_t split, const char *name, int64_t n_bytes)
{
    return XXH3_64bits_withSeed(name, strlen(name), (uint64_t)n_bytes * SPLIT_COUNT + split);
}

bool content_learn(content_t *content, split_t split, int64_t index, content_entry_t entry)
{
    content_entry_t none = 0;
    return atomic_compare_exchange_strong(&content->entries[split][index], &none, entry);
}

/* Counts the entry as new. */
static void content_add(content_t *content, split_t split, int64_t index, content_entry_t entry)
{
    if (content_learn(content, split, index, entry))
        atomic_fetch_add_explicit(&content->n_new, 1, memory_order_relaxed);
}

static const char *host_name(const content_t *content, int who)
{
    return content->hosts && who <= content->n_hosts ? content->hosts[who - 1] : "another host";
}

err_t content_raise(const content_t *content, split_t split, int64_t index, content_entry_t mine,
                    content_entry_t other)
{
    const int reader = content_who(mine), earlier = content_who(other);
    char name[CONTENT_NAME_MAX];
    content->name_of(content->context, split, index, name);
    if (earlier == CONTENT_CACHE)
        RAISE(
            ERR_DATA,
            "%s has changed, but neither its size nor its time: it is damaged, or another file was moved here. "
            "Restore it; if the change is right, touch the file, or remove dptrain/content-*.xxh3 from the "
            "cache folder",
            name);
    if (earlier == CONTENT_RUN)
        RAISE(
            ERR_DATA,
            "%s has changed since the resumed run read it; restore it, or start a new run with --resume none",
            name);
    if (earlier == reader)
        RAISE(ERR_DATA, "%s has changed since this run read it; restore it, and resume", name);
    RAISE(ERR_DATA, "%s differs between host %s and host %s; copy the same files to every host", name,
          host_name(content, reader), host_name(content, earlier));
}

err_t content_note(content_t *content, split_t split, int64_t index, const void *bytes, size_t n_bytes)
{
    const uint64_t hash = XXH3_64bits(bytes, n_bytes) >> 16;
    const content_entry_t mine =
        (content_entry_t)((hash ? hash : 1) << CONTENT_WHO_BITS | (uint64_t)content->who);
    const content_entry_t known = content_get(content, split, index);
    const bool differs = known && content_hash(known) != content_hash(mine);
    if (differs && !content->counts_changed) return content_raise(content, split, index, mine, known);
    if (differs && atomic_fetch_add(&content->n_changed, 1) == 0)
        atomic_store(&content->first_changed, index + (split == SPLIT_VAL ? content->n[SPLIT_TRAIN] : 0));
    if (!known)
        content_add(content, split, index, mine);
    else if (differs || content_who(known) >= CONTENT_RUN) /* from now on it is this process's reading */
        atomic_store_explicit(&content->entries[split][index], mine, memory_order_relaxed);
    return ERR_OK;
}

typedef struct head {
    char magic[24];
    int64_t n;
    uint64_t hash; /* of the pairs */
} head_t;

typedef struct pair {
    uint64_t file, hash;
} pair_t;

typedef struct pairs {
    int64_t n, next; /* next: where the following file is expected */
    pair_t *at;
    bool sorted;
} pairs_t;

static const char magic[24] = "dptrain content 1\n";
static const char cache_prefix[] = "content-", cache_suffix[] = ".xxh3";

err_t content_cache_path(const char *where, char out[FS_PATH_MAX])
{
    char name[64], *real = realpath(where, NULL);
    const char *path = real ? real : where;
    snprintf(name, sizeof name, "%s%016" PRIx64 "%s", cache_prefix, (uint64_t)XXH3_64bits(path, strlen(path)),
             cache_suffix);
    free(real);
    return fs_cache_path(out, name);
}

static uint64_t identity(const content_t *content, split_t split, int64_t index, int who)
{
    const uint64_t parts[] = {content->names[split][index], (uint64_t)content->times[split][index]};
    return who == CONTENT_CACHE ? XXH3_64bits(parts, sizeof parts) : parts[0];
}

static err_t content_read_pairs(int fd, const char *path, pairs_t *out)
{
    struct stat info;
    head_t head;
    if (fstat(fd, &info) != 0) RAISE(ERR_SYSTEM, "cannot read %s: %s", path, strerror(errno));
    if (!S_ISREG(info.st_mode)) RAISE(ERR_DATA, "%s is not a regular file", path);
    int reason = fs_read_all(fd, FS_HERE, &head, sizeof head, NULL);
    const int64_t n_bytes = info.st_size - (int64_t)sizeof head;
    if (reason || memcmp(head.magic, magic, sizeof magic) != 0 || head.n < 0 || head.n > CONTENT_MAX_FILES ||
        n_bytes != head.n * (int64_t)sizeof(pair_t))
        RAISE(ERR_DATA, "%s is not a file of hashes", path);
    TRY(mem_new_array(head.n, sizeof(pair_t), "hashes of files", &out->at));
    reason = fs_read_all(fd, FS_HERE, out->at, (size_t)n_bytes, NULL);
    if (reason) RAISE(ERR_SYSTEM, "cannot read %s: %s", path, strerror(reason));
    if (XXH3_64bits(out->at, (size_t)n_bytes) != head.hash) RAISE(ERR_DATA, "%s is damaged", path);
    out->n = head.n;
    return ERR_OK;
}

/* A missing file has no pairs. Non-blocking, so that a FIFO does not hang. */
static err_t content_load(const char *path, pairs_t *out)
{
    *out = (pairs_t){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return ERR_OK;
    if (fd < 0) RAISE(ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    err_t err = content_read_pairs(fd, path, out);
    close(fd);
    if (err == ERR_OK) return ERR_OK;
    mem_free(&out->at);
    log_warn("hashes of files are ignored: %s", err_message());
    return ERR_OK;
}

static int compare_pairs(const void *a, const void *b)
{
    const uint64_t x = ((const pair_t *)a)->file, y = ((const pair_t *)b)->file;
    return (x > y) - (x < y);
}

/* Usually the file lists what the folder holds, in the same order. */
static const pair_t *find_pair(pairs_t *pairs, uint64_t file)
{
    const pair_t key = {file, 0};
    if (pairs->n == 0) return NULL;
    if (!pairs->sorted) {
        if (pairs->next < pairs->n && pairs->at[pairs->next].file == file) return &pairs->at[pairs->next++];
        qsort(pairs->at, (size_t)pairs->n, sizeof *pairs->at, compare_pairs);
        pairs->sorted = true;
    }
    return bsearch(&key, pairs->at, (size_t)pairs->n, sizeof *pairs->at, compare_pairs);
}

/* `compared`: a hash that differs from a known one is an error. */
static err_t content_take(content_t *content, pairs_t *pairs, int who, bool compared)
{
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < content->n[split]; i++) {
            const pair_t *pair = find_pair(pairs, identity(content, split, i, who));
            const content_entry_t known = content_get(content, split, i);
            if (!pair || pair->hash == 0 || pair->hash >> (64 - CONTENT_WHO_BITS - 1)) continue;
            const content_entry_t found = (content_entry_t)(pair->hash << CONTENT_WHO_BITS | (uint64_t)who);
            if (!known)
                content_add(content, split, i, found);
            else if (compared && content_hash(known) != pair->hash)
                return content_raise(content, split, i, known, found);
        }
    return ERR_OK;
}

err_t content_file_read(content_t *content, const char *path, int who)
{
    pairs_t pairs;
    TRY(content_load(path, &pairs));
    err_t err = content_take(content, &pairs, who, true);
    mem_free(&pairs.at);
    return err;
}

/* What another process read is not known to belong to this time. */
static bool is_kept(content_entry_t entry, int who)
{
    return entry && (who == CONTENT_RUN || content_who(entry) != CONTENT_RUN);
}

/* Each write adds at most one file, so removing one is enough. */
static void remove_oldest(const char *folder)
{
    char path[FS_PATH_MAX], oldest[FS_PATH_MAX] = "";
    time_t oldest_time = 0;
    int n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        struct stat info;
        if (strncmp(entry->d_name, cache_prefix, sizeof cache_prefix - 1) != 0 ||
            !fs_has_suffix(entry->d_name, cache_suffix) || fs_join(path, folder, entry->d_name) != ERR_OK ||
            stat(path, &info) != 0)
            continue;
        n++;
        if (oldest[0] && info.st_mtime >= oldest_time) continue;
        oldest_time = info.st_mtime;
        memcpy(oldest, path, sizeof oldest);
    }
    if (dir) closedir(dir);
    if (n > CONTENT_MAX_CACHES) unlink(oldest);
}

err_t content_file_write(content_t *content, const char *path, int who)
{
    head_t head = {.n = 0};
    int64_t n = 0;
    pair_t *pairs = NULL;
    pairs_t others = {0};
    fs_temp_t temp = {.fd = -1};
    char folder[FS_PATH_MAX], name[FS_PATH_MAX];
    err_t err = ERR_OK;
    if (content->n[SPLIT_TRAIN] + content->n[SPLIT_VAL] > CONTENT_MAX_FILES) return ERR_OK;
    memcpy(head.magic, magic, sizeof magic);
    TRY(fs_temp_path(path, folder, name));
    TRY(fs_make_folder(folder));
    if (who == CONTENT_CACHE) TRY_OUT(err, content_load(path, &others));
    TRY_OUT(err, content_take(content, &others, who, false));
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < content->n[split]; i++) n += is_kept(content_get(content, split, i), who);
    TRY_OUT(err, mem_new_array(n, sizeof *pairs, "hashes of files", &pairs));
    for (split_t split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < content->n[split]; i++) {
            const content_entry_t entry = content_get(content, split, i);
            if (is_kept(entry, who) && head.n < n) /* loader threads may add some meanwhile */
                pairs[head.n++] = (pair_t){identity(content, split, i, who), content_hash(entry)};
        }
    head.hash = XXH3_64bits(pairs, (size_t)head.n * sizeof *pairs);
    TRY_OUT(err, fs_temp_open(&temp, "file", path));
    TRY_OUT(err, fs_temp_write(&temp, 0, &head, sizeof head));
    TRY_OUT(err, fs_temp_write(&temp, sizeof head, pairs, (size_t)head.n * sizeof *pairs));
    TRY_OUT(err, fs_temp_commit(&temp));
    if (who == CONTENT_CACHE) remove_oldest(folder);
out:
    fs_temp_discard(&temp);
    mem_free(&others.at);
    mem_free(&pairs);
    return err;
}
