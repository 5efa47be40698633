//! Programs and plans as JSON.

use crate::transfers::Transfers;
use crate::{Link, Plan, PlanBudget, PlanError, PlannedStep, Prediction, Program, Resident};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Must be increased when the meaning of a field changes.
const VERSION: u64 = 1;
/// Longer files are refused before they are read. A plan for 10,000 uses has about 4 MB.
const LONGEST_BYTES: u64 = 256 << 20;

/// The version alone, so that another version is reported as such, whatever its fields are.
#[derive(Deserialize)]
struct Version {
    version: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramFile<'a> {
    version: u64,
    program: Cow<'a, Program>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile<'a> {
    version: u64,
    /// In hexadecimal, because not every reader of JSON keeps 64 bits.
    digest: String,
    budget: PlanBudget,
    link: Link,
    resident: Cow<'a, [Resident]>,
    steps: Cow<'a, [PlannedStep]>,
}

impl Program {
    /// The program as JSON. [`from_json`](Self::from_json) reads this format.
    pub fn to_json(&self) -> String {
        let program = Cow::Borrowed(self);
        let version = VERSION;
        text(&ProgramFile { version, program })
    }

    /// Reads a program, and checks it.
    ///
    /// # Errors
    /// [`PlanError::Json`] or [`PlanError::Version`] for a text that is not a program, [`PlanError::Invalid`] for values that
    /// are not allowed.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let file: ProgramFile<'_> = parse(text)?;
        let program = file.program.into_owned();
        program.check()?;
        Ok(program)
    }
}

impl Plan {
    /// The plan as JSON, without the prediction, which follows from the rest.
    pub fn to_json(&self) -> String {
        text(&PlanFile {
            version: VERSION,
            digest: format!("{:016x}", self.digest),
            budget: self.budget,
            link: self.link,
            resident: Cow::Borrowed(&self.resident),
            steps: Cow::Borrowed(&self.steps),
        })
    }

    /// Reads a plan of this program, checks it, and predicts its time again. It may have a smaller budget than `budget`.
    ///
    /// # Errors
    /// - [`PlanError::Json`] or [`PlanError::Version`]: the text is not a plan.
    /// - [`PlanError::Digest`]: it is the plan of another program.
    /// - [`PlanError::Budget`]: it needs a larger budget.
    /// - All errors of [`check`](Self::check).
    pub fn from_json(text: &str, program: &Program, budget: PlanBudget) -> Result<Self, PlanError> {
        let file: PlanFile<'_> = parse(text)?;
        let digest = u64::from_str_radix(&file.digest, 16);
        let mut plan = Self {
            digest: digest.map_err(|error| unreadable(format!("digest: {error}")))?,
            budget: file.budget,
            link: file.link,
            resident: file.resident.into_owned(),
            steps: file.steps.into_owned(),
            prediction: Prediction::default(),
        };
        let program_digest = program.digest();
        if plan.digest != program_digest {
            return Err(PlanError::Digest {
                plan: plan.digest,
                program: program_digest,
            });
        }
        if plan.budget.slots() > budget.slots() {
            return Err(PlanError::Budget {
                plan: plan.budget.bytes,
                given: budget.bytes,
            });
        }
        plan.check(program)?;
        let mut transfers = Transfers::of(&plan.steps);
        plan.prediction = transfers.simulate(program, &plan.link);
        plan.prediction.bound = program.bound(plan.budget, &plan.link);
        Ok(plan)
    }

    /// Writes [`to_json`](Self::to_json) to a file.
    ///
    /// # Errors
    /// [`PlanError::File`] if the file cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), PlanError> {
        std::fs::write(path, self.to_json()).map_err(|error| file_error(error.to_string()))
    }

    /// Reads a file of at most 256 MiB: see [`from_json`](Self::from_json).
    ///
    /// # Errors
    /// [`PlanError::File`] if the file cannot be read or is larger, otherwise as for [`from_json`](Self::from_json).
    pub fn load(
        path: impl AsRef<Path>,
        program: &Program,
        budget: PlanBudget,
    ) -> Result<Self, PlanError> {
        let file = File::open(path).map_err(|error| file_error(error.to_string()))?;
        let mut text = String::new();
        let mut head = file.take(LONGEST_BYTES + 1);
        let read = head.read_to_string(&mut text);
        read.map_err(|error| file_error(error.to_string()))?;
        if head.limit() == 0 {
            let reason = format!("the file is larger than {LONGEST_BYTES} bytes");
            return Err(file_error(reason));
        }
        Self::from_json(&text, program, budget)
    }
}

fn text(value: &impl Serialize) -> String {
    // The files consist of numbers, texts and lists, which always have a form in JSON.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, PlanError> {
    let json = |error: serde_json::Error| unreadable(error.to_string());
    let Version { version } = serde_json::from_str(text).map_err(json)?;
    if version != VERSION {
        return Err(PlanError::Version {
            found: version,
            supported: VERSION,
        });
    }
    serde_json::from_str(text).map_err(json)
}

fn unreadable(reason: String) -> PlanError {
    PlanError::Json { reason }
}

fn file_error(reason: String) -> PlanError {
    PlanError::File { reason }
}
