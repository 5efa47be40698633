//! Batch recall, 1000 × 1000 × 768: the CPU reference and numpy, in turn in one run.
//!
//! `cargo run --release -p um-benches --bin cpu_reference_vs_numpy [ROUNDS]`; numpy is installed below the target folder if `PYTHON` does
//! not name an interpreter that has it.

use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const DIM: usize = 768;
const K: usize = 10;
/// Runs of each side that are not counted.
const WARM_UP: usize = 3;

fn main() -> Result<()> {
    let rounds: usize = std::env::args()
        .nth(1)
        .map_or(Ok(21), |rounds| rounds.parse())
        .context("ROUNDS is a number")?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("benches/ has a parent")?;
    let data = root.join("data/wordnet-1k");
    let (queries, targets) = (
        read(&data.join("queries.npy"))?,
        read(&data.join("targets.npy"))?,
    );
    let mut numpy = Numpy::start(root, &data)?;
    let rows = queries.len() / DIM;
    let (mut scores, mut best) = (vec![0.0; rows * K], vec![0; rows * K]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + rounds {
        let start = Instant::now();
        um_search::cosine_top_k_cpu(&queries, &targets, DIM, K, &mut scores, &mut best);
        let reference = start.elapsed();
        let answer = numpy.search(&best)?;
        if round >= WARM_UP {
            ours.push(reference);
            theirs.push(answer);
        }
    }
    let version = numpy.stop()?;
    let (ours, theirs) = (quartiles(ours), quartiles(theirs));
    println!(
        "batch recall {rows} x {} x {DIM}, k = {K}, {rounds} rounds in turn, {} cores",
        targets.len() / DIM,
        cores()
    );
    println!(
        "CPU reference  median {:7.2?}   quartiles {:.2?} to {:.2?}",
        ours[1], ours[0], ours[2]
    );
    println!(
        "numpy {version:<8} median {:7.2?}   quartiles {:.2?} to {:.2?}",
        theirs[1], theirs[0], theirs[2]
    );
    println!(
        "ratio of medians, CPU reference / numpy: {:.2}",
        ours[1].as_secs_f64() / theirs[1].as_secs_f64()
    );
    Ok(())
}

/// The process that searches with numpy.
struct Numpy {
    process: Child,
    ask: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    version: String,
}

impl Numpy {
    fn start(root: &Path, data: &Path) -> Result<Self> {
        let mut process = Command::new(python(root)?)
            .arg(root.join("benches/peers/numpy_recall.py"))
            .args([data.join("queries.npy"), data.join("targets.npy")])
            .arg(K.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self {
            ask: process.stdin.take().context("piped")?,
            answers: BufReader::new(process.stdout.take().context("piped")?).lines(),
            process,
            version: String::new(),
        })
    }

    /// The time of a search, with results that agree with `best`.
    fn search(&mut self, best: &[u32]) -> Result<Duration> {
        writeln!(self.ask)?;
        let answer = self.answers.next().context("numpy answers")??;
        let answer: serde_json::Value = serde_json::from_str(&answer)?;
        self.version = answer["numpy"].as_str().context("a version")?.to_owned();
        let numpy_best: Vec<u32> = serde_json::from_value(answer["best"].clone())?;
        let pairs = best.iter().zip(&numpy_best);
        let same = pairs.filter(|(ours, theirs)| ours == theirs).count();
        // Rounding may exchange targets with almost equal cosines.
        ensure!(
            same * 1000 >= best.len() * 998,
            "only {same} of {} places agree with numpy",
            best.len()
        );
        um_benches::peer::seconds(&answer)
    }

    /// Returns the version of numpy.
    fn stop(self) -> Result<String> {
        let Self {
            mut process,
            ask,
            version,
            ..
        } = self;
        drop(ask);
        process.wait()?;
        Ok(version)
    }
}

fn quartiles(mut times: Vec<Duration>) -> [Duration; 3] {
    times.sort();
    [
        times[times.len() / 4],
        times[times.len() / 2],
        times[times.len() * 3 / 4],
    ]
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Reads a file of the shipped data set: version 1 of the format, float32.
fn read(path: &Path) -> Result<Vec<f32>> {
    let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
    ensure!(bytes.len() > 10, "{} is not an .npy file", path.display());
    let header = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let data = bytes.get(header..).unwrap_or_default();
    Ok(data
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect())
}

/// An interpreter with numpy: `PYTHON`, or one that this program installs.
fn python(root: &Path) -> Result<PathBuf> {
    if let Some(python) = std::env::var_os("PYTHON") {
        return Ok(python.into());
    }
    let folder = root.join("target/numpy-venv");
    let python = folder.join("bin/python");
    if !python.exists() {
        eprintln!("installing numpy into {}", folder.display());
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(&folder)
            .status()?;
        ensure!(
            made.success(),
            "python3 -m venv failed; PYTHON names an interpreter that has numpy"
        );
        let installed = Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "numpy==2.2.6"])
            .status()?;
        ensure!(
            installed.success(),
            "pip could not install numpy; PYTHON names an interpreter that has it"
        );
    }
    Ok(python)
}
