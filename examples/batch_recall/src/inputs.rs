//! The vectors, their texts and the right answers.

use half::f16;
use npyz::{NpyFile, Order};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The bytes of a file before its numbers.
const MOST_HEADER: usize = 10_000;

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
    /// Query i belongs to target i: both are of shipped sets.
    pub has_truth: bool,
    /// The time for reading and checking.
    pub load: Duration,
}

impl Inputs {
    /// Reads the files that the command line names, and the shipped set for the others.
    pub fn load(args: &crate::args::Args) -> Result<Self, InputError> {
        let start = Instant::now();
        let set = shipped_set();
        let of_targets = args.targets.clone().unwrap_or(set.join("targets.npy"));
        let of_queries = args.queries.clone().unwrap_or(set.join("queries.npy"));
        let is_set = of_queries.canonicalize().ok() == set.join("queries.npy").canonicalize().ok();
        let has_truth = is_set && of_targets.with_file_name("expected.json").is_file();
        let error = |path: &PathBuf, problem| {
            let path = path.clone();
            InputError { path, problem }
        };
        let read = |path: &PathBuf| Vectors::read(path).map_err(|problem| error(path, problem));
        let (targets, queries) = (read(&of_targets)?, read(&of_queries)?);
        let most = targets.rows.min(1024);
        if queries.dim != targets.dim {
            let problem = Problem::Dimension(queries.dim, targets.dim);
            return Err(error(&of_queries, problem));
        } else if !(1..=most).contains(&args.k) {
            let problem = Problem::K(args.k, most, targets.rows);
            return Err(error(&of_targets, problem));
        }
        Ok(Self {
            targets,
            queries,
            has_truth,
            load: start.elapsed(),
        })
    }
}

/// The folder of the shipped set: the user's, one here, or that of the source tree.
fn shipped_set() -> PathBuf {
    let of_user = std::env::var_os("CUDA_UM_DATA_DIR").filter(|folder| !folder.is_empty());
    let folder = Path::new(of_user.as_deref().unwrap_or("data".as_ref())).join("wordnet-1k");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/wordnet-1k");
    let is_there = folder.is_dir() || of_user.is_some();
    if is_there { folder } else { source.into() }
}

impl Vectors {
    fn read(path: &Path) -> Result<Self, Problem> {
        // Pipes and devices may be endless.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file").into());
        }
        let bytes = std::fs::read(path)?;
        // The parser's time is exponential in the depth of a literal, and quadratic in its digits. NumPy has the same limit.
        let len = match *bytes.get(6..12).unwrap_or_default() {
            [1, _, a, b, ..] => 10 + usize::from(u16::from_le_bytes([a, b])),
            [_, _, a, b, c, d] => 12 + u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        };
        let header = bytes.iter().take(len);
        if len > MOST_HEADER {
            return Err(Problem::Header(format!(
                "its header has more than {MOST_HEADER} bytes"
            )));
        } else if header.filter(|byte| b"([{".contains(byte)).count() > 8 {
            return Err(Problem::Header("more than 8 brackets".to_owned()));
        }
        let mut data = &bytes[..];
        let header = npyz::NpyHeader::from_reader(&mut data);
        let header = header.map_err(|error| Problem::Header(error.to_string()))?;
        let (dtype, shape) = (header.dtype().descr(), header.shape().to_vec());
        let size = match dtype.as_str() {
            "'<f4'" => 4,
            "'<f2'" => 2,
            _ => 0,
        };
        if size == 0 || shape.len() != 2 || shape.contains(&0) {
            return Err(Problem::Array(dtype, shape));
        }
        let needed = u128::from(shape[0]) * u128::from(shape[1]) * size;
        if needed != data.len() as u128 {
            return Err(Problem::Size(dtype, shape, needed, data.len()));
        }
        let (rows, dim) = (shape[0] as usize, shape[1] as usize);
        let is_fortran = header.order() == Order::Fortran;
        let file = NpyFile::with_header(header, data);
        let mut values: Vec<f32> = match size {
            4 => file.into_vec()?,
            _ => file.into_vec()?.into_iter().map(f16::to_f32).collect(),
        };
        if is_fortran {
            let at = |i| values[i % dim * rows + i / dim];
            values = (0..rows * dim).map(at).collect();
        }
        for (row, vector) in values.chunks_exact(dim).enumerate() {
            if let Some(column) = vector.iter().position(|value| !value.is_finite()) {
                return Err(Problem::NotFinite(row, column, vector[column]));
            } else if vector.iter().all(|value| *value == 0.0) {
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
