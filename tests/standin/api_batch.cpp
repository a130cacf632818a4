// The driver API: many copies in one call (CUDA 12.8). A build without this file is a driver that does not know it.
//
// Each copy has its own cost; below the cliff (28 KiB on the cards that were measured) the bytes move at a lower rate.
#include "copies.hpp"

using namespace standin;

static double batch_time(const std::vector<size_t>& sizes, Engine engine) {
  double time = 0;
  for (size_t bytes : sizes) {
    const double full = link_rate(engine, true);
    const bool small = (double)bytes < truth().batch_cliff && truth().batch_small < full;
    time += truth().batch_copy_us + us((double)bytes, small ? truth().batch_small : full);
  }
  return time;
}

static bool one_direction(const Pointer* to, const Pointer* from, const size_t* sizes, size_t count, Engine engine) {
  for (size_t i = 0; i < count; ++i) {
    const Pointer device = engine == Engine::UP ? to[i] : from[i], host = engine == Engine::UP ? from[i] : to[i];
    if (!on_device(device, sizes[i]) || !is_pinned((void*)host, sizes[i])) return false;
  }
  return true;
}

API cuMemcpyBatchAsync(Pointer* to, Pointer* from, size_t* sizes, size_t count, void* attributes, size_t* starts,
                       size_t kinds, size_t* failed, void* handle) {
  ENTER;
  if (failed) *failed = (size_t)-1;
  if ((uintptr_t)handle <= 2 || !count || !attributes || !starts || !kinds) return INVALID_VALUE;
  const Engine engine = is_pinned((void*)from[0], 1) ? Engine::UP : Engine::DOWN;
  if (!one_direction(to, from, sizes, count, engine)) return INVALID_VALUE;
  const std::vector<Pointer> tos(to, to + count), froms(from, from + count);
  const std::vector<size_t> bytes(sizes, sizes + count);
  Task task;
  task.engine = engine;
  task.work = [=] { return link_work(engine, truth().batch_us, batch_time(bytes, engine)); };
  task.effect = [=] {
    for (size_t i = 0; i < bytes.size(); ++i) copy_bytes((void*)tos[i], (void*)froms[i], bytes[i]);
  };
  return issue(stream_of(handle), std::move(task));
}
