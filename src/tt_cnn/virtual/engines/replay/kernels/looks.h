// SPDX-License-Identifier: Apache-2.0
// What is asked of every replay's inputs, in one go and by the thread that asks: they are too few numbers to share.
#pragma once
#include <cmath>
#include <vector>
#include "vector.h"

// Whether no number is NaN, or further from 0 than `largest`.
extern "C" int are_within(const float* x, int64_t count, float largest) {
    const Vector bound = Vector{} + largest;
    Bits within = ~Bits{};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Vector value = load(x + i), size = value < 0.0f ? -value : value;
        within &= (Bits)(size <= bound);
    }
    for (int lane = 0; lane < LANES; lane++)
        if (!within[lane]) return 0;
    for (; i < count; i++)
        if (!(__builtin_fabsf(x[i]) <= largest)) return 0;
    return 1;
}

// The least and the largest; false where one is not finite.
static bool ends_of(const float* x, int64_t count, float* ends) {
    Vector low = Vector{} + __builtin_inff(), high = -low, total = {};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const Vector value = load(x + i);
        low = smaller(low, value);
        high = larger(high, value);
        total += value - value;
    }
    float least = __builtin_inff(), most = -least, odd = 0;
    for (; i < count; i++) least = std::min(least, x[i]), most = std::max(most, x[i]), odd += x[i] - x[i];
    for (int lane = 0; lane < LANES; lane++) least = std::min(least, low[lane]), most = std::max(most, high[lane]), odd += total[lane];
    ends[0] = least, ends[1] = most;
    return odd == 0;
}

static inline float total_of(Vector x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#else
    float some[LANES];
    memcpy(some, &x, sizeof some);
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) some[i] += some[i + half];
    return some[0];
#endif
}

// Runs of pixels side by side, of which there are at most as many as lanes: (lines, runs, pixels), and the distances between them.
struct Runs {
    const float* values;
    int64_t lines, runs, pixels;
    int64_t line, run, pixel;
};

// The numbers that eight_bit/inputs.py names, of `count` values and of runs of them; all NaN where one is not finite.
extern "C" void input_statistics(const float* x, int64_t count, const Runs* chosen, float* found) {
    constexpr int NUMBERS = 8;
    const Runs& r = *chosen;
    if (!ends_of(x, count, found)) {
        for (int i = 0; i < NUMBERS; i++) found[i] = __builtin_nanf("");
        return;
    }
    const int64_t steps = std::max<int64_t>(1, r.pixels - 1), all = r.lines * r.runs;
    std::vector<double> means(all);
    double variances = 0, largest_variance = 0, roughness = 0, largest_roughness = 0, lines_with_values = 0;
    Vector there = {};  // 1 for each pixel of a run
    for (int64_t p = 0; p < r.pixels; p++) there[p] = 1.0f;
    Bits next;
    for (int lane = 0; lane < LANES; lane++) next[lane] = std::min(lane + 1, LANES - 1);
    for (int64_t l = 0; l < r.lines; l++) {
        bool filled = false;
        for (int64_t n = 0; n < r.runs; n++) {
            const float* at = r.values + l * r.line + n * r.run;
            Vector values = {};
            if (r.pixel == 1 && r.pixels == LANES) values = load(at);
            else
                for (int64_t p = 0; p < LANES; p++) values[p] = at[std::min(p, r.pixels - 1) * r.pixel];
            const Vector change = __builtin_shuffle(values, next) - values;  // none behind the last
            const float mean = total_of(values * there) / (float)r.pixels;
            const Vector off = (values - mean) * there;
            const double squares = total_of(off * off), rough = total_of(change < 0.0f ? -change : change);
            means[l * r.runs + n] = mean;
            filled = filled || mean != 0 || squares != 0;
            variances += squares / r.pixels;
            largest_variance = std::max(largest_variance, squares / r.pixels);
            roughness += rough / steps;
            largest_roughness = std::max(largest_roughness, rough / steps);
        }
        lines_with_values += filled;
    }
    double total = 0, sum_of_line_means = 0, spread = 0, spread_within = 0;
    for (const double mean : means) total += mean;
    for (int64_t l = 0; l < r.lines; l++) {
        const double* line = means.data() + l * r.runs;
        double sum = 0;
        for (int64_t n = 0; n < r.runs; n++) sum += line[n];
        sum_of_line_means += sum / r.runs;
        for (int64_t n = 0; n < r.runs; n++) {
            spread += (line[n] - total / all) * (line[n] - total / all);
            spread_within += (line[n] - sum / r.runs) * (line[n] - sum / r.runs);
        }
    }
    found[2] = (float)(sum_of_line_means / std::max(1.0, lines_with_values));
    found[3] = (float)std::sqrt(variances / all + spread / all);
    found[4] = (float)std::sqrt(variances / all + spread_within / all);
    found[5] = (float)(roughness / all);
    found[6] = (float)std::sqrt(largest_variance);
    found[7] = (float)largest_roughness;
}
