// SPDX-License-Identifier: Apache-2.0
// A list of steps, run by a team of threads that meet after every step.
#ifdef __linux__
#include <sys/mman.h>
#endif
#include "crew.h"
#include "looks.h"
#include "staged.h"
#include "tables.h"
#include "walk.h"
#include "weights.h"
#include "windows.h"

typedef void (*Steps)(const Step& s, const Team& team);

void multiply_pixels(const Step& s, const Team& team);  // these two are compiled beside this file
void multiply_tiles(const Step& s, const Team& team);
static Steps from_elsewhere[LARGEST + 1];               // of other libraries, by kind: what not every program needs

extern "C" void take_steps(int64_t kind, Steps steps) { from_elsewhere[kind] = steps; }

static void run(const Step& s, const Team& team) {
    switch (s.kind) {
        case CONVOLUTION: return multiply_pixels(s, team);
        case WINOGRAD: return multiply_tiles(s, team);
        case DEPTHWISE: case BYTE_CONVOLUTION: case BYTE_DEPTHWISE: case BYTE_MAX_POOL: case BYTE_PIXELS:
            return from_elsewhere[s.kind](s, team);
        case MAX_POOL: return max_pool(s, team);
        case AVERAGE_POOL: return average_pool(s, team);
        case MEAN: case LARGEST: return over_pixels(s, team);
        case GATHER: return gather(s, team);
        case WALK: return walk(s, team);
        case PAIR: return pair(s, team);
        default: return pixelwise(s, team);
    }
}

struct Program : Work {
    const Step* steps;
    int64_t count;
    float* scratch;
    int64_t scratch_each;
    Taken* taken;  // of each step, of each thread

    void of(int self, int size, Meeting& meeting) const override {
        for (int64_t i = 0; i < count; i++) {
            run(steps[i], {size, self, scratch + self * scratch_each, taken + i * size});
            meeting.wait(size);
        }
    }
};

extern "C" void run_program(const Step* steps, int64_t count, int64_t threads, float* scratch, int64_t scratch_each) {
    std::vector<Taken> taken(count * threads);
    Program program;
    program.steps = steps, program.count = count, program.scratch = scratch, program.scratch_each = scratch_each;
    program.taken = taken.data();
    Crew::of_this_thread((int)threads).run(program);
}

// For memory that has not been touched yet. What is streamed is fetched ahead, and that ends with every page.
extern "C" void prefer_large_pages(float* memory, int64_t floats) {
#ifdef __linux__
    constexpr uintptr_t page = 4096;
    const uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page, end = (uintptr_t)(memory + floats) / page * page;
    if (begin < end) madvise((void*)begin, end - begin, MADV_HUGEPAGE);  // where it is refused, nothing is lost
#endif
}
