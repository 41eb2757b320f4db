// A list of steps on channels-last float32 images, run by a team of threads that meet after every step.
//
// Every image has its channels side by side; `..._pixel` is the distance from one pixel to the next in floats, so that
// a step can read and write a part of the channels of a wider image: concatenation then needs no copy.
#include <omp.h>
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>
#include "rounding.h"
#include "vector.h"

constexpr int PANEL = 32;   // output channels of a panel of weights: two vectors
constexpr int ROWS = 12;    // pixels at a time: with two vectors each they fill the registers
constexpr int TILE = 36;    // points of a Winograd tile, 6 x 6 for 4 x 4 results

enum Kind { CONVOLUTION, WINOGRAD, DEPTHWISE, MAX_POOL, AVERAGE_POOL, UPSAMPLE, ACTIVATE, MEAN, SUMS, WALK };

struct Piece;

struct Step {
    int64_t kind;
    const float* x;
    const float* weights;
    const float* bias;
    const float* other;  // added to the result
    float* y;
    const Stage* stages;                                       // instead of bias, activation and addition
    const Piece* pieces;                                       // SUMS: of the inner dimension
    const Stage* between;                                      // SUMS: what happens after a piece
    int64_t batch, height, width, channels, x_pixel;           // of the input
    int64_t out_height, out_width, out_channels;               // of the output
    int64_t y_image, y_row, y_pixel;                           // distances in the output
    int64_t other_pixel, other_first;                          // its pixels; added before the activation?
    int64_t kernel_h, kernel_w, stride_h, stride_w, top, left, dilation_h, dilation_w;
    int64_t activation;
    int64_t tiles;                                             // Winograd: tiles at a time
    int64_t count_padding;                                     // average pool
    int64_t stage_count, piece_count, between_count;
    int64_t weight_rows;                                       // SUMS: of a panel
    double a, b;                                               // of the activation
};

// One of the threads on one step. Work is dealt out piece by piece, since a thread may be held up by other programs.
struct Team {
    int size;
    float* scratch;
    std::atomic<int64_t>* pieces;

    int64_t next() const { return pieces->fetch_add(1, std::memory_order_relaxed); }
};

static float zeros[8192] __attribute__((aligned(64)));

// --- what comes after a sum: bias, what is added, activation ---------------------------------------------------------

static inline Vector finished(const Step& s, Vector sum, const float* other) {
    if (other && s.other_first) sum += load(other);
    sum = activated(sum, (int)s.activation, (float)s.a, (float)s.b);
    if (other && !s.other_first) sum += load(other);
    return sum;
}

// `count` channels from `channel` on.
static inline void put(const Step& s, float* y, const float* other, Vector sum, int count, int channel) {
    float rest[LANES] = {};
    if (count < LANES && other) {
        memcpy(rest, other, sizeof(float) * count);
        other = rest;
    }
    if (s.stage_count) run_stages(s.stages, s.stage_count, &sum, 1, 1, &other, channel, count);
    else sum = finished(s, sum, other);
    store_some(y, sum, count);
}

// The same for vectors of the same channels, `apart` from each other.
static inline void put_many(const Step& s, float* const* y, const float* const* other, Vector* sums, int n, int apart,
                            int count, int channel) {
    if (s.stage_count) {
        run_stages(s.stages, s.stage_count, sums, n, apart, other, channel, count);
        for (int i = 0; i < n; i++) store_some(y[i], sums[i * apart], count);
    } else {
        for (int i = 0; i < n; i++) put(s, y[i], s.other ? other[i] : nullptr, sums[i * apart], count, channel);
    }
}

// --- convolution as a matrix product, without unfolding the image ----------------------------------------------------

