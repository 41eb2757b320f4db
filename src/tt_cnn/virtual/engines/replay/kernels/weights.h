// SPDX-License-Identifier: Apache-2.0
// Weights (outputs, inputs, height, width) as the products want them: panels of columns, row after row.
#pragma once
#include <algorithm>
#include "points.h"

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

// Matrices of (inputs) rows, one for each of Winograd's points.
template <int side>
static void to_points(const Weights& w, int64_t v, int64_t c, float* column, int64_t width, int64_t matrix) {
    using Of = Tile<side>;
    constexpr int across = Of::across;
    Vector half[across * 3], points[Of::points];
    for (int x = 0; x < 3; x++) {
        Vector g[3], u[across];
        for (int y = 0; y < 3; y++) g[y] = column_of(w, v * LANES, c, y, x);
        Of::kernel(g, u);
        for (int i = 0; i < across; i++) half[i * 3 + x] = u[i];
    }
    for (int i = 0; i < across; i++) Of::kernel(half + i * 3, points + i * across);
    for (int i = 0; i < Of::points; i++) store(column + i * matrix + c * width, points[i]);
}

// Rows are (height, width, inputs), or those of Winograd's matrices for tiles of that side.
extern "C" void pack_weights(const Weights* weights, int64_t tile_side, float* to, int64_t threads) {
    const Weights& w = *weights;
    const int64_t places = w.height * w.width, vectors = (w.outputs + LANES - 1) / LANES;
    const int64_t matrix = vectors * w.inputs * LANES;
#pragma omp parallel for num_threads((int)threads) schedule(dynamic)
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t panel = v / WIDE, width = std::min<int64_t>(WIDE, vectors - panel * WIDE) * LANES;
        float* column = to + panel * PANEL * w.inputs * (tile_side ? 1 : places) + v % WIDE * LANES;
        for (int64_t c = 0; c < w.inputs; c++) {
            if (tile_side == 4) to_points<4>(w, v, c, column, width, matrix);
            else if (tile_side == 2) to_points<2>(w, v, c, column, width, matrix);
            else
                for (int64_t p = 0; p < places; p++)
                    store(column + (p * w.inputs + c) * width, column_of(w, v * LANES, c, p / w.width, p % w.width));
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
