/* SPDX-License-Identifier: MIT */
/* Stream capture and graphs. A capture stores the ops of each of its streams. At its end the nodes are put in the order
 * in which lazy streams would run them: the ops of the last stream, and those of the others only when it waits for
 * them. */
#include <set>

#include "emu.h"

namespace emu
{

/* A node of one captured stream: an op, or a wait for the first `pos` nodes of another. */
struct node_t {
    op_t op;
    queue_t *other = nullptr;
    size_t pos = 0;
};

struct capture_t {
    unsigned long long id = 0;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    std::thread::id thread;
    bool invalid = false;
    queue_t *origin = nullptr;
    std::vector<std::shared_ptr<queue_t>> joined;
    std::map<queue_t *, std::vector<node_t>> nodes;
    std::map<queue_t *, size_t> ordered;
};

} // namespace emu

struct CUgraphNode_st {
    emu::op_t op;
};
struct CUgraph_st {
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
    std::vector<std::shared_ptr<CUgraphNode_st>> nodes;
};

namespace emu
{
namespace
{

std::set<std::shared_ptr<capture_t>> active;

void order(capture_t *capture, queue_t *queue, size_t pos, CUgraph_st *graph)
{
    while (capture->ordered[queue] < pos) {
        node_t &node = capture->nodes[queue][capture->ordered[queue]];
        if (node.other) order(capture, node.other, node.pos, graph);
        else graph->nodes.push_back(std::make_shared<CUgraphNode_st>(CUgraphNode_st{node.op}));
        capture->ordered[queue]++;
    }
}

} // namespace

bool capture_forbids()
{
    bool any = false;
    for (auto &c : active) {
        bool own = c->thread == std::this_thread::get_id();
        if (c->mode == cudaStreamCaptureModeRelaxed || (c->mode == cudaStreamCaptureModeThreadLocal && !own)) continue;
        c->invalid = any = true;
    }
    return any;
}

cudaError_t capture_add(queue_t *queue, op_t op)
{
    static long n_captured;
    if (queue->capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
    if (++n_captured == env_number("DPTRAIN_EMU_FAIL_CAPTURE", 0)) {
        queue->capture->invalid = true;
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    node_t node;
    node.op = std::move(op);
    queue->capture->nodes[queue].push_back(std::move(node));
    return cudaSuccess;
}

cudaError_t capture_record(const std::shared_ptr<queue_t> &queue, cudaEvent_t event)
{
    if (queue->capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
    event->capture = queue->capture;
    event->capture_queue = queue.get();
    event->capture_pos = queue->capture->nodes[queue.get()].size();
    return cudaSuccess;
}

cudaError_t capture_wait(const std::shared_ptr<queue_t> &queue, cudaEvent_t event)
{
    std::shared_ptr<capture_t> capture = event->capture;
    if (!capture) {
        queue->capture->invalid = true;
        return fail(cudaErrorStreamCaptureIsolation);
    }
    if (queue->capture && queue->capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
    if (!active.count(capture)) return fail(cudaErrorCapturedEvent);
    if (capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
    if (queue->capture && queue->capture != capture) {
        queue->capture->invalid = capture->invalid = true;
        return fail(cudaErrorStreamCaptureMerge);
    }
    if (!queue->capture) {
        queue->capture = capture;
        capture->joined.push_back(queue);
    }
    if (event->capture_queue == queue.get()) return cudaSuccess;
    node_t node;
    node.other = event->capture_queue;
    node.pos = event->capture_pos;
    capture->nodes[queue.get()].push_back(std::move(node));
    return cudaSuccess;
}

} // namespace emu

using namespace emu;

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    static unsigned long long n_captures;
    cudaError_t error = usable();
    if (error) return error;
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue) return fail(cudaErrorInvalidResourceHandle);
    if (stream == nullptr || stream == cudaStreamLegacy) return fail(cudaErrorStreamCaptureUnsupported);
    if (queue->capture) return fail(cudaErrorIllegalState);
    auto capture = std::make_shared<capture_t>();
    capture->id = ++n_captures;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = queue.get();
    capture->joined.push_back(queue);
    queue->capture = capture;
    active.insert(capture);
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!graph) return fail(cudaErrorInvalidValue);
    *graph = nullptr;
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue) return fail(cudaErrorInvalidResourceHandle);
    std::shared_ptr<capture_t> capture = queue->capture;
    if (!capture) return fail(cudaErrorIllegalState);
    if (capture->origin != queue.get()) return fail(cudaErrorStreamCaptureUnmatched);
    if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id())
        return fail(cudaErrorStreamCaptureWrongThread);
    for (auto &q : capture->joined) q->capture.reset();
    active.erase(capture);
    if (capture->invalid) return fail(cudaErrorStreamCaptureInvalidated);
    auto made = std::make_unique<CUgraph_st>();
    order(capture.get(), queue.get(), capture->nodes[queue.get()].size(), made.get());
    for (auto &list : capture->nodes)
        for (size_t i = capture->ordered[list.first]; i < list.second.size(); i++)
            if (!list.second[i].other) return fail(cudaErrorStreamCaptureUnjoined);
    *graph = made.release();
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *status)
{
    cudaError_t error = usable();
    if (error) return error;
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue || !status) return fail(cudaErrorInvalidValue);
    *status = !queue->capture           ? cudaStreamCaptureStatusNone
              : queue->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                        : cudaStreamCaptureStatusActive;
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                                     const cudaGraphEdgeData **edges, size_t *n)
#else
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus *status, unsigned long long *id,
                                     cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *n)
