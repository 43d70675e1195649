// The device itself: clock, memory, random generator, and what torch needs to know a device at all.
#include "neuroncore.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/ApproximateClock.h>
#include <c10/util/hash.h>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace neuroncore {

constexpr int64_t kLaunchLatency = 5'000;  // ns from the host's call to the core's start, if the core is idle
constexpr int64_t kIdle = 3'000;           // ns without work after which a core is throttled
constexpr double kShortest = 0.1;          // of its cost, however large the jitter

namespace {

std::mutex error_mutex;
std::string error_left;

void spin_until(int64_t target) {
  while (c10::getTimeSinceEpoch() < target) {
  }
}

}  // namespace

void leave_error(const std::string& message) {
  std::lock_guard lock(error_mutex);
  error_left = message;
}

void open_core() {
  TORCH_CHECK(!switches.absent, "NEURON_RT: nrt_init failed: no Neuron device found");
  TORCH_CHECK(!switches.busy, "NEURON_RT: nrt_init failed to acquire core 0: it is in use by another process");
  static const auto opened_in = getpid();
  TORCH_CHECK(getpid() == opened_in, "NEURON_RT: core 0 was opened before a fork; start processes with spawn");
  std::string error;
  {
    std::lock_guard lock(error_mutex);
    error.swap(error_left);
  }
  TORCH_CHECK(error.empty(), error);
}

void Loader::load(const Neff& neff) {
  if (!build) {
    return;
  }
  {
    std::lock_guard lock(mutex_);
    if (!loaded_.insert(neff.id).second) {
      return;
    }
  }
  build(neff);
}

void Timeline::execute(const Neff& neff, bool joins) {
  spin_until(c10::getTimeSinceEpoch() + std::llround(switches.dispatch * 1000));
  Execution run{neff.kernel};
  run.bind = c10::getTimeSinceEpoch();
  Recorder::launched(run);
  std::lock_guard lock(mutex_);
  const auto own = cost(neff.kernel);
  if (joins && switches.join > 1) {
    waiting_.push_back({neff, own, std::move(run)});
    if (waiting_.size() == switches.join) {
      submit_waiting();
    }
    return;
  }
  submit_waiting();
  submit(neff, own, std::move(run));
}

int64_t Timeline::cost(const std::string& kernel) {
  const auto call = calls_[kernel]++;
  const auto known = switches.costs.find(kernel);
  const auto us = known == switches.costs.end() ? switches.default_cost : known->second[call % known->second.size()];
  return std::llround(us * 1000);
}

// A group takes as long as its longest operator, and belongs to the last.
void Timeline::submit_waiting() {
  if (waiting_.empty()) {
    return;
  }
  auto [joined, longest, run] = waiting_.back();
  for (size_t i = waiting_.size() - 1; i-- > 0;) {
    joined.kernel = waiting_[i].neff.kernel + " + " + joined.kernel;
    joined.id = c10::hash_combine(joined.id, waiting_[i].neff.id);
    longest = std::max(longest, waiting_[i].cost);
  }
  waiting_.clear();
  run.kernel = joined.kernel;
  run.bind = c10::getTimeSinceEpoch();
  submit(joined, longest, std::move(run));
}

void Timeline::submit(const Neff& neff, int64_t cost, Execution run) {
  run.schedule = c10::getTimeSinceEpoch();
  run.start = std::max(run.schedule + kLaunchLatency, free_at_ + std::lround(switches.gap * 1000));
  run.throttled = switches.throttle != 1 && run.start - free_at_ > kIdle;
  double length = static_cast<double>(cost) * (run.throttled ? switches.throttle : 1);
  if (switches.jitter > 0) {
    if (!random_) {
      random_ = std::make_unique<std::mt19937_64>(switches.seed);
    }
    length *= std::max(kShortest, std::normal_distribution(1.0, switches.jitter)(*random_));
  }
  if (executed_.insert(neff.id).second) {
    length += switches.first_execution * 1000;
  }
  run.end = free_at_ = run.start + std::llround(length);
  run.flow = ++submissions_;
  run.scheduled = c10::getTimeSinceEpoch();
  recorder.executed(std::move(run));
}

std::map<std::string, size_t> Timeline::calls() {
  std::lock_guard lock(mutex_);
  return calls_;
}

int64_t Timeline::free_at() {
  std::lock_guard lock(mutex_);
  return free_at_;
}

void Timeline::synchronize() {
  constexpr int64_t kOversleep = 200'000;  // a sleep ends this late at worst: spin through the rest
  int64_t target;
  {
    std::lock_guard lock(mutex_);
    submit_waiting();
    target = free_at_;
  }
  if (auto left = target - c10::getTimeSinceEpoch(); left > kOversleep) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(left - kOversleep));
  }
  spin_until(target);
  recorder.synchronized();
}

