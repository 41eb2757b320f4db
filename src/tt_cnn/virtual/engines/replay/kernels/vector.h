// SPDX-License-Identifier: Apache-2.0
// Sixteen floats at a time. The compiler maps them to what the machine has: one AVX-512 register, two of AVX2, ...
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#ifdef __AVX__
#include <immintrin.h>
#endif

typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(64), aligned(4), may_alias));  // they may overflow
constexpr int LANES = 16;
constexpr int WIDE = 4;              // vectors of a panel of columns
constexpr int PANEL = WIDE * LANES;  // the last panel of a matrix is as narrow as its columns allow, in whole vectors

static inline Vector load(const float* from) { return *(const Vector*)from; }
static inline void store(float* to, Vector value) { *(Vector*)to = value; }

static inline Vector load_some(const float* from, int count) {
    Vector value = {};
    memcpy(&value, from, sizeof(float) * count);
    return value;
}
static inline void store_some(float* to, Vector value, int count) {
    if (count >= LANES) store(to, value);
    else memcpy(to, &value, sizeof(float) * count);
}

// The first of them, fewer than there are lanes, without a call.
static inline Vector load_first(const float* from, int count) {
#ifdef __AVX512F__
    return (Vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
#else
    return load_some(from, count);
#endif
}
static inline void store_first(float* to, Vector value, int count) {
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)value);
#else
    store_some(to, value, count);
#endif
}

// Of two numbers; the second where one of them is NaN, so a bound stands first to let NaN pass.
static inline Vector smaller(Vector a, Vector b) { return a < b ? a : b; }
static inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// The larger, or NaN where either is.
static inline Vector larger_or_nan(Vector a, Vector b) {
    const Vector found = larger(a, b);
    return a == a ? found : a;
}

static inline bool all_finite(Vector x) {
    const Vector zero = x - x;  // of infinities and NaN it is NaN
#if defined(__AVX512F__)
    return !_mm512_cmp_ps_mask((__m512)zero, (__m512)zero, _CMP_UNORD_Q);
#elif defined(__AVX__)
    __m256 halves[2];
    memcpy(halves, &zero, sizeof zero);
    return !_mm256_movemask_ps(_mm256_cmp_ps(halves[0], halves[1], _CMP_UNORD_Q));
#else
    for (int i = 0; i < LANES; i++)
        if (zero[i] != zero[i]) return false;
    return true;
#endif
}

// x times 2 to a whole number from -152 to 129. Half of the exponent at a time, since 2 to the 128 is no number, and so
// that denormals come out, as the one instruction for it has them.
static inline Vector scaled(Vector x, Vector power) {
#ifdef __AVX512F__
    return (Vector)_mm512_scalef_ps((__m512)x, (__m512)power);
#else
    const Bits whole = __builtin_convertvector(power, Bits), half = whole >> 1;
    return x * (Vector)((half + 127) << 23) * (Vector)((whole - half + 127) << 23);
#endif
}

// e to the x: the whole part of x / ln 2 goes to the exponent, a polynomial does the rest (error below 2 ulp). NaN stays
// what it is.
static inline Vector exponential(Vector x) {
    x = smaller(Vector{} + 89.0f, larger(Vector{} - 105.0f, x));
    const Vector magic = Vector{} + 12582912.0f;  // adding it rounds to a whole number
    Vector whole = (x * 1.44269504f + magic) - magic;
    Vector rest = x - whole * 0.693359375f + whole * 2.12194440e-4f;
    Vector p = Vector{} + 1.9875691500e-4f;
    p = p * rest + 1.3981999507e-3f;
    p = p * rest + 8.3334519073e-3f;
    p = p * rest + 4.1665795894e-2f;
    p = p * rest + 1.6666665459e-1f;
    p = p * rest + 5.0000001201e-1f;
    p = p * rest * rest + rest + 1.0f;
    return scaled(p, whole);
}

static inline Vector hyperbolic_tangent(Vector x) {
    const Vector square = x * x, far = 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
    Vector p = Vector{} - 5.70498872745e-3f;
    p = p * square + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    return square < 0.390625f ? p * square * x + x : far;  // near 0 the difference of two numbers near 1 is too coarse
}

enum Activation { NONE, RELU, LEAKY_RELU, CLIP, SIGMOID, SILU, MISH, EXP, TANH };

static inline Vector activated(Vector x, int activation, float a, float b) {
    switch (activation) {
        case RELU: return larger(Vector{}, x);
        case LEAKY_RELU: return x < 0.0f ? x * a : x;
        case CLIP: return smaller(Vector{} + b, larger(Vector{} + a, x));
        case SIGMOID: return 1.0f / (1.0f + exponential(-x));
        case SILU: return x / (1.0f + exponential(-x));
        case MISH: {  // x tanh(ln(1 + e^x)), with the logarithm and the tanh worked out
            const Vector e = exponential(smaller(Vector{} + 20.0f, x));
            const Vector n = e * e + (e + e);  // one product that goes into one sum: the same bits wherever it stands
            return x * (n / (n + 2.0f));
        }
        case EXP: return exponential(x);
        case TANH: return hyperbolic_tangent(x);
        default: return x;
    }
}
