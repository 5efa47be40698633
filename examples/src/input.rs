//! The input files of a run, read and checked.

use crate::args::Args;
use crate::error::{InputError, Wrong};
use crate::npy::{self, Matrix};
use crate::shipped::ShippedSet;
use crate::texts::read_texts;
use crate::truth::TruthSource;
use crate::validate::check_rows;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The vectors, their texts, and the right answers.
#[derive(Debug)]
pub struct Inputs {
    /// Vectors to search.
    pub targets: Matrix,
    /// Query vectors as f32, row by row.
    pub queries: Vec<f32>,
    /// Number of queries.
    pub query_count: usize,
    /// Length of the list for each query.
    pub k: usize,
    /// Texts of the targets.
    pub target_texts: Option<Vec<String>>,
    /// Texts of the queries.
    pub query_texts: Option<Vec<String>>,
    /// Row of the right target of each query.
    pub truth: Option<Vec<u32>>,
    /// The time for reading and checking.
    pub load: Duration,
}

impl Inputs {
    /// Reads the files that the command line names, and the shipped set for the others.
    ///
    /// # Errors
    /// A file has a problem, or `k` is 0 or more than the number of targets.
    pub fn load(args: &Args) -> Result<Self, InputError> {
        let started = Instant::now();
        let set = ShippedSet::find();
        let files = Files::choose(args, &set);
        let mut targets = npy::read_matrix(&files.targets)?;
        let mut queries = npy::read_matrix(&files.queries)?;
        if queries.columns != targets.columns {
            let wrong = Wrong::Dimension {
                found: queries.columns,
                expected: targets.columns,
                other: files.targets.clone(),
            };
            return Err(InputError::new(&files.queries, wrong));
        }
        if args.k == 0 || args.k > targets.rows {
            let wrong = Wrong::K {
                k: args.k,
                targets: targets.rows,
            };
            return Err(InputError::new(&files.targets, wrong));
        }
        let query_count = queries.rows;
        let truth = files
            .truth
            .resolve((&files.queries, query_count), targets.rows)?;
        let texts_of = |file: &Option<PathBuf>, vectors: &Path, rows| {
            file.as_deref()
                .map(|file| read_texts(file, (vectors, rows)))
                .transpose()
        };
        let target_texts = texts_of(&files.target_texts, &files.targets, targets.rows)?;
        let query_texts = texts_of(&files.query_texts, &files.queries, query_count)?;
        check_rows(&mut targets).map_err(|wrong| InputError::new(&files.targets, wrong))?;
        check_rows(&mut queries).map_err(|wrong| InputError::new(&files.queries, wrong))?;
        Ok(Self {
            targets,
            queries: queries.into_f32(),
            query_count,
            k: args.k,
            target_texts,
            query_texts,
            truth,
            load: started.elapsed(),
        })
    }

    /// Length of the computed lists: `k`, but enough for recall@10.
    pub fn computed_k(&self) -> usize {
        match self.truth {
            Some(_) => self.k.max(10).min(self.targets.rows),
            None => self.k,
        }
    }
}

/// The file for each input.
struct Files {
    targets: PathBuf,
    queries: PathBuf,
    target_texts: Option<PathBuf>,
    query_texts: Option<PathBuf>,
    truth: TruthSource,
}

impl Files {
    fn choose(args: &Args, set: &ShippedSet) -> Self {
        let targets = args
            .targets
            .clone()
            .unwrap_or_else(|| set.file("targets.npy"));
        let queries = args
            .queries
            .clone()
            .unwrap_or_else(|| set.file("queries.npy"));
        let shipped_targets = set.is(&targets, "targets.npy");
        let shipped_queries = set.is(&queries, "queries.npy");
        let texts = |given: &Option<PathBuf>, shipped: bool, name| {
            given.clone().or_else(|| shipped.then(|| set.file(name)))
        };
        let truth = match &args.truth {
            Some(truth) => truth.clone(),
            None if shipped_targets && shipped_queries => TruthSource::Identity,
            None => TruthSource::None,
        };
        Self {
            target_texts: texts(&args.target_texts, shipped_targets, "targets.txt"),
            query_texts: texts(&args.query_texts, shipped_queries, "queries.txt"),
            targets,
            queries,
            truth,
        }
    }
}
