/* SPDX-License-Identifier: MIT */
/* `dptrain data pack`: each rank writes its own shards, and rank 0 gathers the index. The plan divides the source's
 * samples into shards by size, and hashes everything that determines their content. The target folder is checked and
 * cleaned before anything is written: the source itself, foreign files and the shards of another run are refused.
 * data/shard defines the file format. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cluster/comm/comm.h"
#include "data/shard/shard.h"
#include "data/shard/writer.h"
#include "data/source/source.h"
#include "store/h5/seal.h"
#include "tools/pack/pack.h"
#include "tools/pack/parts.h"

/* ---- The plan ---- */
typedef struct pack_plan {
    int64_t n_shards, n_bytes; /* of both splits; n_bytes: of the source's images */
    shard_plan_t *shards;      /* [n_shards]: training first; folder is borrowed from the options */
    int64_t *shard_bytes;      /* [n_shards]: of their source images */
    uint64_t hash;             /* of the source's hash and sizes and the options that affect the shards */
    uint64_t data_hash;        /* of the packed samples */
} pack_plan_t;

/* Counts the samples from `first` on that fill one shard; returns their bytes. */
static int64_t plan_shard(const source_t *source, split_t split, int64_t first, int64_t shard_bytes,
                          int64_t *n)
{
    const source_entry_t *entries = source->entries[split];
    int64_t end = source->n_samples[split], at = first, sum = 0;
    while (at < end && (at == first || sum + entries[at].n_bytes <= shard_bytes))
        sum += entries[at++].n_bytes;
    *n = at - first;
    return sum;
}

static err_t hash_plan(const source_t *source, const pack_options_t *options, uint64_t *out)
{
    const int64_t numbers[] = {SHARD_SCHEMA,
                               (int64_t)source->hash,
                               options->shard_bytes,
                               options->resize,
                               options->resize ? options->quality : 0,
                               source->n_samples[SPLIT_TRAIN],
                               source->n_samples[SPLIT_VAL]};
    XXH3_state_t *state = XXH3_createState();
    if (!state) RAISE(ERR_SYSTEM, "out of memory for the plan's hash");
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, numbers, sizeof numbers);
    for (int split = 0; split < SPLIT_COUNT; split++)
        for (int64_t i = 0; i < source->n_samples[split]; i++)
            XXH3_64bits_update(state, &source->entries[split][i].n_bytes, sizeof(int64_t));
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    *out = hash ? hash : 1;
    return ERR_OK;
}

/* ERR_DATA: the source is empty. */
static err_t pack_plan_make(const source_t *source, const pack_options_t *options, pack_plan_t *out)
{
    const uint64_t of_data[] = {source->hash, (uint64_t)options->resize, (uint64_t)options->quality};
    int64_t n_shards[SPLIT_COUNT] = {0}, k = 0, n;
    *out = (pack_plan_t){0};
    for (int s = 0; s < SPLIT_COUNT; s++) {
        for (int64_t first = 0; first < source->n_samples[s]; first += n, n_shards[s]++)
            plan_shard(source, (split_t)s, first, options->shard_bytes, &n);
        out->n_shards += n_shards[s];
    }
    if (out->n_shards == 0) RAISE(ERR_DATA, "%s has no samples to pack", source->path);
    if (out->n_shards > INT32_MAX)
        RAISE(ERR_USAGE, "--shard-size %lld is too small: it would yield more than %d shards",
              (long long)options->shard_bytes, INT32_MAX);
    TRY(hash_plan(source, options, &out->hash));
    out->data_hash = options->resize ? XXH3_64bits(of_data, sizeof of_data) : source->hash;
    TRY(mem_new_array(out->n_shards, sizeof *out->shards, "a plan of shards", &out->shards));
    TRY(mem_new_array(out->n_shards, sizeof *out->shard_bytes, "a plan of shards", &out->shard_bytes));
    for (int s = 0; s < SPLIT_COUNT; s++) {
        int64_t first = 0;
        for (int64_t number = 0; number < n_shards[s]; number++, k++) {
            shard_plan_t *shard = &out->shards[k];
            *shard = (shard_plan_t){.folder = options->out,
                                    .split = (split_t)s,
                                    .number = number,
                                    .n_shards = n_shards[s],
                                    .first = first,
                                    .n_categories = source->n_categories,
                                    .plan = out->hash};
            out->shard_bytes[k] =
                plan_shard(source, (split_t)s, first, options->shard_bytes, &shard->n_samples);
            out->n_bytes += out->shard_bytes[k];
            first += shard->n_samples;
        }
    }
    return ERR_OK;
}

