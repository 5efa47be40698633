//! The vectors, their texts and the right answers.

use half::f16;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A file, and the problem with it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct InputError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("not a .npy file with one array: {0}")]
    Header(String),
    #[error("{0} of shape {1:?}; allowed: '<f4' or '<f2', two axes (vectors, numbers), not empty")]
    Array(String, Vec<u64>),
    #[error("{0} of shape {1:?} needs {2} bytes of data, and the file has {3}")]
    Size(String, Vec<u64>, u128, usize),
    #[error("row {0}, column {1} is {2}; allowed: finite numbers (rows count from 0)")]
    NotFinite(usize, usize, f32),
    #[error("row {0} is a zero vector, which has no cosine (rows count from 0)")]
    ZeroVector(usize),
    #[error("vectors of {0} numbers, but those of the targets have {1}")]
    Dimension(usize, usize),
    #[error("k = {0} is not in 1 ..= {1} (there are {2} targets)")]
    K(usize, usize, usize),
}

/// Vectors, row by row, and a text for each.
pub struct Vectors {
    pub values: Vec<f32>,
    pub rows: usize,
    pub dim: usize,
    pub texts: Option<Vec<String>>,
}

pub struct Inputs {
    pub targets: Vectors,
    pub queries: Vectors,
    pub k: usize,
    /// Length of the computed lists: `k`, but enough for recall@10.
    pub computed_k: usize,
    /// Query i belongs to target i: both are of shipped sets.
    pub has_truth: bool,
    /// The time for reading and checking.
    pub load: Duration,
}

impl Inputs {
    /// Reads the files that the command line names, and the shipped set for the others.
    pub fn load(args: &crate::args::Args) -> Result<Self, InputError> {
        let start = Instant::now();
        let shipped = shipped_set();
        let or = |given: &Option<PathBuf>, name| given.clone().unwrap_or(shipped.join(name));
        let (path, query_path) = (
            or(&args.targets, "targets.npy"),
            or(&args.queries, "queries.npy"),
        );
        let error = |path: &Path, problem| InputError {
            path: path.to_owned(),
            problem,
        };
        let read = |path: &PathBuf| Vectors::read(path).map_err(|problem| error(path, problem));
        let (targets, queries, k) = (read(&path)?, read(&query_path)?, args.k);
        if queries.dim != targets.dim {
            let problem = Problem::Dimension(queries.dim, targets.dim);
            return Err(error(&query_path, problem));
        }
        let most = targets.rows.min(1024);
        if !(1..=most).contains(&k) {
            return Err(error(&path, Problem::K(k, most, targets.rows)));
        }
        let is_shipped =
            query_path.canonicalize().ok() == shipped.join("queries.npy").canonicalize().ok();
        let has_truth = is_shipped && path.with_file_name("expected.json").is_file();
        let computed_k = if has_truth { k.max(10).min(most) } else { k };
        let load = start.elapsed();
        Ok(Self {
            targets,
            queries,
            k,
            computed_k,
            has_truth,
            load,
        })
    }
}

/// The folder of the shipped set: named by the user, here, in the GPU bundle, or in the source tree.
fn shipped_set() -> PathBuf {
    let of_user = std::env::var_os("CUDA_UM_DATA_DIR").filter(|folder| !folder.is_empty());
    let sets = [
        of_user.map_or("data".into(), PathBuf::from),
        "data".into(),
        std::env::current_exe()
            .unwrap_or_default()
            .with_file_name("../data"),
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../data").into(),
    ]
    .map(|folder| folder.join("wordnet-1k"));
    let found = sets.iter().find(|set| set.join("targets.npy").is_file());
    found.unwrap_or(&sets[0]).clone()
}

impl Vectors {
    fn read(path: &Path) -> Result<Self, Problem> {
        // Pipes and devices may be endless.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file").into());
        }
        let bytes = std::fs::read(path)?;
        let start = &bytes[..bytes.len().min(10_000)];
        // The parser's time is exponential in the depth of a literal.
        let header = start.iter().skip(12).take_while(|byte| **byte != b'\n');
        if header.filter(|byte| b"([{".contains(byte)).count() > 8 {
            return Err(Problem::Header("more than 8 brackets".to_owned()));
        }
        let mut rest = start;
        let header = npyz::NpyHeader::from_reader(&mut rest);
        let header = header.map_err(|error| Problem::Header(error.to_string()))?;
        let data = &bytes[start.len() - rest.len()..];

        let (dtype, shape) = (header.dtype().descr(), header.shape().to_vec());
        let is_matrix = shape.len() == 2 && !shape.contains(&0);
        let (size, element): (usize, fn(&[u8]) -> f32) = match dtype.as_str() {
            "'<f4'" if is_matrix => (4, |bytes| bytemuck::pod_read_unaligned(bytes)),
            "'<f2'" if is_matrix => (2, |bytes| bytemuck::pod_read_unaligned::<f16>(bytes).into()),
            _ => return Err(Problem::Array(dtype, shape)),
        };
        let needed = u128::from(shape[0]) * u128::from(shape[1]) * size as u128;
        if needed != data.len() as u128 {
            return Err(Problem::Size(dtype, shape, needed, data.len()));
        }
        let (rows, dim) = (shape[0] as usize, shape[1] as usize);
        let is_fortran = header.order() == npyz::Order::Fortran;
        let place = |i| {
            if is_fortran {
                i % dim * rows + i / dim
            } else {
                i
            }
        };
        let value = |i| element(&data[place(i) * size..][..size]);
        let values: Vec<f32> = (0..rows * dim).map(value).collect();
        for (row, vector) in values.chunks_exact(dim).enumerate() {
            if let Some(column) = vector.iter().position(|value| !value.is_finite()) {
                return Err(Problem::NotFinite(row, column, vector[column]));
            }
            if vector.iter().all(|value| *value == 0.0) {
                return Err(Problem::ZeroVector(row));
            }
        }
        let texts = texts(path).filter(|texts| texts.len() == rows);
        Ok(Self {
            values,
            rows,
            dim,
            texts,
        })
    }
}

/// The lines of `x.txt` beside `x.npy` or `x.f16.npy`.
fn texts(path: &Path) -> Option<Vec<String>> {
    let name = path.file_name()?.to_str()?.split('.').next()?;
    let text = std::fs::read(path.with_file_name(format!("{name}.txt"))).ok()?;
    let lines = String::from_utf8_lossy(&text);
    Some(lines.lines().map(str::to_owned).collect())
}
