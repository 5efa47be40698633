//! Tasks of the workspaces in `integrations`, whose builds need files of a CUDA toolkit.

use crate::workspace;
use anyhow::{Result, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of each of these tasks.
#[derive(clap::Args)]
pub struct Common {
    /// Pack the tests, the examples and a script that runs them on a machine with a GPU into this folder.
    #[arg(long, value_name = "FOLDER")]
    pub bundle: Option<PathBuf>,
    /// The command of cargo [default: the tests, and then the examples].
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// A workspace in `integrations`.
pub struct Integration {
    pub folder: &'static str,
    pub test: &'static str,
    pub examples: &'static [&'static str],
    /// The arguments of the examples over the simulator.
    pub arguments: &'static [&'static str],
}

impl Integration {
    pub fn root(&self) -> PathBuf {
        workspace::root().join("integrations").join(self.folder)
    }

    /// `cargo` in the workspace, whose programs open these libraries.
    pub fn cargo(&self, libraries: &OsStr) -> Command {
        let mut cargo = workspace::cargo();
        cargo
            .current_dir(self.root())
            .env("LD_LIBRARY_PATH", libraries)
            // A test needs a second one.
            .env("CUDA_UM_SIM_DEVICES", "2");
        cargo
    }

    /// Builds the programs and copies them.
    fn bundle(&self, cargo: &mut Command, out: &Path) -> Result<()> {
        ensure!(
            !out.exists() || out.join("run.sh").exists(),
            "{} exists but is not a bundle; name another folder",
            out.display()
        );
        fs::create_dir_all(out)?;
        fs::copy(self.root().join("run.sh"), out.join("run.sh"))?;
        cargo.args(["build", "--release", "--test", self.test]);
        cargo.arg("--examples");
        for program in workspace::programs(cargo)? {
            let file = out.join(program.target);
            fs::copy(program.path, &file)?;
            workspace::run(Command::new("strip").arg(&file))?;
        }
        println!(
            "{}; on a machine with a GPU and CUDA 13: ./run.sh",
            out.display()
        );
        Ok(())
    }
}

impl Common {
    /// Does what the options say with `cargo` as [`Integration::cargo`] made it.
    pub fn run(&self, integration: &Integration, cargo: &mut Command) -> Result<()> {
        if let Some(out) = &self.bundle {
            return integration.bundle(cargo, &workspace::root().join(out));
        }
        if !self.cargo.is_empty() {
            return workspace::run(cargo.args(&self.cargo));
        }
        let mut examples = Vec::new();
        for example in integration.examples {
            let mut run = Command::new(cargo.get_program());
            run.current_dir(integration.root());
            run.envs((cargo.get_envs()).filter_map(|(name, value)| Some((name, value?))));
            run.args(["run", "--release", "--example", example, "--"]);
            run.args(integration.arguments);
            examples.push(run);
        }
        workspace::run(cargo.args(["test", "--release"]))?;
        examples.iter_mut().try_for_each(workspace::run)
    }
}
