// Holds a stream until the host opens it, so that everything to be timed is queued before time starts.
//
// One thread. `flag` is mapped host memory; after `tries` looks, about half a microsecond apart, the gate opens by
// itself, so that a queue which is full before the host gets to open it cannot stop the program.
#include "common.cuh"

extern "C" __global__ void kv_hold(const volatile unsigned* flag, unsigned tries) {
  while (tries-- > 0 && *flag == 0) __nanosleep(500);
}

KV_ENTRY(kv_hold)
