// What the parts of the simulated NeuronCore share: its switches, its clock, its memory and its recorder.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <random>
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
  double jitter = 0;  // relative standard deviation of an execution's time
  uint64_t seed = 0;
  double dispatch = 0;         // µs of the host, busy, for each dispatch
  double first_execution = 0;  // µs of the device in addition, at a NEFF's first execution
  double gap = 0;              // µs that the device stands idle between two executions, whatever the host does
  double throttle = 1;         // factor on the time of an execution that follows an idle core
  size_t join = 1;             // consecutive operators that become one execution
  int physical_cores = 1;      // of the logical core
  bool flow_ids = true;        // whether a trace says which submission an execution belongs to
};
inline Switches switches;

// Raises what the Neuron runtime raises if there is no core, if another process holds it, or if a compile that
// failed has left an error behind.
void open_core();

// Leaves an error behind, which the next operation raises.
void leave_error(const std::string& message);

// A program of the core: an operator for one set of shapes, or a compiled graph.
struct Neff {
  std::string kernel;  // what its cost is listed by
  uint64_t id;
};

// The eager NEFFs that this process has loaded. `build` is called for each that it has not, before its first execution.
class Loader {
 public:
  void load(const Neff& neff);
  std::function<void(const Neff&)> build;

 private:
  std::mutex mutex_;
  std::set<uint64_t> loaded_;
};
inline auto& loader = *new Loader;  // never destroyed: `build` is Python's

struct Execution {
  std::string kernel;
  uint64_t correlation;  // of the CPU operator that launched it
  int32_t thread;
  int64_t bind, schedule, scheduled, start, end;  // ns since the epoch, the profiler's clock
  uint32_t flow;                                  // number of the submission
  bool throttled;
};

// The core's timeline: executions queue up and run one after the other, each for its cost. Operators that are to be
// joined wait for the last of their group, or for the host to wait for them.
class Timeline {
 public:
  void execute(const Neff& neff, bool joins = false);
  void synchronize();
  int64_t free_at();
  std::map<std::string, size_t> calls();  // by kernel

 private:
  int64_t cost(const std::string& kernel);
  void submit(const Neff& neff, int64_t cost, Execution run);
  void submit_waiting();

  std::mutex mutex_;
  std::map<std::string, size_t> calls_;
  std::set<uint64_t> executed_;
  std::unique_ptr<std::mt19937_64> random_;
  int64_t free_at_ = 0;
  uint32_t submissions_ = 0;

  struct Waiting {
    Neff neff;
    int64_t cost;
    Execution run;
  };
  std::vector<Waiting> waiting_;
};
inline Timeline timeline;

// What the profiler sees. The core hands its results over when the host waits for it. torch.profiler
// itself waits just before it stops, which on the device is too late: what only that wait covered is lost.
class Recorder {
 public:
  void start();
  std::vector<Execution> stop();
  static void launched(Execution& execution);  // notes the operator and the thread that launch it now
  void executed(Execution execution);
  void synchronized();
  std::vector<Execution> captured();  // by the profile that ended last

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

void as_a_graph(const std::function<void()>& body);
void as_an_operator(const std::string& name, const std::function<void()>& body);  // which the profiler sees

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
