// SPDX-License-Identifier: Apache-2.0
// The card's roundings, sixteen channels at a time: a vector is one block of the block formats.
//
// Each does what a torch function of virtual/numerics does, bit for bit; see there for what the rules are.
#pragma once
#include "vector.h"

constexpr int32_t MAGNITUDE = 0x7FFFFFFF, INFINITE = 0x7F800000, SMALLEST = 0x00800000;

// Half a unit is added to the magnitude: to nearest, ties away from zero. Of a NaN with all bits set it reaches the sign.
static inline Bits round_mantissa(Vector x, int bits) {
    const int dropped = 23 - bits;
    return (Bits)((Words)x + (1u << (dropped - 1))) & (-1 << dropped);
}

static inline Vector nan_to_infinity(Vector x) { return x == x ? x : (Vector)(Bits{} + INFINITE); }

static inline Vector to_bfloat16(Vector x) {  // denormals and -0 to +0, NaN to inf
    const Bits bits = round_mantissa(nan_to_infinity(x), 7);
    return (Vector)((bits & MAGNITUDE) >= SMALLEST ? bits : Bits{});
}

static inline Vector round_away(Vector x) {  // the same with NaN kept
    const Bits bits = round_mantissa(x, 7);
    const Vector rounded = (Vector)((bits & MAGNITUDE) >= SMALLEST ? bits : Bits{}) + 0.0f;
    return x == x ? rounded : x;
}

