/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * The page with a rank's last phase: only for a job of run.sh, up to date after every note, gone after a known end. */
#include "tests/tap.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/watch/deadline.h"

/* Number of pages of jobs with this name in it. */
static int n_pages(const char *job)
{
    int n = 0;
    DIR *folder = opendir("/dev/shm");
    for (struct dirent *at; folder && (at = readdir(folder));)
        n += strncmp(at->d_name, "dptrain-", 8) == 0 && strstr(at->d_name, job);
    if (folder) closedir(folder);
    return n;
}

int main(void)
{
    tap_plan(6);
    char job[64], path[128], text[LAST_PHASE_TEXT] = "", longer[200];
    snprintf(job, sizeof job, "test.%d", (int)getpid());
    unsetenv("DPTRAIN_JOB");
    setenv("OMPI_COMM_WORLD_RANK", "3", 1);
    last_phase_open();
    last_phase_note("nothing");
    char bad[80];
    snprintf(bad, sizeof bad, "../%s", job);
    setenv("DPTRAIN_JOB", bad, 1);
    last_phase_open();
    OK(n_pages(job) == 0, "no page without a job, or for a job with a path in its name");

    setenv("DPTRAIN_JOB", job, 1);
    last_phase_open();
    snprintf(path, sizeof path, "/dev/shm/dptrain-%s.3", job);
    FILE *file = fopen(path, "r");
    OK(file, "a job of run.sh has a page for each rank");
    if (!file) return 1;
    setvbuf(file, NULL, _IONBF, 0);
    OK(fread(text, 1, sizeof text, file) == sizeof text && strcmp(text, "starting") == 0,
       "at first: starting");
    last_phase_note("a");
    rewind(file);
    OK(fread(text, 1, sizeof text, file) == sizeof text && strcmp(text, "a") == 0,
       "a note replaces the one before");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    last_phase_note(longer);
    rewind(file);
    OK(fread(text, 1, sizeof text, file) == sizeof text && strlen(text) == sizeof text - 1,
       "a long note is cut");
    fclose(file);
    last_phase_close();
    last_phase_note("b");
    OK(n_pages(job) == 0, "the page is removed at a known end");
    return tap_done();
}