static void pack_plan_free(pack_plan_t *plan)
{
    mem_free(&plan->shards);
    mem_free(&plan->shard_bytes);
}

/* ---- The target folder ---- */
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

/* The part of prepare that needs no plan. */
static err_t prepare_folder(const source_t *source, const pack_options_t *options)
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

/* Prepares the target folder: creates it, removes leftover temporary files and, with `force`, the shards of another
 * plan than that with this hash. One rank calls it, before any rank writes. ERR_USAGE: the folder is the source's, or
 * holds foreign files or (without `force`) another plan's shards. ERR_SYSTEM: it is not writable. */
static err_t prepare(const source_t *source, const pack_options_t *options, uint64_t plan)
{
    const char *out = options->out;
    char index[FS_PATH_MAX], manifest[FS_PATH_MAX];
    finds_t finds = {.plan = plan};
    TRY(prepare_folder(source, options));
    TRY(fs_join(index, out, SHARD_INDEX_NAME));
    TRY(fs_join(manifest, out, SHARD_MANIFEST_NAME));
    TRY(scan_folder(out, false, &finds));
    if (!finds.stranger[0] && is_strange(index, "index", plan)) /* its shards may be gone */
        snprintf(finds.stranger, sizeof finds.stranger, "%s", SHARD_INDEX_NAME);
    if (finds.stranger[0] && !options->force)
        RAISE(
            ERR_USAGE,
            "%s holds shards of other data, --shard-size, --resize or --quality, or of another version of dptrain "
            "(%s); choose another folder, or delete them with --force",
            out, finds.stranger);
    if (!options->force) return ERR_OK;
    /* The manifest goes first, because it marks a folder as complete. */
    TRY(remove_file(manifest));
    TRY(remove_file(index));
    TRY(scan_folder(out, true, &finds));
    return fs_sync(out);
}

/* ---- The file that an interrupt removes ---- */
/* The file, and the thread that makes it. The handler makes only async-signal-safe calls. It runs on that thread, which
 * would otherwise begin the next file between the removal and the end of the process; packing multiplies no matrices
 * (base/process.h). */
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

/* ---- A source without its unusable images ---- */
typedef struct leave_out {
    const source_t *of;
    source_ops_t ops;
    int64_t *numbers[SPLIT_COUNT]; /* in `of` */
} leave_out_t;

static void close_rest(source_t *source)
{
    leave_out_t *l = source->impl;
    if (!l) return;
    for (int s = 0; s < SPLIT_COUNT; s++) mem_free(&l->numbers[s]);
    mem_free(&source->impl);
}

static err_t read_rest(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                       sample_t *out)
{
    const leave_out_t *l = source->impl;
    return source_read(l->of, split, l->numbers[split][index], buffer, out);
}

static err_t describe_rest(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                           sample_t *out)
{
    const leave_out_t *l = source->impl;
    return source_describe(l->of, split, l->numbers[split][index], buffer, out);
}

