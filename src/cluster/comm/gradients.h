/* SPDX-License-Identifier: MIT */
/* The table of gradient communication, which host memory (buffer.c, mpi/host.c) and libraries (nccl/)
 * fill. Private to src/cluster/comm; others call buffer.h, device.h and collective.h. */
#ifndef CLUSTER_COMM_GRADIENTS_H
#define CLUSTER_COMM_GRADIENTS_H

#include "cluster/comm/comm.h"

struct collective_ops;
struct comm_device;

/* A communicator uses one table for its buffers: that of its comm_ops_t, in host memory, or that of a library
 * on top of it. Libraries send their own messages by comm.h. */
typedef struct gradient_ops {
    const char *name; /* as for --comm */
    /* Buffers are in the memory of the rank's GPU, and begin and finish only enqueue work on its stream. The
     * library is opened by comm_use_device. Otherwise buffers are in host memory, and begin or finish
     * waits under the watchdog. */
    bool on_device;
    bool wire_bf16; /* respects options.wire_bf16 */

    /* Of libraries only; Collective except for `version`. */
    /* Loads the library; may be repeated. All ranks return the same error, which says what to do. */
    err_t (*load)(comm_t *comm);
    void (*version)(char *out, size_t n_bytes); /* such as "2.28.9"; "" if it cannot be loaded */
    /* Sets comm->gradients and comm->library. ERR_PEER names the ranks that did not arrive in time.
     *
     *   device  NULL unless on_device */
    err_t (*open)(comm_t *comm, const struct comm_device *device);
    err_t (*subset)(comm_t *comm, comm_t *part); /* the same for a part of the ranks, which call it */
    void (*close)(comm_t *comm);

    /* See buffer.h. Sets out->ops. */
    err_t (*buffer_new)(comm_t *comm, size_t n_bytes, comm_buffer_t *out);
    err_t (*buffer_choose)(comm_t *comm, comm_buffer_t *buffer, int64_t count); /* may be NULL */
    err_t (*buffer_begin)(comm_t *comm, comm_buffer_t *buffer, int64_t offset, int64_t count); /* count > 0 */
    err_t (*buffer_finish)(comm_t *comm, comm_buffer_t *buffer); /* may be NULL: begin has summed */
    /* Of buffers of several ranks: comm_buffer_share, after which begin respects buffer->slices, and
     * comm_buffer_gather. */
    err_t (*buffer_share)(comm_t *comm, comm_buffer_t *buffer); /* may be NULL */
    err_t (*buffer_gather)(comm_t *comm, comm_buffer_t *buffer);
    err_t (*sum_doubles)(comm_t *comm, double *data, int64_t n); /* comm_sum_doubles; NULL unless on_device */
    void (*buffer_free)(comm_t *comm, comm_buffer_t *buffer);
    err_t (*check)(comm_t *comm); /* comm_check_sums; NULL: an error ends the call itself */

    const struct collective_ops *const *singles; /* see collective.h; NULL-terminated. NULL: none */
    void (*describe)(const comm_t *comm, char *out, size_t n_bytes); /* see comm_describe_gradients */
} gradient_ops_t;

/* Memory of the only rank. */
extern const gradient_ops_t gradients_private;

/* A name for --comm. */
typedef struct comm_row {
    const char *name;
    const comm_ops_t *ops;         /* barriers, broadcasts, …, and gradients in host memory */
    const gradient_ops_t *library; /* sums gradients instead; NULL: none, or `needs` says what is missing */
    const char *needs;             /* for messages: what the library needs; NULL: no library */
} comm_row_t;

/* registry.c. The last row has no name. */
extern const comm_row_t comm_rows[];

#endif
