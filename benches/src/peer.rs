//! Other libraries, each in its own process. Each sample is one line of JSON, so that peers take turns with us.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel, sync_channel};
use std::time::Duration;

/// Time limit for the answer of a peer.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for the last output of a peer that ended.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Limit on the bytes of a line: answers have some hundred.
const LONGEST_LINE: u64 = 1 << 20;
/// Names the folder of the peers.
const FOLDER: &str = "CUDA_UM_PEERS_DIR";

/// PyTorch.
pub const TORCH: &str = "torch_peer.py";
/// CuPy.
pub const CUPY: &str = "cupy_peer.py";
/// The CUDA runtime from C++.
pub const CUDA_CPP: &str = "cuda_cpp_peer";
/// RMM from C++.
pub const RMM: &str = "rmm_peer";
/// cudarc.
pub const CUDARC: &str = "cudarc_peer";

/// Peers that are compiled: `cargo xtask bench-peers` builds them.
pub const COMPILED: [&str; 3] = [CUDA_CPP, RMM, CUDARC];

/// A running peer.
pub struct Peer {
    process: Child,
    ask: Option<ChildStdin>,
    answers: Receiver<String>,
    last_words: Receiver<String>,
}

impl Peer {
    /// Starts a script or a program. The second value is its answer to "hello", with its version.
    pub fn start(path: &Path) -> Result<(Self, Value)> {
        let mut command = command(path);
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        let ask = process.stdin.take();
        let answers = each_line(process.stdout.take().context("piped")?);
        let last_words = last_line(process.stderr.take().context("piped")?);
        let mut peer = Self {
            process,
            ask,
            answers,
            last_words,
        };
        let hello = peer.ask(&json!({"do": "hello"}))?;
        Ok((peer, hello))
    }

    /// Sends a request to the peer and returns the answer.
    pub fn ask(&mut self, request: &Value) -> Result<Value> {
        let ask = self.ask.as_mut().context("the peer has ended")?;
        // A peer that has ended accepts no requests; its error is in the answers or in its last output.
        let _ = writeln!(ask, "{request}");
        let line = match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(why) => {
                self.ask = None;
                ensure!(
                    why == RecvTimeoutError::Disconnected,
                    "the peer did not answer within {PATIENCE:?}"
                );
                let words = self.last_words.recv_timeout(LAST_WORDS);
                bail!("the peer ended: {}", words.unwrap_or_default());
            }
        };
        let answer: Value = serde_json::from_str(&line).context(line)?;
        ensure!(
            answer["error"].is_null(),
            "{}",
            answer["error"].as_str().unwrap_or("an error")
        );
        Ok(answer)
    }
}

/// The time in an answer. An answer without a time is an error.
pub fn seconds(answer: &Value) -> Result<Duration> {
    let seconds = answer["seconds"].as_f64().unwrap_or_default();
    Duration::try_from_secs_f64(seconds).with_context(|| format!("{seconds} seconds"))
}

/// The command for a peer: Python scripts need an interpreter, programs start directly.
fn command(path: &Path) -> Command {
    if path.extension().is_none_or(|extension| extension != "py") {
        return Command::new(path);
    }
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(python);
    command.arg("-B").arg(path); // leaves no compiled files in the folder of the scripts
    command
}

fn each_line(from: impl Read + Send + 'static) -> Receiver<String> {
    // There is one answer at a time; a peer that writes more waits.
    let (tell, lines) = sync_channel(64);
    std::thread::spawn(move || lines_of(from).try_for_each(|line| tell.send(line).ok()));
    lines
}

/// Copies all output, and returns the last line at the end: for example the reason why a program could not be loaded.
fn last_line(from: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, words) = channel();
    std::thread::spawn(move || {
        let mut last = String::new();
        for line in lines_of(from) {
            eprintln!("{line}");
            last = line;
        }
        tell.send(last)
    });
    words
}

/// The lines that a peer writes. A line that is too long is split.
fn lines_of(from: impl Read) -> impl Iterator<Item = String> {
    let mut from = BufReader::new(from);
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = from
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line);
        let some = read.is_ok_and(|bytes| bytes > 0);
        some.then(|| String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    })
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.ask = None;
        // The peer ends when its standard input ends; if it hangs, it is killed.
        for _ in 0..50 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

type Started = Result<(Rc<RefCell<Peer>>, String), String>;

/// The peers; each is started at its first use.
pub struct Peers {
    simulated: bool,
    started: RefCell<BTreeMap<String, Started>>,
}

impl Peers {
    /// On the simulator there are no peers, because they use a real clock.
    pub fn new(simulated: bool) -> Self {
        Self {
            simulated,
            started: RefCell::default(),
        }
    }

    /// The peer of a script or program.
    pub fn get(&self, name: &str) -> Result<Rc<RefCell<Peer>>, String> {
        if self.simulated {
            return Err("the simulator's clock and a real one do not compare".to_owned());
        }
        let mut started = self.started.borrow_mut();
        let peer = started
            .entry(name.to_owned())
            .or_insert_with(|| start(name).map_err(|error| format!("{error:#}")));
        peer.as_ref()
            .map(|(peer, _)| Rc::clone(peer))
            .map_err(Clone::clone)
    }

    /// A description of each peer so far: its version, or the reason why it cannot run.
    pub fn found(&self) -> BTreeMap<String, String> {
        let started = self.started.borrow();
        let words = |started: &Started| match started {
            Ok((_, version)) => version.clone(),
            Err(why) => format!("skipped: {why}"),
        };
        started
            .iter()
            .map(|(name, started)| (name.clone(), words(started)))
            .collect()
    }
}

fn start(name: &str) -> Result<(Rc<RefCell<Peer>>, String)> {
    let path = find(name).with_context(|| match COMPILED.contains(&name) {
        true => "not built; `cargo xtask bench-peers` builds it".to_owned(),
        false => format!("{name} is in none of {:?}", folders()),
    })?;
    let (peer, hello) = Peer::start(&path)?;
    let version = hello["version"].as_str().unwrap_or("unknown version");
    Ok((Rc::new(RefCell::new(peer)), version.to_owned()))
}

/// The script or program of a peer.
pub fn find(name: &str) -> Option<PathBuf> {
    let mut paths = folders().into_iter().map(|folder| folder.join(name));
    paths.find(|path| path.exists())
}

/// The folders in which peers may be: the one named by the environment variable; folders relative to the binary, in a bundle
/// and in the target folder (one level higher for tests); scripts in the repository.
fn folders() -> Vec<PathBuf> {
    let said = std::env::var_os(FOLDER).map(PathBuf::from);
    let exe = std::env::current_exe().unwrap_or_default();
    let beside = exe.ancestors().skip(2).take(2);
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    said.into_iter()
        .chain(beside.map(|folder| folder.join("peers")))
        .chain([repository])
        .collect()
}
