// The driver API: PTX modules and launches. The PTX is read for its version and its entry points; what runs is the CPU
// build of the same sources, so a module whose kernels have other parameters than that build is refused.
#include <cctype>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "world.hpp"

using namespace standin;

extern "C" int kv_cpu_launch(const char* name, const unsigned* grid, const unsigned* block, unsigned shared, void** args,
                             unsigned order, char* message, size_t room);
extern "C" int kv_cpu_params(const char* name, const unsigned char** sizes);

namespace {
struct Function {
  std::string name;
  std::vector<unsigned char> sizes;
  unsigned most_shared = 48 << 10;
};
typedef std::map<std::string, Function> Module;

double number_after(const char* text, const char* word) {
  const char* at = std::strstr(text, word);
  return at ? std::atof(at + std::strlen(word)) : -1;
}

// The size of each parameter, from ".param .u64 name," and the like.
std::vector<unsigned char> parameters(const char* from, const char* to) {
  std::vector<unsigned char> sizes;
  for (const char* at = from; (at = std::strstr(at, ".param .")) && at < to; ++at)
    sizes.push_back((unsigned char)(std::atoi(at + 9) / 8));
  return sizes;
}

bool known(const Function& f) {
  const unsigned char* sizes = nullptr;
  const int count = kv_cpu_params(f.name.c_str(), &sizes);
  const bool same = count == (int)f.sizes.size() && !std::memcmp(sizes, f.sizes.data(), f.sizes.size());
  if (!same || !has_cost(f.name.c_str()))
    std::fprintf(stderr, "stand-in driver: it does not know %s with %zu parameters\n", f.name.c_str(), f.sizes.size());
  return same && has_cost(f.name.c_str());
}

int read_module(const char* ptx, Module& module) {
  const double version = number_after(ptx, ".version "), target = number_after(ptx, ".target sm_");
  if (version < 0 || target < 0) return INVALID_PTX;
  if (version > setting("FAKECUDA_PTX_MAX", 9.0)) return UNSUPPORTED_PTX_VERSION;
  if (target > setting("FAKECUDA_CC", 8.0) * 10) return NO_BINARY_FOR_GPU;
  const char* word = ".visible .entry ";
  for (const char* at = ptx; (at = std::strstr(at, word));) {
    at += std::strlen(word);
    Function f;
    while (std::isalnum(*at) || *at == '_') f.name += *at++;
    const char* end = std::strchr(at, ')');
    if (!end) return INVALID_PTX;
    f.sizes = parameters(at, end);
    if (!known(f)) return INVALID_PTX;
    module[f.name] = f;
  }
  return OK;
}

int load(void** handle, const char* ptx) {
  auto module = std::make_unique<Module>();
  if (int code = read_module(ptx, *module)) return code;
  *handle = module.release();
  return OK;
}

void run_kernel(Launch& launch, unsigned shared) {
  std::vector<void*> args;
  for (uint64_t& value : launch.args) args.push_back(&value);
  char message[300] = "a launch that the CPU build refuses";
  const int code = kv_cpu_launch(launch.name, launch.grid, launch.block, shared, args.data(), truth().order, message,
                                 sizeof message);
  if (!code) return;
  std::fprintf(stderr, "stand-in driver: %s\n", message);
  sticky = LAUNCH_FAILED;
}

bool allowed(const Function& f, const Launch& l, unsigned shared) {
  const uint64_t threads = (uint64_t)l.block[0] * l.block[1] * l.block[2];
  return threads && threads <= 1024 && l.grid[0] && l.grid[1] && l.grid[2] && l.grid[1] <= 65535 && l.grid[2] <= 65535 &&
         shared <= f.most_shared;
}
}  // namespace

API cuModuleLoadData(void** module, const void* image) {
  ENTER;
  return load(module, (const char*)image);
}

API cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
  ENTER;
  const int code = load(module, (const char*)image);
  char* log = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == 5) log = (char*)values[i];
    if (options[i] == 6) room = (size_t)values[i];
  }
  if (code && log && room) std::snprintf(log, room, "stand-in driver: PTX refused with error %d", code);
  return code;
}

API cuModuleUnload(void* module) {
  ENTER;
  const int code = wait_for_all();
  delete (Module*)module;
  return code;
}

API cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER;
  auto& all = *(Module*)module;
  const auto found = all.find(name);
  if (found == all.end()) return NOT_FOUND;
  *function = &found->second;
  return OK;
}

API cuFuncSetAttribute(void* function, int which, int value) {
  ENTER;
  if (which != 8) return OK;  // 8: the most dynamic shared memory
  if (value < 0 || value > 163 << 10) return INVALID_VALUE;
  ((Function*)function)->most_shared = (unsigned)value;
  return OK;
}

API cuFuncGetAttribute(int* value, int, void*) {
  ENTER;
  *value = 32;
  return OK;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
  ENTER;
  *blocks = 4;
  return OK;
}

API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void* stream, void** args, void**) {
  ENTER;
  const auto& f = *(Function*)function;
  Launch launch{f.name.c_str(), {gx, gy, gz}, {bx, by, bz}, std::vector<uint64_t>(f.sizes.size())};
  if (!allowed(f, launch, shared)) return INVALID_VALUE;
  for (size_t i = 0; i < f.sizes.size(); ++i) std::memcpy(&launch.args[i], args[i], f.sizes[i]);
  Task task = cost_of(launch);
  if (!truth().skip_compute && !task.gate) task.effect = [launch, shared]() mutable { run_kernel(launch, shared); };
  return issue(stream_of(stream), std::move(task));
}
