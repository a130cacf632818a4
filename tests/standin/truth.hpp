// What the stand-in device is: its time law and its size, set by environment variables, so that a test knows the truth
// that a fit must find. GB/s are 10^9 bytes a second, US microseconds. kernels/README.md lists what each one does.
#pragma once
#include <cstddef>
#include <cstdlib>

namespace standin {
inline double setting(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atof(text) : otherwise;
}

struct Truth {
  // The link.
  double h2d = setting("FAKECUDA_H2D_GBPS", 25), d2h = setting("FAKECUDA_D2H_GBPS", 22);
  double duplex = setting("FAKECUDA_DUPLEX", 0.8);  // each direction's rate while the other is busy too
  double pageable = setting("FAKECUDA_PAGEABLE_GBPS", 6);
  double copy_us = setting("FAKECUDA_COPY_US", 8);
  double zero_copy = setting("FAKECUDA_ZEROCOPY_GBPS", 20), zero_copy_sm = setting("FAKECUDA_ZEROCOPY_SM_GBPS", 4);
  // Many copies in one call.
  double batch_us = setting("FAKECUDA_BATCH_US", 8), batch_copy_us = setting("FAKECUDA_BATCH_COPY_US", 0.3);
  double batch_small = setting("FAKECUDA_BATCH_SMALL_GBPS", 6), batch_cliff = setting("FAKECUDA_BATCH_CLIFF_KIB", 28) * 1024;
  // The device.
  double hbm = setting("FAKECUDA_HBM_GBPS", 900), attend = setting("FAKECUDA_ATTEND_GBPS", 600);
  double kernel_us = setting("FAKECUDA_KERNEL_US", 4), node_us = setting("FAKECUDA_GRAPH_NODE_US", 1.5);
  double contention = setting("FAKECUDA_CONTENTION", 0);  // share of a kernel's speed lost while a copy runs
  int sms = (int)setting("FAKECUDA_SMS", 32);
  double memory = setting("FAKECUDA_MEM_GB", 8) * 1e9, pinned = setting("FAKECUDA_PINNED_GB", 64) * 1e9;
  // The host.
  double submit_us = setting("FAKECUDA_SUBMIT_US", 1.5);
  size_t queue = (size_t)setting("FAKECUDA_QUEUE", 1024);  // operations that a stream takes before a call waits
  // Noise: times are (1 + jitter e), e exponential; a spike trebles one.
  double jitter = setting("FAKECUDA_JITTER", 0.02), spikes = setting("FAKECUDA_SPIKES", 0);
  unsigned seed = (unsigned)setting("FAKECUDA_SEED", 1);
  // How it is run.
  bool skip_compute = setting("FAKECUDA_SKIP_COMPUTE", 0) != 0, real_time = setting("FAKECUDA_REAL_TIME", 0) != 0;
  unsigned order = (unsigned)setting("FAKECUDA_ORDER", 0);  // of the threads in a block
};

inline const Truth& truth() {
  static const Truth known;
  return known;
}
}  // namespace standin
