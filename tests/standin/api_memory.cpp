// The driver API: memory of the device and pinned memory of the host.
#include "world.hpp"

using namespace standin;

API cuMemGetInfo_v2(size_t* free, size_t* total) {
  ENTER;
  const double others = setting("FAKECUDA_USED_GB", 0) * 1e9;
  *total = (size_t)truth().memory;
  *free = *total - device_bytes_used() - (size_t)others;
  return OK;
}

API cuMemAlloc_v2(Pointer* p, size_t bytes) {
  ENTER;
  return allocate_device(p, bytes);
}

API cuMemFree_v2(Pointer p) {
  ENTER;
  if (int code = wait_for_all()) return code;
  return free_device(p);
}

API cuMemAllocAsync(Pointer* p, size_t bytes, void*) {
  ENTER;
  return allocate_device(p, bytes);
}

API cuMemFreeAsync(Pointer p, void* stream) {
  ENTER;
  Task task;
  task.effect = [p] { free_device(p); };
  return issue(stream_of(stream), std::move(task));
}

API cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  ENTER;
  return allocate_pinned(p, bytes);
}

API cuMemFreeHost(void* p) {
  ENTER;
  if (int code = wait_for_all()) return code;
  return free_pinned(p);
}

API cuMemHostRegister_v2(void* p, size_t bytes, unsigned) {
  ENTER;
  return register_pinned(p, bytes);
}

API cuMemHostUnregister(void* p) {
  ENTER;
  if (int code = wait_for_all()) return code;
  return unregister_pinned(p);
}

// One address space: the device sees pinned memory where the host does.
API cuMemHostGetDevicePointer_v2(Pointer* on_device, void* p, unsigned) {
  ENTER;
  if (!is_pinned(p, 1)) return INVALID_VALUE;
  *on_device = (Pointer)p;
  return OK;
}
