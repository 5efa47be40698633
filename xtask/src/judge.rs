//! `cargo xtask judge`: runs the test suite of another project on the simulator's libraries. A file of `.ci/judges` has the number of tests, and
//! those that do not pass, each with its reason; any other test that fails, and any listed test that passes, is an error. A name in the list
//! that ends with `*` stands for all that begin like it.

use crate::{sim_lib, wheels, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time of one test, and of a program that has many.
const LIMIT: Duration = Duration::from_secs(90);
const LONG: Duration = Duration::from_secs(300);

/// A public suite.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum Suite {
    /// The driver tests of cudarc.
    Cudarc,
    /// The tests of numba-cuda's driver layer.
    Numba,
    /// The tests of cuda.core for memory, streams, events, graphs, launches and devices, from a checkout of cuda-python.
    CudaCore,
    /// NVIDIA's samples, from a folder with a folder for each program, which has it under the name of the sample.
    Samples,
}

/// A test that ran: whether it passed, and the end of its output.
type Outcomes = BTreeMap<String, (bool, String)>;

/// Runs a suite and compares it with its list. The source is for the suites that no registry of packages has.
pub fn run(suite: Suite, source: Option<&Path>) -> Result<()> {
    let absent =
        "this suite is in no registry: give its folder with --source (docs/without-a-gpu.md)";
    let source = || source.context(absent)?.canonicalize().context(absent);
    // The samples compute for long.
    let libraries = sim_lib::build(matches!(suite, Suite::Samples))?;
    std::fs::create_dir_all(workspace::target().join("judge"))?;
    let (name, outcomes) = match suite {
        Suite::Cudarc => ("cudarc", cudarc(&libraries)?),
        Suite::Numba => ("numba", numba(&libraries)?),
        Suite::CudaCore => ("cuda-core", cuda_core(&libraries, &source()?)?),
        Suite::Samples => ("samples", samples(&libraries, &source()?)?),
    };
    let passed = outcomes.values().filter(|(passed, _)| *passed).count();
    println!("{name}: {passed} of {} tests pass", outcomes.len());
    let file = workspace::root()
        .join(".ci/judges")
        .join(format!("{name}.txt"));
    let list = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let lines = list
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let known = lines.map(|line| {
        line.split_once(": ")
            .with_context(|| format!("{line}: no reason"))
    });
    let mut known: BTreeMap<&str, &str> = known.collect::<Result<_>>()?;
    // A test that is not found any more is not one that passes. Of the samples there are as many as somebody built.
    if let Some(count) = known.remove("tests") {
        ensure!(
            count == outcomes.len().to_string(),
            "{} tests ran, and {} says {count}",
            outcomes.len(),
            file.display()
        );
    }
    let mut wrong = 0;
    for (test, (passed, output)) in &outcomes {
        let covers = |name: &str| match name.strip_suffix('*') {
            Some(beginning) => test.starts_with(beginning),
            None => name == test,
        };
        let listed = known.iter().find(|(name, _)| covers(name));
        let listed = listed.map(|(_, reason)| reason);
        match (passed, listed) {
            (true, None) | (false, Some(_)) => continue,
            // It depends on how fast this machine is.
            (true, Some(reason)) if reason.starts_with("timing") => continue,
            (true, Some(_)) => println!("{test} passes: take it from {}", file.display()),
            (false, None) => println!("{test} fails:\n{output}"),
        }
        wrong += 1;
    }
    ensure!(
        wrong == 0,
        "{wrong} tests are not as {} says",
        file.display()
    );
    Ok(())
}

