/* SPDX-License-Identifier: MIT */
/* Records out of pieces of shards: the same as one by one, by many threads, with damage, within a number of
 * pieces; reads are counted by strace. RUN np=0 */
#include <pthread.h>
#include <sys/wait.h>

#include "base/rng.h"
#include "data/dataset/sampler.h"
#include "data/shard/reader.h"
#include "tests/unit/shard_sample.h"

enum {
    N_SHARDS = 4,
    EACH = 30, /* samples of a shard */
    N_ALL = N_SHARDS * EACH,
    BLOCK = 8,
    N_THREADS = 8,
    N_READS = UNDER_SANITIZER ? 300 : 3000,
    N_RANKS = 2
};

static shard_near_t block_of(int64_t number, int64_t n_pieces)
{
    int64_t first = number - number % BLOCK, n = N_ALL - first < BLOCK ? N_ALL - first : BLOCK;
    return (shard_near_t){first, n, n, n_pieces};
}

typedef struct reading {
    shard_pieces_t *pieces;
    uint64_t seed;
    int64_t n_pieces;
    int64_t n_held; /* how many samples came out of pieces */
    bool fine;
} reading_t;

static void *read_many(void *context)
{
    reading_t *r = context;
    shard_buffer_t buffer = {0};
    rng_t rng = rng_new(r->seed, RNG_TEST, 0);
    r->fine = true;
    for (int i = 0; i < N_READS && r->fine; i++) {
        int64_t number = rng_below(&rng, N_ALL);
        shard_near_t near = block_of(number, r->n_pieces);
        shard_piece_t *held = NULL;
        sample_t sample, there = sample_of_many(SPLIT_TRAIN, number);
        r->fine =
            shard_pieces_read(r->pieces, SPLIT_TRAIN, number, &near, &buffer, &held, &sample) == ERR_OK &&
            same_sample(&sample, &there);
        if (!r->fine) printf("# %s\n", err_message());
        r->n_held += held != NULL;
        shard_pieces_release(&held);
    }
    mem_free(&buffer.block);
    return NULL;
}

static void test_threads(shard_reader_t *reader, int64_t n_pieces)
{
    shard_pieces_t *pieces = NULL;
    pthread_t threads[N_THREADS];
    reading_t readings[N_THREADS];
    bool fine = true;
    int64_t n_held = 0;
    ASSERT(shard_pieces_new(reader, &pieces) == ERR_OK);
    for (int t = 0; t < N_THREADS; t++) {
        readings[t] = (reading_t){.pieces = pieces, .seed = (uint64_t)t, .n_pieces = n_pieces};
        ASSERT(pthread_create(&threads[t], NULL, read_many, &readings[t]) == 0);
    }
    for (int t = 0; t < N_THREADS; t++) {
        fine = pthread_join(threads[t], NULL) == 0 && readings[t].fine && fine;
        n_held += readings[t].n_held;
    }
    OK(fine && n_held > 0, "%d threads read what was written, with %d pieces (%d of %d samples out of them)",
       N_THREADS, (int)n_pieces, (int)n_held, N_THREADS * N_READS);
    shard_pieces_free(&pieces);
}

/* Reads all of one rank's part of an epoch; ERR_DATA where a sample is damaged, after all. */
static err_t read_part(shard_pieces_t *pieces, sampler_t *sampler, int rank, int64_t *n_bad)
{
    shard_buffer_t buffer = {0};
    shard_piece_t *held = NULL;
    err_t err = ERR_OK;
    for (int64_t batch = 0; batch < sampler_batches(sampler); batch++) {
        sampler_slice_t slice = sampler_at(sampler, 0, batch, rank, N_RANKS);
        for (int64_t i = 0; i < slice.n; i++) {
            sample_t sample, there = sample_of_many(SPLIT_TRAIN, slice.index[i]);
            sampler_near_t near = sampler_near(sampler, slice.index[i], N_RANKS);
            shard_near_t run = {near.first, near.n, near.n, near.n_runs};
            shard_pieces_release(&held);
            if (shard_pieces_read(pieces, SPLIT_TRAIN, slice.index[i], &run, &buffer, &held, &sample) !=
                ERR_OK)
                err = ERR_DATA, (*n_bad)++;
            else
                ASSERT(same_sample(&sample, &there));
        }
    }
    shard_pieces_release(&held);
    mem_free(&buffer.block);
    return err;
}

static sampler_t *make_sampler(void)
{
    sampler_t *sampler = NULL;
    sampler_options_t options = {.n_samples = N_ALL, .global_batch = 8, .seed = 2, .block = 10, .window = 4};
    ASSERT(sampler_new(&options, &sampler) == ERR_OK);
    return sampler;
}