static err_t number_rest(source_t *source, const int64_t *samples, int64_t n)
{
    leave_out_t *l = source->impl;
    int64_t at = 0, next = 0; /* sample over both splits; the next to leave out */
    for (int s = 0; s < SPLIT_COUNT; s++) {
        source_entry_t *entries;
        TRY(mem_new_array(l->of->n_samples[s], sizeof *entries, "a list of samples", &entries));
        source->entries[s] = entries;
        TRY(mem_new_array(l->of->n_samples[s], sizeof *l->numbers[s], "a list of samples", &l->numbers[s]));
        source->n_samples[s] = 0;
        for (int64_t i = 0; i < l->of->n_samples[s]; i++, at++) {
            if (next < n && samples[next] == at) {
                next++;
                continue;
            }
            int64_t k = source->n_samples[s]++;
            entries[k] = l->of->entries[s][i];
            l->numbers[s][k] = i;
        }
    }
    source->hash = XXH3_64bits_withSeed(samples, (size_t)n * sizeof *samples, l->of->hash);
    return ERR_OK;
}

/* Opens a source with the samples of another, except some. Not collective; the same on all ranks.
 *
 *   of       must outlive *out
 *   samples  [n], numbers over both splits, ascending
 *   out      close with source_close */
static err_t leave_out_open(const source_t *of, const int64_t *samples, int64_t n, source_t **out)
{
    leave_out_t *l;
    source_t *source;
    TRY(mem_new(sizeof *source, "a source", &source));
    *source = *of;
    source->impl = source->block = NULL;
    source->arena = (arena_t){0};
    for (int s = 0; s < SPLIT_COUNT; s++) source->entries[s] = NULL, source->samples[s] = NULL;
    err_t err;
    TRY_OUT(err, mem_new(sizeof *l, "a source", &l));
    *l = (leave_out_t){.of = of, .ops = *of->ops};
    l->ops.close = close_rest;
    l->ops.read = read_rest;
    l->ops.describe = describe_rest;
    source->ops = &l->ops;
    source->impl = l;
    TRY_OUT(err, number_rest(source, samples, n));
    *out = source;
    return ERR_OK;
out:
    source_close(&source);
    return err;
}

/* ---- Packing ---- */
/* A shard's part of the index. */
typedef struct done {
    shard_file_t file;
    shard_entry_t *entries; /* [file.n_samples]; NULL for shards of other ranks */
} done_t;

typedef struct packer {
    comm_t *comm;
    const source_t *source;
    const pack_options_t *options;
    pack_plan_t plan;
    done_t *done; /* [plan.n_shards] */
    pack_resizer_t *resizer;
    source_buffer_t buffer;
    int64_t now, at, n_kept; /* current shard, its next sample; shards kept */
    shard_writer_t *writer;  /* of the current shard; NULL: not begun */
} packer_t;

/* Verifies that all hosts share the folder: rank 0 briefly creates a file that every rank must see. Its name
 * is new, so that no mount's cache can answer, and looks like a writer's leftover, so that an interrupted run
 * is cleaned up. Collective. */
static err_t compare_folders(comm_t *comm, const char *folder)
{
    static const char what[] = "comparing the folders of the shards";
    char path[FS_PATH_MAX], name[64];
    int64_t id = (int64_t)(1e6 * clock_unix_sec());
    if (comm->size == 1) return ERR_OK;
    TRY(comm_broadcast(comm, &id, sizeof id, 0, what));
    snprintf(name, sizeof name, "." SHARD_INDEX_NAME ".tmp-%" PRId64, id);
    err_t err = fs_join(path, folder, name);
    if (err == ERR_OK && comm->rank == 0) {
        interrupt_removes(path);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            close(fd);
        } else {
            interrupt_removes(NULL);
            err = err_raise(ERR_SYSTEM, __FILE__, __LINE__, "cannot create %s: %s", path, strerror(errno));
        }
    }
    TRY(comm_agree(comm, err, what));
    if (!fs_exists(path))
        err = err_raise(
            ERR_USAGE, __FILE__, __LINE__,
            "the folder %s on this host is not rank 0's; choose one that all hosts share, or pack on "
            "one host",
            folder);
    err = comm_agree(comm, err, what);
    if (comm->rank == 0) {
        unlink(path);
        interrupt_removes(NULL);
    }
    return err;
}

