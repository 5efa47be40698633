//! Other libraries, each in a process of its own: a line of JSON for each sample, so that they take turns with us.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A peer that does not answer for so long is given up.
const PATIENCE: Duration = Duration::from_secs(120);
/// Names the folder of the scripts.
const FOLDER: &str = "CUDA_UM_PEERS_DIR";

/// PyTorch.
pub const TORCH: &str = "torch_peer.py";
/// CuPy.
pub const CUPY: &str = "cupy_peer.py";

/// A running peer.
pub struct Peer {
    process: Child,
    ask: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Peer {
    /// Starts a script; the second is its answer to "hello", with its version.
    ///
    /// # Errors
    /// There is no interpreter, or the script says why it cannot serve.
    pub fn start(script: &Path) -> Result<(Self, Value)> {
        let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
        let mut process = Command::new(&python)
            .arg("-B") // leaves no compiled files beside the scripts
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", python.to_string_lossy()))?;
        let ask = process.stdin.take();
        let lines = BufReader::new(process.stdout.take().context("piped")?).lines();
        let (tell, answers) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        let mut peer = Self {
            process,
            ask,
            answers,
        };
        let hello = peer.ask(&json!({"do": "hello"}))?;
        Ok((peer, hello))
    }

    /// Has the peer do something.
    ///
    /// # Errors
    /// It says so, it ended, or it does not answer.
    pub fn ask(&mut self, request: &Value) -> Result<Value> {
        let ask = self.ask.as_mut().context("the peer has ended")?;
        writeln!(ask, "{request}")?;
        let Ok(line) = self.answers.recv_timeout(PATIENCE) else {
            self.ask = None;
            bail!("the peer ended, or did not answer within {PATIENCE:?}");
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

impl Drop for Peer {
    fn drop(&mut self) {
        self.ask = None;
        // It ends when its standard input does; one that hangs is ended.
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

/// The peers, each started when it is first wanted.
pub struct Peers {
    simulated: bool,
    started: RefCell<BTreeMap<String, Started>>,
}

impl Peers {
    /// On the simulator there are none: their clock is another.
    pub fn new(simulated: bool) -> Self {
        Self {
            simulated,
            started: RefCell::default(),
        }
    }

    /// The peer of a script.
    ///
    /// # Errors
    /// Why it is not there.
    pub fn get(&self, script: &str) -> Result<Rc<RefCell<Peer>>, String> {
        if self.simulated {
            return Err("the simulator's clock and a real one do not compare".to_owned());
        }
        let mut started = self.started.borrow_mut();
        let peer = started
            .entry(script.to_owned())
            .or_insert_with(|| start(script).map_err(|error| format!("{error:#}")));
        peer.as_ref()
            .map(|(peer, _)| Rc::clone(peer))
            .map_err(Clone::clone)
    }

    /// What was found of each peer so far, in words.
    pub fn found(&self) -> BTreeMap<String, String> {
        let started = self.started.borrow();
        let words = |started: &Started| match started {
            Ok((_, version)) => version.clone(),
            Err(why) => format!("skipped: {why}"),
        };
        started
            .iter()
            .map(|(script, started)| (script.clone(), words(started)))
            .collect()
    }
}

fn start(script: &str) -> Result<(Rc<RefCell<Peer>>, String)> {
    let folders = folders();
    let path = folders
        .iter()
        .map(|folder| folder.join(script))
        .find(|path| path.exists())
        .with_context(|| format!("{script} is in none of {folders:?}"))?;
    let (peer, hello) = Peer::start(&path)?;
    let version = hello["version"].as_str().unwrap_or("unknown version");
    Ok((Rc::new(RefCell::new(peer)), version.to_owned()))
}

/// Where scripts may be: where the environment says, beside the binary's folder (in a bundle), in the repository.
fn folders() -> Vec<PathBuf> {
    let said = std::env::var_os(FOLDER).map(PathBuf::from);
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.parent()?.join("peers")));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
    said.into_iter().chain(beside).chain([repository]).collect()
}
