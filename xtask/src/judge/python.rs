//! Suites of Python packages.

use super::{LONG, Outcomes, checkout, outcome, search_path};
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

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

/// The tests of the driver layer, each module in a process of its own.
pub(super) fn numba(libraries: &Path) -> Result<Outcomes> {
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

/// The tests of cuda.core that run.
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

/// The commit of the package, from its `cuda/core/_version.py`.
const CUDA_CORE_COMMIT: &str = "c23833b9793464194da9d9c82cd8f031711c47f5";

pub(super) fn cuda_core(libraries: &Path, source: Option<&Path>) -> Result<Outcomes> {
    let source = checkout(
        "https://github.com/NVIDIA/cuda-python",
        CUDA_CORE_COMMIT,
        source,
    )?;
    let tests = source.join("cuda_core/tests");
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
            .env(
                "PYTHONPATH",
                std::env::join_paths([&plugin, &source.join("cuda_python_test_helpers")])?,
            )
            .env("CUDA_HOME", &toolkit);
        test.envs([("CUDA_UM_SIM_CUDA", "13.0"), ("CUDA_UM_SIM_DEVICES", "3")]);
        let known = outcomes.len();
        judged(&mut test, name, &mut outcomes)?;
        // pytest ends without success if a test fails.
        if outcomes.len() > known + 1 {
            outcomes.remove(&format!("{name} as a whole"));
        }
    }
    Ok(outcomes)
}
