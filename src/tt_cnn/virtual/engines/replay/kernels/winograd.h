// SPDX-License-Identifier: Apache-2.0
// 3x3 convolution of stride 1 after Winograd: F(4x4, 3x3), and F(2x2, 3x3) where weights are more than images.
#pragma once
#include "points.h"
#include "product.h"
#include "step.h"

// How many tiles there are.
template <int side>
struct Tiling {
    int across, down;

    explicit Tiling(const Step& s) : across((int)(s.out_width - 1) / side + 1), down((int)(s.out_height - 1) / side + 1) {}
    int image(int tile) const { return tile / (across * down); }
    int y(int tile) const { return tile / across % down * side; }
    int x(int tile) const { return tile % across * side; }
};

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

constexpr int TILES_AHEAD = 2;

// The pixels of a tile somewhat further in its row, where they are inside the image; of neighbours' none.
template <int side, int write>
static inline void fetch_ahead(const Step& s, const float* row, int64_t row_size, int64_t pixel_size, int rows, int x, int width,
                               int channels) {
    const int first = x + TILES_AHEAD * side;
    if (first + side > width) return;
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < side; j++)
            for (int c = 0; c < channels; c += LANES)
                __builtin_prefetch(row + i * row_size + (first + j) * pixel_size + c, write, 3);
}

template <int side>
static void to_points(const Step& s, int tile, int at, const Points& V) {
    using Of = Tile<side>;
    constexpr int across = Of::across;
    const Tiling<side> tiling(s);
    const int n = tiling.image(tile), y0 = tiling.y(tile) - (int)s.top, x0 = tiling.x(tile) - (int)s.left;
    const float* pixels[Of::points];
    for (int i = 0; i < across; i++)
#pragma GCC unroll 6
        for (int j = 0; j < across; j++) {
            const int y = y0 + i, x = x0 + j;
            const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            pixels[i * across + j] = inside ? s.x + (((size_t)n * s.height + y) * s.width + x) * s.x_pixel : zeros;
        }
    if (y0 >= 0 && y0 + across <= s.height)
        fetch_ahead<side, 0>(s, s.x + ((size_t)n * s.height + y0) * s.width * s.x_pixel, s.width * s.x_pixel, s.x_pixel, across,
                             x0, (int)s.width, (int)s.channels);
    for (int c = 0; c < s.channels; c += LANES) {
        Vector half[Of::points];
#pragma GCC unroll 6
        for (int j = 0; j < across; j++) {
            Vector column[across], v[across];
#pragma GCC unroll 6
            for (int i = 0; i < across; i++) column[i] = load(pixels[i * across + j] + c);
            Of::forward(column, v);
#pragma GCC unroll 6
            for (int i = 0; i < across; i++) half[i * across + j] = v[i];
        }
        float* to = V.row(0, at) + c;
#pragma GCC unroll 6
        for (int i = 0; i < across; i++) {
            Vector v[across];
            Of::forward(half + i * across, v);
#pragma GCC unroll 6
            for (int j = 0; j < across; j++, to += V.distance()) store(to, v[j]);
        }
    }
}

