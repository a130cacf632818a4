// Decode attention over two lists of pages (resident, prefetched), split over the context: partial results with their
// log-sum-exp, and the logits for the score kernel.
//
// grid = (splits, kv_heads * head tiles, sequences), block = 128 threads, head tiles = (group + 7) / 8. A block takes a
// run of 16-token tiles of one sequence and KV head; its 4 warps take them in turn, each with its own running maximum and
// sum, and join them at the end. The q heads of a group share every K and V read (8 at most; a larger group reads again).
//
// Why tensor cores for a job bound by memory: 8 heads x 2 x head_dim multiply-adds a token, and the sums across lanes that
// a plain loop needs, cost more issue slots than the loads. With q as the 16 x 16 operand (8 rows of zeros) the product
// q K^T comes out in exactly the lanes in which P is wanted as an operand of V^T P, so nothing passes through shared
// memory, and every K and V element goes from a 16-byte load straight into an operand. The order of head_dim inside the
// dot product is free as long as q and K agree; so is the order of tokens inside V^T P.
//
// P is rounded to binary16 (2^-11 relative) as in other flash kernels; sums are binary32. Rows past the end of a list
// are not read: an arena may hold anything there, NaN included.
#include "common.cuh"

#define KV_WARPS 4
#define KV_HEADS 8
#define KV_LOG2E 1.4426950408889634f
#define KV_LN2 0.6931471805599453f

// Where the tiles of a sequence lie.
struct kv_list {
  const uint4* arena;  // this layer's pages
  const int* pages;    // [sequence][stride]
  const int* tokens;   // [sequence]
  int stride;
};

// The K and V words of one tile of one head in registers, as operands; rows past `left` are zero.
template <int D>
struct kv_tile {
  uint4 k[2][D / 32];  // token 8 o + lane / 4, numbers 32 c + 8 (lane % 4)
  uint4 v[4][D / 64];  // token 2 (lane % 4) + i % 2 + 8 (i / 2), numbers 64 c + 8 (lane / 4)

  __device__ __forceinline__ void load(const uint4* keys, const uint4* values, int left, int g, int t) {
    const uint4 zero = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int o = 0; o < 2; ++o)
#pragma unroll
      for (int c = 0; c < D / 32; ++c) k[o][c] = 8 * o + g < left ? keys[(8 * o + g) * (D / 8) + 4 * c + t] : zero;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int c = 0; c < D / 64; ++c) {
        const int token = 2 * t + (i & 1) + 8 * (i >> 1);
        v[i][c] = token < left ? values[token * (D / 8) + 8 * c + g] : zero;
      }
  }
};

// One warp's state: head lane / 4 for the maximum and the sum; heads 2 (lane % 4) and + 1 for the output.
template <int D>
struct kv_state {
  float most, sum;
  float out[D / 16][4];

  __device__ __forceinline__ void clear() {
    most = kv_minus_infinity();
    sum = 0.f;
#pragma unroll
    for (int r = 0; r < D / 16; ++r) out[r][0] = out[r][1] = out[r][2] = out[r][3] = 0.f;
  }

  // Takes a larger maximum: what was summed so far shrinks.
  __device__ __forceinline__ void raise(float tile_most, int t) {
    const float higher = fmaxf(most, tile_most), shrink = exp2f(most - higher);
    most = higher;
    sum *= shrink;
    const float first = __shfl_sync(KV_WHOLE_WARP, shrink, 8 * t);
    const float second = __shfl_sync(KV_WHOLE_WARP, shrink, 8 * t + 4);
#pragma unroll
    for (int r = 0; r < D / 16; ++r) out[r][0] *= first, out[r][1] *= second, out[r][2] *= first, out[r][3] *= second;
  }

