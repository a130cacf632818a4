// Runs a block: every CUDA thread a fiber, in one of six orders, with shared memory poisoned beforehand.
//
// A fiber runs until it reaches a barrier or a warp operation. A warp operation goes on once all lanes it names wait at the
// same line; a barrier once every thread of the block that has not returned waits at one line. Whatever can never go on is
// a fault, reported with kernel, block, thread and line.
#include "state.hpp"

#include <sys/mman.h>
#include <algorithm>
#include <cstdio>
#include <mutex>
#include <random>
#include <vector>

#include "switch.hpp"

extern "C" {
extern unsigned char __start_kv_static[] __attribute__((weak, visibility("hidden")));
extern unsigned char __stop_kv_static[] __attribute__((weak, visibility("hidden")));
}

static constexpr unsigned MOST_SHARED = 227 << 10, MARGIN = 256;
__attribute__((aligned(16))) unsigned char kv_shared[MOST_SHARED + MARGIN];

namespace kv_cpu {
dim3 thread_index, block_index, block_dim, grid_dim;
int linear;

static constexpr size_t STACK = 64 << 10;
static constexpr int MOST_THREADS = 1024;

static struct {
  Fiber fibers[MOST_THREADS];
  Board boards[MOST_THREADS / 32][2];
  std::vector<int> sequence;  // thread numbers in the order in which they get their turn
  int threads;
  char* stacks;
  void* scheduler;
  const Kernel* kernel;
  void** args;
  char message[300];
  bool failed;
} S;

Fiber& current() { return S.fibers[linear]; }
Board& next_board() { return S.boards[linear / 32][current().round++ & 1]; }

static void describe(const char* what) {
  std::snprintf(S.message, sizeof S.message, "%s, block (%u,%u,%u), thread %d, line %d: %s", S.kernel->name, block_index.x,
                block_index.y, block_index.z, linear, current().line, what);
  S.failed = true;
}

static void leave() { switch_stack(&current().context, S.scheduler); }

void fault(const char* what) {
  describe(what);
  for (;;) leave();
}

void sync_block(int line) {
  current().state = Fiber::AT_BARRIER;
  current().line = line;
  leave();
}

void sync_warp(unsigned mask, int line) {
  Fiber& me = current();
  me.line = line;
  if (!(mask >> (linear & 31) & 1)) fault("a warp operation whose mask leaves out the calling lane");
  me.state = Fiber::IN_WARP;
  me.mask = mask;
  leave();
}

static void body() {
  S.kernel->call(S.args);
  current().state = Fiber::DONE;
  for (;;) leave();
}

static void run(int thread) {
  linear = thread;
  thread_index = {thread % block_dim.x, thread / block_dim.x % block_dim.y, thread / (block_dim.x * block_dim.y)};
  switch_stack(&S.scheduler, S.fibers[thread].context);
}

static void start_block() {
  for (int i = 0; i < S.threads; ++i)
    S.fibers[i] = {Fiber::READY, new_stack(S.stacks + i * STACK, STACK, body), 0, 0, 0};
}

// 0 in turn, 1 backwards, 2 the lowest warp runs as far as it can first, 3 the highest, from 4 on shuffled every round.
static bool run_ready(unsigned order, std::mt19937& random) {
  if (order > 3) std::shuffle(S.sequence.begin(), S.sequence.end(), random);
  bool ran = false;
  int only = -1;
  for (int i : S.sequence) {
    if (S.fibers[i].state != Fiber::READY || (only >= 0 && i / 32 != only)) continue;
    if (order == 2 || order == 3) only = i / 32;
    run(i);
    if (S.failed) return false;
    ran = true;
  }
  return ran;
}

// Whether all lanes that thread `at` waits for have come; a lane that never will is a fault.
static bool warp_complete(int at) {
  const Fiber& f = S.fibers[at];
  for (int lane = 0; lane < 32; ++lane) {
    if (!(f.mask >> lane & 1)) continue;
    const int other = at / 32 * 32 + lane;
    linear = at;
    if (other >= S.threads) return describe("a warp operation names lanes beyond the block"), false;
    const Fiber& o = S.fibers[other];
    if (o.state == Fiber::DONE) return describe("a warp operation names a lane that has returned"), false;
    if (o.state != Fiber::IN_WARP || o.mask != f.mask || o.line != f.line) return false;
  }
  return true;
}

static bool release_warps() {
  bool any = false;
  for (int at = 0; at < S.threads && !S.failed; ++at) {
    const Fiber& f = S.fibers[at];
    if (f.state != Fiber::IN_WARP) continue;
    const unsigned mask = f.mask;
    if (warp_complete(at)) {
      for (int lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1) S.fibers[at / 32 * 32 + lane].state = Fiber::READY;
      any = true;
    } else if (mask == 0xffffffffu) {
      at |= 31;  // nothing else can go on in this warp
    }
  }
  return any && !S.failed;
}

static bool release_barrier() {
  int line = 0;
  for (int i = 0; i < S.threads; ++i) {
    const Fiber& f = S.fibers[i];
    if (f.state == Fiber::DONE) continue;
    if (f.state != Fiber::AT_BARRIER) return false;
    linear = i;
    if (line && line != f.line) return describe("parts of a block wait at different barriers"), false;
    line = f.line;
  }
  if (!line) return false;
  for (int i = 0; i < S.threads; ++i)
    if (S.fibers[i].state == Fiber::AT_BARRIER) S.fibers[i].state = Fiber::READY;
  return true;
}

static bool all_done() {
  for (int i = 0; i < S.threads; ++i)
    if (S.fibers[i].state != Fiber::DONE) return linear = i, false;
  return true;
}

static void run_block(unsigned order, unsigned number) {
  std::mt19937 random(order * 7919u + number);
  start_block();
  for (bool on = true; on && !S.failed;) {
    on = run_ready(order, random);
    if (!S.failed) on |= release_warps();  // every time, so that orders 2 and 3 drive a warp up to its next barrier
    if (!S.failed && !on) on = release_barrier();
  }
  if (!S.failed && !all_done()) describe("waits for ever: a barrier or warp operation in a branch");
}

static void poison(unsigned order, unsigned shared) {
  const int byte = order & 1 ? 0xff : 0x7f;  // NaN, or 3.39e38, which a maximum does not pass over
  std::memset(kv_shared, byte, shared + MARGIN);
  if (__start_kv_static) std::memset(__start_kv_static, byte, __stop_kv_static - __start_kv_static);
}

static void check_margin(unsigned order, unsigned shared) {
  const unsigned char byte = order & 1 ? 0xff : 0x7f;
  const unsigned char* end = kv_shared + shared;
  if (!std::all_of(end, end + MARGIN, [byte](unsigned char b) { return b == byte; }))
    describe("writes past the dynamic shared memory that the launch asked for");
}

static std::vector<Kernel>& kernels() {
  static std::vector<Kernel> all;
  return all;
}
bool add(const Kernel& kernel) {
  kernels().push_back(kernel);
  return true;
}
static const Kernel* find(const char* name) {
  for (const Kernel& k : kernels())
    if (!std::strcmp(k.name, name)) return &k;
  return nullptr;
}

static void prepare(const Kernel& kernel, void** args, unsigned order) {
  if (!S.stacks)
    S.stacks = (char*)mmap(nullptr, MOST_THREADS * STACK, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  S.kernel = &kernel;
  S.args = args;
  S.failed = false;
  S.threads = block_dim.x * block_dim.y * block_dim.z;
  S.sequence.resize(S.threads);
  for (int i = 0; i < S.threads; ++i) S.sequence[i] = order == 1 || order == 3 ? S.threads - 1 - i : i;
}

static bool run_grid(unsigned order, unsigned shared) {
  unsigned number = 0;
  for (unsigned z = 0; z < grid_dim.z; ++z)
    for (unsigned y = 0; y < grid_dim.y; ++y)
      for (unsigned x = 0; x < grid_dim.x; ++x) {
        block_index = {x, y, z};
        poison(order, shared);
        run_block(order, number++);
        if (!S.failed) check_margin(order, shared);
        if (S.failed) return false;
      }
  return true;
}
}  // namespace kv_cpu

#define KV_EXPORT extern "C" __attribute__((visibility("default")))

// 0 done, 1 a launch that a driver would refuse, 2 no such kernel, 3 a fault, told in `message`.
KV_EXPORT int kv_cpu_launch(const char* name, const unsigned* grid, const unsigned* block, unsigned shared, void** args,
                            unsigned order, char* message, size_t room) {
  using namespace kv_cpu;
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> guard(one_at_a_time);
  const Kernel* kernel = find(name);
  if (!kernel) return 2;
  const uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
  if (!threads || threads > MOST_THREADS || !grid[0] || !grid[1] || !grid[2] || shared > MOST_SHARED) return 1;
  grid_dim = {grid[0], grid[1], grid[2]};
  block_dim = {block[0], block[1], block[2]};
  prepare(*kernel, args, order);
  if (run_grid(order, shared)) return 0;
  std::snprintf(message, room, "%s", S.message);
  return 3;
}

// The number of parameters, or -1; `sizes` gets a byte for each.
KV_EXPORT int kv_cpu_params(const char* name, const unsigned char** sizes) {
  const kv_cpu::Kernel* kernel = kv_cpu::find(name);
  if (!kernel) return -1;
  *sizes = kernel->sizes;
  return kernel->params;
}
