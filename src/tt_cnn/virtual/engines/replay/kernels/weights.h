// SPDX-License-Identifier: Apache-2.0
// Weights (outputs, inputs, height, width) as the products want them: panels of columns, row after row.
#pragma once
#include <algorithm>
#include "product.h"

struct Weights {
    const float* values;
    int64_t outputs, inputs, height, width;
    int64_t from_output, from_input, from_row, from_column;  // distances
};

// One place of the kernels from an input to sixteen outputs; outputs that are not there are 0.
static Vector column_of(const Weights& w, int64_t output, int64_t input, int64_t y, int64_t x) {
    const float* at = w.values + output * w.from_output + input * w.from_input + y * w.from_row + x * w.from_column;
    Vector found = {};
    const int64_t count = std::min<int64_t>(LANES, w.outputs - output);
    for (int64_t i = 0; i < count; i++) found[i] = at[i * w.from_output];
    return found;
}

// A kernel's row of 3 at Winograd's points 0, 1, -1, 2, -2 and infinity.
static inline void kernel_to_points(const Vector* g, Vector* u) {
    const Vector outer = (g[0] + g[2]) * (-1.0f / 6), middle = g[1] * (1.0f / 6);
    const Vector far = g[0] * (1.0f / 24) + g[2] * (1.0f / 6), half = g[1] * (1.0f / 12);
    u[0] = g[0] * 0.25f;
    u[1] = outer - middle;
    u[2] = outer + middle;
    u[3] = far + half;
    u[4] = far - half;
    u[5] = g[2];
}

// Rows are (height, width, inputs), or with `winograd` 36 matrices of (inputs) rows one after the other.
extern "C" void pack_weights(const Weights* weights, int64_t winograd, float* to, int64_t threads) {
    const Weights& w = *weights;
    const int64_t places = w.height * w.width, vectors = (w.outputs + LANES - 1) / LANES;
#pragma omp parallel for num_threads((int)threads) schedule(dynamic)
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t panel = v / WIDE, width = std::min<int64_t>(WIDE, vectors - panel * WIDE) * LANES;
        float* column = to + panel * PANEL * w.inputs * (winograd ? 1 : places) + v % WIDE * LANES;
        for (int64_t c = 0; c < w.inputs; c++) {
            if (!winograd) {
                for (int64_t p = 0; p < places; p++)
                    store(column + (p * w.inputs + c) * width, column_of(w, v * LANES, c, p / w.width, p % w.width));
                continue;
            }
            Vector half[18], points[36];
            for (int x = 0; x < 3; x++) {
                Vector g[3], u[6];
                for (int y = 0; y < 3; y++) g[y] = column_of(w, v * LANES, c, y, x);
                kernel_to_points(g, u);
                for (int i = 0; i < 6; i++) half[i * 3 + x] = u[i];
            }
            for (int i = 0; i < 6; i++) kernel_to_points(half + i * 3, points + i * 6);
            for (int i = 0; i < 36; i++) store(column + (i * vectors * w.inputs * LANES) + c * width, points[i]);
        }
    }
}

extern "C" int multiplies_pairs() {
#ifdef __AVX512BF16__
    return 1;
#else
    return 0;
#endif
}

extern "C" int multiplies_bytes() {
#ifdef __AVX512VNNI__
    return 1;
#else
    return 0;
#endif
}