  __device__ __forceinline__ void add_values(const kv_tile<D>& tile, unsigned p0, unsigned p1) {
#pragma unroll
    for (int c = 0; c < D / 64; ++c)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        unsigned w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          w[i] = r == 0 ? tile.v[i][c].x : r == 1 ? tile.v[i][c].y : r == 2 ? tile.v[i][c].z : tile.v[i][c].w;
        const unsigned a[4] = {kv_low_halves(w[0], w[1]), kv_high_halves(w[0], w[1]), kv_low_halves(w[2], w[3]),
                               kv_high_halves(w[2], w[3])};
        kv_mma(out[4 * c + r], a, p0, p1);
      }
  }
};

// Logits of head lane / 4 for tokens 2 (lane % 4), + 1, + 8, + 9 of a tile; minus infinity past `left`.
template <int D>
__device__ __forceinline__ void kv_logits(const kv_tile<D>& tile, const uint4 (&q)[D / 32], float scale, int left, int t,
                                          float (&s)[4]) {
#pragma unroll
  for (int o = 0; o < 2; ++o) {
    float c[4] = {};
#pragma unroll
    for (int i = 0; i < D / 32; ++i) {
      const unsigned first[4] = {q[i].x, 0, q[i].y, 0}, second[4] = {q[i].z, 0, q[i].w, 0};
      kv_mma(c, first, tile.k[o][i].x, tile.k[o][i].y);
      kv_mma(c, second, tile.k[o][i].z, tile.k[o][i].w);
    }
    s[2 * o] = 8 * o + 2 * t < left ? c[0] * scale : kv_minus_infinity();
    s[2 * o + 1] = 8 * o + 2 * t + 1 < left ? c[1] * scale : kv_minus_infinity();
  }
}

// Adds one tile. `logits` is null or the row of this lane's head at the tile's first token.
template <int D>
__device__ __forceinline__ void kv_add_tile(kv_state<D>& state, const kv_tile<D>& tile, const uint4 (&q)[D / 32],
                                            float scale, int left, int t, float* logits) {
  float s[4];
  kv_logits<D>(tile, q, scale, left, t, s);
  if (logits) {
    *(float2*)(logits + 2 * t) = make_float2(s[0], s[1]);
    *(float2*)(logits + 2 * t + 8) = make_float2(s[2], s[3]);
  }
  float most = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3])) * KV_LOG2E;
  state.raise(kv_group_max(most, 4), t);
  float p[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) p[i] = exp2f(s[i] * KV_LOG2E - state.most), state.sum += p[i];
  state.add_values(tile, kv_pack(p[0], p[1]), kv_pack(p[2], p[3]));
}

// What the warps leave for each other.
template <int D>
struct kv_joint {
  float most[KV_WARPS][KV_HEADS], sum[KV_WARPS][KV_HEADS], out[KV_WARPS][KV_HEADS][D];
};

template <int D>
__device__ __forceinline__ void kv_leave(const kv_state<D>& state, kv_joint<D>& joint, int warp, int g, int t) {
  float sum = state.sum;
  sum += __shfl_xor_sync(KV_WHOLE_WARP, sum, 1);
  sum += __shfl_xor_sync(KV_WHOLE_WARP, sum, 2);
  if (t == 0) joint.most[warp][g] = state.most, joint.sum[warp][g] = sum;
#pragma unroll
  for (int r = 0; r < D / 16; ++r) {
    const int at = 64 * (r / 4) + 8 * g + 2 * (r % 4);
    joint.out[warp][2 * t][at] = state.out[r][0], joint.out[warp][2 * t + 1][at] = state.out[r][1];
    joint.out[warp][2 * t][at + 1] = state.out[r][2], joint.out[warp][2 * t + 1][at + 1] = state.out[r][3];
  }
}

// Joins the warps and writes partial `part` of the first `heads` heads from `row` on.
template <int D>
__device__ __forceinline__ void kv_join(const kv_joint<D>& joint, int heads, size_t row, int parts, int part,
                                        float* part_out, float* part_lse) {
  for (int i = threadIdx.x; i < heads * D; i += blockDim.x) {
    const int head = i / D, at = i % D;
    float most = kv_minus_infinity(), sum = 0.f, out = 0.f;
    for (int w = 0; w < KV_WARPS; ++w) most = fmaxf(most, joint.most[w][head]);
    if (most > kv_minus_infinity())
      for (int w = 0; w < KV_WARPS; ++w) {
        const float share = exp2f(joint.most[w][head] - most);
        sum += share * joint.sum[w][head];
        out += share * joint.out[w][head][at];
      }
    const size_t to = (row + head) * parts + part;
    part_out[to * D + at] = sum > 0.f ? out / sum : 0.f;
    if (at == 0) part_lse[to] = sum > 0.f ? most * KV_LN2 + logf(sum) : kv_minus_infinity();
  }
}

