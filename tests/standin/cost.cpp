// How long a kernel of ours takes on the stand-in device: the bytes that it touches, derived from its arguments, over the
// bandwidth of where they lie. One small function a kernel.
//
// HBM and link work side by side, each at its own rate; a grid smaller than the device gets its share of HBM, and reads
// host memory at so much a multiprocessor. Attention has a rate of its own for what it reads from HBM.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "world.hpp"

namespace standin {
namespace {
// Bytes by where they lie.
struct Traffic {
  double hbm = 0, up = 0, down = 0;
  void read(Pointer p, double bytes) { (is_pinned((void*)p, 1) ? up : hbm) += bytes; }
  void write(Pointer p, double bytes) { (is_pinned((void*)p, 1) ? down : hbm) += bytes; }
};

// The arguments of a launch by number.
struct Args {
  const Launch& launch;
  Pointer at(int i) const { return launch.args[i]; }
  double whole(int i) const { return (double)launch.args[i]; }
  int number(int i) const { return (int)(uint32_t)launch.args[i]; }
  // Sum of a list of `n` whole numbers in memory.
  double sum(int i, unsigned n) const {
    double total = 0;
    for (unsigned j = 0; j < n; ++j) total += ((const int*)at(i))[j];
    return total;
  }
};

Traffic gather_pages(const Args& a) {  // src, src_layer, dst, dst_layer, index, n, words
  const double bytes = 16.0 * a.number(6) * a.number(5) * a.launch.grid[1];
  Traffic t;
  t.read(a.at(0), bytes);
  t.write(a.at(2), bytes);
  return t;
}

Traffic gather_tokens(const Args& a) {  // arena, arena_layer, slots, n, records, record_words, kv_heads, page_tokens, row_words
  const double bytes = 32.0 * a.number(6) * a.number(8) * a.number(3) * a.launch.grid[1];
  Traffic t;
  t.read(a.at(0), bytes);
  t.write(a.at(4), bytes);
  return t;
}

Traffic scatter_tokens(const Args& a) {  // records, record_words, slots, n, arena, arena_layer, kv_heads, page_tokens, row_words
  return gather_tokens(a);
}

Traffic move_tokens(const Args& a) {  // src, src_layer, src_slots, dst, dst_layer, dst_slots, n, kv_heads, page_tokens, row_words
  const double bytes = 32.0 * a.number(7) * a.number(9) * a.number(6) * a.launch.grid[1];
  Traffic t;
  t.read(a.at(0), bytes);
  t.write(a.at(3), bytes);
  return t;
}

Traffic quant_token(const Args& a) {  // x, run, skip, rows, cols, lanes, q, scale
  const double rows = a.number(3), numbers = rows * a.number(4);
  Traffic t;
  t.read(a.at(0), 2 * numbers);
  t.write(a.at(6), numbers);
  t.write(a.at(7), 4 * rows);
  return t;
}

Traffic dequant_token(const Args& a) {  // q, scale, rows, cols, y, run, skip
  const double rows = a.number(2), numbers = rows * a.number(3);
  Traffic t;
  t.read(a.at(0), numbers);
  t.read(a.at(1), 4 * rows);
  t.write(a.at(4), 2 * numbers);
  return t;
}

Traffic quant_channel(const Args& a) {  // x, run, skip, groups, tokens, cols, q, scale
  const double channels = (double)a.number(3) * a.number(5), numbers = channels * a.number(4);
  Traffic t;
  t.read(a.at(0), 2 * numbers);
  t.write(a.at(6), numbers);
  t.write(a.at(7), 4 * channels);
  return t;
}

Traffic dequant_channel(const Args& a) {  // q, scale, groups, tokens, cols, y, run, skip
  const double channels = (double)a.number(2) * a.number(4), numbers = channels * a.number(3);
  Traffic t;
  t.read(a.at(0), numbers);
  t.read(a.at(1), 4 * channels);
  t.write(a.at(5), 2 * numbers);
  return t;
}

// q, res, res_pages, res_tokens, res_stride, pre, pre_pages, pre_tokens, pre_stride, group, page_tokens, parts, scale,
// part_out, part_lse, logits, logit_stride
Traffic attend(const Args& a, int head_dim) {
  const unsigned sequences = a.launch.grid[2];
  const double rows = (double)a.launch.grid[1] / ((a.number(9) + 7) / 8) * a.number(9);  // q heads
  const double token = 4.0 * head_dim * a.launch.grid[1];                               // K and V of all KV heads
  const double resident = a.sum(3, sequences), ahead = a.sum(7, sequences);
  Traffic t;
  t.read(a.at(1), resident * token);
  t.read(a.at(5), ahead * token);
  t.read(a.at(0), 2.0 * head_dim * rows * sequences);
  t.write(a.at(13), 4.0 * (head_dim + 1) * rows * sequences * a.launch.grid[0]);
  if (a.at(15)) t.write(a.at(15), 4 * rows * (resident + ahead));
  return t;
}

Traffic attend_64(const Args& a) { return attend(a, 64); }
Traffic attend_128(const Args& a) { return attend(a, 128); }

Traffic merge(const Args& a) {  // part_out, part_lse, parts, out, lse
  const double row = 4.0 * (a.launch.block[0] + 1), rows = (double)a.launch.grid[0] * a.launch.grid[1];
  Traffic t;
  t.read(a.at(0), row * rows * a.number(2));
  t.write(a.at(3), row * rows);
  return t;
}

// logits, logit_stride, lse, heads, weight, res_positions, res_tokens, res_stride, pre_positions, pre_tokens, pre_stride,
// score, score_stride
Traffic score(const Args& a) {
  const double tokens = a.sum(6, a.launch.grid[1]) + a.sum(9, a.launch.grid[1]);
  Traffic t;
  t.read(a.at(0), 4 * tokens * a.number(3));
  t.read(a.at(5), 4 * tokens);
  t.write(a.at(11), 8 * tokens);
  return t;
}

Traffic select_top(const Args& a) {  // score, first, count, keep, stride, tier, chosen
  const double candidates = a.sum(2, a.launch.grid[0]), kept = a.sum(3, a.launch.grid[0]);
  Traffic t;
  t.read(a.at(0), 4 * 5 * candidates);
  t.write(a.at(5), candidates);
  t.write(a.at(6), 4 * std::min(kept, candidates));
  return t;
}

Traffic read(const Args& a) {  // p, words, sink
  Traffic t;
  t.read(a.at(0), 16 * a.whole(1));
  return t;
}

Traffic copy(const Args& a) {  // src, dst, words
  Traffic t;
  t.read(a.at(0), 16 * a.whole(2));
  t.write(a.at(1), 16 * a.whole(2));
  return t;
}

struct Cost {
  Traffic (*traffic)(const Args&);
  bool looks, attends;
};

const std::map<std::string, Cost> COSTS = {
    {"kv_gather_pages", {gather_pages, false, false}},
    {"kv_scatter_pages", {gather_pages, false, false}},
    {"kv_gather_tokens", {gather_tokens, false, false}},
    {"kv_scatter_tokens", {scatter_tokens, false, false}},
    {"kv_move_tokens", {move_tokens, false, false}},
    {"kv_quant_token", {quant_token, false, false}},
    {"kv_dequant_token", {dequant_token, false, false}},
    {"kv_quant_channel", {quant_channel, false, false}},
    {"kv_dequant_channel", {dequant_channel, false, false}},
    {"kv_attend_64", {attend_64, true, true}},
    {"kv_attend_128", {attend_128, true, true}},
    {"kv_merge", {merge, false, false}},
    {"kv_score", {score, true, false}},
    {"kv_select_top", {select_top, true, false}},
    {"kv_read", {read, false, false}},
    {"kv_copy", {copy, false, false}},
};

Work work_of(const Launch& launch, const Cost& cost, int sms) {
  const Truth& k = truth();
  const Traffic t = cost.traffic(Args{launch});
  const double share = (double)sms / k.sms, link = std::min(k.zero_copy, k.zero_copy_sm * sms);
  return {0, t.hbm / ((cost.attends ? k.attend : k.hbm) * share * 1e3), t.up / (link * 1e3), t.down / (link * 1e3)};
}
}  // namespace

bool has_cost(const char* name) { return !std::strcmp(name, "kv_hold") || COSTS.count(name); }

Task cost_of(const Launch& launch) {
  const double blocks = (double)launch.grid[0] * launch.grid[1] * launch.grid[2];
  Task task;
  task.engine = Engine::CORE;
  task.sms = (int)std::min(blocks, (double)truth().sms);
  const auto found = COSTS.find(launch.name);
  if (!std::strcmp(launch.name, "kv_hold")) {  // flag, tries
    task.gate = (const volatile unsigned*)launch.args[0];
    const double longest = 0.5 * (uint32_t)launch.args[1];
    task.work = [longest = *task.gate ? 0 : longest] { return Work{longest}; };  // shut now: until the clock sees it open
  } else if (found != COSTS.end()) {
    task.looks = found->second.looks;
    task.work = [launch, cost = found->second, sms = task.sms] { return work_of(launch, cost, sms); };
  }
  return task;
}
}  // namespace standin
