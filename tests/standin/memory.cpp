// Memory of the stand-in device: pages of this process. A device allocation ends (to 16 bytes) at a page that nobody may
// touch, so that an overrun is a crash; new memory holds NaN.
#include <sys/mman.h>
#include <cstring>
#include <map>
#include <set>

#include "world.hpp"

namespace standin {
static constexpr size_t PAGE = 4096, POISONED = 1 << 20;
static std::map<Pointer, size_t> device;
static std::map<uintptr_t, size_t> pinned;
static std::set<uintptr_t> registered;  // those of pinned that are the program's own
static size_t device_used, pinned_used;

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

static char* map_pages(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (char*)p;
}

// From the start of an allocation's pages to the allocation.
static size_t offset_of(size_t bytes) { return whole_pages(bytes) - (bytes + 15) / 16 * 16; }

int allocate_device(Pointer* p, size_t bytes) {
  if (!bytes) return INVALID_VALUE;
  if (device_used + bytes > truth().memory) return OUT_OF_MEMORY;
  char* base = map_pages(whole_pages(bytes) + PAGE);
  if (!base) return OUT_OF_MEMORY;
  mprotect(base + whole_pages(bytes), PAGE, PROT_NONE);
  *p = (Pointer)(base + offset_of(bytes));
  if (bytes <= POISONED) std::memset((void*)*p, 0xff, bytes);
  device[*p] = bytes;
  device_used += bytes;
  return OK;
}

int free_device(Pointer p) {
  const auto found = device.find(p);
  if (found == device.end()) return INVALID_VALUE;
  const size_t bytes = found->second;
  munmap((char*)p - offset_of(bytes), whole_pages(bytes) + PAGE);
  device_used -= bytes;
  device.erase(found);
  return OK;
}

int allocate_pinned(void** p, size_t bytes) {
  if (!bytes) return INVALID_VALUE;
  if (pinned_used + bytes > truth().pinned) return OUT_OF_MEMORY;
  char* base = map_pages(whole_pages(bytes));
  if (!base) return OUT_OF_MEMORY;
  if (bytes <= POISONED) std::memset(base, 0xff, bytes);
  pinned[(uintptr_t)base] = bytes;
  pinned_used += bytes;
  *p = base;
  return OK;
}

int free_pinned(void* p) {
  const auto found = pinned.find((uintptr_t)p);
  if (found == pinned.end() || registered.count((uintptr_t)p)) return INVALID_VALUE;
  munmap(p, whole_pages(found->second));
  pinned_used -= found->second;
  pinned.erase(found);
  return OK;
}

int register_pinned(void* p, size_t bytes) {
  if (!p || !bytes || pinned.count((uintptr_t)p)) return INVALID_VALUE;
  if (pinned_used + bytes > truth().pinned) return OUT_OF_MEMORY;
  pinned[(uintptr_t)p] = bytes;
  registered.insert((uintptr_t)p);
  pinned_used += bytes;
  return OK;
}

int unregister_pinned(void* p) {
  if (!registered.erase((uintptr_t)p)) return INVALID_VALUE;
  const auto found = pinned.find((uintptr_t)p);
  pinned_used -= found->second;
  pinned.erase(found);
  return OK;
}

template <class K>
static bool within(const std::map<K, size_t>& blocks, K p, size_t bytes) {
  auto after = blocks.upper_bound(p);
  if (after == blocks.begin()) return false;
  --after;
  return p + bytes <= after->first + after->second;
}

bool on_device(Pointer p, size_t bytes) { return within(device, p, bytes); }
bool is_pinned(const void* p, size_t bytes) { return within(pinned, (uintptr_t)p, bytes); }
size_t device_bytes_used() { return device_used; }
}  // namespace standin