// R neighbouring results of one panel of channels. Windows reach into the padding only where `edges` is set.
template <int R, bool edges>
static inline void convolve(const Step& s, const float* image, const float* weights, int y, int x, int panel,
                            float* out, const float* other) {
    const int C = (int)s.channels, kw = (int)s.kernel_w;
    Vector sum[R][2];
    const Vector b0 = load(s.bias + panel * PANEL), b1 = load(s.bias + panel * PANEL + LANES);
    for (int r = 0; r < R; r++) sum[r][0] = b0, sum[r][1] = b1;
    const float* w = weights + (size_t)panel * s.kernel_h * kw * C * PANEL;
    const bool in_one_run = !edges && s.x_pixel == C && s.dilation_w == 1;
    const int runs = in_one_run ? 1 : kw, length = in_one_run ? kw * C : C;
    const size_t pixel = s.stride_w * s.x_pixel;
    for (int ky = 0; ky < s.kernel_h; ky++) {
        const int iy = y * (int)s.stride_h + ky * (int)s.dilation_h - (int)s.top;
        if (iy < 0 || iy >= s.height) {
            w += (size_t)kw * C * PANEL;
            continue;
        }
        for (int run = 0; run < runs; run++) {
            const int ix = x * (int)s.stride_w + run * (int)s.dilation_w - (int)s.left;
            if (edges && (ix < 0 || ix >= s.width)) {
                w += (size_t)C * PANEL;
                continue;
            }
            const float* from = image + ((size_t)iy * s.width + ix) * s.x_pixel;
            for (int k = 0; k < length; k++, w += PANEL) {
                const Vector w0 = load(w), w1 = load(w + LANES);
#pragma GCC unroll 12
                for (int r = 0; r < R; r++) {
                    const float value = from[r * pixel + k];
                    sum[r][0] += value * w0;
                    sum[r][1] += value * w1;
                }
            }
        }
    }
    const int first = panel * PANEL, left = (int)s.out_channels - first;
    for (int half = 0; half < 2 && half * LANES < left; half++) {
        const int c = first + half * LANES;
        float* to[R];
        const float* add[R];
        for (int r = 0; r < R; r++) to[r] = out + r * s.y_pixel + c, add[r] = other ? other + r * s.other_pixel + c : nullptr;
        put_many(s, to, add, &sum[0][half], R, 2, std::min(left - half * LANES, LANES), c);
    }
}

static void convolve_row(const Step& s, int n, int y, int begin, int end, int panel) {
    const float* image = s.x + (size_t)n * s.height * s.width * s.x_pixel;
    float* out = s.y + n * s.y_image + y * s.y_row;
    const float* other = s.other ? s.other + ((size_t)n * s.out_height + y) * s.out_width * s.other_pixel : nullptr;
    const int reach = (int)((s.kernel_w - 1) * s.dilation_w);
    for (int x = begin; x < end;) {
        const int ix = x * (int)s.stride_w - (int)s.left;
        const int inside = ix < 0 ? 0 : std::min(end - x, (int)((s.width - 1 - reach - ix) / s.stride_w + 1));
        float* to = out + x * s.y_pixel;
        const float* add = other ? other + x * s.other_pixel : nullptr;
        if (ix + reach >= s.width || inside <= 0) {
            convolve<1, true>(s, image, s.weights, y, x, panel, to, add), x += 1;
        } else if (inside >= ROWS) {
            convolve<ROWS, false>(s, image, s.weights, y, x, panel, to, add), x += ROWS;
        } else if (inside >= 6) {
            convolve<6, false>(s, image, s.weights, y, x, panel, to, add), x += 6;
        } else if (inside >= 3) {
            convolve<3, false>(s, image, s.weights, y, x, panel, to, add), x += 3;
        } else {
            convolve<1, false>(s, image, s.weights, y, x, panel, to, add), x += 1;
        }
    }
}

