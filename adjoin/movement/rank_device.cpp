#include "adjoin/movement/rank_device.hpp"

#include <ATen/Context.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "adjoin/base/error.hpp"
#include "adjoin/base/mpi_job.hpp"
#include "adjoin/movement/device_runtime.hpp"
#include "adjoin/movement/libtorch.hpp"

namespace adjoin {
namespace {

/// How many devices of a type there are; without a driver, none.
int count_of(at::DeviceType type) {
  if (type == at::kCPU) return 1;
  if (!c10::impl::hasDeviceGuardImpl(type)) return 0;
  return c10::impl::getDeviceGuardImpl(type)->deviceCount();
}

std::optional<at::Device> named(std::string_view word) {
  try {
    return at::Device(std::string(word));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

/// The device that a word names; without an index, where it names all of a type.
at::Device checked(std::string_view word) {
  const auto device = named(word);
  const auto expected = [&](const std::string& what) {
    return "--device " + std::string(word) + ": " + what + "; LibTorch finds " + libtorch_devices();
  };
  require(device && device->type() != at::kMeta,
          [&] { return expected("expected cpu, cuda or cuda with a number, as cuda:1"); });
  require(count_of(device->type()) > device->index() && count_of(device->type()) > 0,
          [&] { return expected("is not on this machine"); });
  return *device;
}

}  // namespace

std::string libtorch_devices() {
  std::string all;
  for (const at::DeviceType type : {at::kCUDA, at::kHIP, at::kXPU, at::kMPS, at::kPrivateUse1})
    if (const int count = count_of(type); count > 0)
      all += (all.empty() ? "" : ", ") + c10::DeviceTypeName(type, /*lower_case=*/true) + " (" + std::to_string(count) +
             ")";
  return all.empty() ? "no device" : all;
}

void check_device(std::string_view word) {
  checked(word);
}

at::Device device_of(std::string_view word, const Communicator& world, bool fast) {
  const at::Device device = checked(word);
  if (device.type() == at::kCPU) return at::kCPU;
  use_exact_kernels(!fast);
  const int place = started_by_mpi() ? mpi_job_place_here() : world.rank();
  const at::Device mine =
      device.has_index() ? device
                         : at::Device(device.type(), static_cast<c10::DeviceIndex>(place % count_of(device.type())));
  if (!started_by_mpi() && world.size() > 1) use_own_stream(mine);  // where nobody used the device when the ranks began
  return mine;
}

void use_exact_kernels(bool exact) {
  static std::mutex mutex;
  static std::optional<bool> are_exact;
  const std::scoped_lock lock(mutex);  // ranks on threads set it together
  if (are_exact == exact) return;
  are_exact = exact;
  if (exact) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setAllowTF32CuDNN(!exact);
  context.setAllowTF32CuBLAS(!exact);
  context.setAllowFP16ReductionCuBLAS(!exact, /*allow_splitk=*/!exact);
  context.setAllowBF16ReductionCuBLAS(!exact, /*allow_splitk=*/!exact);
  context.setBenchmarkCuDNN(!exact);
  context.setDeterministicCuDNN(exact);
  context.setDeterministicAlgorithms(exact, /*warn_only=*/true);
  context.setDeterministicFillUninitializedMemory(false);
}

}  // namespace adjoin
