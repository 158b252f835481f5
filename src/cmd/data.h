/* SPDX-License-Identifier: MIT */
/* The verbs of `dptrain data`, one file each, and their shared helpers. */
#ifndef CMD_DATA_H
#define CMD_DATA_H

#include "cluster/session/runtime.h"
#include "cmd/cmd.h"

err_t cmd_data_synth(const cmd_context_t *context);
err_t cmd_data_pack(const cmd_context_t *context);
err_t cmd_data_verify(const cmd_context_t *context);
err_t cmd_data_show(const cmd_context_t *context);

/* The option --timeout; offset: of a double. */
#define DATA_TIMEOUT_ROW(offset)                                                                             \
    {                                                                                                        \
        "timeout", OPT_REAL, offset, "300", 1, 86400, NULL, "SEC",                                           \
            "deadline of every wait for another rank, in seconds", OPT_COMMON                                \
    }

/* The option --threads; offset: of an int64_t. */
#define DATA_THREADS_ROW(offset)                                                                             \
    {                                                                                                        \
        "threads", OPT_INT, offset, "0", 0, 1024, NULL, "N",                                                 \
            "threads per rank that decode images; 0: the host's CPUs, divided among its ranks", OPT_MORE     \
    }

/* Collective. Opens a communicator over all ranks. Close it with runtime_close. */
err_t data_open_comm(const cmd_context_t *context, double timeout_sec, runtime_t *out);

#endif
