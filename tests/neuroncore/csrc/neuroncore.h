// What the parts of the simulated NeuronCore share: its switches, its clock, its memory and its recorder.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace neuroncore {

inline const c10::Device kCore{c10::DeviceType::PrivateUse1, 0};

// Set once by torch_neuronx at import, before the core is used.
struct Switches {
  bool absent = false;
  bool busy = false;
  size_t total_memory = 0;
  std::map<std::string, std::vector<double>> costs;  // µs; the calls of a kernel take its costs in turn
  double default_cost = 0;
  std::set<std::string> fallbacks;
};
inline Switches switches;

// Raises what the Neuron runtime raises if there is no core, or if another process holds it.
void open_core();

struct Execution {
  std::string kernel;
  uint64_t correlation;  // of the CPU operator that launched it
  int32_t thread;
  int64_t bind, schedule, scheduled, start, end;  // ns since the epoch, the profiler's clock
};

// The core's timeline: executions queue up and run one after the other, each for its fixed cost.
class Timeline {
 public:
  void execute(const std::string& kernel);
  void synchronize();
  int64_t free_at();
  std::map<std::string, size_t> calls();  // by kernel

 private:
  std::mutex mutex_;
  std::map<std::string, size_t> calls_;
  int64_t free_at_ = 0;
};
inline Timeline timeline;

// What the profiler sees. The core hands its results over when the host waits for it. torch.profiler
// itself waits just before it stops, which on the device is too late: what only that wait covered is lost.
class Recorder {
 public:
  void start();
  std::vector<Execution> stop();
  void executed(Execution execution);
  void synchronized();

 private:
  std::mutex mutex_;
  bool recording_ = false;
  std::vector<Execution> running_, last_handed_over_, kept_;
};
inline Recorder recorder;

// Device memory is host memory, counted. Inside a compiled graph intermediates live in on-chip scratch
// memory: they count only if `keep` says that the graph returns them.
class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* to, const void* from, size_t bytes) const override;
  void release(void* block);
  void keep(const void* block);
  void reset_peak();
  std::map<std::string, size_t> stats();

 private:
  void count(void* block, size_t bytes);

  struct Block {
    size_t bytes;
    bool counted;
  };
  std::mutex mutex_;
  std::map<const void*, Block> blocks_;
  size_t current_ = 0, peak_ = 0, allocated_ = 0, freed_ = 0;
};
inline auto& memory = *new Memory;  // never destroyed: at exit, tensors may outlive what is

at::Generator& default_generator();

// CPU kernels refuse a generator of another device, so the core's poses as one while they draw from it.
class PoseAsCpu {
 public:
  explicit PoseAsCpu(at::Generator generator);
  ~PoseAsCpu();

 private:
  at::Generator generator_;
};

// Set on the thread that runs a compiled graph, whose operators are no executions of their own.
inline thread_local bool in_graph = false;

// Names of the operators that ran on the core, or that fell back to the CPU, since the last clear.
struct Tracking {
  std::mutex mutex;
  std::set<std::string> executed, fallen_back;
};
inline Tracking tracking;

void register_device();
void register_operators();
void register_profiler();

}  // namespace neuroncore
