/* SPDX-License-Identifier: MIT */
/* Types of tensor cores' inputs. */
#ifndef TESTS_EMU_NARROW_H
#define TESTS_EMU_NARROW_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emu
{

inline float from_bf16(uint16_t bits)
{
    uint32_t wide = uint32_t{bits} << 16;
    float x;
    std::memcpy(&x, &wide, sizeof x);
    return x;
}

inline uint16_t to_bf16(float x)
{
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if (std::isnan(x)) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Rounds to 10 bits of mantissa, to nearest, ties away from zero, like the usual conversion of tensor cores' inputs. */
inline float to_tf32(float x)
{
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if (!std::isfinite(x)) return x;
    bits = (bits + 0x1000) & 0xffffe000u;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

} // namespace emu

#endif
