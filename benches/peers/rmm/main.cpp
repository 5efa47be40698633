// RMM, the RAPIDS Memory Manager, for um_bench: allocate and free from C++.
//
// librmm.so contains its own runtime. No handles are passed between the two runtimes; both use the device's primary context.
#include <memory>
#include <rmm/aligned.hpp>
#include <rmm/cuda_stream.hpp>
#include <rmm/mr/cuda_async_memory_resource.hpp>
#include <rmm/mr/managed_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>

#include "../cpp/gpu.hpp"
#include "../cpp/peer.hpp"

namespace {

using peer::Answer;
using peer::Request;

// Enough for the measured allocations, and far below um_bench's limit on managed memory.
constexpr std::size_t POOL = std::size_t{64} << 20;

constexpr std::size_t ALIGNMENT = rmm::CUDA_ALLOCATION_ALIGNMENT;

template <class Resource>
Answer measure(Resource& resource, const Request& request, cuda::stream_ref stream) {
  const std::size_t bytes = request.number("bytes");
  const auto finish = [&] { CHECK(cudaStreamSynchronize(stream.get())); };
  const auto work = [&] {
    void* pointer = resource.allocate(stream, bytes, ALIGNMENT);
    resource.deallocate(stream, pointer, bytes, ALIGNMENT);
  };
  const double seconds = peer::time_each(request.number("repeats"), work, finish);
  // The last number of each allocation is written and read back with cudaMemcpy, because the host cannot access the memory of
  // every resource.
  const float expected = static_cast<float>(request.number("round") + 1);
  float found = 0.0f;
  void* pointer = resource.allocate(stream, bytes, ALIGNMENT);
  finish();
  float* last = static_cast<float*>(pointer) + bytes / sizeof(float) - 1;
  const cudaError_t to = cudaMemcpy(last, &expected, sizeof expected, cudaMemcpyDefault);
  const cudaError_t from = cudaMemcpy(&found, last, sizeof found, cudaMemcpyDefault);
  resource.deallocate(stream, pointer, bytes, ALIGNMENT);
  finish();
  check(to, "cudaMemcpy to the memory");
  check(from, "cudaMemcpy from the memory");
  return {seconds, found == expected};
}

}  // namespace

int main() {
  peer::Answers answers;
  try {
    open_gpu();
  } catch (const std::exception& error) {
    return peer::refuse(answers, std::string("RMM finds no GPU: ") + error.what());
  }
  try {
    rmm::cuda_stream stream;
    rmm::mr::managed_memory_resource managed;
    std::unique_ptr<rmm::mr::pool_memory_resource> pool;
    std::unique_ptr<rmm::mr::cuda_async_memory_resource> in_order;
    const auto allocate = [&](const Request& request) -> Answer {
      const std::string memory = request.text("memory");
      const cuda::stream_ref on{stream.value()};
      if (memory == "managed") return measure(managed, request, on);
      if (memory == "pool") {
        if (!pool) pool = std::make_unique<rmm::mr::pool_memory_resource>(managed, POOL, POOL);
        return measure(*pool, request, on);
      }
      if (memory == "async") {
        if (!in_order) in_order = std::make_unique<rmm::mr::cuda_async_memory_resource>();
        return measure(*in_order, request, on);
      }
      throw std::runtime_error("RMM has no memory " + memory);
    };
    return peer::serve(answers, {{"allocate", allocate}}, "RMM " RMM_PINNED_VERSION ", from C++");
  } catch (const std::exception& error) {
    return peer::refuse(answers, std::string("RMM: ") + error.what());
  }
}