/// Runs a test in a process of its own; passes if it ends with success in time.
fn outcome(command: &mut Command, limit: Duration) -> Result<(bool, String)> {
    let log = workspace::target().join("judge/log");
    let file = std::fs::File::create(&log)?;
    command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file);
    let mut child = command.spawn().with_context(|| format!("{command:?}"))?;
    let started = Instant::now();
    let passed = loop {
        match child.try_wait()? {
            Some(status) => break status.success(),
            None if started.elapsed() > limit => {
                child.kill()?;
                child.wait()?;
                break false;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    Ok((passed, lines[lines.len().saturating_sub(12)..].join("\n")))
}

/// The value of `LD_LIBRARY_PATH`: the simulator first.
fn search_path(libraries: &Path, others: &[PathBuf]) -> Result<std::ffi::OsString> {
    let folders = [libraries.to_owned()]
        .into_iter()
        .chain(others.iter().cloned());
    Ok(std::env::join_paths(folders)?)
}

const CUDARC: &str = "0.19.10";

/// The package of the registry, whose library has the tests.
fn cudarc(libraries: &Path) -> Result<Outcomes> {
    let nvrtc = wheels::install(&["nvidia-cuda-nvrtc-cu12==12.9.86"])?;
    let search = search_path(libraries, &[nvrtc.join("nvidia/cuda_nvrtc/lib")])?;
    let folder = workspace::target().join("judge");
    let package = folder.join(format!("cudarc-{CUDARC}"));
    std::fs::create_dir_all(&folder)?;
    if !package.is_dir() {
        let archive = folder.join("cudarc.crate");
        let address = format!("https://static.crates.io/crates/cudarc/cudarc-{CUDARC}.crate");
        workspace::run(
            Command::new("curl")
                .args([
                    "--silent",
                    "--show-error",
                    "--fail",
                    "--location",
                    "--output",
                ])
                .arg(&archive)
                .arg(address),
        )?;
        workspace::run(
            Command::new("tar")
                .arg("xzf")
                .arg(&archive)
                .arg("-C")
                .arg(&folder),
        )?;
        // It is no member of the workspace around it.
        let manifest = package.join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)? + "\n[workspace]\n";
        std::fs::write(&manifest, text)?;
    }
    let mut cargo = workspace::cargo();
    cargo
        .current_dir(&package)
        .env("CARGO_TARGET_DIR", folder.join("target"));
    cargo.args([
        "test",
        "--quiet",
        "--no-run",
        "--lib",
        "--no-default-features",
        "--message-format",
        "json",
        "--features",
    ]);
    cargo.arg("std,driver,runtime,nvrtc,f16,dynamic-loading,cuda-12090");
    let built = cargo.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8(built.stdout)?;
    let key = "\"executable\":\"";
    let at = text.rfind(key).context("cudarc's tests do not compile")? + key.len();
    let program = text[at..].split('"').next().unwrap_or_default();
    let test = || {
        let mut test = Command::new(program);
        test.current_dir(&package).env("LD_LIBRARY_PATH", &search);
        test.envs([("CUDA_UM_SIM_CUDA", "12.9"), ("CUDA_UM_SIM_DEVICES", "2")]);
        test
    };
    let list = test().arg("--list").output()?;
    let list = String::from_utf8(list.stdout)?;
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let run = |name: &str| {
        let mut test = test();
        test.args(["--include-ignored", "--test-threads=1", "--exact", name]);
        let outcome = outcome(&mut test, LIMIT)?;
        Ok((name.to_owned(), outcome))
    };
    names.map(run).collect()
}

/// Packages for a Python of its own: the suite and what it compiles with.
const NUMBA: [&str; 14] = [
    "numba-cuda==0.30.4",
    "numba==0.68.1",
    "cuda-bindings==12.9.10",
    "cuda-core==1.2.2",
    "nvidia-cuda-nvrtc-cu12==12.9.86",
    "nvidia-cuda-nvcc-cu12==12.9.86",
    "nvidia-cuda-runtime-cu12==12.9.79",
    "nvidia-cuda-cccl-cu12==12.9.27",
    "filecheck==1.0.3",
    "psutil==7.2.2",
    "pytest==9.2.0",
    "pytest-timeout==2.4.0",
    "cffi==2.0.0",
    "ml_dtypes==0.5.4",
];

/// Runs a test in Python and prints a line for it: its name and how it ended.
const RUNNER: &str = r#"
import sys, unittest
suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[1])
def each(suite):
    for item in suite:
        yield from each(item) if isinstance(item, unittest.TestSuite) else [item]
