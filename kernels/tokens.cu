// Single tokens between pages (layer-major) and token-major records, and from slot to slot.
//
// A record holds one token: [layer][K, V][kv head][head_dim]; records lie `record_words` words of 16 bytes apart, so a
// record of all layers can be read or written one layer at a time (move the pointer by that layer's words). grid.x
// tokens at a time, grid.y = layers, any block size. Pointers may be mapped host memory.
#include "common.cuh"

// records[i] = the token in slot slots[i], its layers side by side.
extern "C" __global__ void kv_gather_tokens(const uint4* __restrict__ arena, size_t arena_layer,
                                            const int* __restrict__ slots, int n, uint4* __restrict__ records,
                                            size_t record_words, int kv_heads, int page_tokens, int row_words) {
  const int words = 2 * kv_heads * row_words;
  const uint4* layer = arena + blockIdx.y * arena_layer;
  for (int i = blockIdx.x; i < n; i += gridDim.x) {
    uint4* to = records + i * record_words + (size_t)blockIdx.y * words;
#pragma unroll 4
    for (int w = threadIdx.x; w < words; w += blockDim.x)
      to[w] = layer[kv_row_at(slots[i], w / row_words, kv_heads, page_tokens, row_words) + w % row_words];
  }
}

// The token in slot slots[i] = records[i]. With one layer and the step's new K and V as records this is the append.
extern "C" __global__ void kv_scatter_tokens(const uint4* __restrict__ records, size_t record_words,
                                             const int* __restrict__ slots, int n, uint4* __restrict__ arena,
                                             size_t arena_layer, int kv_heads, int page_tokens, int row_words) {
  const int words = 2 * kv_heads * row_words;
  uint4* layer = arena + blockIdx.y * arena_layer;
  for (int i = blockIdx.x; i < n; i += gridDim.x) {
    const uint4* from = records + i * record_words + (size_t)blockIdx.y * words;
#pragma unroll 4
    for (int w = threadIdx.x; w < words; w += blockDim.x)
      layer[kv_row_at(slots[i], w / row_words, kv_heads, page_tokens, row_words) + w % row_words] = from[w];
  }
}

// dst slot dst_slots[i] = src slot src_slots[i]. The two arenas may be one (compaction: tokens at the end fill holes) as
// long as no slot is both read and written: nothing orders the blocks. Hence no __restrict__ on the arenas.
extern "C" __global__ void kv_move_tokens(const uint4* src, size_t src_layer, const int* __restrict__ src_slots,
                                          uint4* dst, size_t dst_layer, const int* __restrict__ dst_slots, int n,
                                          int kv_heads, int page_tokens, int row_words) {
  const int words = 2 * kv_heads * row_words;
  const uint4* from = src + blockIdx.y * src_layer;
  uint4* to = dst + blockIdx.y * dst_layer;
  for (int i = blockIdx.x; i < n; i += gridDim.x)
    for (int w = threadIdx.x; w < words; w += blockDim.x) {
      const int row = w / row_words, at = w % row_words;
      to[kv_row_at(dst_slots[i], row, kv_heads, page_tokens, row_words) + at] =
          from[kv_row_at(src_slots[i], row, kv_heads, page_tokens, row_words) + at];
    }
}

KV_ENTRY(kv_gather_tokens)
KV_ENTRY(kv_scatter_tokens)
KV_ENTRY(kv_move_tokens)