/* Keeps the current shard if an earlier run completed it. A damaged one is written again. */
static err_t keep_shard(packer_t *p, bool *kept)
{
    const shard_plan_t *plan = &p->plan.shards[p->now];
    done_t *done = &p->done[p->now];
    *kept = false;
    if (!shard_is_done(plan)) return ERR_OK;
    TRY(mem_new_array(plan->n_samples, sizeof *done->entries, "the records of a shard", &done->entries));
    err_t err = shard_load(plan, &done->file, done->entries);
    *kept = err == ERR_OK;
    p->n_kept += *kept;
    if (err != ERR_DATA) return err;
    mem_free(&done->entries);
    log_warn("rewriting a shard: %s", err_message());
    return ERR_OK;
}

static err_t end_shard(packer_t *p)
{
    done_t *done = &p->done[p->now];
    TRY(shard_commit(p->writer));
    interrupt_removes(NULL);
    done->file = *shard_written_file(p->writer);
    int64_t n = done->file.n_samples;
    TRY(mem_new_array(n, sizeof *done->entries, "the records of a shard", &done->entries));
    memcpy(done->entries, shard_written_entries(p->writer), (size_t)n * sizeof *done->entries);
    shard_discard(&p->writer);
    p->now += p->comm->size;
    return ERR_OK;
}

/* The last sample of a shard ends it. */
static err_t add_sample(packer_t *p, int64_t *n_done)
{
    const shard_plan_t *plan = &p->plan.shards[p->now];
    split_t split = plan->split;
    int64_t number = plan->first + p->at;
    sample_t sample, small;
    TRY(source_read(p->source, split, number, &p->buffer, &sample));
    if (p->resizer) TRY(pack_resize(p->resizer, &sample, &small));
    TRY(shard_add(p->writer, p->resizer ? &small : &sample));
    *n_done = p->source->entries[split][number].n_bytes;
    p->at++;
    return p->at == plan->n_samples ? end_shard(p) : ERR_OK;
}

/* pack_work_t's step: keeps a whole shard, or packs one sample. */
static err_t pack_step(void *context, int64_t *n_done, bool *finished)
{
    packer_t *p = context;
    bool kept = false;
    *finished = p->now >= p->plan.n_shards;
    if (*finished) return ERR_OK;
    if (p->writer) return add_sample(p, n_done);
    TRY(keep_shard(p, &kept));
    if (!kept) {
        char temp[FS_PATH_MAX];
        TRY(shard_temp_path(&p->plan.shards[p->now], temp));
        interrupt_removes(temp);
        TRY(shard_create(&p->plan.shards[p->now], &p->writer));
        p->at = 0;
        return ERR_OK;
    }
    *n_done = p->plan.shard_bytes[p->now];
    p->now += p->comm->size;
    return ERR_OK;
}

/* ---- The index ---- */
/* An index with its head and categories. */
static err_t new_index(const packer_t *p, shard_index_t **out)
{
    const source_t *source = p->source;
    const pack_options_t *options = p->options;
    const pack_plan_t *plan = &p->plan;
    shard_head_t head = {.n_categories = source->n_categories,
                         .has_annotations = source->has_annotations,
                         .shard_bytes = options->shard_bytes,
                         .resize = options->resize,
                         .quality = options->resize ? options->quality : 0,
                         .plan = plan->hash,
                         .data_hash = plan->data_hash};
    for (int64_t k = 0; k < plan->n_shards; k++) head.n_shards[plan->shards[k].split]++;
    for (int s = 0; s < SPLIT_COUNT; s++) head.n_samples[s] = source->n_samples[s];
    for (int32_t c = 0; c < source->n_categories; c++)
        if (strlen(source->categories[c].name) >= SHARD_TEXT_MAX ||
            strlen(source->categories[c].supergroup) >= SHARD_TEXT_MAX)
            RAISE(ERR_DATA, "the category %.60s… has a name or supercategory longer than %d bytes",
                  source->categories[c].name, SHARD_TEXT_MAX - 1);
    snprintf(head.source_kind, sizeof head.source_kind, "%s", source->ops->kind);
    snprintf(head.source_path, sizeof head.source_path, "%s", source->path);
    TRY(shard_index_new(&head, out));
    for (int32_t c = 0; c < source->n_categories; c++) {
        const category_t *from = &source->categories[c];
        shard_category_t *to = &(*out)->categories[c];
        to->id = from->id;
        snprintf(to->name, sizeof to->name, "%s", from->name);
        snprintf(to->supergroup, sizeof to->supergroup, "%s", from->supergroup);
    }
    return ERR_OK;
}

