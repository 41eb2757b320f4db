// SPDX-License-Identifier: Apache-2.0
// Products as the card's matrix unit adds them up, by the widest registers there are: of AVX-512, of AVX2, or any.
#pragma once
#include <memory>
#include "registers.h"

struct Row {  // of a source register: mantissas and exponents, those of a step's two groups side by side
    const int32_t *exponent, *high, *low;
};

struct Panels {  // the other source register: columns group by group, step by step
    int64_t columns, steps;
    std::unique_ptr<int16_t[]> exponent, high, low;
};

// What is known of numbers before they are multiplied.
struct Range {
    int32_t largest = 0, smallest = 255;  // exponents, the smallest of what is not zero
    int32_t denormal = 0, low_bits = 0;

    Range(const float* from, int64_t rows, int64_t count, int64_t apart, int64_t threads) {
        int32_t most = 0, least = 255, bad = 0, low = 0;
#pragma omp parallel for num_threads((int)threads) reduction(max : most) reduction(min : least) reduction(| : bad, low)
        for (int64_t row = 0; row < rows; row++)
#pragma omp simd reduction(max : most) reduction(min : least) reduction(| : bad, low)
            for (int64_t i = 0; i < count; i++) {
                const int32_t bits = ((const int32_t*)from)[row * apart + i];
                const int32_t exponent = (bits >> 23) & 0xFF, magnitude = bits & MAGNITUDE;
                most = exponent > most ? exponent : most;
                const int32_t counted = magnitude ? exponent : 255;
                least = counted < least ? counted : least;
                bad |= (exponent == 0) & (magnitude != 0);
                low |= bits & 0x1FFF;
            }
        largest = most, smallest = least, denormal = bad, low_bits = low;
    }
};

static inline int32_t mantissa(int32_t bits, int from, int count, int leading, int times) {
    const int32_t sign = bits >> 31, some = ((bits >> from) & ((1 << count) - 1)) | leading;
    return (bits & INFINITE) ? ((some * times) ^ sign) - sign : 0;
}

static inline int32_t paired(int32_t first, int32_t second) { return (first & 0xFFFF) | (int32_t)((uint32_t)second << 16); }

// Rows of x as the multiplier takes them: 7 significant bits of source B, then 4; the latter 8 times too large.
static void take_row(const float* from, int64_t steps, int32_t* exponent, int32_t* high, int32_t* low) {
    const int32_t* bits = (const int32_t*)from;
    for (int64_t step = 0; step < steps; step++)
        for (int i = 0; i < CARD_GROUP; i++) {
            const int64_t to = step * CARD_GROUP + i;
            const int32_t a = bits[step * CARD_STEP + i], b = bits[step * CARD_STEP + CARD_GROUP + i];
            exponent[to] = paired((a >> 23) & 0xFF, (b >> 23) & 0xFF);
            high[to] = paired(mantissa(a, 17, 6, 0x40, 1), mantissa(b, 17, 6, 0x40, 1));
            low[to] = paired(mantissa(a, 13, 4, 0, 8), mantissa(b, 13, 4, 0, 8));
        }
}

// 5 significant bits of source A, then 5; all 8 times too large.
static Panels take_columns(const float* from, int64_t inner, int64_t columns, int width, int64_t threads) {
    const int64_t steps = inner / CARD_STEP, size = inner * columns;
    Panels to = {columns, steps, std::unique_ptr<int16_t[]>(new int16_t[size]), std::unique_ptr<int16_t[]>(new int16_t[size]),
                 std::unique_ptr<int16_t[]>(new int16_t[size])};
    int32_t *exponent = (int32_t*)to.exponent.get(), *high = (int32_t*)to.high.get(), *low = (int32_t*)to.low.get();
#pragma omp parallel for collapse(2) num_threads((int)threads) if (size > 1 << 14)
    for (int64_t group = 0; group < columns / width; group++)
        for (int64_t step = 0; step < steps; step++)
            for (int i = 0; i < CARD_GROUP; i++) {
                const int64_t first = ((group * steps + step) * CARD_GROUP + i) * width;
                const int32_t* a = (const int32_t*)from + (step * CARD_STEP + i) * columns + group * width;
                const int32_t* b = a + CARD_GROUP * columns;
                for (int c = 0; c < width; c++) {
                    exponent[first + c] = paired((a[c] >> 23) & 0xFF, (b[c] >> 23) & 0xFF);
                    high[first + c] = paired(mantissa(a[c], 19, 4, 0x10, 8), mantissa(b[c], 19, 4, 0x10, 8));
                    low[first + c] = paired(mantissa(a[c], 14, 5, 0, 8), mantissa(b[c], 14, 5, 0, 8));
                }
            }
    return to;
}