/* What the traced process does: one rank's epoch. */
static int child(const char *folder, const char *rank)
{
    shard_index_t *index = NULL;
    shard_reader_t *reader = NULL;
    shard_pieces_t *pieces = NULL;
    sampler_t *sampler = make_sampler();
    int64_t n_bad = 0;
    err_t err;
    TRY_OUT(err, shard_index_read(folder, &index, NULL));
    TRY_OUT(err, shard_reader_open(folder, index, &reader));
    TRY_OUT(err, shard_pieces_new(reader, &pieces));
    TRY_OUT(err, read_part(pieces, sampler, rank[0] - '0', &n_bad));
out:
    shard_pieces_free(&pieces);
    shard_reader_close(&reader);
    shard_index_free(&index);
    sampler_free(&sampler);
    return err;
}

/* Reads of shards in a trace of the child. */
static int count_reads(const char *self, int rank)
{
    char command[4 * FS_PATH_MAX], log[FS_PATH_MAX], line[8192];
    int n = 0;
    sample_path(log, "trace.log");
    snprintf(
        command, sizeof command,
        "ASAN_OPTIONS=detect_leaks=0 strace -f -y -e trace=read,pread64 -o '%s' '%s' '%s' %d 2>/dev/null",
        log, self, sample_folder, rank);
    int status = system(command);
    FILE *file = fopen(log, "r");
    if (!file || status != 0) return -1;
    while (fgets(line, sizeof line, file)) n += strstr(line, "-of-00004.h5>") != NULL;
    fclose(file);
    unlink(log);
    return n;
}

/* 12 blocks of 10 in 4 shards of 30 are 12 pieces of two reads each; ranks may share some. */
static void test_reads(const char *self)
{
    if (system("strace -o /dev/null true >/dev/null 2>&1") != 0) {
        tap_skip("strace is not here, or may not trace");
        return;
    }
    int first = count_reads(self, 0), second = count_reads(self, 1);
    OK(first >= 10 && second >= 10 && first + second >= 24 && first + second <= 30,
       "%d samples on %d ranks are %d + %d reads, not %d", N_ALL, N_RANKS, first, second, 2 * N_ALL);
}

/* A byte of one image. */
static void damage(const shard_index_t *index, int64_t number)
{
    char path[FS_PATH_MAX];
    const shard_entry_t *e = &index->entries[0][number];
    unsigned char byte;
    sample_path(path, index->files[0][e->shard].name);
    int fd = open(path, O_RDWR);
    ASSERT(fd >= 0 && pread(fd, &byte, 1, (off_t)e->offset) == 1);
    byte ^= 4;
    ASSERT(pwrite(fd, &byte, 1, (off_t)e->offset) == 1 && close(fd) == 0);
}

static void test_damage(const shard_index_t *index, shard_reader_t *reader)
{
    shard_pieces_t *pieces = NULL;
    sampler_t *sampler = make_sampler();
    int64_t n_bad = 0;
    damage(index, 47);
    ASSERT(shard_pieces_new(reader, &pieces) == ERR_OK);
    err_t first = read_part(pieces, sampler, 0, &n_bad), second = read_part(pieces, sampler, 1, &n_bad);
    OK(n_bad == 1 && first + second == ERR_DATA, "of a piece with a damaged record, the others are read");
    shard_buffer_t buffer = {0};
    shard_piece_t *held = NULL;
    sample_t sample;
    shard_near_t near = block_of(47, 3), wrong = {0, 4, 4, 3};
    OK(shard_pieces_read(pieces, SPLIT_TRAIN, 47, &near, &buffer, &held, &sample) == ERR_DATA && !held &&
           strstr(err_message(), "record 17 (sample 47"),
       "that one is named");
    OK(shard_pieces_read(pieces, SPLIT_TRAIN, 50, &wrong, &buffer, &held, &sample) == ERR_OK && !held,
       "a record that is no neighbour of its neighbours is read by itself");
    near = block_of(0, 0);
    OK(shard_pieces_read(pieces, SPLIT_TRAIN, 0, &near, &buffer, &held, &sample) == ERR_OK,
       "so is one where no pieces may be kept");
    mem_free(&buffer.block);
    shard_pieces_release(&held);
    shard_pieces_free(&pieces);
    sampler_free(&sampler);
}

int main(int argc, char **argv)
{
    if (argc > 2) return child(argv[1], argv[2]);
    sample_begin();
    seal_t seal;
    shard_index_t *index = sample_pack_many(N_SHARDS, EACH);
    ASSERT(shard_index_write(index, sample_folder, &seal) == ERR_OK);
    shard_reader_t *reader = NULL;
    ASSERT(shard_reader_open(sample_folder, index, &reader) == ERR_OK);
    tap_plan(8);
    test_threads(reader, 16);
    test_threads(reader, 3);
    test_reads(argv[0]);
    test_damage(index, reader);
    shard_reader_close(&reader);
    shard_index_free(&index);
    sample_clear();
    rmdir(sample_folder);
    OK(sample_balanced(), "every block was freed");
    return tap_done();
}
