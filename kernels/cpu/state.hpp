// What the scheduler (fibers.cpp) and the warp operations (warp.cpp) share.
#pragma once
#include "cuda_on_cpu.hpp"

namespace kv_cpu {
struct Fiber {
  enum State { READY, AT_BARRIER, IN_WARP, DONE } state;
  void* context;   // saved stack pointer, or its ucontext
  int line;        // where it waits
  unsigned mask;   // in a warp operation: the lanes named
  unsigned round;  // warp operations so far: two boards take turns
};

// What the lanes of a warp lay out for each other: shuffled values or votes, or the operands of a matrix step.
struct Board {
  uint64_t bits[32];
  alignas(16) float a[16][16], b[8][16];  // a by rows, b by columns: products run along both
};

Fiber& current();
// The board of this thread's warp for its next operation.
Board& next_board();
// Ends the launch with a message; does not return.
[[noreturn]] void fault(const char* what);
}  // namespace kv_cpu