template <int D>
__device__ __forceinline__ void kv_attend(const kv_half* q, kv_list res, kv_list pre, int group, int page_tokens,
                                          int parts, float scale, float* part_out, float* part_lse, float* logits,
                                          int logit_stride, kv_joint<D>& joint) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, g = lane >> 2, t = lane & 3;
  const int head_tiles = (group + KV_HEADS - 1) / KV_HEADS, kv_heads = gridDim.y / head_tiles;
  const int kv_head = blockIdx.y / head_tiles, skipped = blockIdx.y % head_tiles * KV_HEADS;
  const int heads = group - skipped < KV_HEADS ? group - skipped : KV_HEADS, seq = blockIdx.z;
  const size_t row = ((size_t)seq * kv_heads + kv_head) * group + skipped;  // the first q head of this block

  uint4 mine[D / 32];
#pragma unroll
  for (int c = 0; c < D / 32; ++c)
    mine[c] = g < heads ? ((const uint4*)(q + (row + g) * D))[4 * c + t] : make_uint4(0, 0, 0, 0);

  const int res_tiles = (res.tokens[seq] + 15) / 16, tiles = res_tiles + (pre.tokens[seq] + 15) / 16;
  const int run = (tiles + gridDim.x - 1) / gridDim.x, from = blockIdx.x * run;
  const int to = from + run < tiles ? from + run : tiles;
  kv_state<D> state;
  state.clear();
  for (int i = from + warp; i < to; i += KV_WARPS) {
    const bool ahead = i >= res_tiles;
    const kv_list& list = ahead ? pre : res;
    const int slot = (ahead ? i - res_tiles : i) * 16, left = list.tokens[seq] - slot;
    const int page = list.pages[(size_t)seq * list.stride + slot / page_tokens];
    const uint4* keys = list.arena + (((size_t)page * 2 * kv_heads + kv_head) * page_tokens + slot % page_tokens) * (D / 8);
    kv_tile<D> tile;
    tile.load(keys, keys + (size_t)kv_heads * page_tokens * (D / 8), left, g, t);
    kv_add_tile<D>(state, tile, mine, scale, left, t,
                   logits && g < heads ? logits + (row + g) * logit_stride + (size_t)i * 16 : nullptr);
  }
  kv_leave<D>(state, joint, warp, g, t);
  __syncthreads();
  kv_join<D>(joint, heads, row, parts, blockIdx.x, part_out, part_lse);
}

#define KV_ATTEND(D)                                                                                                  \
  extern "C" __global__ void __launch_bounds__(128) kv_attend_##D(                                                    \
      const kv_half* __restrict__ q, const uint4* __restrict__ res, const int* __restrict__ res_pages,                \
      const int* __restrict__ res_tokens, int res_stride, const uint4* __restrict__ pre,                              \
      const int* __restrict__ pre_pages, const int* __restrict__ pre_tokens, int pre_stride, int group,               \
      int page_tokens, int parts, float scale, float* __restrict__ part_out, float* __restrict__ part_lse,            \
      float* __restrict__ logits, int logit_stride) {                                                                 \
    __shared__ kv_joint<D> joint;                                                                                     \
    kv_attend<D>(q, kv_list{res, res_pages, res_tokens, res_stride}, kv_list{pre, pre_pages, pre_tokens, pre_stride}, \
                 group, page_tokens, parts, scale, part_out, part_lse, logits, logit_stride, joint);                  \
  }

KV_ATTEND(64)
KV_ATTEND(128)

KV_ENTRY(kv_attend_64)
KV_ENTRY(kv_attend_128)
