// A stand-in for libnvidia-ml.so.1: every answer is set by an environment variable, "n/a" being "not supported",
// "error:N" NVML's error N and "rising" a counter that is one higher at each question. It watches nothing: the figures
// do not follow what the stand-in driver does.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define API extern "C" __attribute__((visibility("default"))) int

// nvmlReturn_t
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

// The text of FAKENVML_<name>, or an error that it asks for.
static int text_of(const char* name, const char* otherwise, const char** text) {
  char variable[64];
  std::snprintf(variable, sizeof variable, "FAKENVML_%s", name);
  const char* found = std::getenv(variable);
  *text = found ? found : otherwise;
  if (!std::strcmp(*text, "n/a")) return NOT_SUPPORTED;
  return std::strncmp(*text, "error:", 6) ? SUCCESS : std::atoi(*text + 6);
}

template <class T>
static int answer(const char* name, const char* otherwise, T* value) {
  const char* text;
  if (int code = text_of(name, otherwise, &text)) return code;
  static std::atomic<unsigned> asked{0};
  *value = std::strcmp(text, "rising") ? (T)std::strtoull(text, nullptr, 0) : (T)++asked;
  return SUCCESS;
}

static int answer_text(const char* name, const char* otherwise, char* to, unsigned room) {
  const char* text;
  if (int code = text_of(name, otherwise, &text)) return code;
  if (std::strlen(text) >= room) return INSUFFICIENT_SIZE;
  std::strcpy(to, text);
  return SUCCESS;
}

API nvmlInitWithFlags(unsigned) {
  unsigned ignored;
  return answer("INIT", "0", &ignored);
}
API nvmlInit_v2() { return nvmlInitWithFlags(0); }
API nvmlShutdown() { return SUCCESS; }
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(int) { return "an error of the stand-in NVML"; }

API nvmlSystemGetDriverVersion(char* to, unsigned room) { return answer_text("DRIVER", "000.00", to, room); }
API nvmlSystemGetNVMLVersion(char* to, unsigned room) { return answer_text("VERSION", "0.000.00", to, room); }
API nvmlSystemGetCudaDriverVersion_v2(int* v) { return answer("CUDA_VERSION", "13000", v); }
API nvmlSystemGetProcessName(unsigned, char* to, unsigned room) { return answer_text("PROCESS_NAME", "other", to, room); }

// Devices are their number plus one; device 0 has the bus id that the stand-in driver gives its own.
API nvmlDeviceGetCount_v2(unsigned* n) { return answer("DEVICES", "1", n); }

API nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  unsigned count;
  if (int code = nvmlDeviceGetCount_v2(&count)) return code;
  if (index >= count) return INVALID_ARGUMENT;
  *device = (void*)(uintptr_t)(index + 1);
  return SUCCESS;
}

API nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  unsigned domain, bus, count;
  if (std::sscanf(id, "%x:%x:", &domain, &bus) != 2) return INVALID_ARGUMENT;
  if (int code = nvmlDeviceGetCount_v2(&count)) return code;
  if (domain != 0 || bus < 1 || bus > count) return NOT_FOUND;
  *device = (void*)(uintptr_t)bus;
  return SUCCESS;
}

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, pci_device, subsystem;
  char id[32];
};

API nvmlDeviceGetPciInfo_v3(void* device, PciInfo* info) {
  const unsigned bus = (unsigned)(uintptr_t)device;
  *info = {};
  info->bus = bus;
  std::snprintf(info->legacy_id, sizeof info->legacy_id, "0000:%02X:00.0", bus);
  std::snprintf(info->id, sizeof info->id, "00000000:%02X:00.0", bus);
  return SUCCESS;
}

API nvmlDeviceGetName(void*, char* to, unsigned room) { return answer_text("NAME", "Stand-in device (not a GPU)", to, room); }
API nvmlDeviceGetUUID(void*, char* to, unsigned room) { return answer_text("UUID", "GPU-not-a-gpu", to, room); }

API nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  const char* text;
  if (int code = text_of("CC", "8.0", &text)) return code;
  *minor = 0;
  return std::sscanf(text, "%d.%d", major, minor) < 1 ? INVALID_ARGUMENT : SUCCESS;
}

// One number each.
#define NUMBER(function, type, name, otherwise) \
  API function(void*, type* value) { return answer(name, otherwise, value); }
