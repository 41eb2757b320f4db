// SPDX-License-Identifier: Apache-2.0
// Steps that multiply rows with matrices of float32.
#include <omp.h>
#include "convolution.h"

void multiply_pixels(const Step& s, const Team& team) { convolution(s, team); }

// The products a second that registers and the first cache reach on `threads` threads: what none of float32 can be above.
extern "C" double products_of_floats(int64_t threads) {
    constexpr int TILES = 80000, LONG = 128;
    alignas(64) static float weights[LONG * PANEL], image[LONG];
    const int rows = rows_with(WIDE);
    const Product volatile multiply = PRODUCTS[rows - 1][WIDE - 1];  // so that it is called as it is
    const double began = omp_get_wtime();
#pragma omp parallel for num_threads((int)threads) schedule(static)
    for (int tile = 0; tile < TILES; tile++) {
        alignas(64) float sums[ROWS * PANEL];
        Run run = {weights, {}};
        for (int r = 0; r < rows; r++) run.from[r] = image;
        multiply(&run, 1, LONG, zeros, 0, sums, PANEL, weights);
    }
    return (double)TILES * LONG * rows * PANEL / (omp_get_wtime() - began);
}