class Result(unittest.TextTestResult):
    def stopTest(self, test):
        super().stopTest(test)
        bad = any(test is t or getattr(t, "test_case", None) is test for t, _ in self.failures + self.errors)
        print("\njudged", test.id(), "failed" if bad else "passed", flush=True)
unittest.TextTestRunner(resultclass=Result, stream=sys.stdout).run(unittest.TestSuite(each(suite)))
"#;

/// A Python of its own with these packages, and the folder where they are.
fn environment(name: &str, packages: &[&str]) -> Result<(PathBuf, PathBuf)> {
    let environment = workspace::target().join("judge").join(name);
    let python = environment.join("bin/python");
    if !environment.join("complete").is_file() {
        let host = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
        workspace::run(Command::new(host).args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(&python);
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]);
        workspace::run(pip.args(packages))?;
        std::fs::write(environment.join("complete"), "")?;
    }
    let purelib = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let found = Command::new(&python).args(["-c", purelib]).output()?;
    Ok((python, String::from_utf8(found.stdout)?.trim().into()))
}

/// Runs a program that prints lines "judged NAME passed" and "judged NAME failed"; `whole` names it if it does not end with success.
fn judged(test: &mut Command, whole: &str, outcomes: &mut Outcomes) -> Result<()> {
    let (ended, output) = outcome(test, LONG)?;
    let log = std::fs::read(workspace::target().join("judge/log"))?;
    let log = String::from_utf8_lossy(&log);
    for line in log.lines().filter_map(|line| line.strip_prefix("judged ")) {
        let Some((name, how)) = line.rsplit_once(' ') else {
            bail!("{line}: no outcome");
        };
        outcomes.insert(name.to_owned(), (how == "passed", String::new()));
    }
    if !ended {
        outcomes.insert(format!("{whole} as a whole"), (false, output));
    }
    Ok(())
}

fn numba(libraries: &Path) -> Result<Outcomes> {
    let folder = workspace::target().join("judge");
    let (python, packages) = environment("numba", &NUMBA)?;
    let nvidia = packages.join("nvidia");
    let others = ["cuda_nvrtc/lib", "cuda_runtime/lib", "cuda_nvcc/nvvm/lib64"]
        .map(|name| nvidia.join(name));
    let search = search_path(libraries, &others)?;
    let tests = packages.join("numba_cuda/numba/cuda/tests/cudadrv");
    let mut modules: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&tests).with_context(|| tests.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        modules.extend(
            name.strip_suffix(".py")
                .filter(|name| name.starts_with("test_"))
                .map(str::to_owned),
        );
    }
    modules.sort();
    let mut outcomes = Outcomes::new();
    for module in modules {
        let mut test = Command::new(&python);
        test.current_dir(&folder)
            .args(["-c", RUNNER])
            .arg(format!("numba.cuda.tests.cudadrv.{module}"));
        test.env("LD_LIBRARY_PATH", &search)
            .env("CUDA_HOME", nvidia.join("cuda_nvcc"));
        test.envs([("CUDA_UM_SIM_CUDA", "12.9"), ("CUDA_UM_SIM_DEVICES", "2")]);
        judged(&mut test, &module, &mut outcomes)?;
    }
    Ok(outcomes)
}

/// Packages for cuda.core: the suite's version is that of its tests.
const CUDA_CORE: [&str; 14] = [
    "cuda-core==1.1.0",
    "cuda-bindings==13.5.0",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-nvjitlink==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-crt==13.0.88",
    "pytest==9.1.0",
    "pytest-timeout==2.4.0",
    "pytest-rerunfailures==16.3",
    "pytest-repeat==0.9.4",
    "cffi==2.0.0",
    "cloudpickle==3.1.2",
    "psutil==7.2.2",
];

