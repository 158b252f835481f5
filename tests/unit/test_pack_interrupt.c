/* SPDX-License-Identifier: MIT */
/* RUN np=0
 *
 * A signal that ends dptrain data pack leaves no temporary file, whichever thread gets it. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/process.h"
#include "tests/folder.h"
#include "tests/tap.h"
#include "tools/pack/parts.h"

static _Noreturn void *get_signal(void *number)
{
    usleep(1000);
    pthread_kill(pthread_self(), *(int *)number);
    for (;;) pause();
}

/* As packing does: a file under a temporary name after the other. */
static _Noreturn void write_files(int number)
{
    char temp[64], path[FS_PATH_MAX];
    pthread_t thread;
    thread_receive_signals();
    for (int64_t i = 0;; i++) {
        snprintf(temp, sizeof temp, "%lld.tmp", (long long)i);
        memcpy(path, folder_path(temp), sizeof path);
        interrupt_removes(path);
        if (i == 0 && pthread_create(&thread, NULL, get_signal, &number) != 0) _exit(1);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 || close(fd) != 0 || rename(path, folder_path("whole")) != 0) _exit(2);
        interrupt_removes(NULL);
    }
}

/* How the process ended, with the signal given to its other thread. */
static int ended_by(int number)
{
    int status = -1;
    const pid_t child = fork();
    if (child == 0) write_files(number);
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

int main(void)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    enum { TIMES = 100 };
    if (!folder_begin()) tap_skip_all("no folder in /tmp");
    tap_plan(3);
    for (int k = 0; k < 3; k++) {
        int n_ended = 0, n_left = 0;
        for (int i = 0; i < TIMES; i++) {
            n_ended += ended_by(numbers[k]) == numbers[k];
            unlink(folder_path("whole"));
            const bool left = rmdir(folder) != 0;
            n_left += left;
            if (left) folder_clear();
            if (fs_make_folder(folder) != ERR_OK) abort();
        }
        OK(n_ended == TIMES && n_left == 0, "signal %d: %d of %d processes ended by it, %d left a file",
           numbers[k], n_ended, TIMES, n_left);
    }
    rmdir(folder);
    return tap_done();
}
