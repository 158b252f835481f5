/* SPDX-License-Identifier: MIT */
/* Streams. A stream's work runs when the host waits for something, and only as far as that requires: a missing
 * dependency shows as missing data. */
#include <set>

#include "emu.h"

namespace emu
{
namespace
{

/* Held while executing: one op at a time in the process. */
std::recursive_mutex exec_mutex;
thread_local bool in_op;
std::vector<std::shared_ptr<queue_t>> queues; /* of every stream that exists or has work left */
std::set<CUstream_st *> handles;

/* The legacy default stream of a device. */
std::shared_ptr<queue_t> default_queue(int device)
{
    static std::map<int, std::shared_ptr<queue_t>> all;
    std::shared_ptr<queue_t> &q = all[device];
    if (!q) {
        q = std::make_shared<queue_t>();
        q->device = device;
        queues.push_back(q);
    }
    return q;
}

mark_t tail_of(const std::shared_ptr<queue_t> &queue)
{
    mark_t mark;
    mark.queue = queue;
    mark.seq = queue->tail;
    return mark;
}

bool run_marks(const std::vector<mark_t> &marks, bool polling)
{
    for (const mark_t &m : marks)
        if (!run_until(m, polling)) return false;
    return true;
}

void finish_front(queue_t *queue)
{
    op_t gone; /* its closure may free memory: not under the lock */
    std::lock_guard<std::mutex> lock(state_mutex());
    gone = std::move(queue->ops.front());
    queue->ops.pop_front();
    queue->done++;
}

} // namespace

std::mutex &state_mutex()
{
    static std::mutex mutex;
    return mutex;
}

bool executing()
{
    return in_op;
}

bool has_run(const mark_t &mark)
{
    std::lock_guard<std::mutex> lock(state_mutex());
    return !mark.queue || mark.queue->done >= mark.seq;
}

bool run_until(const mark_t &mark, bool polling)
{
    if (has_run(mark)) return true;
    std::unique_lock<std::recursive_mutex> exec(exec_mutex, std::defer_lock);
    if (!polling) exec.lock();
    else if (!exec.try_lock()) return false;
    access_t open;
    bool all = true;
    while (!has_run(mark)) {
        op_t op;
        {
            std::lock_guard<std::mutex> lock(state_mutex());
            op = mark.queue->ops.front();
        }
        if (!run_marks(op.marks, polling) || (polling && op.ready && !sticky() && !op.ready())) {
            all = false;
            break;
        }
        if (op.run && !sticky()) {
            set_running(op.name);
            in_op = true;
            op.run();
            in_op = false;
            set_running("");
        }
        finish_front(mark.queue.get());
    }
    return all;
}

std::shared_ptr<queue_t> queue_of(cudaStream_t stream)
{
    if (stream == nullptr || stream == cudaStreamLegacy) return default_queue(current_device());
    return handles.count(stream) ? stream->queue : nullptr;
}

std::vector<std::shared_ptr<queue_t>> queues_of(int device)
{
    std::vector<std::shared_ptr<queue_t>> some;
    for (auto &q : queues)
        if (q->device == device) some.push_back(q);
    return some;
}

mark_t push(const std::shared_ptr<queue_t> &queue, op_t op)
{
    std::shared_ptr<queue_t> standard = default_queue(queue->device);
    if (queue == standard) {
        for (auto &q : queues)
            if (q->device == queue->device && q->blocking && q != queue) op.marks.push_back(tail_of(q));
    } else if (queue->blocking && standard->tail > standard->done) {
        op.marks.push_back(tail_of(standard));
    }
    auto queued = op.queued;
    queue->ops.push_back(std::move(op));
    queue->tail++;
    mark_t mark = tail_of(queue);
    if (queued) queued(mark);
    return mark;
}

cudaError_t submit(cudaStream_t stream, op_t op)
{
    cudaError_t error = usable();
    if (error) return error;
    if (executing()) die("an op that runs on the device calls the host's interface: %s", op.name);
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue) return fail(cudaErrorInvalidResourceHandle);
    if (queue->capture) return capture_add(queue.get(), std::move(op));
    push(queue, std::move(op));
    return cudaSuccess;
}

} // namespace emu

using namespace emu;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!stream || (flags & ~unsigned{cudaStreamNonBlocking})) return fail(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(state_mutex());
    CUstream_st *s = new CUstream_st{std::make_shared<queue_t>(), flags, priority};
    s->queue->device = current_device();
    s->queue->blocking = !(flags & cudaStreamNonBlocking);
    queues.push_back(s->queue);
    handles.insert(s);
    *stream = s;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    std::lock_guard<std::mutex> lock(state_mutex());
    if (!handles.erase(stream)) return fail(cudaErrorInvalidResourceHandle);
    delete stream; /* its queued work still runs when the host waits for the device */
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    *priority = stream ? stream->priority : 0;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
    *flags = stream ? stream->flags : 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return usable();
}

static cudaError_t stream_mark(cudaStream_t stream, bool waits, mark_t *mark)
{
    cudaError_t error = usable();
    if (error) return error;
    if (executing()) die("a wait inside of an op of the device");
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue) return fail(cudaErrorInvalidResourceHandle);
    if (queue->capture || (!stream && capture_forbids())) {
        capture_forbids();
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    /* Waiting for the default stream includes everything that it would wait for. */
    if (waits && queue == default_queue(queue->device)) push(queue, op_t());
    *mark = tail_of(queue);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    mark_t mark;
    cudaError_t error = stream_mark(stream, true, &mark);
    if (error) return error;
    run_until(mark, false);
    return sticky() ? fail(sticky()) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    mark_t mark;
    cudaError_t error = stream_mark(stream, false, &mark);
    if (error) return error;
    bool was_done = has_run(mark);
    run_until(mark, true);
    if (sticky()) return fail(sticky());
    return was_done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = usable();
    if (error) return error;
    if (executing()) die("cudaDeviceSynchronize inside of an op of the device");
    std::vector<mark_t> marks;
    {
        std::lock_guard<std::mutex> lock(state_mutex());
        if (capture_forbids()) return fail(cudaErrorStreamCaptureUnsupported);
        for (auto &q : queues_of(current_device())) marks.push_back(tail_of(q));
    }
    run_marks(marks, false);
    {
        std::lock_guard<std::recursive_mutex> exec(exec_mutex);
        check_guards();
    }
    std::lock_guard<std::mutex> lock(state_mutex());
    for (size_t i = queues.size(); i-- > 0;) /* queues of destroyed streams */
        if (queues[i].use_count() == 1 && queues[i]->done == queues[i]->tail) queues.erase(queues.begin() + static_cast<long>(i));
    return sticky() ? fail(sticky()) : cudaSuccess;
}
