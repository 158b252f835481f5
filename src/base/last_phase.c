/* SPDX-License-Identifier: MIT */
/* The page that outlives a killed rank, until run.sh removes it. */
#include "base/deadline.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/process.h"

static char path[128];
static char *page;

void last_phase_open(void)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *job = getenv("DPTRAIN_JOB");
    if (page || !job || !job[0] || job[strspn(job, allowed)] != '\0') return;
    int n = snprintf(path, sizeof path, "/dev/shm/dptrain-%s.%d", job, launch_rank());
    if (n < 0 || n >= (int)sizeof path) return;
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return;
    /* With space reserved, no store can fail later. */
    void *mapped = posix_fallocate(file, 0, LAST_PHASE_TEXT) == 0
                       ? mmap(NULL, LAST_PHASE_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                       : MAP_FAILED;
    close(file);
    if (mapped == MAP_FAILED) {
        unlink(path);
        return;
    }
    page = mapped;
    last_phase_note("starting");
}

void last_phase_close(void)
{
    if (page) unlink(path);
}

void last_phase_note(const char *text)
{
    if (!page) return;
    size_t n = strnlen(text, LAST_PHASE_TEXT - 1);
    memcpy(page, text, n);
    page[n] = '\0';
}
