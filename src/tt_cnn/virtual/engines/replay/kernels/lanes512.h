// SPDX-License-Identifier: Apache-2.0
// Sixteen columns in registers of AVX-512, two groups of products side by side in each: see steps.h.
constexpr int COLUMNS = 16;

typedef __m512i Halves;  // of 16 bits, the first group's in the lower half of each 32
typedef __m512 Floats;

static inline Halves load_halves(const int16_t* from) { return _mm512_loadu_si512(from); }
static inline Halves both(int32_t pair) { return _mm512_set1_epi32(pair); }
static inline Halves every_half(int number) { return _mm512_set1_epi16((short)number); }
static inline Halves add(Halves a, Halves b) { return _mm512_add_epi16(a, b); }
static inline Halves subtract(Halves a, Halves b) { return _mm512_sub_epi16(a, b); }
static inline Halves multiply(Halves a, Halves b) { return _mm512_mullo_epi16(a, b); }
static inline Halves multiply_rounded(Halves a, Halves b) { return _mm512_mulhrs_epi16(a, b); }
static inline Halves larger_of(Halves a, Halves b) { return _mm512_max_epi16(a, b); }
static inline Halves signs(Halves a) { return _mm512_srai_epi16(a, 15); }
static inline Halves power(Halves exponent) { return _mm512_sllv_epi16(_mm512_set1_epi16(1), exponent); }
static inline Halves exchanged(Halves a) { return _mm512_rol_epi32(a, 16); }
static inline Halves total_of_pairs(Halves a) { return _mm512_madd_epi16(a, _mm512_set1_epi16(1)); }

static inline Halves every_word(int32_t number) { return _mm512_set1_epi32(number); }
static inline Halves add_words(Halves a, Halves b) { return _mm512_add_epi32(a, b); }
static inline Halves subtract_words(Halves a, Halves b) { return _mm512_sub_epi32(a, b); }
static inline Halves common_bits(Halves a, Halves b) { return _mm512_and_si512(a, b); }
static inline Halves any_bits(Halves a, Halves b) { return _mm512_or_si512(a, b); }
template <int count> static inline Halves up(Halves a) { return _mm512_slli_epi32(a, count); }
template <int count> static inline Halves down(Halves a) { return _mm512_srli_epi32(a, count); }
template <int count> static inline Halves down_signed(Halves a) { return _mm512_srai_epi32(a, count); }

static inline Floats load_floats(const float* from) { return _mm512_loadu_ps(from); }
static inline void store_floats(float* to, Floats x) { _mm512_storeu_ps(to, x); }
static inline Floats no_floats() { return _mm512_setzero_ps(); }
static inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
static inline Floats to_floats(Halves words) { return _mm512_cvtepi32_ps(words); }
static inline Halves to_words(Floats x) { return _mm512_cvtps_epi32(x); }  // to nearest
static inline Floats as_floats(Halves bits) { return _mm512_castsi512_ps(bits); }
static inline Halves as_words(Floats x) { return _mm512_castps_si512(x); }

static inline __m256 upper(Floats x) { return _mm512_extractf32x8_ps(x, 1); }
static inline __m256 lower(Floats x) { return _mm512_castps512_ps256(x); }
static inline __m256 added_wide(__m256 sum, __m256 first, __m256 second) {
    const __m512d both = _mm512_add_pd(_mm512_cvtps_pd(first), _mm512_cvtps_pd(second));
    return _mm512_cvtpd_ps(_mm512_add_pd(_mm512_cvtps_pd(sum), both));
}

// sum + (first + second), rounded once to float32.
static inline Floats added_wide(Floats sum, Floats first, Floats second) {
    const __m256 low = added_wide(lower(sum), lower(first), lower(second));
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), added_wide(upper(sum), upper(first), upper(second)), 1);
}
