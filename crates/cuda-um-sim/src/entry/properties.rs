//! `cudaGetDeviceProperties`: the attributes of a device as one struct, whose layout depends on the version.

use super::guard::{Outcome, entry_points};
use super::pointer::Out;
use crate::engine::{Code, Core};
use crate::preset::CudaVersion;

/// Neighbouring fields of the struct, by the numbers of their attributes.
enum Fields {
    Numbers(&'static [i32]),
    /// Of 8 bytes.
    Words(&'static [i32]),
    Before13(&'static [i32]),
    From13(&'static [i32]),
    /// The struct of CUDA 11 has no more fields.
    EndOf11,
}

use Fields::{Before13, EndOf11, From13, Numbers, Words};

const FIELDS: &[Fields] = &[
    Words(&[8]),
    Numbers(&[12, 10]),
    Words(&[11]),
    Numbers(&[1, 2, 3, 4, 5, 6, 7]),
    Before13(&[13]),
    Words(&[9]),
    Numbers(&[75, 76]),
    Words(&[14, 51]),
    Before13(&[15]),
    Numbers(&[16]),
    Before13(&[17]),
    Numbers(&[18, 19]),
    Before13(&[20]),
    Numbers(&[21, 77]),
    Before13(&[69]),
    Numbers(&[
        22, 23, 73, 74, 70, 71, 72, 45, 46, 24, 25, 26, 47, 48, 49, 52, 42, 43, 27, 28, 29, 53, 54,
        55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68,
    ]),
    Words(&[30]),
    Numbers(&[31, 32, 33, 34, 50, 35, 40, 41]),
    Before13(&[36]),
    Numbers(&[37, 38, 108, 39, 78, 79, 80]),
    Words(&[81]),
    Numbers(&[82, 83, 84, 85, 86]),
    Before13(&[87]),
    Numbers(&[88, 89, 90, 91, 95]),
    Before13(&[96]),
    Words(&[97]),
    Numbers(&[100, 101, 106, 109]),
    Words(&[111]),
    EndOf11,
    Numbers(&[
        99, 112, 113, 114, 115, 116, 117, 118, 119, 121, 125, 120, 129,
    ]),
    From13(&[130, 131, 133, 134, 139, 140, 143]),
];

/// The bytes of `cudaDeviceProp` from CUDA 12 on, with what is reserved at its end.
const BYTES_12: usize = 1032;
const BYTES_13: usize = 1008;

fn properties(core: &Core, device: i32, layout: CudaVersion) -> Result<Vec<u8>, Code> {
    let ordinal = core.state.lock().devices.ordinal(device)?;
    let is_13 = layout >= CudaVersion::V13_0;
    let mut bytes = core.machine.profile.name.as_bytes().to_vec();
    bytes.resize(256, 0);
    bytes.extend(super::driver_context::uuid(ordinal));
    // The identity of a device on Windows, and its mask.
    bytes.resize(bytes.len() + 12, 0);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend(core.machine.profile.total_memory_bytes.to_ne_bytes());
    let attribute = |number: &i32| core.machine.attribute(*number, ordinal).unwrap_or(0);
    for fields in FIELDS {
        match fields {
            Words(numbers) => {
                bytes.resize(bytes.len().next_multiple_of(8), 0);
                bytes.extend(
                    numbers
                        .iter()
                        .flat_map(|number| (attribute(number) as i64).to_ne_bytes()),
                );
            }
            Before13(_) if is_13 => {}
            From13(_) if !is_13 => {}
            Numbers(numbers) | Before13(numbers) | From13(numbers) => {
                bytes.extend(
                    numbers
                        .iter()
                        .flat_map(|number| attribute(number).to_ne_bytes()),
                );
            }
            EndOf11 if layout < CudaVersion::V12_2 => return Ok(bytes),
            EndOf11 => {}
        }
    }
    bytes.resize(if is_13 { BYTES_13 } else { BYTES_12 }, 0);
    Ok(bytes)
}

fn put(core: &Core, target: Out<u8>, device: i32, layout: CudaVersion) -> Outcome {
    let bytes = properties(core, device, layout)?;
    bytes
        .into_iter()
        .enumerate()
        .try_for_each(|(at, byte)| target.put_at(at, byte))
}

entry_points! { Runtime;
    // Until CUDA 13 this name has the layout of CUDA 11.
    fn cudaGetDeviceProperties(core, target: Out<u8>, device: i32) {
        let layout = if core.machine.cuda < CudaVersion::V13_0 { CudaVersion::V11_8 } else { core.machine.cuda };
        put(core, target, device, layout)
    }

    fn cudaGetDeviceProperties_v2(core, target: Out<u8>, device: i32) { put(core, target, device, CudaVersion::V12_9) }
}
