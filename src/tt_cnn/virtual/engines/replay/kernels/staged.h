// SPDX-License-Identifier: Apache-2.0
// A stage of rounding.h by itself.
#pragma once
#include <algorithm>
#include "rounding.h"

// One rounding of many numbers: blocks lie side by side.
extern "C" void round_values(int64_t kind, int64_t bits, const float* x, float* y, int64_t count, int64_t threads) {
    constexpr int64_t AT_ONCE = 64 * LANES;
    const Stage stage = {kind, nullptr, (double)bits, 0};
#pragma omp parallel for num_threads((int)threads) if (count > 16 * AT_ONCE)
    for (int64_t first = 0; first < count; first += AT_ONCE) {
        const int64_t here = first + AT_ONCE < count ? AT_ONCE : count - first, vectors = (here + LANES - 1) / LANES;
        Vector values[AT_ONCE / LANES];
        if (here % LANES) values[vectors - 1] = Vector{};
        memcpy(values, x + first, here * sizeof(float));
        run_stages(&stage, 1, values, (int)vectors, 1, nullptr, 0, LANES);
        memcpy(y + first, values, here * sizeof(float));
    }
}
