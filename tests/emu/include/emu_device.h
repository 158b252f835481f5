/* SPDX-License-Identifier: MIT */
/* Device functions that g++ lacks: atomics, cached loads, bit operations, rounding, fast mathematics (exact here:
 * tests' tolerances must not depend on the device's inexactness). */
#ifndef TESTS_EMU_EMU_DEVICE_H
#define TESTS_EMU_EMU_DEVICE_H

/* A table, one function per line. */
/* clang-format off */

/* Only one thread runs between two synchronizations, so plain arithmetic is atomic. */
#define EMU_ATOMICS(T)                                                                                            \
    inline T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }                                       \
    inline T atomicExch(T *p, T v) { T old = *p; *p = v; return old; }
#define EMU_ATOMICS_INTEGER(T)                                                                                    \
    EMU_ATOMICS(T)                                                                                                \
    inline T atomicMax(T *p, T v) { T old = *p; *p = old > v ? old : v; return old; }                             \
    inline T atomicMin(T *p, T v) { T old = *p; *p = old < v ? old : v; return old; }                             \
    inline T atomicOr(T *p, T v) { T old = *p; *p = old | v; return old; }                                        \
    inline T atomicAnd(T *p, T v) { T old = *p; *p = old & v; return old; }                                       \
    inline T atomicCAS(T *p, T expected, T v) { T old = *p; if (old == expected) *p = v; return old; }
EMU_ATOMICS(float)
EMU_ATOMICS(double)
EMU_ATOMICS_INTEGER(unsigned)
EMU_ATOMICS_INTEGER(unsigned long long)
#undef EMU_ATOMICS
#define EMU_ATOMICS(T)                                                                                            \
    inline T atomicAdd(T *p, T v)                                                                                 \
    {                                                                                                             \
        T old = *p;                                                                                               \
        *p = static_cast<T>(static_cast<unsigned>(old) + static_cast<unsigned>(v));                               \
        return old;                                                                                               \
    }                                                                                                             \
    inline T atomicExch(T *p, T v) { T old = *p; *p = v; return old; }
EMU_ATOMICS_INTEGER(int)
#undef EMU_ATOMICS
#undef EMU_ATOMICS_INTEGER

#define EMU_CACHED(name_load, name_store)                                                                         \
    template <typename T> inline T name_load(const T *p) { return *p; }                                           \
    template <typename T> inline void name_store(T *p, T v) { *p = v; }
EMU_CACHED(__ldcg, __stcg)
EMU_CACHED(__ldcs, __stcs)
EMU_CACHED(__ldlu, __stwt)
EMU_CACHED(__ldca, __stwb)
#undef EMU_CACHED
template <typename T> inline T __ldg(const T *p) { return *p; }

/* CUDA's min and max over all pairs of arithmetic types; of a NaN and a number, the number. */
template <typename A, typename B> using emu_both =
    typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value, typename std::common_type<A, B>::type>::type;
template <typename A, typename B> constexpr emu_both<A, B> min(A a, B b)
{
    using T = emu_both<A, B>;
    if constexpr (std::is_floating_point<T>::value) return std::fmin(static_cast<T>(a), static_cast<T>(b));
    else return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <typename A, typename B> constexpr emu_both<A, B> max(A a, B b)
{
    using T = emu_both<A, B>;
    if constexpr (std::is_floating_point<T>::value) return std::fmax(static_cast<T>(a), static_cast<T>(b));
    else return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}

template <typename To, typename From> inline To emu_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same number of bits");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
inline unsigned __float_as_uint(float x) { return emu_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emu_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return emu_bits<float>(x); }
inline float __int_as_float(int x) { return emu_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emu_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return emu_bits<double>(x); }

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((uint64_t{a} * b) >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>((int64_t{a} * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;
    return static_cast<unsigned long long>((static_cast<wide>(a) * b) >> 64);
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned n)
{
    return static_cast<unsigned>((((uint64_t{hi} << 32) | lo) << (n & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned n)
{
    return static_cast<unsigned>(((uint64_t{hi} << 32) | lo) >> (n & 31));
}

#if !__GLIBC_PREREQ(2, 42)
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
#endif
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __expf(float x) { return std::exp(x); }
inline float __exp10f(float x) { return std::pow(10.0f, x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline void __sincosf(float x, float *s, float *c) { *s = std::sin(x); *c = std::cos(x); }
#if !__GLIBC_PREREQ(2, 41)
inline float sinpif(float x) { return static_cast<float>(std::sin(3.14159265358979323846 * static_cast<double>(x))); }
inline float cospif(float x) { return static_cast<float>(std::cos(3.14159265358979323846 * static_cast<double>(x))); }
#endif
inline void sincospif(float x, float *s, float *c) { *s = sinpif(x); *c = cospif(x); }

inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline int __float2int_rd(float x) { return static_cast<int>(std::floor(x)); }
inline int __float2int_ru(float x) { return static_cast<int>(std::ceil(x)); }
inline unsigned __float2uint_rn(float x) { return static_cast<unsigned>(std::nearbyint(x)); }
inline unsigned __float2uint_rz(float x) { return static_cast<unsigned>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }

#endif
