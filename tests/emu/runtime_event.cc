/* SPDX-License-Identifier: MIT */
/* Events: marks in a stream's work. */
#include <chrono>

#include "emu.h"

using namespace emu;

static double now_ms()
{
    using namespace std::chrono;
    return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!event) return fail(cudaErrorInvalidResourceHandle);
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue) return fail(cudaErrorInvalidResourceHandle);
    op_t op;
    op.name = "cudaStreamWaitEvent";
    if (queue->capture && flags == cudaEventWaitExternal) {
        op.awaits = event;
        return capture_add(queue.get(), std::move(op));
    }
    if (event->capture || (queue->capture && event->mark.queue)) return capture_wait(queue, event);
    if (!event->mark.queue) return cudaSuccess;
    op.marks.push_back(event->mark);
    push(queue, std::move(op));
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!event) return fail(cudaErrorInvalidValue);
    *event = new CUevent_st();
    (*event)->flags = flags;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event) return fail(cudaErrorInvalidResourceHandle);
    std::lock_guard<std::mutex> lock(state_mutex());
    delete event;
    return cudaSuccess;
}

namespace emu
{

/* Called also when a graph with such a node is launched. */
void record_event(const std::shared_ptr<queue_t> &queue, cudaEvent_t event)
{
    auto stamp = std::make_shared<double>(0.0);
    op_t op;
    op.name = "cudaEventRecord";
    op.run = [stamp] { *stamp = now_ms(); };
    event->stamp = stamp;
    event->capture.reset();
    event->mark = push(queue, std::move(op));
}

} // namespace emu

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    cudaError_t error = usable();
    if (error) return error;
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue || !event) return fail(cudaErrorInvalidResourceHandle);
    if (queue->capture && flags == cudaEventRecordExternal) {
        op_t op;
        op.name = "cudaEventRecord";
        op.records = event;
        return capture_add(queue.get(), std::move(op));
    }
    if (queue->capture) return capture_record(queue, event);
    record_event(queue, event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

static cudaError_t event_mark(cudaEvent_t event, mark_t *mark)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!event) return fail(cudaErrorInvalidResourceHandle);
    std::lock_guard<std::mutex> lock(state_mutex());
    if (event->capture) {
        capture_forbids();
        return fail(cudaErrorCapturedEvent);
    }
    *mark = event->mark;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    mark_t mark;
    cudaError_t error = event_mark(event, &mark);
    if (error) return error;
    run_until(mark, false);
    return sticky() ? fail(sticky()) : cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    mark_t mark;
    cudaError_t error = event_mark(event, &mark);
    if (error) return error;
    bool was_done = has_run(mark);
    run_until(mark, true);
    if (sticky()) return fail(sticky());
    return was_done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    mark_t a, b;
    cudaError_t error = event_mark(start, &a);
    if (!error) error = event_mark(end, &b);
    if (error) return error;
    if ((start->flags | end->flags) & cudaEventDisableTiming || !a.queue || !b.queue)
        return fail(cudaErrorInvalidResourceHandle);
    if (!has_run(a) || !has_run(b)) return cudaErrorNotReady;
    *ms = static_cast<float>(*end->stamp - *start->stamp);
    return cudaSuccess;
}
