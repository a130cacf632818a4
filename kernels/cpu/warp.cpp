// Warp operations: each lane lays out what it brings, waits for the lanes its mask names, and takes what it needs.
#include "state.hpp"

namespace kv_cpu {
static int lane() { return linear & 31; }

uint64_t shuffle(unsigned mask, uint64_t value, int source, int line) {
  Board& board = next_board();
  board.bits[lane()] = value;
  sync_warp(mask, line);
  if (!(mask >> source & 1)) fault("a shuffle reads a lane outside its mask");
  return board.bits[source];
}

unsigned ballot(unsigned mask, bool vote, int line) {
  Board& board = next_board();
  board.bits[lane()] = vote;
  sync_warp(mask, line);
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) votes |= (unsigned)board.bits[i] << i;
  return votes;
}

static void put(float* at, unsigned word) {
  at[0] = half_to_float((kv_half)(word & 0xffff));
  at[1] = half_to_float((kv_half)(word >> 16));
}

// Sixteen products and their sum, four side by side.
static float dot(const float* x, const float* y) {
  typedef float Four __attribute__((vector_size(16), may_alias));
  Four sum = {};
  for (int i = 0; i < 16; i += 4) sum += *(const Four*)(x + i) * *(const Four*)(y + i);
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// The fragments of mma.m16n8k16 for binary16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"):
// with g = lane / 4 and t = lane % 4, element i of a lies at row g (i in 0, 1, 4, 5) or g + 8, column 2 t + i % 2, + 8
// from i = 4 on; element i of b at row 2 t + i % 2, + 8 from i = 2 on, column g; element i of c at row g, + 8 from i = 2
// on, column 2 t + i % 2.
void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int line) {
  Board& board = next_board();
  const int g = lane() / 4, t = lane() % 4;
  for (int i = 0; i < 4; ++i) put(&board.a[g + i % 2 * 8][2 * t + i / 2 * 8], a[i]);
  put(&board.b[g][2 * t], b0);
  put(&board.b[g][2 * t + 8], b1);
  sync_warp(0xffffffffu, line);
  for (int i = 0; i < 4; ++i) c[i] += dot(board.a[g + i / 2 * 8], board.b[2 * t + i % 2]);
}

static float widen(unsigned h) {
  const float sign = h >> 15 ? -1.f : 1.f;
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  if (exponent == 31) return fraction ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024.f + fraction, exponent - 25) : std::ldexp((float)fraction, -24));
}

struct Wide {
  float of[65536];
  Wide() { for (unsigned h = 0; h < 65536; ++h) of[h] = widen(h); }
};

static const Wide wide;

float half_to_float(kv_half h) { return wide.of[h]; }

// To nearest, ties to even: the scaled magnitude is rounded by the FPU's own mode.
kv_half float_to_half(float f) {
  const unsigned sign = std::signbit(f) ? 0x8000u : 0u;
  const float size = std::fabs(f);
  if (!(size <= INFINITY)) return (kv_half)(sign | 0x7fff);
  if (size >= 65520.f) return (kv_half)(sign | 0x7c00);
  if (size < 6.103515625e-5f) return (kv_half)(sign | (unsigned)std::nearbyint(std::ldexp(size, 24)));
  int exponent;
  const float fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const unsigned digits = (unsigned)std::nearbyint(std::ldexp(fraction, 11));  // 1024 to 2048, the leading 1 included
  return (kv_half)(sign | (((unsigned)(exponent + 13) << 10) + digits));
}
}  // namespace kv_cpu
