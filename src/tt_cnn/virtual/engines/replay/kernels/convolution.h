// SPDX-License-Identifier: Apache-2.0
// Convolution as a product of matrices, without unfolding the image: rows are pointers to pixels.
#pragma once
#include <vector>
#include "product.h"
#include "step.h"

constexpr int DEPTH = 512;       // weights of so many rows and a panel stay in the second-level cache
constexpr int FEW_COLUMNS = 4;   // so few are finished column by column
constexpr int MOST_RESULTS = 216;  // whose sums are kept while the rows of weights are gone through

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

// Where a result's window begins, which may be in the padding.
static inline const float* window_of(const Step& s, const Pixel& pixel) {
    return pixel.image + (pixel.top * s.width + pixel.left) * s.x_pixel;
}

// Every result is made of one pixel, all of which stand in one row.
static inline bool is_pointwise(const Step& s) {
    const bool one_row = s.batch == 1 && s.height == 1 && s.out_height == 1 && s.width == s.out_width;
    return one_row && s.kernel_h == 1 && s.kernel_w == 1 && s.stride_w == 1 && s.top == 0 && s.left == 0;
}

// The runs of some results over a block. Places that are in the padding for all of them are left out; where windows
// are inside the image, a whole row of them is one run.
static int runs_of(const Step& s, const Pixel* pixels, int count, Block block, const float* weights, int width, Run* runs,
                   int& length) {
    const int kw = (int)s.kernel_w, C = (int)s.channels;
    if (is_pointwise(s)) {
        runs->weights = weights + (size_t)block.channel * width;
        for (int r = 0; r < count; r++) runs->from[r] = window_of(s, pixels[r]) + block.channel;
        length = block.channels;
        return 1;
    }
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

// The ending of a panel of columns, whose results go where `end_at` says.
static Ending ending_of(const Step& s, int first, int columns) {
    Ending ending = {};
    ending.bias = s.bias + first;
    ending.bounds = bounds_of(s);
    ending.last = (columns - 1) % LANES + 1;
    ending.adds = s.other;
    return ending;
}

static inline void end_at(Ending& ending, const Pixel* pixels, int count, int first) {
    for (int r = 0; r < count; r++) {
        ending.y[r] = pixels[r].y + first;
        if (ending.adds) ending.other[r] = pixels[r].other + first;
    }
}

// Many rows at a time.
static void finish_rows(const Step& s, const Pixel* pixels, int count, float* sums, int first, int columns) {
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

static void finish(const Step& s, const Pixel* pixels, int count, float* sums, int first, int columns) {
    const bool few = columns <= FEW_COLUMNS && !s.stage_count;
    few ? finish_columns(s, pixels, count, sums, first, columns) : finish_rows(s, pixels, count, sums, first, columns);
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

// How work is cut: into parts of the panels times parts of the results.
struct Grid {
    int64_t panels, results;        // of the work
    int panel_parts, result_parts;  // that these are cut into

    int parts() const { return panel_parts * result_parts; }
    int first_panel(int part) const { return (int)(panels * (part % panel_parts) / panel_parts); }
    int last_panel(int part) const { return (int)(panels * (part % panel_parts + 1) / panel_parts); }
    int64_t first(int part) const { return results * (part / panel_parts) / result_parts; }
    int count(int part) const { return (int)(results * (part / panel_parts + 1) / result_parts - first(part)); }
};

// Enough parts for everybody, none of more than `most` results, and little to fetch: weights anew for each part of the
// results, pixels for each of the panels.
static Grid grid(const Step& s, int wanted, int most) {
    const double weights = (double)s.kernel_h * s.kernel_w * s.channels * s.out_channels;
    const double image = (double)s.batch * s.height * s.width * s.channels;
    const int64_t panels = (s.out_channels + PANEL - 1) / PANEL, results = s.batch * s.out_height * s.out_width;
    const int fewest = (int)((results + most - 1) / most), useful = (int)((results + ROWS - 1) / ROWS);
    Grid best = {};
    double least = 1e30;
    for (int p = 1; p <= panels; p++) {
        const int parts = std::min(useful, std::max(fewest, (wanted + p - 1) / p));
        const double cost = weights * parts + image * p;
        if (cost < least) least = cost, best = {panels, results, p, parts};
    }
    return best;
}

static void convolution(const Step& s, const Team& team) {
    const int C = (int)s.channels, kw = (int)s.kernel_w, kernel = (int)s.kernel_h * kw;
    const Grid cut = grid(s, 4 * team.size, MOST_RESULTS);
    const std::vector<Block> blocks = blocks_of(s);
    Pixel around[MOST_RESULTS];
    alignas(64) float sums[MOST_RESULTS * PANEL];
    std::vector<Run> runs(kernel);
    const bool quick = ends_quickly(s);
    for (int part; (part = (int)team.next(cut.parts())) < cut.parts();) {
        const int count = cut.count(part);
        locate(s, cut.first(part), count, around);
        for (int panel = cut.first_panel(part); panel < cut.last_panel(part); panel++) {
            const int columns = std::min(PANEL, (int)s.out_channels - panel * PANEL);
            const int vectors = (columns + LANES - 1) / LANES, at_once = rows_with(vectors);
            const float* weights = s.weights + (size_t)panel * PANEL * kernel * C;
            Ending ending = ending_of(s, panel * PANEL, columns);
            for (const Block& block : blocks) {
                const bool starts = &block == &blocks.front(), ends = &block == &blocks.back();
                const bool evenly = s.paired && block.rounds && s.between_count == 1 && s.between[0].kind == NEAREST_EVEN;
                const float* here = weights + ((size_t)block.first * C + block.channel) * vectors * LANES;
                const Block& after = ends ? block : (&block)[1];
                const float* next = weights + ((size_t)after.first * C + after.channel) * vectors * LANES;
                if (ends) next = here + (size_t)block.places * block.channels * vectors * LANES;
                const int depth = block.places * block.channels;
                int groups = (count + at_once - 1) / at_once;
                for (int i = 0, rows, line = 0; groups > 0; i += rows, groups--, line++) {
                    rows = (count - i + groups - 1) / groups;
                    int length;
                    const int found = runs_of(s, around + i, rows, block, weights, vectors * LANES, runs.data(), length);
                    float* to = sums + (size_t)i * PANEL;
                    const float* from = starts ? zeros : to;
                    const Pixel& after_these = around[std::min(i + rows, count - 1)];
                    const float* ahead = line < vectors ? next + (size_t)line * depth * LANES : window_of(s, after_these);
                    if (quick && ends && !block.rounds && !s.paired) {
                        end_at(ending, around + i, rows, panel * PANEL);
                        PRODUCTS_TO_END[rows - 1][vectors - 1](runs.data(), found, length, from, starts ? 0 : PANEL, ending, ahead);
                        continue;
                    }
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
                    add_bias(s.bias + panel * PANEL, to, rows, vectors);
                    if (!s.stage_count) finish(s, around + i, rows, to, panel * PANEL, columns);
                }
                if (ends && s.stage_count) finish(s, around, count, sums, panel * PANEL, columns);
            }
        }
    }
}
