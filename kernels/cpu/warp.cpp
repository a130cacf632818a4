// Warp operations: each lane lays out what it brings, waits for the lanes its mask names, and takes what it needs.
#include "state.hpp"

namespace kv_cpu {
static int lane() { return linear & 31; }

uint64_t shuffle(unsigned mask, uint64_t value, int source, int line) {
  Slot* slots = next_slots();
  slots[lane()].bits = value;
  sync_warp(mask, line);
  if (!(mask >> source & 1)) fault("a shuffle reads a lane outside its mask");
  return slots[source].bits;
}

unsigned ballot(unsigned mask, bool vote, int line) {
  Slot* slots = next_slots();
  slots[lane()].bits = vote;
  sync_warp(mask, line);
  unsigned votes = 0;
  for (int i = 0; i < 32; ++i)
    if (mask >> i & 1) votes |= (unsigned)slots[i].bits << i;
  return votes;
}

static void halves(unsigned word, float* out) {
  out[0] = half_to_float((kv_half)(word & 0xffff));
  out[1] = half_to_float((kv_half)(word >> 16));
}

// The fragments of mma.m16n8k16 for binary16 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"):
// with g = lane / 4 and t = lane % 4, element i of a lies at row g (i in 0, 1, 4, 5) or g + 8, column 2 t + i % 2, + 8
// from i = 4 on; element i of b at row 2 t + i % 2, + 8 from i = 2 on, column g; element i of c at row g, + 8 from i = 2
// on, column 2 t + i % 2.
static float a_at(const Slot* slots, int row, int k) {
  return slots[row % 8 * 4 + k % 8 / 2].a[k % 2 + row / 8 * 2 + k / 8 * 4];
}
static float b_at(const Slot* slots, int k, int column) { return slots[column * 4 + k % 8 / 2].b[k % 2 + k / 8 * 2]; }

void mma(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, int line) {
  Slot* slots = next_slots();
  Slot& mine = slots[lane()];
  for (int i = 0; i < 4; ++i) halves(a[i], mine.a + 2 * i);
  halves(b0, mine.b);
  halves(b1, mine.b + 2);
  sync_warp(0xffffffffu, line);
  const int g = lane() / 4, t = lane() % 4;
  for (int i = 0; i < 4; ++i) {
    const int row = g + i / 2 * 8, column = 2 * t + i % 2;
    float sum = c[i];
    for (int k = 0; k < 16; ++k) sum += a_at(slots, row, k) * b_at(slots, k, column);
    c[i] = sum;
  }
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

float half_to_float(kv_half h) {
  static const Wide wide;
  return wide.of[h];
}

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