c10::DataPtr Memory::allocate(size_t bytes) {
  open_core();
  if (bytes == 0) {
    return {nullptr, kCore};
  }
  std::lock_guard lock(mutex_);
  TORCH_CHECK_WITH(OutOfMemoryError, current_ + bytes <= switches.total_memory,
                   "NEURON_RT: out of device memory: ", current_, " bytes in use, ", bytes, " more requested");
  void* block = c10::alloc_cpu(bytes);
  blocks_[block] = {bytes, false};
  if (!in_graph) {
    count(block, bytes);
  }
  return {block, block, raw_deleter(), kCore};
}

void Memory::count(void* block, size_t bytes) {
  blocks_[block].counted = true;
  current_ += bytes;
  allocated_ += bytes;
  peak_ = std::max(peak_, current_);
  c10::reportMemoryUsageToProfiler(block, static_cast<int64_t>(bytes), current_, current_, kCore);
}

void Memory::keep(const void* block) {
  std::lock_guard lock(mutex_);
  if (auto found = blocks_.find(block); found != blocks_.end() && !found->second.counted) {
    count(const_cast<void*>(block), found->second.bytes);
  }
}

void Memory::release(void* block) {
  std::lock_guard lock(mutex_);
  const auto [bytes, counted] = blocks_.extract(block).mapped();
  if (counted) {
    current_ -= bytes;
    freed_ += bytes;
    c10::reportMemoryUsageToProfiler(block, -static_cast<int64_t>(bytes), current_, current_, kCore);
  }
  c10::free_cpu(block);
}

c10::DeleterFnPtr Memory::raw_deleter() const {
  return [](void* block) { memory.release(block); };
}

void Memory::copy_data(void* to, const void* from, size_t bytes) const {
  std::memcpy(to, from, bytes);
}

void Memory::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = current_;
}

std::map<std::string, size_t> Memory::stats() {
  std::lock_guard lock(mutex_);
  return {{"current", current_}, {"peak", peak_}, {"allocated", allocated_}, {"freed", freed_}};
}

namespace {

struct Generator final : at::CPUGeneratorImpl {
  Generator() {
    device_ = kCore;
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
  void pose(bool as_cpu) {
    device_ = as_cpu ? c10::Device(c10::kCPU) : kCore;
  }
};

// One core, one stream: there is nothing to exchange.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  // As on the real device, an event is stamped by the host when it's recorded: it times the enqueueing.
  struct Mark {
    int64_t recorded, reached;
  };

  c10::DeviceType type() const override { return kCore.type(); }
  c10::Device exchangeDevice(c10::Device) const override { return kCore; }
  c10::Device getDevice() const override { return kCore; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.index() <= 0, "NEURON_RT: there is no core ", static_cast<int>(device.index()));
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return switches.absent ? 0 : 1; }

  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, kCore); }
  c10::Stream getDefaultStream(c10::Device) const override { return getStream(kCore); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return getStream(kCore); }
  c10::Stream getNewStream(c10::Device, int) const override { return getStream(kCore); }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream(kCore); }
  bool queryStream(const c10::Stream&) const override { return timeline.free_at() <= c10::getTimeSinceEpoch(); }
  void synchronizeStream(const c10::Stream&) const override { timeline.synchronize(); }
  void synchronizeDevice(c10::DeviceIndex) const override { timeline.synchronize(); }

  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    destroyEvent(*event, 0);
    *event = new Mark{c10::getTimeSinceEpoch(), timeline.free_at()};
  }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<Mark*>(event); }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Mark*>(event)->reached <= c10::getTimeSinceEpoch();
  }
  void synchronizeEvent(void*) const override { timeline.synchronize(); }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    return static_cast<double>(static_cast<Mark*>(to)->recorded - static_cast<Mark*>(from)->recorded) / 1e6;
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return !switches.absent; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return !switches.absent; }
  void init() const override { open_core(); }
  c10::DeviceIndex deviceCount() const override { return switches.absent ? 0 : 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<Generator>(); }
  at::Device getDeviceFromPtr(void*) const override { return kCore; }
};

}  // namespace

at::Generator& default_generator() {
  static auto generator = at::make_generator<Generator>();
  return generator;
}

PoseAsCpu::PoseAsCpu(at::Generator generator) : generator_(std::move(generator)) {
  generator_.get<Generator>()->pose(true);
}

PoseAsCpu::~PoseAsCpu() {
  generator_.get<Generator>()->pose(false);
}

void register_device() {
  static const Guard guard;
  c10::impl::registerDeviceGuard(kCore.type(), &guard);
  c10::SetAllocator(kCore.type(), &memory);
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // torch keeps it for the life of the process
}

}  // namespace neuroncore
