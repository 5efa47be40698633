// CUDA as a C++ programmer writes it, for um_bench. It uses no code of cuda-um and none of benches/src/raw.rs.
//
// The runtime is linked statically, as nvcc does by default.
#include <limits>
#include <memory>

#include "../cpp/gpu.hpp"
#include "../cpp/peer.hpp"
#include "step.hpp"

namespace {

using peer::Answer;
using peer::Request;

void finish() { CHECK(cudaDeviceSynchronize()); }

struct Free {
  void operator()(float* memory) const { cudaFree(memory); }
};
using Memory = std::unique_ptr<float, Free>;

Memory device_memory(std::size_t bytes) {
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, bytes));
  return Memory(static_cast<float*>(pointer));
}

Memory managed_memory(std::size_t bytes) {
  void* pointer = nullptr;
  CHECK(cudaMallocManaged(&pointer, bytes, cudaMemAttachGlobal));
  return Memory(static_cast<float*>(pointer));
}

// The buffers of the copies: allocated once and kept until the size changes.
struct Buffers {
  std::size_t bytes = 0;
  std::vector<float> source, back;
  Memory device;

  void resize(std::size_t wanted) {
    if (wanted == bytes) return;
    bytes = 0;
    device.reset();
    device = device_memory(wanted);
    source.assign(wanted / sizeof(float), 0.0f);
    back.assign(wanted / sizeof(float), 0.0f);
    bytes = wanted;
  }

  void poison() { std::fill(back.begin(), back.end(), std::numeric_limits<float>::quiet_NaN()); }
} buffers;

// With "wait" it measures until the data have arrived, otherwise until the call has returned.
Answer copy_from_host(const Request& request) {
  const std::size_t bytes = request.number("bytes");
  const bool wait = request.flag("wait");
  buffers.resize(bytes);
  peer::fresh(buffers.source.data(), buffers.source.size(), request.number("round"));
  const auto work = [&] {
    CHECK(cudaMemcpy(buffers.device.get(), buffers.source.data(), bytes, cudaMemcpyHostToDevice));
    if (wait) finish();
  };
  const double seconds = peer::time_each(request.number("repeats"), work, finish);
  buffers.poison();
  CHECK(cudaMemcpy(buffers.back.data(), buffers.device.get(), bytes, cudaMemcpyDeviceToHost));
  return {seconds, peer::equal(buffers.back, buffers.source)};
}

Answer copy_to_host(const Request& request) {
  const std::size_t bytes = request.number("bytes");
  buffers.resize(bytes);
  peer::fresh(buffers.source.data(), buffers.source.size(), request.number("round"));
  CHECK(cudaMemcpy(buffers.device.get(), buffers.source.data(), bytes, cudaMemcpyHostToDevice));
  buffers.poison();
  const auto work = [&] {
    CHECK(cudaMemcpy(buffers.back.data(), buffers.device.get(), bytes, cudaMemcpyDeviceToHost));
  };
  const double seconds = peer::time_each(request.number("repeats"), work, finish);
  return {seconds, peer::equal(buffers.back, buffers.source)};
}

Answer allocate(const Request& request) {
  const std::size_t bytes = request.number("bytes");
  const auto work = [&] {
    void* pointer = nullptr;
    CHECK(cudaMallocManaged(&pointer, bytes, cudaMemAttachGlobal));
    CHECK(cudaFree(pointer));
  };
  const double seconds = peer::time_each(request.number("repeats"), work, finish);
  const Memory memory = managed_memory(bytes);
  volatile float* last = memory.get() + bytes / sizeof(float) - 1;
  *last = static_cast<float>(request.number("round") + 1);
  return {seconds, *last == static_cast<float>(request.number("round") + 1)};
}

// Managed memory that the host has just written moves to the GPU. The memory is freed after each sample, so that um_bench keeps
// its limit on managed memory. It moves once before the timed prefetch.
Answer prefetch(const Request& request) {
  const std::size_t bytes = request.number("bytes"), count = bytes / sizeof(float);
  const cudaMemLocation device{cudaMemLocationTypeDevice, {0}}, host{cudaMemLocationTypeHost, {0}};
  const Memory memory = managed_memory(bytes);
  std::vector<float> expected(count), back(count, std::numeric_limits<float>::quiet_NaN());
  peer::fresh(expected.data(), count, request.number("round"));
  std::fill(memory.get(), memory.get() + count, std::numeric_limits<float>::quiet_NaN());
  CHECK(cudaMemPrefetchAsync(memory.get(), bytes, device, 0, cudaStreamPerThread));
  CHECK(cudaMemPrefetchAsync(memory.get(), bytes, host, 0, cudaStreamPerThread));
  finish();
  std::copy(expected.begin(), expected.end(), memory.get());
  const auto work = [&] {
    CHECK(cudaMemPrefetchAsync(memory.get(), bytes, device, 0, cudaStreamPerThread));
    CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  };
  const double seconds = peer::time_each(1, work, finish);
  CHECK(cudaMemcpy(back.data(), memory.get(), bytes, cudaMemcpyDefault));
  return {seconds, peer::equal(back, expected)};
}

}  // namespace

int main() {
  peer::Answers answers;
  try {
    int version = 0;
    open_gpu();
    CHECK(cudaRuntimeGetVersion(&version));
    return peer::serve(answers,
                       {{"copy_from_host", copy_from_host},
                        {"copy_to_host", copy_to_host},
                        {"allocate", allocate},
                        {"prefetch", prefetch},
                        {"step", step}},
                       "CUDA C++, runtime " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10));
  } catch (const std::exception& error) {
    return peer::refuse(answers, std::string("CUDA C++ finds no GPU: ") + error.what());
  }
}
