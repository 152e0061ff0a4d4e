// A CUDA device without CUDA for a torch built for the CPU: enough for autograd to run over FakeTensors that claim to be on a GPU. No kernel ever runs.
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace at {
struct CUDAHooks : CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
};
REGISTER_CUDA_HOOKS(CUDAHooks);

namespace accelerator {
std::optional<c10::DeviceType> getAccelerator(bool) { return c10::DeviceType::CUDA; }
}  // namespace accelerator
}  // namespace at

namespace c10::impl {
struct FakeCuda : NoOpDeviceGuardImpl<DeviceType::CUDA> {
  static Device card() { return Device(DeviceType::CUDA, 0); }
  static Stream stream() { return Stream(Stream::DEFAULT, card()); }
  Device getDevice() const override { return card(); }
  Device exchangeDevice(Device) const override { return card(); }
  DeviceIndex deviceCount() const noexcept override { return 1; }
  Stream getStream(Device) const noexcept override { return stream(); }
  Stream getDefaultStream(Device) const override { return stream(); }
  Stream exchangeStream(Stream) const noexcept override { return stream(); }
  void record(void**, const Stream&, const DeviceIndex, const EventFlag) const override {}
  void block(void*, const Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(CUDA, FakeCuda)
}  // namespace c10::impl
