//! Launches.

use super::*;

cases! {
    /// A kernel gets the values of its arguments at the launch, and accesses only the memory that they describe.
    "launch.arguments" EXEC [cuLaunchKernel] |c, stream| {
        let (memory, out) = (c.device(64 * KIB).zeroed(), c.pinned(64 * KIB, 0));
        let gate = c.gate(&stream);
        // The places of the arguments no longer exist when the kernels run.
        for (start, amount) in [(0, 1), (100, 20), (1000, 300)] {
            c.succeeds("cuLaunchKernel", c.add_range(&memory, start, 500, amount, &stream));
        }
        stream.copy(&out, &memory);
        gate.open();
        stream.sync();
        for (range, value) in [
            (0..100, 1), (100..500, 21), (500..600, 20), (600..1000, 0), (1000..1500, 300),
            (1500..16_384, 0),
        ] {
            c.is(format!("elements {range:?}"), out.value(range), value);
        }
    }
    /// A grid or a block with a zero dimension is an invalid value.
    "launch.empty-shape" EXEC [cuLaunchKernel] |c, stream| {
        let memory = c.device(4 * KIB);
        for axis in 0..3 {
            let mut empty = [1; 3];
            empty[axis] = 0;
            let (grid, block) = (format!("grid {empty:?}"), format!("block {empty:?}"));
            c.gives(grid, shaped(c, &memory, empty, [1; 3], &stream), INVALID_VALUE);
            c.gives(block, shaped(c, &memory, [1; 3], empty, &stream), INVALID_VALUE);
        }
        stream.done("the stream");
    }
    /// A grid or a block beyond the device's limits is an invalid value.
    "launch.limits" EXEC [cuLaunchKernel] |c, stream| {
        let memory = c.device(4 * KIB);
        for (name, axis, attribute) in [
            ("grid x", 0, Attr::cudaDevAttrMaxGridDimX), ("grid y", 1, Attr::cudaDevAttrMaxGridDimY),
            ("grid z", 2, Attr::cudaDevAttrMaxGridDimZ),
        ] {
            let mut grid = [1; 3];
            grid[axis] = c.attribute(attribute) as u32 + 1;
            c.gives(name, shaped(c, &memory, grid, [1; 3], &stream), INVALID_VALUE);
        }
        for (name, axis, attribute) in [
            ("block x", 0, Attr::cudaDevAttrMaxBlockDimX), ("block y", 1, Attr::cudaDevAttrMaxBlockDimY),
            ("block z", 2, Attr::cudaDevAttrMaxBlockDimZ),
        ] {
            let mut block = [1; 3];
            block[axis] = c.attribute(attribute) as u32 + 1;
            c.gives(name, shaped(c, &memory, [1; 3], block, &stream), INVALID_VALUE);
        }
        let most = c.attribute(Attr::cudaDevAttrMaxThreadsPerBlock) as u32;
        let over = shaped(c, &memory, [1; 3], [most / 2, 2, 2], &stream);
        c.gives("threads of a block", over, INVALID_VALUE);
        let largest = shaped(c, &memory, [1; 3], [most, 1, 1], &stream);
        c.succeeds("as many as a block may have", largest);
        stream.done("the stream");
    }
    /// The thread limit of a kernel's blocks can be queried; a larger block is refused.
    "launch.kernels-own-limit" EXEC [cuLaunchKernel, cuFuncGetAttribute] |c, stream| {
        let out = c.device(4 * KIB);
        let threads = c.function_attribute(c.kernel(c"conf_limited"), MAX_THREADS_PER_BLOCK);
        let most = c.succeeds("cuFuncGetAttribute", threads);
        c.is("CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", most, 64);
        c.refuses("65 threads", c.launch_limited(&out, (65, 0), &stream));
        c.succeeds("64 threads", c.launch_limited(&out, (64, 0), &stream));
        stream.done("the stream");
        c.is("it ran", c.contents(&out)[0], 7);
    }
    /// More shared memory than the function's limit, including the static part, is refused.
    "launch.shared-memory" EXEC [cuLaunchKernel] |c, stream| {
        let out = c.device(4 * KIB);
        // The kernel itself uses 4096 bytes.
        let rest = c.attribute(Attr::cudaDevAttrMaxSharedMemoryPerBlock) as u32 - 4096;
        c.refuses("16 bytes too many", c.launch_limited(&out, (64, rest + 16), &stream));
        c.refuses("far too many", c.launch_limited(&out, (64, 1 << 30), &stream));
        c.succeeds("all that is left", c.launch_limited(&out, (64, rest), &stream));
        stream.done("the stream");
        c.is("it ran", c.contents(&out)[0], 7);
    }
    /// A refused launch runs nothing, and the stream can still be used.
    "launch.refused-changes-nothing" EXEC [cuLaunchKernel] |c, stream| {
        let memory = c.device(4 * KIB).zeroed();
        c.last_error();
        c.gives("refused", shaped(c, &memory, [0, 1, 1], [1; 3], &stream), INVALID_VALUE);
        c.refuses("refused", shaped(c, &memory, [1; 3], [2048, 1, 1], &stream));
        stream.done("the stream");
        c.is("nothing ran", c.device_value(&memory), 0);
        stream.add(&memory, 2).done("the stream, again");
        c.is("it works on", c.device_value(&memory), 2);
    }
    /// A kernel sees host writes before the launch, and after a wait the host sees the kernel's writes.
    "launch.host-writes-before" GUIDE_MANAGED [cuLaunchKernel, cudaStreamSynchronize] (Managed) |c, stream| {
        let (managed, pinned) = (c.managed(256 * KIB), c.pinned(256 * KIB, 0));
        for round in 0..4 {
            managed.fill_all(round);
            pinned.fill_all(10 * round);
            stream.add(&managed, 1).add(&pinned, 1).ends("managed", &managed, round + 1);
            c.is("pinned", pinned.value_all(), 10 * round + 1);
        }
    }
    /// A thousand launches on one stream run in order, and none is lost.
    "launch.many-in-order" STREAM [cuLaunchKernel] |c, stream| {
        let (first, second) = (c.device(4 * KIB).zeroed(), c.device(4 * KIB));
        // Each kernel reads the result of the previous one: the sum is 1000 only if none is lost or out of order.
        for _ in 0..500 {
            stream.add(&first, 1).read(&first, &second).add(&second, 1).read(&second, &first);
        }
        stream.ends("contents", &first, 1000);
    }
}

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const MAX_THREADS_PER_BLOCK: u32 = 0;

/// Launches the kernel that adds 1 to a word, in this shape.
fn shaped(
    c: &Cuda<'_>,
    memory: &Memory<'_>,
    grid: [u32; 3],
    block: [u32; 3],
    stream: &Stream<'_>,
) -> Called {
    let shape = Shape {
        grid,
        block,
        shared_bytes: 0,
    };
    c.add_at(memory.at(), 1, 1, shape, stream)
}