// Rows are cut so that there is enough for everybody; the panels of one piece follow each other, its pixels in cache.
static void convolution(const Step& s, const Team& team) {
    const int panels = (int)((s.out_channels + PANEL - 1) / PANEL), rows = (int)(s.batch * s.out_height);
    const int piece = std::min((int)s.out_width, 8 * ROWS), pieces = (int)((s.out_width + piece - 1) / piece);
    const bool by_panel = rows * pieces < 4 * team.size;
    const int work = by_panel ? panels : rows * pieces;
    for (int i; (i = (int)team.next()) < work;) {
        const int from = by_panel ? 0 : i, to = by_panel ? rows * pieces : i + 1;
        for (int panel = by_panel ? i : 0; panel < (by_panel ? i + 1 : panels); panel++)
            for (int p = from; p < to; p++) {
                const int row = p / pieces, begin = p % pieces * piece;
                convolve_row(s, row / (int)s.out_height, row % (int)s.out_height, begin,
                             std::min(begin + piece, (int)s.out_width), panel);
            }
    }
}

// --- 3x3 convolution of stride 1 after Winograd, F(4x4, 3x3) ---------------------------------------------------------

static inline void forward(const Vector* d, Vector* v) {  // 6 pixels to 6 points
    const Vector even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
    const Vector even2 = d[4] - d[2], odd2 = 2.0f * (d[3] - d[1]);
    v[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = even2 + odd2;
    v[4] = even2 - odd2;
    v[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
}

static inline void backward(const Vector* m, Vector* y) {  // 6 points to 4 results
    const Vector s12 = m[1] + m[2], d12 = m[1] - m[2], s34 = m[3] + m[4], d34 = m[3] - m[4];
    y[0] = m[0] + s12 + s34;
    y[1] = d12 + 2.0f * d34;
    y[2] = s12 + 4.0f * s34;
    y[3] = d12 + 8.0f * d34 + m[5];
}

template <int R>
static inline void multiply(const float* v, const float* u, float* m, int channels, int columns) {
    for (int n = 0; n < columns; n += PANEL) {
        Vector sum[R][2];
        for (int r = 0; r < R; r++) sum[r][0] = Vector{}, sum[r][1] = Vector{};
        for (int k = 0; k < channels; k++, u += PANEL) {
            const Vector u0 = load(u), u1 = load(u + LANES);
#pragma GCC unroll 12
            for (int r = 0; r < R; r++) {
                const float value = v[r * channels + k];
                sum[r][0] += value * u0;
                sum[r][1] += value * u1;
            }
        }
        for (int r = 0; r < R; r++) store(m + r * columns + n, sum[r][0]), store(m + r * columns + n + LANES, sum[r][1]);
    }
}

static void to_points(const Step& s, int tile, int at, float* V) {
    const int across = (int)(s.out_width + 3) / 4, down = (int)(s.out_height + 3) / 4, C = (int)s.channels;
    const int n = tile / (across * down), y0 = tile / across % down * 4 - (int)s.top, x0 = tile % across * 4 - (int)s.left;
    const float* pixels[TILE];
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            const int y = y0 + i, x = x0 + j;
            const bool inside = y >= 0 && y < s.height && x >= 0 && x < s.width;
            pixels[i * 6 + j] = inside ? s.x + (((size_t)n * s.height + y) * s.width + x) * s.x_pixel : zeros;
        }
    for (int c = 0; c < C; c += LANES) {
        Vector half[TILE], points[TILE];
        for (int j = 0; j < 6; j++) {
            Vector column[6], v[6];
            for (int i = 0; i < 6; i++) column[i] = load(pixels[i * 6 + j] + c);
            forward(column, v);
            for (int i = 0; i < 6; i++) half[i * 6 + j] = v[i];
        }
        for (int i = 0; i < 6; i++) forward(half + i * 6, points + i * 6);
        for (int i = 0; i < TILE; i++) store(V + ((size_t)i * s.tiles + at) * C + c, points[i]);
    }
}

static void from_points(const Step& s, int tile, int at, const float* M, int columns) {
    const int across = (int)(s.out_width + 3) / 4, down = (int)(s.out_height + 3) / 4;
    const int n = tile / (across * down), y0 = tile / across % down * 4, x0 = tile % across * 4;
    for (int c = 0; c < s.out_channels; c += LANES) {
        const int count = std::min(LANES, (int)s.out_channels - c);
        Vector half[24], result[16];
        const Vector bias = load(s.bias + c);
        for (int j = 0; j < 6; j++) {
            Vector column[6], y[4];
            for (int i = 0; i < 6; i++) column[i] = load(M + ((size_t)(i * 6 + j) * s.tiles + at) * columns + c);
            backward(column, y);
            for (int i = 0; i < 4; i++) half[i * 6 + j] = y[i];
        }
        for (int i = 0; i < 4; i++) backward(half + i * 6, result + i * 4);
        float* to[16];
        const float* other[16];
        int kept = 0;
        for (int i = 0; i < 4 && y0 + i < s.out_height; i++)
            for (int j = 0; j < 4 && x0 + j < s.out_width; j++, kept++) {
                const size_t pixel = ((size_t)n * s.out_height + y0 + i) * s.out_width + x0 + j;
                to[kept] = s.y + n * s.y_image + (y0 + i) * s.y_row + (x0 + j) * s.y_pixel + c;
                other[kept] = s.other ? s.other + pixel * s.other_pixel + c : nullptr;
                result[kept] = result[i * 4 + j] + bias;
            }
        put_many(s, to, other, result, kept, 1, count, c);
    }
}

static void winograd(const Step& s, const Team& team) {
    const int C = (int)s.channels, columns = (int)((s.out_channels + PANEL - 1) / PANEL) * PANEL;
    const int tiles = (int)(s.batch * ((s.out_height + 3) / 4) * ((s.out_width + 3) / 4)), at_once = (int)s.tiles;
    const int blocks = (tiles + at_once - 1) / at_once;
    float* V = team.scratch;
    float* M = V + (size_t)TILE * at_once * C;
    for (int block; (block = (int)team.next()) < blocks;) {
        const int first = block * at_once, count = std::min(at_once, tiles - first);
        for (int t = 0; t < count; t++) to_points(s, first + t, t, V);
        for (int i = 0; i < TILE; i++) {
            const float* v = V + (size_t)i * at_once * C;
            const float* u = s.weights + (size_t)i * C * columns;
            float* m = M + (size_t)i * at_once * columns;
            int r = 0;
            for (; r + ROWS <= count; r += ROWS) multiply<ROWS>(v + (size_t)r * C, u, m + (size_t)r * columns, C, columns);
            for (; r + 4 <= count; r += 4) multiply<4>(v + (size_t)r * C, u, m + (size_t)r * columns, C, columns);
            for (; r < count; r++) multiply<1>(v + (size_t)r * C, u, m + (size_t)r * columns, C, columns);
        }
        for (int t = 0; t < count; t++) from_points(s, first + t, t, M, columns);
    }
}

// --- windows channel by channel --------------------------------------------------------------------------------------

template <class Take>
static void over_windows(const Step& s, const Team& team, Vector start, Take take) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels;
    for (int row; (row = (int)team.next()) < rows;) {
        const int n = row / (int)s.out_height, y = row % (int)s.out_height;
        for (int x = 0; x < s.out_width; x++) {
            const float* pixels[256];
            int which[256], count = 0;
            for (int ky = 0; ky < s.kernel_h; ky++)
                for (int kx = 0; kx < s.kernel_w; kx++) {
                    const int64_t iy = y * s.stride_h + ky * s.dilation_h - s.top, ix = x * s.stride_w + kx * s.dilation_w - s.left;
                    if (iy < 0 || iy >= s.height || ix < 0 || ix >= s.width) continue;
                    pixels[count] = s.x + ((n * s.height + iy) * s.width + ix) * s.x_pixel;
                    which[count++] = ky * (int)s.kernel_w + kx;
                }
            float* out = s.y + n * s.y_image + y * s.y_row + x * s.y_pixel;
            const float* other = s.other ? s.other + ((size_t)row * s.out_width + x) * s.other_pixel : nullptr;
            for (int c = 0; c < C; c += LANES) {
                const int lanes = std::min(LANES, C - c);
                Vector sum = s.bias ? load_some(s.bias + c, lanes) : start;
                for (int i = 0; i < count; i++) {
                    const Vector value = lanes == LANES ? load(pixels[i] + c) : load_some(pixels[i] + c, lanes);
                    sum = take(sum, value, which[i], c, lanes);
                }
                if (s.kind == AVERAGE_POOL) sum /= (float)(s.count_padding ? s.kernel_h * s.kernel_w : count);
                put(s, out + c, other ? other + c : nullptr, sum, lanes, c);
            }
        }
    }
}

