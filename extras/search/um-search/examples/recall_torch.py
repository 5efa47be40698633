"""Times of PyTorch (matmul, then topk) for the shapes of recall.rs, the kernels and the wait: python recall_torch.py [--quick]"""
import sys
import time

import torch

DIM, K = 768, 10
sizes = [(1000, 10_000), (1000, 100_000)] + ([] if "--quick" in sys.argv else [(1000, 1_000_000), (1, 1_000_000), (10, 1_000_000)])
print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}\n| queries × targets × {DIM} | precision | median, ms |\n|---|---|---|")
for queries, targets in sizes:
    rows = torch.nn.functional.normalize(torch.rand(targets, DIM, device="cuda") - 0.5)
    for name, dtype, tf32 in [("fp32", torch.float32, False), ("tf32", torch.float32, True), ("bf16", torch.bfloat16, False)]:
        torch.backends.cuda.matmul.allow_tf32 = tf32
        of = rows.to(dtype)
        times = []
        for _ in range(12):
            asked = torch.nn.functional.normalize(torch.rand(queries, DIM, device="cuda") - 0.5).to(dtype)
            torch.cuda.synchronize()
            start = time.perf_counter()
            torch.topk(asked @ of.T, K)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        print(f"| {queries} × {targets} | {name} | {sorted(times[1:])[5] * 1e3:.3f} |")
