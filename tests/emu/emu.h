/* SPDX-License-Identifier: MIT */
/* What the parts of the emulated device share: streams as queues of closures, the device memory, the executor of
 * kernels. Test code: a broken rule of CUDA ends the program with a message, it does not try to go on. */
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

/* One thing that a stream does. Without `run` it only waits for its marks. */
struct op_t {
    const char *name = "";
    std::function<void()> run;
    std::function<bool()> ready; /* absent: at any time; else asked where the host only polls */
    std::function<void(const mark_t &)> queued; /* told where it stands, each time it is queued */
    std::vector<mark_t> marks;                  /* what must have run before */
    cudaEvent_t records = nullptr;              /* an event outside of a graph that this node records */
    cudaEvent_t awaits = nullptr;               /* … that it waits for */
};

/* A stream's work; it outlives the stream's handle. */
struct queue_t {
    int device = 0;
    bool blocking = true; /* waits for the legacy default stream, and that for it */
    std::deque<op_t> ops;
    uint64_t done = 0, tail = 0;        /* ops that have run; ops that were queued */
    std::shared_ptr<capture_t> capture; /* being recorded */
};

/* State that calls change; held shortly. Never taken by who holds it. */
std::mutex &state_mutex();

/* Queues (or records, in a capturing stream) one op. */
cudaError_t submit(cudaStream_t stream, op_t op);
/* Queues; the state mutex is held. */
mark_t push(const std::shared_ptr<queue_t> &queue, op_t op);
/* Runs what `mark` demands; false: something is not ready, which only polling answers. */
bool run_until(const mark_t &mark, bool polling);
bool has_run(const mark_t &mark);
bool executing(); /* this thread is inside an op */

std::shared_ptr<queue_t> queue_of(cudaStream_t stream); /* null: not a stream */
std::vector<std::shared_ptr<queue_t>> queues_of(int device);

/* Captures. The state mutex is held for both. */
cudaError_t capture_add(queue_t *queue, op_t op);
bool capture_forbids(); /* a call that may not be made during a capture was made: the captures are void */
/* The event was recorded in a capture / wait for it there. */
cudaError_t capture_record(const std::shared_ptr<queue_t> &queue, cudaEvent_t event);
cudaError_t capture_wait(const std::shared_ptr<queue_t> &queue, cudaEvent_t event);

/* Also where a graph with such a node is launched. The state mutex is held. */
void record_event(const std::shared_ptr<queue_t> &queue, cudaEvent_t event);

/* Errors. `fail` notes the thread's last error and returns it; the sticky one ends all work. */
cudaError_t fail(cudaError_t error);
void set_sticky(cudaError_t error);
cudaError_t sticky();
cudaError_t usable(); /* there is a device and no sticky error */
[[noreturn]] void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
int64_t env_number(const char *name, int64_t fallback);

/* Devices. */
int device_count();
int current_device();
int64_t device_memory();
uint64_t device_id(int device); /* of the host's virtual GPU: the same in each process */

/* Device memory can be touched between these two, by this thread. They nest. */
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
/* [p, p + n) lies inside one allocation of a device. */
bool device_range(const void *p, size_t n);
bool pinned_range(const void *p, size_t n);
/* Dies with the names of the op and of the buffer. */
void need_range(const char *op, const char *what, const void *p, size_t n);
void check_guards(); /* dies where a guard zone was written to */

/* Kernels. */
struct launch_t {
    const void *function;
    std::function<void()> thread; /* one thread's work */
    dim3 grid, block;
};
void run_kernel(const launch_t &launch);
/* " in kernel K, block (x,y,z), thread (x,y,z)", or the name of the op that runs, or empty. */
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
    std::shared_ptr<double> stamp;           /* when that ran, in ms */
    std::shared_ptr<emu::capture_t> capture; /* it was recorded while capturing … */
    emu::queue_t *capture_queue = nullptr;   /* … on this queue … */
    size_t capture_pos = 0;                  /* … after so many of its nodes */
};

/* What a kernel's file calls. */
cudaError_t emu_launch(const cudaLaunchConfig_t *config, const void *function, std::function<void()> thread);

#endif
