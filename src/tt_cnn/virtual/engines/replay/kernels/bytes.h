// SPDX-License-Identifier: Apache-2.0
// Images of whole numbers of 8 bits: how they become floats and come of them, and what goes pixel by pixel.
//
// A number q of an image stands for (q - zero) * scale.
#pragma once
#include "rounding.h"
#include "step.h"

static inline Vector from_bytes(const uint8_t* from) {
#ifdef __AVX512F__
    return (Vector)_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)from)));
#else
    Vector value;
    for (int i = 0; i < LANES; i++) value[i] = from[i];
    return value;
#endif
}

static inline Vector from_bytes(const uint8_t* from, int count) {
    if (count >= LANES) return from_bytes(from);
    uint8_t some[LANES] = {};
    memcpy(some, from, count);
    return from_bytes(some);
}

// To the nearest whole number, ties to even; what is beyond the range becomes its end.
static inline void to_bytes(uint8_t* to, Vector value, int count) {
    value = smaller(Vector{} + 255.0f, larger(Vector{}, value));
#ifdef __AVX512F__
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)value));
    if (count >= LANES) _mm_storeu_si128((__m128i*)to, bytes);
    else memcpy(to, &bytes, count);
#else
    const Vector magic = Vector{} + 12582912.0f;
    const Bits whole = __builtin_convertvector((value + magic) - magic, Bits);
    for (int i = 0; i < count && i < LANES; i++) to[i] = (uint8_t)whole[i];
#endif
}

// The same for two or four vectors side by side, none of which is larger than a whole number may be.
#ifdef __AVX512BW__
static inline __m512i two_whole(const Vector* row) {
    return _mm512_packs_epi32(_mm512_cvtps_epi32((__m512)row[0]), _mm512_cvtps_epi32((__m512)row[1]));
}
#endif

static inline void four_to_bytes(uint8_t* to, const Vector* row) {
#ifdef __AVX512BW__
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, _mm512_packus_epi16(two_whole(row), two_whole(row + 2))));
#else
    for (int i = 0; i < 4; i++) to_bytes(to + i * LANES, row[i], LANES);
#endif
}

static inline void two_to_bytes(uint8_t* to, const Vector* row) {
#ifdef __AVX512BW__
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i whole = _mm512_max_epi16(_mm512_permutexvar_epi64(order, two_whole(row)), _mm512_setzero_si512());
    _mm256_storeu_si256((__m256i*)to, _mm512_cvtusepi16_epi8(whole));
#else
    for (int i = 0; i < 2; i++) to_bytes(to + i * LANES, row[i], LANES);
#endif
}

// One operand of a step, a float image or one of bytes.
struct ImageSource {
    const void* image;
    bool bytes;
    float scale, zero;

    Vector at(int64_t place, int count) const {
        if (!bytes) return load_some((const float*)image + place, count);
        return (from_bytes((const uint8_t*)image + place, count) - zero) * scale;
    }
};

static inline ImageSource source_of(const Step& s) { return {s.x, s.x_bytes != 0, (float)s.x_scale, (float)s.x_zero}; }
static inline ImageSource other_of(const Step& s) {
    return {s.other, s.other_bytes != 0, (float)s.other_scale, (float)s.other_zero};
}

// Where results go. No whole number stands for NaN or an infinity: that there were some is noted.
struct Target {
    void* image;
    bool bytes;
    float inverse, zero;
    int64_t* odd;

    void put(int64_t place, Vector value, int count) const {
        if (!bytes) return store_some((float*)image + place, value, count);
        if (!all_finite(first_lanes(value, count))) __atomic_store_n(odd, 1, __ATOMIC_RELAXED);
        to_bytes((uint8_t*)image + place, value * inverse + zero, count);
    }
};

static inline Target target_of(const Step& s) {
    return {s.y, s.y_bytes != 0, (float)s.y_inverse, (float)s.y_zero, s.odd};
}

