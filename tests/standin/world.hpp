// What the parts of the stand-in driver share: streams of operations, which have an effect on memory and take time.
//
// The two are kept apart. Time is a small simulation (clock.cpp) that moves on only when somebody waits. Effects run as
// late as the recorded waits allow (queue.cpp): a forgotten wait or synchronise shows as wrong data.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "truth.hpp"

namespace standin {
typedef uint64_t Pointer;  // CUdeviceptr

// CUresult
enum {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  NO_BINARY_FOR_GPU = 209,
  INVALID_PTX = 218,
  UNSUPPORTED_PTX_VERSION = 222,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  LAUNCH_FAILED = 719,
  STREAM_CAPTURE_UNSUPPORTED = 900,
  STREAM_CAPTURE_INVALIDATED = 901,
  STREAM_CAPTURE_ISOLATION = 905,
};

// Microseconds that each part takes alone: first `fixed`, then the others side by side.
struct Work {
  double fixed = 0, core = 0, up = 0, down = 0;
};

enum class Engine { NONE, UP, DOWN, CORE };

struct Task {
  Engine engine = Engine::NONE;
  int sms = 0;                              // of CORE
  std::function<Work()> work;               // asked for when the operation starts
  bool looks = false;                       // `work` reads memory: what comes before must have had its effect
  std::function<void()> effect;
  const volatile unsigned* gate = nullptr;  // runs until this is not 0, or for `work`'s time
};

struct Stream;

struct Mark {
  double time = 0;
  bool reached = false;
};

struct Op {
  Task task;
  Stream* stream;
  uint64_t number;                                   // within its stream, from 1
  uint64_t order;                                    // of issue, among all
  double issued;                                     // not started before
  bool in_graph;
  std::shared_ptr<Stream> after;                     // waits for this stream
  uint64_t after_number = 0;                         // to have come this far
  std::shared_ptr<Mark> mark;
  bool running = false;
  Work left{};
};

// A place in a capture: the first `count` nodes of `lane`.
struct Captured {
  struct Graph* graph = nullptr;
  int lane = 0;
  uint64_t count = 0;
};

struct Stream {
  std::deque<std::shared_ptr<Op>> to_time, to_run;
  uint64_t issued = 0, timed = 0, run = 0;
  Captured capture;
  std::shared_ptr<Stream> self;
};

struct Event {
  std::shared_ptr<Stream> stream;
  uint64_t number = 0;
  std::shared_ptr<Mark> mark;
  Captured captured;
  bool timing = true;
};

struct Node {
  Task task;
  int lane;
  bool waits = false;  // for `other`
  Captured other{};
};

struct Graph {
  std::vector<Node> nodes;
  int lanes = 1;
};

// clock.cpp
extern double host_time;  // microseconds; what the host has reached
void advance_until(const std::function<bool()>& reached, double limit = std::numeric_limits<double>::infinity());
double clock_now();

// queue.cpp
extern bool initialised;
extern int sticky;  // the error that every later call repeats
std::recursive_mutex& one_at_a_time();
int enter(const char* function);
Stream* stream_of(void* handle);
std::vector<std::shared_ptr<Stream>>& streams();
std::shared_ptr<Stream> new_stream();
void drop_stream(Stream* stream);
int issue(Stream* stream, Task task);
void push(Stream* stream, Task task, bool in_graph, std::shared_ptr<Stream> after = {}, uint64_t after_number = 0,
          std::shared_ptr<Mark> mark = {});
void run_effects(Stream* stream, uint64_t number);
int wait_for(Stream* stream, uint64_t number);
int wait_for_all();
bool come_so_far(Stream* stream, uint64_t number);

// memory.cpp
int allocate_device(Pointer* p, size_t bytes);
int free_device(Pointer p);
int allocate_pinned(void** p, size_t bytes);
int free_pinned(void* p);
int register_pinned(void* p, size_t bytes);
int unregister_pinned(void* p);
bool on_device(Pointer p, size_t bytes);
bool is_pinned(const void* p, size_t bytes);
size_t device_bytes_used();

// cost.cpp
struct Launch {
  const char* name;
  unsigned grid[3], block[3];
  std::vector<uint64_t> args;
};
bool has_cost(const char* name);
Task cost_of(const Launch& launch);
}  // namespace standin

#define API extern "C" __attribute__((visibility("default"))) int
#define ENTER                                                                \
  std::lock_guard<std::recursive_mutex> guard_(standin::one_at_a_time());    \
  if (int code_ = standin::enter(__func__)) return code_