static err_t write_index(const shard_index_t *index, const char *folder)
{
    seal_t seal;
    TRY(shard_index_check(index, folder));
    TRY(shard_index_write(index, folder, &seal));
    return shard_manifest_write(index, &seal, folder);
}

/* Collective. */
static err_t gather_index(packer_t *p)
{
    shard_index_t *index = NULL;
    shard_entry_t *scratch = NULL;
    int64_t most = 0;
    for (int64_t k = 0; k < p->plan.n_shards; k++)
        if (p->plan.shards[k].n_samples > most) most = p->plan.shards[k].n_samples;
    err_t err = p->comm->rank == 0 ? new_index(p, &index)
                                   : mem_new_array(most, sizeof *scratch, "the records of a shard", &scratch);
    TRY_OUT(err, comm_agree(p->comm, err, "gathering the index"));
    for (int64_t k = 0; k < p->plan.n_shards; k++) {
        /* Rank 0 stores a shard's entries in the index; other ranks receive them in `scratch`. */
        const shard_plan_t *plan = &p->plan.shards[k];
        int owner = (int)(k % p->comm->size);
        shard_file_t *file = index ? &index->files[plan->split][plan->number] : &p->done[k].file;
        shard_entry_t *entries = index ? &index->entries[plan->split][plan->first] : scratch;
        int64_t n_bytes = plan->n_samples * (int64_t)sizeof *entries;
        if (owner == p->comm->rank) {
            *file = p->done[k].file;
            memcpy(entries, p->done[k].entries, (size_t)n_bytes);
        }
        TRY_OUT(err, comm_broadcast(p->comm, file, sizeof *file, owner, "gathering the index"));
        TRY_OUT(err, comm_broadcast(p->comm, entries, n_bytes, owner, "gathering the index"));
    }
    err = comm_agree(p->comm, index ? write_index(index, p->options->out) : ERR_OK, "writing the index");
out:
    shard_index_free(&index);
    mem_free(&scratch);
    return err;
}

/* ---- The whole ---- */
static void warn_bad(void *context, const char *what)
{
    (void)context;
    log_warn("%s", what);
}

/* Decodes every image. Sets *rest to the source without the unusable ones, NULL if there are none.
 * Collective. */
static err_t find_bad(comm_t *comm, const source_t *source, const pack_options_t *options, source_t **rest)
{
    findings_t findings = {NULL};
    int64_t *samples = NULL, n_bad;
    scan_options_t scan = {.label = "decoding",
                           .source = source,
                           .path = source->path,
                           .n_samples = source->n_samples,
                           .decode = true,
                           .n_threads = options->n_threads};
    err_t err;
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0; i < source->n_samples[s]; i++) scan.n_bytes += source->entries[s][i].n_bytes;
    TRY_OUT(err, scan_run(comm, &scan, &findings));
    TRY_OUT(err, findings_tell(comm, &findings, warn_bad, NULL, &n_bad));
    if (n_bad > options->max_bad)
        err = err_raise(
            ERR_DATA, __FILE__, __LINE__,
            "%s: %lld image%s cannot be used, see above; repair or remove them, leave them out with "
            "--max-bad %lld, or pack them unchecked with --no-decode",
            source->path, (long long)n_bad, n_bad == 1 ? "" : "s", (long long)n_bad);
    TRY_OUT(err, comm_agree(comm, err, "the verdict"));
    if (n_bad == 0) goto out;
    TRY_OUT(err, findings_samples(comm, &findings, &samples, &n_bad));
    err = comm_agree(comm, leave_out_open(source, samples, n_bad, rest), "leaving out images");
