// A step of a framework: temporaries from cudaMallocAsync, small kernels on two streams.
#pragma once

#include <array>
#include <limits>
#include <sstream>

#include "../cpp/gpu.hpp"
#include "../cpp/peer.hpp"

// The PTX of the kernel, which the build names.
extern "C" const char scale_ptx[];
asm(".pushsection .rodata\n.global scale_ptx\nscale_ptx:\n.incbin \"" SCALE_PTX "\"\n.byte 0\n.popsection\n");

class Step {
 public:
  explicit Step(const std::string& plan) {
    std::istringstream words(plan);
    for (Op op; words >> op.letter >> op.slot >> op.count;) {
      if (op.slot >= slots_.size()) throw std::runtime_error("the plan has too many slots");
      if (op.letter == 'c') longest_ = std::max(longest_, op.count);
      plan_.push_back(op);
    }
    CHECK(cudaLibraryLoadData(&library_, scale_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cudaLibraryGetKernel(&scale_, library_, "scale_in_place_f32"));
    for (auto& stream : streams_) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }

  ~Step() {
    cudaDeviceSynchronize();
    for (const auto stream : streams_) cudaStreamDestroy(stream);
    cudaLibraryUnload(library_);
  }

  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  // The elements of the longest slice, which the checked temporary also has.
  std::size_t longest() const { return longest_; }

  // Does the operations; see ../peer.py. `read` gets the first `reads` elements of the checked temporary.
  void run(const float* source, float* read, std::size_t reads) {
    for (const Op& op : plan_) {
      const cudaStream_t stream = streams_[op.slot % 2];
      Slot& slot = slots_[op.slot];
      switch (op.letter) {
        case 'a':
        case 'c':
          slot.count = op.count;
          CHECK(cudaMallocAsync(&slot.data, op.count * sizeof(float), stream));
          if (op.letter == 'a') break;
          CHECK(cudaMemcpyAsync(slot.data, source, op.count * sizeof(float), cudaMemcpyHostToDevice, stream));
          break;
        case 'k':
          scale(slot, stream);
          break;
        case 'r':
          CHECK(cudaMemcpyAsync(read, slot.data, reads * sizeof(float), cudaMemcpyDeviceToHost, stream));
          CHECK(cudaStreamSynchronize(stream));
          break;
        case 'f':
          CHECK(cudaFreeAsync(slot.data, stream));
          break;
        default:
          throw std::runtime_error(std::string("the plan has no operation ") + op.letter);
      }
    }
  }

 private:
  struct Op {
    char letter;
    std::size_t slot, count;
  };
  struct Slot {
    void* data = nullptr;
    unsigned long long count = 0;
  };

  void scale(Slot& slot, cudaStream_t stream) {
    float factor = 2.0f;
    void* arguments[] = {&slot.data, &factor, &slot.count};
    const dim3 grid(static_cast<unsigned>((slot.count + 255) / 256)), block(256);
    CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(scale_), grid, block, arguments, 0, stream));
  }

  std::vector<Op> plan_;
  std::size_t longest_ = 0;
  std::array<Slot, 64> slots_;
  std::array<cudaStream_t, 2> streams_{};
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t scale_ = nullptr;
};

inline peer::Answer step(const peer::Request& request) {
  Step work(request.text("plan"));
  const std::size_t steps = std::max<std::size_t>(request.number("steps"), 1);
  const float factor = static_cast<float>(request.number("factor"));  // of all kernels of the checked temporary
  std::vector<float> source(work.longest());
  peer::fresh(source.data(), source.size(), request.number("round"));
  const auto finish = [] { CHECK(cudaDeviceSynchronize()); };
  const auto all = [&] {
    for (std::size_t i = 0; i < steps; ++i) {
      float number = std::numeric_limits<float>::quiet_NaN();
      work.run(source.data(), &number, 1);
      if (number != source[0] * factor) throw std::runtime_error("WRONG RESULT: the number of a step");
    }
    finish();
  };
  const double seconds = peer::time_each(1, all, finish) / static_cast<double>(steps);
  std::vector<float> back(work.longest(), std::numeric_limits<float>::quiet_NaN());
  work.run(source.data(), back.data(), back.size());
  for (float& number : source) number *= factor;
  return {seconds, peer::equal(back, source)};
}
