// SPDX-License-Identifier: Apache-2.0
// Eight columns in registers of AVX2, two groups of products side by side in each: see steps.h.
constexpr int COLUMNS = 8;

typedef __m256i Halves;  // of 16 bits, the first group's in the lower half of each 32
typedef __m256 Floats;

static inline Halves load_halves(const int16_t* from) { return _mm256_loadu_si256((const __m256i*)from); }
static inline Halves both(int32_t pair) { return _mm256_set1_epi32(pair); }
static inline Halves every_half(int number) { return _mm256_set1_epi16((short)number); }
static inline Halves add(Halves a, Halves b) { return _mm256_add_epi16(a, b); }
static inline Halves subtract(Halves a, Halves b) { return _mm256_sub_epi16(a, b); }
static inline Halves multiply(Halves a, Halves b) { return _mm256_mullo_epi16(a, b); }
static inline Halves multiply_rounded(Halves a, Halves b) { return _mm256_mulhrs_epi16(a, b); }
static inline Halves larger_of(Halves a, Halves b) { return _mm256_max_epi16(a, b); }
static inline Halves signs(Halves a) { return _mm256_srai_epi16(a, 15); }

// Both bytes of a power are looked up: the lower one by the exponent, the upper one by 8 less. What is below 0 gives 0.
static inline Halves power(Halves exponent) {
    const Halves bytes = _mm256_broadcastsi128_si256(_mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
    const Halves twice = multiply(larger_of(exponent, every_half(-8)), every_half(0x101));
    return _mm256_shuffle_epi8(bytes, subtract(twice, every_half(0x800)));
}

static inline Halves exchanged(Halves a) { return _mm256_or_si256(_mm256_slli_epi32(a, 16), _mm256_srli_epi32(a, 16)); }
static inline Halves total_of_pairs(Halves a) { return _mm256_madd_epi16(a, _mm256_set1_epi16(1)); }

static inline Halves every_word(int32_t number) { return _mm256_set1_epi32(number); }
static inline Halves add_words(Halves a, Halves b) { return _mm256_add_epi32(a, b); }
static inline Halves subtract_words(Halves a, Halves b) { return _mm256_sub_epi32(a, b); }
static inline Halves common_bits(Halves a, Halves b) { return _mm256_and_si256(a, b); }
static inline Halves any_bits(Halves a, Halves b) { return _mm256_or_si256(a, b); }
template <int count> static inline Halves up(Halves a) { return _mm256_slli_epi32(a, count); }
template <int count> static inline Halves down(Halves a) { return _mm256_srli_epi32(a, count); }
template <int count> static inline Halves down_signed(Halves a) { return _mm256_srai_epi32(a, count); }

static inline Floats load_floats(const float* from) { return _mm256_loadu_ps(from); }
static inline void store_floats(float* to, Floats x) { _mm256_storeu_ps(to, x); }
static inline Floats no_floats() { return _mm256_setzero_ps(); }
static inline Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
static inline Floats to_floats(Halves words) { return _mm256_cvtepi32_ps(words); }
static inline Halves to_words(Floats x) { return _mm256_cvtps_epi32(x); }  // to nearest
static inline Floats as_floats(Halves bits) { return _mm256_castsi256_ps(bits); }
static inline Halves as_words(Floats x) { return _mm256_castps_si256(x); }

static inline __m128 added_wide(__m128 sum, __m128 first, __m128 second) {
    const __m256d both = _mm256_add_pd(_mm256_cvtps_pd(first), _mm256_cvtps_pd(second));
    return _mm256_cvtpd_ps(_mm256_add_pd(_mm256_cvtps_pd(sum), both));
}

// sum + (first + second), rounded once to float32.
static inline Floats added_wide(Floats sum, Floats first, Floats second) {
    const __m128 low = added_wide(_mm256_castps256_ps128(sum), _mm256_castps256_ps128(first), _mm256_castps256_ps128(second));
    const __m128 high = added_wide(_mm256_extractf128_ps(sum, 1), _mm256_extractf128_ps(first, 1), _mm256_extractf128_ps(second, 1));
    return _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
}
