// SPDX-License-Identifier: Apache-2.0
// Convolution channel by channel, sixteen of them at a time and several results of a row together.
//
// A pixel that several windows share is fetched once for all of them. Each sum is added up in the same order wherever
// its window stands: row by row of the kernel, without places in the padding.
#pragma once
#include "bytes.h"

constexpr int TOGETHER = 4;

// Bytes without the one that stands for 0, which the padding has too. What is read beyond the last channel is not kept.
static inline Vector values_at(const float* from, Vector) { return load(from); }
static inline Vector values_at(const uint8_t* from, Vector zero) { return from_bytes(from) - zero; }

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

// Weights are rows of whole vectors, one for each place of the kernel.
static inline int64_t weights_row(const Step& s) { return (s.out_channels + LANES - 1) / LANES * LANES; }

// One result, with a look at every place.
template <class Number>
static Vector one_sum(const Step& s, const Under<Number>& under, int x, int c, Vector zero) {
    Vector sum = {};
    const int left = x * (int)s.stride_w - (int)s.left;
    const float* weights = s.weights + c;
    for (int ky = 0; ky < s.kernel_h; ky++, weights += s.kernel_w * weights_row(s)) {
        if (!under.rows[ky]) continue;
        for (int kx = 0; kx < s.kernel_w; kx++) {
            const int at = left + kx * (int)s.dilation_w;
            if (at < 0 || at >= s.width) continue;
            sum = plus_products_of(sum, values_at(under.rows[ky] + at * s.x_pixel + c, zero), load(weights + kx * weights_row(s)));
        }
    }
    return sum;
}

