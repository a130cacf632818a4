// Joins the partial results of one row (q head of a sequence): those of the splits, and any others laid beside them,
// such as what the host computed over the KV that stayed there.
//
// grid = (q heads, sequences), block = head_dim threads. A partial whose log-sum-exp is minus infinity counts nothing.
#include "common.cuh"

extern "C" __global__ void kv_merge(const float* __restrict__ part_out, const float* __restrict__ part_lse, int parts,
                                    float* __restrict__ out, float* __restrict__ lse) {
  const size_t row = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  const float* mine = part_lse + row * parts;
  float most = kv_minus_infinity();
  for (int p = 0; p < parts; ++p) most = fmaxf(most, mine[p]);
  float sum = 0.f, mean = 0.f;
  if (most > kv_minus_infinity())
    for (int p = 0; p < parts; ++p) {
      const float share = __expf(mine[p] - most);
      if (share > 0.f) {
        sum += share;
        mean += share * part_out[(row * parts + p) * blockDim.x + threadIdx.x];
      }
    }
  out[row * blockDim.x + threadIdx.x] = sum > 0.f ? mean / sum : 0.f;
  if (threadIdx.x == 0) lse[row] = sum > 0.f ? most + logf(sum) : kv_minus_infinity();
}

KV_ENTRY(kv_merge)
