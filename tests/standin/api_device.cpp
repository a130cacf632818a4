// The driver API: starting, devices, contexts, error texts.
#include <cstdio>
#include <cstring>

#include "world.hpp"

using namespace standin;

static int device_count() { return (int)setting("FAKECUDA_DEVICES", 1); }

API cuInit(unsigned) {
  std::lock_guard<std::recursive_mutex> guard(one_at_a_time());
  if (int code = enter(__func__)) return code;
  if (device_count() < 1) return NO_DEVICE;
  initialised = true;
  return OK;
}

API cuDriverGetVersion(int* version) {
  ENTER;
  *version = (int)setting("FAKECUDA_VERSION", 13000);
  return OK;
}

API cuGetErrorString(int code, const char** text) {
  static thread_local char buffer[64];
  std::snprintf(buffer, sizeof buffer, "error %d of the stand-in driver", code);
  *text = buffer;
  return OK;
}

API cuGetErrorName(int code, const char** text) { return cuGetErrorString(code, text); }

API cuDeviceGetCount(int* count) {
  ENTER;
  *count = device_count();
  return OK;
}

API cuDeviceGet(int* device, int ordinal) {
  ENTER;
  if (ordinal < 0 || ordinal >= device_count()) return INVALID_DEVICE;
  *device = ordinal;
  return OK;
}

API cuDeviceGetName(char* name, int room, int) {
  ENTER;
  std::snprintf(name, room, "Stand-in device (not a GPU)");
  return OK;
}

API cuDeviceTotalMem_v2(size_t* bytes, int) {
  ENTER;
  *bytes = (size_t)truth().memory;
  return OK;
}

API cuDeviceGetPCIBusId(char* id, int room, int device) {
  ENTER;
  std::snprintf(id, room, "0000:%02X:00.0", device + 1);
  return OK;
}

static void uuid_of(unsigned char* uuid, int device) {
  std::memset(uuid, 0, 16);
  std::memcpy(uuid, "not a GPU", 9);
  uuid[15] = (unsigned char)device;
}

API cuDeviceGetUuid(unsigned char* uuid, int device) {
  ENTER;
  uuid_of(uuid, device);
  return OK;
}

API cuDeviceGetUuid_v2(unsigned char* uuid, int device) {
  ENTER;
  uuid_of(uuid, device);
  return OK;
}

// CUdevice_attribute
static int attribute(int which, int device) {
  const double capability = setting("FAKECUDA_CC", 8.0);
  switch (which) {
    case 1: return 1024;                                        // threads a block
    case 8: return 48 << 10;                                    // shared memory a block
    case 10: return 32;                                         // warp
    case 13: return 1500000;                                    // clock, kHz
    case 16: return truth().sms;                                // multiprocessors
    case 19: return (int)setting("FAKECUDA_CAN_MAP", 1);        // host memory can be mapped
    case 20: return (int)setting("FAKECUDA_COMPUTE_MODE", 0);   // default, -, prohibited, exclusive
    case 33: return device + 1;                                 // PCI bus
    case 36: return 1000000;                                    // memory clock, kHz
    case 37: return 4096;                                       // memory bus, bits
    case 38: return (int)setting("FAKECUDA_L2_MIB", 4) << 20;   // L2
    case 39: return 2048;                                       // threads a multiprocessor
    case 40: return (int)setting("FAKECUDA_COPY_ENGINES", 2);   // copy engines
    case 41: return 1;                                          // one address space
    case 75: return (int)capability;                            // compute capability
    case 76: return (int)(capability * 10 + 0.5) % 10;
    case 81: return 164 << 10;                                  // shared memory a multiprocessor
    case 97: return 163 << 10;                                  // shared memory a block, opted in
    case 115: return 1;                                         // memory pools
    default: return 0;
  }
}

API cuDeviceGetAttribute(int* value, int which, int device) {
  ENTER;
  *value = attribute(which, device);
  return OK;
}

static void* const CONTEXT = (void*)0x1000;
static thread_local void* current;

API cuDevicePrimaryCtxRetain(void** context, int) {
  ENTER;
  *context = CONTEXT;
  return OK;
}

API cuDevicePrimaryCtxRelease_v2(int) { return OK; }

API cuCtxSetCurrent(void* context) {
  ENTER;
  current = context;
  return OK;
}

API cuCtxGetCurrent(void** context) {
  *context = current;
  return OK;
}

API cuCtxGetDevice(int* device) {
  *device = 0;
  return OK;
}

API cuCtxSetFlags(unsigned) { return OK; }

API cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return OK;
}

API cuCtxSynchronize() {
  ENTER;
  return wait_for_all();
}
