//! What a program runs on, and its clocks.

use crate::Failure;
use crate::args::RuntimeChoice;
use clap::Parser;
use cuda_um::Device;
use std::time::{Duration, Instant};
use um_backend::sim::Sim;
use um_backend::{CudaBackend, CudaBackendConfig, CudaError};

/// The command line of the small examples.
#[derive(Clone, Debug, Parser)]
pub struct MachineArgs {
    /// Where to run: auto takes the GPU if there is one, else the simulator
    #[arg(long, value_enum, default_value_t = RuntimeChoice::Auto, env = "CUDA_UM_RUNTIME")]
    pub runtime: RuntimeChoice,
}

/// The GPU, or the simulator.
#[derive(Debug)]
pub struct Machine {
    /// Device 0.
    pub backend: CudaBackend,
}

impl Machine {
    /// Opens what is asked for. `auto` that finds no GPU says why in one line on standard error.
    ///
    /// # Errors
    /// No GPU where one is demanded, a GPU that fails, or a simulator that its environment variables do not describe.
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
                Err(why @ CudaError::NoGpu { .. }) => {
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
        self.backend.device().as_cuda_um()
    }

    /// The simulator, if it is one.
    pub fn simulator(&self) -> Option<&Sim> {
        self.backend.simulator()
    }

    /// One line that says what this is, and by which clock an example's times are.
    pub fn describe(&self) -> String {
        let clock = if self.simulator().is_some() {
            "predicted by the cost model"
        } else {
            "by the wall clock"
        };
        format!("{}; times are {clock}", self.backend.runtime_description())
    }

    /// How long `work` takes: on a GPU by the wall clock, on the simulator by its own.
    ///
    /// # Errors
    /// Whatever `work` returns.
    pub fn time(&self, work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
        let mut laps = Laps::start(self.simulator());
        work()?;
        let lap = laps.lap();
        Ok(lap.simulated.unwrap_or(lap.wall))
    }
}

/// Laps by the wall clock, and by the simulator's clock where there is one.
#[derive(Debug)]
pub struct Laps<'a> {
    simulator: Option<&'a Sim>,
    wall: Instant,
    simulated: Duration,
}

/// How long a lap took.
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

/// The middle one of some times (the upper one of two; zero if there is none).
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// For tables: `12.3 us`.
pub fn us(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

/// Runs an example: prints what it returns, or one line of error.
pub fn example(
    name: &str,
    run: impl FnOnce(&Machine) -> Result<String, Failure>,
) -> std::process::ExitCode {
    let outcome = Machine::open(MachineArgs::parse().runtime)
        .map_err(Failure::from)
        .and_then(|machine| {
            let table = run(&machine)?;
            Ok(format!("{}\n{table}", machine.describe()))
        });
    match outcome {
        Ok(text) => {
            println!("{}", text.trim_end());
            std::process::ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{name}: {failure}");
            std::process::ExitCode::FAILURE
        }
    }
}
