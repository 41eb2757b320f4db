// SPDX-License-Identifier: Apache-2.0
// Convolution of bytes with signed bytes: four products at a time go into each sum, which is a whole number of 32 bits.
//
// Weights lie in panels of columns; a row of a panel holds four neighbouring channels of each column. Channels that are
// missing to a multiple of four have weights of 0, so that whatever is read of the image beyond its last does not count.
#pragma once
#include <omp.h>
#include <vector>
#include "bytes.h"
#include "convolution.h"

constexpr int BYTE_ROWS = 8;       // pixels at a time, with one or two vectors of columns
constexpr int WIDE_ROWS = 6;       // with more: their sums, a row of weights and a value fill the registers
constexpr int AT_ONCE = 4;         // channels that are multiplied at a time
constexpr int BYTE_DEPTH = 512;    // channels of weights that stay in the first-level cache
constexpr int MOST_BYTES = 192;     // pixels whose sums are kept while the rows of weights are gone through

// A stretch of rows, and the weights that go with them.
struct ByteRun {
    const int8_t* weights;
    const uint8_t* from[BYTE_ROWS];
};

// `start` plus the products of all runs, each `length` times four channels long. What lies at `ahead` will be needed soon:
// a line is fetched with every row of weights.
#ifdef __AVX512VNNI__
template <int R, int V>
static void byte_product(const ByteRun* runs, int count, int length, const int32_t* start, size_t start_row, int32_t* sums,
                         const int8_t* ahead) {
    __m512i sum[R][V];
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) sum[r][v] = _mm512_loadu_si512(start + r * start_row + v * LANES);
    for (; count > 0; count--, runs++) {
        const uint8_t* from[R];
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) from[r] = runs->from[r];
        const int8_t* w = runs->weights;
        for (int k = 0; k < length; k++, w += V * LANES * AT_ONCE, ahead += LANES * AT_ONCE) {
            __builtin_prefetch(ahead, 0, 2);
            __m512i weights[V];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) weights[v] = _mm512_loadu_si512(w + v * LANES * AT_ONCE);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) {
                int32_t four;
                memcpy(&four, from[r] + k * AT_ONCE, sizeof four);
                const __m512i value = _mm512_set1_epi32(four);
#pragma GCC unroll 4
                for (int v = 0; v < V; v++) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], value, weights[v]);
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) _mm512_storeu_si512(sums + r * PANEL + v * LANES, sum[r][v]);
}
#else
template <int R, int V>
static void byte_product(const ByteRun* runs, int count, int length, const int32_t* start, size_t start_row, int32_t* sums,
                         const int8_t*) {
    int32_t sum[R][V * LANES];
    for (int r = 0; r < R; r++) memcpy(sum[r], start + r * start_row, sizeof sum[r]);
    for (; count > 0; count--, runs++) {
        const int8_t* w = runs->weights;
        for (int k = 0; k < length; k++, w += V * LANES * AT_ONCE)
            for (int r = 0; r < R; r++)
                for (int i = 0; i < V * LANES; i++)
                    for (int j = 0; j < AT_ONCE; j++) sum[r][i] += runs->from[r][k * AT_ONCE + j] * w[i * AT_ONCE + j];
    }
    for (int r = 0; r < R; r++) memcpy(sums + r * PANEL, sum[r], sizeof sum[r]);
}
#endif

using ByteProduct = void (*)(const ByteRun*, int, int, const int32_t*, size_t, int32_t*, const int8_t*);

#define FOR_WIDTHS(R) {byte_product<R, 1>, byte_product<R, 2>, byte_product<R, 3>, byte_product<R, 4>}
#define NARROW(R) {byte_product<R, 1>, byte_product<R, 2>, nullptr, nullptr}
static const ByteProduct BYTE_PRODUCTS[BYTE_ROWS][WIDE] = {
    FOR_WIDTHS(1), FOR_WIDTHS(2), FOR_WIDTHS(3), FOR_WIDTHS(4), FOR_WIDTHS(5), FOR_WIDTHS(6),
    NARROW(7), NARROW(8)};
#undef NARROW
#undef FOR_WIDTHS

// The products a second that registers and the first cache reach on `threads` threads: what no convolution of bytes can be above.
extern "C" double products_of_bytes(int64_t threads) {
    constexpr int TILES = 200000, LONG = 16;
    alignas(64) static int8_t weights[LONG * PANEL * AT_ONCE], ahead[LONG * LONG * PANEL * AT_ONCE];
    static uint8_t image[LONG * AT_ONCE];
    static int32_t start[PANEL];
    const ByteProduct volatile product = BYTE_PRODUCTS[WIDE_ROWS - 1][WIDE - 1];  // so that it is called as it is
    const double began = omp_get_wtime();
#pragma omp parallel for num_threads((int)threads) schedule(static)
    for (int tile = 0; tile < TILES; tile++) {
        alignas(64) int32_t sums[WIDE_ROWS * PANEL];
        ByteRun runs[LONG];
        for (ByteRun& run : runs) {
            run.weights = weights;
            for (int r = 0; r < WIDE_ROWS; r++) run.from[r] = image;
        }
        product(runs, LONG, LONG, start, 0, sums, ahead);
    }
    return (double)TILES * LONG * LONG * AT_ONCE * WIDE_ROWS * PANEL / (omp_get_wtime() - began);
}

