//! Starts ranks and collects what they say.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longer than any case takes, so that only a hang reaches it.
const HANG: Duration = Duration::from_secs(120);

/// The launcher of the MPI library, for one case.
#[derive(Clone)]
pub struct Launcher {
    mpiexec: Option<OsString>,
    case: &'static str,
    options: Vec<&'static str>,
    variables: Vec<(&'static str, String)>,
}

/// How a job ended.
pub struct Outcome {
    pub success: bool,
    /// The standard output and error of all ranks and of the launcher.
    pub text: String,
    /// The end, in milliseconds since 1970.
    ended: u128,
}

impl Launcher {
    pub fn from_environment() -> Self {
        Self {
            mpiexec: std::env::var_os("CUDA_UM_TEST_MPIEXEC"),
            case: "",
            options: Vec::new(),
            variables: Vec::new(),
        }
    }

    pub fn is_there(&self) -> bool {
        self.mpiexec.is_some()
    }

    pub fn of(&self, case: &'static str) -> Self {
        Self {
            case,
            ..self.clone()
        }
    }

    pub fn option(&self, option: &'static str) -> Self {
        let mut changed = self.clone();
        changed.options.push(option);
        changed
    }

    pub fn variable(&self, name: &'static str, value: &str) -> Self {
        let mut changed = self.clone();
        changed.variables.push((name, value.to_owned()));
        changed
    }

    /// Runs the case on this many ranks.
    pub fn run(&self, ranks: usize) -> Outcome {
        let mut command = Command::new(self.mpiexec.as_ref().unwrap());
        command.args(&self.options).args(["-n", &ranks.to_string()]);
        self.finish(command.arg(std::env::current_exe().unwrap()))
    }

    /// Runs the case without a launcher.
    pub fn run_alone(&self) -> Outcome {
        self.finish(&mut Command::new(std::env::current_exe().unwrap()))
    }

    fn finish(&self, command: &mut Command) -> Outcome {
        command.env("CUDA_UM_TEST_CASE", self.case);
        command.envs(self.variables.iter().cloned());
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("mpiexec starts");
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = |from: &mut dyn Read| {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let out = thread::spawn(move || read(&mut out));
        let err = thread::spawn(move || read(&mut err));
        let started = Instant::now();
        let mut hangs = false;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if !hangs && started.elapsed() > HANG {
                hangs = true;
                child.kill().unwrap();
            }
            thread::sleep(Duration::from_millis(5));
        };
        let ended = now();
        let text = format!("{}{}", out.join().unwrap(), err.join().unwrap());
        assert!(!hangs, "{} hangs:\n{text}", self.case);
        Outcome {
            success: status.success(),
            text,
            ended,
        }
    }

    /// Runs the case on this many ranks, of which each must succeed and say `done`.
    pub fn succeeds(&self, ranks: usize) -> Outcome {
        let outcome = self.run(ranks);
        assert!(outcome.success, "{ranks} ranks:\n{}", outcome.text);
        let done = outcome.text.matches("done\n").count();
        assert_eq!(done, ranks, "{ranks} ranks:\n{}", outcome.text);
        outcome
    }
}

impl Outcome {
    /// The text of the job has this part.
    pub fn says(&self, part: &str) {
        assert!(
            self.text.contains(part),
            "{part:?} is not in:\n{}",
            self.text
        );
    }

    /// The time from [`says_when`] to the end.
    pub fn since_the_event(&self) -> Duration {
        let time = self.text.split("event at ").nth(1).expect("an event");
        let time: u128 = time.lines().next().unwrap().parse().unwrap();
        Duration::from_millis((self.ended - time) as u64)
    }
}

/// A rank tells the time of what it is about to do.
pub fn says_when() {
    println!("event at {}", now());
}

fn now() -> u128 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_millis()
}
