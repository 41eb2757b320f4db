// SPDX-License-Identifier: Apache-2.0
// A function of a bfloat16 register, whose 65536 results are known: the upper half of a number says which is its own.
#pragma once
#include <cstdint>
#include <cstring>

extern "C" void look_up(const uint16_t* results, const float* x, float* y, int64_t count, int64_t threads) {
#pragma omp parallel for num_threads((int)threads) if (count > 1 << 14)
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits = (uint32_t)results[bits >> 16] << 16;
        memcpy(y + i, &bits, sizeof bits);
    }
}
