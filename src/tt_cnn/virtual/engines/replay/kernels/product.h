// SPDX-License-Identifier: Apache-2.0
// Sums of products, rows times columns, in registers.
#pragma once
#include "step.h"

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

constexpr int ROWS = 7;                // of a product, at most

// So many rows, their sums, weights and a number fill the registers.
static inline int rows_with(int vectors) {
#ifdef __AVX512F__
    return vectors == WIDE ? 6 : ROWS;
#else
    return 6;
#endif
}

// A stretch of rows, numbers side by side, and the weights that go with them: as many vectors for each number.
struct Run {
    const float* weights;
    const float* from[ROWS];
};

// What follows a sum where that is little: bias, an addition, bounds; and where the results go.
struct Ending {
    const float* bias;
    Bounds bounds;
    int last;        // columns of the last vector
    bool adds;
    float* y[ROWS];
    const float* other[ROWS];

    // One row's sums.
    template <int V, bool adds>
    inline __attribute__((always_inline)) void end(const Vector* sums, int row) const {
        const Vector low = Vector{} + bounds.low, high = Vector{} + bounds.high;
        float* to = y[row];
        const float* added = other[row];
#pragma GCC unroll 4
        for (int v = 0; v < V; v++, to += LANES, added += LANES) {
            const bool whole = v < V - 1 || last == LANES;
            Vector sum = sums[v] + load(bias + v * LANES);
            if (adds) sum += whole ? load(added) : load_first(added, last);
            sum = smaller(high, larger(low, sum));
            if (whole) store(to, sum);
            else store_first(to, sum, last);
        }
    }
};

#ifdef __AVX512F__
// Adds the products of all runs. What lies at `ahead` will be needed soon: a line is fetched with every number.
template <int R, int V, bool paired>
static inline __attribute__((always_inline)) void add_products(Vector (&sum)[R][V], const Run* runs, int count, int length,
                                                               const float* ahead) {
    for (; count > 0; count--, runs++) {
        const float* from[R];
#pragma GCC unroll 7
        for (int r = 0; r < R; r++) from[r] = runs->from[r];
        const float* w = runs->weights;
        for (int k = 0; k < length; k++, w += V * LANES, ahead += LANES) {
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
}

template <int R, int V>
static inline __attribute__((always_inline)) void begin_sums(Vector (&sum)[R][V], const float* start, size_t start_row) {
#pragma GCC unroll 7
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) sum[r][v] = load(start + r * start_row + v * LANES);
}

// `start` plus the products of all runs.
template <int R, int V, bool paired>
static void product(const Run* runs, int count, int length, const float* start, size_t start_row, float* sums,
                    size_t sums_row, const float* ahead) {
    Vector sum[R][V];
    begin_sums<R, V>(sum, start, start_row);
    add_products<R, V, paired>(sum, runs, count, length, ahead);
#pragma GCC unroll 7
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) store(sums + r * sums_row + v * LANES, sum[r][v]);
}

// The same, and what follows it.
template <int R, int V>
static void product_to_end(const Run* runs, int count, int length, const float* start, size_t start_row,
                           const Ending& ending, const float* ahead) {
    Vector sum[R][V];
    begin_sums<R, V>(sum, start, start_row);
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) __builtin_prefetch(ending.y[r] + v * LANES, 1, 3);
    add_products<R, V, false>(sum, runs, count, length, ahead);
    if (ending.adds) {
#pragma GCC unroll 7
        for (int r = 0; r < R; r++) ending.end<V, true>(sum[r], r);
    } else {
#pragma GCC unroll 7
        for (int r = 0; r < R; r++) ending.end<V, false>(sum[r], r);
    }
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

template <int R, int V>
static void product_to_end(const Run* runs, int count, int length, const float* start, size_t start_row,
                           const Ending& ending, const float* ahead) {
    alignas(64) float sums[R * V * LANES];
    product<R, V, false>(runs, count, length, start, start_row, sums, V * LANES, ahead);
    for (int r = 0; r < R; r++) {
        const Vector* row = (const Vector*)(sums + r * V * LANES);
        ending.adds ? ending.end<V, true>(row, r) : ending.end<V, false>(row, r);
    }
}
#endif

using Product = void (*)(const Run*, int, int, const float*, size_t, float*, size_t, const float*);
using ProductToEnd = void (*)(const Run*, int, int, const float*, size_t, const Ending&, const float*);

#define FOR_WIDTHS(R, P) {product<R, 1, P>, product<R, 2, P>, product<R, 3, P>, product<R, 4, P>}
#define NARROW(R, P) {product<R, 1, P>, product<R, 2, P>, product<R, 3, P>, nullptr}
#define FOR_ROWS(P)                                                                                              \
    {FOR_WIDTHS(1, P), FOR_WIDTHS(2, P), FOR_WIDTHS(3, P), FOR_WIDTHS(4, P), FOR_WIDTHS(5, P), FOR_WIDTHS(6, P), \
     NARROW(7, P)}
static const Product PRODUCTS[ROWS][WIDE] = FOR_ROWS(false);
static const Product PAIRED_PRODUCTS[ROWS][WIDE] = FOR_ROWS(true);
#undef FOR_ROWS
#undef NARROW
#undef FOR_WIDTHS

#define FOR_WIDTHS(R) {product_to_end<R, 1>, product_to_end<R, 2>, product_to_end<R, 3>, product_to_end<R, 4>}
#define NARROW(R) {product_to_end<R, 1>, product_to_end<R, 2>, product_to_end<R, 3>, nullptr}
static const ProductToEnd PRODUCTS_TO_END[ROWS][WIDE] = {
    FOR_WIDTHS(1), FOR_WIDTHS(2), FOR_WIDTHS(3), FOR_WIDTHS(4), FOR_WIDTHS(5), FOR_WIDTHS(6), NARROW(7),
};
#undef NARROW
#undef FOR_WIDTHS
