// What torch_neuronx, in Python, reaches of the simulated NeuronCore.
#include "neuroncore.h"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

namespace neuroncore {
namespace {

namespace py = pybind11;

// Runs a whole graph as one execution of the core.
py::object run_graph(const std::string& kernel, const py::function& graph, const py::args& inputs) {
  open_core();
  timeline.execute(kernel);
  at::DisableRecordFunctionGuard unseen;
  struct Scope {
    Scope() { in_graph = true; }
    ~Scope() { in_graph = false; }
  } scope;
  py::object outputs = graph(*inputs);
  for (const auto& output : outputs) {
    if (THPVariable_Check(output.ptr())) {
      const auto& tensor = THPVariable_Unpack(output.ptr());
      memory.keep(tensor.storage().data());
    }
  }
  return outputs;
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
      .def_readwrite("fallbacks", &Switches::fallbacks);
  module.attr("switches") = py::cast(&switches, py::return_value_policy::reference);
  module.def("register_device", [] {
    register_device();
    register_operators();
  });
  module.def("register_profiler", &register_profiler);
  module.def("open_core", &open_core);
  module.def("synchronize", [] { timeline.synchronize(); }, py::call_guard<py::gil_scoped_release>());
  module.def("run_graph", &run_graph);
  module.def("calls", [] { return timeline.calls(); });
  module.def("memory_stats", [] { return memory.stats(); });
  module.def("reset_peak_memory", [] { memory.reset_peak(); });
  module.def("default_generator", [] { return default_generator(); });
  module.def("executed_ops", [] { return copy_tracked(tracking.executed); });
  module.def("fallback_ops", [] { return copy_tracked(tracking.fallen_back); });
  module.def("clear_op_tracking", [] {
    std::lock_guard lock(tracking.mutex);
    tracking.executed.clear();
    tracking.fallen_back.clear();
  });
}

}  // namespace neuroncore