// A result: the image and the place where its window begins, where it goes, and what is added to it.
struct BytePixel {
    const uint8_t* image;
    int64_t y, other;
    int top, left;
};

static void locate_bytes(const Step& s, int64_t first, int count, BytePixel* pixels) {
    const int64_t area = s.out_height * s.out_width;
    int64_t n = first / area, y = first % area / s.out_width, x = first % s.out_width;
    for (int64_t number = first; number < first + count; number++, pixels++) {
        *pixels = {(const uint8_t*)s.x + n * s.height * s.width * s.x_pixel, n * s.y_image + y * s.y_row + x * s.y_pixel,
                   number * s.other_pixel, (int)(y * s.stride_h - s.top), (int)(x * s.stride_w - s.left)};
        if (++x < s.out_width) continue;
        x = 0;
        if (++y == s.out_height) y = 0, n++;
    }
}

// A part of the rows of weights: some places of the kernel, and some channels of each.
struct ByteBlock {
    int first, places, channel, channels;
};

static std::vector<ByteBlock> byte_blocks_of(const Step& s) {
    const int kw = (int)s.kernel_w, C = (int)s.channels, end = (int)s.kernel_h * kw;
    const int places = kw * C > BYTE_DEPTH ? std::max(1, BYTE_DEPTH / C) : kw * std::max(1, BYTE_DEPTH / (kw * C));
    std::vector<ByteBlock> blocks;
    for (int place = 0; place < end; place += places)
        for (int channel = 0; channel < C; channel += BYTE_DEPTH)
            blocks.push_back({place, std::min(places, end - place), channel, std::min(BYTE_DEPTH, C - channel)});
    return blocks;
}

static inline int in_fours(int channels) { return (channels + AT_ONCE - 1) / AT_ONCE; }

// Where channels are few, a row of the kernel is one run of all its places; where such a row of the window reaches beyond
// the image, it is put together in `rows`.
static int byte_rows_of(const Step& s, const BytePixel* pixels, int count, const int8_t* weights, int width, uint8_t* rows,
                        ByteRun* runs, int& length) {
    const int C = (int)s.channels, size = (int)s.kernel_w * C;
    length = in_fours(size);
    for (int ky = 0; ky < s.kernel_h; ky++) {
        ByteRun& run = runs[ky];
        run.weights = weights + (size_t)ky * length * AT_ONCE * width;
        for (int r = 0; r < count; r++) {
            const int y = pixels[r].top + ky * (int)s.dilation_h, x = pixels[r].left;
            const bool within = y >= 0 && y < s.height;
            const uint8_t* row = pixels[r].image + (int64_t)y * s.width * s.x_pixel;
            if (within && x >= 0 && x + s.kernel_w <= s.width) {
                run.from[r] = row + (int64_t)x * s.x_pixel;
                continue;
            }
            run.from[r] = rows;
            for (int kx = 0; kx < s.kernel_w; kx++, rows += C) {
                if (within && x + kx >= 0 && x + kx < s.width) memcpy(rows, row + (int64_t)(x + kx) * s.x_pixel, C);
                else memset(rows, (int)s.x_zero, C);
            }
            rows += AT_ONCE;
        }
    }
    return (int)s.kernel_h;
}

static inline const uint8_t* window_of(const Step& s, const BytePixel& pixel) {
    return pixel.image + (pixel.top * s.width + pixel.left) * s.x_pixel;
}

// Whether the windows of all these are in the padding: then their sums are the same.
static bool are_in_padding(const Step& s, const BytePixel* pixels, int count) {
    for (int r = 0; r < count; r++) {
        const int64_t bottom = pixels[r].top + (s.kernel_h - 1) * s.dilation_h, right = pixels[r].left + (s.kernel_w - 1) * s.dilation_w;
        if (bottom >= 0 && pixels[r].top < s.height && right >= 0 && pixels[r].left < s.width) return false;
    }
    return true;
}

