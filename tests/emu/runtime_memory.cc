/* SPDX-License-Identifier: MIT */
/* Device memory: an arena that is inaccessible unless the emulator is executing, with guard zones around every
 * allocation; pinned host memory; copies. */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <csignal>
#include <sys/mman.h>
#include <unistd.h>

#include "emu.h"

#if EMU_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace emu
{
namespace
{

constexpr size_t GUARD = 512, ALIGN = 512;
constexpr unsigned char GUARD_BYTE = 0xFB, FRESH_BYTE = 0xFF;

std::mutex mutex;
uint8_t *arena, *arena_end, *arena_high; /* high: end of the part ever used */
size_t device_size;
std::map<uint8_t *, size_t> blocks; /* size of each allocation, by its first byte */
std::map<const uint8_t *, size_t> pinned;
std::vector<size_t> used;
int key = -1; /* protection key; < 0: mprotect is used */
int n_open;
thread_local int depth;
struct sigaction old_segv, old_bus;

void handler(int signal, siginfo_t *info, void *)
{
    const uint8_t *p = static_cast<const uint8_t *>(info->si_addr);
    if (arena && p >= arena && p < arena_end && !depth)
        std::fprintf(stderr, "emulated CUDA: host code touched device memory at %p\n", static_cast<const void *>(p));
    else if (depth)
        std::fprintf(stderr, "emulated CUDA: a bad address, %p%s\n", static_cast<const void *>(p), where_in_kernel().c_str());
    sigaction(SIGSEGV, &old_segv, nullptr);
    sigaction(SIGBUS, &old_bus, nullptr);
    (void)signal; /* the instruction faults again and reaches the previous handler */
}

void need_alternate_stack()
{
    stack_t now;
    if (sigaltstack(nullptr, &now) == 0 && !(now.ss_flags & SS_DISABLE)) return;
    static thread_local char memory[64 << 10];
    stack_t own = {};
    own.ss_sp = memory;
    own.ss_size = sizeof memory;
    sigaltstack(&own, nullptr);
}

void make_arena()
{
    if (arena) return;
    device_size = (static_cast<size_t>(device_memory()) + 4095) / 4096 * 4096;
    size_t size = device_size * static_cast<size_t>(device_count());
    used.resize(static_cast<size_t>(device_count()));
    void *map = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) die("no address space for %zu bytes of device memory", size);
    arena = arena_high = static_cast<uint8_t *>(map);
    arena_end = arena + size;
    key = std::getenv("DPTRAIN_EMU_MPROTECT") ? -1 : pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key >= 0 && pkey_mprotect(arena, size, PROT_READ | PROT_WRITE, key)) key = -1;
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &old_segv);
    sigaction(SIGBUS, &action, &old_bus);
}

void poison(uint8_t *p, size_t n, bool on)
{
#if EMU_ASAN
    if (on) __asan_poison_memory_region(p, n);
    else __asan_unpoison_memory_region(p, n);
#else
    (void)p, (void)n, (void)on;
#endif
}

size_t padded(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* A block's guards: one before it, and one after its last byte. The mutex is held. */
void check_block(uint8_t *p, size_t n)
{
    uint8_t *zones[2] = {p - GUARD, p + n};
    size_t sizes[2] = {GUARD, padded(n) - n + GUARD};
    for (int z = 0; z < 2; z++) {
        poison(zones[z], sizes[z], false);
        for (size_t i = 0; i < sizes[z]; i++)
            if (zones[z][i] != GUARD_BYTE)
                die("a write %s an allocation of %zu bytes: %td bytes from its %s", z ? "beyond" : "before", n,
                    z ? static_cast<ptrdiff_t>(i) : static_cast<ptrdiff_t>(GUARD - i), z ? "end" : "start");
        poison(zones[z], sizes[z], true);
    }
}

std::map<uint8_t *, size_t>::iterator block_of(const void *p)
{
    uint8_t *at = static_cast<uint8_t *>(const_cast<void *>(p));
    auto it = blocks.upper_bound(at);
    if (it == blocks.begin()) return blocks.end();
    --it;
    return at < it->first + std::max<size_t>(it->second, 1) ? it : blocks.end();
}

bool in_pinned(const void *p, size_t n)
{
    auto it = pinned.upper_bound(static_cast<const uint8_t *>(p));
    if (it == pinned.begin()) return false;
    --it;
    return static_cast<const uint8_t *>(p) + n <= it->first + it->second;
}

} // namespace

void access_begin()
{
    if (depth++) return;
    need_alternate_stack();
    std::lock_guard<std::mutex> lock(mutex);
    if (!arena) return;
    if (key >= 0) pkey_set(key, 0);
    else if (n_open++ == 0 && arena_high > arena)
        mprotect(arena, static_cast<size_t>(arena_high - arena), PROT_READ | PROT_WRITE);
}

void access_end()
{
    if (--depth) return;
    std::lock_guard<std::mutex> lock(mutex);
    if (!arena) return;
    if (key >= 0) pkey_set(key, PKEY_DISABLE_ACCESS);
    else if (--n_open == 0 && arena_high > arena) mprotect(arena, static_cast<size_t>(arena_high - arena), PROT_NONE);
}

bool in_device(const void *p)
{
    const uint8_t *at = static_cast<const uint8_t *>(p);
    return arena && at >= arena && at < arena_end;
}

bool device_range(const void *p, size_t n)
{
    std::lock_guard<std::mutex> lock(mutex);
    auto it = block_of(p);
    return it != blocks.end() && static_cast<const uint8_t *>(p) + n <= it->first + it->second;
}

