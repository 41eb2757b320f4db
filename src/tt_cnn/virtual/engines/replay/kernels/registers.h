// SPDX-License-Identifier: Apache-2.0
// Products as the card's matrix unit adds them up, rounding after rounding, sixteen columns at a time.
//
// The rules, and how they were found, are told in virtual/numerics/matrix_unit.py, whose `matmul` this follows bit for
// bit. All numbers are finite, and so are their sums.
#pragma once
#include <vector>
#include "rounding.h"

typedef double Wide __attribute__((vector_size(128), aligned(4), may_alias));
typedef int64_t Longs __attribute__((vector_size(128), aligned(4), may_alias));

constexpr int CARD_STEP = 16, CARD_GROUP = 8, ADDER_BITS = 10, LOW_A = 5, LOW_B = 7, SMALLEST_EXPONENT = 24;

struct Parts {  // of a source register: what the multiplier takes at a time, and the exponent
    std::vector<float> high, low;
    std::vector<int32_t> exponent;

    Parts(const float* from, size_t count, int high_bits, int all_bits) : high(count), low(count), exponent(count) {
        for (size_t i = 0; i < count; i++) {
            int32_t bits;
            memcpy(&bits, from + i, sizeof bits);
            const int32_t upper = bits & (-1 << (23 - high_bits)), all = bits & (-1 << (23 - all_bits));
            float every;
            memcpy(&high[i], &upper, sizeof upper);
            memcpy(&every, &all, sizeof all);
            low[i] = every - high[i];
            exponent[i] = (bits >> 23) & 0xFF;
        }
    }
};

static inline Wide widened(Vector x) { return __builtin_convertvector(x, Wide); }
static inline Wide power_of_two(Bits exponent) { return (Wide)((__builtin_convertvector(exponent, Longs) + 1023) << 52); }
static inline Wide whole(Wide x) { return __builtin_convertvector(__builtin_convertvector(x, Longs), Wide); }

static inline Wide nearest_away(Wide x) { return whole(x < 0.0 ? x - 0.5 : x + 0.5); }

static inline Wide nearest_up(Wide x) {  // the whole number below x + 0.5
    const Wide moved = x + 0.5, cut_off = whole(moved);
    return cut_off > moved ? cut_off - 1.0 : cut_off;
}

static inline Bits largest_of(Bits a, Bits b) { return a > b ? a : b; }

// The register after sums of two groups of products, in whole numbers of each group's quantum.
static inline Vector added(Vector sum, const Vector* groups, const Bits* exponents, bool fp32) {
    if (fp32) {
        const Wide first = widened(groups[0]) * power_of_two(exponents[0] - 127 - ADDER_BITS);
        const Wide second = widened(groups[1]) * power_of_two(exponents[1] - 127 - ADDER_BITS);
        return __builtin_convertvector(widened(sum) + (first + second), Vector);
    }
    const Bits top = largest_of(((Bits)sum >> 23) & 0xFF, largest_of(exponents[0], exponents[1]));
    Wide total = nearest_away(widened(sum) * power_of_two(127 + ADDER_BITS - top));
    Wide both = nearest_up(widened(groups[0]) * power_of_two(exponents[0] - top));
    both += nearest_up(widened(groups[1]) * power_of_two(exponents[1] - top));
    return round_away(__builtin_convertvector((total + both) * power_of_two(top - 127 - ADDER_BITS), Vector));
}

// Sixteen columns of one row. `inner` is a multiple of 32.
static Vector followed(const Parts& x, const Parts& w, int64_t column, int64_t columns, int64_t inner, int phases, bool fp32,
                       Vector sum) {
    const Vector magic = Vector{} + 12582912.0f;
    for (int64_t tile = 0; tile < inner; tile += 2 * CARD_STEP) {
        Bits largest[4];  // groups of both steps
        for (int g = 0; g < 4; g++) {
            const int64_t k = tile + g * CARD_GROUP;
            largest[g] = x.exponent[k] + *(const Bits*)(w.exponent.data() + k * columns + column);
            for (int i = 1; i < CARD_GROUP; i++)
                largest[g] = largest_of(
                    largest[g], x.exponent[k + i] + *(const Bits*)(w.exponent.data() + (k + i) * columns + column));
            largest[g] -= 127;
        }
        for (int phase = 0; phase < phases; phase++) {
            const int low_w = phase & 1, low_x = phase >> 1;
            const float* part_x = low_x ? x.low.data() : x.high.data();
            const float* part_w = low_w ? w.low.data() : w.high.data();
            for (int step = 0; step < 2; step++) {
                Vector sums[2];
                Bits exponents[2];
                for (int half = 0; half < 2; half++) {
                    const int g = 2 * step + half;
                    const int64_t k = tile + g * CARD_GROUP;
                    exponents[half] = largest_of(largest[g] - LOW_A * low_w - LOW_B * low_x, Bits{} + SMALLEST_EXPONENT);
                    Bits up = 2 * 127 + ADDER_BITS - exponents[half];
                    up = up < 1 ? Bits{} + 1 : up > 254 ? Bits{} + 254 : up;
                    const Vector scale = (Vector)(up << 23) * (1.0f + 0x1p-20f);
                    sums[half] = Vector{};
                    for (int i = 0; i < CARD_GROUP; i++) {
                        const Vector product = part_x[k + i] * load(part_w + (k + i) * columns + column);
                        sums[half] += (product * scale + magic) - magic;
                    }
                }
                sum = added(sum, sums, exponents, fp32);
            }
        }
    }
    return sum;
}

// (rows, inner) times (inner, columns) onto `start` (zeros where it is null); inner in tiles, columns in vectors, rows of
// x `apart` from each other.
static void by_vectors(const float* x, const float* w, const float* start, float* out, int64_t rows, int64_t inner,
                       int64_t columns, int64_t apart, int phases, bool fp32, int64_t threads) {
    const Parts weights(w, inner * columns, 4, 9);
#pragma omp parallel for schedule(dynamic, 4) num_threads((int)threads)
    for (int64_t row = 0; row < rows; row++) {
        const Parts values(x + row * apart, inner, 6, 10);
        for (int64_t c = 0; c < columns; c += LANES) {
            const Vector sum = start ? load(start + row * columns + c) : Vector{};
            store(out + row * columns + c, followed(values, weights, c, columns, inner, phases, fp32, sum));
        }
    }
}