// Some results side by side. With `edges` their windows may reach beyond the image.
template <class Number, int width, int stride, bool edges>
static inline __attribute__((always_inline)) void some_sums(const Step& s, const Under<Number>& under, int x, int c,
                                                            Vector zero, Vector* sums) {
    Vector sum[TOGETHER] = {};
    const int left = x * stride - (int)s.left;
    const float* weights = s.weights + c;
    for (int ky = 0; ky < s.kernel_h; ky++, weights += width * weights_row(s)) {
        if (!under.rows[ky]) continue;
        const Number* row = under.rows[ky] + (int64_t)left * s.x_pixel + c;
#pragma GCC unroll 16
        for (int column = 0; column < (TOGETHER - 1) * stride + width; column++) {
            if (edges && (left + column < 0 || left + column >= s.width)) continue;
            const Vector value = values_at(row + column * s.x_pixel, zero);
#pragma GCC unroll 4
            for (int j = 0; j < TOGETHER; j++) {
                const int kx = column - j * stride;
                if (kx >= 0 && kx < width) sum[j] = plus_products_of(sum[j], value, load(weights + kx * weights_row(s)));
            }
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < TOGETHER; j++) sums[j] = sum[j];
}

// A row of results: first places, then channels, so that what lies side by side is fetched together.
template <class Number, int width, int stride, class Take>
static void along_row(const Step& s, const Under<Number>& under, Vector zero, Take take) {
    const int C = (int)s.out_channels, W = (int)s.out_width;
    for (int x = 0; x < W; x += TOGETHER) {
        const int64_t left = x * stride - s.left, last = left + (TOGETHER - 1) * stride + width - 1;
        Vector sums[TOGETHER];
        if (left >= 0 && last < s.width && x + TOGETHER <= W)
            for (int c = 0; c < C; c += LANES) {
                some_sums<Number, width, stride, false>(s, under, x, c, zero, sums);
                take(x, c, std::min(LANES, C - c), sums, TOGETHER);
            }
        else
            for (int c = 0; c < C; c += LANES) {
                some_sums<Number, width, stride, true>(s, under, x, c, zero, sums);
                take(x, c, std::min(LANES, C - c), sums, std::min(TOGETHER, W - x));
            }
    }
}

template <class Number, class Take>
static void one_by_one(const Step& s, const Under<Number>& under, Vector zero, Take take) {
    const int C = (int)s.out_channels;
    for (int x = 0; x < s.out_width; x++)
        for (int c = 0; c < C; c += LANES) {
            Vector sum = one_sum(s, under, x, c, zero);
            take(x, c, std::min(LANES, C - c), &sum, 1);
        }
}

// `row_taker` makes for a row of results, of which there are `y` above it in its image `n`, what takes its sums: where
// they are, the first channel, how many channels, the sums of results side by side, and how many.
template <class Number, class RowTaker>
static void over_channels(const Step& s, const Team& team, RowTaker row_taker) {
    const int rows = (int)(s.batch * s.out_height);
    const int kind = s.dilation_w == 1 ? (int)(s.kernel_w * 10 + s.stride_w) : 0;
    const Vector zero = Vector{} + (sizeof(Number) == 1 ? (float)s.x_zero : 0.0f);
    for (int row; (row = (int)team.next(rows)) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        Under<Number> under;
        for (int ky = 0; ky < s.kernel_h; ky++) {
            const int64_t iy = y * s.stride_h + ky * s.dilation_h - s.top;
            const bool inside = iy >= 0 && iy < s.height;
            under.rows[ky] = inside ? (const Number*)s.x + (n * s.height + iy) * s.width * s.x_pixel : nullptr;
        }
        const auto take = row_taker(row, n, y);
        switch (kind) {  // those that are frequent
            case 31: along_row<Number, 3, 1>(s, under, zero, take); break;
            case 32: along_row<Number, 3, 2>(s, under, zero, take); break;
            case 51: along_row<Number, 5, 1>(s, under, zero, take); break;
            case 52: along_row<Number, 5, 2>(s, under, zero, take); break;
            case 71: along_row<Number, 7, 1>(s, under, zero, take); break;
            default: one_by_one<Number>(s, under, zero, take);
        }
    }
}

static void depthwise_with_bounds(const Step& s, const Team& team) {
    const Bounds bounds = bounds_of(s);
    const Vector low = Vector{} + bounds.low, high = Vector{} + bounds.high;
    over_channels<float>(s, team, [&](int row, int n, int y) {
        float* to = s.y + n * s.y_image + y * s.y_row;
        const float* other = s.other ? s.other + (size_t)row * s.out_width * s.other_pixel : nullptr;
        return [=, &s](int x, int c, int lanes, const Vector* sums, int count) {
            const Vector bias = load(s.bias + c);
            for (int i = 0; i < count; i++) {
                Vector sum = sums[i] + bias;
                if (other) sum += load_some(other + (x + i) * s.other_pixel + c, lanes);
                store_some(to + (x + i) * s.y_pixel + c, smaller(high, larger(low, sum)), lanes);
            }
        };
    });
}

static void depthwise(const Step& s, const Team& team) {
    if (ends_quickly(s)) return depthwise_with_bounds(s, team);
    over_channels<float>(s, team, [&](int row, int n, int y) {
        return [&s, row, n, y](int x, int c, int lanes, Vector* sums, int count) {
            const Vector bias = load(s.bias + c);
            float* to = s.y + n * s.y_image + y * s.y_row + x * s.y_pixel + c;
            const float* other = s.other ? s.other + ((size_t)row * s.out_width + x) * s.other_pixel + c : nullptr;
            float* places[TOGETHER];
            const float* others[TOGETHER];
            for (int i = 0; i < count; i++) {
                sums[i] += bias;
                places[i] = to + i * s.y_pixel;
                others[i] = other ? other + i * s.other_pixel : nullptr;
            }
            put_many(s, places, others, sums, count, 1, lanes, c);
        };
    });
}

template <Added added>
static void byte_depthwise_in_steps(const Step& s, const Team& team) {
    over_channels<uint8_t>(s, team, [&](int row, int n, int y) {
        return [&s, row, n, y](int x, int c, int lanes, Vector* sums, int count) {
            const Vector scale = load(s.scales + c), bias = load(s.bias + c);
            uint8_t* to = (uint8_t*)s.y + n * s.y_image + y * s.y_row + x * s.y_pixel + c;
            int64_t other = ((int64_t)row * s.out_width + x) * s.other_pixel + c;
            Vector seen = {};
            for (int i = 0; i < count; i++, to += s.y_pixel, other += s.other_pixel)
                to_bytes(to, in_bounds(s, with_added<added>(s, sums[i] * scale + bias, other, lanes, seen)), lanes);
            if (added == FLOATS) note_odd(s, seen);
        };
    });
}

static void byte_depthwise(const Step& s, const Team& team) {
    if (s.in_steps) {
        const Added added = added_of(s);
        return (added == NOTHING  ? byte_depthwise_in_steps<NOTHING>
                : added == FLOATS ? byte_depthwise_in_steps<FLOATS>
                                  : byte_depthwise_in_steps<BYTES>)(s, team);
    }
    const ImageSource added = other_of(s);
    const Target target = target_of(s);
    over_channels<uint8_t>(s, team, [&](int row, int n, int y) {
        return [&s, &added, &target, row, n, y](int x, int c, int lanes, Vector* sums, int count) {
            const Vector scale = load(s.scales + c), bias = load(s.bias + c);
            Vector others[TOGETHER];
            for (int i = 0; i < count; i++) {
                sums[i] = sums[i] * scale + bias;
                if (s.other) others[i] = added.at(((int64_t)row * s.out_width + x + i) * s.other_pixel + c, lanes);
            }
            finish_vectors(s, sums, s.other ? others : nullptr, count, 1, c, lanes);
            for (int i = 0; i < count; i++)
                target.put(n * s.y_image + y * s.y_row + (x + i) * s.y_pixel + c, sums[i], lanes);
        };
    });
}