// Activations of what becomes one of 256 numbers: right to 1e-4 of the result, at a third of the time.
#ifdef __AVX512F__
static inline Vector rough_power(Vector x) {  // 2 to the x
    const Vector whole = (Vector)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Vector rest = x - whole;
    Vector p = Vector{} + 9.6181291e-3f;
    p = p * rest + 5.5504109e-2f;
    p = p * rest + 2.4022651e-1f;
    p = p * rest + 6.9314718e-1f;
    p = p * rest + 1.0f;
    return (Vector)_mm512_scalef_ps((__m512)p, (__m512)whole);
}

static inline Vector rough_reciprocal(Vector x) { return (Vector)_mm512_rcp14_ps((__m512)x); }

static inline Vector roughly_activated(Vector x, int activation, float a, float b) {
    constexpr float PER_E = 1.44269504f;  // 2 to the this is e
    switch (activation) {
        case SIGMOID: return rough_reciprocal(1.0f + rough_power(x * -PER_E));
        case SILU: return x * rough_reciprocal(1.0f + rough_power(x * -PER_E));
        case MISH: {
            const Vector e = rough_power(smaller(Vector{} + 20.0f, x) * PER_E), n = e * (e + 2.0f);
            return x * n * rough_reciprocal(n + 2.0f);
        }
        default: return activated(x, activation, a, b);
    }
}
#else
static inline Vector roughly_activated(Vector x, int activation, float a, float b) { return activated(x, activation, a, b); }
#endif

static inline Vector finished_roughly(const Step& s, Vector sum, Vector other) {
    if (s.other && s.other_first) sum += other;
    sum = roughly_activated(sum, (int)s.activation, (float)s.a, (float)s.b);
    if (s.other && !s.other_first) sum += other;
    return sum;
}

// A step's activation and addition, or its stages, on vectors of the same channels side by side.
static void finish_vectors(const Step& s, Vector* values, const Vector* others, int n, int apart, int channel, int count) {
    constexpr int AT_ONCE = 32;
    for (int first = 0; first < n; first += AT_ONCE) {
        const int rows = std::min(AT_ONCE, n - first);
        if (s.stage_count) {
            const float* pointers[AT_ONCE];
            for (int i = 0; i < rows; i++) pointers[i] = others ? (const float*)(others + (first + i) * apart) : nullptr;
            run_stages(s.stages, s.stage_count, values + first * apart, rows, apart, pointers, channel, count);
        } else if (s.y_bytes) {
            for (int i = first; i < first + rows; i++)
                values[i * apart] = finished_roughly(s, values[i * apart], others ? others[i * apart] : Vector{});
        } else {
            for (int i = first; i < first + rows; i++)
                values[i * apart] = finished(s, values[i * apart], others ? (const float*)(others + i * apart) : nullptr);
        }
    }
}

// --- sums that are in steps of their result already ------------------------------------------------------------------

// What is added; its zero went into the bias.
enum Added { NOTHING, FLOATS, BYTES };

static inline Added added_of(const Step& s) { return !s.other ? NOTHING : s.other_bytes ? BYTES : FLOATS; }

// What is added to channels from a place on.
template <Added added>
static inline Vector other_at(const void* other, int64_t place, int lanes) {
    return added == FLOATS ? load_some((const float*)other + place, lanes) : from_bytes((const uint8_t*)other + place, lanes);
}

// `seen` stays finite while the floats that are added are.
template <Added added>
static inline Vector with_added(const Step& s, Vector sum, int64_t place, int lanes, Vector& seen) {
    if (added == NOTHING) return sum;
    const Vector other = other_at<added>(s.other, place, lanes);
    if (added == FLOATS) seen += other - other;
    return sum + other * (float)s.other_scale;
}

static inline void note_odd(const Step& s, Vector seen) {
    if (__builtin_expect(!all_finite(seen), 0)) __atomic_store_n(s.odd, 1, __ATOMIC_RELAXED);
}

static inline Vector in_bounds(const Step& s, Vector sum) {
    return smaller(Vector{} + (float)s.b, larger(Vector{} + (float)s.a, sum));
}

// Floats side by side become bytes.
static void run_to_bytes(const Target& target, const float* from, uint8_t* to, int64_t count) {
    Vector finite = {};
    int64_t i = 0;
#ifdef __AVX512BW__
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        Vector row[4];
        for (int v = 0; v < 4; v++) {
            const Vector value = load(from + i + v * LANES);
            finite += value - value;
            row[v] = smaller(Vector{} + 512.0f, value * target.inverse + target.zero);
        }
        four_to_bytes(to + i, row);
    }
