"""Uses the fake driver (tests/fakes/cuda) beside a framework that runs on the processor, so that all of tests/gpu but its figures can be tried without
a GPU."""

import ctypes


class FakeWork:
    def __init__(self, kernels):
        self.cuda, self.kernels = ctypes.CDLL("libcuda.so.1"), kernels
        self.cuda.cuInit(0)  # Loads the agent, as a framework's first use of a GPU does.
        context, module, self.function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        self.cuda.cuCtxSetCurrent(context)
        self.cuda.cuModuleLoadData(ctypes.byref(module), b"")
        self.cuda.cuModuleGetFunction(ctypes.byref(self.function), module, b"rehearsed")

    def step(self):
        for _ in range(self.kernels):
            self.cuda.cuLaunchKernel(self.function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
