// The driver API: capture of streams into a graph, and launching it. A lane of the graph is a stream that was captured; on
// launch the first lane is the launching stream, the others are streams of the graph's own.
#include "world.hpp"

using namespace standin;

namespace {
struct Exec {
  Graph graph;
  std::vector<std::shared_ptr<Stream>> lanes;  // from the second on
};

void wait_on(Stream* stream, Stream* other, uint64_t number) {
  push(stream, {}, true, other->self, number);
}

// Nodes are in the order of their issue; a lane's `n`th node is its stream's operation `base + n`.
void launch(Exec& exec, Stream* stream) {
  std::vector<Stream*> lanes{stream};
  for (const auto& lane : exec.lanes) lanes.push_back(lane.get());
  for (size_t i = 1; i < lanes.size(); ++i) wait_on(lanes[i], stream, stream->issued);
  std::vector<uint64_t> base;
  for (Stream* lane : lanes) base.push_back(lane->issued);
  for (const Node& node : exec.graph.nodes) {
    Stream* lane = lanes[node.lane];
    if (node.waits)
      wait_on(lane, lanes[node.other.lane], base[node.other.lane] + node.other.count);
    else
      push(lane, node.task, true);
  }
  for (size_t i = 1; i < lanes.size(); ++i) wait_on(stream, lanes[i], lanes[i]->issued);
}

void forget_capture(const Graph* graph) {
  for (const auto& stream : streams())
    if (stream->capture.graph == graph) stream->capture = {};
}
}  // namespace

API cuStreamBeginCapture_v2(void* handle, int) {
  ENTER;
  Stream* stream = stream_of(handle);
  if ((uintptr_t)handle <= 2 || stream->capture.graph) return STREAM_CAPTURE_UNSUPPORTED;
  stream->capture = Captured{new Graph, 0, 0};
  return OK;
}

API cuStreamIsCapturing(void* handle, int* status) {
  ENTER;
  *status = stream_of(handle)->capture.graph ? 1 : 0;
  return OK;
}

API cuStreamEndCapture(void* handle, void** graph) {
  ENTER;
  Graph* captured = stream_of(handle)->capture.graph;
  if (!captured) return STREAM_CAPTURE_INVALIDATED;
  forget_capture(captured);
  *graph = captured;
  return OK;
}

API cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  ENTER;
  auto* made = new Exec{*(Graph*)graph, {}};
  for (int i = 1; i < made->graph.lanes; ++i) made->lanes.push_back(new_stream());
  *exec = made;
  return OK;
}

API cuGraphUpload(void*, void*) {
  ENTER;
  return OK;
}

API cuGraphLaunch(void* exec, void* handle) {
  ENTER;
  host_time += truth().submit_us;
  launch(*(Exec*)exec, stream_of(handle));
  return sticky;
}

API cuGraphExecDestroy(void* exec) {
  ENTER;
  const int code = wait_for_all();
  for (const auto& lane : ((Exec*)exec)->lanes) drop_stream(lane.get());
  delete (Exec*)exec;
  return code;
}

API cuGraphDestroy(void* graph) {
  ENTER;
  delete (Graph*)graph;
  return OK;
}
