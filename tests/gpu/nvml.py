"""NVML as far as gpu_check.py needs it: how many GPUs there are, how much of each one's memory is in
use, and by which processes. Its names and numbers are nvml.h's."""
import ctypes


class Missing(Exception):
    """There is no NVML, no driver or no GPU: the text says which."""


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of the functions with _v3."""
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint), ("compute_instance", ctypes.c_uint)]


class Nvml:
    PROCESSES_MAX = 256

    def __init__(self):
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError as error:
            raise Missing("there is no NVIDIA driver (libnvidia-ml.so.1 was not found)") from error
        if code := self._library.nvmlInit_v2():
            raise Missing(f"NVML cannot be used (nvmlInit: error {code})")
        count = ctypes.c_uint()
        self._check("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if not count.value:
            raise Missing("NVML finds no GPU")
        self._devices = []
        for index in range(count.value):
            device = ctypes.c_void_p()
            self._check("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(device))
            self._devices.append(device)

    def _check(self, function, *arguments):
        if code := getattr(self._library, function)(*arguments):
            raise RuntimeError(f"{function}: NVML error {code}")

    def name(self, index=0):
        text = ctypes.create_string_buffer(96)
        self._check("nvmlDeviceGetName", self._devices[index], text, len(text))
        return text.value.decode()

    def count(self):
        return len(self._devices)

    def _memory(self):
        """Of every GPU, in order."""
        found = [_Memory() for _ in self._devices]
        for device, memory in zip(self._devices, found):
            self._check("nvmlDeviceGetMemoryInfo", device, ctypes.byref(memory))
        return found

    def used_bytes(self):
        """Of every GPU, in order."""
        return [memory.used for memory in self._memory()]

    def total_bytes(self, index=0):
        return self._memory()[index].total

    def processes(self):
        """The pids that compute on any GPU, as NVML's own namespace has them."""
        pids = set()
        for device in self._devices:
            count = ctypes.c_uint(self.PROCESSES_MAX)
            found = (_Process * self.PROCESSES_MAX)()
            self._check("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), found)
            pids |= {found[i].pid for i in range(count.value)}
        return pids
