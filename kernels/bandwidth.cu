// Plain streams through memory: what the other kernels are held against. Pointers may be mapped host memory.
#include "common.cuh"

// Reads `words` words of 16 bytes; their sum goes into *sink, so that no load can be dropped. Block: whole warps.
extern "C" __global__ void kv_read(const uint4* __restrict__ p, size_t words, unsigned* __restrict__ sink) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
  unsigned sum = 0;
#pragma unroll 8
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += step) {
    const uint4 v = p[i];
    sum += v.x + v.y + v.z + v.w;
  }
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(KV_WHOLE_WARP, sum, o);
  if ((threadIdx.x & 31) == 0) atomicAdd(sink, sum);
}

// dst = src, `words` words of 16 bytes, any block size.
extern "C" __global__ void kv_copy(const uint4* __restrict__ src, uint4* __restrict__ dst, size_t words) {
  const size_t step = (size_t)gridDim.x * blockDim.x;
#pragma unroll 8
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words; i += step) dst[i] = src[i];
}

KV_ENTRY(kv_read)
KV_ENTRY(kv_copy)
