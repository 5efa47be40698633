"""A program that type checkers read, and that never runs. Each ignored line must be an error, or the checkers refuse the comment."""

from pathlib import Path

import numpy as np

import cuda_um


def use(path: Path) -> dict[str, cuda_um.Array]:
    array = cuda_um.zeros((2, 3), "float32")
    with array.numpy(write="all") as elements:
        elements[:] = 1
    array.copy_(np.ones((2, 3), np.float32))
    array.prefetch(0)
    copies: list[cuda_um.Array] = [cuda_um.array(source) for source in ([1, 2], array, elements)]
    copies.append(cuda_um.from_dlpack(elements))
    with cuda_um.profile() as profile:
        cuda_um.synchronize()
    print(profile.text(), cuda_um.__version__, np.asarray(array))
    array.numpy(write="some")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    cuda_um.zeros("2")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    array.shape = (3, 2)  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    return cuda_um.load_file(path, names=["bias"], kind="device")