#endif
    for (; i < count; i += LANES) {
        const int lanes = (int)std::min<int64_t>(LANES, count - i);
        const Vector value = load_some(from + i, lanes);
        finite += value - value;
        to_bytes(to + i, value * target.inverse + target.zero, lanes);
    }
    if (!all_finite(finite)) __atomic_store_n(target.odd, 1, __ATOMIC_RELAXED);
}

// UPSAMPLE and ACTIVATE where one of the images is of bytes; with nothing to do it copies.
static void byte_pixels(const Step& s, const Team& team) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels;
    const ImageSource source = source_of(s), other = other_of(s);
    const Target target = target_of(s);
    const bool plain = !s.other && !s.stage_count && s.activation == NONE;
    const bool copies = plain && s.x_bytes && s.y_bytes;
    const bool rounds = plain && !s.x_bytes && s.y_bytes && s.stride_w == 1 && s.stride_h == 1;
    const bool row_by_row = rounds && s.x_pixel == C && s.y_pixel == C;
    for (int row; (row = (int)team.next(rows)) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        if (row_by_row) {
            const float* from = s.x + (int64_t)row * s.width * C;
            run_to_bytes(target, from, (uint8_t*)s.y + n * s.y_image + y * s.y_row, s.out_width * C);
            continue;
        }
        for (int x = 0; x < s.out_width; x++) {
            const int64_t from = ((n * s.height + y / s.stride_h) * s.width + x / s.stride_w) * s.x_pixel;
            const int64_t to = n * s.y_image + y * s.y_row + x * s.y_pixel;
            const int64_t beside = ((int64_t)row * s.out_width + x) * s.other_pixel;
            if (copies) {
                memcpy((uint8_t*)s.y + to, (const uint8_t*)s.x + from, C);
                continue;
            }
            if (rounds) {
                run_to_bytes(target, s.x + from, (uint8_t*)s.y + to, C);
                continue;
            }
            for (int c = 0; c < C; c += LANES) {
                const int lanes = std::min(LANES, C - c);
                Vector value = source.at(from + c, lanes), added = {};
                if (s.other) added = other.at(beside + c, lanes);
                finish_vectors(s, &value, s.other ? &added : nullptr, 1, 1, c, lanes);
                target.put(to + c, value, lanes);
            }
        }
    }
}

// --- the largest of each window --------------------------------------------------------------------------------------

// Channels from `c` on, `size` at a time, while there are so many.
template <int size>
static inline int largest_bytes(const uint8_t* const* pixels, int count, uint8_t* to, int c, int channels) {
    typedef uint8_t Some __attribute__((vector_size(size), aligned(1), may_alias));
    for (; c + size <= channels; c += size) {
        Some most = {};
        for (int i = 0; i < count; i++) {
            const Some value = *(const Some*)(pixels[i] + c);
            most = value > most ? value : most;
        }
        *(Some*)(to + c) = most;
    }
    return c;
}

static void byte_max_pool(const Step& s, const Team& team) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels;
    for (int row; (row = (int)team.next(rows)) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        for (int x = 0; x < s.out_width; x++) {
            const uint8_t* pixels[256];
            int count = 0;
            for (int ky = 0; ky < s.kernel_h; ky++)
                for (int kx = 0; kx < s.kernel_w; kx++) {
                    const int64_t iy = y * s.stride_h + ky * s.dilation_h - s.top, ix = x * s.stride_w + kx * s.dilation_w - s.left;
                    if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
                    pixels[count++] = (const uint8_t*)s.x + ((n * s.height + iy) * s.width + ix) * s.x_pixel;
                }
            uint8_t* to = (uint8_t*)s.y + n * s.y_image + y * s.y_row + x * s.y_pixel;
            int c = largest_bytes<64>(pixels, count, to, 0, C);
            c = largest_bytes<16>(pixels, count, to, c, C);
            for (; c < C; c++) {
                uint8_t most = 0;
                for (int i = 0; i < count; i++) most = std::max(most, pixels[i][c]);
                to[c] = most;
            }
        }
    }
}
