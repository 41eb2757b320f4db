// SPDX-License-Identifier: Apache-2.0
// Convolution as a product of matrices, without unfolding the image: rows are pointers to pixels.
#pragma once
#include <vector>
#include "product.h"
#include "step.h"

constexpr int DEPTH = 512;       // weights of so many rows and a panel stay in the second-level cache
constexpr int FEW_COLUMNS = 4;   // so few are finished column by column
constexpr int MOST_TILES = 32;   // tiles of ROWS results whose sums are kept while the rows of weights are gone through

// A result: the image and the place where its window begins, where it goes, and what is added to it.
struct Pixel {
    const float* image;
    float* y;
    const float* other;
    int top, left;
};

// Results from a number on, counted through all rows and images.
static void locate(const Step& s, int64_t first, int count, Pixel* pixels) {
    const int64_t area = s.out_height * s.out_width;
    int64_t n = first / area, y = first % area / s.out_width, x = first % s.out_width;
    for (int64_t number = first; number < first + count; number++, pixels++) {
        *pixels = {s.x + n * s.height * s.width * s.x_pixel, s.y + n * s.y_image + y * s.y_row + x * s.y_pixel,
                   s.other ? s.other + number * s.other_pixel : nullptr, (int)(y * s.stride_h - s.top),
                   (int)(x * s.stride_w - s.left)};
        if (++x < s.out_width) continue;
        x = 0;
        if (++y == s.out_height) y = 0, n++;
    }
}

// A part of the rows of weights: some places of the kernel, and some channels of each.
struct Block {
    int first, places, channel, channels;
    bool rounds;
};

// The blocks of a step: its pieces, or all of the inner dimension, cut so that their weights stay in cache.
static std::vector<Block> blocks_of(const Step& s) {
    const int kw = (int)s.kernel_w, C = (int)s.channels;
    const Piece all = {0, s.kernel_h, 0, C, 0};
    std::vector<Block> blocks;
    for (int64_t p = 0; p < std::max<int64_t>(1, s.piece_count); p++) {
        const Piece& piece = s.piece_count ? s.pieces[p] : all;
        const int width = (int)(piece.last - piece.first), end = (int)piece.bottom * kw;
        const int places = kw * width > DEPTH ? std::max(1, DEPTH / width) : kw * std::max(1, DEPTH / (kw * width));
        for (int place = (int)piece.top * kw; place < end; place += places)
            for (int channel = (int)piece.first; channel < piece.last; channel += DEPTH)
                blocks.push_back({place, std::min(places, end - place), channel,
                                  std::min(DEPTH, (int)piece.last - channel), false});
        blocks.back().rounds = piece.rounds;
    }
    return blocks;
}

// The runs of some results over a block. Places that are in the padding for all of them are left out; where windows
// are inside the image, a whole row of them is one run.
static int runs_of(const Step& s, const Pixel* pixels, int count, Block block, const float* weights, int width, Run* runs,
                   int& length) {
    const int kw = (int)s.kernel_w, C = (int)s.channels;
    bool whole = kw > 1 && s.x_pixel == C && block.channels == C && s.dilation_w == 1 && block.places % kw == 0;
    for (int r = 0; r < count; r++) whole = whole && pixels[r].left >= 0 && pixels[r].left + kw <= s.width;
    const int step = whole ? kw : 1;
    int found = 0;
    length = step * block.channels;
    for (int place = block.first; place < block.first + block.places; place += step) {
        const int down = place / kw * (int)s.dilation_h, right = place % kw * (int)s.dilation_w;
        bool any = false;
        Run& run = runs[found];
        for (int r = 0; r < count; r++) {
            const int y = pixels[r].top + down, x = pixels[r].left + right;
            const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            run.from[r] = inside ? pixels[r].image + ((size_t)y * s.width + x) * s.x_pixel + block.channel : zeros;
            any = any || inside;
        }
        run.weights = weights + ((size_t)place * C + block.channel) * width;
        found += any;
    }
    return found;
}

// What is most frequent: bounds at most, and an addition before them.
static inline bool ends_quickly(const Step& s) {
    return (s.activation <= RELU || s.activation == CLIP) && (!s.other || s.other_first) && !s.stage_count;
}

