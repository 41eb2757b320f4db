// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of stride 1 after Winograd, F(4x4, 3x3).
#pragma once
#include "product.h"
#include "step.h"

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

constexpr int TILE = 36;  // points of a tile, 6 x 6 for 4 x 4 results

// Some tiles at their points: rows of `width` numbers, and a gap between points that keeps them apart in the cache.
struct Points {
    float* at;
    int tiles, width;

    size_t distance() const { return (size_t)tiles * width + LANES; }
    float* row(int point, int tile) const { return at + point * distance() + (size_t)tile * width; }
};

// One point: (tiles, channels) times a panel (channels, columns).
static void multiply(const Points& V, const Points& M, int point, int tiles, const float* u, const float* next, int column,
                     int vectors) {
    for (int t = 0, groups = (tiles - 1) / rows_with(vectors) + 1, line = 0; groups > 0; groups--, line++) {
        const int rows = (tiles - t + groups - 1) / groups;
        Run run = {u, {}};
        for (int r = 0; r < rows; r++) run.from[r] = V.row(point, t + r);
        PRODUCTS[rows - 1][vectors - 1](&run, 1, V.width, zeros, 0, M.row(point, t) + column, M.width,
                                        line < vectors ? next + (size_t)line * V.width * LANES : u);
        t += rows;
    }
}

static void to_points(const Step& s, int tile, int at, const Points& V) {
    const int across = (int)(s.out_width + 3) / 4, down = (int)(s.out_height + 3) / 4, C = (int)s.channels;
    const int n = tile / (across * down), y0 = tile / across % down * 4 - (int)s.top, x0 = tile % across * 4 - (int)s.left;
    const float* pixels[TILE];
    for (int i = 0; i < 6; i++)
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            const int y = y0 + i, x = x0 + j;
            const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            pixels[i * 6 + j] = inside ? s.x + (((size_t)n * s.height + y) * s.width + x) * s.x_pixel : zeros;
        }
    for (int c = 0; c < C; c += LANES) {
        Vector half[TILE];
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            Vector column[6], v[6];
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++) column[i] = load(pixels[i * 6 + j] + c);
            forward(column, v);
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++) half[i * 6 + j] = v[i];
        }
        float* to = V.row(0, at) + c;
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++) {
            Vector v[6];
            forward(half + i * 6, v);
#pragma GCC unroll 6
            for (int j = 0; j < 6; j++, to += V.distance()) store(to, v[j]);
        }
    }
}

// One pixel's sums of sixteen channels, by the weights as they are, which lie behind those at the points.
static Vector plain_sum(const Step& s, int n, int y, int x, int channel) {
    const int C = (int)s.channels, columns = (int)((s.out_channels + LANES - 1) / LANES) * LANES;
    const int panel = channel / PANEL * PANEL, width = std::min(PANEL, columns - panel);
    const float* weights = s.weights + (size_t)TILE * columns * C + (size_t)panel * 9 * C + channel - panel;
    Vector sum = {};
    for (int place = 0; place < 9; place++) {
        const int64_t from_y = y + place / 3 - s.top, from_x = x + place % 3 - s.left;
        if (from_y < 0 || from_y >= s.height || from_x < 0 || from_x >= s.width) continue;
        const float* from = s.x + ((n * s.height + from_y) * s.width + from_x) * s.x_pixel;
        for (int c = 0; c < C; c++) sum += from[c] * load(weights + (size_t)(place * C + c) * width);
    }
    return sum;
}

// An infinity, a NaN or an overflow is in all results of a tile, also in those whose windows it is not in: what is not
// finite is added up plainly. Nothing that is so can come out finite.
static __attribute__((noinline)) void replace_infinite(const Step& s, int n, int y0, int x0, int channel, Vector* result) {
    for (int i = 0; i < 16; i++)
        if (!all_finite(result[i])) result[i] = plain_sum(s, n, y0 + i / 4, x0 + i % 4, channel);
}

