//! Instructions of threads in a second, by kernel: `cargo run --release -p cuda-um-ptx --example ptx_speed [THREADS]`.

#![expect(unsafe_code, reason = "`Memory` is an unsafe trait")]

use std::time::Instant;

use cuda_um_ptx::{Checks, Device, Launch, Memory, Module, Refusal, Region};

/// Arrays of f32 at multiples of 2^32.
struct Arrays(Vec<Vec<f32>>);

// SAFETY: nothing else uses the vectors during a launch.
unsafe impl Memory for Arrays {
    fn region(&self, address: u64) -> Result<Region, Refusal> {
        let id = address >> 32;
        let Some(array) = (id as usize)
            .checked_sub(1)
            .and_then(|index| self.0.get(index))
        else {
            return Err(Refusal::Unmapped(String::new()));
        };
        Ok(Region {
            base: id << 32,
            bytes: array.len() as u64 * 4,
            host: array.as_ptr().cast_mut().cast(),
            id,
            writable: true,
            page_bytes: 0,
            written: std::ptr::null_mut(),
        })
    }
}

/// The product of two matrices by tiles of 16 × 16 in shared memory: n × n, n a multiple of 16.
const MATMUL: &str = ".version 6.4 .target sm_60 .address_size 64
.visible .entry matmul(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 n) {
    .reg .pred %p; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<8>;
    .shared .align 4 .b8 ta[1024]; .shared .align 4 .b8 tb[1024];
    ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %tid.y; mov.u32 %r4, %ctaid.x; mov.u32 %r5, %ctaid.y;
    mad.lo.s32 %r6, %r5, 16, %r3; mad.lo.s32 %r7, %r4, 16, %r2;
    mad.lo.s32 %r8, %r6, %r1, %r2; mad.wide.u32 %rd4, %r8, 4, %rd1;
    mad.lo.s32 %r8, %r3, %r1, %r7; mad.wide.u32 %rd5, %r8, 4, %rd2;
    mul.wide.u32 %rd6, %r1, 64;
    mov.u32 %r9, ta; mov.u32 %r10, tb;
    shl.b32 %r11, %r3, 6; shl.b32 %r12, %r2, 2; add.u32 %r13, %r9, %r11; add.u32 %r14, %r13, %r12;
    add.u32 %r15, %r10, %r11; add.u32 %r15, %r15, %r12; add.u32 %r16, %r10, %r12;
    mov.f32 %f1, 0f00000000; mov.u32 %r17, 0;
LOOP:
    ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5];
    st.shared.f32 [%r14], %f2; st.shared.f32 [%r15], %f3;
    bar.sync 0;
    STEPS
    bar.sync 0;
    add.u64 %rd4, %rd4, 64; add.u64 %rd5, %rd5, %rd6; add.u32 %r17, %r17, 16;
    setp.lt.u32 %p, %r17, %r1;
    @%p bra LOOP;
    mad.lo.s32 %r8, %r6, %r1, %r7; mad.wide.u32 %rd7, %r8, 4, %rd3;
    st.global.f32 [%rd7], %f1;
    ret;
}";

fn main() {
    let threads = std::env::args()
        .nth(1)
        .map_or(0, |text| text.parse().expect("a number of threads"));
    let steps: String = (0..16)
        .map(|k| format!("ld.shared.f32 %f4, [%r13+{}]; ld.shared.f32 %f5, [%r16+{}]; fma.rn.f32 %f1, %f4, %f5, %f1;\n", k * 4, k * 64))
        .collect();
    let (queries, targets, dim, k) = (256u64, 1024u64, 768u64, 10u32);
    let values = |count: u64| {
        (0..count)
            .map(|i| ((i * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0)
            .collect::<Vec<f32>>()
    };
    let memory = Arrays(vec![
        values(queries * dim),
        values(targets * dim),
        vec![1.0; queries as usize * 2],
        vec![1.0; targets as usize * 2],
        vec![0.0; (queries * 4) as usize * k as usize],
        vec![0.0; (queries * 4) as usize * k as usize],
    ]);
    let address = |index: u64| (index << 32).to_le_bytes();
    let mut cosine: Vec<u8> = (1..=6).flat_map(address).collect();
    for value in [queries, targets, dim, targets / 4, k.into()] {
        cosine.extend(value.to_le_bytes());
    }
    let mut matmul: Vec<u8> = [1, 2, 5].into_iter().flat_map(address).collect();
    matmul.extend(64u64.to_le_bytes());
    let scale = [
        address(1),
        address(1),
        2.0f64.to_bits().to_le_bytes(),
        (queries * dim).to_le_bytes(),
    ]
    .concat();
    let mut square = Arrays(vec![
        values(512 * 512),
        values(512 * 512),
        vec![],
        vec![],
        vec![0.0; 512 * 512],
    ]);
    square.0[2].push(0.0);
    let mut wide = matmul.clone();
    wide[24..28].copy_from_slice(&512u32.to_le_bytes());
    let shipped = |file: &str| {
        std::fs::read_to_string(format!(
            "{}/../../kernels/ptx/{file}.ptx",
            env!("CARGO_MANIFEST_DIR")
        ))
        .expect("a shipped kernel")
    };
    let tiled = MATMUL.replace("STEPS", &steps);
    /// Title, kernel, text, grid, block, parameters, memory.
    type Run<'r> = (
        &'r str,
        &'r str,
        String,
        [u32; 3],
        [u32; 3],
        &'r [u8],
        &'r Arrays,
    );
    let runs: [Run<'_>; 3] = [
        (
            "cosine_top_k",
            "cosine_top_k_partial",
            shipped("cosine_top_k"),
            [(queries / 64) as u32, 4, 1],
            [256, 1, 1],
            &cosine,
            &memory,
        ),
        (
            "matmul in shared memory",
            "matmul",
            tiled,
            [32, 32, 1],
            [16, 16, 1],
            &wide,
            &square,
        ),
        (
            "scale",
            "scale_f32",
            shipped("scale"),
            [64, 1, 1],
            [256, 1, 1],
            &scale,
            &memory,
        ),
    ];
    for (title, name, text, grid, block, parameters, memory) in runs {
        let module = Module::parse(&text).expect("PTX");
        let program = module
            .kernel(name)
            .expect("a kernel")
            .load(&Device::default())
            .expect("a kernel that loads");
        for (checks, what) in [
            (Checks::default(), "bounds, alignment, arguments, barriers"),
            (Checks::ALL, "all checks"),
        ] {
            let launch = Launch {
                grid,
                block,
                parameters,
                threads,
                checks,
                ..Launch::default()
            };
            let begin = Instant::now();
            let report = program
                .run(&launch, memory)
                .unwrap_or_else(|failure| panic!("{failure}"));
            let seconds = begin.elapsed().as_secs_f64();
            println!(
                "{title}, {what}: {:.0} M/s ({} M in {seconds:.3} s)",
                report.thread_instructions as f64 / seconds / 1e6,
                report.thread_instructions / 1_000_000
            );
        }
    }
}
