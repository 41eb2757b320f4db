// SPDX-License-Identifier: Apache-2.0
// Sums of products, rows times columns, in registers.
#pragma once
#include "vector.h"

typedef float Half __attribute__((vector_size(32), aligned(4), may_alias));

// `sum` plus a product, rounded once. Left to themselves, compilers round the product too where few sums are under way
// at a time, so that the last rows of a matrix would get other bits than the rows above them.
static inline Vector plus_product(Vector sum, float value, Vector weights) {
#ifdef __AVX512F__
    return (Vector)_mm512_fmadd_ps(_mm512_set1_ps(value), (__m512)weights, (__m512)sum);
#else
    return sum + value * weights;
#endif
}

static inline Half plus_product(Half sum, float value, Half weights) {
#ifdef __FMA__
    return (Half)_mm256_fmadd_ps(_mm256_set1_ps(value), (__m256)weights, (__m256)sum);
#else
    return sum + value * weights;
#endif
}

// `sum` plus the products of two pairs of bfloat16 numbers in each lane, or plus those of two numbers.
template <bool paired>
static inline Vector plus_products(Vector sum, float value, Vector weights) {
#ifdef __AVX512BF16__
    if (paired) {
        const Vector values = Vector{} + value;
        return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)values, (__m512bh)weights);
    }
#endif
    return plus_product(sum, value, weights);
}

constexpr int ROWS = 7;                // so many rows with four vectors of columns each fill the registers of AVX-512
constexpr int WIDE = 4;                // vectors of a panel of columns
constexpr int PANEL = WIDE * LANES;    // the last panel of a matrix is as narrow as its columns allow, in whole vectors

// A stretch of rows, numbers side by side, and the weights that go with them: as many vectors for each number.
struct Run {
    const float* weights;
    const float* from[ROWS];
};

// `start` plus the products of all runs. What lies at `ahead` will be needed soon: a line is fetched with every number.
#ifdef __AVX512F__
template <int R, int V, bool paired>
static void product(const Run* runs, int count, int length, const float* start, size_t start_row, float* sums,
                    size_t sums_row, const float* ahead) {
    Vector sum[R][V];
#pragma GCC unroll 7
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) sum[r][v] = load(start + r * start_row + v * LANES);
    for (; count > 0; count--, runs++) {
        const float* from[R];
#pragma GCC unroll 7
        for (int r = 0; r < R; r++) from[r] = runs->from[r];
        const float* w = runs->weights;
        for (int k = 0; k < length; k++, w += V * LANES, ahead += V * LANES) {
            Vector weights[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) weights[v] = load(w + v * LANES);
            __builtin_prefetch(ahead, 0, 2);
#pragma GCC unroll 7
            for (int r = 0; r < R; r++) {
                const float value = from[r][k];
#pragma GCC unroll 4
                for (int v = 0; v < V; v++) sum[r][v] = plus_products<paired>(sum[r][v], value, weights[v]);
            }
        }
    }
#pragma GCC unroll 7
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) store(sums + r * sums_row + v * LANES, sum[r][v]);
}
#else
// With sixteen registers, or fewer: one vector of columns after the other, as two halves. Each sum is added up in the
// same order.
template <int R, int V, bool paired>
static void product(const Run* runs, int count, int length, const float* start, size_t start_row, float* sums,
                    size_t sums_row, const float* ahead) {
    constexpr int HALF = LANES / 2;
    for (int column = 0; column < V * LANES; column += LANES) {
        Half low[R], high[R];
#pragma GCC unroll 7
        for (int r = 0; r < R; r++) {
            const float* from = start + r * start_row + column;
            low[r] = *(const Half*)from;
            high[r] = *(const Half*)(from + HALF);
        }
        for (int i = 0; i < count; i++) {
            const float* from[R];
#pragma GCC unroll 7
            for (int r = 0; r < R; r++) from[r] = runs[i].from[r];
            const float* w = runs[i].weights + column;
            for (int k = 0; k < length; k++, w += V * LANES) {
                const Half first = *(const Half*)w, second = *(const Half*)(w + HALF);
#pragma GCC unroll 7
                for (int r = 0; r < R; r++) {
                    const float value = from[r][k];
                    low[r] = plus_product(low[r], value, first);
                    high[r] = plus_product(high[r], value, second);
                }
            }
        }
#pragma GCC unroll 7
        for (int r = 0; r < R; r++) {
            float* to = sums + r * sums_row + column;
            *(Half*)to = low[r];
            *(Half*)(to + HALF) = high[r];
        }
    }
}
#endif

using Product = void (*)(const Run*, int, int, const float*, size_t, float*, size_t, const float*);

#define FOR_WIDTHS(R, P) {product<R, 1, P>, product<R, 2, P>, product<R, 3, P>, product<R, 4, P>}
#define FOR_ROWS(P)                                                                                              \
    {FOR_WIDTHS(1, P), FOR_WIDTHS(2, P), FOR_WIDTHS(3, P), FOR_WIDTHS(4, P), FOR_WIDTHS(5, P), FOR_WIDTHS(6, P), \
     FOR_WIDTHS(7, P)}
static const Product PRODUCTS[ROWS][WIDE] = FOR_ROWS(false);
static const Product PAIRED_PRODUCTS[ROWS][WIDE] = FOR_ROWS(true);
#undef FOR_ROWS
#undef FOR_WIDTHS
