// Operators: each runs on the CPU, on the device's own (host) memory, and counts as one execution of the core.
#include "neuroncore.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/record_function.h>
#include <c10/util/hash.h>
#include <torch/library.h>

namespace neuroncore {
namespace {

const c10::DispatchKeySet kHostKeys(c10::DispatchKey::CPU);
const c10::DispatchKeySet kCoreKeys(c10::DispatchKey::PrivateUse1);

bool on_core(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kCore.type();
}

// CPU tensors over the memory of device tensors, for the length of one operator.
class HostViews {
 public:
  at::Tensor of(const at::Tensor& tensor) {
    if (!on_core(tensor)) {
      return tensor;
    }
    pairs_.push_back({tensor, twin(tensor, storage_of(tensor), kHostKeys)});
    return pairs_.back().second;
  }

  // The device tensor for a result: an argument itself, a view of one, or else new device memory.
  at::Tensor back(const at::Tensor& result) const {
    if (!result.defined()) {
      return result;
    }
    for (const auto& [tensor, view] : pairs_) {
      if (result.is_same(view)) {
        return tensor;
      }
    }
    for (const auto& [tensor, view] : pairs_) {
      if (result.is_alias_of(view)) {
        return twin(result, tensor.storage(), kCoreKeys);
      }
    }
    return upload(result);
  }

  // An operator with an `out` argument may have resized its view.
  void adopt_resized() const {
    for (const auto& [tensor, view] : pairs_) {
      if (view.sizes() != tensor.sizes()) {
        const auto fresh = upload(view);
        tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(fresh.storage());
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(fresh.sizes(), fresh.strides());
      }
    }
  }

 private:
  // A tensor that looks as another does, over other storage.
  static at::Tensor twin(const at::Tensor& model, const c10::Storage& storage, c10::DispatchKeySet keys) {
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, model.dtype());
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(model.sizes(), model.strides(), model.storage_offset());
    tensor._set_conj(model.is_conj());
    tensor._set_neg(model.is_neg());
    return tensor;
  }

  // Tensors that share memory on the device must do so here too, or the CPU can't see their overlap.
  c10::Storage storage_of(const at::Tensor& tensor) const {
    for (const auto& [known, view] : pairs_) {
      if (known.is_alias_of(tensor)) {
        return view.storage();
      }
    }
    const auto& storage = tensor.storage();
    return {c10::Storage::use_byte_size_t(), storage.nbytes(),
            c10::DataPtr(storage.data_ptr().get(), c10::Device(c10::kCPU)), c10::GetAllocator(c10::kCPU), true};
  }

  static at::Tensor upload(const at::Tensor& host) {
    const auto dense = host.is_non_overlapping_and_dense() ? host : host.contiguous();
    at::Tensor tensor = at::detail::empty_strided_generic(dense.sizes(), dense.strides(), &memory, kCoreKeys,
                                                          dense.scalar_type());
    HostViews views;
    views.of(tensor).copy_(dense);
    return tensor;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

// Accounts for one operator: an execution of the core, or a wait for it if the host takes over. It is compiled anew
// for every `signature`, as `extend` makes it of the tensors that it is called with.
void account(const std::string& name, size_t signature) {
  if (in_graph) {
    return;
  }
  const bool falls_back = switches.fallbacks.count(name) != 0;
  if (!falls_back) {
    const Neff neff{name, c10::hash_combine(signature, std::hash<std::string>()(name))};
    loader.load(neff);
    timeline.execute(neff, true);
  } else {
    timeline.synchronize();
  }
  std::lock_guard lock(tracking.mutex);
  (falls_back ? tracking.fallen_back : tracking.executed).insert(name);
}

size_t extend(size_t signature, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return c10::hash_combine(signature, 0);
  }
  signature = c10::hash_combine(signature, static_cast<size_t>(tensor.scalar_type()));
  for (const auto size : tensor.sizes()) {
    signature = c10::hash_combine(signature, static_cast<size_t>(size));
  }
  return c10::hash_combine(signature, static_cast<size_t>(tensor.dim()));
}

size_t signature_of(std::initializer_list<at::Tensor> tensors) {
  size_t signature = 0;
  for (const auto& tensor : tensors) {
    signature = extend(signature, tensor);
  }
  return signature;
}

bool is_execution(const c10::FunctionSchema& schema) {
  static const std::set<std::string> bookkeeping{"aten::_local_scalar_dense", "aten::resize_"};
  const auto& results = schema.returns();
  const bool is_view = !results.empty() && results[0].alias_info() && !results[0].alias_info()->isWrite();
  return !is_view && bookkeeping.count(schema.name()) == 0;
}

bool returns_number(const c10::FunctionSchema& schema) {
  const auto kind = schema.returns().empty() ? c10::TypeKind::NoneType : schema.returns()[0].type()->kind();
  return kind == c10::TypeKind::NumberType || kind == c10::TypeKind::BoolType;
}

// Applies a function to every tensor of a value: one tensor, or a list of tensors that may be absent.
template <class Function>
c10::IValue map_tensors(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    return function(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    for (const at::Tensor& tensor : value.toTensorList()) {
      mapped.push_back(function(tensor));
    }
    return mapped;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      mapped.push_back(tensor ? std::optional(function(*tensor)) : std::nullopt);
    }
    return mapped;
  }
  return value;
}

size_t signature_of(c10::ArrayRef<c10::IValue> arguments) {
  size_t signature = 0;
  for (const auto& value : arguments) {
    map_tensors(value, [&](const at::Tensor& tensor) {
      signature = extend(signature, tensor);
      return tensor;
    });
  }
  return signature;
}

void run(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  open_core();
  const auto& schema = op.schema();
  if (is_execution(schema)) {
    account(schema.name(), signature_of(torch::jit::last(*stack, schema.arguments().size())));
  }
  if (returns_number(schema) && !in_graph) {
    timeline.synchronize();  // the host needs the value
  }

  at::DisableRecordFunctionGuard unseen;  // the CPU's inner operators are not the device's
  HostViews views;
  std::optional<PoseAsCpu> pose;
  const auto first = stack->size() - schema.arguments().size();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    auto& value = (*stack)[first + i];
    if (value.isDevice()) {
      value = c10::Device(c10::kCPU);
    } else if (schema.arguments()[i].name() == "generator") {
      value = value.isNone() ? default_generator() : value.toGenerator();
      pose.emplace(value.toGenerator());
    } else {
      const bool may_differ = value.isOptionalTensorList();  // indices may be the host's
      value = map_tensors(value, [&](const at::Tensor& tensor) {
        TORCH_CHECK(may_differ || !tensor.defined() || on_core(tensor) || tensor.dim() == 0,
                    "Expected all tensors to be on the same device, but found at least two devices, neuron:0 and ",
                    tensor.device(), "! (when checking an argument of ", schema.name(), ")");
        return views.of(tensor);
      });
    }
  }
  op.redispatchBoxed(kHostKeys, stack);
  views.adopt_resized();
  for (auto& value : *stack) {
    value = map_tensors(value, [&](const at::Tensor& tensor) { return views.back(tensor); });
  }
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool) {
  open_core();
  if (on_core(self) && on_core(source)) {
    account("aten::copy_", signature_of({self, source}));
  } else if (!on_core(self) && !in_graph) {
    timeline.synchronize();  // a copy to the host waits for its source
  }
  at::DisableRecordFunctionGuard unseen;
  HostViews views;
  views.of(self).copy_(views.of(source));
  return self;
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, kCoreKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, kCoreKeys, c10::dtype_or_default(dtype));
}