#if defined(__x86_64__)
#include <immintrin.h>
#define WITH_WIDE_REGISTERS
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
#endif
namespace by16 {
#include "lanes512.h"
#include "steps.h"
}
#ifdef __clang__
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace by8 {
#include "lanes256.h"
#include "steps.h"
}
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

// Columns at a time on this machine; 1 is the way that needs no wide registers.
extern "C" int64_t widest() {
#ifdef WITH_WIDE_REGISTERS
    const bool has_words = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (has_words && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return 16;
    if (__builtin_cpu_supports("avx2")) return 8;
#endif
    return 1;
}

constexpr int32_t BIAS = 127, TOO_LARGE = 200, NEVER_TINY = SMALLEST_EXPONENT + LOW_A + LOW_B;

#ifdef WITH_WIDE_REGISTERS
static void by_steps(const float* x, const float* w, const float* start, float* out, int64_t rows, int64_t inner,
                     int64_t columns, int64_t apart, int phases, bool fp32, bool tiny, int64_t threads, int width) {
    constexpr int64_t AT_ONCE = 16;
    const Panels panels = take_columns(w, inner, columns, width, threads);
    const auto function = width == 16 ? by16::followed_rows : by8::followed_rows;
#pragma omp parallel num_threads((int)threads)
    {
        const int64_t each = inner / 2;
        std::vector<int32_t> parts(AT_ONCE * 3 * each);
#pragma omp for schedule(dynamic, 1)
        for (int64_t first = 0; first < rows; first += AT_ONCE) {
            const int64_t here = first + AT_ONCE < rows ? AT_ONCE : rows - first;
            Row taken[AT_ONCE];
            for (int64_t r = 0; r < here; r++) {
                int32_t* part = parts.data() + r * 3 * each;
                take_row(x + (first + r) * apart, panels.steps, part, part + each, part + 2 * each);
                taken[r] = {part, part + each, part + 2 * each};
            }
            function(taken, (int)here, panels, phases, fp32, tiny, start ? start + first * columns : nullptr,
                     out + first * columns);
        }
    }
}
#endif

// (rows, inner) times (inner, columns) onto `start` (zeros where it is null); inner in tiles, columns in vectors of 16,
// `width` of them at a time, rows of x `apart` from each other. Returns 0, or 1 where some number is not finite or so
// large that sums may not be: then nothing is computed.
extern "C" int64_t followed_product(const float* x, const float* w, const float* start, float* out, int64_t rows,
                                    int64_t inner, int64_t columns, int64_t apart, int64_t phases, int64_t fp32,
                                    int64_t threads, int64_t width) {
    const Range xs(x, rows, inner, apart, threads), ws(w, inner, columns, columns, threads);
    const Range starts(start, start ? rows : 0, columns, columns, threads);
    if (xs.largest == 255 || ws.largest == 255) return 1;
    if (xs.largest + ws.largest - BIAS > TOO_LARGE || starts.largest > TOO_LARGE) return 1;
#ifdef WITH_WIDE_REGISTERS
    const bool ordinary = !(xs.denormal | ws.denormal | starts.denormal) && (fp32 || !starts.low_bits);
    if (width > 1 && ordinary) {
        const bool tiny = xs.smallest + ws.smallest - BIAS < NEVER_TINY;
        by_steps(x, w, start, out, rows, inner, columns, apart, (int)phases, fp32, tiny, threads, (int)width);
        return 0;
    }
#endif
    by_vectors(x, w, start, out, rows, inner, columns, apart, (int)phases, fp32, threads);
    return 0;
}
