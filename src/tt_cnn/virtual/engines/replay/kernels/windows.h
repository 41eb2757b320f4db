// SPDX-License-Identifier: Apache-2.0
// Steps without a product: windows channel by channel, and what goes pixel by pixel.
#pragma once
#include "step.h"

// --- windows channel by channel --------------------------------------------------------------------------------------

// The pixels of a window that are inside the image.
struct Inside {
    const float* pixels[256];
    int count;

    // Their channels from `c` on, one pixel after the other.
    template <class Take>
    Vector folded(int c, int lanes, Vector sum, Take take) const {
        for (int i = 0; i < count; i++)
            sum = take(sum, lanes == LANES ? load(pixels[i] + c) : load_some(pixels[i] + c, lanes));
        return sum;
    }
};

// The places of a kernel that are inside an image, along one of its axes.
struct Reach {
    int first, last;

    Reach(int64_t start, int64_t size, int64_t dilation, int64_t length) : first(0), last((int)size) {
        while (first < last && start + first * dilation < 0) first++;
        while (last > first && start + (last - 1) * dilation >= length) last--;
    }
};

constexpr int AHEAD = 8;  // windows

template <class Reduce>
static void over_windows(const Step& s, const Team& team, Reduce reduce) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels;
    const bool plain = ends_quickly(s) && !s.other && s.activation == NONE;
    for (int row; (row = (int)team.next(rows)) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        const int64_t top = y * s.stride_h - s.top;
        const Reach down(top, s.kernel_h, s.dilation_h, s.height);
        for (int x = 0; x < s.out_width; x++) {
            const int64_t left = x * s.stride_w - s.left;
            const Reach across(left, s.kernel_w, s.dilation_w, s.width);
            Inside inside;
            inside.count = 0;
            for (int ky = down.first; ky < down.last; ky++) {
                const float* pixel = s.x + ((n * s.height + top + ky * s.dilation_h) * s.width + left) * s.x_pixel;
                for (int kx = across.first; kx < across.last; kx++)
                    inside.pixels[inside.count++] = pixel + kx * s.dilation_w * s.x_pixel;
                for (int64_t next = 0; next < s.stride_w; next++)  // pixels with gaps between them are not fetched ahead
                    for (int c = 0; c < C; c += LANES)
                        __builtin_prefetch(pixel + (AHEAD * s.stride_w + next) * s.x_pixel + c, 0, 3);
            }
            float* out = s.y + n * s.y_image + y * s.y_row + x * s.y_pixel;
            const float* other = s.other ? s.other + ((size_t)row * s.out_width + x) * s.other_pixel : nullptr;
            for (int c = 0; c < C; c += LANES) {
                const int lanes = std::min(LANES, C - c);
                Vector sum = reduce(inside, c, lanes);
                if (s.kind == AVERAGE_POOL) sum /= (float)(s.count_padding ? s.kernel_h * s.kernel_w : inside.count);
                if (plain) store_some(out + c, sum, lanes);
                else put(s, out + c, other ? other + c : nullptr, sum, lanes, c);
            }
        }
    }
}

// Quickly, with a sum that tells whether there was a NaN to look for.
static void max_pool(const Step& s, const Team& team) {
    over_windows(s, team, [](const Inside& inside, int c, int lanes) {
        const Vector lowest = Vector{} - __builtin_inff();
        Vector total = {};
        const Vector most = inside.folded(c, lanes, lowest, [&](Vector sum, Vector value) {
            total += value;
            return larger(sum, value);
        });
        if (__builtin_expect(all_finite(total), 1)) return most;
        return inside.folded(c, lanes, lowest, [](Vector sum, Vector value) { return larger_or_nan(sum, value); });
    });
}

static void average_pool(const Step& s, const Team& team) {
    over_windows(s, team, [](const Inside& inside, int c, int lanes) {
        return inside.folded(c, lanes, Vector{}, [](Vector sum, Vector value) { return sum + value; });
    });
}

// --- pixel by pixel --------------------------------------------------------------------------------------------------

// UPSAMPLE repeats pixels `stride` times; ACTIVATE is the same with stride 1.
static void pixelwise(const Step& s, const Team& team) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels;
    for (int row; (row = (int)team.next(rows)) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        for (int x = 0; x < s.out_width; x++) {
            const float* from = s.x + ((n * s.height + y / s.stride_h) * s.width + x / s.stride_w) * s.x_pixel;
            float* to = s.y + n * s.y_image + y * s.y_row + x * s.y_pixel;
            const float* other = s.other ? s.other + ((size_t)row * s.out_width + x) * s.other_pixel : nullptr;
            for (int c = 0; c < C; c += LANES) {
                const int lanes = std::min(LANES, C - c);
                put(s, to + c, other ? other + c : nullptr, load_some(from + c, lanes), lanes, c);
            }
        }
    }
}

// MEAN or LARGEST of all pixels of an image.
static void over_pixels(const Step& s, const Team& team) {
    const int groups = (int)((s.channels + LANES - 1) / LANES), pixels = (int)(s.height * s.width);
    for (int i; (i = (int)team.next(s.batch * groups)) < s.batch * groups;) {
        const int n = i / groups, c = i % groups * LANES, lanes = std::min(LANES, (int)s.channels - c);
        const float* x = s.x + (size_t)n * pixels * s.x_pixel + c;
        Vector found = {};
        if (s.kind == LARGEST) {
            found = load_some(x, lanes);
            for (int p = 1; p < pixels; p++) found = larger_or_nan(found, load_some(x + p * s.x_pixel, lanes));
        } else {
            for (int p = 0; p < pixels; p++) found += load_some(x + p * s.x_pixel, lanes);
            found /= (float)pixels;
        }
        put(s, s.y + n * s.y_image + c, nullptr, found, lanes, c);
    }
}

// Two neighbouring channels in the place of one number: they are bfloat16, so that nothing is lost.
static void pair(const Step& s, const Team& team) {
    constexpr int64_t AT_ONCE = 64;
    const int64_t pixels = s.batch * s.height * s.width, pieces = (pixels + AT_ONCE - 1) / AT_ONCE;
    for (int64_t i; (i = team.next(pieces)) < pieces;)
        for (int64_t p = i * AT_ONCE; p < std::min(pixels, (i + 1) * AT_ONCE); p++) {
            const uint32_t* x = (const uint32_t*)(s.x + p * s.x_pixel);
            uint32_t* y = (uint32_t*)(s.y + p * s.y_pixel);
            for (int64_t c = 0; c < s.channels; c++) y[c] = x[2 * c] >> 16 | (x[2 * c + 1] & 0xFFFF0000u);
        }
}

// Numbers from anywhere in an image, `width` of them: `weights` holds their places, those below 0 give 0.
static void gather(const Step& s, const Team& team) {
    const int32_t* places = (const int32_t*)s.weights;
    constexpr int64_t AT_ONCE = 8192;
    const int64_t pieces = (s.width + AT_ONCE - 1) / AT_ONCE;
    for (int64_t piece; (piece = team.next(pieces)) < pieces;)
        for (int64_t i = piece * AT_ONCE; i < std::min((piece + 1) * AT_ONCE, s.width); i++) s.y[i] = places[i] < 0 ? 0.0f : s.x[places[i]];
}
