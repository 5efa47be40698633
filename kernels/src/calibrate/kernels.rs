//! Calls and kernels.

use super::session::{LARGE, Outcome, SMALL, Session, fresh, slope, verify};
use crate::Scale;
use cuda_um::{
    DeviceBuffer, Placement, UnifiedBuffer, UnifiedOptions,
    buffer::{Readable, Writable},
    resource::DeviceMemory,
};

/// Calls in a row: they fit into the driver's queue.
const ROW: usize = 256;

/// The host's time of one launch and one memset, out of many in a row. Later steps subtract them; the model keeps the built-in values,
/// which are those of the calls without the library.
pub(super) fn calls(session: &mut Session) -> Outcome<()> {
    let source = fresh(SMALL, 1);
    let input = DeviceBuffer::from_slice_in(&DeviceMemory::new(&session.device), &source)?;
    let mut output = DeviceBuffer::zeroed_in(&DeviceMemory::new(&session.device), source.len())?;
    let mut each = |work: &dyn Fn(&mut DeviceBuffer<f32>) -> Outcome<()>| {
        session.median(SMALL, |_| {
            let time = session.clock.time_each(ROW, || work(&mut output))?;
            session.stream.synchronize()?;
            Outcome::Ok(time)
        })
    };
    let stream = &session.stream;
    let enqueue = each(&|output| Ok(output.fill_on(0.0, stream)?))?;
    let launch = match &session.scale {
        Some(scale) => each(&|output| Ok(scale.launch(stream, &input, output, 2.0)?))?,
        None => 0.0,
    };
    (session.launch, session.enqueue) = (launch, enqueue);
    Ok(())
}

/// Seconds for `output = 2 × input` and the wait.
fn seconds(
    session: &Session,
    scale: &Scale,
    input: &impl Readable<Element = f32>,
    output: &mut impl Writable<Element = f32>,
) -> Outcome<f64> {
    session.median(size_of::<f32>() * input.as_view().len(), |_| {
        session.clock.time(|| {
            scale.launch(&session.stream, input, &mut *output, 2.0)?;
            Ok(session.stream.synchronize()?)
        })
    })
}

fn no_kernel(session: &mut Session, keys: &[&str]) {
    let why = "this device is older than the kernel";
    keys.iter().for_each(|key| session.note(key, why));
}

/// A kernel in device memory.
pub(super) fn kernels(session: &mut Session) -> Outcome<()> {
    let Some(scale) = &session.scale else {
        no_kernel(session, &["kernel_bytes_per_s", "kernel_us"]);
        return Ok(());
    };
    let local = |bytes| {
        let source = fresh(bytes, 2);
        let input = DeviceBuffer::from_slice_in(&DeviceMemory::new(&session.device), &source)?;
        let mut output =
            DeviceBuffer::zeroed_in(&DeviceMemory::new(&session.device), source.len())?;
        let seconds = seconds(session, scale, &input, &mut output)?;
        verify(&output.to_vec()?, &source, 2.0)?;
        Outcome::Ok(seconds)
    };
    let large = LARGE;
    let (small, whole) = (local(SMALL)?, local(large)?);
    // It reads and writes the same number of bytes.
    let rate = slope((2 * SMALL, small), (2 * large, whole));
    session.rate("kernel_bytes_per_s", rate);
    let kernel = small - session.launch - (2 * SMALL) as f64 / rate;
    session.time("kernel_us", kernel);
    Ok(())
}

/// A kernel that reads mapped memory, and one that writes it; the other side is device memory.
pub(super) fn mapped(session: &mut Session) -> Outcome<()> {
    let keys = ["remote_bytes_per_s", "remote_us"];
    let Some(scale) = &session.scale else {
        no_kernel(session, &keys);
        return Ok(());
    };
    let can = session.device.capabilities();
    if !(can.map_host_memory && can.unified_addressing) {
        let why = "this device cannot map host memory";
        keys.iter().for_each(|key| session.note(key, why));
        return Ok(());
    }
    // Additional time compared with the same kernel on device memory.
    let longer = |bytes: usize| {
        let source = fresh(bytes, 3);
        let options = UnifiedOptions::default().placement(Placement::Mapped);
        let mut host = UnifiedBuffer::from_slice_with(&session.device, &source, options)?;
        let mut there = DeviceBuffer::zeroed_in(&DeviceMemory::new(&session.device), source.len())?;
        let read = seconds(session, scale, &host, &mut there)?;
        let written = seconds(session, scale, &there, &mut host)?;
        verify(&host.host()?, &source, 4.0)?;
        let model = &session.model;
        let local = session.launch + model.kernel.as_secs_f64() + bytes as f64 / model.kernel_rate;
        Outcome::Ok((read + written) / 2.0 - local)
    };
    let large = LARGE;
    let (small, whole) = (longer(SMALL)?, longer(large)?);
    let rate = slope((SMALL, small), (large, whole));
    session.rate("remote_bytes_per_s", rate);
    session.time("remote_us", small - SMALL as f64 / rate);
    Ok(())
}