// Of all vectors of a row, in one go with the bias.
template <bool other, int activation>
static void finish_quickly(const Step& s, const Pixel* pixels, int count, const float* sums, int first, int columns) {
    for (int r = 0; r < count; r++, sums += PANEL)
        for (int c = 0; c < columns; c += LANES) {
            const int lanes = std::min(LANES, columns - c);
            Vector sum = load(sums + c) + load(s.bias + first + c);
            if (other) sum += lanes == LANES ? load(pixels[r].other + first + c) : load_some(pixels[r].other + first + c, lanes);
            store_some(pixels[r].y + first + c, activated(sum, activation, (float)s.a, (float)s.b), lanes);
        }
}

template <bool other>
static void finish_quickly(const Step& s, const Pixel* pixels, int count, const float* sums, int first, int columns) {
    if (s.activation == RELU) finish_quickly<other, RELU>(s, pixels, count, sums, first, columns);
    else if (s.activation == CLIP) finish_quickly<other, CLIP>(s, pixels, count, sums, first, columns);
    else finish_quickly<other, NONE>(s, pixels, count, sums, first, columns);
}

// By stages, for many rows at a time.
static void finish_by_stages(const Step& s, const Pixel* pixels, int count, float* sums, int first, int columns) {
    constexpr int AT_ONCE = 4 * ROWS;
    float* y[AT_ONCE];
    const float* other[AT_ONCE];
    for (int begin = 0; begin < count; begin += AT_ONCE, sums += AT_ONCE * PANEL) {
        const int rows = std::min(AT_ONCE, count - begin);
        for (int c = 0; c < columns; c += LANES) {
            for (int r = 0; r < rows; r++) {
                const Pixel& pixel = pixels[begin + r];
                y[r] = pixel.y + first + c, other[r] = s.other ? pixel.other + first + c : nullptr;
            }
            put_many(s, y, other, (Vector*)(sums + c), rows, WIDE, std::min(LANES, columns - c), first + c);
        }
    }
}

// With so few columns a vector holds one column of several pixels.
static void finish_columns(const Step& s, const Pixel* pixels, int count, const float* sums, int first, int columns) {
    for (int begin = 0; begin < count; begin += LANES) {
        const int lanes = std::min(LANES, count - begin);
        for (int c = 0; c < columns; c++) {
            Vector value = {}, other = {};
            for (int i = 0; i < lanes; i++) {
                value[i] = sums[(begin + i) * PANEL + c];
                if (s.other) other[i] = pixels[begin + i].other[first + c];
            }
            value = finished(s, value, s.other ? (const float*)&other : nullptr);
            for (int i = 0; i < lanes; i++) pixels[begin + i].y[first + c] = value[i];
        }
    }
}

static void finish(const Step& s, const Pixel* pixels, int count, const float* sums, int first, int columns) {
    if (columns <= FEW_COLUMNS) return finish_columns(s, pixels, count, sums, first, columns);
    for (int r = 0; r < count; r++, sums += PANEL)
        for (int c = 0; c < columns; c += LANES)
            put(s, pixels[r].y + first + c, pixels[r].other ? pixels[r].other + first + c : nullptr, load(sums + c),
                std::min(LANES, columns - c), first + c);
}

// Behind the sum, as the card does it: what is added first would round otherwise.
static void add_bias(const float* bias, float* sums, int rows, int vectors) {
    for (int v = 0; v < vectors; v++) {
        const Vector row = load(bias + v * LANES);
        for (int r = 0; r < rows; r++) {
            float* sum = sums + r * PANEL + v * LANES;
            store(sum, load(sum) + row);
        }
    }
}

// `start` plus products that lack a factor, rounded to bfloat16 on the way where `even` is set.
template <bool even>
static void add_scaled(float scale, const float* products, const float* start, size_t start_row, float* sums, int rows,
                       int vectors) {
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < vectors * LANES; v += LANES) {
            const Vector sum = load(start + r * start_row + v) + scale * load(products + r * PANEL + v);
            store(sums + r * PANEL + v, even ? nearest_even(sum) : sum);
        }
}

// What happens to the sums of some rows between two pieces of the inner dimension. Columns that are not there count as
// zeros: with an infinity in the image their sums are NaN.
static void round_sums(const Step& s, Vector* sums, int rows, int columns) {
    if (columns == PANEL) return run_stages(s.between, s.between_count, sums, rows * WIDE, 1, nullptr, 0, LANES);
    for (int c = 0; c < columns; c += LANES, sums++)
        run_stages(s.between, s.between_count, sums, rows, WIDE, nullptr, 0, std::min(LANES, columns - c));
}

// How work is cut: into parts of the panels times parts of the tiles.
struct Grid {
    int panels, tiles;
};

