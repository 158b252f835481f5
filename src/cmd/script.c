/* SPDX-License-Identifier: MIT */
/* `dptrain ssh-setup`, `health`, `nccl-bw` and `regress`: become the script of that name, from the
 * source tree, a bundle or an installation. The scripts parse their own options. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/log.h"
#include "cmd/cmd.h"

static const struct {
    const char *command, *file;
} scripts[] = {{"ssh-setup", "setup_ssh.sh"},
               {"health", "cluster_health.sh"},
               {"nccl-bw", "nccl_bw.sh"},
               {"regress", "regress.sh"}};

/* Beside the program in the source tree, below share in an installation, beside libexec in a bundle. */
static err_t find_script(const char *file, char out[FS_PATH_MAX])
{
    static const char *const places[] = {"scripts", "../share/dptrain/scripts", "../scripts"};
    char own[FS_PATH_MAX], folder[FS_PATH_MAX];
    /* The folder of this program, without a slash at the end. */
    ssize_t n = readlink("/proc/self/exe", own, FS_PATH_MAX - 1);
    if (n < 0) RAISE(ERR_SYSTEM, "cannot tell where this program is: /proc/self/exe: %s", strerror(errno));
    own[n] = '\0';
    char *slash = strrchr(own, '/');
    *(slash ? slash : own) = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        TRY(fs_join(folder, own, places[i]));
        TRY(fs_join(out, folder, file));
        if (access(out, X_OK) == 0) return ERR_OK;
    }
    RAISE(ERR_SYSTEM, "no %s in %s/scripts or %s/../share/dptrain/scripts; make install puts it there", file,
          own, own);
}

static err_t start_script(const cmd_context_t *context)
{
    char path[FS_PATH_MAX];
    const char *name = context->name[0];
    TRY(cmd_refuse_ranks(name));
    int i = 0;
    while (strcmp(scripts[i].command, name) != 0) i++;
    TRY(find_script(scripts[i].file, path));
    if (context->argc > 0 && strcmp(context->argv[0], "--help=tsv") == 0) {
        print_out("script\t%s\n", path);
        return ERR_OK;
    }
    /* $CALLED_AS tells the script's help its name; unlike $DPTRAIN_…, it is not passed to ranks. Only fails: on
     * success the process is the script. */
    sigset_t none;
    char as[64];
    snprintf(as, sizeof as, "dptrain %s", name);
    char **words = context->argv - 1; /* its first word is the command's name */
    words[0] = path;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL); /* main blocked signals for its threads */
    signal(SIGXFSZ, SIG_DFL);
    setenv("CALLED_AS", as, 1);
    execv(path, words);
    RAISE(ERR_SYSTEM, "cannot start %s: %s", path, strerror(errno));
}

err_t cmd_script(const cmd_context_t *context)
{
    return cmd_fail(start_script(context));
}
