// The card's roundings, sixteen channels at a time: a vector is one block of the block formats.
//
// Each does what a torch function of virtual/numerics does, bit for bit; see there for what the rules are.
#pragma once
#include "vector.h"

constexpr int32_t MAGNITUDE = 0x7FFFFFFF, INFINITE = 0x7F800000, SMALLEST = 0x00800000;

static inline Bits chosen(Bits condition, Bits yes, Bits no) { return (condition & yes) | (~condition & no); }

// Half a unit is added to the magnitude: to nearest, ties away from zero.
static inline Bits round_mantissa(Vector x, int bits) {
    const int dropped = 23 - bits;
    return (Bits)((Words)x + (1u << (dropped - 1))) & (-1 << dropped);
}

static inline Vector to_bfloat16(Vector x) {  // denormals and -0 to +0, NaN to inf
    const Bits bits = round_mantissa(x, 7), size = bits & MAGNITUDE;
    return (Vector)chosen(size > INFINITE, Bits{} + INFINITE, (size >= SMALLEST) & bits);
}

static inline Vector round_away(Vector x) {  // the same with NaN kept
    const Bits bits = round_mantissa(x, 7);
    return (Vector)(((bits & MAGNITUDE) >= SMALLEST) & bits) + 0.0f;
}

static inline Vector round_even(Vector x) {
    const Words bits = (Words)x;
    return (Vector)((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
}

static inline Vector nearest_even(Vector x) {  // the host's own conversion, which looks for NaN
    return (Vector)chosen(((Bits)x & MAGNITUDE) > INFINITE, Bits{} + 0x7FC00000, (Bits)round_even(x));
}

static inline Vector cut(Vector x, int bits) { return (Vector)((Bits)x & (-1 << (23 - bits))); }

static inline Vector stored(Vector x) {
    const Bits bits = (Bits)x & -0x10000;
    return (Vector)(((bits & MAGNITUDE) >= SMALLEST) & bits);
}

static inline Vector flush_denormals(Vector x) {
    const Bits bits = (Bits)x;
    return (Vector)chosen((bits & INFINITE) == 0, bits & ~MAGNITUDE, bits);
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
    Bits bits = round_mantissa(x, early);
    bits = chosen((bits & MAGNITUDE) > INFINITE, Bits{} + INFINITE, bits);
    Bits power = largest(bits & MAGNITUDE) & INFINITE;
    power = power < (8 << 23) ? Bits{} + (8 << 23) : power > (254 << 23) ? Bits{} + (254 << 23) : power;
    const Vector scale = (64.0f * (1.0f + 0x1p-20f)) / (Vector)power, magic = Vector{} + 12582912.0f;
    Vector steps = (((Vector)bits * scale) + magic) - magic;  // to the nearest whole number
    Vector quantum = (Vector)power * 0x1p-6f;
    if (saturate) {
        const Vector limited = smaller(larger(steps, Vector{} - 127.0f), Vector{} + 127.0f);
        steps = (Vector)chosen((bits & MAGNITUDE) == INFINITE, bits, (Bits)limited);
    }
    if (narrow) {
        const Vector whole = steps * 0x1p-4f;
        const Vector cut_off = __builtin_convertvector(__builtin_convertvector(whole, Bits), Vector);  // toward zero
        steps = (Vector)chosen((bits & MAGNITUDE) == INFINITE, bits, (Bits)cut_off);
        quantum *= 16.0f;
    }
    return steps * quantum + 0.0f;
}

// --- what a step does to a vector on its way out, one stage after the other ------------------------------------------

enum StageKind {  // after those of `Activation`
    ADD = 16, SUB, FROM, MUL, ADD_ROW, SUB_ROW, FROM_ROW, MUL_ROW,
    TO_BFLOAT16, ROUND_AWAY, ROUND_EVEN, NEAREST_EVEN, STORED, CUT, FLUSH_DENORMALS, BFLOAT8, BFLOAT8_PRECISE, BFLOAT4
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

static inline Vector rounded(Vector x, int64_t kind, int bits, int lanes) {
    switch (kind) {
        case TO_BFLOAT16: return to_bfloat16(x);
        case ROUND_AWAY: return round_away(x);
        case ROUND_EVEN: return round_even(x);
        case NEAREST_EVEN: return nearest_even(x);
        case STORED: return stored(x);
        case CUT: return cut(x, bits);
        case FLUSH_DENORMALS: return flush_denormals(x);
        case BFLOAT8: return to_blocks<6, false, false>(first_lanes(x, lanes));
        case BFLOAT8_PRECISE: return to_blocks<7, true, false>(first_lanes(x, lanes));
        case BFLOAT4: return to_blocks<6, false, true>(first_lanes(x, lanes));
        default: return x;
    }
}

static inline Vector staged(const Stage* stages, int64_t count, Vector x, const float* other, int channel, int lanes) {
    for (int64_t i = 0; i < count; i++) {
        const Stage& stage = stages[i];
        const float* row = stage.row + channel;
        switch (stage.kind) {
            case ADD: x += load(other); break;
            case SUB: x -= load(other); break;
            case FROM: x = load(other) - x; break;
            case MUL: x *= load(other); break;
            case ADD_ROW: x += load(row); break;
            case SUB_ROW: x -= load(row); break;
            case FROM_ROW: x = load(row) - x; break;
            case MUL_ROW: x *= load(row); break;
            default:
                x = stage.kind < ADD ? activated(x, (int)stage.kind, (float)stage.a, (float)stage.b)
                                     : rounded(x, stage.kind, (int)stage.a, lanes);
        }
    }
    return x;
}
