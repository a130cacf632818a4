// What a .cu file sees when it is compiled as C++: CUDA's words, with every CUDA thread a fiber (fibers.cpp, warp.cpp).
//
// Shows: wrong indices, missing barriers (six orders of threads, shared memory poisoned before every block), barriers that
// only a part of a block reaches, warp operations whose mask names lanes that do not take part, overruns of dynamic shared
// memory. Does not show: races inside one stretch between barriers that no order of whole stretches brings out, speed,
// bank conflicts, what ptxas does. One block at a time; blocks in order.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
// Static shared variables lie in one section, so that all of them can be poisoned before a block.
#define __shared__ static __attribute__((section("kv_static")))

struct alignas(8) float2 { float x, y; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

typedef unsigned short kv_half;
extern __attribute__((visibility("hidden"))) unsigned char kv_shared[];  // the one dynamic shared array

namespace kv_cpu {
// The thread that runs now, and its launch. One launch at a time in a process: plain globals.
extern dim3 thread_index, block_index, block_dim, grid_dim;
extern int linear;  // the thread's number in its block

void sync_block(int line);
void sync_warp(unsigned mask, int line);
uint64_t shuffle(unsigned mask, uint64_t value, int source, int line);
unsigned ballot(unsigned mask, bool vote, int line);
void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int line);
float half_to_float(kv_half h);
kv_half float_to_half(float f);

// A kernel that can be launched by name: the size of each parameter, and how to call it with pointers to them.
struct Kernel {
  const char* name;
  int params;
  const unsigned char* sizes;
  void (*call)(void** args);
};
bool add(const Kernel& kernel);

template <auto F>
struct Entry;
template <class... A, void (*F)(A...)>
struct Entry<F> {
  static constexpr unsigned char sizes[] = {sizeof(A)...};
  template <size_t... I>
  static void unpack(void** a, std::index_sequence<I...>) { F(*(std::remove_const_t<A>*)a[I]...); }
  static void call(void** a) { unpack(a, std::index_sequence_for<A...>{}); }
  static bool enter(const char* name) { return add({name, (int)sizeof...(A), sizes, call}); }
};

template <class T>
T shuffle_as(unsigned mask, T value, int source, int line) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = shuffle(mask, bits, source, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
}  // namespace kv_cpu

#define KV_ENTRY(kernel) static const bool entered_##kernel = kv_cpu::Entry<&kernel>::enter(#kernel);

#define threadIdx (kv_cpu::thread_index)
#define blockIdx (kv_cpu::block_index)
#define blockDim (kv_cpu::block_dim)
#define gridDim (kv_cpu::grid_dim)
#define __syncthreads() kv_cpu::sync_block(__LINE__)
#define __shfl_sync(mask, v, lane) kv_cpu::shuffle_as(mask, v, (lane) & 31, __LINE__)
#define __shfl_xor_sync(mask, v, bits) kv_cpu::shuffle_as(mask, v, (kv_cpu::linear & 31) ^ (bits), __LINE__)
#define __ballot_sync(mask, p) kv_cpu::ballot(mask, p, __LINE__)
#define kv_mma(c, a, b0, b1) kv_cpu::mma(c, a, b0, b1, __LINE__)

inline float kv_h2f(kv_half h) { return kv_cpu::half_to_float(h); }
inline kv_half kv_f2h(float f) { return kv_cpu::float_to_half(f); }
template <class T>
T atomicAdd(T* p, T v) { T old = *p; *p = old + v; return old; }
inline float __int_as_float(int i) { float f; std::memcpy(&f, &i, 4); return f; }
inline unsigned __float_as_uint(float f) { unsigned u; std::memcpy(&u, &f, 4); return u; }
inline int __popc(unsigned u) { return __builtin_popcount(u); }
inline int __float2int_rn(float f) { return (int)std::nearbyint(f); }
inline float __expf(float f) { return std::exp(f); }
inline void __nanosleep(unsigned) {}
