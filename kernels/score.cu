// Attention mass of every token, mean over the q heads, added to its position's score.
//
// Exact weights need the log-sum-exp over all splits, which no split has; so a second kernel reads the logits that the
// attention kernel stored. The rival, computing q K^T again, reads K a second time: half of the attention's bytes again
// (2 head_dim bytes a KV head and token) against 8 bytes a q head and token here, written and read; at head_dim 128 and
// 8 q heads a KV head that is 256 against 64. Neither atomics nor an order of blocks: a slot has one thread, so results
// repeat to the bit.
//
// Logits: [sequence][q head][logit_stride]; a row holds the resident tokens, then from the next multiple of 16 on the
// prefetched ones. `weight` is 1 / (q heads * layers) for a mean over both. grid = (any, sequences), any block size.
#include "common.cuh"

extern "C" __global__ void kv_score(const float* __restrict__ logits, int logit_stride, const float* __restrict__ lse,
                                    int heads, float weight, const int* __restrict__ res_positions,
                                    const int* __restrict__ res_tokens, int res_stride,
                                    const int* __restrict__ pre_positions, const int* __restrict__ pre_tokens,
                                    int pre_stride, float* __restrict__ score, int score_stride) {
  const int seq = blockIdx.y, res = res_tokens[seq], pre = pre_tokens[seq], padded = (res + 15) / 16 * 16;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < padded + pre; i += gridDim.x * blockDim.x) {
    if (i >= res && i < padded) continue;
    float mass = 0.f;
    for (int h = 0; h < heads; ++h) {
      const size_t row = (size_t)seq * heads + h;
      mass += __expf(logits[row * logit_stride + i] - lse[row]);
    }
    const int position = i < res ? res_positions[(size_t)seq * res_stride + i]
                                 : pre_positions[(size_t)seq * pre_stride + i - padded];
    score[(size_t)seq * score_stride + position] += mass * weight;
  }
}

KV_ENTRY(kv_score)
