// Sixteen floats at a time. The compiler maps them to what the machine has: one AVX-512 register, two of AVX2, ...
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

typedef float Vector __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(64), aligned(4), may_alias));  // they may overflow
constexpr int LANES = 16;

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

static inline Vector smaller(Vector a, Vector b) { return a < b ? a : b; }
static inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }

// e to the x: the whole part of x / ln 2 goes to the exponent, a polynomial does the rest (error below 2 ulp).
static inline Vector exponential(Vector x) {
    x = smaller(larger(x, Vector{} - 87.0f), Vector{} + 88.0f);
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
    Bits exponent = (__builtin_convertvector(whole, Bits) + 127) << 23;
    return p * (Vector)exponent;
}

// A value as it is: compilers fuse a product into a sum where it stands in one place and not in another.
static inline Vector settled(Vector x) {
#ifdef __AVX512F__
    __asm__("" : "+v"(x));
#else
    __asm__("" : "+m"(x));  // a vector is several registers here, which the compiler can only name in memory
#endif
    return x;
}

enum Activation { NONE, RELU, LEAKY_RELU, CLIP, SIGMOID, SILU, MISH, EXP, TANH };

static inline Vector activated(Vector x, int activation, float a, float b) {
    switch (activation) {
        case RELU: return larger(x, Vector{});
        case LEAKY_RELU: return x > 0.0f ? x : x * a;
        case CLIP: return smaller(larger(x, Vector{} + a), Vector{} + b);
        case SIGMOID: return 1.0f / (1.0f + exponential(-x));
        case SILU: return x / (1.0f + exponential(-x));
        case MISH: {  // x tanh(ln(1 + e^x)), with the logarithm and the tanh worked out
            Vector e = exponential(smaller(x, Vector{} + 20.0f));
            const Vector n = settled(e * (e + 2.0f));
            return x * n / (n + 2.0f);
        }
        case EXP: return exponential(x);
        case TANH: return 1.0f - 2.0f / (1.0f + exponential(2.0f * x));
        default: return x;
    }
}