// The runs of some results over a block; `around` is a pixel of the padding.
static int byte_runs_of(const Step& s, const BytePixel* pixels, int count, ByteBlock block, const int8_t* weights, int width,
                        const uint8_t* around, ByteRun* runs, int& length) {
    const int kw = (int)s.kernel_w, C = (int)s.channels, place_size = in_fours(C) * AT_ONCE * width;
    if (is_pointwise(s)) {
        runs->weights = weights + block.channel * width;
        for (int r = 0; r < count; r++) runs->from[r] = window_of(s, pixels[r]) + block.channel;
        length = in_fours(block.channels);
        return 1;
    }
    bool whole = kw > 1 && s.x_pixel == C && C % AT_ONCE == 0 && block.channels == C && s.dilation_w == 1 &&
                 block.places % kw == 0 && block.first % kw == 0;
    for (int r = 0; r < count; r++) whole = whole && pixels[r].left >= 0 && pixels[r].left + kw <= s.width;
    const int step = whole ? kw : 1;
    length = step * in_fours(block.channels);
    int found = 0;
    for (int place = block.first; place < block.first + block.places; place += step, found++) {
        const int down = place / kw * (int)s.dilation_h, right = place % kw * (int)s.dilation_w;
        ByteRun& run = runs[found];
        for (int r = 0; r < count; r++) {
            const int y = pixels[r].top + down, x = pixels[r].left + right;
            const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            run.from[r] = inside ? pixels[r].image + ((size_t)y * s.width + x) * s.x_pixel + block.channel : around;
        }
        run.weights = weights + (size_t)place * place_size + block.channel * width;
    }
    return found;
}

// Sums of whole numbers as floats.
static inline Vector as_floats(const int32_t* sum, Vector scale, Vector bias) {
    return __builtin_convertvector(*(const Bits*)sum, Vector) * scale + bias;
}

// What is most frequent: bytes come out, and at most bounds are before, such as a ReLU's. Scales and bounds are such that
// one step of the result is 1; the zero of the result is in the bias.
template <Added added, int V>
static void finish_bytes(const Step& s, const BytePixel* pixels, int count, const int32_t* sums, int first, int columns) {
    const Vector low = Vector{} + (float)s.a, high = Vector{} + (float)s.b, other_scale = Vector{} + (float)s.other_scale;
    const void* const other = s.other;
    uint8_t* const y = (uint8_t*)s.y;
    Vector scale[V], bias[V], seen = {};
    for (int v = 0; v < V; v++) scale[v] = load(s.scales + first + v * LANES), bias[v] = load(s.bias + first + v * LANES);
    for (int r = 0; r < count; r++, sums += PANEL) {
        Vector row[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            const int lanes = std::min(LANES, columns - v * LANES);
            Vector sum = as_floats(sums + v * LANES, scale[v], bias[v]);
            if (added != NOTHING) {
                const Vector more = other_at<added>(other, pixels[r].other + first + v * LANES, lanes);
                if (added == FLOATS) seen += more - more;
                sum += more * other_scale;
            }
            row[v] = smaller(high, larger(low, sum));
        }
        uint8_t* to = y + pixels[r].y + first;
        if (V == 4 && columns == PANEL) four_to_bytes(to, row);
        else if (V == 2 && columns == 2 * LANES) two_to_bytes(to, row);
        else
            for (int v = 0; v < V; v++) to_bytes(to + v * LANES, row[v], std::min(LANES, columns - v * LANES));
    }
    if (added == FLOATS) note_odd(s, seen);
}

using FinishBytes = void (*)(const Step&, const BytePixel*, int, const int32_t*, int, int);

static FinishBytes finish_bytes_with(const Step& s, int vectors) {
#define FOR_WIDTHS(A) {finish_bytes<A, 1>, finish_bytes<A, 2>, finish_bytes<A, 3>, finish_bytes<A, 4>}
    static const FinishBytes functions[3][WIDE] = {FOR_WIDTHS(NOTHING), FOR_WIDTHS(FLOATS), FOR_WIDTHS(BYTES)};
#undef FOR_WIDTHS
    return functions[added_of(s)][vectors - 1];
}

// The same as for floats where columns are few.
static void finish_columns(const Step& s, const BytePixel* pixels, int count, const int32_t* sums, int first, int columns) {
    const ImageSource added = other_of(s);
    const Target target = target_of(s);
    for (int begin = 0; begin < count; begin += LANES) {
        const int lanes = std::min(LANES, count - begin);
        for (int c = first; c < first + columns; c++) {
            Vector value = {}, other = {};
            for (int i = 0; i < lanes; i++) {
                value[i] = (float)sums[(begin + i) * PANEL + c - first];
                if (s.other) other[i] = added.at(pixels[begin + i].other + c, 1)[0];
            }
            value = value * s.scales[c] + s.bias[c];
            finish_vectors(s, &value, s.other ? &other : nullptr, 1, 1, c, lanes);
            for (int i = 0; i < lanes; i++) target.put(pixels[begin + i].y + c, Vector{} + value[i], 1);
        }
    }
}

