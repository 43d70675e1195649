// The Kineto plug-in: turns the core's executions into activities of the torch profiler.
#include "neuroncore.h"

#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/stubs/base.h>

#include <c10/util/ApproximateClock.h>

namespace neuroncore {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

thread_local std::vector<uint64_t> correlations;  // the operators open on this thread, the innermost last

// The physical cores of a logical one start a program one after the other, and end it within its time.
constexpr int64_t kLater = 300, kEarlier = 100;  // ns

}  // namespace

void Recorder::start() {
  std::lock_guard lock(mutex_);
  recording_ = true;
  running_.clear();
  last_handed_over_.clear();
  kept_.clear();
}

std::vector<Execution> Recorder::stop() {
  std::lock_guard lock(mutex_);
  recording_ = false;
  return kept_;
}

std::vector<Execution> Recorder::captured() {
  std::lock_guard lock(mutex_);
  return kept_;
}

void Recorder::launched(Execution& execution) {
  execution.correlation = correlations.empty() ? 0 : correlations.back();
  execution.thread = libkineto::systemThreadId();
}

void Recorder::executed(Execution execution) {
  std::lock_guard lock(mutex_);
  if (recording_) {
    running_.push_back(std::move(execution));
  }
}

void Recorder::synchronized() {
  std::lock_guard lock(mutex_);
  kept_.insert(kept_.end(), last_handed_over_.begin(), last_handed_over_.end());
  last_handed_over_ = std::move(running_);
  running_.clear();
}

namespace {

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(bool correlate) : correlate_(correlate) {}

  void start() override {
    recorder.start();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    executions_ = recorder.stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger&) override {}
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    buffer_->span = libkineto::TraceSpan(start, end, "NeuronCore");
    for (const auto& run : executions_) {
      const auto* op = linked(static_cast<int32_t>(run.correlation));
      add(logger, ActivityType::PRIVATEUSE1_DRIVER, "nrta_tensor_bind", run, run.bind, run.schedule, op);
      add(logger, ActivityType::PRIVATEUSE1_RUNTIME, "nrta_execute_schedule", run, run.schedule, run.scheduled, op);
      for (int32_t core = 0; correlate_ && core < switches.physical_cores; ++core) {
        add(logger, ActivityType::CONCURRENT_KERNEL, "nc_exec_running: " + run.kernel, run, run.start + core * kLater,
            std::max(run.start + core * kLater, run.end - core * kEarlier), op, core);
      }
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(libkineto::DeviceInfo{kCore.index(), 0, "neuron", "NeuronCore (simulated)"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> lanes;
    for (int32_t core = 0; core < switches.physical_cores; ++core) {
      lanes.push_back({core, core, kCore.index(), "neuron_hw/NC0:" + std::to_string(core)});
    }
    return lanes;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { correlations.push_back(id); }
  void popCorrelationId() override {
    if (!correlations.empty()) {  // an operator may have begun before the session did
      correlations.pop_back();
    }
  }

 private:
  void add(libkineto::ActivityLogger& logger, ActivityType type, const std::string& name, const Execution& run,
           int64_t start, int64_t end, const libkineto::ITraceActivity* op, int32_t core = 0) {
    buffer_->emplace_activity(buffer_->span, type, name);
    auto& activity = *buffer_->activities.back();
    const bool on_core = type == ActivityType::CONCURRENT_KERNEL;
    activity.startTime = start;
    activity.endTime = end;
    activity.device = on_core ? kCore.index() : libkineto::processId();
    activity.resource = on_core ? core : run.thread;
    activity.threadId = run.thread;
    activity.id = static_cast<int32_t>(run.correlation);
    activity.linked = op;
    if (type != ActivityType::PRIVATEUSE1_DRIVER) {  // the arrow from the schedule to its execution
      activity.flow.id = run.flow;
      activity.flow.type = libkineto::kLinkAsyncCpuGpu;
      activity.flow.start = !on_core;
      if (switches.flow_ids) {
        activity.addMetadataQuoted("flow_id", std::to_string(run.flow));
      }
    }
    if (on_core) {
      activity.addMetadataQuoted("nc_idx", std::to_string(kCore.index()));
      activity.addMetadataQuoted("pcore_idx", std::to_string(core));
    }
    logger.handleGenericActivity(activity);
  }

  const bool correlate_;
  std::vector<Execution> executions_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return activities_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    if (types.count(ActivityType::CONCURRENT_KERNEL) == 0) {
      return nullptr;
    }
    // NeuronConfig passes it here; without a NeuronConfig device time is not correlated.
    return std::make_unique<Session>(config.getCustomConfig() == "correlate_device_time");
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t,
                                                                 const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  const std::string name_ = "neuron";
  const std::set<ActivityType> activities_{ActivityType::CONCURRENT_KERNEL, ActivityType::PRIVATEUSE1_RUNTIME,
                                           ActivityType::PRIVATEUSE1_DRIVER};
};

// The methods of torch's older, event-based profiler, which a PrivateUse1 back end registers as well.
struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, torch::profiler::impl::ProfilerVoidEventStub* event,
              int64_t* cpu_ns) const override {
    *device = 0;
    *cpu_ns = c10::getTimeSinceEpoch();
    *event = std::make_shared<int64_t>(*cpu_ns);
  }
  float elapsed(const torch::profiler::impl::ProfilerVoidEventStub* from,
                const torch::profiler::impl::ProfilerVoidEventStub* to) const override {
    return static_cast<float>(*static_cast<int64_t*>(to->get()) - *static_cast<int64_t*>(from->get())) / 1000;
  }
  void mark(const char*) const override {}
  void rangePush(const char*) const override {}
  void rangePop() const override {}
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> visit) const override { visit(0); }
  void synchronize() const override { timeline.synchronize(); }
};

}  // namespace

void register_profiler() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

}  // namespace neuroncore
