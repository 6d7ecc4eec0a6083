#include "adjoin/movement/device_runtime.hpp"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "adjoin/base/device_runtime.hpp"
#include "adjoin/base/error.hpp"
#include "adjoin/movement/tensor_buffer.hpp"

namespace adjoin {
namespace {

c10::Device torch_device(const Device& device) {
  switch (device.kind) {
    case Device::Kind::cpu:
      return at::kCPU;
    case Device::Kind::cuda:
      return {at::kCUDA, device.index};
    case Device::Kind::private_use:
      return {at::kPrivateUse1, device.index};
  }
  throw InternalError("torch_device: unknown device");
}

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}
void make_current(const c10::Stream& stream) {
  c10::impl::VirtualGuardImpl(stream.device_type()).exchangeStream(stream);
}

/// Those that this process has begun to use; asking begins with none.
std::vector<c10::Device> devices_in_use() {
  std::vector<c10::Device> devices;
  const std::optional<c10::DeviceType> type = at::getAccelerator();
  if (!type || (*type != at::kCUDA && *type != at::kPrivateUse1)) return devices;
  if (*type == at::kCUDA && !at::hasCUDA()) return devices;  // torch.export makes up some where there are none
  const at::AcceleratorHooksInterface& hooks = at::globalContext().getAcceleratorHooksInterface(type);
  const c10::DeviceIndex count = c10::impl::VirtualGuardImpl(*type).deviceCount();
  for (c10::DeviceIndex index = 0; index < count; ++index)
    if (hooks.hasPrimaryContext(index)) devices.emplace_back(*type, index);
  return devices;
}

/// The box of a buffer as a tensor, which uses its memory.
at::Tensor tensor_of(ConstBuffer elements, DeviceRuntime::Dims sizes = {}, DeviceRuntime::Dims strides = {}) {
  const auto options = at::TensorOptions(scalar_type(elements.type)).device(torch_device(elements.device));
  void* const data = const_cast<void*>(elements.data);
  if (sizes.empty())
    return at::for_blob(data, {elements.count}).options(options).target_device(options.device()).make_tensor();
  const at::IntArrayRef of_sizes(sizes.data(), sizes.size()), of_strides(strides.data(), strides.size());
  return at::for_blob(data, of_sizes)
      .strides(of_strides)
      .options(options)
      .target_device(options.device())
      .make_tensor();
}
at::Tensor on_host(const void* data, const at::Tensor& like) {
  return at::from_blob(const_cast<void*>(data), like.sizes(), like.options().device(at::kCPU));
}

/// so_far = so_far (op) x.
void combine(at::Tensor& so_far, const at::Tensor& x, Reduction reduction) {
  const bool on_bool = so_far.scalar_type() == at::kBool;
  switch (reduction) {
    case Reduction::sum:
    case Reduction::average:
      on_bool ? so_far.logical_or_(x) : so_far.add_(x);
      return;
    case Reduction::product:
      on_bool ? so_far.logical_and_(x) : so_far.mul_(x);
      return;
    case Reduction::min:
      at::minimum_out(so_far, so_far, x);
      return;
    case Reduction::max:
      at::maximum_out(so_far, so_far, x);
      return;
    case Reduction::bit_and:
      so_far.bitwise_and_(x);
      return;
    case Reduction::bit_or:
      so_far.bitwise_or_(x);
      return;
    case Reduction::bit_xor:
      so_far.bitwise_xor_(x);
      return;
    case Reduction::logical_and:
      so_far.logical_and_(x);
      return;
    case Reduction::logical_or:
      so_far.logical_or_(x);
      return;
    case Reduction::logical_xor:
      so_far.logical_xor_(x);
      return;
  }
}

class Event final : public DeviceEvent {
 public:
  void record(Device device) override {
    const c10::Device on = torch_device(device);
    if (!event_ || event_->device() != on)
      event_.emplace(on.type());  // one belongs to the device where it was recorded first
    event_->record(current_stream(on));
  }
  void block(Device device) const override {
    if (event_) event_->block(current_stream(torch_device(device)));
  }

