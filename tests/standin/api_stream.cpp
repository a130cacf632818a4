// The driver API: streams, events, callbacks.
#include "world.hpp"

using namespace standin;

static int create(void** handle) {
  *handle = new_stream().get();
  return OK;
}

API cuStreamCreate(void** stream, unsigned) {
  ENTER;
  return create(stream);
}

API cuStreamCreateWithPriority(void** stream, unsigned, int) {
  ENTER;
  return create(stream);
}

API cuStreamDestroy_v2(void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  const int code = wait_for(stream, stream->issued);
  drop_stream(stream);
  return code;
}

API cuStreamSynchronize(void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  return wait_for(stream, stream->issued);
}

API cuStreamQuery(void* handle) {
  ENTER;
  Stream* stream = stream_of(handle);
  return come_so_far(stream, stream->issued) ? OK : NOT_READY;
}

API cuLaunchHostFunc(void* handle, void (*function)(void*), void* data) {
  ENTER;
  Task task;
  task.effect = [=] { function(data); };
  return issue(stream_of(handle), std::move(task));
}

// A captured stream takes a waiting one into its capture, as a lane of its own.
static int wait_in_capture(Stream* stream, const Captured& at) {
  if (!stream->capture.graph) stream->capture = Captured{at.graph, at.graph->lanes++, 0};
  if (stream->capture.graph != at.graph) return STREAM_CAPTURE_ISOLATION;
  at.graph->nodes.push_back(Node{{}, stream->capture.lane, true, at});
  ++stream->capture.count;
  return OK;
}

API cuStreamWaitEvent(void* handle, void* event, unsigned) {
  ENTER;
  const Event* e = (Event*)event;
  Stream* stream = stream_of(handle);
  if (e->captured.graph) return wait_in_capture(stream, e->captured);
  if (stream->capture.graph) return STREAM_CAPTURE_ISOLATION;
  if (e->stream && e->stream.get() != stream) push(stream, {}, false, e->stream, e->number);
  return OK;
}

API cuEventCreate(void** event, unsigned flags) {
  ENTER;
  auto* e = new Event;
  e->timing = !(flags & 2);
  *event = e;
  return OK;
}

API cuEventDestroy_v2(void* event) {
  delete (Event*)event;
  return OK;
}

API cuEventRecord(void* event, void* handle) {
  ENTER;
  auto* e = (Event*)event;
  Stream* stream = stream_of(handle);
  e->captured = stream->capture;
  if (stream->capture.graph) return OK;
  e->stream = stream->self;
  e->mark = std::make_shared<Mark>();
  push(stream, {}, false, {}, 0, e->mark);
  e->number = stream->issued;
  return OK;
}

API cuEventSynchronize(void* event) {
  ENTER;
  const Event* e = (Event*)event;
  return e->stream ? wait_for(e->stream.get(), e->number) : OK;
}

API cuEventQuery(void* event) {
  ENTER;
  const Event* e = (Event*)event;
  return !e->stream || come_so_far(e->stream.get(), e->number) ? OK : NOT_READY;
}

static int elapsed(float* ms, const Event* from, const Event* to) {
  if (!from->mark || !to->mark || !from->timing || !to->timing) return INVALID_HANDLE;
  if (!from->mark->reached || !to->mark->reached) return NOT_READY;
  *ms = (float)((to->mark->time - from->mark->time) * 1e-3);
  return OK;
}

API cuEventElapsedTime(float* ms, void* from, void* to) {
  ENTER;
  return elapsed(ms, (Event*)from, (Event*)to);
}

API cuEventElapsedTime_v2(float* ms, void* from, void* to) {
  ENTER;
  return elapsed(ms, (Event*)from, (Event*)to);
}
