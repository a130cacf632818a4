// Time: operations in flight share the link and the multiprocessors, and the clock goes from one end to the next.
//
// A copy engine works for one copy at a time, in order of issue; kernels run side by side as long as multiprocessors are
// left. While both directions of the link are busy, each runs at `duplex` of its rate; two users of one direction halve
// it. The clock moves only as far as somebody waits, so what is issued later can still slow what is in flight.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "world.hpp"

namespace standin {
double host_time;
static double now;
static std::vector<std::shared_ptr<Op>> active;
static constexpr double NEVER = std::numeric_limits<double>::infinity();

double clock_now() { return now; }

static double noise() {
  static std::mt19937_64 random(truth().seed);
  static std::exponential_distribution<double> exponential(1.0);
  static std::uniform_real_distribution<double> uniform;
  const double spike = truth().spikes > 0 && uniform(random) < truth().spikes ? 3 : 1;
  return (1 + truth().jitter * exponential(random)) * spike;
}

static bool may_start(const Op& op) {
  return op.issued <= now && (!op.after || op.after->timed >= op.after_number);
}

static bool engine_free(const Op& op) {
  int sms = 0;
  for (const auto& other : active) {
    if (op.task.engine != Engine::CORE && other->task.engine == op.task.engine) return false;
    sms += other->task.sms;
  }
  return op.task.engine != Engine::CORE || sms + op.task.sms <= truth().sms;
}

static void start(const std::shared_ptr<Op>& op) {
  if (op->task.looks) run_effects(op->stream, op->number - 1);
  Work w = op->task.work();
  if (op->task.engine == Engine::CORE) w.fixed += op->in_graph ? truth().node_us : truth().kernel_us;
  const double factor = op->task.gate ? 1 : noise();
  op->left = {w.fixed * factor, w.core * factor, w.up * factor, w.down * factor};
  op->running = true;
  active.push_back(op);
}

static void finish(Op& op) {
  if (op.mark) op.mark->time = now, op.mark->reached = true;
  op.stream->timed = op.number;
  op.stream->to_time.pop_front();
}

// Marks and waits at the heads of streams, as long as one of them can go.
static bool pass_marks() {
  bool any = false;
  for (const auto& stream : std::vector<std::shared_ptr<Stream>>(streams()))
    while (!stream->to_time.empty()) {
      const std::shared_ptr<Op> head = stream->to_time.front();
      if (head->task.work || !may_start(*head)) break;
      finish(*head);
      any = true;
    }
  return any;
}

static bool start_waiting() {
  std::vector<std::shared_ptr<Op>> heads;
  for (const auto& stream : streams())
    if (!stream->to_time.empty() && !stream->to_time.front()->running && may_start(*stream->to_time.front()))
      heads.push_back(stream->to_time.front());
  std::sort(heads.begin(), heads.end(), [](const auto& a, const auto& b) { return a->order < b->order; });
  bool any = false, blocked[4] = {};
  for (const auto& op : heads) {
    bool& mine = blocked[(int)op->task.engine];
    if (mine || !engine_free(*op)) {
      mine = true;  // nobody overtakes on an engine
      continue;
    }
    start(op);
    any = true;
  }
  return any;
}

struct Rates {
  double core = 1, up = 1, down = 1;
};

static Rates rates() {
  int ups = 0, downs = 0, copies = 0;
  for (const auto& op : active) {
    if (op->left.fixed > 0) continue;
    ups += op->left.up > 0;
    downs += op->left.down > 0;
    copies += op->task.engine != Engine::CORE;
  }
  Rates r;
  if (ups) r.up = (downs ? truth().duplex : 1) / ups;
  if (downs) r.down = (ups ? truth().duplex : 1) / downs;
  if (copies) r.core = 1 - truth().contention;
  return r;
}

// Until the next part of an operation ends.
static double step_of(const Work& w, const Rates& r) {
  if (w.fixed > 0) return w.fixed;
  double next = NEVER;
  if (w.core > 0) next = std::min(next, w.core / r.core);
  if (w.up > 0) next = std::min(next, w.up / r.up);
  if (w.down > 0) next = std::min(next, w.down / r.down);
  return next;
}

static bool done(const Work& w) { return w.fixed <= 0 && w.core <= 0 && w.up <= 0 && w.down <= 0; }

static double spend(double part, double time) { return part - time > 1e-6 ? part - time : 0; }

static void move_to(double next) {
  const Rates r = rates();
  const double time = next - now;
  now = next;
  for (const auto& op : active) {
    Work& w = op->left;
    if (w.fixed > 0)
      w.fixed = spend(w.fixed, time);
    else
      w = {0, spend(w.core, time * r.core), spend(w.up, time * r.up), spend(w.down, time * r.down)};
  }
}

static bool finish_done() {
  bool any = false;
  for (size_t i = 0; i < active.size();) {
    if (!done(active[i]->left)) {
      ++i;
      continue;
    }
    const std::shared_ptr<Op> op = active[i];
    active.erase(active.begin() + i);
    finish(*op);
    any = true;
  }
  return any;
}

static double next_time() {
  const Rates r = rates();
  double next = NEVER;
  for (const auto& op : active) next = std::min(next, now + step_of(op->left, r));
  for (const auto& stream : streams())
    if (!stream->to_time.empty() && stream->to_time.front()->issued > now)
      next = std::min(next, stream->to_time.front()->issued);
  return next;
}

// An open gate lets through at the time the host has reached.
static void open_gates() {
  for (const auto& op : active)
    if (op->task.gate && *op->task.gate) op->left = {std::min(op->left.fixed, std::max(0.0, host_time - now)), 0, 0, 0};
}

void advance_until(const std::function<bool()>& reached, double limit) {
  for (;;) {
    open_gates();
    while (pass_marks() || finish_done() || start_waiting()) {
    }
    if (reached()) return;
    open_gates();
    const double next = next_time();
    if (next > limit) return move_to(std::max(limit, now));
    if (next == NEVER) return;
    move_to(next);
  }
}
}  // namespace standin