#define NUMBER_OF(function, type, name, otherwise) \
  API function(void*, unsigned, type* value) { return answer(name, otherwise, value); }

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "PCIE_GEN", "4")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "PCIE_GEN_MAX", "4")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "PCIE_WIDTH", "16")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "PCIE_WIDTH_MAX", "16")
NUMBER(nvmlDeviceGetPcieSpeed, unsigned, "PCIE_SPEED", "16000")
NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, unsigned, "PCIE_SPEED_MAX", "4")
NUMBER(nvmlDeviceGetPcieReplayCounter, unsigned, "PCIE_REPLAYS", "0")
NUMBER_OF(nvmlDeviceGetPcieThroughput, unsigned, "PCIE_THROUGHPUT", "0")
NUMBER(nvmlDeviceGetBusType, unsigned, "BUS_TYPE", "2")
NUMBER(nvmlDeviceGetPerformanceState, int, "PSTATE", "0")
NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "THROTTLE", "0")
NUMBER(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "THROTTLE", "0")
NUMBER_OF(nvmlDeviceGetClockInfo, unsigned, "CLOCK", "1500")
NUMBER_OF(nvmlDeviceGetMaxClockInfo, unsigned, "CLOCK_MAX", "1500")
NUMBER(nvmlDeviceGetPowerSource, unsigned, "POWER_SOURCE", "0")
NUMBER(nvmlDeviceGetPowerUsage, unsigned, "POWER", "100000")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, unsigned, "POWER_LIMIT", "300000")
NUMBER_OF(nvmlDeviceGetTemperature, unsigned, "TEMPERATURE", "40")
NUMBER(nvmlDeviceIsMigDeviceHandle, unsigned, "IS_MIG", "0")
NUMBER(nvmlDeviceGetComputeMode, int, "COMPUTE_MODE", "0")
NUMBER(nvmlDeviceGetDisplayActive, int, "DISPLAY_ACTIVE", "0")
NUMBER(nvmlDeviceGetPersistenceMode, int, "PERSISTENCE", "1")
NUMBER(nvmlDeviceGetVirtualizationMode, int, "VIRTUALIZATION", "0")
NUMBER(nvmlDeviceGetNumaNodeId, unsigned, "NUMA", "n/a")
NUMBER(nvmlDeviceGetMemoryBusWidth, unsigned, "BUS_WIDTH", "4096")
NUMBER(nvmlDeviceGetArchitecture, unsigned, "ARCHITECTURE", "7")

// The state now and after the next start.
static int now_and_next(const char* name, const char* otherwise, unsigned* now, unsigned* next) {
  const int code = answer(name, otherwise, now);
  if (!code) *next = *now;
  return code;
}
API nvmlDeviceGetEccMode(void*, unsigned* now, unsigned* next) { return now_and_next("ECC", "1", now, next); }
API nvmlDeviceGetMigMode(void*, unsigned* now, unsigned* next) { return now_and_next("MIG", "0", now, next); }

API nvmlDeviceGetTotalEccErrors(void*, int, int, unsigned long long* n) { return answer("ECC_ERRORS", "0", n); }
API nvmlDeviceGetMemoryErrorCounter(void*, int, int, int, unsigned long long* n) { return answer("ECC_ERRORS", "0", n); }

API nvmlDeviceGetCpuAffinity(void*, unsigned words, unsigned long* set) {
  unsigned long first;
  if (int code = answer("CPU_AFFINITY", "n/a", &first)) return code;
  for (unsigned i = 0; i < words; ++i) set[i] = i ? 0 : first;
  return SUCCESS;
}

struct Memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

API nvmlDeviceGetMemoryInfo_v2(void*, Memory* m) {
  m->reserved = 0;
  if (int code = answer("MEMORY", "8000000000", &m->total)) return code;
  if (int code = answer("MEMORY_USED", "0", &m->used)) return code;
  m->free = m->total - m->used;
  return SUCCESS;
}

struct Bar1 {
  unsigned long long total, free, used;
};

API nvmlDeviceGetBAR1MemoryInfo(void*, Bar1* b) {
  b->used = 0;
  const int code = answer("BAR1", "268435456", &b->total);
  b->free = b->total;
  return code;
}

struct Utilisation {
  unsigned gpu, memory;
};

API nvmlDeviceGetUtilizationRates(void*, Utilisation* u) {
  u->memory = 0;
  return answer("UTILISATION", "0", &u->gpu);
}

struct Process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};

// FAKENVML_PROCESSES and FAKENVML_GRAPHICS: "pid:bytes pid:bytes".
static int processes(const char* name, unsigned* count, Process* list) {
  const char* text;
  if (int code = text_of(name, "", &text)) return code;
  unsigned n = 0, pid;
  unsigned long long bytes;
  const unsigned room = list ? *count : 0;
  for (int used; std::sscanf(text, " %u:%llu%n", &pid, &bytes, &used) == 2; text += used, ++n)
    if (n < room) list[n] = Process{pid, bytes, ~0u, ~0u};
  *count = n;
  return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

API nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, Process* list) { return processes("PROCESSES", count, list); }
API nvmlDeviceGetGraphicsRunningProcesses_v3(void*, unsigned* count, Process* list) { return processes("GRAPHICS", count, list); }
