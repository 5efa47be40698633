//! Copies of rows and layers, as the structs of the runtime and of the driver describe them.

use super::pointer::Out;
use crate::engine::{Code, Direction, Pitched, Plane};

/// A side of `cudaMemcpy3DParms`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Side {
    array: usize,
    position: [usize; 3],
    address: usize,
    pitch: usize,
    width: usize,
    height: usize,
}

/// Both sides and the extent: `CUDA_MEMCPY2D` or `CUDA_MEMCPY3D` with sides of the driver.
#[derive(Clone, Copy)]
#[repr(C)]
struct Sides<S, const N: usize> {
    from: S,
    to: S,
    extent: [usize; N],
}

/// `cudaMemcpy3DParms`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Copy3D {
    sides: Sides<Side, 3>,
    direction: u32,
}

/// The memory of a side of a struct of the driver.
#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    memory: u32,
    host: usize,
    device: usize,
    array: usize,
}

/// A side of `CUDA_MEMCPY3D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DriverSide {
    position: [usize; 3],
    level: usize,
    place: Place,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// A side of `CUDA_MEMCPY2D`.
#[derive(Clone, Copy)]
#[repr(C)]
struct DriverSide2D {
    position: [usize; 2],
    place: Place,
    pitch: usize,
}

/// `CU_MEMORYTYPE_HOST`, `CU_MEMORYTYPE_DEVICE` and `CU_MEMORYTYPE_UNIFIED`.
const ON_HOST: u32 = 1;
const ON_DEVICE: u32 = 2;
const UNIFIED: u32 = 4;

/// The types of the memory that a copy reads and writes, for each direction. Other types have the default direction.
const TYPES: [([u32; 2], Direction); 5] = [
    ([ON_HOST, ON_HOST], Direction::HostToHost),
    ([ON_HOST, ON_DEVICE], Direction::HostToDevice),
    ([ON_DEVICE, ON_HOST], Direction::DeviceToHost),
    ([ON_DEVICE, ON_DEVICE], Direction::DeviceToDevice),
    ([UNIFIED, UNIFIED], Direction::Default),
];

fn plane(address: usize, [x, y, z]: [usize; 3], pitch: usize, height: usize) -> Plane {
    Plane {
        address: address + x + pitch * (y + z * height),
        pitch,
        height,
    }
}

impl Side {
    /// Arrays are not simulated.
    fn plane(self) -> Result<Plane, Code> {
        match self.array {
            0 => Ok(plane(self.address, self.position, self.pitch, self.height)),
            _ => Err(Code::NOT_SUPPORTED),
        }
    }

    fn of(plane: Plane) -> Side {
        Side {
            array: 0,
            position: [0; 3],
            address: plane.address,
            pitch: plane.pitch,
            width: plane.pitch,
            height: plane.height,
        }
    }
}

impl Place {
    fn plane(self, position: [usize; 3], pitch: usize, height: usize) -> Result<Plane, Code> {
        let address = match self.memory {
            ON_HOST => self.host,
            ON_DEVICE | UNIFIED => self.device,
            _ => return Err(Code::NOT_SUPPORTED),
        };
        Ok(plane(address, position, pitch, height))
    }

    fn direction(self, to: Place) -> Direction {
        let given = [self.memory, to.memory];
        let known = TYPES.into_iter().find(|(types, _)| *types == given);
        known.map_or(Direction::Default, |(_, direction)| direction)
    }
}

impl DriverSide {
    fn of(plane: Plane, memory: u32) -> DriverSide {
        let on_host = memory == ON_HOST;
        DriverSide {
            position: [0; 3],
            level: 0,
            place: Place {
                memory,
                host: if on_host { plane.address } else { 0 },
                device: if on_host { 0 } else { plane.address },
                array: 0,
            },
            reserved: 0,
            pitch: plane.pitch,
            height: plane.height,
        }
    }
}

/// Reads `cudaMemcpy3DParms`.
pub(super) fn copy_3d(params: Out<u8>) -> Result<Pitched, Code> {
    let Copy3D { sides, direction } = params.cast().get()?;
    Ok(Pitched {
        to: sides.to.plane()?,
        from: sides.from.plane()?,
        extent: sides.extent,
        direction: Direction::from_raw(direction)?,
    })
}

/// Writes `cudaMemcpy3DParms`.
pub(super) fn write_3d(params: Out<u8>, copy: Pitched) -> Result<(), Code> {
    let sides = Sides {
        from: Side::of(copy.from),
        to: Side::of(copy.to),
        extent: copy.extent,
    };
    let direction = copy.direction as u32;
    params.cast().put(Copy3D { sides, direction })
}

/// Reads `CUDA_MEMCPY3D`.
pub(super) fn driver_copy_3d(params: Out<u8>) -> Result<Pitched, Code> {
    let Sides { from, to, extent } = params.cast::<Sides<DriverSide, 3>>().get()?;
    let plane = |side: DriverSide| side.place.plane(side.position, side.pitch, side.height);
    Ok(Pitched {
        to: plane(to)?,
        from: plane(from)?,
        extent,
        direction: from.place.direction(to.place),
    })
}

/// Writes `CUDA_MEMCPY3D`.
pub(super) fn write_driver_3d(params: Out<u8>, copy: Pitched) -> Result<(), Code> {
    let mut known = TYPES.into_iter();
    let known = known.find(|(_, direction)| *direction == copy.direction);
    let [from, to] = known.map_or([UNIFIED; 2], |(types, _)| types);
    params.cast().put(Sides {
        from: DriverSide::of(copy.from, from),
        to: DriverSide::of(copy.to, to),
        extent: copy.extent,
    })
}

/// Reads `CUDA_MEMCPY2D`.
pub(super) fn driver_copy_2d(params: Out<u8>) -> Result<Pitched, Code> {
    let Sides { from, to, extent } = params.cast::<Sides<DriverSide2D, 2>>().get()?;
    let plane = |DriverSide2D {
                     position: [x, y],
                     place,
                     pitch,
                 }| place.plane([x, y, 0], pitch, 0);
    Ok(Pitched {
        to: plane(to)?,
        from: plane(from)?,
        extent: [extent[0], extent[1], 1],
        direction: from.place.direction(to.place),
    })
}
