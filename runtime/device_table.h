// What a plan's device names are bound to: by name, as plans write it ("cpu:0").
#ifndef MILLRACE_RUNTIME_DEVICE_TABLE_H_
#define MILLRACE_RUNTIME_DEVICE_TABLE_H_

#include <map>
#include <string>

#include "runtime/device.h"
#include "runtime/kernel.h"

namespace millrace {

// Pointers outlive the session.
struct DeviceBinding {
  Device* device = nullptr;
  KernelLibrary* kernels = nullptr;       // for Launch
  KernelLibrary* host_kernels = nullptr;  // for HostCall
};
using DeviceTable = std::map<std::string, DeviceBinding>;

}  // namespace millrace

#endif  // MILLRACE_RUNTIME_DEVICE_TABLE_H_