static void finish_by_any(const Step& s, const BytePixel* pixels, int count, int32_t* sums, int first, int columns) {
    const ImageSource added = other_of(s);
    const Target target = target_of(s);
    constexpr int FEW = 4 * BYTE_ROWS;
    Vector others[FEW];
    for (int begin = 0; begin < count; begin += FEW, sums += FEW * PANEL) {
        const int rows = std::min(FEW, count - begin);
        for (int c = 0; c < columns; c += LANES) {
            const int lanes = std::min(LANES, columns - c);
            const Vector scale = load(s.scales + first + c), bias = load(s.bias + first + c);
            Vector values[FEW];
            for (int r = 0; r < rows; r++) {
                values[r] = as_floats(sums + r * PANEL + c, scale, bias);
                if (s.other) others[r] = added.at(pixels[begin + r].other + first + c, lanes);
            }
            finish_vectors(s, values, s.other ? others : nullptr, rows, 1, first + c, lanes);
            for (int r = 0; r < rows; r++) target.put(pixels[begin + r].y + first + c, values[r], lanes);
        }
    }
}

static void finish_sums(const Step& s, const BytePixel* pixels, int count, int32_t* sums, int first, int columns) {
    if (columns <= FEW_COLUMNS && !s.stage_count) return finish_columns(s, pixels, count, sums, first, columns);
    finish_by_any(s, pixels, count, sums, first, columns);
}

static void byte_convolution(const Step& s, const Team& team) {
    const int C = (int)s.channels, kernel = (int)(s.kernel_h * s.kernel_w);
    const Grid cut = grid(s, 4 * team.size, MOST_BYTES);
    const std::vector<ByteBlock> blocks = s.by_rows ? std::vector<ByteBlock>{{0, kernel, 0, C}} : byte_blocks_of(s);
    std::vector<uint8_t> rows_apart(s.by_rows ? kernel * (C + AT_ONCE) * BYTE_ROWS : 0);
    const std::vector<uint8_t> around(s.kernel_w * C + AT_ONCE, (uint8_t)s.x_zero);  // as long as the longest run
    BytePixel places[MOST_BYTES];
    alignas(64) int32_t sums[MOST_BYTES * PANEL];
    std::vector<ByteRun> runs(kernel);
    for (int part; (part = (int)team.next(cut.parts())) < cut.parts();) {
        const int count = cut.count(part);
        locate_bytes(s, cut.first(part), count, places);
        for (int panel = cut.first_panel(part); panel < cut.last_panel(part); panel++) {
            const int columns = std::min(PANEL, (int)s.out_channels - panel * PANEL);
            const int vectors = (columns + LANES - 1) / LANES, at_once = vectors <= 2 ? BYTE_ROWS : WIDE_ROWS;
            const int depth = s.by_rows ? (int)s.kernel_h * in_fours((int)s.kernel_w * C) : kernel * in_fours(C);
            const int8_t* weights = (const int8_t*)s.weights + (size_t)panel * PANEL * depth * AT_ONCE;
            const int width = vectors * LANES, place_size = in_fours(C) * AT_ONCE * width;
            for (const ByteBlock& block : blocks) {
                const bool starts = &block == &blocks.front(), ends = &block == &blocks.back();
                const ByteBlock& after = ends ? block : (&block)[1];
                const int8_t* next = ends ? weights + (size_t)depth * AT_ONCE * width
                                          : weights + (size_t)after.first * place_size + after.channel * width;
                int groups = (count + at_once - 1) / at_once;
                for (int i = 0, rows, line = 0; groups > 0; i += rows, groups--, line++) {
                    rows = (count - i + groups - 1) / groups;
                    int length;
                    const int found =
                        s.by_rows ? byte_rows_of(s, places + i, rows, weights, width, rows_apart.data(), runs.data(), length)
                                  : byte_runs_of(s, places + i, rows, block, weights, width, around.data(), runs.data(), length);
                    const BytePixel& after_these = places[std::min(i + rows, count - 1)];
                    const int8_t* ahead = line < vectors ? next + line * found * length * LANES * AT_ONCE
                                                         : (const int8_t*)window_of(s, after_these);
                    int32_t* to = sums + (size_t)i * PANEL;
                    const int different = are_in_padding(s, places + i, rows) ? 1 : rows;
                    BYTE_PRODUCTS[different - 1][vectors - 1](runs.data(), found, length, starts ? s.offsets + panel * PANEL : to,
                                                              starts ? 0 : PANEL, to, ahead);
                    for (int r = different; r < rows; r++) memcpy(to + r * PANEL, to, sizeof(int32_t) * vectors * LANES);
                    if (ends && s.in_steps) finish_bytes_with(s, vectors)(s, places + i, rows, to, panel * PANEL, columns);
                }
            }
            if (!s.in_steps) finish_sums(s, places, count, sums, panel * PANEL, columns);
        }
    }
}
