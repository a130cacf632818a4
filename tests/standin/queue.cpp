// Streams: issuing, effects as late as the waits allow, waiting; and what every call does first.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "world.hpp"

namespace standin {
int sticky;
bool initialised;

std::recursive_mutex& one_at_a_time() {
  static std::recursive_mutex mutex;
  return mutex;
}

// With FAKECUDA_REAL_TIME the host's time is that of a clock, and waiting takes as long as the law says.
static double real_now() {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

static void host_reaches(double time) {
  host_time = std::max(host_time, time);
  if (!truth().real_time) return;
  while (real_now() < host_time) {
  }
}

// FAKECUDA_FAIL=function:call:code, more with commas: that call (0: every one) gives that error.
static int planned_failure(const char* function, long call) {
  const char* plan = std::getenv("FAKECUDA_FAIL");
  for (; plan && *plan; plan = std::strchr(plan, ',') ? std::strchr(plan, ',') + 1 : nullptr) {
    char name[64];
    long which;
    int code;
    if (std::sscanf(plan, "%63[^:]:%ld:%d", name, &which, &code) != 3) break;
    if (!std::strcmp(name, function) && (which == 0 || which == call)) return code;
  }
  return OK;
}

int enter(const char* function) {
  static std::map<std::string, long> calls;
  if (int code = planned_failure(function, ++calls[function])) return code;
  const bool early = !std::strcmp(function, "cuInit") || !std::strcmp(function, "cuDriverGetVersion");
  if (!initialised && !early) return NOT_INITIALIZED;
  if (truth().real_time) host_time = std::max(host_time, real_now());
  return sticky;
}

std::vector<std::shared_ptr<Stream>>& streams() {
  static std::vector<std::shared_ptr<Stream>> all;
  return all;
}

std::shared_ptr<Stream> new_stream() {
  auto stream = std::make_shared<Stream>();
  stream->self = stream;
  streams().push_back(stream);
  return stream;
}

void drop_stream(Stream* stream) {
  auto& all = streams();
  const auto self = stream->self;
  all.erase(std::remove(all.begin(), all.end(), self), all.end());
  self->self.reset();
}

// Null and the "per thread" handles are one stream.
Stream* stream_of(void* handle) {
  static const std::shared_ptr<Stream> null_stream = new_stream();
  return (uintptr_t)handle > 2 ? (Stream*)handle : null_stream.get();
}

void push(Stream* stream, Task task, bool in_graph, std::shared_ptr<Stream> after, uint64_t after_number,
          std::shared_ptr<Mark> mark) {
  static uint64_t order;
  auto op = std::make_shared<Op>();
  op->task = std::move(task);
  op->stream = stream;
  op->number = ++stream->issued;
  op->order = ++order;
  op->issued = host_time;
  op->in_graph = in_graph;
  op->after = std::move(after);
  op->after_number = after_number;
  op->mark = std::move(mark);
  stream->to_time.push_back(op);
  stream->to_run.push_back(op);
}

// A call that finds the stream's queue full waits for room.
static void wait_for_room(Stream* stream) {
  if (stream->to_time.size() < truth().queue) return;
  advance_until([stream] { return stream->to_time.size() < truth().queue; });
  host_reaches(clock_now());
}

int issue(Stream* stream, Task task) {
  if (stream->capture.graph) {
    stream->capture.graph->nodes.push_back(Node{std::move(task), stream->capture.lane});
    ++stream->capture.count;
    return OK;
  }
  host_time += truth().submit_us;
  wait_for_room(stream);
  push(stream, std::move(task), false);
  return sticky;
}

void run_effects(Stream* stream, uint64_t number) {
  while (stream->run < number && !stream->to_run.empty()) {
    const std::shared_ptr<Op> op = stream->to_run.front();
    stream->to_run.pop_front();
    if (op->after) run_effects(op->after.get(), op->after_number);
    if (op->task.effect) op->task.effect();
    stream->run = op->number;
  }
}

bool come_so_far(Stream* stream, uint64_t number) {
  host_reaches(host_time + 1);
  advance_until([=] { return stream->timed >= number; }, host_time);
  if (stream->timed < number) return false;
  run_effects(stream, number);
  return true;
}

int wait_for(Stream* stream, uint64_t number) {
  if (stream->capture.graph) return STREAM_CAPTURE_UNSUPPORTED;
  advance_until([=] { return stream->timed >= number; });
  if (stream->timed < number) std::fprintf(stderr, "stand-in driver: nothing that is waited for can ever happen\n");
  run_effects(stream, number);
  host_reaches(clock_now());
  return sticky;
}

int wait_for_all() {
  for (const auto& stream : std::vector<std::shared_ptr<Stream>>(streams()))
    if (int code = wait_for(stream.get(), stream->issued)) return code;
  return sticky;
}
}  // namespace standin
