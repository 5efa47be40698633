//! What is allowed besides an error that names the call, each with its reason. A rule that nothing needs any more fails the test.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// What a rule is about.
pub type About = &'static str;
pub const NO_ERROR: About = "no error";
pub const OTHER_NAME: About = "an error that names another call";
pub const LEAKS: About = "one thing leaks";
pub const NOT_YET_STICKY: About = "not recognised as sticky";
pub const RUNTIME_KEPT: About = "the runtime lives on";

pub struct Rule {
    pub about: About,
    /// `*` for all.
    pub scenarios: &'static [&'static str],
    pub calls: &'static [&'static str],
    pub why: &'static str,
}

pub const RULES: &[Rule] = &[];

/// The rules, and which were needed.
#[derive(Default)]
pub struct Rules {
    used: Mutex<BTreeSet<usize>>,
}

impl Rules {
    pub fn allow(&self, about: About, scenario: &str, call: &str) -> bool {
        let call = call.strip_suffix("_v2").unwrap_or(call);
        let is_it = |rule: &Rule| {
            rule.about == about
                && (rule.scenarios == ["*"] || rule.scenarios.contains(&scenario))
                && (rule.calls.contains(&call))
        };
        let found = RULES.iter().position(is_it);
        found.inspect(|index| {
            self.used.lock().unwrap().insert(*index);
        });
        found.is_some()
    }

    /// Those that nothing needed.
    pub fn unused(&self) -> Vec<&'static Rule> {
        let used = self.used.lock().unwrap();
        let unused = RULES.iter().enumerate();
        unused
            .filter(|(index, _)| !used.contains(index))
            .map(|(_, rule)| rule)
            .collect()
    }
}
