// Symmetric int8 with one binary32 scale a channel over a group of tokens: keys, whose outliers sit in few channels.
//
// A group is [tokens][cols] (the K of one head of one page). Group g of the binary16 side begins at
// (g / run) * skip + (g % run) * tokens * cols: run = kv_heads, skip = numbers in a page. The int8 side and the scales
// [group][cols] are dense. One block a group at a time; cols a multiple of 8, blockDim.x a multiple of cols / 8.
#include "common.cuh"

__device__ __forceinline__ size_t kv_group_start(int group, int run, size_t skip, int tokens, int cols) {
  return (size_t)(group / run) * skip + (size_t)(group % run) * tokens * cols;
}

__device__ __forceinline__ kv_half kv_half_of(const uint4& v, int i) {
  const unsigned word = i < 2 ? v.x : i < 4 ? v.y : i < 6 ? v.z : v.w;
  return (kv_half)(word >> (i & 1) * 16 & 0xffffu);
}

__device__ __forceinline__ unsigned kv_step_i8(const uint4& v, int i, const float* inverse) {
  const float x = kv_h2f(kv_half_of(v, i)) * inverse[i];
  return ((unsigned)__float2int_rn(fminf(fmaxf(x, -127.f), 127.f)) & 0xffu) << (i & 3) * 8;
}

// Dynamic shared memory: blockDim.x * 8 floats, the largest magnitudes that each thread saw in its 8 channels.
extern "C" __global__ void kv_quant_channel(const kv_half* __restrict__ x, int run, size_t skip, int groups, int tokens,
                                            int cols, signed char* __restrict__ q, float* __restrict__ scale) {
  float* seen = (float*)kv_shared;
  const int octets = cols / 8, octet = threadIdx.x % octets, lane = threadIdx.x / octets, lanes = blockDim.x / octets;
  for (int group = blockIdx.x; group < groups; group += gridDim.x) {
    const uint4* in = (const uint4*)(x + kv_group_start(group, run, skip, tokens, cols));
    float most[8] = {};
    for (int t = lane; t < tokens; t += lanes) {
      const uint4 v = in[(size_t)t * octets + octet];
#pragma unroll
      for (int i = 0; i < 8; ++i) most[i] = fmaxf(most[i], fabsf(kv_h2f(kv_half_of(v, i))));
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) seen[threadIdx.x * 8 + i] = most[i];
    __syncthreads();
    for (int other = 0; other < lanes; ++other)
#pragma unroll
      for (int i = 0; i < 8; ++i) most[i] = fmaxf(most[i], seen[(other * octets + octet) * 8 + i]);
    float inverse[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float step = most[i] / 127.f;
      inverse[i] = step > 0.f ? 1.f / step : 0.f;
      if (lane == 0) scale[(size_t)group * cols + octet * 8 + i] = step;
    }
    uint2* out = (uint2*)(q + (size_t)group * tokens * cols);
    for (int t = lane; t < tokens; t += lanes) {
      const uint4 v = in[(size_t)t * octets + octet];
      uint2 w = make_uint2(0, 0);
#pragma unroll
      for (int i = 0; i < 4; ++i) w.x |= kv_step_i8(v, i, inverse), w.y |= kv_step_i8(v, i + 4, inverse);
      out[(size_t)t * octets + octet] = w;
    }
    __syncthreads();
  }
}

// y = q * scale of its channel. One block a group at a time, blockDim.x a multiple of cols / 8.
extern "C" __global__ void kv_dequant_channel(const signed char* __restrict__ q, const float* __restrict__ scale,
                                              int groups, int tokens, int cols, kv_half* __restrict__ y, int run,
                                              size_t skip) {
  const int octets = cols / 8, octet = threadIdx.x % octets, lane = threadIdx.x / octets, lanes = blockDim.x / octets;
  for (int group = blockIdx.x; group < groups; group += gridDim.x) {
    const uint2* in = (const uint2*)(q + (size_t)group * tokens * cols);
    uint4* out = (uint4*)(y + kv_group_start(group, run, skip, tokens, cols));
    const float* step = scale + (size_t)group * cols + octet * 8;
    for (int t = lane; t < tokens; t += lanes) {
      const uint2 v = in[(size_t)t * octets + octet];
      float f[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        f[i] = step[i] * (float)(signed char)(v.x >> i * 8 & 0xffu);
        f[i + 4] = step[i + 4] * (float)(signed char)(v.y >> i * 8 & 0xffu);
      }
      out[(size_t)t * octets + octet] =
          make_uint4(kv_pack(f[0], f[1]), kv_pack(f[2], f[3]), kv_pack(f[4], f[5]), kv_pack(f[6], f[7]));
    }
  }
}

KV_ENTRY(kv_quant_channel)
KV_ENTRY(kv_dequant_channel)