/// What of cuda.core's tests is judged.
const CUDA_CORE_TESTS: [&str; 11] = [
    "memory",
    "graph",
    "test_memory.py",
    "test_memory_peer_access.py",
    "test_memory_peer_access_utils.py",
    "test_stream.py",
    "test_event.py",
    "test_launcher.py",
    "test_context.py",
    "test_device.py",
    "test_managed_memory_warning.py",
];

/// Prints a line for each test that is not skipped. Native code does not run here: programs are compiled to PTX where a test asks for a cubin.
const CUDA_CORE_PLUGIN: &str = r#"
import cuda.core
class Program(cuda.core.Program):
    def compile(self, target_type, *args, **kwargs):
        return super().compile("ptx" if target_type == "cubin" else target_type, *args, **kwargs)
cuda.core.Program = Program
def pytest_runtest_logreport(report):
    if report.failed or report.when == "call" and report.passed:
        print("\njudged", report.nodeid.replace(" ", "_"), "failed" if report.failed else "passed", flush=True)
"#;

fn cuda_core(libraries: &Path, source: &Path) -> Result<Outcomes> {
    let tests = source.join("cuda_core/tests");
    ensure!(
        tests.is_dir(),
        "{}: no checkout of cuda-python",
        source.display()
    );
    let (python, packages) = environment("cuda-core", &CUDA_CORE)?;
    let plugin = workspace::target().join("judge/plugin");
    std::fs::create_dir_all(&plugin)?;
    std::fs::write(plugin.join("judged.py"), CUDA_CORE_PLUGIN)?;
    let toolkit = packages.join("nvidia/cu13");
    let search = search_path(libraries, &[toolkit.join("lib")])?;
    let mut outcomes = Outcomes::new();
    for name in CUDA_CORE_TESTS {
        let mut test = Command::new(&python);
        test.current_dir(&tests)
            .args(["-m", "pytest", "-p", "judged", "-p", "no:cacheprovider"])
            .args([
                "--timeout",
                "60",
                "--quiet",
                "--no-header",
                "-s",
                "--rootdir",
                ".",
                name,
            ]);
        test.env("LD_LIBRARY_PATH", &search)
            .env("PYTHONPATH", &plugin)
            .env("CUDA_HOME", &toolkit);
        test.envs([("CUDA_UM_SIM_CUDA", "13.0"), ("CUDA_UM_SIM_DEVICES", "2")]);
        let mut found = Outcomes::new();
        judged(&mut test, name, &mut found)?;
        // pytest ends without success if a test fails.
        let ran = found.len() > 1 || !found.contains_key(&format!("{name} as a whole"));
        found.retain(|test, _| !(ran && test.ends_with(" as a whole")));
        outcomes.extend(found);
    }
    Ok(outcomes)
}

/// Programs that somebody built with a shared libcudart and PTX, each run in its folder.
fn samples(libraries: &Path, source: &Path) -> Result<Outcomes> {
    let mut outcomes = Outcomes::new();
    for entry in std::fs::read_dir(source).with_context(|| source.display().to_string())? {
        let (folder, name) = {
            let entry = entry?;
            (
                entry.path(),
                entry.file_name().to_string_lossy().into_owned(),
            )
        };
        let program = folder.join(&name);
        if !program.is_file() {
            continue;
        }
        let mut test = Command::new(&program);
        test.current_dir(&folder)
            .env("LD_LIBRARY_PATH", search_path(libraries, &[])?);
        test.envs([("CUDA_UM_SIM_CUDA", "13.0"), ("CUDA_UM_SIM_DEVICES", "2")]);
        test.env("CUDA_UM_SIM_KERNEL_CHECKS", "none");
        outcomes.insert(name, outcome(&mut test, LONG)?);
    }
    ensure!(!outcomes.is_empty(), "{}: no programs", source.display());
    Ok(outcomes)
}
