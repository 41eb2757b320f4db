// SPDX-License-Identifier: Apache-2.0
// The matrix unit's steps in whole numbers of 16 bits; included once for each width of registers (lanes512.h, lanes256.h).
//
// A product of mantissas has 12 bits, so three more are free: products are made 8 times too large, a negative one loses
// one of these eighths, and rounding ties up then rounds them away from zero. A power of two aligns it. Sums of eight
// fit into 16 bits. Two groups of a step lie side by side, so that one instruction adds their sums up in 32.

struct Group {  // of columns: mantissas (8 times too large) and exponents of each step's weights
    const int16_t *exponent, *high, *low;
};

// The bfloat16 register after the sums of a step, which are negative here: -1 << 15 is a number of 16 bits, 1 << 15 none.
static inline Floats added(Floats sum, Halves negative, Halves exponent, Halves largest) {
    const Halves bytes = down<24>(up<1>(as_words(sum))), own = any_bits(bytes, up<16>(bytes));
    const Halves top = larger_of(largest, own);
    const Halves shift = add(subtract(exponent, top), every_half(15));
    const Halves aligned = multiply_rounded(negative, subtract(every_half(0), power(shift)));
    const Halves place = up<23>(top);  // of both halves the lower
    const Floats to_quanta = as_floats(subtract_words(every_word((int32_t)((264u << 23) + 8u)), place));
    const Halves total = add_words(to_words(multiply(sum, to_quanta)), total_of_pairs(aligned));
    const Floats quantum = as_floats(subtract_words(place, every_word(10 << 23)));
    const Halves bits = as_words(multiply(to_floats(total), quantum));
    return as_floats(common_bits(add_words(bits, every_word(0x8000)), every_word(-0x10000)));
}

static inline Floats added_in_float32(Floats sum, Halves positive, Halves exponent) {
    const Halves places = subtract(exponent, every_half(10));
    const Floats first = multiply(to_floats(down_signed<16>(up<16>(positive))), as_floats(up<23>(places)));
    const Floats second = multiply(to_floats(down_signed<16>(positive)), as_floats(up<23>(down<16>(places))));
    return added_wide(sum, first, second);
}

// One row and the columns of a group. With `tiny` products may be so small that the smallest alignment bounds theirs.
template <bool fp32, bool tiny>
static Floats followed_group(const Row& x, const Group& w, int64_t steps, int phases, Floats sum) {
    constexpr int SIZE = 2 * COLUMNS, EACH = CARD_GROUP * SIZE;
    for (int64_t tile = 0; tile < steps; tile += 2) {
        Halves power_of[2][CARD_GROUP], top[2], larger[2];
        for (int step = 0; step < 2; step++) {
            const int32_t* own = x.exponent + (tile + step) * CARD_GROUP;
            const int16_t* others = w.exponent + (tile + step) * EACH;
            Halves* exponents = power_of[step];
            for (int i = 0; i < CARD_GROUP; i++) exponents[i] = add(both(own[i]), load_halves(others + i * SIZE));
            Halves most = exponents[0];
            for (int i = 1; i < CARD_GROUP; i++) most = larger_of(most, exponents[i]);
            const Halves base = subtract(most, every_half(12));
            for (int i = 0; i < CARD_GROUP; i++)
                exponents[i] = tiny ? subtract(exponents[i], every_half(127 - 12)) : power(subtract(exponents[i], base));
            top[step] = subtract(most, every_half(127));
            larger[step] = larger_of(top[step], exchanged(top[step]));
        }
        for (int phase = 0; phase < phases; phase++) {
            const int low_w = phase & 1, low_x = phase >> 1, lower = LOW_A * low_w + LOW_B * low_x;
            const int32_t* part_x = (low_x ? x.low : x.high) + tile * CARD_GROUP;
            const int16_t* part_w = (low_w ? w.low : w.high) + tile * EACH;
            const Halves least = every_half(SMALLEST_EXPONENT);
            for (int step = 0; step < 2; step++) {
                const Halves quantum = larger_of(top[step], every_half(SMALLEST_EXPONENT + lower));
                Halves total = every_half(0);
                for (int i = 0; i < CARD_GROUP; i++) {
                    const int place = step * CARD_GROUP + i;
                    Halves product = multiply(load_halves(part_w + place * SIZE), both(part_x[place]));
                    product = add(product, signs(product));
                    const Halves by = tiny ? power(subtract(power_of[step][i], quantum)) : power_of[step][i];
                    const Halves whole = multiply_rounded(product, by);
                    total = fp32 ? add(total, whole) : subtract(total, whole);
                }
                const Halves exponent = larger_of(subtract(top[step], every_half(lower)), least);
                const Halves largest = larger_of(subtract(larger[step], every_half(lower)), least);
                sum = fp32 ? added_in_float32(sum, total, exponent) : added(sum, total, exponent, largest);
            }
        }
    }
    return sum;
}

// `rows` rows on the columns of all groups; `start` and `out` are (rows, columns).
template <bool fp32, bool tiny>
static void followed_rows_of(const Row* x, int rows, const Panels& w, int phases, const float* start, float* out) {
    constexpr int64_t SIZE = 2 * COLUMNS;
    const int64_t each = w.steps * CARD_GROUP * SIZE;
    for (int64_t c = 0; c < w.columns; c += COLUMNS) {
        const int64_t first = c / COLUMNS * each;
        const Group group = {w.exponent.get() + first, w.high.get() + first, w.low.get() + first};
        for (int r = 0; r < rows; r++) {
            const Floats sum = start ? load_floats(start + r * w.columns + c) : no_floats();
            store_floats(out + r * w.columns + c, followed_group<fp32, tiny>(x[r], group, w.steps, phases, sum));
        }
    }
}

static void followed_rows(const Row* x, int rows, const Panels& w, int phases, bool fp32, bool tiny, const float* start,
                          float* out) {
    if (fp32) (tiny ? followed_rows_of<true, true> : followed_rows_of<true, false>)(x, rows, w, phases, start, out);
    else (tiny ? followed_rows_of<false, true> : followed_rows_of<false, false>)(x, rows, w, phases, start, out);
}