 private:
  std::optional<c10::Event> event_;
};

/// By LibTorch alone, for each device that it knows. LibTorch copies between any two devices of a kind, in the order of the current
/// streams of both.
class TorchRuntime final : public DeviceRuntime {
 public:
  void to_host(void* to, ConstBuffer from, Dims sizes, Dims strides) override {
    const at::NoGradGuard no_gradient;
    const at::Tensor box = tensor_of(from, sizes, strides);
    on_host(to, box).copy_(box);
  }
  void to_device(Buffer to, Dims sizes, Dims strides, const void* from) override {
    const at::NoGradGuard no_gradient;
    const at::Tensor box = tensor_of(to, sizes, strides);
    box.copy_(on_host(from, box));
  }

  void copy_box(Buffer to, Dims to_sizes, Dims to_strides, ConstBuffer from, Dims from_sizes,
                Dims from_strides) override {
    const at::NoGradGuard no_gradient;
    const at::Tensor source = tensor_of(from, from_sizes, from_strides), target = tensor_of(to, to_sizes, to_strides);
    if (!(from.device == to.device)) {  // a box may be packed on its own device first
      c10::Event before(target.device().type());
      before.record(current_stream(target.device()));
      before.block(current_stream(source.device()));
    }
    if (to_sizes.empty())
      target.view(source.sizes()).copy_(source);
    else
      target.copy_(source.reshape(target.sizes()));
  }

  void reduce_all_into(Device on, std::span<const Buffer> outs, std::span<const ConstBuffer> inputs,
                       Reduction reduction) override {
    if (outs[0].count == 0) return;
    const at::NoGradGuard no_gradient;
    const at::Tensor first = tensor_of(inputs[0]);
    const c10::Device here = torch_device(on);
    const bool is_half = first.scalar_type() == at::kHalf || first.scalar_type() == at::kBFloat16;
    at::Tensor so_far =
        at::empty(first.sizes(), first.options().device(here).dtype(is_half ? at::kFloat : first.scalar_type()));
    so_far.copy_(first);
    if (is_logical(reduction) && first.scalar_type() != at::kBool) so_far.ne_(0);
    for (const ConstBuffer& input : inputs.subspan(1)) combine(so_far, tensor_of(input).to(here), reduction);
    // By a tensor: GPUs multiply by the inverse of a number of the host, which gives other bits.
    if (reduction == Reduction::average)
      so_far.div_(at::full({1}, static_cast<double>(inputs.size()), so_far.options()));
    for (const Buffer& out : outs) tensor_of(out).copy_(so_far);
  }

  std::unique_ptr<DeviceEvent> new_event() override { return std::make_unique<Event>(); }

  std::function<void()> now() override {
    const std::vector<c10::Device> devices = devices_in_use();
    if (devices.empty()) return nullptr;
    const auto events = std::make_shared<std::vector<c10::Event>>();
    for (const c10::Device device : devices) events->emplace_back(device.type()).record(current_stream(device));
    return [events] {
      for (const c10::Event& event : *events) event.block(current_stream(event.device()));
    };
  }

  void use_own_streams() override {
    for (const c10::Device device : devices_in_use())
      make_current(c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device));
  }
};

const bool is_runtime_used = [] {
  static TorchRuntime runtime;
  return use_device_runtime(&runtime);
}();

}  // namespace

void use_own_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  if (guard.getStream(device) == guard.getDefaultStream(device)) make_current(guard.getStreamFromGlobalPool(device));
}

void synchronize(c10::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

std::function<void()> carried_streams() {
  std::vector<c10::Stream> streams;
  for (const c10::Device device : devices_in_use()) streams.push_back(current_stream(device));
  return [streams = std::move(streams)] {
    for (const c10::Stream& stream : streams) make_current(stream);
  };
}

}  // namespace adjoin
