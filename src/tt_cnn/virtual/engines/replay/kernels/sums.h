// Convolutions whose sums the card rounds between blocks of the inner dimension, and the walk of sums it does not.
//
// Included by program.cpp, whose Step and `put` it uses.
#pragma once

struct Piece {
    int64_t top, bottom;    // rows of the kernel
    int64_t first, last;    // channels
    int64_t rounds;         // sums are rounded after it
};

// R results, wherever they lie, of one panel of channels: their sums stay in registers from piece to piece. What lies
// outside of the image is read from zeros. Weights come piece by piece, (rows, width, channels, PANEL) each.
template <int R>
static inline void add_up(const Step& s, const int64_t* results, int panel) {
    const int64_t area = s.out_height * s.out_width;
    Vector sum[R][2];
    for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = Vector{};
    const float* image[R];
    int64_t at_y[R], at_x[R];
    for (int r = 0; r < R; r++) {
        const int64_t n = results[r] / area, y = results[r] % area / s.out_width, x = results[r] % s.out_width;
        image[r] = s.x + n * s.height * s.width * s.x_pixel;
        at_y[r] = y * s.stride_h - s.top, at_x[r] = x * s.stride_w - s.left;
    }
    const float* w = s.weights + (size_t)panel * s.weight_rows * PANEL;
    for (int64_t p = 0; p < s.piece_count; p++) {
        const Piece& piece = s.pieces[p];
        const int channels = (int)(piece.last - piece.first);
        for (int64_t ky = piece.top; ky < piece.bottom; ky++)
            for (int64_t kx = 0; kx < s.kernel_w; kx++) {
                const float* from[R];
                for (int r = 0; r < R; r++) {
                    const int64_t y = at_y[r] + ky * s.dilation_h, x = at_x[r] + kx * s.dilation_w;
                    const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
                    from[r] = inside ? image[r] + (y * s.width + x) * s.x_pixel + piece.first : zeros;
                }
                for (int k = 0; k < channels; k++, w += PANEL) {
                    const Vector w0 = load(w), w1 = load(w + LANES);
#pragma GCC unroll 12
                    for (int r = 0; r < R; r++) {
                        const float value = from[r][k];
                        sum[r][0] += value * w0;
                        sum[r][1] += value * w1;
                    }
                }
            }
        if (!piece.rounds) continue;
        if (s.between_count == 1 && s.between[0].kind == NEAREST_EVEN)
            for (int r = 0; r < R; r++) sum[r][0] = nearest_even(sum[r][0]), sum[r][1] = nearest_even(sum[r][1]);
        else
            run_stages(s.between, s.between_count, &sum[0][0], 2 * R, 1, nullptr, 0, LANES);
    }
    const int first = panel * PANEL, left = (int)s.out_channels - first;
    for (int half = 0; half < 2 && half * LANES < left; half++) {
        const int c = first + half * LANES;
        float* to[R];
        const float* other[R];
        for (int r = 0; r < R; r++) {
            const int64_t n = results[r] / area, y = results[r] % area / s.out_width, x = results[r] % s.out_width;
            to[r] = s.y + n * s.y_image + y * s.y_row + x * s.y_pixel + c;
            other[r] = s.other ? s.other + results[r] * s.other_pixel + c : nullptr;
        }
        put_many(s, to, other, &sum[0][half], R, 2, std::min(left - half * LANES, LANES), c);
    }
}

typedef void (*AddUp)(const Step&, const int64_t*, int);
static const AddUp ADD_UP[ROWS + 1] = {nullptr,    add_up<1>, add_up<2>, add_up<3>, add_up<4>,  add_up<5>, add_up<6>,
                                       add_up<7>, add_up<8>, add_up<9>, add_up<10>, add_up<11>, add_up<12>};

// Results are dealt out evenly, so that no group of them is much smaller than the registers allow.
static void sums(const Step& s, const Team& team) {
    constexpr int64_t GROUPS = 8;  // at a time, for one panel: its weights are in cache
    const int64_t results = s.batch * s.out_height * s.out_width, groups = (results + ROWS - 1) / ROWS;
    const int64_t panels = (s.out_channels + PANEL - 1) / PANEL, parts = (groups + GROUPS - 1) / GROUPS;
    for (int64_t i; (i = team.next()) < parts * panels;) {
        const int64_t part = i / panels, end = std::min(groups, (part + 1) * GROUPS);
        for (int64_t g = part * GROUPS; g < end; g++) {
            const int64_t first = results * g / groups, count = results * (g + 1) / groups - first;
            int64_t which[ROWS];
            for (int64_t r = 0; r < count; r++) which[r] = first + r;
            ADD_UP[count](s, which, (int)(i % panels));
        }
    }
}

constexpr int64_t SAMPLE = 64;  // rows, as numerics/convolution/quick.py has it
constexpr uint32_t MIXER = (uint32_t)-1640531527;

// --- roundings that are not followed: their size is that of the sums, their direction drawn from the sums' bits ------

static void walk(const Step& s, const Team& team) {
    const int64_t rows = s.batch * s.out_height * s.out_width, C = s.out_channels;
    const int64_t step = std::max<int64_t>(1, rows / SAMPLE), columns = (C + PANEL - 1) / PANEL * PANEL;
    double squares = 0;
    int64_t sampled = 0;
    for (int64_t row = 0; row < rows; row += step, sampled++)
        for (int64_t c = 0; c < C; c++) squares += (double)s.x[row * s.x_pixel + c] * s.x[row * s.x_pixel + c];
    const float typical = (float)__builtin_sqrt(squares / (double)(sampled * columns)), length = (float)s.a;
    constexpr int64_t AT_ONCE = 64;
    for (int64_t i; (i = team.next()) * AT_ONCE < rows;)
        for (int64_t row = i * AT_ONCE; row < std::min(rows, (i + 1) * AT_ONCE); row++) {
            const int64_t n = row / (s.out_height * s.out_width), inside = row % (s.out_height * s.out_width);
            float* to = s.y + n * s.y_image + inside / s.out_width * s.y_row + inside % s.out_width * s.y_pixel;
            for (int64_t c = 0; c < C; c += LANES) {
                const int lanes = (int)std::min<int64_t>(LANES, C - c);
                const Vector sum = load_some(s.x + row * s.x_pixel + c, lanes);
                const Vector size = (Vector)((Bits)sum & MAGNITUDE) + typical;
                const Vector drawn = __builtin_convertvector((Bits)((Words)sum * MIXER) >> 16, Vector);
                const float* other = s.other ? s.other + row * s.other_pixel + c : nullptr;
                put(s, to + c, other, sum + length * drawn * size, lanes, (int)c);
            }
        }
}
