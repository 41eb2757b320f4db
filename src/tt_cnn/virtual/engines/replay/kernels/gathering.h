// SPDX-License-Identifier: Apache-2.0
// Windows of an image, each as a row: runs of numbers that lie side by side in the image, or of zeros.
#pragma once
#include "registers.h"

struct Stretch {
    int64_t offset, length;  // from the window's first pixel; below 0 for zeros
};

struct Places {
    int64_t out_height, out_width;
    int64_t image, row, pixel;  // floats from one image to the next, and from one window to the one below and beside it
};

extern "C" void gather_windows(const float* x, const Places* windows, const Stretch* runs, int64_t count, int64_t first,
                               int64_t rows, int64_t width, float* y, int64_t threads) {
    const Places w = *windows;
#pragma omp parallel for num_threads((int)threads)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t place = first + r, line = place / w.out_width;
        const float* from = x + line / w.out_height * w.image + line % w.out_height * w.row + place % w.out_width * w.pixel;
        float* to = y + r * width;
        for (int64_t i = 0; i < count; to += runs[i].length, i++) {
            if (runs[i].offset < 0) memset(to, 0, runs[i].length * sizeof(float));
            else memcpy(to, from + runs[i].offset, runs[i].length * sizeof(float));
        }
    }
}
