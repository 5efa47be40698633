//! A PTX machine: it parses CUDA kernels in PTX, checks them and runs them on the CPU.
//!
//! A kernel runs as on a device, a warp of 32 lanes at a time: divergence, shared memory, barriers, shuffles, atomics and matrix
//! instructions included. While it runs, accesses are checked, and a mistake is an error that names the line, the thread and the
//! address ([`Finding`]). The arithmetic is that of the PTX manual to the bit, where it defines the bits.
//!
//! The crate knows nothing of CUDA's API: device memory is what a [`Memory`] says it is.
//!
//! Not implemented: `wgmma`, `tcgen05`, TMA (`cp.async.bulk`, `mbarrier` with bytes), clusters of more than one block, textures and
//! surfaces, `wmma`, `movmatrix`, `elect`, `mapa`, function pointers. A kernel that uses one of these is refused by [`Kernel::load`]
//! with the line.
//!
//! # Examples
//! ```
//! use cuda_um_ptx::{Device, Launch, Memory, Module, Refusal, Region};
//!
//! let ptx = ".version 6.4 .target sm_60 .address_size 64
//! .visible .entry double_all(.param .u64 data, .param .u32 len) {
//!     .reg .pred %done;
//!     .reg .b32 %r<6>;
//!     .reg .b64 %rd<3>;
//!     ld.param.u64 %rd1, [data];
//!     ld.param.u32 %r1, [len];
//!     mov.u32 %r2, %ctaid.x;
//!     mov.u32 %r3, %ntid.x;
//!     mov.u32 %r4, %tid.x;
//!     mad.lo.s32 %r4, %r2, %r3, %r4;
//!     setp.ge.u32 %done, %r4, %r1;
//!     @%done bra END;
//!     mad.wide.u32 %rd2, %r4, 4, %rd1;
//!     ld.global.u32 %r5, [%rd2];
//!     add.u32 %r5, %r5, %r5;
//!     st.global.u32 [%rd2], %r5;
//! END:
//!     ret;
//! }";
//!
//! /// One allocation at device address 0x1000.
//! struct One(*mut u32, u64);
//! // SAFETY: the array outlives the launch, and nothing else uses it meanwhile.
//! unsafe impl Memory for One {
//!     fn region(&self, address: u64) -> Result<Region, Refusal> {
//!         let (base, bytes) = (0x1000, self.1);
//!         if !(base..base + bytes).contains(&address) {
//!             return Err(Refusal::Unmapped(String::new()));
//!         }
//!         let host = self.0.cast();
//!         Ok(Region { base, bytes, host, id: 0, writable: true, page_bytes: 0, written: std::ptr::null_mut() })
//!     }
//! }
//! // SAFETY: as above.
//! unsafe impl Sync for One {}
//!
//! let mut data: Vec<u32> = (0..100).collect();
//! let memory = One(data.as_mut_ptr(), 400);
//! let module = Module::parse(ptx)?;
//! let program = module.kernel("double_all").expect("defined above").load(&Device::default())?;
//!
//! let mut parameters = 0x1000_u64.to_le_bytes().to_vec();
//! parameters.extend(100_u32.to_le_bytes());
//! let launch = Launch { grid: [1, 1, 1], block: [128, 1, 1], parameters: &parameters, ..Launch::default() };
//! let report = program.run(&launch, &memory)?;
//! assert_eq!((data[7], data[99]), (14, 198));
//! assert_eq!(report.global.written, 400);
//!
//! // A length that does not fit the allocation is found.
//! let mut too_many = parameters.clone();
//! too_many[8] = 101;
//! let launch = Launch { parameters: &too_many, ..launch };
//! let failure = program.run(&launch, &memory).unwrap_err();
//! assert!(failure.to_string().contains("`ld.global.u32 %r5, [%rd2];`"));
//! assert!(failure.to_string().contains("thread (100, 0, 0) of block (0, 0, 0)"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decode;
mod error;
mod launch;
#[doc(hidden)]
pub mod math;
mod module;
mod program;
mod run;
mod syntax;

pub use error::{LoadError, ParseError};
pub use launch::{
    Checks, Extent, Failure, Finding, FindingKind, Launch, LineReport, Memory, Refusal, Region,
    Report, Touch, Traffic,
};
pub use module::{Device, Kernel, Module, Parameter, Variable};
pub use program::Program;
