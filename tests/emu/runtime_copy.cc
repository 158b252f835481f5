/* SPDX-License-Identifier: MIT */
/* Copies and fills. Pinned memory is read and written when the copy runs. Pageable memory is read at the call, as CUDA
 * stages it; a copy to it waits. */
#include <cstring>

#include "emu.h"

using namespace emu;

namespace
{

bool matches(const void *dst, const void *src, cudaMemcpyKind kind)
{
    bool to = in_device(dst), from = in_device(src);
    switch (kind) {
    case cudaMemcpyHostToHost: return !to && !from;
    case cudaMemcpyHostToDevice: return to && !from;
    case cudaMemcpyDeviceToHost: return !to && from;
    case cudaMemcpyDeviceToDevice: return to && from;
    default: return true;
    }
}

bool whole(const void *p, size_t n)
{
    return !in_device(p) || device_range(p, n);
}

bool capturing(cudaStream_t stream)
{
    std::lock_guard<std::mutex> lock(state_mutex());
    std::shared_ptr<queue_t> queue = queue_of(stream);
    return queue && queue->capture;
}

op_t copy_op(void *dst, const void *src, size_t n)
{
    op_t op;
    op.name = "cudaMemcpy";
    op.run = [=] {
        if (in_device(dst)) need_range("cudaMemcpy", "the destination", dst, n);
        if (in_device(src)) need_range("cudaMemcpy", "the source", src, n);
        std::memmove(dst, src, n);
    };
    return op;
}

/* Refuses a blocking copy during a capture of this thread, or of any thread in global mode. */
cudaError_t blocking_allowed()
{
    std::lock_guard<std::mutex> lock(state_mutex());
    return capture_forbids() ? fail(cudaErrorStreamCaptureUnsupported) : cudaSuccess;
}

} // namespace

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = usable();
    if (error || n == 0) return error;
    if (!dst || !src || !matches(dst, src, kind) || !whole(dst, n) || !whole(src, n)) return fail(cudaErrorInvalidValue);
    bool pageable_src = !in_device(src) && !pinned_range(src, n), pageable_dst = !in_device(dst) && !pinned_range(dst, n);
    if (!pageable_src && !pageable_dst) return submit(stream, copy_op(dst, src, n));
    if (capturing(stream)) {
        std::lock_guard<std::mutex> lock(state_mutex());
        capture_forbids();
        return fail(cudaErrorStreamCaptureUnsupported);
    }
    if (pageable_dst) {
        error = submit(stream, copy_op(dst, src, n));
        return error ? error : cudaStreamSynchronize(stream);
    }
    auto staged = std::make_shared<std::vector<char>>(static_cast<const char *>(src), static_cast<const char *>(src) + n);
    op_t op;
    op.name = "cudaMemcpy";
    op.run = [=] {
        need_range("cudaMemcpy", "the destination", dst, n);
        std::memcpy(dst, staged->data(), n);
    };
    return submit(stream, std::move(op));
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, cudaMemcpyKind kind)
{
    cudaError_t error = blocking_allowed();
    if (error) return error;
    error = cudaMemcpyAsync(dst, src, n, kind, nullptr);
    return error ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream)
{
    if (width > dst_pitch || width > src_pitch) return fail(cudaErrorInvalidPitchValue);
    for (size_t i = 0; i < height; i++) {
        cudaError_t error = cudaMemcpyAsync(static_cast<char *>(dst) + i * dst_pitch,
                                            static_cast<const char *>(src) + i * src_pitch, width, kind, stream);
        if (error) return error;
    }
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t n, cudaStream_t stream)
{
    cudaError_t error = usable();
    if (error || n == 0) return error;
    if (!in_device(p) ? !pinned_range(p, n) : !device_range(p, n)) return fail(cudaErrorInvalidValue);
    op_t op;
    op.name = "cudaMemset";
    op.run = [=] {
        need_range("cudaMemset", "the destination", p, n);
        std::memset(p, value, n);
    };
    return submit(stream, std::move(op));
}

cudaError_t cudaMemset(void *p, int value, size_t n)
{
    cudaError_t error = blocking_allowed();
    return error ? error : cudaMemsetAsync(p, value, n, nullptr); /* the real call does not wait either */
}
