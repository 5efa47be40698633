//! Device memory for tests: named arrays, far from each other.

#![expect(unsafe_code, reason = "`Memory` is an unsafe trait")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::sleep;
use std::time::Duration;

use cuda_um_ptx::{
    Checks, Device, Failure, Finding, FindingKind, Launch, Memory, Module, Program, Refusal,
    Region, Report, Touch,
};

/// Arrays at 0x10000, 0x20000, …, as far apart as the largest needs.
#[derive(Default)]
pub struct Arrays {
    arrays: Vec<Array>,
    pub touches: Mutex<Vec<Touch>>,
    pub printed: Mutex<String>,
    /// The first word of the array of the first touch, a while after that touch began.
    pub seen_by_touch: OnceLock<u64>,
}

struct Array {
    base: u64,
    bytes: u64,
    words: Vec<u64>,
    written: Vec<u8>,
    writable: bool,
    page_bytes: u64,
    freed: bool,
    watched: bool,
}

// SAFETY: the vectors are not changed or read while a kernel runs: tests hold no reference to their contents then.
unsafe impl Memory for Arrays {
    fn region(&self, address: u64) -> Result<Region, Refusal> {
        let found = self
            .arrays
            .iter()
            .enumerate()
            .find(|(_, array)| (array.base..array.base + array.bytes).contains(&address));
        let Some((id, array)) = found else {
            return Err(Refusal::Unmapped(String::new()));
        };
        if array.freed {
            return Err(Refusal::Freed(format!("array {id} was freed")));
        }
        Ok(Region {
            base: array.base,
            bytes: array.bytes,
            host: array.words.as_ptr().cast_mut().cast(),
            id: id as u64,
            writable: array.writable,
            page_bytes: array.page_bytes,
            written: if array.watched {
                array.written.as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            },
        })
    }

    fn touch(&self, touch: Touch) {
        self.seen_by_touch.get_or_init(|| {
            sleep(Duration::from_millis(20));
            let words = self.arrays[touch.region as usize].words.as_ptr();
            // SAFETY: the word is there for the launch, and other threads write it with atomic operations.
            unsafe { AtomicU64::from_ptr(words.cast_mut()) }.load(Ordering::Relaxed)
        });
        self.touches.lock().unwrap().push(touch);
    }

    fn print(&self, text: &str) {
        self.printed.lock().unwrap().push_str(text);
    }
}

/// Elements of arrays.
pub trait Plain: Copy {
    fn bytes(self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Self;
    const SIZE: usize;
}

macro_rules! plain {
    ($($type:ty)*) => {$(
        impl Plain for $type {
            const SIZE: usize = size_of::<$type>();
            fn bytes(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}

plain!(u8 u16 u32 u64 i32 i64 f32 f64);

impl Arrays {
    /// The address of a new array.
    pub fn add<T: Plain>(&mut self, values: &[T]) -> u64 {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
        let base = self.arrays.last().map_or(0x10000, |last| {
            (last.base + last.bytes).next_multiple_of(0x10000) + 0x10000
        });
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        for (index, byte) in bytes.iter().enumerate() {
            words[index / 8] |= u64::from(*byte) << (8 * (index % 8));
        }
        let written = vec![0xff; bytes.len().div_ceil(8)];
        self.arrays.push(Array {
            base,
            bytes: bytes.len() as u64,
            words,
            written,
            writable: true,
            page_bytes: 0,
            freed: false,
            watched: false,
        });
        base
    }

    fn array(&mut self, address: u64) -> &mut Array {
        self.arrays
            .iter_mut()
            .find(|array| array.base == address)
            .unwrap()
    }

    pub fn read_only(&mut self, address: u64) {
        self.array(address).writable = false;
    }

    pub fn free(&mut self, address: u64) {
        self.array(address).freed = true;
    }

    pub fn pages(&mut self, address: u64, bytes: u64) {
        self.array(address).page_bytes = bytes;
    }

    /// Nothing in the array is written.
    pub fn unwritten(&mut self, address: u64) {
        let array = self.array(address);
        array.watched = true;
        array.written.fill(0);
    }

    pub fn get<T: Plain>(&self, address: u64) -> Vec<T> {
        let array = self
            .arrays
            .iter()
            .find(|array| array.base == address)
            .unwrap();
        let bytes: Vec<u8> = array
            .words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .take(array.bytes as usize)
            .collect();
        bytes.chunks_exact(T::SIZE).map(T::from_bytes).collect()
    }
}

/// Parameters, each aligned to its size.
#[derive(Default, Clone)]
pub struct Parameters(pub Vec<u8>);

impl Parameters {
    pub fn with(mut self, value: impl Plain) -> Self {
        let bytes = value.bytes();
        self.0.resize(self.0.len().next_multiple_of(bytes.len()), 0);
        self.0.extend(bytes);
        self
    }
}

/// Parameters of these values.
macro_rules! with {
    ($($value:expr),+) => { $crate::support::Parameters::default()$(.with($value))+ };
}

pub fn program(text: &str, name: &str) -> Program {
    let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module
        .kernel(name)
        .unwrap()
        .load(&Device::default())
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// A kernel `test(out, in)` around a body, with registers of all kinds; thread `%r0` is the index of the thread in the grid, `%rd0`
/// and `%rd1` point to the thread's 8 bytes of `out` and `in`.
pub fn body(text: &str) -> String {
    let header = if text.contains(".target") {
        ""
    } else {
        ".version 8.6 .target sm_90 .address_size 64\n"
    };
    format!(
        "{header}{before}
.visible .entry test(.param .u64 out, .param .u64 in) {{
    .reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<60>; .reg .b64 %rd<40>; .reg .f32 %f<40>; .reg .f64 %d<20>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.s32 %r0, %r1, %r2, %r3;
    ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in];
    mad.wide.u32 %rd0, %r0, 8, %rd0; mad.wide.u32 %rd1, %r0, 8, %rd1;
{text}
    ret;
}}",
        before = text.split("// body").next().filter(|_| text.contains("// body")).unwrap_or(""),
        text = text.split("// body").last().unwrap_or(text),
    )
}

/// Runs `body(text)` with one thread for each element of `input`.
pub fn run_with(
    text: &str,
    input: &[u64],
    change: impl FnOnce(&mut Launch),
) -> Result<(Vec<u64>, Report), Failure> {
    let program = program(&body(text), "test");
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&vec![0u64; input.len()]), arrays.add(input));
    let parameters = with![out, from].0;
    let mut launch = Launch {
        block: [input.len() as u32, 1, 1],
        parameters: &parameters,
        threads: 1,
        checks: Checks::ALL,
        ..Launch::default()
    };
    change(&mut launch);
    let report = program.run(&launch, &arrays)?;
    Ok((arrays.get(out), report))
}

pub fn run(text: &str, input: &[u64]) -> Vec<u64> {
    run_with(text, input, |_| {})
        .unwrap_or_else(|failure| panic!("{failure}"))
        .0
}

/// The finding of a kernel that is wrong.
pub fn finding(text: &str, threads: usize, change: impl FnOnce(&mut Launch)) -> Finding {
    match run_with(text, &vec![0; threads], change) {
        Err(Failure::Finding(finding)) => *finding,
        other => panic!("{other:?}"),
    }
}

pub fn assert_kind(text: &str, threads: usize, kind: FindingKind) -> Finding {
    let found = finding(text, threads, |_| {});
    assert_eq!(found.kind, kind, "{found}");
    found
}
