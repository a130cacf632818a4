// Re-tier: the `keep` best-scored candidates of each sequence, ties to the lower position.
//
// One block a sequence (whole warps). Candidates are positions first .. first + count. Radix selection: four passes of
// 256 bins over the scores' bits (mapped so that unsigned order is numeric order, -0 as +0) find the score of the last
// place and how many of that score still fit; one pass then writes the places in order of position. Integer counts only,
// so the result does not depend on the order of threads. Rival: a sort, which moves every score log^2 n times.
// A destroyed position has a score of minus infinity; a NaN ranks above all.
#include "common.cuh"

#define KV_BINS 256

__device__ __forceinline__ unsigned kv_rank_bits(float score) {
  const unsigned bits = __float_as_uint(score + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The digit in which the wanted place lies, from the highest bin down; `left` becomes its place among that digit.
__device__ __forceinline__ unsigned kv_digit_of_place(const unsigned* bins, unsigned* left) {
  unsigned above = 0, digit = KV_BINS - 1;
  while (digit > 0 && above + bins[digit] < *left) above += bins[digit--];
  *left -= above;
  return digit;
}

extern "C" __global__ void kv_select_top(const float* __restrict__ score, const int* __restrict__ first,
                                         const int* __restrict__ count, const int* __restrict__ keep, int stride,
                                         unsigned char* __restrict__ tier, int* __restrict__ chosen) {
  __shared__ unsigned bins[KV_BINS], warp_counts[32], found, places;
  const int seq = blockIdx.x, n = count[seq], from = first[seq], lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const size_t base = (size_t)seq * stride;
  unsigned left = keep[seq] < n ? keep[seq] : n, prefix = 0;
  const bool none = left == 0;

  for (int shift = 24; shift >= 0 && !none; shift -= 8) {
    for (int i = threadIdx.x; i < KV_BINS; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    const unsigned known = shift == 24 ? 0 : 0xffffffffu << (shift + 8);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
      const unsigned bits = kv_rank_bits(score[base + from + i]);
      if ((bits & known) == prefix) atomicAdd(&bins[bits >> shift & 255u], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      found = kv_digit_of_place(bins, &left);
      places = left;
    }
    __syncthreads();
    prefix |= found << shift;
    left = places;
  }

  unsigned above = 0, ties = 0;  // of the candidates before this round's
  for (int round = 0; round < n; round += blockDim.x) {
    const int i = round + threadIdx.x;
    const unsigned bits = i < n && !none ? kv_rank_bits(score[base + from + i]) : 0;
    const bool over = i < n && !none && bits > prefix, tie = i < n && !none && bits == prefix;
    const unsigned overs = __ballot_sync(KV_WHOLE_WARP, over), tied = __ballot_sync(KV_WHOLE_WARP, tie);
    if (lane == 0) warp_counts[warp] = __popc(overs) | __popc(tied) << 16;
    __syncthreads();
    unsigned before = above, tied_before = ties;
    for (int w = 0; w < (int)blockDim.x / 32; ++w) {
      const unsigned counts = warp_counts[w];
      if (w < warp) before += counts & 0xffffu, tied_before += counts >> 16;
      above += counts & 0xffffu;
      ties += counts >> 16;
    }
    const unsigned lower = (1u << lane) - 1u;
    before += __popc(overs & lower);
    tied_before += __popc(tied & lower);
    const bool take = over || (tie && tied_before < left);
    if (i < n) tier[base + from + i] = take ? 0 : 1;
    if (take) chosen[base + before + (tied_before < left ? tied_before : left)] = from + i;
    __syncthreads();
  }
}

KV_ENTRY(kv_select_top)
