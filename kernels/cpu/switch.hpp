// Switching stacks. On x86-64 in ten instructions; elsewhere through ucontext, which asks the kernel twice a switch.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__) && !defined(KV_UCONTEXT)

// Saves this stack in *from and goes on where `to` was saved.
extern "C" __attribute__((visibility("hidden"))) void kv_switch_stack(void** from, void* to);
asm(R"(
.text
.hidden kv_switch_stack
.globl kv_switch_stack
.type kv_switch_stack, @function
kv_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size kv_switch_stack, . - kv_switch_stack
)");

static inline void switch_stack(void** from, void* to) { kv_switch_stack(from, to); }

// A stack on which `body` begins at the first switch to it; `body` must not return.
static inline void* new_stack(char* memory, size_t size, void (*body)()) {
  uint64_t* top = (uint64_t*)(((uintptr_t)memory + size) & ~(uintptr_t)15);
  *--top = 0;                 // where a return address would lie: keeps the alignment of a call
  *--top = (uint64_t)body;    // what `ret` takes
  for (int i = 0; i < 6; ++i) *--top = 0;
  return top;
}

#else
#include <ucontext.h>

static inline void switch_stack(void** from, void* to) {
  ucontext_t here;
  *from = &here;  // lies on the stack that is being left, and stays there until it is entered again
  swapcontext(&here, (ucontext_t*)to);
}

static inline void* new_stack(char* memory, size_t size, void (*body)()) {
  ucontext_t* context = (ucontext_t*)memory;
  const size_t used = (sizeof *context + 63) / 64 * 64;
  getcontext(context);
  context->uc_stack.ss_sp = memory + used;
  context->uc_stack.ss_size = size - used;
  context->uc_link = nullptr;
  makecontext(context, body, 0);
  return context;
}

#endif
