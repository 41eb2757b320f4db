// SPDX-License-Identifier: Apache-2.0
// Single instructions of the card's units on many numbers: the matrix unit's sum and the vector unit's multiply-add.
//
// The rules are those of `add` in virtual/numerics/matrix_unit.py and of virtual/numerics/vector_unit/unit.py, which
// these follow bit for bit, infinities, NaN and denormals included.
#pragma once
#include "registers.h"

struct Operand {
    const float* data;
    int64_t period;  // after which its numbers come again: 1, a multiple of 16, or all of them

    Vector at(int64_t i, int lanes) const {
        if (period == 1) return everywhere(data[0]);
        const float* from = data + i % period;
        return lanes == LANES ? load(from) : load_some(from, lanes);
    }
};

static inline Bits exponent_bits(Vector x) { return ((Bits)x >> 23) & 0xFF; }
static inline Bits is_finite(Vector x) { return ((Bits)x & INFINITE) != INFINITE; }
static inline Longs longer(Bits condition) { return __builtin_convertvector(condition, Longs); }
static inline Wide chosen(Longs condition, Wide a, Wide b) { return (Wide)((condition & (Longs)a) | (~condition & (Longs)b)); }
static inline Wide size_of(Wide x) { return (Wide)((Longs)x & INT64_MAX); }
static inline Wide cut_off(Wide x) { return __builtin_convertvector(__builtin_convertvector(x, Bits), Wide); }  // below 2^31

static inline Vector flushed(Vector x) { return (Vector)(((Bits)x & INFINITE) == 0 ? Bits{} : (Bits)x); }

static inline Wide rounded_away(Wide x) {  // what rounds to nothing keeps its sign
    const Wide magnitude = cut_off(size_of(x) + 0.5);
    return x < 0.0 ? -magnitude : magnitude;
}

static inline Vector aligned_sum(Vector a, Vector b, bool fp32) {
    const Vector ideal = a + b;
    const Bits fine = is_finite(ideal);
    a = (Vector)(fine & (Bits)a), b = (Vector)(fine & (Bits)b);
    const Bits top = largest_of(exponent_bits(a), exponent_bits(b));
    const Wide up = power_of_two(127 + ADDER_BITS - top), quantum = power_of_two(top - 127 - ADDER_BITS);
    const Wide total = (rounded_away(widened(a) * up) + rounded_away(widened(b) * up)) * quantum;
    const Vector sum = __builtin_convertvector(total, Vector), result = fp32 ? sum : round_away(sum);
    return (Vector)(fine ? (Bits)result : (Bits)ideal);
}

// A whole number whose lowest bit remembers what was cut off.
static inline Bits aligned(Wide x, Wide scale) {
    const Wide scaled = size_of(x * scale);
    const Bits cut = __builtin_convertvector(scaled, Bits);
    const Longs lost = (Longs)(__builtin_convertvector(cut, Wide) != scaled);
    const Bits magnitude = cut | (__builtin_convertvector(lost, Bits) & (cut != 0) & 1);
    return __builtin_convertvector((Longs)(x < 0.0), Bits) ? -magnitude : magnitude;
}

// a * b + c.
static inline Vector partially_fused(Vector a, Vector b, Vector c) {
    constexpr int ALIGNED_BITS = 26;
    const Bits finite_product = is_finite(a) & is_finite(b), product_exponent = exponent_bits(a) + exponent_bits(b) - 254;
    const Bits exponent = largest_of(product_exponent, exponent_bits(c) - 127);
    Wide product = widened(a) * widened(b);
    const Wide addend = widened(c);
    product = chosen(longer((product_exponent < -127) & finite_product), Wide{}, product);
    const Wide scale = power_of_two(ALIGNED_BITS - exponent);
    const Bits total = aligned(chosen(longer(finite_product), product, Wide{}), scale) +
                       aligned(chosen(longer(is_finite(c)), addend, Wide{}), scale);
    Bits magnitude = total < 0 ? -total : total;
    magnitude = (magnitude >> (ALIGNED_BITS + 2)) != 0 ? magnitude & ~2 : magnitude;  // the bit that is forgotten
    const Wide sum = __builtin_convertvector(total < 0 ? -magnitude : magnitude, Wide);
    Vector value = __builtin_convertvector(sum * power_of_two(exponent - ALIGNED_BITS), Vector);
    value = __builtin_convertvector((Longs)(product == 0.0), Bits) ? c : value;
    const Bits over = product_exponent >= 128, wild = over | ~is_finite(c) | ~finite_product;
    const Longs sign = (Longs)product & INT64_MIN, infinite = (Longs)(Wide{} + __builtin_inf());
    const Wide overflowed = chosen(longer(over & finite_product), (Wide)(sign | infinite), product);
    value = wild ? __builtin_convertvector(overflowed + addend, Vector) : value;
    return flushed(value);
}

template <class Function>
static void each_vector(float* y, int64_t count, int64_t threads, Function function) {
#pragma omp parallel for num_threads((int)threads) if (count > 1 << 12)
    for (int64_t i = 0; i < count; i += LANES) {
        const int lanes = count - i < LANES ? (int)(count - i) : LANES;
        store_some(y + i, function(i, lanes), lanes);
    }
}

extern "C" void aligned_sums(const Operand* operands, float* y, int64_t fp32, int64_t count, int64_t threads) {
    const Operand a = operands[0], b = operands[1];
    each_vector(y, count, threads,
                [=](int64_t i, int lanes) { return aligned_sum(a.at(i, lanes), b.at(i, lanes), fp32); });
}

// Denormals count as zero where a bit of `vectors` is set: of operands that are no constants.
extern "C" void partially_fused(const Operand* operands, float* y, int64_t vectors, int64_t count, int64_t threads) {
    const Operand a = operands[0], b = operands[1], c = operands[2];
    each_vector(y, count, threads, [=](int64_t i, int lanes) {
        const Vector x = a.at(i, lanes), w = b.at(i, lanes), s = c.at(i, lanes);
        return partially_fused(vectors & 1 ? flushed(x) : x, vectors & 2 ? flushed(w) : w, vectors & 4 ? flushed(s) : s);
    });
}