// Results of the channels from `first` on, as many as M has.
static void from_points(const Step& s, int tile, int at, const Points& M, int first) {
    const int across = (int)(s.out_width + 3) / 4, down = (int)(s.out_height + 3) / 4;
    const int n = tile / (across * down), y0 = tile / across % down * 4, x0 = tile % across * 4;
    for (int c = first; c < std::min(first + M.width, (int)s.out_channels); c += LANES) {
        const int count = std::min(LANES, (int)s.out_channels - c);
        Vector half[24], result[16];
        const Vector bias = load(s.bias + c);
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) {
            Vector column[6], y[4];
#pragma GCC unroll 6
            for (int i = 0; i < 6; i++) column[i] = load(M.row(i * 6 + j, at) + c - first);
            backward(column, y);
#pragma GCC unroll 6
            for (int i = 0; i < 4; i++) half[i * 6 + j] = y[i];
        }
#pragma GCC unroll 6
        for (int i = 0; i < 4; i++) backward(half + i * 6, result + i * 4);
        Vector rows[4];
        for (int i = 0; i < 4; i++) rows[i] = (result[i * 4] + result[i * 4 + 1]) + (result[i * 4 + 2] + result[i * 4 + 3]);
        if (__builtin_expect(!all_finite((rows[0] + rows[1]) + (rows[2] + rows[3])), 0))
            replace_infinite(s, n, y0, x0, c, result);
        float* to[16];
        const float* other[16];
        int kept = 0;
        for (int i = 0; i < 4 && y0 + i < s.out_height; i++)
            for (int j = 0; j < 4 && x0 + j < s.out_width; j++, kept++) {
                const size_t pixel = ((size_t)n * s.out_height + y0 + i) * s.out_width + x0 + j;
                to[kept] = s.y + n * s.y_image + (y0 + i) * s.y_row + (x0 + j) * s.y_pixel + c;
                other[kept] = s.other ? s.other + pixel * s.other_pixel + c : nullptr;
                result[kept] = result[i * 4 + j] + bias;
            }
        put_many(s, to, other, result, kept, 1, count, c);
    }
}

// Tiles are handed out in blocks. Where these are few, panels are too, and every thread transforms for itself.
static void winograd(const Step& s, const Team& team) {
    const int C = (int)s.channels, columns = (int)((s.out_channels + LANES - 1) / LANES) * LANES;
    const int tiles = (int)(s.batch * ((s.out_height + 3) / 4) * ((s.out_width + 3) / 4)), at_once = (int)s.tiles;
    const int blocks = (tiles + at_once - 1) / at_once, panels = (columns + PANEL - 1) / PANEL;
    const int parts = std::min(panels, std::max(1, 2 * team.size / blocks));
    const Points V = {team.scratch, at_once, C};
    int transformed = -1;
    for (int piece; (piece = (int)team.next()) < blocks * parts;) {
        const int block = piece / parts, first = block * at_once, count = std::min(at_once, tiles - first);
        const int begin = panels * (piece % parts) / parts * PANEL;
        const int end = std::min(columns, panels * (piece % parts + 1) / parts * PANEL);
        const Points M = {V.at + TILE * V.distance(), at_once, end - begin};
        if (transformed != block)
            for (int t = 0; t < count; t++) to_points(s, first + t, t, V);
        transformed = block;
        for (int i = 0; i < TILE; i++)
            for (int n = begin; n < end; n += PANEL) {
                const int vectors = std::min(PANEL, end - n) / LANES;
                const float* u = s.weights + ((size_t)i * columns + n) * C;
                const float* next = u + (size_t)(n + PANEL < end ? vectors * LANES : columns - n + begin) * C;
                multiply(V, M, i, count, u, next, n - begin, vectors);
            }
        for (int t = 0; t < count; t++) from_points(s, first + t, t, M, begin);
    }
}