// torch has no CPU kernel for this one.
std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& input,
                                                     c10::IntArrayRef shape, const at::Tensor& rstd,
                                                     const std::optional<at::Tensor>& weight, std::array<bool, 2>) {
  account("aten::_fused_rms_norm_backward", signature_of({grad, input}));
  at::DisableRecordFunctionGuard unseen;
  HostViews views;
  const auto scale = views.of(rstd), normed = views.of(input).mul(scale), upstream = views.of(grad).to(scale.dtype());
  const auto scaled = weight && weight->defined() ? upstream.mul(views.of(*weight)) : upstream;
  std::vector<int64_t> inner, outer;
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    (dim < input.dim() - static_cast<int64_t>(shape.size()) ? outer : inner).push_back(dim);
  }
  const auto grad_input = scaled.sub(normed.mul(scaled.mul(normed).mean(inner, true))).mul(scale);
  at::Tensor grad_weight;
  if (weight && weight->defined()) {
    const auto product = upstream.mul(normed);
    grad_weight = views.back((outer.empty() ? product : product.sum(outer)).to(weight->dtype()));
  }
  return {views.back(grad_input.to(input.dtype())), grad_weight};
}

}  // namespace

void as_a_graph(const std::function<void()>& body) {
  at::DisableRecordFunctionGuard unseen;
  struct Scope {
    Scope() { in_graph = true; }
    ~Scope() { in_graph = false; }
  } scope;
  body();
}

void as_an_operator(const std::string& name, const std::function<void()>& body) {
  RECORD_FUNCTION(name, c10::ArrayRef<const c10::IValue>{});
  body();
}

void register_operators() {
  using torch::CppFunction;
  static torch::Library fallback(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  fallback.fallback(CppFunction::makeFromBoxedFunction<&run>());

  static torch::Library aten(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("as_strided", &at::native::as_strided_tensorimpl);
  aten.impl("set_.source_Storage", static_cast<at::Tensor& (*)(at::Tensor&, at::Storage)>(&at::native::set_));
  aten.impl("set_.source_Tensor", &at::native::set_tensor_);
  aten.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
  aten.impl("copy_", &copy_);
  aten.impl("_fused_rms_norm", CppFunction::makeFromBoxedFunction<&run>());
  aten.impl("_fused_rms_norm_backward", &rms_norm_backward);

  // torch's default for a structured operator calls its out= overload, which would show every one twice.
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (op && name.name.rfind("aten::", 0) == 0 && op->hasSchema() &&
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
        op->hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
      aten.impl(toString(name).c_str(), CppFunction::makeFromBoxedFunction<&run>());
    }
  }
}

}  // namespace neuroncore