#endif
{
    cudaError_t error = cudaStreamIsCapturing(stream, status);
    if (error) return error;
    if (graph || dependencies) return fail(cudaErrorNotSupported); /* the graph is built at the end of the capture */
#if CUDART_VERSION >= 13000
    if (edges) return fail(cudaErrorNotSupported);
#endif
    if (n) *n = 0;
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (id && queue->capture) *id = queue->capture->id;
    return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode)
{
    *mode = cudaStreamCaptureModeGlobal;
    return usable();
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!exec || !graph) return fail(cudaErrorInvalidValue);
    *exec = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags)
{
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t)
{
    return exec ? usable() : fail(cudaErrorInvalidValue);
}

/* DPTRAIN_EMU_LAUNCHES: whether the host waited for the graph launched before. The state mutex is held. */
static void note_launch(const mark_t &end)
{
    static mark_t before;
    const char *path = std::getenv("DPTRAIN_EMU_LAUNCHES");
    bool idle = !before.queue || before.queue->done >= before.seq;
    before = end;
    std::FILE *file = path ? std::fopen(path, "a") : nullptr;
    if (!file) return;
    std::fputs(idle ? "idle\n" : "busy\n", file);
    std::fclose(file);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!exec) return fail(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    if (!queue) return fail(cudaErrorInvalidResourceHandle);
    if (queue->capture) return fail(cudaErrorStreamCaptureUnsupported); /* a graph inside a graph */
    for (auto &node : exec->nodes) {
        op_t op = node->op;
        if (op.records) {
            record_event(queue, op.records);
            continue;
        }
        if (op.awaits && op.awaits->mark.queue) op.marks.push_back(op.awaits->mark);
        push(queue, std::move(op));
    }
    note_launch({queue, queue->tail});
    return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *n)
{
    if (!graph || !n) return fail(cudaErrorInvalidValue);
    size_t room = nodes ? *n : 0;
    for (size_t i = 0; i < room; i++) nodes[i] = i < graph->nodes.size() ? graph->nodes[i].get() : nullptr;
    if (!nodes || *n > graph->nodes.size()) *n = graph->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    if (!graph) return fail(cudaErrorInvalidValue);
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    if (!exec) return fail(cudaErrorInvalidValue);
    delete exec;
    return cudaSuccess;
}
