//! The right target of each query, and the share of queries that found it.

use crate::error::{InputError, Wrong};
use crate::npy;
use crate::texts;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Characters of a line that an error quotes.
const LONGEST_QUOTE: usize = 60;

/// The source of the truth: `identity`, `none` or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TruthSource {
    /// Query i belongs to target i.
    Identity,
    /// The right targets are unknown; recall is not reported.
    None,
    /// One target row for each query.
    File(PathBuf),
}

impl FromStr for TruthSource {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "identity" => Self::Identity,
            "none" => Self::None,
            file => Self::File(file.into()),
        })
    }
}

impl TruthSource {
    /// The right target of each query, or `None` if they are unknown.
    ///
    /// # Errors
    /// The file cannot be read, or does not have one target of this set for each query; or there are more queries than targets
    /// with `identity` (the error then names the queries' file).
    pub fn resolve(
        &self,
        queries: (&Path, usize),
        targets: usize,
    ) -> Result<Option<Vec<u32>>, InputError> {
        let (queries_file, count) = queries;
        let (file, rows) = match self {
            Self::None => return Ok(None),
            Self::Identity => (queries_file, (0..count as i64).collect()),
            Self::File(file) => (file.as_path(), read_rows(file)?),
        };
        if rows.len() != count {
            let wrong = Wrong::LineCount {
                found: rows.len(),
                expected: count,
                other: queries_file.to_owned(),
            };
            return Err(InputError::new(file, wrong));
        }
        let check = |(query, target): (usize, i64)| match u32::try_from(target) {
            Ok(row) if (row as usize) < targets => Ok(row),
            _ => Err(InputError::new(
                file,
                Wrong::NoSuchTarget {
                    query,
                    target,
                    targets,
                },
            )),
        };
        rows.into_iter()
            .enumerate()
            .map(check)
            .collect::<Result<_, _>>()
            .map(Some)
    }
}

/// Row numbers from a `.npy` of integers, or from a text with one in each line.
fn read_rows(file: &Path) -> Result<Vec<i64>, InputError> {
    if file.extension() == Some(OsStr::new("npy")) {
        return npy::read_integers(file);
    }
    let parse = |(index, text): (usize, String)| {
        let wrong = |_| {
            InputError::new(
                file,
                Wrong::NotARow {
                    line: index + 1,
                    text: texts::printable(&text, LONGEST_QUOTE),
                },
            )
        };
        text.trim().parse().map_err(wrong)
    };
    texts::read_lines(file)?
        .into_iter()
        .enumerate()
        .map(parse)
        .collect()
}

/// Share of the queries with the right target among their first `k` targets.
///
/// `found` has the targets of each query, best first.
pub fn recall_at<'a>(k: usize, found: impl Iterator<Item = &'a [u32]>, truth: &[u32]) -> f64 {
    let hits = found
        .zip(truth)
        .filter(|(targets, right)| targets.iter().take(k).any(|target| target == *right))
        .count();
    hits as f64 / truth.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const QUERIES: &str = "queries.npy";

    fn resolve(content: &[u8], queries: usize, targets: usize) -> Result<Option<Vec<u32>>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("truth.txt");
        fs::write(&file, content).unwrap();
        TruthSource::File(file)
            .resolve((Path::new(QUERIES), queries), targets)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_words_identity_and_none_are_no_files() {
        assert_eq!("identity".parse(), Ok(TruthSource::Identity));
        assert_eq!("none".parse(), Ok(TruthSource::None));
        assert_eq!("a/none".parse(), Ok(TruthSource::File("a/none".into())));
    }

    #[test]
    fn identity_needs_a_target_for_every_query() {
        let resolve = |queries, targets| {
            TruthSource::Identity.resolve((Path::new(QUERIES), queries), targets)
        };
        assert_eq!(resolve(2, 3).unwrap(), Some(vec![0, 1]));
        let error = resolve(3, 2).unwrap_err().to_string();
        assert_eq!(
            error,
            "queries.npy: query 2 belongs to target 2, but there are 2 targets (counted from 0)"
        );
    }

    #[test]
    fn a_file_has_one_row_a_line() {
        assert_eq!(resolve(b"2\n 0 \r\n", 2, 3), Ok(Some(vec![2, 0])));
        assert!(
            resolve(b"2\n", 2, 3)
                .unwrap_err()
                .ends_with("1 lines, but queries.npy has 2 vectors")
        );
        assert!(
            resolve(b"2\nx\n", 2, 3)
                .unwrap_err()
                .ends_with("line 2: \"x\" is not a row number")
        );
        assert!(
            resolve(b"2\n-1\n", 2, 3)
                .unwrap_err()
                .contains("query 1 belongs to target -1")
        );
        assert!(
            resolve(b"3\n0\n", 2, 3)
                .unwrap_err()
                .contains("query 0 belongs to target 3")
        );
    }

    #[test]
    fn recall_looks_at_the_first_k_alone() {
        let found: [&[u32]; 4] = [&[0, 9], &[9, 1], &[7, 8], &[3, 9]];
        let truth = [0, 1, 2, 9];
        assert_eq!(recall_at(1, found.into_iter(), &truth), 0.25);
        assert_eq!(recall_at(10, found.into_iter(), &truth), 0.75);
    }
}
