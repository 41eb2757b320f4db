// SPDX-License-Identifier: Apache-2.0
// Winograd's points: how pixels, kernels and results go to them and come from them.
#pragma once
#include "vector.h"

// What goes for tiles of so many results a side.
template <int side>
struct Tile;

template <>
struct Tile<4> {
    static constexpr int across = 6, points = across * across;

    static inline void forward(const Vector* d, Vector* v) {  // 6 pixels to 6 points
        const Vector even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
        const Vector even2 = d[4] - d[2], odd2 = 2.0f * (d[3] - d[1]);
        v[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
        v[1] = even + odd;
        v[2] = even - odd;
        v[3] = even2 + odd2;
        v[4] = even2 - odd2;
        v[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
    }

    static inline void backward(const Vector* m, Vector* y) {  // 6 points to 4 results
        const Vector s12 = m[1] + m[2], d12 = m[1] - m[2], s34 = m[3] + m[4], d34 = m[3] - m[4];
        y[0] = m[0] + s12 + s34;
        y[1] = d12 + 2.0f * d34;
        y[2] = s12 + 4.0f * s34;
        y[3] = d12 + 8.0f * d34 + m[5];
    }

    // A kernel's row of 3 at the points 0, 1, -1, 2, -2 and infinity.
    static inline void kernel(const Vector* g, Vector* u) {
        const Vector outer = (g[0] + g[2]) * (-1.0f / 6), middle = g[1] * (1.0f / 6);
        const Vector far = g[0] * (1.0f / 24) + g[2] * (1.0f / 6), half = g[1] * (1.0f / 12);
        u[0] = g[0] * 0.25f;
        u[1] = outer - middle;
        u[2] = outer + middle;
        u[3] = far + half;
        u[4] = far - half;
        u[5] = g[2];
    }
};

template <>
struct Tile<2> {
    static constexpr int across = 4, points = across * across;

    static inline void forward(const Vector* d, Vector* v) {
        v[0] = d[0] - d[2];
        v[1] = d[1] + d[2];
        v[2] = d[2] - d[1];
        v[3] = d[1] - d[3];
    }

    static inline void backward(const Vector* m, Vector* y) {
        y[0] = m[0] + m[1] + m[2];
        y[1] = m[1] - m[2] - m[3];
    }

    // At the points 0, 1, -1 and infinity.
    static inline void kernel(const Vector* g, Vector* u) {
        const Vector outer = (g[0] + g[2]) * 0.5f, middle = g[1] * 0.5f;
        u[0] = g[0];
        u[1] = outer + middle;
        u[2] = outer - middle;
        u[3] = g[2];
    }
};
