//! The readers of untrusted bytes, as functions that take any bytes. None of them may panic, and accepted data must be
//! consistent.
//!
//! `cargo fuzz` runs them under libFuzzer (`fuzz_targets/`); `tests/all/mutated.rs` mutates the seeds in CI.

use cuda_um::buffer::ReadAt;
use cuda_um::{Device, ErrorKind, Module, Runtime};
use cuda_um_cost::CostModel;
use cuda_um_sim::Sim;
use cuda_um_trace::{MigrationReport, RecordKind, Trace, html, patterns, perfetto};
use std::io;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use um_weights::Weights;

/// A function that takes any bytes.
pub type Target = fn(&[u8]);

/// All targets by name; each has a folder in `seeds/`.
pub const TARGETS: [(&str, Target); 5] = [
    ("cost_model", cost_model),
    ("ptx", ptx),
    ("trace", trace),
    ("weights", weights),
    ("weights_index", weights_index),
];

/// The file that `CUDA_UM_COST_MODEL` names.
///
/// # Panics
/// An accepted model has a value that no machine can have, or changes when it is written and read.
pub fn cost_model(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(model) = CostModel::from_json(text) {
        model.check().expect("accepted models are valid");
        assert_eq!(CostModel::from_json(&model.to_json()), Ok(model));
    }
}

/// Text for `Module::load`: the checks before the driver gets it, and the simulator's reader.
///
/// # Panics
/// A text that the driver must not get was passed on, or the simulator failed with an error that CUDA does not have.
pub fn ptx(bytes: &[u8]) {
    static DEVICE: LazyLock<Device> = LazyLock::new(|| {
        let sim = Sim::builder().build().expect("a simulator");
        let runtime = Runtime::from_table(sim.table()).expect("a runtime");
        runtime.device(0).expect("a device")
    });
    let text = String::from_utf8_lossy(bytes);
    match Module::load(&DEVICE, &text) {
        Ok(module) => {
            assert!(!text.contains('\0') && !text.starts_with('\u{7f}'));
            // Its parameters are read.
            let _ = module.kernel("add");
        }
        Err(error) => {
            let kind = error.kind();
            let checked = text.contains('\0') || text.starts_with('\u{7f}');
            assert_eq!(kind == ErrorKind::InvalidArgument, checked, "{error}");
            // A panic in the simulator would become this error.
            assert!(!error.to_string().contains("UNKNOWN"), "{error}");
        }
    }
}

/// The traces that `um_trace` reads, and all its outputs.
///
/// # Panics
/// An accepted trace changes when it is written and read, the sums of its report differ from its records, or a picture is invalid.
pub fn trace(bytes: &[u8]) {
    static MODEL: LazyLock<CostModel> = LazyLock::new(CostModel::h200);
    /// Reports go through the bytes of migrations in small steps, and an execution must be fast.
    const MOST_BYTES: u64 = 1 << 32;
    let text = std::str::from_utf8(bytes);
    let Some(trace) = text.ok().and_then(|text| Trace::from_json(text).ok()) else {
        return;
    };
    let moved = trace.records.iter().map(|record| match record.kind {
        RecordKind::Migration { bytes, .. } => bytes,
        _ => 0,
    });
    if moved.sum::<u64>() > MOST_BYTES {
        return;
    }
    let json = trace.to_json();
    assert_eq!(
        Trace::from_json(&json).expect("accepted traces can be read back"),
        trace
    );
    let report = MigrationReport::of(&trace, &MODEL);
    let sum = |of: fn(&cuda_um_trace::Traffic) -> u64| {
        let buffers = report.buffers.iter().map(|line| of(&line.traffic));
        let operations = report.operations.iter().map(|line| of(&line.traffic));
        (of(&report.total), buffers.sum(), operations.sum())
    };
    for (total, buffers, operations) in [sum(|one| one.bytes()), sum(|one| one.gpu_faults)] {
        assert_eq!((total, total), (buffers, operations));
    }
    let text = report.to_string();
    assert!(
        text.chars()
            .all(|letter| letter == '\n' || !letter.is_control())
    );
    let _ = patterns(&trace);
    assert!(html(&trace, &report).ends_with("</html>\n"));
    let events = perfetto(&trace);
    assert!(events.starts_with('{') && events.ends_with('}'));
}

/// A safetensors or GGUF file; the first bytes tell which.
///
/// # Panics
/// A tensor of an accepted file is not within it, overlaps another one, has a size that is not that of its shape, or the crate `safetensors` refuses
/// the file.
pub fn weights(bytes: &[u8]) {
    struct Bytes(Vec<u8>);

    impl ReadAt for Bytes {
        fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
            let from = self.0.get(offset as usize..).unwrap_or_default();
            let count = into.len().min(from.len());
            into[..count].copy_from_slice(&from[..count]);
            Ok(count)
        }
    }
    let length = bytes.len() as u64;
    let Ok(weights) = Weights::from_storage("bytes", Arc::new(Bytes(bytes.to_vec())), length)
    else {
        return;
    };
    let mut end = 0;
    for tensor in weights.tensors() {
        assert!(tensor.offset() >= end, "{tensor:?} overlaps");
        end = tensor.offset() + tensor.size_bytes() as u64;
        let elements: usize = tensor.shape().iter().product();
        assert_eq!(elements % tensor.block_len(), 0);
        let bytes = elements / tensor.block_len() * tensor.dtype().size_bytes();
        assert_eq!(tensor.size_bytes(), bytes, "{tensor:?}");
        assert!(weights.tensor(tensor.name()).is_some());
    }
    assert!(end <= length, "a tensor ends behind the file");
    if !bytes.starts_with(b"GGUF") {
        let theirs = safetensors::SafeTensors::deserialize(bytes).expect("they accept what we do");
        assert_eq!(theirs.len(), weights.tensors().len());
    }
}

/// The index of files in several parts. Its files are missing.
///
/// # Panics
/// An index with a tensor was accepted.
pub fn weights_index(bytes: &[u8]) {
    static FOLDER: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir().expect("a folder"));
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let path = FOLDER.path().join("index.json");
    std::fs::write(&path, bytes).expect("a file");
    if let Ok(weights) = Weights::open([path]) {
        assert!(weights.tensors().is_empty() && weights.files().count() == 0);
    }
}
