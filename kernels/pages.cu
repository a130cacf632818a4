// Whole pages, moved between a scattered list and a dense run, for one layer or several (grid.y = layers).
//
// Any of the pointers may be mapped host memory: then the kernel itself crosses the link (zero copy). A page is `words`
// words of 16 bytes; `*_layer` is the distance of two layers in words. grid.x pages at a time, any block size.
#include "common.cuh"

// dst[i] = src[index[i]]
extern "C" __global__ void kv_gather_pages(const uint4* __restrict__ src, size_t src_layer, uint4* __restrict__ dst,
                                           size_t dst_layer, const int* __restrict__ index, int n, int words) {
  for (int i = blockIdx.x; i < n; i += gridDim.x) {
    const uint4* from = src + blockIdx.y * src_layer + (size_t)index[i] * words;
    uint4* to = dst + blockIdx.y * dst_layer + (size_t)i * words;
#pragma unroll 4
    for (int w = threadIdx.x; w < words; w += blockDim.x) to[w] = from[w];
  }
}

// dst[index[i]] = src[i]; an index that occurs twice leaves either page.
extern "C" __global__ void kv_scatter_pages(const uint4* __restrict__ src, size_t src_layer, uint4* __restrict__ dst,
                                            size_t dst_layer, const int* __restrict__ index, int n, int words) {
  for (int i = blockIdx.x; i < n; i += gridDim.x) {
    const uint4* from = src + blockIdx.y * src_layer + (size_t)i * words;
    uint4* to = dst + blockIdx.y * dst_layer + (size_t)index[i] * words;
#pragma unroll 4
    for (int w = threadIdx.x; w < words; w += blockDim.x) to[w] = from[w];
  }
}

KV_ENTRY(kv_gather_pages)
KV_ENTRY(kv_scatter_pages)
