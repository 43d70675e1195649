// What torch_neuronx, in Python, reaches of the simulated NeuronCore.
#include "neuroncore.h"

#include <c10/util/hash.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Generator.h>

namespace neuroncore {
namespace {

namespace py = pybind11;

// torch's own header for this takes longer to compile than all else here.
bool is_tensor(py::handle value) {
  return py::isinstance(value, py::module_::import("torch").attr("Tensor"));
}

// Calls a function whose operators are no executions of their own. What it returns counts as memory.
py::object call_whole(const py::function& function, const py::args& inputs) {
  py::object outputs;
  as_a_graph([&] { outputs = function(*inputs); });
  const auto keep = [](py::handle output) {
    if (is_tensor(output)) {
      memory.keep(reinterpret_cast<const void*>(output.attr("untyped_storage")().attr("data_ptr")().cast<uintptr_t>()));
    }
  };
  if (py::isinstance<py::tuple>(outputs) || py::isinstance<py::list>(outputs)) {
    for (const auto& output : outputs) {
      keep(output);
    }
  } else {
    keep(outputs);
  }
  return outputs;
}

// Runs a compiled graph as one execution of the core.
py::object run_graph(const std::string& kernel, uint64_t neff, const py::function& graph, const py::args& inputs) {
  open_core();
  timeline.execute({kernel, neff});
  return call_whole(graph, inputs);
}

// Runs a kernel that is written in Python as one execution of the core, under an operator of its name; within a compiled
// graph as a part of that.
py::object execute(const std::string& kernel, const py::function& function, const py::args& inputs) {
  if (in_graph) {
    return function(*inputs);
  }
  open_core();
  Neff neff{kernel, std::hash<std::string>()(kernel)};
  for (const auto& input : inputs) {
    if (is_tensor(input)) {
      for (const auto size : input.attr("shape")) {
        neff.id = c10::hash_combine(neff.id, size.cast<size_t>());
      }
    }
  }
  py::object outputs;
  as_an_operator(kernel, [&] {
    loader.load(neff);
    timeline.execute(neff);
    outputs = call_whole(function, inputs);
  });
  return outputs;
}

py::dict as_dict(const Execution& run) {
  using namespace py::literals;
  return py::dict("kernel"_a = run.kernel, "start"_a = run.start, "end"_a = run.end, "schedule"_a = run.schedule,
                  "scheduled"_a = run.scheduled, "flow"_a = run.flow, "throttled"_a = run.throttled);
}

std::set<std::string> copy_tracked(const std::set<std::string>& names) {
  std::lock_guard lock(tracking.mutex);
  return names;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  py::class_<Switches>(module, "Switches")
      .def_readwrite("absent", &Switches::absent)
      .def_readwrite("busy", &Switches::busy)
      .def_readwrite("total_memory", &Switches::total_memory)
      .def_readwrite("costs", &Switches::costs)
      .def_readwrite("default_cost", &Switches::default_cost)
      .def_readwrite("fallbacks", &Switches::fallbacks)
      .def_readwrite("jitter", &Switches::jitter)
      .def_readwrite("seed", &Switches::seed)
      .def_readwrite("dispatch", &Switches::dispatch)
      .def_readwrite("first_execution", &Switches::first_execution)
      .def_readwrite("gap", &Switches::gap)
      .def_readwrite("throttle", &Switches::throttle)
      .def_readwrite("join", &Switches::join)
      .def_readwrite("physical_cores", &Switches::physical_cores)
      .def_readwrite("flow_ids", &Switches::flow_ids);
  module.attr("switches") = py::cast(&switches, py::return_value_policy::reference);
  module.def("register_device", [] {
    register_device();
    register_operators();
  });
  module.def("register_profiler", &register_profiler);
  module.def("open_core", &open_core);
  module.def("synchronize", [] { timeline.synchronize(); }, py::call_guard<py::gil_scoped_release>());
  module.def("run_graph", &run_graph);
  module.def("execute", &execute);
  module.def("leave_error", &leave_error);
  module.def("on_build", [](py::function build) {
    // kept for the life of the process, as the loader is
    auto* held = new py::function(std::move(build));
    loader.build = [held](const Neff& neff) {
      py::gil_scoped_acquire gil;
      (*held)(neff.kernel, neff.id);
    };
  });
  module.def("captured", [] {
    py::list captured;
    for (const auto& run : recorder.captured()) {
      captured.append(as_dict(run));
    }
    return captured;
  });
  module.def("calls", [] { return timeline.calls(); });
  module.def("memory_stats", [] { return memory.stats(); });
  module.def("reset_peak_memory", [] { memory.reset_peak(); });
  module.def("default_generator", [] { return py::reinterpret_steal<py::object>(THPGenerator_Wrap(default_generator())); });
  module.def("executed_ops", [] { return copy_tracked(tracking.executed); });
  module.def("fallback_ops", [] { return copy_tracked(tracking.fallen_back); });
  module.def("clear_op_tracking", [] {
    std::lock_guard lock(tracking.mutex);
    tracking.executed.clear();
    tracking.fallen_back.clear();
  });
}

}  // namespace neuroncore
