//! The runtime of a program, and its clocks.

use crate::Failure;
use clap::{Parser, ValueEnum};
use cuda_um::Device;
use cuda_um_testkit::say;
use std::time::{Duration, Instant};
use um_backend::sim::Sim;
use um_backend::{CudaBackend, CudaBackendConfig, CudaError};

/// The command line of the small examples.
#[derive(Clone, Debug, Parser)]
pub struct MachineArgs {
    /// The runtime: auto uses the GPU if there is one, otherwise the simulator
    #[arg(long, value_enum, default_value_t = RuntimeChoice::Auto, env = "CUDA_UM_RUNTIME")]
    pub runtime: RuntimeChoice,
}

/// `--runtime`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeChoice {
    /// The GPU if there is one, otherwise the simulator
    Auto,
    /// The GPU
    Cuda,
    /// The simulator
    Sim,
}

/// The GPU, or the simulator.
#[derive(Debug)]
pub struct Machine {
    /// Device 0.
    pub backend: CudaBackend,
}

impl Machine {
    /// Opens the requested runtime. If `auto` finds no GPU, it prints the reason in one line on standard error.
    ///
    /// # Errors
    /// There is no GPU but one is required, the GPU fails, or the simulator's environment variables are invalid.
    pub fn open(choice: RuntimeChoice) -> Result<Self, CudaError> {
        let open = |runtime| {
            CudaBackend::initialize_blocking(CudaBackendConfig::default().runtime(runtime))
        };
        let gpu = || open(um_backend::RuntimeChoice::Cuda);
        let simulator = || open(um_backend::RuntimeChoice::Sim);
        let backend = match choice {
            RuntimeChoice::Cuda => gpu()?,
            RuntimeChoice::Sim => simulator()?,
            RuntimeChoice::Auto => match gpu() {
                Err(why) if why.kind() == um_backend::cuda_um::ErrorKind::NoGpu => {
                    eprintln!("{why}; running on the simulator");
                    simulator()?
                }
                opened => opened?,
            },
        };
        Ok(Self { backend })
    }

    /// The device, for kernels and streams.
    pub fn device(&self) -> &Device {
        self.backend.device()
    }

    /// The simulator, if it is one.
    pub fn simulator(&self) -> Option<&Sim> {
        self.backend.simulator()
    }

    /// One line that describes the runtime, and the clock of an example's times.
    pub fn describe(&self) -> String {
        let clock = if self.simulator().is_some() {
            "predicted by the cost model"
        } else {
            "by the wall clock"
        };
        format!("{}; times are {clock}", self.backend.runtime_description())
    }

    /// The time of `work`: by the wall clock on a GPU, by the virtual clock on the simulator.
    ///
    /// # Errors
    /// The error of `work`.
    pub fn time(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
        let mut laps = Laps::start(self.simulator());
        work()?;
        let lap = laps.lap();
        Ok(lap.simulated.unwrap_or(lap.wall))
    }
}

/// Laps by the wall clock, and on the simulator also by its virtual clock.
#[derive(Debug)]
pub struct Laps<'a> {
    simulator: Option<&'a Sim>,
    wall: Instant,
    simulated: Duration,
}

/// The time of a lap.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    /// By the wall clock.
    pub wall: Duration,
    /// By the simulator's cost model.
    pub simulated: Option<Duration>,
}

impl<'a> Laps<'a> {
    /// Starts both clocks.
    pub fn start(simulator: Option<&'a Sim>) -> Self {
        Self {
            simulator,
            wall: Instant::now(),
            simulated: simulator.map_or(Duration::ZERO, Sim::now),
        }
    }

    /// Ends a lap and starts the next.
    pub fn lap(&mut self) -> Lap {
        let now = Self::start(self.simulator);
        let lap = Lap {
            wall: now.wall - self.wall,
            simulated: self
                .simulator
                .map(|_| now.simulated.saturating_sub(self.simulated)),
        };
        *self = now;
        lap
    }
}

/// The median of some times (the upper one of two; zero if there is none).
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// A time for tables: `12.3 us`.
pub fn us(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

/// Runs an example: prints its result, or one line with the error.
pub fn example(
    name: &str,
    run: impl FnOnce(&Machine) -> Result<String, Failure>,
) -> std::process::ExitCode {
    run_on(MachineArgs::parse().runtime, name, |machine| {
        let table = run(machine)?;
        say!("{}\n{}", machine.describe(), table.trim_end());
        Ok(())
    })
}

/// Runs an example that prints as it goes on. After an error it prints one line.
pub fn run_on(
    choice: RuntimeChoice,
    name: &str,
    run: impl FnOnce(&Machine) -> Result<(), Failure>,
) -> std::process::ExitCode {
    let outcome = Machine::open(choice).map_err(Failure::from);
    match outcome.and_then(|machine| run(&machine)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{name}: {failure}");
            std::process::ExitCode::FAILURE
        }
    }
}
