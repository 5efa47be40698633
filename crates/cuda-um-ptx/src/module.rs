//! A parsed module, its variables and its kernels.

use std::sync::Arc;

use crate::decode;
use crate::error::{LoadError, ParseError};
use crate::program::Program;
use crate::syntax::{self, Function, Space, Text, Tree, Value};

/// A simulated device, as far as it decides which modules load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// Compute capability: `(9, 0)`.
    pub compute: (u32, u32),
    /// The driver's CUDA version: `(13, 0)`.
    pub driver: (u32, u32),
}

impl Default for Device {
    fn default() -> Self {
        Self {
            compute: (9, 0),
            driver: (13, 0),
        }
    }
}

impl Device {
    /// The newest PTX version that the driver knows (PTX ISA, Release Notes).
    pub fn ptx_version(&self) -> (u32, u32) {
        match self.driver {
            (11, minor) => (7, minor),
            (12, minor @ ..=5) => (8, minor),
            (12, minor) => (8, minor - 1),
            (13, minor) => (9, minor),
            (major, _) if major < 11 => (6, 5),
            _ => (u32::MAX, 0),
        }
    }
}

/// A module: parsed PTX. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Module(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    text: Arc<str>,
    tree: Tree,
}

/// A variable of a module in `.global` or `.const`, for which the caller allocates device memory.
#[derive(Debug, Clone, Copy)]
pub struct Variable<'m> {
    /// Its name: the one `cuModuleGetGlobal` looks for.
    pub name: &'m str,
    /// Its size; 0 for an `.extern` array without a size.
    pub bytes: u64,
    /// The alignment of its address.
    pub align: u64,
    /// Whether kernels only read it: `.const`.
    pub constant: bool,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Where it begins in the parameter buffer.
    pub offset: usize,
    /// Its size.
    pub bytes: usize,
}

impl Module {
    /// Reads PTX text. A trailing NUL is fine.
    ///
    /// # Errors
    /// The line, what was found there, and what the grammar expects.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let tree = syntax::parse(text)?;
        Ok(Self(Arc::new(Inner {
            text: text.into(),
            tree,
        })))
    }

    pub(crate) fn text(&self) -> &Arc<str> {
        &self.0.text
    }

    pub(crate) fn str(&self, text: Text) -> &str {
        text.of(&self.0.text)
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.0.tree
    }

    /// `.version`.
    pub fn version(&self) -> (u32, u32) {
        self.0.tree.version
    }

    /// The first name after `.target`: `sm_60`.
    pub fn target(&self) -> &str {
        self.0
            .tree
            .targets
            .first()
            .map_or("", |&target| self.str(target))
    }

    /// Refuses a device whose driver refuses the module.
    ///
    /// # Errors
    /// [`LoadError::Version`], [`LoadError::Target`].
    pub fn check(&self, device: &Device) -> Result<(), LoadError> {
        if self.version() > device.ptx_version() {
            return Err(LoadError::Version {
                module: self.version(),
                driver: device.ptx_version(),
            });
        }
        let (target, compute) = (self.target(), device.compute);
        let name = target
            .strip_prefix("sm_")
            .or(target.strip_prefix("compute_"));
        let name = name.unwrap_or(target);
        let digits = name.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
        let fits = digits.parse::<u32>().is_ok_and(|number| {
            let wanted = (number / 10, number % 10);
            // `sm_90a` runs on 9.0 only, `sm_100f` on the devices of its family.
            match &name[digits.len()..] {
                "a" => compute == wanted,
                "f" => compute.0 == wanted.0 && compute >= wanted,
                _ => compute >= wanted,
            }
        });
        if fits {
            return Ok(());
        }
        let target = target.into();
        Err(LoadError::Target { target, compute })
    }

    /// The names of the kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel<'_>> {
        let functions = self.0.tree.functions.iter();
        functions
            .filter(|function| function.entry && function.body.is_some())
            .map(|function| Kernel {
                module: self,
                function,
            })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Option<Kernel<'_>> {
        self.kernels().find(|kernel| kernel.name() == name)
    }

    fn in_memory(&self) -> impl Iterator<Item = &syntax::Variable> {
        self.0
            .tree
            .variables
            .iter()
            .filter(|variable| in_memory(variable))
    }

    /// The variables in device memory. [`Launch::variables`](crate::Launch::variables) has their addresses in this order.
    pub fn variables(&self) -> impl Iterator<Item = Variable<'_>> {
        self.in_memory().map(|variable| Variable {
            name: self.str(variable.name),
            bytes: variable.bytes(),
            align: variable.align,
            constant: variable.space == Space::Const,
        })
    }

    /// The bytes that variable `index` begins with; `addresses` has the addresses of all variables, for pointers among them.
    ///
    /// # Panics
    /// If `index` is not that of a variable, or `addresses` has fewer elements than there are variables.
    pub fn initial_bytes(&self, index: usize, addresses: &[u64]) -> Vec<u8> {
        let variables: Vec<_> = self.in_memory().collect();
        let variable = variables[index];
        let width = variable.kind.bytes() as usize;
        let mut bytes = vec![0; variable.bytes() as usize];
        for (element, value) in bytes.chunks_exact_mut(width).zip(&variable.initial) {
            let bits = match *value {
                Value::Integer(value) => value,
                Value::F32(bits) if width == 8 => f64::from(f32::from_bits(bits)).to_bits(),
                Value::F32(bits) => u64::from(bits),
                Value::F64(bits) if width == 4 => {
                    u64::from((f64::from_bits(bits) as f32).to_bits())
                }
                Value::F64(bits) => bits,
                Value::Address {
                    name,
                    offset,
                    shift,
                } => {
                    let named = |other: &&syntax::Variable| self.str(other.name) == self.str(name);
                    let of = variables.iter().position(named);
                    of.map_or(0, |of| addresses[of].wrapping_add_signed(offset)) >> shift
                }
            };
            let size = width.min(8);
            element[..size].copy_from_slice(&bits.to_le_bytes()[..size]);
        }
        bytes
    }
}

/// `.global` and `.const` variables have an address in device memory; textures have none.
pub(crate) fn in_memory(variable: &syntax::Variable) -> bool {
    matches!(variable.space, Space::Global | Space::Const) && variable.kind != syntax::Type::Opaque
}

/// A kernel of a module.
#[derive(Debug, Clone, Copy)]
pub struct Kernel<'m> {
    pub(crate) module: &'m Module,
    pub(crate) function: &'m Function,
}

impl<'m> Kernel<'m> {
    /// Its name.
    pub fn name(&self) -> &'m str {
        self.module.str(self.function.name)
    }

    /// Its parameters: where each begins in the parameter buffer, and its size.
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut end = 0u64;
        let parameters = self.function.parameters.iter().map(|parameter| {
            let offset = end.next_multiple_of(parameter.align);
            end = offset + parameter.bytes();
            Parameter {
                offset: offset as usize,
                bytes: parameter.bytes() as usize,
            }
        });
        parameters.collect()
    }

    /// `.maxntid` or `.reqntid`.
    pub fn max_threads(&self) -> Option<[u32; 3]> {
        self.function.required_threads.or(self.function.max_threads)
    }

    /// Decodes the kernel, with the functions it calls.
    ///
    /// # Errors
    /// [`LoadError`]: the device is too old, the kernel is not valid, or uses what the machine does not implement.
    pub fn load(&self, device: &Device) -> Result<Program, LoadError> {
        self.module.check(device)?;
        decode::decode(*self)
    }
}
