// Copies as tasks: which engine, how long, and the bytes.
#pragma once
#include <cstring>

#include "world.hpp"

namespace standin {
// With FAKECUDA_SKIP_COMPUTE a larger copy takes its time and moves nothing; lists of pages and tokens stay right.
constexpr size_t COPIED_ANYWAY = 64 << 10;

inline void copy_bytes(void* to, const void* from, size_t bytes) {
  if (!truth().skip_compute || bytes <= COPIED_ANYWAY) std::memmove(to, from, bytes);
}

inline double us(double bytes, double gb_per_s) { return bytes / (gb_per_s * 1e3); }

inline double link_rate(Engine engine, bool pinned) {
  const double rate = engine == Engine::UP ? truth().h2d : truth().d2h;
  return pinned || rate < truth().pageable ? rate : truth().pageable;
}

inline Work link_work(Engine engine, double fixed, double time) {
  return engine == Engine::UP ? Work{fixed, 0, time, 0} : Work{fixed, 0, 0, time};
}
}  // namespace standin
