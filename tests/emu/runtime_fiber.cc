/* SPDX-License-Identifier: MIT */
/* Runs kernels: blocks one after another, the threads of a block on separate stacks. A stack runs one thread after
 * another until one of them must wait for others, so a kernel that never synchronizes needs a single stack. Threads run
 * in ascending order in one block and in descending order in the next, and in every other pair of blocks a warp runs up
 * to a barrier before the next one starts: without a needed barrier, a thread reads values that are not written yet. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>

#include "emu.h"
#include "cuda_runtime.h"

#if EMU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

/* Saves callee-saved registers and the stack pointer, and continues on the other stack. */
extern "C" void emu_switch(void **old_sp, void *new_sp);
#if defined(__x86_64__)
asm(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size emu_switch,.-emu_switch\n.section .note.GNU-stack,\"\",@progbits\n.text\n");
#elif defined(__aarch64__)
asm(".text\n.globl emu_switch\n.type emu_switch,%function\nemu_switch:\n"
    "sub sp,sp,#160\n"
    "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\n"
    "stp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
    "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
    "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\n"
    "ldp x29,x30,[sp,#80]\nldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
    "add sp,sp,#160\nret\n"
    ".size emu_switch,.-emu_switch\n");
#else
#error "the emulator switches stacks on x86-64 and aarch64"
#endif