bool pinned_range(const void *p, size_t n)
{
    std::lock_guard<std::mutex> lock(mutex);
    return in_pinned(p, n);
}

void need_range(const char *op, const char *what, const void *p, size_t n)
{
    if (n == 0 || device_range(p, n) || pinned_range(p, n)) return;
    die("%s: %s, %zu bytes at %p, is not inside an allocation of the device", op, what, n, p);
}

void check_guards()
{
    access_t open;
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &b : blocks) check_block(b.first, b.second);
}

} // namespace emu

using namespace emu;

cudaError_t cudaMalloc(void **p, size_t n)
{
    if (!p) return fail(cudaErrorInvalidValue);
    *p = nullptr;
    cudaError_t error = usable();
    if (error) return error;
    {
        std::lock_guard<std::mutex> lock(state_mutex());
        if (capture_forbids()) return fail(cudaErrorStreamCaptureUnsupported);
    }
    if (n == 0) return cudaSuccess;
    {
        std::lock_guard<std::mutex> lock(mutex);
        make_arena();
    }
    access_t open;
    std::lock_guard<std::mutex> lock(mutex);
    size_t d = static_cast<size_t>(current_device()), whole = padded(n) + 2 * GUARD;
    if (n > device_size) return fail(cudaErrorMemoryAllocation);
    uint8_t *at = arena + d * device_size, *end = at + device_size;
    for (auto it = blocks.lower_bound(at); it != blocks.end() && it->first < end; ++it) {
        if (static_cast<size_t>(it->first - GUARD - at) >= whole) break;
        at = it->first + padded(it->second) + GUARD;
    }
    if (static_cast<size_t>(end - at) < whole) return fail(cudaErrorMemoryAllocation);
    if (at + whole > arena_high) {
        if (key < 0) mprotect(arena_high, static_cast<size_t>(at + whole - arena_high) + 4096, PROT_READ | PROT_WRITE);
        arena_high = arena + (static_cast<size_t>(at + whole - arena) + 4095) / 4096 * 4096;
    }
    poison(at, whole, false);
    std::memset(at, GUARD_BYTE, GUARD);
    std::memset(at + GUARD, FRESH_BYTE, n);
    std::memset(at + GUARD + n, GUARD_BYTE, whole - GUARD - n);
    blocks[at + GUARD] = n;
    used[d] += whole;
    poison(at, GUARD, true);
    poison(at + GUARD + n, whole - GUARD - n, true);
    *p = at + GUARD;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    cudaError_t error = p ? cudaDeviceSynchronize() : usable(); /* as the real call does */
    if (error || !p) return error;
    access_t open;
    std::lock_guard<std::mutex> lock(mutex);
    auto it = blocks.find(static_cast<uint8_t *>(p));
    if (it == blocks.end()) return fail(cudaErrorInvalidValue);
    check_block(it->first, it->second);
    std::memset(it->first, FRESH_BYTE, it->second); /* reads after the free give NaN */
    poison(it->first, it->second, true);
    used[static_cast<size_t>(it->first - arena) / device_size] -= padded(it->second) + 2 * GUARD;
    blocks.erase(it);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    cudaError_t error = usable();
    if (error) return error;
    std::lock_guard<std::mutex> lock(mutex);
    make_arena();
    *total = device_size;
    *free_bytes = device_size - used[static_cast<size_t>(current_device())];
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **p, size_t n, unsigned)
{
    if (!p) return fail(cudaErrorInvalidValue);
    *p = nullptr;
    cudaError_t error = usable();
    if (error) return error;
    if (n == 0) return cudaSuccess;
    void *memory = std::aligned_alloc(4096, (n + 4095) / 4096 * 4096);
    if (!memory) return fail(cudaErrorMemoryAllocation);
    std::memset(memory, FRESH_BYTE, n);
    std::lock_guard<std::mutex> lock(mutex);
    pinned[static_cast<uint8_t *>(memory)] = n;
    *p = memory;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **p, size_t n)
{
    return cudaHostAlloc(p, n, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
    cudaError_t error = p ? cudaDeviceSynchronize() : cudaSuccess;
    if (error || !p) return error;
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (!pinned.erase(static_cast<uint8_t *>(p))) return fail(cudaErrorInvalidValue);
    }
    std::free(p);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t n, unsigned)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!p || !n || in_device(p)) return fail(cudaErrorInvalidValue);
    std::lock_guard<std::mutex> lock(mutex);
    const uint8_t *at = static_cast<const uint8_t *>(p);
    for (auto &range : pinned)
        if (at < range.first + range.second && range.first < at + n) return fail(cudaErrorHostMemoryAlreadyRegistered);
    pinned[at] = n;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    cudaError_t error = cudaDeviceSynchronize();
    if (error) return error;
    std::lock_guard<std::mutex> lock(mutex);
    return pinned.erase(static_cast<const uint8_t *>(p)) ? cudaSuccess : fail(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *p)
{
    cudaError_t error = usable();
    if (error) return error;
    if (!attributes) return fail(cudaErrorInvalidValue);
    std::memset(attributes, 0, sizeof *attributes);
    attributes->device = -1;
    attributes->type = cudaMemoryTypeUnregistered;
    if (in_device(p)) {
        if (!device_range(p, 1)) return cudaSuccess;
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = static_cast<int>(static_cast<size_t>(static_cast<const uint8_t *>(p) - arena) / device_size);
        attributes->devicePointer = const_cast<void *>(p);
    } else if (pinned_range(p, 1)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->device = current_device();
        attributes->devicePointer = attributes->hostPointer = const_cast<void *>(p);
    } else {
        attributes->hostPointer = const_cast<void *>(p);
    }
    return cudaSuccess;
}
