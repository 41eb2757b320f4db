// SPDX-License-Identifier: Apache-2.0
// Sums after roundings that are not followed: how far these carry them is known, which way is drawn from their bits.
#pragma once
#include "step.h"

constexpr int64_t SAMPLE = 64;  // rows, as numerics/convolution/quick.py has it
constexpr int64_t CARD_TILE = 32;
constexpr uint32_t MIXER = (uint32_t)-1640531527;

static void walk(const Step& s, const Team& team) {
    const int64_t rows = s.batch * s.out_height * s.out_width, C = s.out_channels;
    const int64_t step = std::max<int64_t>(1, rows / SAMPLE), columns = (C + CARD_TILE - 1) / CARD_TILE * CARD_TILE;
    double squares = 0;
    int64_t sampled = 0;
    for (int64_t row = 0; row < rows; row += step, sampled++)
        for (int64_t c = 0; c < C; c++) squares += s.x[row * s.x_pixel + c] * s.x[row * s.x_pixel + c];
    const float typical = __builtin_sqrtf((float)squares / (float)(sampled * columns)), length = (float)s.a;
    constexpr int64_t AT_ONCE = 64;
    const int64_t pieces = (rows + AT_ONCE - 1) / AT_ONCE;
    for (int64_t i; (i = team.next(pieces)) < pieces;)
        for (int64_t row = i * AT_ONCE; row < std::min(rows, (i + 1) * AT_ONCE); row++) {
            const int64_t n = row / (s.out_height * s.out_width), inside = row % (s.out_height * s.out_width);
            float* to = s.y + n * s.y_image + inside / s.out_width * s.y_row + inside % s.out_width * s.y_pixel;
            for (int64_t c = 0; c < C; c += LANES) {
                const int lanes = (int)std::min<int64_t>(LANES, C - c);
                const Vector sum = load_some(s.x + row * s.x_pixel + c, lanes);
                const Vector size = (Vector)((Bits)sum & MAGNITUDE) + typical;
                const Vector drawn = __builtin_convertvector((Bits)((Words)sum * MIXER) >> 16, Vector);
                const float* other = s.other ? s.other + row * s.other_pixel + c : nullptr;
                put(s, to + c, other, sum + length * drawn * size, lanes, (int)c);
            }
        }
}
