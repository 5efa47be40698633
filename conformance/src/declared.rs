//! The known differences: `declared.toml`.

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::path::Path;

/// With more known differences than this, the simulator does not behave like CUDA.
const MOST: usize = 3;

/// The contents of the file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Declared {
    /// The differences.
    #[serde(default)]
    pub difference: Vec<Difference>,
    /// Cases that are new or changed since the run on a GPU in `docs/results/`: no GPU has checked them yet.
    #[serde(default)]
    pub unjudged: BTreeSet<String>,
}

/// One known difference: the value of one observation, in a case that passes on both sides. A failure is never declared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// The case.
    pub case: String,
    /// The observation, by its name.
    pub observation: String,
    /// The reason for the difference.
    pub reason: String,
    /// A link that explains it.
    pub link: String,
}

impl Difference {
    /// True if this difference is declared.
    pub(crate) fn covers(&self, observation: Option<&str>) -> bool {
        observation == Some(&self.observation)
    }
}

impl Declared {
    /// Reads the file.
    ///
    /// # Errors
    /// The file does not exist, has other contents, or [`parse`](Self::parse) refuses it.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::file::read(path)?;
        Self::parse(&text).with_context(|| format!("{} is not as expected", path.display()))
    }

    /// Reads the text of the file.
    ///
    /// # Errors
    /// There are more than three differences, one is declared twice, has no reason, or has no link (`https://`).
    pub fn parse(text: &str) -> Result<Self> {
        let declared: Self = toml::from_str(text)?;
        let differences = &declared.difference;
        ensure!(
            differences.len() <= MOST,
            "{} differences are declared, but at most {MOST} are allowed",
            differences.len()
        );
        let mut names = BTreeSet::new();
        for Difference {
            case,
            observation,
            reason,
            link,
        } in differences
        {
            ensure!(
                names.insert((case, observation)),
                "{case}, \"{observation}\": declared twice"
            );
            ensure!(!reason.trim().is_empty(), "{case}: no reason");
            let page = link.strip_prefix("https://").unwrap_or_default();
            ensure!(
                page.contains('.') && !page.contains(char::is_whitespace),
                "{case}: \"{link}\" is not a link"
            );
        }
        Ok(declared)
    }

    pub(crate) fn covers(&self, case: &str, observation: Option<&str>) -> bool {
        let known = self.difference.iter();
        known
            .filter(|known| known.case == case)
            .any(|known| known.covers(observation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    fn differences(count: usize, reason: &str, link: &str) -> Result<Declared> {
        let one = |index: usize| {
            format!(
                "[[difference]]\ncase = \"a.b\"\nobservation = \"{index}\"\nreason = \"{reason}\"\nlink = \"{link}\"\n"
            )
        };
        Declared::parse(&(0..count).map(one).collect::<String>())
    }

    #[test]
    fn at_most_three_may_be_declared_each_with_a_reason_and_a_link() {
        let link = "https://docs.nvidia.com/cuda/";
        assert_eq!(differences(3, "why", link).unwrap().difference.len(), 3);
        assert!(differences(4, "why", link).is_err());
        assert!(differences(1, " ", link).is_err());
        for link in [
            "",
            "l",
            "docs.nvidia.com",
            "http://docs.nvidia.com",
            "https://",
            "https://a b.c",
        ] {
            assert!(differences(1, "why", link).is_err(), "{link}");
        }
    }

    #[test]
    fn what_differs_is_named() {
        assert!(
            Declared::parse(
                "[[difference]]\ncase = \"a.b\"\nreason = \"r\"\nlink = \"https://l.m\""
            )
            .is_err()
        );
    }

    #[test]
    fn the_file_of_the_repository_names_cases_that_there_are() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("declared.toml");
        let declared = Declared::read(&path).unwrap();
        let known = declared.difference.iter().map(|known| &known.case);
        for name in known.chain(&declared.unjudged) {
            assert!(cases::all().any(|case| case.name == name), "{name}");
        }
    }
}