out:
    findings_free(&findings);
    mem_free(&samples);
    return err;
}

static int64_t count_samples(const source_t *source)
{
    return source->n_samples[SPLIT_TRAIN] + source->n_samples[SPLIT_VAL];
}

static err_t pack_all(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out)
{
    static const char comparing[] = "comparing the data to pack";
    packer_t p = {.comm = comm, .source = source, .options = options, .now = comm->rank};
    err_t err;
    TRY_OUT(err, comm_agree(comm, pack_plan_make(source, options, &p.plan), "planning the shards"));
    uint64_t first = p.plan.hash;
    TRY_OUT(err, comm_broadcast(comm, &first, sizeof first, 0, comparing));
    if (first != p.plan.hash)
        err = err_raise(ERR_DATA, __FILE__, __LINE__, "%s on this host differs from rank 0's", source->path);
    TRY_OUT(err, comm_agree(comm, err, comparing));
    err = comm->rank == 0 ? prepare(source, options, p.plan.hash) : ERR_OK;
    TRY_OUT(err, comm_agree(comm, err, "preparing the folder"));
    err = mem_new_array(p.plan.n_shards, sizeof *p.done, "packed shards", &p.done);
    if (err == ERR_OK && options->resize > 0)
        err = pack_resizer_new(options->resize, options->quality, &p.resizer);
    TRY_OUT(err, comm_agree(comm, err, "start-up"));
    const pack_work_t work = {"packing", p.plan.n_bytes, &p, pack_step};
    TRY_OUT(err, pack_work_run(comm, &work));
    int64_t sums[3] = {p.n_kept, 0, 0}; /* of this rank, then of all */
    for (int64_t k = comm->rank; k < p.plan.n_shards; k += comm->size) {
        sums[1] += p.done[k].file.n_bytes;
        for (int64_t i = 0; i < p.done[k].file.n_samples; i++) sums[2] += p.done[k].entries[i].n_bytes;
    }
    TRY_OUT(err, comm_allreduce(comm, sums, 3, DTYPE_I64, COMM_SUM, "summing up the packed shards"));
    *out = (pack_result_t){
        .n_image_bytes = sums[2], .n_shards = p.plan.n_shards, .n_kept = sums[0], .n_bytes = sums[1]};
    out->n_samples = count_samples(source);
    err = gather_index(&p);
out:
    shard_discard(&p.writer);
    interrupt_removes(NULL);
    for (int64_t k = 0; p.done && k < p.plan.n_shards; k++) mem_free(&p.done[k].entries);
    mem_free(&p.done);
    pack_resizer_free(&p.resizer);
    source_free_buffer(source, &p.buffer);
    pack_plan_free(&p.plan);
    return err;
}

err_t pack_run(comm_t *comm, const source_t *source, const pack_options_t *options, pack_result_t *out)
{
    source_t *rest = NULL;
    int n_line;
    for (const char *next = source->about, *line; (line = print_next_line(&next, &n_line));)
        log_info("packing %s: %.*s", source->path, n_line, line);
    source_warn_notes(source);
    err_t err = ERR_OK;
    if (comm->rank == 0) {
        /* Refuses a folder before the images are decoded, where it is known what will be packed. */
        pack_plan_t plan = {0};
        err = prepare_folder(source, options);
        const bool known = options->max_bad <= 0 && !options->force;
        if (err == ERR_OK && known) err = pack_plan_make(source, options, &plan);
        if (err == ERR_OK && known) err = prepare(source, options, plan.hash);
        pack_plan_free(&plan);
    }
    TRY(comm_agree(comm, err, "preparing the folder"));
    TRY(compare_folders(comm, options->out));
    if (options->decode && scan_can_decode(source)) TRY(find_bad(comm, source, options, &rest));
    err = pack_all(comm, rest ? rest : source, options, out);
    if (rest) out->n_left_out = count_samples(source) - count_samples(rest);
    source_close(&rest);
    return err;
}
