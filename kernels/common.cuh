// What the kernels share: binary16 without headers, warp sums, the tensor-core step, the layout of a KV page.
//
// No standard or CUDA header is read, because NVRTC has none; conversions and the matrix step are inline PTX. Each such
// helper has a twin in cpu/cuda_on_cpu.hpp, so that the same .cu files also build as C++ and run in tests on any CPU.
#pragma once

#if defined(KV_ON_CPU)
#include "cpu/cuda_on_cpu.hpp"
#else

#define KV_ENTRY(kernel)  // on the CPU: makes the kernel known by its name

extern __shared__ __align__(16) unsigned char kv_shared[];  // the one dynamic shared array
typedef unsigned short kv_half;  // the bits of a binary16 number

__device__ __forceinline__ float kv_h2f(kv_half h) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
  return f;
}

__device__ __forceinline__ kv_half kv_f2h(float f) {
  kv_half h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}

// c += a * b for one warp: a is 16 x 16 by rows, b is 16 x 8 by columns, c is 16 x 8; binary16 in, binary32 sums.
// Which element lies in which lane is fixed by the PTX ISA (mma.m16n8k16, .f16 fragments).
__device__ __forceinline__ void kv_mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#endif

#define KV_WHOLE_WARP 0xffffffffu

// Two numbers as binary16 in one word, the first in the low half.
__device__ __forceinline__ unsigned kv_pack(float low, float high) {
  return (unsigned)kv_f2h(low) | (unsigned)kv_f2h(high) << 16;
}

__device__ __forceinline__ unsigned kv_low_halves(unsigned a, unsigned b) { return (a & 0xffffu) | b << 16; }

__device__ __forceinline__ unsigned kv_high_halves(unsigned a, unsigned b) { return a >> 16 | (b & 0xffff0000u); }

__device__ __forceinline__ float kv_minus_infinity() { return __int_as_float((int)0xff800000u); }

// Largest value over groups of `lanes` neighbouring lanes (a power of two); every lane gets it.
__device__ __forceinline__ float kv_group_max(float v, int lanes) {
  for (int o = lanes >> 1; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(KV_WHOLE_WARP, v, o));
  return v;
}

// One KV page of one layer: [K, V][kv head][token of the page][head_dim], binary16. A row (one token of one head) is
// `row_words` words of 16 bytes. `slot` counts tokens through the pages of an arena: page = slot / page_tokens.
// Returns the word at which row `part * kv_heads + head` of that slot begins (part 0 is K, 1 is V).
__device__ __forceinline__ size_t kv_row_at(int slot, int row, int kv_heads, int page_tokens, int row_words) {
  const size_t page = (size_t)(slot / page_tokens);
  return ((page * 2 * kv_heads + row) * page_tokens + slot % page_tokens) * row_words;
}
