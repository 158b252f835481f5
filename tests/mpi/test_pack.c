/* SPDX-License-Identifier: MIT */
/* RUN np=1,2,3
 *
 * Packing over ranks: the same files on any number of them, what is there is kept, errors are everybody's,
 * nothing half done has a final name; verifying finds what was changed. */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "data/shard/shard.h"
#include "tests/mpi/everyone.h"
#include "tools/pack/pack.h"

enum { N_TRAIN = 40, N_VAL = 7, MAX_BYTES = 3000, N_FILES_MAX = 64 };

static void abort_job(err_t code)
{
    MPI_Abort(MPI_COMM_WORLD, (int)code);
}

/* ---- A source in memory ---- */
static source_entry_t entries[SPLIT_COUNT][N_TRAIN];
static const category_t categories[] = {{1, "cat", "animal"}, {5, "cup", ""}, {9, "größer", "x"}};
static int broken = -1; /* training sample that cannot be read */
static unsigned char noise[2 * MAX_BYTES];

static err_t fake_read(const source_t *source, split_t split, int64_t index, source_buffer_t *buffer,
                       sample_t *out)
{
    static const int32_t n_points[] = {3};
    static const float points[] = {1, 2, 3, 4, 5, 7.5f};
    static annotation_t annotation = {.id = 4,
                                      .category = 1,
                                      .area = 2,
                                      .box = {1, 2, 3, 4},
                                      .segmentation = SEGMENTATION_POLYGONS,
                                      .n_polygons = 1,
                                      .n_points = n_points,
                                      .points = points};
    static char name[64];
    (void)source, (void)buffer;
    if (split == SPLIT_TRAIN && index == broken) RAISE(ERR_DATA, "sample %d is missing", broken);
    snprintf(name, sizeof name, "%s/%d.jpg", split == SPLIT_TRAIN ? "train" : "val", (int)index);
    *out = (sample_t){.id = 100 + index,
                      .name = name,
                      .width = 10 + (int32_t)index,
                      .height = 20,
                      .label = index % 2 ? 1 : -1,
                      .bytes = noise + index,
                      .n_bytes = (size_t)entries[split][index].n_bytes,
                      .n_annotations = index % 3 == 0,
                      .annotations = &annotation};
    return ERR_OK;
}

static const source_ops_t fake_ops = {.kind = "fake", .what = "for tests", .read = fake_read};

static source_t fake_source(void)
{
    source_t source = {.ops = &fake_ops,
                       .path = "/nowhere/fake",
                       .n_samples = {N_TRAIN, N_VAL},
                       .entries = {entries[0], entries[1]},
                       .n_categories = 3,
                       .categories = categories,
                       .has_annotations = true,
                       .hash = 77};
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (unsigned char)(i * i * 7 >> 3);
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int i = 0; i < N_TRAIN; i++)
            entries[s][i] =
                (source_entry_t){1 + (i * 977 + s * 31) % MAX_BYTES, 10 + i, 20, i % 2 ? 1 : -1, 0};
    return source;
}

/* ---- Folders ---- */
static char base[FS_PATH_MAX], packed[FS_PATH_MAX], reference[FS_PATH_MAX];

/* Names in a folder, sorted; rank 0's affair. */
static int list(const char *folder, char names[N_FILES_MAX][SHARD_NAME_MAX])
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir)) && n < N_FILES_MAX;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            snprintf(names[n++], SHARD_NAME_MAX, "%.63s", entry->d_name);
    if (dir) closedir(dir);
    qsort(names, (size_t)n, SHARD_NAME_MAX, (int (*)(const void *, const void *))strcmp);
    return n;
}

static void join(char *out, const char *folder, const char *name)
{
    ASSERT(fs_join(out, folder, name) == ERR_OK);
}

static void clear(const char *folder)
{
    char names[N_FILES_MAX][SHARD_NAME_MAX], path[FS_PATH_MAX];
    int n = list(folder, names);
    for (int i = 0; i < n; i++) {
        join(path, folder, names[i]);
        unlink(path);
    }
}

