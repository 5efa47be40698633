"""PyTorch beside the example larger_than_memory: the same passes with two buffers, a stream for copies and one for kernels.

    larger_than_memory --runtime cuda --budget 1024 --layers 64 --ratio 1.14,1.33,2,4 --compute 0.25,1,4 --json larger-1024.json
    python3 larger_pytorch.py larger-1024.json

The sizes, the times of the plan and the time of computing come from the file. A step adds the weights of its layer to an accumulator, and other
launches read memory of the device until the step takes as long as in the file, since PyTorch's kernel is another one. Weights are in pinned
memory; a copy waits for the step that used its buffer before.
"""
import json
import statistics
import sys

import torch

PASSES = 5


def launches_of_a_step(row, total, idle):
    """As many as take the time of a step in the file, where all layers are on the device."""
    step = row["recipes_ms"][0][1] / (2 * row["layers"])
    times = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(20):
            total.add_(idle, alpha=0)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 20)
    return max(1, round(step / min(times)))


def time_passes(row):
    """The median time of a pass in milliseconds, without the first two; the accumulator is verified."""
    count, layers = row["layer_bytes"] // 4, row["layers"]
    weights = [torch.full((count,), float(layer % 7 + 1), pin_memory=True) for layer in range(layers)]
    total, idle = torch.zeros(count, device="cuda"), torch.zeros(count, device="cuda")
    launches = launches_of_a_step(row, total, idle)
    buffers = [torch.empty(count, device="cuda") for _ in range(2)]
    copies, kernels = torch.cuda.Stream(), torch.cuda.Stream()
    arrived = [torch.cuda.Event() for _ in range(2)]
    used = [torch.cuda.Event() for _ in range(2)]
    steps = [*range(layers), *reversed(range(layers))]
    torch.cuda.synchronize()

    def copy(at):
        with torch.cuda.stream(copies):
            copies.wait_event(used[at % 2])
            buffers[at % 2].copy_(weights[steps[at % len(steps)]], non_blocking=True)
            arrived[at % 2].record()

    marks = [torch.cuda.Event(enable_timing=True) for _ in range(PASSES + 1)]
    marks[0].record(kernels)
    copy(0)
    for index in range(PASSES):
        for at in range(index * len(steps), (index + 1) * len(steps)):
            # The copy of the next step, also over the end of a pass, overlaps this step.
            copy(at + 1)
            with torch.cuda.stream(kernels):
                kernels.wait_event(arrived[at % 2])
                total.add_(buffers[at % 2])
                used[at % 2].record()
                for _ in range(launches - 1):
                    total.add_(idle, alpha=0)
        marks[index + 1].record(kernels)
    torch.cuda.synchronize()
    expected = PASSES * sum(step % 7 + 1 for step in steps)
    if not bool((total == expected).all()):
        raise ValueError(f"WRONG RESULT: {total[0].item()}, not {expected}")
    return statistics.median(begin.elapsed_time(end) for begin, end in list(zip(marks, marks[1:]))[2:])


def main():
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}: two buffers and two streams, beside the plan; ms for a pass")
    print("budget MiB  ratio  compute  PyTorch     plan  times faster")
    for file in sys.argv[1:]:
        for row in json.load(open(file)):
            milliseconds = time_passes(row)
            budget = (row["budget_bytes"] - 2 * row["layer_bytes"]) >> 20
            ratio, plan = row["ratio"], row["planned_ms"]
            print(f"{budget:10} {ratio:6} {row['compute']:8} {milliseconds:8.2f} {plan:8.2f} {milliseconds / plan:13.2f}", flush=True)


main()
