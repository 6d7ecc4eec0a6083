#include "tests/support/simulated_device/simulated_device.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/ScopeExit.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/simulated_device/simulated_memory.hpp"
#include "tests/support/simulated_device/simulated_streams.hpp"

namespace adjoin::testing {

namespace {

using namespace simulated;
using Sizes = at::IntArrayRef;
using SymSizes = c10::SymIntArrayRef;
using c10::Device;
using c10::Stream;

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

std::atomic<int64_t> waits = 0;
thread_local bool is_in_kernel = false;  // what is copied then would stay on a device

void count_wait() {
  if (!is_in_kernel) ++waits;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  Device exchangeDevice(Device device) const override {
    const Device before = getDevice();
    setDevice(device);
    return before;
  }
  Device getDevice() const override { return {kType, current_device()}; }
  void setDevice(Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(Device device) const noexcept override { set_current_device(device.index()); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  Stream getStream(Device device) const override { return current_stream(index_of(device)); }
  Stream getDefaultStream(Device device) const override { return default_stream(index_of(device)); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return stream_from_pool(index_of(device)); }
  Stream exchangeStream(Stream stream) const override {
    const Stream before = getStream(stream.device());
    set_current_stream(stream);
    return before;
  }
  bool queryStream(const Stream& stream) const override { return running(stream).is_idle(); }
  void synchronizeStream(const Stream& stream) const override {
    count_wait();
    running(stream).synchronize();
  }
  void synchronizeDevice(c10::DeviceIndex index) const override {
    count_wait();
    for (DelayedStream* stream : running_on(index)) stream->synchronize();
  }

  void record(void** event, const Stream& stream, c10::DeviceIndex index, c10::EventFlag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "an event belongs to the device of its first stream");
    if (!*event) *event = new DelayedEvent;
    static_cast<DelayedEvent*>(*event)->record(running(stream));
  }
  void block(void* event, const Stream& stream) const override {
    static_cast<const DelayedEvent*>(event)->block(running(stream));
  }
  bool queryEvent(void* event) const override { return static_cast<const DelayedEvent*>(event)->is_reached(); }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override { delete static_cast<DelayedEvent*>(event); }
  void synchronizeEvent(void* event) const override {
    count_wait();
    static_cast<const DelayedEvent*>(event)->synchronize();
  }

 private:
  c10::DeviceIndex index_of(Device device) const { return device.index() < 0 ? current_device() : device.index(); }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    synchronize_current();
    at::DataPtr resized = memory().allocate(bytes);
    if (storage.data() && resized.get())
      memory().copy_data(resized.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(resized));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
};
const bool is_registered = [] {
  // Tests of another device (tests/support/tested_device.hpp): LibTorch would take this one for the machine's accelerator.
  if (std::getenv("ADJOIN_TEST_DEVICE") != nullptr) return false;
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  c10::register_privateuse1_backend("privateuseone");  // its own name: autograd asks whether it has one
  return true;
}();

/// The same memory as a tensor of the CPU, which may be used while the memory is open.
at::Tensor as_cpu(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  return at::from_blob(const_cast<void*>(x.const_data_ptr()), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(Sizes sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_generic(sizes, &memory(), kKeys, c10::dtype_or_default(type), format);
}
at::Tensor empty_strided(Sizes sizes, Sizes strides, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(c10::device_or_default(device));
  return at::detail::empty_strided_generic(sizes, strides, &memory(), kKeys, c10::dtype_or_default(type));
}

/// The same memory as a tensor that does not own it, as a kernel that is enqueued has it.
at::Tensor not_owned(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  return at::for_blob(const_cast<void*>(x.const_data_ptr()), x.sizes())
      .strides(x.strides())
      .options(x.options())
      .target_device(x.device())
      .make_tensor();
}

/// Enqueues a kernel on the current streams of the devices that it touches.
void enqueue(const std::vector<c10::DeviceIndex>& devices, std::function<void()> kernel) {
  std::vector<DelayedStream*> streams;
  for (const c10::DeviceIndex device : devices) streams.push_back(&running(current_stream(device)));
  enqueue_in_order(streams, [kernel = std::move(kernel)] {
    is_in_kernel = true;  // always, on a stream's thread
    kernel();
  });
}

void copy_now(const at::Tensor& from, const at::Tensor& to) {
  const OpenMemory open{from, to};
  as_cpu(to).copy_(as_cpu(from));
}
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  if (to.numel() == 0) return to;
  if (!is_in_kernel && from.is_privateuseone() && to.is_privateuseone()) {
    enqueue({from.device().index(), to.device().index()},
            [x = not_owned(from.detach()), y = not_owned(to.detach())] { copy_now(x, y); });
    return to;
  }
  if (!is_in_kernel) synchronize_current();
  if (to.is_cpu()) count_wait();
  copy_now(from, to);
  return to;
}
at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}
at::Scalar item(const at::Tensor& x) {
  if (!is_in_kernel) synchronize_current();
  count_wait();
  const OpenMemory open{x};
  return at::native::_local_scalar_dense_cpu(as_cpu(x));
}

// What makes views of memory, or other memory, without looking at it: LibTorch's own functions.
const at::Tensor& resize_(const at::Tensor& x, SymSizes sizes, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(x.device());
  return at::native::resize_(x, C10_AS_INTARRAYREF_SLOW(sizes), format);
}
at::Tensor reshape_alias(const at::Tensor& x, SymSizes sizes, SymSizes strides) {
  return at::native::_reshape_alias(x, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides));
}
at::Tensor view(const at::Tensor& x, SymSizes sizes) {
  return at::native::view(x, C10_AS_INTARRAYREF_SLOW(sizes));
}
at::Tensor as_strided(const at::Tensor& x, SymSizes sizes, SymSizes strides, std::optional<c10::SymInt> offset) {
  return at::cpu::as_strided_symint(x, sizes, strides, std::move(offset));
}
at::Tensor& set_part(at::Tensor& x, at::Storage storage, int64_t offset, Sizes sizes, Sizes strides) {
  return at::cpu::set_(x, std::move(storage), offset, sizes, strides);
}
at::Tensor& set_storage(at::Tensor& x, at::Storage storage) {
  return at::native::set_(x, std::move(storage));
}

/// Where LibTorch has no fallback: the operation on copies.
at::Tensor convolution(const at::Tensor& x, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       Sizes stride, Sizes padding, Sizes dilation, bool transposed, Sizes output, int64_t groups) {
  return at::convolution(x.cpu(), weight.cpu(), bias ? std::optional(bias->cpu()) : bias, stride, padding, dilation,
                         transposed, output, groups)
      .to(x.device());
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(const at::Tensor& dy, const at::Tensor& x,
                                                                    const at::Tensor& weight, Sizes stride,
                                                                    Sizes padding, Sizes dilation, bool transposed,
                                                                    Sizes output, int64_t groups,
                                                                    std::array<bool, 3> mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  const auto [dx, dw, db] = at::convolution_backward(dy.cpu(), x.cpu(), weight.cpu(), Sizes{channels}, stride, padding,
                                                     dilation, transposed, output, groups, mask);
  const auto back = [&](const at::Tensor& t) { return t.defined() ? t.to(x.device()) : t; };
  return {back(dx), back(dw), back(db)};
}

/// Operations on tensors that write one of their arguments and nothing else. As on a GPU they are enqueued, so that a stream that does not
/// wait for another one has other numbers. All other operations wait for the thread's own streams and run at once.
const std::set<std::string> kEnqueued = {"add",         "mul",         "div",        "fill",        "zero",
                                         "ne",          "minimum",     "maximum",    "bitwise_and", "bitwise_or",
                                         "bitwise_xor", "logical_and", "logical_or", "logical_xor"};

/// The number of the one argument that an operation writes, if it is to be enqueued.
std::optional<size_t> enqueued_result(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments) {
  std::string name = schema.name().substr(std::string("aten::").size());
  if (name.ends_with('_')) name.pop_back();
  if (!kEnqueued.contains(name)) return std::nullopt;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (const auto* alias = schema.arguments()[i].alias_info(); alias && alias->isWrite())
      return arguments[i].toTensor().numel() > 0 ? std::optional(i) : std::nullopt;
  return std::nullopt;
}

/// Takes the arguments off the stack, puts the result there, and enqueues the kernel.
void enqueue_on_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack, size_t result) {
  torch::jit::Stack arguments = torch::jit::pop(*stack, operation.schema().arguments().size());
  stack->push_back(arguments[result]);
  std::vector<c10::DeviceIndex> devices;
  for (c10::IValue& argument : arguments) {
    if (!argument.isTensor()) continue;
    if (argument.toTensor().is_privateuseone()) devices.push_back(argument.toTensor().device().index());
    argument = not_owned(argument.toTensor().detach());
  }
  enqueue(devices, [operation, arguments] {
    torch::jit::Stack taken = arguments;
    at::native::cpu_fallback(operation, &taken, /*error_on_views=*/true);
  });
}

/// All other operations. LibTorch's fallback alone would accept tensors of the CPU beside those of the device.
void run_on_cpu(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const auto& schema = operation.schema();
  TORCH_CHECK(schema.operator_name().name.find("_for_cpu") == std::string::npos, schema.operator_name(),
              " has no kernel for this device");
  const auto check = [&](const at::Tensor& x) {
    TORCH_CHECK(!x.defined() || x.is_privateuseone() || x.dim() == 0,
                "Expected all tensors to be on the same device: ", schema.operator_name(), " got one on ", x.device(),
                " of shape ", x.sizes());
  };
  for (const c10::IValue& value : torch::jit::last(*stack, schema.arguments().size())) {
    if (value.isTensor()) check(value.toTensor());
    if (value.isTensorList())
      for (const at::Tensor& x : value.toTensorVector()) check(x);
    if (value.isOptionalTensorList())
      for (const auto& x : value.toOptionalTensorVector()) check(x.value_or(at::Tensor()));
  }
  if (!is_in_kernel) {
    if (const auto result = enqueued_result(schema, torch::jit::last(*stack, schema.arguments().size())))
      return enqueue_on_cpu(operation, stack, *result);
    synchronize_current();
  }
  const bool was_in_kernel = std::exchange(is_in_kernel, true);
  const auto leave = c10::make_scope_exit([&] { is_in_kernel = was_in_kernel; });
  at::native::cpu_fallback(operation, stack, /*error_on_views=*/true);
}

}  // namespace

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", item);
  m.impl("resize_", resize_);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("set_.source_Storage_storage_offset", set_part);
  m.impl("set_.source_Storage", set_storage);
  m.impl("set_.source_Tensor", at::native::set_tensor_);
  m.impl("convolution_overrideable", convolution);
  m.impl("convolution_backward_overrideable", convolution_backward);
}
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

int64_t host_waits() {
  return waits;
}

}  // namespace adjoin::testing