static bool same_file(const char *name)
{
    char path[FS_PATH_MAX];
    static char a[1 << 20], b[1 << 20];
    join(path, packed, name);
    FILE *file = fopen(path, "rb");
    size_t n_a = file ? fread(a, 1, sizeof a, file) : 0;
    if (file) fclose(file);
    join(path, reference, name);
    file = fopen(path, "rb");
    size_t n_b = file ? fread(b, 1, sizeof b, file) : 0;
    if (file) fclose(file);
    bool same = n_a > 0 && n_a < sizeof a && n_a == n_b && memcmp(a, b, n_a) == 0;
    if (!same) printf("# %s: %zu and %zu bytes\n", name, n_a, n_b);
    return same;
}

/* Whether `packed` has the files of `reference`, and no others. */
static bool same_folders(void)
{
    char a[N_FILES_MAX][SHARD_NAME_MAX], b[N_FILES_MAX][SHARD_NAME_MAX];
    int n = list(packed, a), n_wanted = list(reference, b);
    bool same = n == n_wanted && n > 4;
    for (int i = 0; same && i < n; i++) same = strcmp(a[i], b[i]) == 0 && same_file(a[i]);
    if (!same) printf("# %d files, %d wanted\n", n, n_wanted);
    return same;
}

/* Which files have the inode and time that they had. */
typedef struct stamps {
    char names[N_FILES_MAX][SHARD_NAME_MAX];
    struct stat at[N_FILES_MAX];
    int n;
} stamps_t;

static void stamp(stamps_t *stamps)
{
    char path[FS_PATH_MAX];
    stamps->n = list(packed, stamps->names);
    for (int i = 0; i < stamps->n; i++) {
        join(path, packed, stamps->names[i]);
        ASSERT(stat(path, &stamps->at[i]) == 0);
    }
}

/* Shards that are not the files they were. */
static int count_new(const stamps_t *before)
{
    static stamps_t now;
    int n = 0;
    stamp(&now);
    for (int i = 0; i < now.n; i++) {
        if (!shard_is_name(now.names[i])) continue;
        bool found = false;
        for (int k = 0; k < before->n; k++)
            found |= strcmp(now.names[i], before->names[k]) == 0 &&
                     now.at[i].st_ino == before->at[k].st_ino &&
                     now.at[i].st_mtim.tv_nsec == before->at[k].st_mtim.tv_nsec;
        n += !found;
    }
    return n;
}