// One pixel's sums of sixteen channels, by the weights as they are, which lie behind those at the points.
static Vector plain_sum(const Step& s, int points, int n, int y, int x, int channel) {
    const int C = (int)s.channels, columns = (int)((s.out_channels + LANES - 1) / LANES) * LANES;
    const int panel = channel / PANEL * PANEL, width = std::min(PANEL, columns - panel);
    const float* weights = s.weights + (size_t)points * columns * C + (size_t)panel * 9 * C + channel - panel;
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
template <int side>
static __attribute__((noinline)) void replace_infinite(const Step& s, int n, int y0, int x0, int channel, Vector* result) {
    for (int i = 0; i < side * side; i++)
        if (!all_finite(result[i]))
            result[i] = plain_sum(s, Tile<side>::points, n, y0 + i / side, x0 + i % side, channel);
}

// Results of the channels from `first` on, as many as M has.
template <int side>
static void from_points(const Step& s, int tile, int at, const Points& M, int first) {
    using Of = Tile<side>;
    constexpr int across = Of::across, results = side * side;
    const Tiling<side> tiling(s);
    const int n = tiling.image(tile), y0 = tiling.y(tile), x0 = tiling.x(tile);
    const int last = std::min(first + M.width, (int)s.out_channels);
    if (y0 + side <= s.out_height)
        fetch_ahead<side, 1>(s, s.y + n * s.y_image + y0 * s.y_row + first, s.y_row, s.y_pixel, side, x0, (int)s.out_width, last - first);
    for (int c = first; c < last; c += LANES) {
        const int count = std::min(LANES, (int)s.out_channels - c);
        Vector half[side * across], result[results];
        const Vector bias = load(s.bias + c);
#pragma GCC unroll 6
        for (int j = 0; j < across; j++) {
            Vector column[across], y[side];
#pragma GCC unroll 6
            for (int i = 0; i < across; i++) column[i] = load(M.row(i * across + j, at) + c - first);
            Of::backward(column, y);
#pragma GCC unroll 6
            for (int i = 0; i < side; i++) half[i * across + j] = y[i];
        }
        Vector total = {};
#pragma GCC unroll 6
        for (int i = 0; i < side; i++) {
            Of::backward(half + i * across, result + i * side);
            for (int j = 0; j < side; j++) total += result[i * side + j];
        }
        if (__builtin_expect(!all_finite(total), 0)) replace_infinite<side>(s, n, y0, x0, c, result);
        float* to[results];
        const float* other[results];
        int kept = 0;
        for (int i = 0; i < side && y0 + i < s.out_height; i++)
            for (int j = 0; j < side && x0 + j < s.out_width; j++, kept++) {
                const size_t pixel = ((size_t)n * s.out_height + y0 + i) * s.out_width + x0 + j;
                to[kept] = s.y + n * s.y_image + (y0 + i) * s.y_row + (x0 + j) * s.y_pixel + c;
                other[kept] = s.other ? s.other + pixel * s.other_pixel + c : nullptr;
                result[kept] = result[i * side + j] + bias;
            }
        put_many(s, to, other, result, kept, 1, count, c);
    }
}

// Tiles are handed out in blocks. Where these are few, panels are too, and every thread transforms for itself.
template <int side>
static void winograd(const Step& s, const Team& team) {
    constexpr int points = Tile<side>::points;
    const Tiling<side> tiling(s);
    const int C = (int)s.channels, columns = (int)((s.out_channels + LANES - 1) / LANES) * LANES;
    const int tiles = (int)s.batch * tiling.across * tiling.down, at_once = (int)s.tiles;
    const int blocks = (tiles + at_once - 1) / at_once, panels = (columns + PANEL - 1) / PANEL;
    const int parts = std::min(panels, std::max(1, 2 * team.size / blocks));
    const Points V = {team.scratch, at_once, C};
    int transformed = -1;
    for (int piece; (piece = (int)team.next(blocks * parts)) < blocks * parts;) {
        const int block = piece / parts, first = block * at_once, count = std::min(at_once, tiles - first);
        const int begin = panels * (piece % parts) / parts * PANEL;
        const int end = std::min(columns, panels * (piece % parts + 1) / parts * PANEL);
        const Points M = {V.at + points * V.distance(), at_once, end - begin};
        if (transformed != block)
            for (int t = 0; t < count; t++) to_points<side>(s, first + t, t, V);
        transformed = block;
        for (int i = 0; i < points; i++)
            for (int n = begin; n < end; n += PANEL) {
                const int vectors = std::min(PANEL, end - n) / LANES;
                const float* u = s.weights + ((size_t)i * columns + n) * C;
                const float* next = u + (size_t)(n + PANEL < end ? vectors * LANES : columns - n + begin) * C;
                multiply(V, M, i, count, u, next, n - begin, vectors);
            }
        for (int t = 0; t < count; t++) from_points<side>(s, first + t, t, M, begin);
    }
}

static void winograd(const Step& s, const Team& team) { s.tile_side == 2 ? winograd<2>(s, team) : winograd<4>(s, team); }