namespace emu
{
namespace
{

constexpr size_t STACK_SIZE = EMU_ASAN ? 512 << 10 : 128 << 10;
constexpr int MAX_THREADS = 1024, WARP = 32;

struct fiber_t {
    void *sp = nullptr;
    char *stack = nullptr;
    void *fake = nullptr; /* the address sanitizer's */
    int thread = -1;
};

enum state_t { NEW, RUNNING, AT_BARRIER, AT_WARP, READY, DONE };
const char *const state_names[] = {"has not started", "runs", "waits at", "waits for its warp", "runs", "has returned"};

struct thread_t {
    state_t state;
    fiber_t *fiber;
    const char *file; /* of the barrier */
    int line;
    unsigned mask; /* of a warp synchronization: the value it passed, then the one it gets */
    emu_warp_op op;
    int argument, width;
    uint64_t value;
};

/* The running block. There is only one: its caller holds the executor's lock. */
struct block_t {
    const launch_t *launch = nullptr;
    bool active = false, descending = false, eager = false;
    int n = 0, n_started = 0, n_done = 0, n_at_barrier = 0;
    emu_block_op barrier_op = EMU_BARRIER;
    int passed = 0, passed_result = 0;
    unsigned warp_arrived[MAX_THREADS / WARP] = {};
    thread_t threads[MAX_THREADS] = {};
    std::deque<int> ready;
    std::vector<fiber_t *> idle, all;
    fiber_t *now = nullptr; /* null: the scheduler */
    fiber_t host;           /* the stack of the scheduler */
    const void *host_bottom = nullptr;
    size_t host_size = 0;
};
block_t &block = *new block_t; /* never freed: ops may run while the process exits */

const char *running_op = "";

void set_thread(int t)
{
    unsigned i = static_cast<unsigned>(t), x = blockDim.x, y = blockDim.y;
    threadIdx.x = i % x;
    threadIdx.y = i / x % y;
    threadIdx.z = i / x / y;
}

void switch_to(fiber_t *from, fiber_t *to)
{
#if EMU_ASAN
    const void *bottom = to->stack ? to->stack : block.host_bottom;
    __sanitizer_start_switch_fiber(&from->fake, bottom, to->stack ? STACK_SIZE : block.host_size);
#endif
    emu_switch(&from->sp, to->sp);
#if EMU_ASAN
    const void *old = nullptr;
    size_t old_size = 0;
    __sanitizer_finish_switch_fiber(from->fake, &old, &old_size);
#endif
}

[[noreturn]] void fiber_main()
{
#if EMU_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &block.host_bottom, &block.host_size);
#endif
    fiber_t *self = block.now;
    for (;;) {
        while (block.n_started < block.n) {
            int order = block.n_started++;
            int t = block.descending ? block.n - 1 - order : order;
            self->thread = t;
            block.threads[t].fiber = self;
            block.threads[t].state = RUNNING;
            set_thread(t);
            block.launch->thread();
            block.threads[t].state = DONE;
            block.n_done++;
        }
        self->thread = -1;
        block.idle.push_back(self);
        switch_to(self, &block.host);
    }
}

fiber_t *idle_fiber()
{
    if (!block.idle.empty()) {
        fiber_t *f = block.idle.back();
        block.idle.pop_back();
        return f;
    }
    long page = 4096;
    void *map = mmap(nullptr, STACK_SIZE + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, page, PROT_NONE)) die("no memory for the stack of a thread");
    fiber_t *f = new fiber_t;
    block.all.push_back(f);
    f->stack = static_cast<char *>(map) + page;
    size_t shift = block.all.size() * 1088 % 16384; /* otherwise all stacks would compete for a few cache lines */
    void **top = reinterpret_cast<void **>(f->stack + STACK_SIZE - shift);
#if defined(__x86_64__)
    top -= 2;
    *top = reinterpret_cast<void *>(fiber_main); /* return address of emu_switch; six registers below */
    top -= 6;
    std::fill(top, top + 6, nullptr);
#else
    top -= 20;
    std::fill(top, top + 20, nullptr);
    top[11] = reinterpret_cast<void *>(fiber_main); /* x30 */
#endif
    f->sp = top;
    return f;
}

std::string place(int t)
{
    unsigned i = static_cast<unsigned>(t), x = blockDim.x, y = blockDim.y;
    char text[64];
    std::snprintf(text, sizeof text, "(%u,%u,%u)", i % x, i / x % y, i / x / y);
    return text;
}

std::string kernel_and_block()
{
    char text[96];
    std::snprintf(text, sizeof text, ", block (%u,%u,%u)", blockIdx.x, blockIdx.y, blockIdx.z);
    return " in kernel " + function_name(block.launch->function) + text;
}

std::string doing(const thread_t &t)
{
    std::string text = state_names[t.state];
    if (t.state == AT_BARRIER) {
        const char *slash = std::strrchr(t.file, '/');
        text += std::string(" __syncthreads at ") + (slash ? slash + 1 : t.file) + ":" + std::to_string(t.line);
    }
    return text;
}

[[noreturn]] void diverged(const char *what, int a, int b)
{
    std::string ka = kernel_and_block();
    die("%s%s: thread %s %s, while thread %s %s", what, ka.c_str(), place(a).c_str(), doing(block.threads[a]).c_str(),
        place(b).c_str(), doing(block.threads[b]).c_str());
}

void make_ready(int t)
{
    block.threads[t].state = READY;
    block.ready.push_back(t);
}

/* Suspends this thread until the scheduler resumes it. */
void wait_here(int t)
{
    fiber_t *self = block.now;
    switch_to(self, &block.host);
    block.threads[t].state = RUNNING;
    set_thread(t);
}

void open_barrier()
{
    for (int i = 1; i < block.n; i++)
        if (block.threads[i].line != block.threads[0].line ||
            (block.threads[i].file != block.threads[0].file && std::strcmp(block.threads[i].file, block.threads[0].file)))
            diverged("threads wait at different barriers", 0, i);
    block.passed_result = block.passed;
    block.passed = block.n_at_barrier = 0;
    for (int order = 0; order < block.n; order++) make_ready(block.descending ? block.n - 1 - order : order);
}

uint64_t shuffled(const thread_t *warp, unsigned mask, int lane, const uint64_t *values)
{
    const thread_t &t = warp[lane];
    int first = lane & ~(t.width - 1), last = first + t.width - 1, from = lane;
    switch (t.op) {
    case EMU_IDX: from = first | (t.argument & (t.width - 1)); break;
    case EMU_UP: from = lane - t.argument; break;
    case EMU_DOWN: from = lane + t.argument; break;
    case EMU_XOR: from = lane ^ t.argument; break;
    default: break;
    }
    if (from > last || (from < first && t.op != EMU_XOR)) from = lane;
    return (mask >> from) & 1 ? values[from] : ~uint64_t{0}; /* undefined in CUDA: NaN here */
}

void finish_warp(int w, unsigned mask)
{
    thread_t *warp = block.threads + w * WARP;
    uint64_t values[WARP], ballot = 0;
    int first = __builtin_ctz(mask);
    for (int i = 0; i < WARP; i++) {
        if (!((mask >> i) & 1)) continue;
        if (warp[i].mask != warp[first].mask || warp[i].op != warp[first].op)
            diverged("threads of a warp meet with different operations or masks", w * WARP + first, w * WARP + i);
        values[i] = warp[i].value;
        if (warp[i].value) ballot |= uint64_t{1} << i;
    }
    block.warp_arrived[w] &= ~mask;
    for (int order = 0; order < WARP; order++) {
        int i = block.descending ? WARP - 1 - order : order;
        if (!((mask >> i) & 1)) continue;
        warp[i].value = warp[i].op == EMU_BALLOT ? ballot : shuffled(warp, mask, i, values);
        make_ready(w * WARP + i);
    }
}

/* No thread can continue, and not all have returned. */
[[noreturn]] void stuck()
{
    int waits = 0;
    while (block.threads[waits].state != AT_BARRIER && block.threads[waits].state != AT_WARP) waits++;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < block.n; i++) {
            if (pass == 0 && block.threads[waits].state == AT_WARP &&
                (i / WARP != waits / WARP || !((block.threads[waits].mask >> (i % WARP)) & 1)))
                continue;
            if (block.threads[i].state != block.threads[waits].state) diverged("divergence", waits, i);
        }
    diverged("threads wait for a warp's mask that never meets", waits, waits);
}