// Enough parts for everybody, none of more than `most` tiles, and little to fetch: weights anew for each part of the tiles, pixels for each of the panels.
static Grid grid(const Step& s, int panels, int tiles, int wanted, int most) {
    const double weights = (double)s.kernel_h * s.kernel_w * s.channels * s.out_channels;
    const double image = (double)s.batch * s.height * s.width * s.channels;
    Grid best = {1, tiles};
    double least = 1e30;
    for (int p = 1; p <= panels; p++) {
        const int t = std::min(tiles, std::max((tiles + most - 1) / most, (wanted + p - 1) / p));
        const double cost = weights * t + image * p;
        if (cost < least) least = cost, best = {p, t};
    }
    return best;
}

static void convolution(const Step& s, const Team& team) {
    const int C = (int)s.channels, kw = (int)s.kernel_w, kernel = (int)s.kernel_h * kw;
    const int64_t pixels = s.batch * s.out_height * s.out_width;
    const int tiles = (int)((pixels + ROWS - 1) / ROWS), panels = (int)((s.out_channels + PANEL - 1) / PANEL);
    const Grid cut = grid(s, panels, tiles, 4 * team.size, MOST_TILES);
    const std::vector<Block> blocks = blocks_of(s);
    Pixel around[MOST_TILES * ROWS];
    alignas(64) float sums[MOST_TILES * ROWS * PANEL];
    std::vector<Run> runs(kernel);
    const bool quick = ends_quickly(s);
    for (int part; (part = (int)team.next()) < cut.panels * cut.tiles;) {
        const int t0 = (int)((int64_t)tiles * (part % cut.tiles) / cut.tiles);
        const int t1 = (int)((int64_t)tiles * (part % cut.tiles + 1) / cut.tiles);
        const int p0 = panels * (part / cut.tiles) / cut.panels, p1 = panels * (part / cut.tiles + 1) / cut.panels;
        const int64_t first = (int64_t)t0 * ROWS;
        const int count = (int)(std::min((int64_t)t1 * ROWS, pixels) - first);
        locate(s, first, count, around);
        for (int panel = p0; panel < p1; panel++) {
            const int columns = std::min(PANEL, (int)s.out_channels - panel * PANEL);
            const int vectors = (columns + LANES - 1) / LANES;
            const float* weights = s.weights + (size_t)panel * PANEL * kernel * C;
            for (const Block& block : blocks) {
                const bool starts = &block == &blocks.front(), ends = &block == &blocks.back();
                const bool evenly = s.paired && block.rounds && s.between_count == 1 && s.between[0].kind == NEAREST_EVEN;
                const float* here = weights + ((size_t)block.first * C + block.channel) * vectors * LANES;
                const Block& after = ends ? block : (&block)[1];
                const float* next = weights + ((size_t)after.first * C + after.channel) * vectors * LANES;
                if (ends) next = here + (size_t)block.places * block.channels * vectors * LANES;
                for (int i = 0, line = 0; i < count; i += ROWS, line++) {
                    const int rows = std::min(ROWS, count - i);
                    int length;
                    const int found = runs_of(s, around + i, rows, block, weights, vectors * LANES, runs.data(), length);
                    float* to = sums + (size_t)i * PANEL;
                    const float* from = starts ? zeros : to;
                    const float* ahead = line < vectors ? next + line * LANES : here;
                    if (s.paired) {
                        alignas(64) float part[ROWS * PANEL];
                        PAIRED_PRODUCTS[rows - 1][vectors - 1](runs.data(), found, length, zeros, 0, part, PANEL, ahead);
                        (evenly ? add_scaled<true> : add_scaled<false>)((float)s.scale, part, from, starts ? 0 : PANEL, to,
                                                                        rows, vectors);
                    } else {
                        PRODUCTS[rows - 1][vectors - 1](runs.data(), found, length, from, starts ? 0 : PANEL, to, PANEL, ahead);
                    }
                    if (block.rounds && !evenly) round_sums(s, (Vector*)to, rows, columns);
                    if (!ends) continue;
                    if (quick) {
                        (s.other ? finish_quickly<true> : finish_quickly<false>)(s, around + i, rows, to, panel * PANEL, columns);
                        continue;
                    }
                    add_bias(s.bias + panel * PANEL, to, rows, vectors);
                    if (!s.stage_count) finish(s, around + i, rows, to, panel * PANEL, columns);
                }
                if (ends && s.stage_count) finish_by_stages(s, around, count, sums, panel * PANEL, columns);
            }
        }
    }
}
