// The driver API: copies and fills. From or to memory that is not pinned a copy is slow, and the call waits for it.
#include "copies.hpp"

using namespace standin;

static int copy_over_link(void* to, const void* from, size_t bytes, void* handle, Engine engine) {
  const void* host = engine == Engine::UP ? from : to;
  if (!on_device((Pointer)(engine == Engine::UP ? to : from), bytes)) return INVALID_VALUE;
  if (!bytes) return OK;
  Stream* stream = stream_of(handle);
  const bool pinned = is_pinned(host, bytes);
  Task task;
  task.engine = engine;
  task.work = [=] { return link_work(engine, truth().copy_us, us((double)bytes, link_rate(engine, pinned))); };
  task.effect = [=] { copy_bytes(to, from, bytes); };
  if (int code = issue(stream, std::move(task))) return code;
  return pinned ? OK : wait_for(stream, stream->issued);
}

static int copy_on_device(Pointer to, Pointer from, size_t bytes, void* handle) {
  if (!on_device(to, bytes) || !on_device(from, bytes)) return INVALID_VALUE;
  Task task;
  task.engine = Engine::CORE;
  task.sms = truth().sms;
  task.work = [=] { return Work{0, us(2.0 * (double)bytes, truth().hbm), 0, 0}; };
  task.effect = [=] { copy_bytes((void*)to, (void*)from, bytes); };
  return issue(stream_of(handle), std::move(task));
}

static int fill(Pointer to, unsigned value, size_t count, size_t width, void* handle) {
  if (!on_device(to, count * width)) return INVALID_VALUE;
  Task task;
  task.engine = Engine::CORE;
  task.sms = truth().sms;
  task.work = [=] { return Work{0, us((double)(count * width), truth().hbm), 0, 0}; };
  task.effect = [=] {
    for (size_t i = 0; i < count; ++i) std::memcpy((char*)to + i * width, &value, width);
  };
  return issue(stream_of(handle), std::move(task));
}

static int and_wait(int code) {
  Stream* stream = stream_of(nullptr);
  return code ? code : wait_for(stream, stream->issued);
}

API cuMemcpyHtoDAsync_v2(Pointer to, const void* from, size_t bytes, void* stream) {
  ENTER;
  return copy_over_link((void*)to, from, bytes, stream, Engine::UP);
}

API cuMemcpyDtoHAsync_v2(void* to, Pointer from, size_t bytes, void* stream) {
  ENTER;
  return copy_over_link(to, (const void*)from, bytes, stream, Engine::DOWN);
}

API cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, size_t bytes, void* stream) {
  ENTER;
  return copy_on_device(to, from, bytes, stream);
}

API cuMemcpyHtoD_v2(Pointer to, const void* from, size_t bytes) {
  ENTER;
  return and_wait(copy_over_link((void*)to, from, bytes, nullptr, Engine::UP));
}

API cuMemcpyDtoH_v2(void* to, Pointer from, size_t bytes) {
  ENTER;
  return and_wait(copy_over_link(to, (const void*)from, bytes, nullptr, Engine::DOWN));
}

API cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) {
  ENTER;
  return and_wait(copy_on_device(to, from, bytes, nullptr));
}

API cuMemsetD8Async(Pointer to, unsigned char value, size_t count, void* stream) {
  ENTER;
  return fill(to, value, count, 1, stream);
}

API cuMemsetD32Async(Pointer to, unsigned value, size_t count, void* stream) {
  ENTER;
  return fill(to, value, count, 4, stream);
}

API cuMemsetD8_v2(Pointer to, unsigned char value, size_t count) {
  ENTER;
  return and_wait(fill(to, value, count, 1, nullptr));
}