void run_block(const launch_t &launch)
{
    block.n = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    block.n_started = block.n_done = block.n_at_barrier = block.passed = 0;
    std::fill(block.warp_arrived, block.warp_arrived + MAX_THREADS / WARP, 0u);
    for (int i = 0; i < block.n; i++) block.threads[i] = thread_t();
    block.launch = &launch;
    while (block.n_done < block.n) {
        fiber_t *next = nullptr;
        if (block.n_started < block.n && (block.ready.empty() || !block.eager)) {
            next = idle_fiber();
        } else if (!block.ready.empty()) {
            next = block.threads[block.ready.front()].fiber;
            block.ready.pop_front();
        } else {
            stuck();
        }
        block.now = next;
        switch_to(&block.host, next);
        block.now = nullptr;
    }
}

} // namespace

void run_kernel(const launch_t &launch)
{
    static unsigned launches;
    gridDim = launch.grid;
    blockDim = launch.block;
    block.active = true;
    unsigned number = launches++;
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                block.descending = number & 1;
                block.eager = number++ & 2;
                run_block(launch);
            }
    block.active = false;
    block.launch = nullptr;
}

void set_running(const char *name)
{
    running_op = name;
}

std::string where_in_kernel()
{
    if (block.active && block.launch) {
        std::string text = kernel_and_block();
        if (block.now && block.now->thread >= 0) text += ", thread " + place(block.now->thread);
        return text;
    }
    return *running_op ? std::string(" in ") + running_op : std::string();
}

} // namespace emu

using emu::block;

int emu_block_meet(emu_block_op op, int predicate, const char *file, int line)
{
    int t = block.now->thread;
    emu::thread_t &self = block.threads[t];
    self.state = emu::AT_BARRIER;
    self.file = file;
    self.line = line;
    if (op == EMU_COUNT && predicate) block.passed++;
    if (++block.n_at_barrier == block.n) emu::open_barrier();
    emu::wait_here(t);
    return block.passed_result;
}

uint64_t emu_warp_meet(emu_warp_op op, unsigned mask, uint64_t value, int argument, int width)
{
    int t = block.now->thread, w = t / emu::WARP, lanes = std::min(emu::WARP, block.n - w * emu::WARP);
    unsigned exist = lanes == emu::WARP ? ~0u : (1u << lanes) - 1, lane = 1u << (t % emu::WARP);
    if (!(mask & lane)) emu::die("a thread meets its warp with a mask (%08x) that does not name it%s", mask, emu::where_in_kernel().c_str());
    if (width <= 0 || width > 32 || (width & (width - 1))) emu::die("a shuffle's width is %d%s", width, emu::where_in_kernel().c_str());
    emu::thread_t &self = block.threads[t];
    self.state = emu::AT_WARP;
    self.mask = mask & exist;
    self.op = op;
    self.value = value;
    self.argument = argument;
    self.width = width;
    block.warp_arrived[w] |= lane;
    if ((block.warp_arrived[w] & self.mask) == self.mask) emu::finish_warp(w, self.mask);
    emu::wait_here(t);
    return self.value;
}

unsigned emu_active_mask()
{
    int t = block.now->thread;
    return 1u << (t % emu::WARP); /* CUDA guarantees no more than the calling thread */
}

void emu_trap(const char *what)
{
    emu::die("%s%s", what, emu::where_in_kernel().c_str());
}
