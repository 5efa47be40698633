"""A paged optimizer: Adam's states are unified memory, larger than what the GPU has left, and each layer's come before the kernel that needs them.

    cargo xtask sim-lib --release
    pip install numba numba-cuda[cu12]
    LD_LIBRARY_PATH=target/sim-lib CUDA_UM_SIM_CUDA=12.9 CUDA_UM_RUNTIME=cuda python paged_adam.py

Trains a network of residual layers on the simulator, once with page faults and once with prefetches, and prints what a step takes on the simulator's
clock. Numba's arrays are unified memory by one line, so the weights and the states of a step are plain arrays of Numba.
"""

import json
import math
import sys

import numpy as np
from numba import cuda

import cuda_um
import cuda_um.numba

LAYERS, WIDTH = 8, 512
STATE_BYTES = 2 * WIDTH * WIDTH * 4
STEPS = 3

cuda_um.numba.MemoryManager.oversubscription = True
cuda_um.numba.MemoryManager.name = "paged_adam"
cuda.set_memory_manager(cuda_um.numba.MemoryManager)


@cuda.jit
def forward(weights, x, y):
    i = cuda.grid(1)
    if i < x.size:
        total = np.float32(0)
        for j in range(x.size):
            total += weights[i, j] * x[j]
        y[i] = x[i] + math.tanh(total)


@cuda.jit
def backward(weights, x, y, dy, slope, dx):
    j = cuda.grid(1)
    if j < x.size:
        total = dy[j]
        for i in range(x.size):
            tanh = y[i] - x[i]
            total += weights[i, j] * dy[i] * (np.float32(1) - tanh * tanh)
        own = y[j] - x[j]
        slope[j] = dy[j] * (np.float32(1) - own * own)
        dx[j] = total


@cuda.jit
def adam(weights, state, slope, x, rate, scale):
    """The gradient of a weight is `slope[i] * x[j]`."""
    j, i = cuda.grid(2)
    gradient = slope[i] * x[j]
    mean = np.float32(0.9) * state[0, i, j] + np.float32(0.1) * gradient
    square = np.float32(0.999) * state[1, i, j] + np.float32(0.001) * gradient * gradient
    state[0, i, j], state[1, i, j] = mean, square
    weights[i, j] -= rate * mean / (math.sqrt(square * scale) + np.float32(1e-8))


def event_on(stream):
    event = cuda.event()
    event.record(stream)
    return event


class PagedAdam:
    """Adam for layers that are updated from the last to the first.

    The states of the last `resident` layers stay on the GPU. Those of the others come one layer ahead, on a stream of their own, and go when they were
    updated, on another one: both directions and the kernels overlap.
    """

    def __init__(self, weights, resident, is_paged=True):
        self.weights, self.is_paged, self.steps = weights, is_paged, 0
        self.pages = len(weights) - resident if is_paged else 0
        self.states = [cuda.to_device(np.zeros((2, WIDTH, WIDTH), np.float32)) for _ in weights]
        self.brings, self.takes = cuda.stream(), cuda.stream()
        self.here, self.gone = {}, {}
        if is_paged:
            cuda_um.prefetch(self.states[: self.pages], "host")
            cuda_um.prefetch(self.states[self.pages :], "device")

    def bring(self, layer):
        """Enqueues the migration of a layer's states to the GPU, after those of two layers before have left it."""
        if 0 <= layer < self.pages:
            if layer + 3 in self.gone:
                self.gone[layer + 3].wait(self.brings)
            cuda_um.prefetch(self.states[layer], "device", int(self.brings.handle))
            self.here[layer] = event_on(self.brings)

    def update(self, layer, slope, x, stream):
        rate = np.float32(0.003 / (1 - 0.9**self.steps))
        scale = np.float32(1 / (1 - 0.999**self.steps))
        self.bring(layer - 1)
        if layer < self.pages:
            self.here[layer].wait(stream)
        adam[(WIDTH // 32, WIDTH // 8), (32, 8), stream](self.weights[layer], self.states[layer], slope, x, rate, scale)
        if layer < self.pages:
            event_on(stream).wait(self.takes)
            cuda_um.prefetch(self.states[layer], "host", int(self.takes.handle))
            self.gone[layer] = event_on(self.takes)

    def begin(self):
        self.steps += 1
        self.here.clear()
        if self.pages == len(self.weights):
            self.bring(self.pages - 1)

    def end(self, stream):
        if self.pages:
            self.gone[0].wait(stream)


def train(is_paged):
    """Returns the loss of each step, the milliseconds of each on the GPU's clock, and the weights."""
    random = np.random.default_rng(7)
    weights = [cuda.to_device((random.standard_normal((WIDTH, WIDTH)) / 64).astype(np.float32)) for _ in range(LAYERS)]
    x, target = (random.standard_normal(WIDTH).astype(np.float32) for _ in range(2))
    outputs = [cuda.to_device(x)] + [cuda.device_array(WIDTH, np.float32) for _ in range(LAYERS)]
    slope, gradients = cuda.device_array(WIDTH, np.float32), [cuda.device_array(WIDTH, np.float32) for _ in range(LAYERS)]
    stream, optimizer = cuda.stream(), PagedAdam(weights, resident=2, is_paged=is_paged)
    losses, times = [], []
    for _ in range(STEPS):
        cuda.synchronize()
        start = event_on(stream)
        optimizer.begin()
        for layer in range(LAYERS):
            forward[WIDTH // 128, 128, stream](weights[layer], outputs[layer], outputs[layer + 1])
        error = outputs[LAYERS].copy_to_host(stream=stream) - target
        losses.append(float(np.square(error).mean()))
        dy = cuda.to_device(error * np.float32(2 / WIDTH), stream=stream)
        for layer in reversed(range(LAYERS)):
            backward[WIDTH // 128, 128, stream](weights[layer], outputs[layer], outputs[layer + 1], dy, slope, gradients[layer])
            optimizer.update(layer, slope, outputs[layer], stream)
            dy = gradients[layer]
        optimizer.end(stream)
        end = event_on(stream)
        end.synchronize()
        times.append(cuda.event_elapsed_time(start, end))
    return losses, times, [layer.copy_to_host() for layer in weights]


def main():
    if "Simulated" not in cuda_um.runtime_description():
        sys.exit("this takes the memory of the whole GPU, and more: run it on the simulator")
    # What other programs have: the GPU is left with the weights, and with the states of five of eight layers.
    free, _ = cuda_um.memory_info()
    room = LAYERS * STATE_BYTES // 2 + 5 * STATE_BYTES + (2 << 20)
    others = cuda_um.Allocator("device").allocate(free - room)
    losses, faulted, weights = train(is_paged=False)
    again, paged, same = train(is_paged=True)
    assert again == losses and all(np.array_equal(a, b) for a, b in zip(weights, same))
    assert losses[-1] < losses[0], losses
    del others
    print(json.dumps({"losses": losses, "plain_ms": faulted, "paged_ms": paged}))


if __name__ == "__main__":
    main()
