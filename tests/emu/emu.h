/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the emulated device: streams as queues of closures, device memory, the executor of kernels.
 * Breaking a rule of CUDA ends the program with a message. */
#ifndef TESTS_EMU_EMU_H
#define TESTS_EMU_EMU_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#if defined(__SANITIZE_ADDRESS__)
#define EMU_ASAN 1
#else
#define EMU_ASAN 0
#endif

namespace emu
{

struct queue_t;
struct capture_t;

/* A place in a queue: everything up to `seq` has run. */
struct mark_t {
    std::shared_ptr<queue_t> queue;
    uint64_t seq = 0;
};

/* An operation of a stream. Without `run` it only waits for its marks. */
struct op_t {
    const char *name = "";
    std::function<void()> run;
    std::function<bool()> ready; /* whether it can run when the host only polls; absent: always */
    std::function<void(const mark_t &)> queued; /* receives its mark each time it is queued */
    std::vector<mark_t> marks;                  /* must run before it */
    cudaEvent_t records = nullptr;              /* an event outside the graph that this node records */
    cudaEvent_t awaits = nullptr;               /* … or waits for */
};

/* A stream's work; it outlives the stream's handle. */
struct queue_t {
    int device = 0;
    bool blocking = true; /* synchronizes with the legacy default stream */
    std::deque<op_t> ops;
    uint64_t done = 0, tail = 0;        /* ops that have run; ops that were queued */
    std::shared_ptr<capture_t> capture; /* being recorded */
};

/* Guards the state that calls change. Held briefly; not recursive. */
std::mutex &state_mutex();

/* Queues (or records, in a capturing stream) one op. */
cudaError_t submit(cudaStream_t stream, op_t op);
/* Queues; the state mutex is held. */
mark_t push(const std::shared_ptr<queue_t> &queue, op_t op);
/* Runs everything up to `mark` and its dependencies. Returns false, when polling only, if something is not ready. */
bool run_until(const mark_t &mark, bool polling);
bool has_run(const mark_t &mark);
bool executing(); /* this thread is inside an op */

std::shared_ptr<queue_t> queue_of(cudaStream_t stream); /* null: not a stream */
std::vector<std::shared_ptr<queue_t>> queues_of(int device);

/* Captures. The state mutex is held. */
cudaError_t capture_add(queue_t *queue, op_t op);
bool capture_forbids(); /* whether a capture forbids the current call, which invalidates it */
/* Records an event in a capture; waits for it there. */
cudaError_t capture_record(const std::shared_ptr<queue_t> &queue, cudaEvent_t event);
cudaError_t capture_wait(const std::shared_ptr<queue_t> &queue, cudaEvent_t event);

/* Called also when a graph with such a node is launched. The state mutex is held. */
void record_event(const std::shared_ptr<queue_t> &queue, cudaEvent_t event);

/* Errors. `fail` sets the thread's last error and returns it; a sticky error ends all work. */
cudaError_t fail(cudaError_t error);
void set_sticky(cudaError_t error);
cudaError_t sticky();
cudaError_t usable(); /* success if there is a device and no sticky error */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t env_number(const char *name, int64_t fallback);

/* Devices. */
int device_count();
int current_device();
int64_t device_memory();
uint64_t device_id(int device); /* identifies the host's virtual GPU in every process */

/* Between these two calls this thread may access device memory. They nest. */
void access_begin();
void access_end();
struct access_t {
    access_t()
    {
        access_begin();
    }
    ~access_t()
    {
        access_end();
    }
};
bool in_device(const void *p);
/* Whether [p, p + n) is inside one allocation of a device. */
bool device_range(const void *p, size_t n);
bool pinned_range(const void *p, size_t n);
/* Dies with the names of the op and the buffer if the range is not. */
void need_range(const char *op, const char *what, const void *p, size_t n);
void check_guards(); /* dies if a guard zone was overwritten */

/* Kernels. */
struct launch_t {
    const void *function;
    std::function<void()> thread; /* the work of one thread */
    dim3 grid, block;
};
void run_kernel(const launch_t &launch);
/* " in kernel K, block (x,y,z), thread (x,y,z)", the name of the running op, or "". */
std::string where_in_kernel();
std::string function_name(const void *function);
void set_running(const char *name); /* of the op, for messages */

} // namespace emu

struct CUstream_st {
    std::shared_ptr<emu::queue_t> queue;
    unsigned flags;
    int priority;
};

struct CUevent_st {
    unsigned flags;
    emu::mark_t mark;                        /* its last record */
    std::shared_ptr<double> stamp;           /* time at which it ran, in ms */
    std::shared_ptr<emu::capture_t> capture; /* recorded in this capture … */
    emu::queue_t *capture_queue = nullptr;   /* … on this queue … */
    size_t capture_pos = 0;                  /* … after this many of its nodes */
};

/* Called by the launchers of kernels. */
cudaError_t emu_launch(const cudaLaunchConfig_t *config, const void *function, std::function<void()> thread);

#endif
