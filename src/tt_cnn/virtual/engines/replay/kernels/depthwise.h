// SPDX-License-Identifier: Apache-2.0
// Convolution channel by channel, sixteen of them at a time and several results of a row together.
//
// A pixel that several windows share is fetched once for all of them. Each sum is added up in the same order wherever
// its window stands: row by row of the kernel, without places in the padding.
#pragma once
#include "bytes.h"

constexpr int TOGETHER = 4;

// Bytes without the one that stands for 0, which the padding has too.
static inline Vector values_at(const float* from, int lanes, Vector) { return load_some(from, lanes); }
static inline Vector values_at(const uint8_t* from, int lanes, Vector zero) { return from_bytes(from, lanes) - zero; }
static inline Vector all_values_at(const float* from, Vector) { return load(from); }
static inline Vector all_values_at(const uint8_t* from, Vector zero) { return from_bytes(from) - zero; }

static inline Vector plus_products_of(Vector sum, Vector value, Vector weight) {
#ifdef __AVX512F__
    return (Vector)_mm512_fmadd_ps((__m512)value, (__m512)weight, (__m512)sum);
#else
    return sum + value * weight;
#endif
}

// Rows of the image under a row of results; null where they are in the padding.
template <class Number>
struct Under {
    const Number* rows[256];
};

// One result, with a look at every place.
template <class Number>
static Vector one_sum(const Step& s, const Under<Number>& under, int x, int c, int lanes, Vector zero) {
    Vector sum = {};
    const int left = x * (int)s.stride_w - (int)s.left;
    for (int ky = 0; ky < s.kernel_h; ky++) {
        if (!under.rows[ky]) continue;
        for (int kx = 0; kx < s.kernel_w; kx++) {
            const int at = left + kx * (int)s.dilation_w;
            if (at < 0 || at >= s.width) continue;
            const Vector weight = load_some(s.weights + (ky * s.kernel_w + kx) * s.out_channels + c, lanes);
            sum = plus_products_of(sum, values_at(under.rows[ky] + at * s.x_pixel + c, lanes, zero), weight);
        }
    }
    return sum;
}

// Some results side by side, all of whose windows are inside.
template <class Number, int width, int stride>
static void some_sums(const Step& s, const Under<Number>& under, int x, int c, Vector zero, Vector* sums) {
    Vector sum[TOGETHER] = {};
    for (int ky = 0; ky < s.kernel_h; ky++) {
        if (!under.rows[ky]) continue;
        const Number* row = under.rows[ky] + ((int64_t)x * stride - s.left) * s.x_pixel + c;
        Vector weights[width];
#pragma GCC unroll 7
        for (int kx = 0; kx < width; kx++) weights[kx] = load(s.weights + (ky * width + kx) * s.out_channels + c);
#pragma GCC unroll 16
        for (int column = 0; column < (TOGETHER - 1) * stride + width; column++) {
            const Vector value = all_values_at(row + column * s.x_pixel, zero);
#pragma GCC unroll 4
            for (int j = 0; j < TOGETHER; j++) {
                const int kx = column - j * stride;
                if (kx >= 0 && kx < width) sum[j] = plus_products_of(sum[j], value, weights[kx]);
            }
        }
    }
    for (int j = 0; j < TOGETHER; j++) sums[j] = sum[j];
}

template <class Number>
using SomeSums = void (*)(const Step&, const Under<Number>&, int, int, Vector, Vector*);

// For kernels that are frequent, none for others.
template <class Number>
static SomeSums<Number> some_sums_of(const Step& s) {
    if (s.dilation_w != 1) return nullptr;
    if (s.kernel_w == 3 && s.stride_w == 1) return some_sums<Number, 3, 1>;
    if (s.kernel_w == 3 && s.stride_w == 2) return some_sums<Number, 3, 2>;
    if (s.kernel_w == 5 && s.stride_w == 1) return some_sums<Number, 5, 1>;
    if (s.kernel_w == 5 && s.stride_w == 2) return some_sums<Number, 5, 2>;
    if (s.kernel_w == 7 && s.stride_w == 1) return some_sums<Number, 7, 1>;
    return nullptr;
}

// `take` gets the sums of results side by side: the first of them, the channel, how many channels, the sums and their
// number.
template <class Number, class Take>
static void over_channels(const Step& s, const Team& team, Take take) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels, W = (int)s.out_width;
    const SomeSums<Number> together = some_sums_of<Number>(s);
    const Vector zero = Vector{} + (sizeof(Number) == 1 ? (float)s.x_zero : 0.0f);
    const int first_inside = (int)std::min(s.out_width, (s.left + s.stride_w - 1) / s.stride_w);
    for (int row; (row = (int)team.next()) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        Under<Number> under;
        for (int ky = 0; ky < s.kernel_h; ky++) {
            const int64_t iy = y * s.stride_h + ky * s.dilation_h - s.top;
            const bool inside = iy >= 0 && iy < s.height;
            under.rows[ky] = inside ? (const Number*)s.x + (n * s.height + iy) * s.width * s.x_pixel : nullptr;
        }
        for (int c = 0; c < C; c += LANES) {
            const int lanes = std::min(LANES, C - c);
            for (int x = 0; x < W;) {
                Vector sums[TOGETHER];
                int count = 1;
                const int64_t last = ((int64_t)x + TOGETHER - 1) * s.stride_w - s.left + s.kernel_w - 1;
                if (together && lanes == LANES && x >= first_inside && x + TOGETHER <= W && last < s.width) {
                    together(s, under, x, c, zero, sums);
                    count = TOGETHER;
                } else {
                    sums[0] = one_sum(s, under, x, c, lanes, zero);
                }
                take(row, n, y, x, c, lanes, sums, count);
                x += count;
            }
        }
    }
}

static void depthwise(const Step& s, const Team& team) {
    over_channels<float>(s, team, [&](int row, int n, int y, int x, int c, int lanes, Vector* sums, int count) {
        const Vector bias = load_some(s.bias + c, lanes);
        float* to = s.y + n * s.y_image + y * s.y_row + x * s.y_pixel + c;
        const float* other = s.other ? s.other + ((size_t)row * s.out_width + x) * s.other_pixel + c : nullptr;
        for (int i = 0; i < count; i++, to += s.y_pixel, other += other ? s.other_pixel : 0)
            put(s, to, other, sums[i] + bias, lanes, c);
    });
}

static void byte_depthwise(const Step& s, const Team& team) {
    const ImageSource added = other_of(s);
    const Target target = target_of(s);
    over_channels<uint8_t>(s, team, [&](int row, int n, int y, int x, int c, int lanes, Vector* sums, int count) {
        const Vector scale = load_some(s.scales + c, lanes), bias = load_some(s.bias + c, lanes);
        Vector others[TOGETHER];
        for (int i = 0; i < count; i++) {
            sums[i] = sums[i] * scale + bias;
            if (s.other) others[i] = added.at(((int64_t)row * s.out_width + x + i) * s.other_pixel + c, lanes);
        }
        finish_vectors(s, sums, s.other ? others : nullptr, count, 1, c, lanes);
        for (int i = 0; i < count; i++)
            target.put(n * s.y_image + y * s.y_row + (x + i) * s.y_pixel + c, sums[i], lanes);
    });
}
