/* SPDX-License-Identifier: MIT */
/* The instructions of kernels/cuda/conv/mma.cuh in software, with the layouts of the PTX ISA (mma.m16n8k16,
 * ldmatrix): which lane holds which element. A copy makes its destination NaN when it is issued, and lands when its
 * thread waits for it: a stage that is read too early, or overwritten while others read it, gives NaN. */
#ifndef TESTS_EMU_EMU_MMA_H
#define TESTS_EMU_EMU_MMA_H

#include <deque>

typedef uintptr_t shared_t;

struct emu_copy_t {
    void *to;
    const void *from; /* null: zeros */
};
/* Of a thread: groups of copies in flight, the last one not committed. */
struct emu_copies_t {
    std::deque<std::deque<emu_copy_t>> groups{1};
};
/* What the lanes of a warp pass to each other. A lane may be one exchange ahead of another, so there are two. */
struct emu_lanes_t {
    shared_t row[2][32];
    uint32_t a[2][32][4], b[2][32][2];
    bool turn[32];
};
inline emu_copies_t emu_copies[1024];
inline emu_lanes_t emu_lanes[32];

inline shared_t shared_of(const void *in_shared)
{
    return reinterpret_cast<shared_t>(in_shared);
}

inline unsigned emu_thread()
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

template <bool CACHED> inline void copy_async(shared_t at, const uint16_t *from, bool inside)
{
    void *to = reinterpret_cast<void *>(at);
    if (at % 16 || reinterpret_cast<uintptr_t>(from) % 16)
        emu_trap("cp.async of an address that is not a multiple of 16");
    std::memset(to, 0xff, 16);
    emu_copies[emu_thread()].groups.back().push_back({to, inside ? from : nullptr});
}

inline void copies_commit()
{
    emu_copies[emu_thread()].groups.emplace_back();
}

template <int LATEST> inline void copies_wait()
{
    auto &groups = emu_copies[emu_thread()].groups;
    while (groups.size() > LATEST + 1) {
        for (const emu_copy_t &copy : groups.front())
            if (copy.from)
                std::memcpy(copy.to, copy.from, 16);
            else
                std::memset(copy.to, 0, 16);
        groups.pop_front();
    }
}

template <bool TURNED> inline void load_matrices(uint32_t (&out)[4], shared_t row)
{
    emu_lanes_t &lanes = emu_lanes[emu_thread() / 32];
    unsigned lane = emu_thread() % 32;
    bool turn = lanes.turn[lane] = !lanes.turn[lane];
    if (reinterpret_cast<uintptr_t>(row) % 16)
        emu_trap("ldmatrix of an address that is not a multiple of 16");
    lanes.row[turn][lane] = row;
    __syncwarp();
    for (unsigned i = 0; i < 4; i++) {
        auto element = [&](unsigned r, unsigned c) -> uint32_t {
            return reinterpret_cast<const uint16_t *>(lanes.row[turn][8 * i + r])[c];
        };
        unsigned g = lane / 4, q = 2 * (lane % 4);
        out[i] = TURNED ? element(q, g) | element(q + 1, g) << 16 : element(g, q) | element(g, q + 1) << 16;
    }
}

inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    emu_lanes_t &lanes = emu_lanes[emu_thread() / 32];
    unsigned lane = emu_thread() % 32, g = lane / 4, q = 2 * (lane % 4);
    bool turn = lanes.turn[lane] = !lanes.turn[lane];
    for (int i = 0; i < 4; i++) lanes.a[turn][lane][i] = a[i];
    lanes.b[turn][lane][0] = b0, lanes.b[turn][lane][1] = b1;
    __syncwarp();
    auto half = [](uint32_t pair, unsigned k) {
        return __uint_as_float(k % 2 ? pair & 0xffff0000u : pair << 16);
    };
    for (unsigned k = 0; k < 16; k++)
        for (unsigned i = 0; i < 4; i++) {
            unsigned row = g + i / 2 * 8, column = q + i % 2, pair = k % 8 / 2;
            float x = half(lanes.a[turn][row % 8 * 4 + pair][row / 8 + k / 8 * 2], k);
            float y = half(lanes.b[turn][column * 4 + pair][k / 8], k);
            sum[i] += x * y;
        }
}

#endif
