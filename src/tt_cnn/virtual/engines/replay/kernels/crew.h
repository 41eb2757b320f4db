// SPDX-License-Identifier: Apache-2.0
// Threads that run programs together with the one that calls them, and how they wait for each other.
//
// They are not OpenMP's, whose threads go to sleep after a tenth of a millisecond: between two images of a pipeline pass
// two or three, and a virtual machine takes as long again to wake a processor up.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#else
#include <condition_variable>
#include <mutex>
#endif

// To a processor that waits for another.
static inline void breathe() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

constexpr int SPINS = 4000;       // within a program: some tens of microseconds
constexpr int LONG_SPINS = 60000;  // between programs: about a millisecond

// A count that others wait for: awake for a moment, then asleep. Who sleeps is soon back when woken; who only yields on
// a busy machine waits until everybody else has had a turn.
class Signal {
    std::atomic<uint32_t> count{0};
    std::atomic<int> asleep{0};
#ifdef __linux__
    void sleep(uint32_t seen) { syscall(SYS_futex, &count, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0); }
    void wake() { syscall(SYS_futex, &count, FUTEX_WAKE_PRIVATE, 1 << 30, nullptr, nullptr, 0); }
#else
    std::mutex lock;
    std::condition_variable changed;

    void sleep(uint32_t seen) {
        std::unique_lock<std::mutex> held(lock);
        changed.wait(held, [&] { return now() != seen; });
    }
    void wake() {
        std::lock_guard<std::mutex> held(lock);
        changed.notify_all();
    }
#endif

  public:
    uint32_t now() const { return count.load(std::memory_order_acquire); }

    void give() {
        count.fetch_add(1, std::memory_order_seq_cst);
        if (asleep.load(std::memory_order_seq_cst)) wake();
    }

    // Until it was given once more than `seen`.
    void wait(uint32_t seen, int spins) {
        for (; now() == seen; spins--) {
            if (spins > 0) {
                breathe();
                continue;
            }
            asleep.fetch_add(1, std::memory_order_seq_cst);
            if (now() == seen) sleep(seen);
            asleep.fetch_sub(1, std::memory_order_seq_cst);
        }
    }
};

// Where all of a crew meet after every step.
class Meeting {
    std::atomic<int> arrived{0};
    Signal all_here;

  public:
    void wait(int size) {
        const uint32_t now = all_here.now();
        if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < size) return all_here.wait(now, SPINS);
        arrived.store(0, std::memory_order_relaxed);
        all_here.give();
    }
};

// What a crew does: `of(self, size, meeting)` on each of its threads.
struct Work {
    virtual void of(int self, int size, Meeting& meeting) const = 0;
};

class Crew {
    const int asked;
    const pid_t process = getpid();
    const Work* work = nullptr;  // null to leave
    Signal called;
    Meeting meeting;
    std::atomic<int> away{0};
    std::vector<std::thread> others;

    void follow(int self) {
        for (uint32_t seen = 0;; seen++) {
            called.wait(seen, LONG_SPINS);
            if (!work) return;
            work->of(self, size(), meeting);
            away.fetch_sub(1, std::memory_order_release);
        }
    }

    int size() const { return (int)others.size() + 1; }

    void call(const Work* next) {
        work = next;
        away.store(size() - 1, std::memory_order_relaxed);
        called.give();
    }

  public:
    explicit Crew(int threads) : asked(threads) {
        others.reserve(threads - 1);
        try {
            while (size() < threads) {
                const int self = size();
                others.emplace_back([this, self] { follow(self); });
            }
        } catch (const std::system_error&) {  // the system gives no more: fewer do it
        }
    }

    ~Crew() {
        call(nullptr);
        for (std::thread& one : others) one.join();
    }

    void run(const Work& next) {
        call(&next);
        next.of(0, size(), meeting);
        for (int spins = 0; away.load(std::memory_order_acquire); spins++) spins < SPINS ? breathe() : std::this_thread::yield();
    }

    // Of the thread that asks. The child of a fork has none of its parent's threads.
    static Crew& of_this_thread(int threads) {
        thread_local std::unique_ptr<Crew> own;
        if (own && own->process != getpid()) own.release();
        if (!own || own->asked != threads) own.reset(), own.reset(new Crew(threads));
        return *own;
    }
};
