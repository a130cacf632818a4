// What the scheduler (fibers.cpp) and the warp operations (warp.cpp) share.
#pragma once
#include "cuda_on_cpu.hpp"

namespace kv_cpu {
struct Fiber {
  enum State { READY, AT_BARRIER, IN_WARP, DONE } state;
  void* context;   // saved stack pointer, or its ucontext
  int line;        // where it waits
  unsigned mask;   // in a warp operation: the lanes named
  unsigned round;  // warp operations so far: two sets of slots take turns
};

// What one lane lays out for its warp: a shuffled value or a vote, or its operands of a matrix step.
struct Slot {
  uint64_t bits;
  float a[8], b[4];
};

Fiber& current();
// The slots of this thread's warp for its next operation.
Slot* next_slots();
// Ends the launch with a message; does not return.
[[noreturn]] void fault(const char* what);
}  // namespace kv_cpu
