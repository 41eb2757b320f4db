// SPDX-License-Identifier: Apache-2.0
// A list of steps, run by a team of threads that meet after every step.
#include <omp.h>
#ifdef __linux__
#include <sys/mman.h>
#endif
#include <thread>
#include <vector>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
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

// To a processor that waits for another.
static inline void breathe() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

constexpr int SPINS = 4000;  // some tens of microseconds: going to sleep and waking up take longer

// Threads wait for each other after every step: awake for a moment, then asleep. Who sleeps is soon back when woken;
// who only yields on a busy machine waits until everybody else has had a turn.
struct Meeting {
    std::atomic<int> arrived{0}, round{0}, asleep{0};

    void wait(int size) {
        const int now = round.load(std::memory_order_acquire);
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
            arrived.store(0, std::memory_order_relaxed);
            round.store(now + 1, std::memory_order_seq_cst);
            if (asleep.load(std::memory_order_seq_cst)) wake();
            return;
        }
        for (int spins = 0; round.load(std::memory_order_acquire) == now; spins++) {
            if (spins > SPINS) sleep(now);
            breathe();
        }
    }

    void sleep(int now) {
#ifdef __linux__
        asleep.fetch_add(1, std::memory_order_seq_cst);
        syscall(SYS_futex, &round, FUTEX_WAIT_PRIVATE, now, nullptr, nullptr, 0);
        asleep.fetch_sub(1, std::memory_order_seq_cst);
#else
        std::this_thread::yield();
#endif
    }

    void wake() {
#ifdef __linux__
        syscall(SYS_futex, &round, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0);
#endif
    }
};

extern "C" void run_program(const Step* steps, int64_t count, int64_t threads, float* scratch, int64_t scratch_each) {
    std::vector<Taken> taken(count * threads);
    Meeting meeting;
#pragma omp parallel num_threads((int)threads)
    for (int64_t i = 0; i < count; i++) {
        const int size = omp_get_num_threads(), self = omp_get_thread_num();
        run(steps[i], {size, self, scratch + self * scratch_each, &taken[i * threads]});
        meeting.wait(size);
    }
}

// For memory that has not been touched yet. What is streamed is fetched ahead, and that ends with every page.
extern "C" void prefer_large_pages(float* memory, int64_t floats) {
#ifdef __linux__
    constexpr uintptr_t page = 4096;
    const uintptr_t begin = ((uintptr_t)memory + page - 1) / page * page, end = (uintptr_t)(memory + floats) / page * page;
    if (begin < end) madvise((void*)begin, end - begin, MADV_HUGEPAGE);  // where it is refused, nothing is lost
#endif
}
