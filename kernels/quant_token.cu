// Symmetric int8 with one binary32 scale a row (one token of one head): values, and keys where that is good enough.
//
// Rows of `cols` numbers (a multiple of 8). Row r of the binary16 side begins at (r / run) * skip + (r % run) * cols, so
// that the V half of pages is done in place of a copy: run = kv_heads * page_tokens, skip = numbers in a page. The int8
// side is dense. scale = largest magnitude / 127; a row of zeros has scale 0. Input must be finite.
#include "common.cuh"

__device__ __forceinline__ size_t kv_row_start(int row, int run, size_t skip, int cols) {
  return (size_t)(row / run) * skip + (size_t)(row % run) * cols;
}

__device__ __forceinline__ float kv_pair_max(unsigned pair) {
  return fmaxf(fabsf(kv_h2f((kv_half)(pair & 0xffffu))), fabsf(kv_h2f((kv_half)(pair >> 16))));
}

// Nearest even, kept within -127..127; the low byte of the result.
__device__ __forceinline__ unsigned kv_to_i8(kv_half h, float inverse) {
  return (unsigned)__float2int_rn(fminf(fmaxf(kv_h2f(h) * inverse, -127.f), 127.f)) & 0xffu;
}

__device__ __forceinline__ unsigned kv_four_i8(unsigned a, unsigned b, float inverse) {
  return kv_to_i8((kv_half)(a & 0xffffu), inverse) | kv_to_i8((kv_half)(a >> 16), inverse) << 8 |
         kv_to_i8((kv_half)(b & 0xffffu), inverse) << 16 | kv_to_i8((kv_half)(b >> 16), inverse) << 24;
}

// `lanes` neighbouring lanes (a power of two, at most 32) share a row, 8 numbers each at a time. Block: whole warps.
extern "C" __global__ void kv_quant_token(const kv_half* __restrict__ x, int run, size_t skip, int rows, int cols,
                                          int lanes, signed char* __restrict__ q, float* __restrict__ scale) {
  const int per_block = blockDim.x / lanes, mine = threadIdx.x / lanes, lane = threadIdx.x % lanes;
  for (int first = blockIdx.x * per_block; first < rows; first += gridDim.x * per_block) {
    const int row = first + mine;
    const uint4* in = (const uint4*)(x + kv_row_start(row < rows ? row : 0, run, skip, cols));
    float most = 0.f;
    if (row < rows)
      for (int w = lane; w < cols / 8; w += lanes) {
        const uint4 v = in[w];
        most = fmaxf(most, fmaxf(fmaxf(kv_pair_max(v.x), kv_pair_max(v.y)), fmaxf(kv_pair_max(v.z), kv_pair_max(v.w))));
      }
    most = kv_group_max(most, lanes);
    if (row >= rows) continue;
    const float step = most / 127.f, inverse = step > 0.f ? 1.f / step : 0.f;
    if (lane == 0) scale[row] = step;
    uint2* out = (uint2*)(q + (size_t)row * cols);
    for (int w = lane; w < cols / 8; w += lanes) {
      const uint4 v = in[w];
      out[w] = make_uint2(kv_four_i8(v.x, v.y, inverse), kv_four_i8(v.z, v.w, inverse));
    }
  }
}

__device__ __forceinline__ unsigned kv_two_halves(unsigned bytes, float step) {
  return kv_pack(step * (float)(signed char)(bytes & 0xffu), step * (float)(signed char)(bytes >> 8 & 0xffu));
}

// y = q * scale of its row; 8 numbers a thread at a time, any block size.
extern "C" __global__ void kv_dequant_token(const signed char* __restrict__ q, const float* __restrict__ scale,
                                            int rows, int cols, kv_half* __restrict__ y, int run, size_t skip) {
  const int words = cols / 8;
  for (int row = blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += gridDim.x * blockDim.y) {
    const uint2* in = (const uint2*)(q + (size_t)row * cols);
    uint4* out = (uint4*)(y + kv_row_start(row, run, skip, cols));
    const float step = scale[row];
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
      const uint2 v = in[w];
      out[w] = make_uint4(kv_two_halves(v.x, step), kv_two_halves(v.x >> 16, step), kv_two_halves(v.y, step),
                          kv_two_halves(v.y >> 16, step));
    }
  }
}

KV_ENTRY(kv_quant_token)
KV_ENTRY(kv_dequant_token)
