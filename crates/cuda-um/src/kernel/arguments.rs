//! Argument lists whose length is known only at run time.

use crate::kernel::argument::{KernelArg, KernelArgs, Parameters, Pass};
use std::fmt;

/// The arguments of a launch, in order, as a list: for kernels whose parameters are known only at run time.
///
/// A tuple does the same without allocating.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{Arguments, UnifiedBuffer};
///
/// let mut outputs = vec![UnifiedBuffer::<f32>::zeroed(&device, 8)?, UnifiedBuffer::zeroed(&device, 8)?];
/// let mut arguments = Arguments::new();
/// outputs.iter_mut().for_each(|output| arguments.push(output)); // borrowed until the list is launched or dropped
/// arguments.push(8u32);
/// assert_eq!(arguments.len(), 3);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Default)]
pub struct Arguments<'a> {
    list: Vec<Box<dyn Pass + 'a>>,
}

impl<'a> Arguments<'a> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next argument: `&buffer`, `&mut buffer`, a view, or a number.
    pub fn push(&mut self, argument: impl KernelArg + 'a) {
        self.list.push(Box::new(argument));
    }

    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns true if there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl Pass for Arguments<'_> {
    fn pass<'a>(&'a self, parameters: &mut Parameters<'a>) {
        self.list
            .iter()
            .for_each(|argument| argument.pass(parameters));
    }
}
impl KernelArgs for Arguments<'_> {}

impl fmt::Debug for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arguments")
            .field("len", &self.len())
            .finish()
    }
}
