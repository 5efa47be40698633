//! The kernels of `stress.ptx`.

use cuda_um::{Device, Kernel, LaunchConfig, Module, Result, Stream, View, ViewMut};

/// Every element x becomes x * factor + addend.
#[derive(Clone, Copy)]
pub struct Affine {
    pub factor: u32,
    pub addend: u32,
}

impl Affine {
    pub fn of(self, element: u32) -> u32 {
        element.wrapping_mul(self.factor).wrapping_add(self.addend)
    }

    /// This function, followed by `next`.
    pub fn then(self, next: Self) -> Self {
        Self {
            factor: self.factor.wrapping_mul(next.factor),
            addend: next.of(self.addend),
        }
    }
}

pub struct Kernels {
    in_place: Kernel,
    of_another: Kernel,
}

impl Kernels {
    pub fn load(device: &Device) -> Self {
        let module = Module::load(device, include_str!("stress.ptx")).unwrap();
        Self {
            in_place: module.kernel("stress_affine").unwrap(),
            of_another: module.kernel("stress_affine_of").unwrap(),
        }
    }

    pub fn change(&self, stream: &Stream, data: ViewMut<'_, u32>, by: Affine) -> Result<()> {
        let count = data.len();
        let arguments = (data, count as u32, by.factor, by.addend);
        // SAFETY: the arguments match the kernel; it stays below `count`, which is the buffer's length.
        #[allow(unsafe_code, reason = "launches a kernel of stress.ptx")]
        unsafe {
            let config = LaunchConfig::linear(count, 256);
            self.in_place.launch(stream, config, arguments)
        }
    }

    /// `to` is not longer than `from`.
    pub fn make(
        &self,
        stream: &Stream,
        to: ViewMut<'_, u32>,
        from: View<'_, u32>,
        by: Affine,
    ) -> Result<()> {
        let count = to.len();
        assert!(count <= from.len());
        let arguments = (to, from, count as u32, by.factor, by.addend);
        // SAFETY: the arguments match the kernel; it stays below `count`, and both buffers are at least as long.
        #[allow(unsafe_code, reason = "launches a kernel of stress.ptx")]
        unsafe {
            let config = LaunchConfig::linear(count, 256);
            self.of_another.launch(stream, config, arguments)
        }
    }
}
