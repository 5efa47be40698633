//! The values of named scalars in an executable graph.

use super::GraphExec;
use crate::driver::graph::KernelParameters;
use crate::error::{Error, Result};
use bytemuck::NoUninit;
use std::any::{TypeId, type_name};

impl GraphExec {
    /// Sets a named scalar ([`Recording::scalar`](crate::graph::Recording::scalar)) in all recorded launches that take it, for later launches of this
    /// executable graph.
    ///
    /// # Ordering
    ///
    /// Launches that are enqueued keep the earlier value. The call uses no stream, and waits for nothing.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a name that no recorded launch takes (the error lists the names), and for a value of another type; and the
    /// errors of `cuGraphExecKernelNodeSetParams`: then nothing has changed; if CUDA refuses to undo a part, launches are refused from then on.
    #[doc(alias = "cuGraphExecKernelNodeSetParams")]
    pub fn set<T: NoUninit>(&mut self, name: &str, value: T) -> Result<()> {
        let index = self.scalar_of::<T>(name)?;
        let value = bytemuck::bytes_of(&value).to_vec();
        let before = std::mem::replace(&mut self.scalars[index].value, value);
        self.write(index).inspect_err(|_| {
            // CUDA may report an error of earlier work, and do what was asked: all launches are set again.
            self.scalars[index].value = before;
            self.is_mixed |= self.write(index).is_err();
        })
    }

    fn scalar_of<T: 'static>(&self, name: &str) -> Result<usize> {
        let refuse = |value, reason| Error::InvalidArgument {
            what: "a scalar of a graph",
            value,
            reason,
        };
        let named = self.contents.kernels.iter().flat_map(|it| &it.named);
        let mut taken: Vec<_> = named.flat_map(|it| &it.scalars).map(|it| it.1).collect();
        taken.sort_unstable();
        taken.dedup();
        let mut all = taken.iter().map(|index| *index as usize);
        let Some(index) = all.find(|index| self.scalars[*index].name == name) else {
            let names = taken.iter().map(|index| &self.scalars[*index as usize]);
            let names: Vec<_> = names
                .map(|known| format!("`{}` ({})", known.name, known.type_name))
                .collect();
            let reason = match names.is_empty() {
                true => "its launches take no named scalars: record them with `Recording::scalar`"
                    .to_owned(),
                false => format!("its launches take {}", names.join(", ")),
            };
            return Err(refuse(format!("`{name}`"), reason));
        };
        let known = self.scalars[index].type_name;
        match self.scalars[index].of == TypeId::of::<T>() {
            true => Ok(index),
            false => Err(refuse(
                format!("`{name}` of type {}", type_name::<T>()),
                format!("it was recorded with type {known}: pass a value of that type"),
            )),
        }
    }

    /// Writes the values of all scalars to the launches that take this one.
    fn write(&self, index: usize) -> Result<()> {
        let device = &self.contents.device;
        // CUDA reads the node: other threads must not use the graph meanwhile.
        let _graph = self.contents.graph.lock();
        let launches = self.contents.kernels.iter().flat_map(|it| &it.named);
        let is_it = |(_, scalar): &(usize, u32)| *scalar as usize == index;
        for launch in launches.filter(|launch| launch.scalars.iter().any(is_it)) {
            let mut all = launch.values.clone();
            for (parameter, scalar) in &launch.scalars {
                let value = &self.scalars[*scalar as usize].value;
                let place = bytemuck::cast_slice_mut::<u64, u8>(&mut all[*parameter]);
                place[..value.len()].copy_from_slice(value);
            }
            let values = all.iter_mut().map(|value| value.as_mut_ptr().cast());
            let mut values: Vec<_> = values.collect();
            let parameters = KernelParameters {
                function: launch.function,
                shape: launch.shape,
                values: &mut values,
            };
            let (ordinal, exec) = (device.ordinal(), self.raw.raw());
            // SAFETY: `self` is borrowed exclusively; the node is that of this launch, whose module the graph keeps; and the values are those of
            // the launch, but for scalars of the same types.
            unsafe {
                device
                    .api()
                    .graph_set_kernel(ordinal, exec, launch.node, parameters)
            }?;
        }
        Ok(())
    }

    pub(super) fn check_scalars(&self) -> Result<()> {
        match self.is_mixed {
            false => Ok(()),
            true => Err(Error::InvalidArgument {
                what: "the scalars of a graph",
                value: "those of a `set` that failed".to_owned(),
                reason: "CUDA could not undo it, and may have made a part of it: instantiate the graph again".to_owned(),
            }),
        }
    }
}
