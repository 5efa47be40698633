//! Launches.

use super::prelude::*;
use crate::call::Shape;
use cuda_um_sys::cudaDeviceAttr as Attr;

pub(super) const CASES: &[Case] = cases! {
    "launch.arguments" (arguments):
        "A kernel gets the values of its arguments at the launch, and accesses only the memory that they describe.",
        sources::EXEC, &["cuLaunchKernel"];
    "launch.empty-shape" (empty_shape):
        "A grid or a block with a zero dimension is an invalid value.",
        sources::EXEC, &["cuLaunchKernel"];
    "launch.limits" (limits):
        "A grid or a block beyond the device's limits is an invalid value.",
        sources::EXEC, &["cuLaunchKernel"];
    "launch.kernels-own-limit" (kernels_own_limit):
        "The thread limit of a kernel's blocks can be queried; a larger block is refused.",
        sources::EXEC, &["cuLaunchKernel", "cuFuncGetAttribute"];
    "launch.shared-memory" (shared_memory):
        "More shared memory than the function's limit, including the static part, is refused.",
        sources::EXEC, &["cuLaunchKernel"];
    "launch.refused-changes-nothing" (refused_changes_nothing):
        "A refused launch runs nothing, and the stream can still be used.",
        sources::EXEC, &["cuLaunchKernel"];
    "launch.host-writes-before" (host_writes_before):
        "A kernel sees host writes before the launch, and after a wait the host sees the kernel's writes.",
        sources::GUIDE_MANAGED, &["cuLaunchKernel", "cudaStreamSynchronize"], needs(&[Need::Managed]);
    "launch.many-in-order" (many_in_order):
        "A thousand launches on one stream run in order, and none is lost.",
        sources::STREAM, &["cuLaunchKernel"];
};

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`
const MAX_THREADS_PER_BLOCK: u32 = 0;

/// A launch of the kernel with limits.
pub(super) fn limited(threads: u32, shared_bytes: u32) -> Shape {
    Shape {
        shared_bytes,
        ..Shape::of(1, threads)
    }
}

fn arguments(c: &Cuda<'_>) -> Verdict {
    let (memory, out, stream) = (
        c.device_memory(64 * KIB)?,
        c.pinned(64 * KIB, 0)?,
        c.stream()?,
    );
    c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    let gate = c.gate(&stream)?;
    // The places of the arguments no longer exist when the kernels run.
    for (start, amount) in [(0, 1), (100, 20), (1000, 300)] {
        c.succeeds(
            "cuLaunchKernel",
            c.add_range(&memory, start, 500, amount, &stream)?,
        )?;
    }
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &stream),
    )?;
    gate.open()?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    for (range, value) in [
        (0..100, 1),
        (100..500, 21),
        (500..600, 20),
        (600..1000, 0),
        (1000..1500, 300),
        (1500..16_384, 0),
    ] {
        c.is(&format!("elements {range:?}"), out.value(range)?, value)?;
    }
    Ok(())
}

/// Launches the kernel that adds 1 to a word, in this shape.
fn shaped(
    c: &Cuda<'_>,
    memory: &Memory<'_>,
    grid: [u32; 3],
    block: [u32; 3],
    stream: &Stream<'_>,
) -> Result<Code, Failure> {
    let shape = Shape {
        grid,
        block,
        shared_bytes: 0,
    };
    c.add_at(memory.address(), 1, 1, shape, stream)
}

fn empty_shape(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    for axis in 0..3 {
        let mut empty = [1; 3];
        empty[axis] = 0;
        c.gives(
            &format!("grid {empty:?}"),
            shaped(c, &memory, empty, [1; 3], &stream)?,
            Code::INVALID_VALUE,
        )?;
        c.gives(
            &format!("block {empty:?}"),
            shaped(c, &memory, [1; 3], empty, &stream)?,
            Code::INVALID_VALUE,
        )?;
    }
    c.succeeds("the stream", stream.synchronize())
}

fn limits(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    for (name, axis, attribute) in [
        ("grid x", 0, Attr::cudaDevAttrMaxGridDimX),
        ("grid y", 1, Attr::cudaDevAttrMaxGridDimY),
        ("grid z", 2, Attr::cudaDevAttrMaxGridDimZ),
    ] {
        let mut grid = [1; 3];
        grid[axis] = c.attribute(attribute)? as u32 + 1;
        c.gives(
            name,
            shaped(c, &memory, grid, [1; 3], &stream)?,
            Code::INVALID_VALUE,
        )?;
    }
    for (name, axis, attribute) in [
        ("block x", 0, Attr::cudaDevAttrMaxBlockDimX),
        ("block y", 1, Attr::cudaDevAttrMaxBlockDimY),
        ("block z", 2, Attr::cudaDevAttrMaxBlockDimZ),
    ] {
        let mut block = [1; 3];
        block[axis] = c.attribute(attribute)? as u32 + 1;
        c.gives(
            name,
            shaped(c, &memory, [1; 3], block, &stream)?,
            Code::INVALID_VALUE,
        )?;
    }
    let most = c.attribute(Attr::cudaDevAttrMaxThreadsPerBlock)? as u32;
    let over = shaped(c, &memory, [1; 3], [most / 2, 2, 2], &stream)?;
    c.gives("threads of a block", over, Code::INVALID_VALUE)?;
    c.succeeds(
        "as many as a block may have",
        shaped(c, &memory, [1; 3], [most, 1, 1], &stream)?,
    )?;
    c.succeeds("the stream", stream.synchronize())
}

fn kernels_own_limit(c: &Cuda<'_>) -> Verdict {
    let (out, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    let (code, most) = c.kernel_attribute(MAX_THREADS_PER_BLOCK)?;
    c.succeeds("cuFuncGetAttribute", code)?;
    c.is("CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK", most, 64)?;
    c.refuses(
        "65 threads",
        c.launch_limited(&out, limited(65, 0), &stream)?,
    )?;
    c.succeeds(
        "64 threads",
        c.launch_limited(&out, limited(64, 0), &stream)?,
    )?;
    c.succeeds("the stream", stream.synchronize())?;
    c.is("it ran", c.contents(&out)?[0], 7)
}

fn shared_memory(c: &Cuda<'_>) -> Verdict {
    let (out, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    // The kernel itself uses 4096 bytes.
    let rest = c.attribute(Attr::cudaDevAttrMaxSharedMemoryPerBlock)? as u32 - 4096;
    c.refuses(
        "16 bytes too many",
        c.launch_limited(&out, limited(64, rest + 16), &stream)?,
    )?;
    c.refuses(
        "far too many",
        c.launch_limited(&out, limited(64, 1 << 30), &stream)?,
    )?;
    c.succeeds(
        "all that is left",
        c.launch_limited(&out, limited(64, rest), &stream)?,
    )?;
    c.succeeds("the stream", stream.synchronize())?;
    c.is("it ran", c.contents(&out)?[0], 7)
}

fn refused_changes_nothing(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.last_error();
    c.gives(
        "refused",
        shaped(c, &memory, [0, 1, 1], [1; 3], &stream)?,
        Code::INVALID_VALUE,
    )?;
    c.refuses(
        "refused",
        shaped(c, &memory, [1; 3], [2048, 1, 1], &stream)?,
    )?;
    c.succeeds("the stream", stream.synchronize())?;
    c.is("nothing ran", c.device_value(&memory)?, 0)?;
    c.add(&memory, 2, &stream)?;
    c.succeeds("the stream, again", stream.synchronize())?;
    c.is("it works on", c.device_value(&memory)?, 2)
}

fn host_writes_before(c: &Cuda<'_>) -> Verdict {
    let (managed, pinned, stream) = (c.managed(256 * KIB)?, c.pinned(256 * KIB, 0)?, c.stream()?);
    for round in 0..4 {
        managed.fill_all(round);
        pinned.fill_all(10 * round);
        c.add(&managed, 1, &stream)?;
        c.add(&pinned, 1, &stream)?;
        c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
        c.is("managed", managed.value_all()?, round + 1)?;
        c.is("pinned", pinned.value_all()?, 10 * round + 1)?;
    }
    Ok(())
}

fn many_in_order(c: &Cuda<'_>) -> Verdict {
    let (first, second) = (c.device_memory(4 * KIB)?, c.device_memory(4 * KIB)?);
    let stream = c.stream()?;
    c.ok("cudaMemset", c.set(&first, 0, first.bytes()))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    // Each kernel reads the result of the previous one: the sum is 1000 only if none is lost or out of order.
    for _ in 0..500 {
        c.add(&first, 1, &stream)?;
        c.read(&first, &second, &stream)?;
        c.add(&second, 1, &stream)?;
        c.read(&second, &first, &stream)?;
    }
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("contents", c.device_value(&first)?, 1000)
}