static inline Vector round_even(Vector x) {
    const Words bits = (Words)x;
    const Vector rounded = (Vector)((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
    return x == x ? rounded : x;
}

static inline Vector nearest_even(Vector x) {  // the host's own conversion, which looks for NaN
    return (Vector)(((Bits)x & MAGNITUDE) > INFINITE ? Bits{} + 0x7FC00000 : (Bits)round_even(x));
}

static inline Vector cut(Vector x, int bits) { return (Vector)((Bits)x & (-1 << (23 - bits))); }

static inline Vector stored(Vector x) {
    const Bits bits = (Bits)x & -0x10000;
    return (Vector)((bits & MAGNITUDE) >= SMALLEST ? bits : Bits{});
}

static inline Vector flush_denormals(Vector x) {
    const Bits bits = (Bits)x;
    return (Vector)((bits & INFINITE) == 0 ? bits & ~MAGNITUDE : bits);
}

// A whole number that is larger where `x` comes later: -0 before +0, and NaN last.
static inline Bits rank(Vector x) {
    const Bits bits = (Bits)x;
    return x == x ? bits ^ ((bits >> 31) & MAGNITUDE) : Bits{} + MAGNITUDE;
}

static inline Vector everywhere(float x) {  // -0 too, which a sum would lose
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (Vector)(Bits{} + bits);
}

static inline Bits largest(Bits x) {  // of all lanes, in all lanes
    const Bits by8 = {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7};
    const Bits by4 = {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11};
    const Bits by2 = {2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13};
    const Bits by1 = {1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14};
    Bits other = __builtin_shuffle(x, by8);
    x = x > other ? x : other;
    other = __builtin_shuffle(x, by4);
    x = x > other ? x : other;
    other = __builtin_shuffle(x, by2);
    x = x > other ? x : other;
    other = __builtin_shuffle(x, by1);
    return x > other ? x : other;
}

template <int early, bool saturate, bool narrow>
static inline Vector to_blocks(Vector x) {
    const Bits bits = round_mantissa(nan_to_infinity(x), early);
    Bits power = largest(bits & MAGNITUDE) & INFINITE;
    power = power < (8 << 23) ? Bits{} + (8 << 23) : power > (254 << 23) ? Bits{} + (254 << 23) : power;
    const Vector to_steps = (Vector)(((254 + 6) << 23) - power);  // 64 / power, a power of two again
    const Vector scale = to_steps * (1.0f + 0x1p-20f), magic = Vector{} + 12582912.0f;
    Vector steps = (((Vector)bits * scale) + magic) - magic;  // to the nearest whole number
    Vector quantum = (Vector)(power - (6 << 23));
    if (saturate) {
        const Vector limited = smaller(larger(steps, Vector{} - 127.0f), Vector{} + 127.0f);
        steps = (Vector)((bits & MAGNITUDE) == INFINITE ? bits : (Bits)limited);
    }
    if (narrow) {
        const Vector whole = steps * 0x1p-4f;
        const Vector cut_off = __builtin_convertvector(__builtin_convertvector(whole, Bits), Vector);  // toward zero
        steps = (Vector)((bits & MAGNITUDE) == INFINITE ? bits : (Bits)cut_off);
        quantum *= 16.0f;
    }
    return steps * quantum + 0.0f;
}

// --- what a step does to a vector on its way out, one stage after the other ------------------------------------------

enum StageKind {  // after those of `Activation`
    ADD = 16, SUB, FROM, MUL, ADD_ROW, SUB_ROW, FROM_ROW, MUL_ROW,
    TO_BFLOAT16, ROUND_AWAY, ROUND_EVEN, NEAREST_EVEN, STORED, CUT, FLUSH_DENORMALS, BFLOAT8, BFLOAT8_PRECISE, BFLOAT4,
    AT_LEAST, AT_MOST
};

struct Stage {
    int64_t kind;
    const float* row;  // one number a channel, of the kinds that have it
    double a, b;
};

static inline Vector first_lanes(Vector x, int lanes) {
    if (lanes >= LANES) return x;
    const Bits numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (Vector)((Bits)x & (numbers < lanes));
}

// Stage by stage over `n` vectors of the same channels, `apart` from each other: what a stage is is looked up once, and
// while one vector waits for its result the next is under way. `other` points to what belongs to each.
static __attribute__((noinline)) void run_stages(const Stage* stages, int64_t count, Vector* vectors, int n, int apart,
                              const float* const* other, int channel, int lanes) {
#define EACH(result)                       \
    for (int i = 0; i < n; i++) {          \
        Vector& x = vectors[i * apart];    \
        x = result;                        \
    }                                      \
    break
    for (int64_t k = 0; k < count; k++) {
        const Stage& stage = stages[k];
        const Vector row = stage.row ? load(stage.row + channel) : Vector{};
        const int bits = (int)stage.a;
        const Vector bound = everywhere((float)stage.a);
        switch (stage.kind) {
            case ADD: EACH(x + load(other[i]));
            case SUB: EACH(x - load(other[i]));
            case FROM: EACH(load(other[i]) - x);
            case MUL: EACH(x * load(other[i]));
            case ADD_ROW: EACH(x + row);
            case SUB_ROW: EACH(x - row);
            case FROM_ROW: EACH(row - x);
            case MUL_ROW: EACH(x * row);
            case TO_BFLOAT16: EACH(to_bfloat16(x));
            case ROUND_AWAY: EACH(round_away(x));
            case ROUND_EVEN: EACH(round_even(x));
            case NEAREST_EVEN: EACH(nearest_even(x));
            case STORED: EACH(stored(x));
            case CUT: EACH(cut(x, bits));
            case FLUSH_DENORMALS: EACH(flush_denormals(x));
            case AT_LEAST: EACH(rank(x) < rank(bound) ? bound : x);
            case AT_MOST: EACH(rank(x) > rank(bound) ? bound : x);
            case BFLOAT8: EACH((to_blocks<6, false, false>(first_lanes(x, lanes))));
            case BFLOAT8_PRECISE: EACH((to_blocks<7, true, false>(first_lanes(x, lanes))));
            case BFLOAT4: EACH((to_blocks<6, false, true>(first_lanes(x, lanes))));
            default: EACH(activated(x, (int)stage.kind, (float)stage.a, (float)stage.b));
        }
    }
#undef EACH
}
