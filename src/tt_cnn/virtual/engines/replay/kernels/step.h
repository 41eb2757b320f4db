// SPDX-License-Identifier: Apache-2.0
// One step of a program on channels-last float32 images, who works on it, and what follows its sums.
//
// Every image has its channels side by side; `..._pixel` is the distance from one pixel to the next in floats, so that
// a step can read and write a part of the channels of a wider image: concatenation then needs no copy.
#pragma once
#include <algorithm>
#include <atomic>
#include "rounding.h"
#include "vector.h"

enum Kind {
    CONVOLUTION, WINOGRAD, DEPTHWISE, MAX_POOL, AVERAGE_POOL, UPSAMPLE, ACTIVATE, MEAN, GATHER, WALK, PAIR,
    BYTE_CONVOLUTION, BYTE_DEPTHWISE, BYTE_MAX_POOL, BYTE_PIXELS,
    LARGEST
};

// A part of the inner dimension of a convolution.
struct Piece {
    int64_t top, bottom;  // rows of the kernel
    int64_t first, last;  // channels
    int64_t rounds;       // sums are rounded after it
};

struct Step {
    int64_t kind;
    const float* x;
    const float* weights;
    const float* bias;
    const float* other;  // added to the result
    float* y;
    const Stage* stages;                                       // instead of activation and addition, where there are any
    const Piece* pieces;                                       // of a convolution's inner dimension, where it has some
    const Stage* between;                                      // what sums go through after a piece that rounds
    const float* scales;                                       // of bytes: what sums of each channel are multiplied with
    const int32_t* offsets;                                    // and where they begin
    int64_t* odd;                                              // set where a number has no byte that stands for it
    int64_t batch, height, width, channels, x_pixel;           // of the input
    int64_t out_height, out_width, out_channels;               // of the output
    int64_t y_image, y_row, y_pixel;                           // distances in the output
    int64_t other_pixel, other_first;                          // its pixels; added before the activation?
    int64_t kernel_h, kernel_w, stride_h, stride_w, top, left, dilation_h, dilation_w;
    int64_t activation;
    int64_t tile_side, tiles;                                  // Winograd: results of a tile's side; tiles at a time
    int64_t count_padding;                                     // average pool
    int64_t stage_count, piece_count, between_count;
    int64_t paired;                                            // numbers are pairs of bfloat16
    int64_t x_bytes, other_bytes, y_bytes;                     // images of bytes, and the byte that stands for 0
    int64_t x_zero, other_zero, y_zero;
    int64_t by_rows;                                           // a row of the kernel is one run: its channels are few
    int64_t in_steps;                                          // bytes come out, and sums are in steps of them
    double a, b;                                               // of the activation; bounds, where sums are in steps
    double scale;                                              // of sums of pairs
    double x_scale, other_scale, y_inverse;                    // of images of bytes
};

// How many pieces of a thread's share are taken, in a line of the cache of its own.
struct alignas(64) Taken {
    std::atomic<int64_t> pieces{0};
};

// One of the threads on one step. Each has a share of the pieces, the same part of every image, so that it finds in its
// cache what it wrote there; whoever is done helps the others, since a thread may be held up by other programs.
struct Team {
    int size, self;
    float* scratch;
    Taken* taken;  // of each thread

    // A piece that nobody else has; `count`, of so many, where there is none left.
    int64_t next(int64_t count) const {
        for (int i = 0; i < size; i++) {
            const int owner = (self + i) % size;
            const int64_t begin = count * owner / size, end = count * (owner + 1) / size;
            if (taken[owner].pieces.load(std::memory_order_relaxed) >= end - begin) continue;
            const int64_t piece = begin + taken[owner].pieces.fetch_add(1, std::memory_order_relaxed);
            if (piece < end) return piece;
        }
        return count;
    }
};

static float zeros[8192] __attribute__((aligned(64)));  // a pixel of the padding

// --- what comes after a sum: bias, what is added, activation ---------------------------------------------------------

static inline Vector finished(const Step& s, Vector sum, const float* other) {
    if (other && s.other_first) sum += load(other);
    sum = activated(sum, (int)s.activation, (float)s.a, (float)s.b);
    if (other && !s.other_first) sum += load(other);
    return sum;
}

// Activations that are bounds at most; NaN passes.
struct Bounds {
    float low, high;
};

static inline Bounds bounds_of(const Step& s) {
    constexpr float infinity = __builtin_inff();
    if (s.activation == CLIP) return {(float)s.a, (float)s.b};
    return {s.activation == RELU ? 0.0f : -infinity, infinity};
}

// What is most frequent: bounds, and an addition before them.
static inline bool ends_quickly(const Step& s) {
    return (s.activation <= RELU || s.activation == CLIP) && (!s.other || s.other_first) && !s.stage_count;
}

// `count` channels from `channel` on.
static inline void put(const Step& s, float* y, const float* other, Vector sum, int count, int channel) {
    float rest[LANES] = {};
    if (count < LANES && other) {
        memcpy(rest, other, sizeof(float) * count);
        other = rest;
    }
    if (s.stage_count) run_stages(s.stages, s.stage_count, &sum, 1, 1, &other, channel, count);
    else sum = finished(s, sum, other);
    store_some(y, sum, count);
}

// Whole vectors of the same channels, `apart` from each other.
template <int activation>
static void put_whole(const Step& s, float* const* y, const float* const* other, const Vector* sums, int n, int apart) {
    const float a = (float)s.a, b = (float)s.b;
    const bool adds_first = s.other && s.other_first, adds_last = s.other && !s.other_first;
    for (int i = 0; i < n; i++) {
        Vector sum = sums[i * apart];
        if (adds_first) sum += load(other[i]);
        sum = activated(sum, activation, a, b);
        if (adds_last) sum += load(other[i]);
        store(y[i], sum);
    }
}

// The same for `n` vectors, of which only `count` channels may be there.
static inline void put_many(const Step& s, float* const* y, const float* const* other, Vector* sums, int n, int apart,
                            int count, int channel) {
    if (s.stage_count) {
        run_stages(s.stages, s.stage_count, sums, n, apart, other, channel, count);
        for (int i = 0; i < n; i++) store_some(y[i], sums[i * apart], count);
        return;
    }
    if (count >= LANES) switch (s.activation) {
        case NONE: return put_whole<NONE>(s, y, other, sums, n, apart);
        case RELU: return put_whole<RELU>(s, y, other, sums, n, apart);
        case CLIP: return put_whole<CLIP>(s, y, other, sums, n, apart);
        case LEAKY_RELU: return put_whole<LEAKY_RELU>(s, y, other, sums, n, apart);
        case SILU: return put_whole<SILU>(s, y, other, sums, n, apart);
        case MISH: return put_whole<MISH>(s, y, other, sums, n, apart);
    }
    for (int i = 0; i < n; i++) put(s, y[i], other[i], sums[i * apart], count, channel);
}