static void flip(const char *name, int64_t at)
{
    char path[FS_PATH_MAX];
    unsigned char byte;
    join(path, packed, name);
    int fd = open(path, O_RDWR);
    ASSERT(fd >= 0 && pread(fd, &byte, 1, at) == 1);
    byte ^= 4;
    ASSERT(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
}

/* ---- Checks ---- */
static source_t source;
static pack_options_t options = {.out = packed, .shard_bytes = 5000, .quality = 90};

/* The names of all are found out by rank 0. */
static void barrier(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static void test_same(comm_t *comm)
{
    pack_result_t result = {0}, alone = {0};
    OK_ALL(pack_run(comm, &source, &options, &result) == ERR_OK, "a packing");
    if (comm->rank == 0) {
        comm_t *one = NULL;
        pack_options_t there = options;
        there.out = reference;
        ASSERT(comm_alone(&one) == ERR_OK && pack_run(one, &source, &there, &alone) == ERR_OK);
        comm_close(&one);
    }
    OK_ALL(comm->rank != 0 || same_folders(), "the files are those that one rank alone makes, byte for byte");
    OK_ALL(result.n_samples == N_TRAIN + N_VAL && result.n_shards > 10 && result.n_kept == 0 &&
               (comm->rank != 0 || memcmp(&result, &alone, sizeof result) == 0),
           "every rank knows what was packed");
}

static void test_resume(comm_t *comm)
{
    static stamps_t before;
    pack_result_t result = {0};
    char path[FS_PATH_MAX], names[N_FILES_MAX][SHARD_NAME_MAX];
    if (comm->rank == 0) {
        stamp(&before);
        list(packed, names);
        join(path, packed, "train-00003-of-00012.h5");
        for (int i = 0; i < before.n; i++)
            if (strncmp(names[i], "train-00003-of-", 15) == 0) join(path, packed, names[i]);
        ASSERT(unlink(path) == 0);
        join(path, packed, ".train-00000-of-00002.h5.tmp-4711"); /* what a killed writer leaves */
        fclose(fopen(path, "w"));
    }
    barrier();
    bool fine = pack_run(comm, &source, &options, &result) == ERR_OK;
    OK_ALL(fine && result.n_kept == result.n_shards - 1,
           "a packing that lacks a shard writes that one alone");
    OK_ALL(comm->rank != 0 || (count_new(&before) == 1 && same_folders()),
           "and leaves the others as they are");
    barrier();
    if (comm->rank == 0) {
        stamp(&before);
        flip(before.names[5], 1000);
    }
    barrier();
    fine = pack_run(comm, &source, &options, &result) == ERR_OK;
    OK_ALL(fine && result.n_kept == result.n_shards - 1 &&
               (comm->rank != 0 || (count_new(&before) == 1 && same_folders())),
           "one that is damaged is written anew");
    barrier();
}

/* A sample that cannot be read. */
static void test_error(comm_t *comm)
{
    char names[N_FILES_MAX][SHARD_NAME_MAX];
    pack_result_t result;
    if (comm->rank == 0) clear(packed);
    barrier();
    broken = N_TRAIN - 2;
    err_t err = pack_run(comm, &source, &options, &result);
    OK_ALL(err == ERR_DATA && SAYS("sample 38 is missing"), "a sample that is missing is told on every rank");
    bool whole = true;
    if (comm->rank == 0) {
        int n = list(packed, names);
        for (int i = 0; i < n; i++) whole = whole && shard_is_name(names[i]);
        whole = whole && n > 0;
    }
    OK_ALL(whole, "whole shards stay, without an index, a manifest, or anything half done");
    broken = -1;
    bool fine = pack_run(comm, &source, &options, &result) == ERR_OK;
    OK_ALL(fine && (comm->rank != 0 || (result.n_kept > 0 && same_folders())),
           "with it there, packing goes on to the same end");
    barrier();
}

static void test_other_plan(comm_t *comm)
{
    pack_result_t result;
    char path[FS_PATH_MAX], names[N_FILES_MAX][SHARD_NAME_MAX];
    pack_options_t other = options;
    other.shard_bytes = 9000;
    err_t err = pack_run(comm, &source, &other, &result);
    OK_ALL(err == ERR_USAGE && SAYS(packed, "holds shards of other data", "--force"),
           "another packing is refused");
    OK_ALL(comm->rank != 0 || same_folders(), "and the folder stays as it was");
    barrier();
    other.force = true;
    bool fine = pack_run(comm, &source, &other, &result) == ERR_OK && result.n_kept == 0;
    OK_ALL(fine && (comm->rank != 0 || list(packed, names) == (int)result.n_shards + 2),
           "--force replaces it, with nothing left of it");
    barrier();
    if (comm->rank == 0) {
        clear(packed);
        join(path, packed, SHARD_MANIFEST_NAME);
        FILE *file = fopen(path, "w");
        fputs("{\"mine\": 1}", file);
        fclose(file);
    }
    barrier();
    err = pack_run(comm, &source, &other, &result);
    OK_ALL(err == ERR_USAGE && SAYS(SHARD_MANIFEST_NAME, "was not written by dptrain"),
           "a foreign manifest.json is not replaced, by no force");
    barrier();
    if (comm->rank == 0) clear(packed);
    barrier();
    source_t same = source;
    snprintf(same.path, sizeof same.path, "%.4000s/.", packed);
    err = pack_run(comm, &same, &options, &result);
    OK_ALL(err == ERR_USAGE && SAYS("is the source itself"), "nor is a folder packed into itself");
}

static void tell(void *context, const char *what)
{
    snprintf(context, 4096, "%s", what);
}

static const pack_verify_options_t hashes_only; /* noise cannot be decoded */

static void test_verify(comm_t *comm)
{
    pack_result_t result;
    pack_verdict_t verdict;
    char told[4096] = "";
    OK_ALL(pack_run(comm, &source, &options, &result) == ERR_OK, "a packing to be verified");
    bool fine = pack_verify(comm, packed, &hashes_only, tell, told, &verdict) == ERR_OK;
    OK_ALL(fine && verdict.shards && verdict.n_damaged == 0 && verdict.n_samples == N_TRAIN + N_VAL &&
               verdict.n_files == result.n_shards && verdict.n_bytes == result.n_bytes && !told[0],
           "it is whole: %s", told);
    barrier();
    if (comm->rank == 0) {
        shard_index_t *index = NULL;
        ASSERT(shard_index_read(packed, &index, NULL) == ERR_OK);
        flip(index->files[SPLIT_VAL][0].name, index->entries[SPLIT_VAL][1].offset);
        shard_index_free(&index);
    }
    barrier();
    fine = pack_verify(comm, packed, &hashes_only, tell, told, &verdict) == ERR_OK;
    OK_ALL(fine && verdict.n_damaged == 2, "a bit flipped is told on every rank");
    OK_ALL(comm->rank == 0 ? strstr(told, "val-00000-of-") != NULL : !told[0], "rank 0 says where");
}

/* Everything again through the table of sources. */
static void test_source(comm_t *comm)
{
    pack_result_t result;
    source_t *shards = NULL;
    source_buffer_t buffer = {0};
    bool fine =
        pack_run(comm, &source, &options, &result) == ERR_OK && source_open(packed, &shards) == ERR_OK;
    fine = fine && strcmp(shards->ops->kind, "shards") == 0 && shards->hash == source.hash &&
           shards->n_categories == 3 && strcmp(shards->categories[2].name, "größer") == 0 &&
           shards->has_annotations;
    for (int s = 0; s < SPLIT_COUNT && fine; s++)
        for (int64_t i = 0; i < source.n_samples[s] && fine; i++) {
            sample_t a = {0}, b = {0};
            fine = source_read(shards, (split_t)s, i, &buffer, &a) == ERR_OK &&
                   fake_read(&source, (split_t)s, i, NULL, &b) == ERR_OK;
            fine = fine && strcmp(a.name, b.name) == 0 && a.n_bytes == b.n_bytes &&
                   memcmp(a.bytes, b.bytes, a.n_bytes) == 0 && a.n_annotations == b.n_annotations &&
                   a.id == b.id && a.label == b.label &&
                   shards->entries[s][i].n_bytes == entries[s][i].n_bytes &&
                   shards->entries[s][i].width == a.width;
        }
    OK_ALL(fine, "a folder of shards is a source of the same samples, with the same hash");
    if (shards) source_free_buffer(shards, &buffer);
    source_close(&shards);
}

int main(void)
{
    comm_t *comm = NULL;
    comm_options_t comm_options = {.name = "mpi", .timeout_sec = 60, .abort_job = abort_job};
    err_t err = comm_open(&comm_options, &comm);
    tap_quiet = !log_speaks();
    tap_plan(3 + 3 + 3 + 5 + 4 + 1 + 1);
    if (err != ERR_OK) return 1;
    if (comm->rank == 0) {
        /* In memory where that can be had: every shard waits for its disk. */
        snprintf(base, sizeof base, "%s/dptrain-test-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        ASSERT(mkdtemp(base));
    }
    MPI_Bcast(base, sizeof base, MPI_CHAR, 0, MPI_COMM_WORLD);
    join(packed, base, "packed");
    join(reference, base, "reference");
    source = fake_source();
    test_same(comm);
    test_resume(comm);
    test_error(comm);
    test_other_plan(comm);
    test_verify(comm);
    test_source(comm);
    barrier();
    if (comm->rank == 0) {
        clear(packed);
        clear(reference);
        rmdir(packed);
        rmdir(reference);
        rmdir(base);
    }
    comm_close(&comm);
    OK(mem_live() == 0, "every block was freed");
    return tap_done();
}
