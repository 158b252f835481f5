/* SPDX-License-Identifier: MIT */
/* How many files a reader of 1000 shards opens: the index, and then those that it reads from; counted by
 * strace. RUN np=0 */
#include <sys/wait.h>

#include "data/shard/reader.h"
#include "tests/unit/shard_sample.h"

enum { N_SHARDS = UNDER_SANITIZER ? 200 : 1000, N_READ = 10, N_AGAIN = 20 };

/* What the traced process does: opens the folder and reads N_READ samples from as many shards, N_AGAIN times.
 */
static int child(const char *folder)
{
    shard_index_t *index = NULL;
    shard_reader_t *reader = NULL;
    shard_buffer_t buffer = {0};
    sample_t sample;
    if (shard_index_read(folder, &index, NULL) != ERR_OK ||
        shard_reader_open(folder, index, &reader) != ERR_OK)
        return 1;
    for (int again = 0; again < N_AGAIN; again++)
        for (int i = 0; i < N_READ; i++)
            if (shard_read(reader, SPLIT_TRAIN, i * (N_SHARDS / N_READ), &buffer, &sample) != ERR_OK)
                return 1;
    mem_free(&buffer.block);
    shard_reader_close(&reader);
    shard_index_free(&index);
    return 0;
}

static void make_shards(void)
{
    seal_t seal;
    shard_index_t *index = sample_pack_many(N_SHARDS, 1);
    ASSERT(shard_index_write(index, sample_folder, &seal) == ERR_OK);
    shard_index_free(&index);
}

/* Lines of the trace with all of these words. */
static int count_lines(const char *path, const char *call, const char *word)
{
    char line[8192];
    int n = 0;
    FILE *file = fopen(path, "r");
    ASSERT(file);
    while (fgets(line, sizeof line, file)) n += strstr(line, call) && strstr(line, word);
    fclose(file);
    return n;
}

static int trace(const char *self, const char *log)
{
    char command[4 * FS_PATH_MAX];
    /* A sanitizer's own look for leaks wants to trace too. */
    snprintf(command, sizeof command,
             "ASAN_OPTIONS=detect_leaks=0 strace -f -y -e "
             "trace=openat,open,stat,newfstatat,pread64,getdents64 -o '%s' '%s' '%s' 2>/dev/null",
             log, self, sample_folder);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && argv[1][0] == '/') return child(argv[1]);
    if (system("strace -o /dev/null true >/dev/null 2>&1") != 0)
        tap_skip_all("strace is not here, or may not trace");
    sample_begin();
    char log[FS_PATH_MAX], tmp[] = "/tmp/dptrain-trace-XXXXXX";
    int fd = mkstemp(tmp);
    ASSERT(fd >= 0 && close(fd) == 0);
    snprintf(log, sizeof log, "%s", tmp);
    char shard[32]; /* how the trace names an open shard */
    snprintf(shard, sizeof shard, "-of-%05d.h5>", N_SHARDS);
    make_shards();
    tap_plan(6);
    OK(trace(argv[0], log) == 0, "%d samples are read %d times from a folder of %d shards", N_READ, N_AGAIN,
       N_SHARDS);
    OK(count_lines(log, "open", SHARD_INDEX_NAME) == 1, "the index is opened once");
    OK(count_lines(log, "open", "-of-") == N_READ, "and of the shards those %d that are read from, once each",
       N_READ);
    OK(count_lines(log, "getdents", sample_folder) == 0, "the folder is not listed");
    OK(count_lines(log, "pread64", shard) == 2 * N_READ * N_AGAIN, "a sample is two reads");
    int n_index = count_lines(log, "pread64", SHARD_INDEX_NAME);
    OK(n_index > 0 && n_index < 60, "the index is read in %d pieces", n_index);
    unlink(log);
    sample_clear();
    rmdir(sample_folder);
    return tap_done();
}