static void depthwise(const Step& s, const Team& team) {
    over_windows(s, team, Vector{}, [&](Vector sum, Vector value, int at, int c, int lanes) {
        return sum + value * load_some(s.weights + at * s.out_channels + c, lanes);
    });
}

static void max_pool(const Step& s, const Team& team) {
    over_windows(s, team, Vector{} - 3.4e38f, [](Vector sum, Vector value, int, int, int) { return larger(sum, value); });
}

static void average_pool(const Step& s, const Team& team) {
    over_windows(s, team, Vector{}, [](Vector sum, Vector value, int, int, int) { return sum + value; });
}

// --- pixel by pixel --------------------------------------------------------------------------------------------------

// UPSAMPLE repeats pixels `stride` times; ACTIVATE is the same with stride 1.
static void pixelwise(const Step& s, const Team& team) {
    const int rows = (int)(s.batch * s.out_height), C = (int)s.out_channels;
    for (int row; (row = (int)team.next()) < rows;) {
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

static void mean(const Step& s, const Team& team) {
    const int groups = (int)((s.channels + LANES - 1) / LANES), pixels = (int)(s.height * s.width);
    for (int i; (i = (int)team.next()) < s.batch * groups;) {
        const int n = i / groups, c = i % groups * LANES, lanes = std::min(LANES, (int)s.channels - c);
        Vector sum = {};
        for (int p = 0; p < pixels; p++) sum += load_some(s.x + ((size_t)n * pixels + p) * s.x_pixel + c, lanes);
        put(s, s.y + n * s.y_image + c, nullptr, sum / (float)pixels, lanes, c);
    }
}

#include "sums.h"

static void run(const Step& s, const Team& team) {
    switch (s.kind) {
        case CONVOLUTION: return convolution(s, team);
        case WINOGRAD: return winograd(s, team);
        case DEPTHWISE: return depthwise(s, team);
        case MAX_POOL: return max_pool(s, team);
        case AVERAGE_POOL: return average_pool(s, team);
        case MEAN: return mean(s, team);
        case SUMS: return sums(s, team);
        case WALK: return walk(s, team);
        default: return pixelwise(s, team);
    }
}

// Threads wait for each other after every step: awake for a moment, then they leave the core to whoever needs it.
struct Meeting {
    std::atomic<int> arrived{0}, round{0};

    void wait(int size) {
        const int now = round.load(std::memory_order_acquire);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
            arrived.store(0, std::memory_order_relaxed);
            round.store(now + 1, std::memory_order_release);
            return;
        }
        for (int spins = 0; round.load(std::memory_order_acquire) == now; spins++)
            if (spins > 4000) std::this_thread::yield();
    }
};

extern "C" void run_program(const Step* steps, int64_t count, int64_t threads, float* scratch, int64_t scratch_each) {
    std::vector<std::atomic<int64_t>> pieces(count);
    Meeting meeting;
#pragma omp parallel num_threads((int)threads)
    for (int64_t i = 0; i < count; i++) {
        const int size = omp_get_num_threads();
        run(steps[i], {size, scratch + omp_get_thread_num() * scratch_each, &pieces[i]});
        meeting.wait(size);
    }
}
