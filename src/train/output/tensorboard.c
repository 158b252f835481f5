/* SPDX-License-Identifier: MIT */
/* Writes TensorBoard's event file: TFRecord framing with CRC-32C around protobuf-c messages. The choice of
 * scalars is left to the caller. */
#include "train/output/tensorboard.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tensorboard.pb-c.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cluster/session/disk_wait.h"

#define PREFIX "events.out.tfevents."
#define RUN    "run-"
enum { MAX_EVENT = 4096, BUFFER_BYTES = 1 << 16 };
static const int64_t latest_time = 9999999999; /* a larger one would sort by its first digit */

uint32_t tensorboard_crc32c(const void *data, size_t n_bytes)
{
    /* crc32_iscsi inverts neither the initial value nor the result, and does not modify the data. */
    return ~crc32_iscsi((unsigned char *)data, narrow_int((int64_t)n_bytes), 0xffffffffu);
}

static uint32_t masked_crc(const void *data, size_t n_bytes)
{
    uint32_t crc = tensorboard_crc32c(data, n_bytes);
    return htole32(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

static err_t events_failed(const tensorboard_t *t)
{
    RAISE(ERR_SYSTEM, "cannot write %s: %s", t->path, strerror(errno));
}

static err_t write_event(tensorboard_t *t, const Tb__Event *event, bool flush)
{
    size_t n = tb__event__get_packed_size(event);
    ASSERT(n <= MAX_EVENT);
    tb__event__pack(event, t->data);
    uint64_t length = htole64((uint64_t)n);
    uint32_t length_crc = masked_crc(&length, sizeof length), data_crc = masked_crc(t->data, n);
    disk_wait_begin("writing events to", t->path);
    bool ok = fwrite(&length, sizeof length, 1, t->file) == 1 &&
              fwrite(&length_crc, sizeof length_crc, 1, t->file) == 1 &&
              fwrite(t->data, n, 1, t->file) == 1 && fwrite(&data_crc, sizeof data_crc, 1, t->file) == 1 &&
              (!flush || fflush(t->file) == 0);
    disk_wait_end();
    return ok ? ERR_OK : events_failed(t);
}

static err_t create_event_file(tensorboard_t *t, const char *folder)
{
    char name[256], host[128] = "";
    TRY(fs_make_folder(folder));
    /* The current time, or later than existing files: clocks differ between hosts, and two starts can share a
     * second. */
    int64_t time = (int64_t)clock_unix_sec();
    DIR *entries = opendir(folder);
    if (!entries) RAISE(ERR_SYSTEM, "cannot list the folder %s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(entries));) {
        long long other;
        if (sscanf(entry->d_name, PREFIX "%10lld.", &other) == 1 && other >= time && other < latest_time)
            time = other + 1;
    }
    closedir(entries);
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, PREFIX "%010lld.%s.%ld", (long long)time, host, (long)getpid());
    TRY(fs_join(t->path, folder, name));
    TRY(mem_new(BUFFER_BYTES, "a file buffer", &t->buffer));
    TRY(mem_new(MAX_EVENT, "an event", &t->data));
    t->file = fopen(t->path, "wxe");
    if (!t->file) RAISE(ERR_SYSTEM, "cannot create %s: %s", t->path, strerror(errno));
    setvbuf(t->file, t->buffer, _IOFBF, BUFFER_BYTES);
    return ERR_OK;
}

err_t tensorboard_open(tensorboard_t *t, const char *folder, int64_t n_steps)
{
    err_info_t why;
    *t = (tensorboard_t){0};
    if (!folder) return ERR_OK;
    disk_wait_begin("creating an event file in", folder);
    err_t err = create_event_file(t, folder);
    disk_wait_end();
    TRY_OUT(err, err);
    Tb__Event event = TB__EVENT__INIT;
    event.wall_time = clock_unix_sec();
    event.what_case = TB__EVENT__WHAT_FILE_VERSION;
    event.file_version = "brain.Event:2";
    TRY_OUT(err, write_event(t, &event, false));
    Tb__SessionLog start = TB__SESSION_LOG__INIT;
    start.status = TB__SESSION_LOG__SESSION_STATUS__START;
    event.step = n_steps + 1; /* the first step that this start writes */
    event.what_case = TB__EVENT__WHAT_SESSION_LOG;
    event.session_log = &start;
    TRY_OUT(err, write_event(t, &event, true));
    return ERR_OK;
out:
    err_take(err, &why);
    if (t->file) unlink(t->path);
    tensorboard_close(t);
    return err_put(&why);
}

/* Event files in the folder itself, but for the one at `own` (NULL: none). */
static bool has_events(const char *folder, const char *own)
{
    DIR *entries = opendir(folder);
    const char *name = own ? strrchr(own, '/') + 1 : "";
    bool found = false;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        found = strstr(entry->d_name, "tfevents") && strcmp(entry->d_name, name) != 0;
    if (entries) closedir(entries);
    return found;
}

/* Creates the first free folder/run-N. */
static err_t make_run_folder(const char *folder, char *out)
{
    enum { MOST = 100000 };
    for (int n = 2; n < MOST; n++) {
        char name[32];
        snprintf(name, sizeof name, RUN "%d", n);
        TRY(fs_join(out, folder, name));
        if (mkdir(out, 0777) == 0) return ERR_OK;
        if (errno != EEXIST) RAISE(ERR_SYSTEM, "cannot create the folder %s: %s", out, strerror(errno));
    }
    RAISE(ERR_SYSTEM, "%s has %d folders " RUN "N; choose another folder", folder, MOST);
}

err_t tensorboard_open_new(tensorboard_t *t, const char *folder, int64_t n_steps, char *chosen)
{
    snprintf(chosen, FS_PATH_MAX, "%s", folder);
    disk_wait_begin("looking for events in", folder);
    bool taken = has_events(folder, NULL);
    disk_wait_end();
    if (!taken) {
        TRY(tensorboard_open(t, folder, n_steps));
        disk_wait_begin("looking for events in", folder);
        taken = has_events(folder, t->path);
        /* Another job has come at the same time; both may move. */
        if (taken) unlink(t->path);
        disk_wait_end();
        if (!taken) return ERR_OK;
        TRY(tensorboard_close(t));
    }
    disk_wait_begin("creating a folder in", folder);
    err_t err = make_run_folder(folder, chosen);
    disk_wait_end();
    return err == ERR_OK ? tensorboard_open(t, chosen, n_steps) : err;
}

bool tensorboard_reopens(const char *folder, const char *record, char *chosen)
{
    char real[PATH_MAX];
    disk_wait_begin("looking for", folder);
    const bool there = realpath(folder, real) != NULL;
    disk_wait_end();
    const size_t n = there ? strlen(real) : 0, n_run = strlen("/" RUN);
    const char *rest = record + n;
    if (!there || strncmp(real, record, n) != 0) return false;
    if (!*rest) return fs_join(chosen, "", folder) == ERR_OK;
    if (strncmp(rest, "/" RUN, n_run) != 0 || !rest[n_run]) return false;
    if (rest[n_run + strspn(rest + n_run, "0123456789")] != '\0') return false;
    return fs_join(chosen, folder, rest + 1) == ERR_OK;
}

void tensorboard_add(tensorboard_scalars_t *scalars, const char *group, const char *label, double value)
{
    if (isnan(value)) return;
    ASSERT(scalars->n < TENSORBOARD_MAX_SCALARS);
    tensorboard_scalar_t *at = &scalars->at[scalars->n++];
    snprintf(at->tag, sizeof at->tag, "%s/%s", group, label);
    at->value = value;
}

err_t tensorboard_write(tensorboard_t *t, int64_t step, const tensorboard_scalar_t *scalars, int n,
                        bool flush)
{
    if (!t->file) return ERR_OK;
    ASSERT(n >= 1 && n <= TENSORBOARD_MAX_SCALARS);
    Tb__Event event = TB__EVENT__INIT;
    Tb__Summary summary = TB__SUMMARY__INIT;
    Tb__Summary__Value values[TENSORBOARD_MAX_SCALARS], *pointers[TENSORBOARD_MAX_SCALARS];
    for (int i = 0; i < n; i++) {
        values[i] = (Tb__Summary__Value)TB__SUMMARY__VALUE__INIT;
        values[i].tag = (char *)scalars[i].tag;
        values[i].value_case = TB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE;
        values[i].simple_value = (float)scalars[i].value;
        pointers[i] = &values[i];
    }
    summary.n_value = (size_t)n;
    summary.value = pointers;
    event.wall_time = clock_unix_sec();
    event.step = step;
    event.what_case = TB__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return write_event(t, &event, flush);
}

err_t tensorboard_close(tensorboard_t *t)
{
    err_t err = ERR_OK;
    disk_wait_begin("closing", t->path);
    if (t->file && fclose(t->file) != 0) err = events_failed(t);
    disk_wait_end();
    t->file = NULL;
    mem_free(&t->buffer);
    mem_free(&t->data);
    return err;
}
