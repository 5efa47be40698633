//! Mapped files as buffers.
#![allow(
    unsafe_code,
    reason = "maps files; the caller of `map_files` promises that they stay"
)]

use um_backend::cuda_um::{UnifiedBuffer, UnifiedOptions};
use um_backend::{DType, Device, ErasedBuffer};

use crate::error::{Error, Result};
use crate::plan::{Plan, Wanted};

/// Takes those tensors out of the plan that the mapping of their file has as they are wanted: for each file, in the order of their places.
pub(crate) fn mapped(
    plan: &mut Plan,
    wanted: &mut Vec<Wanted>,
    device: &Device,
) -> Result<Vec<(Vec<Wanted>, ErasedBuffer)>> {
    let mut files: Vec<(Vec<Wanted>, ErasedBuffer)> = Vec::new();
    let mut last = None;
    for mut wanted in plan.split_off(wanted, fits) {
        wanted.at = plan.runs(&wanted).offset as usize;
        let info = plan.info(&wanted);
        let shard = &plan.opened.shards[info.shard];
        if let Some(file) = &shard.file
            && last.replace(info.shard) != Some(info.shard)
        {
            let file = file.file().map_err(Error::of_file(&shard.path, "open"))?;
            let options = UnifiedOptions::default();
            // SAFETY: the caller of `LoadOptions::map_files` promises that nothing changes the file.
            let mapped = unsafe { UnifiedBuffer::<u8>::map_file(device, &file, .., options) };
            let mapped = mapped.and_then(|all| ErasedBuffer::from_bytes(Box::new(all), DType::U8));
            files.push((Vec::new(), mapped.map_err(Error::of_cuda(&info.name))?));
        }
        let (tensors, _) = files.last_mut().expect("its file was mapped");
        tensors.push(wanted);
    }
    // Those of GGUF may be in any order.
    for (tensors, _) in &mut files {
        tensors.sort_unstable_by_key(|wanted| wanted.at);
    }
    Ok(files)
}

fn fits(plan: &Plan, wanted: &Wanted) -> bool {
    let (info, runs) = (plan.info(wanted), plan.runs(wanted));
    let align = match info.dtype() {
        DType::Opaque(_) => 1,
        dtype => dtype.size_bytes() as u64,
    };
    let is_file = plan.opened.shards[info.shard].file.is_some();
    is_file && runs.count == 1 && runs.bytes > 0 && runs.offset.is_multiple_of(align)
}
