//! Conversion of targets for repeated searches.

use super::prepared::PreparedTargets;
use super::tiles::{BLOCK, Format};
use super::{ExactTopK, NAME};
use crate::cosine_top_k::TargetScalar;
use crate::error::{Result, SearchError, length};
use crate::metric::Metric;
use cuda_um::{Stream, View};

impl ExactTopK {
    /// Enqueues the conversion of targets `rows [N, dim]`, row-major, for searches with
    /// [`launch_prepared`](Self::launch_prepared).
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after all earlier uses of the rows on any stream.
    ///
    /// # Errors
    /// The device has no tensor cores for the filter, the length of `rows` is not a multiple of `dim`, rows are too long or too
    /// many, device memory is missing, or a launch fails.
    pub fn prepare<T: TargetScalar>(
        &self,
        stream: &Stream,
        rows: View<'_, T>,
        dim: usize,
        metric: Metric,
        format: Format,
    ) -> Result<PreparedTargets> {
        let modules = self.modules()?;
        let count = Self::check_rows(rows.len(), dim)?;
        let mut prepared = PreparedTargets::room(&self.device, count, dim, metric, format)?;
        prepared.convert(modules, stream, 0, rows)?;
        Ok(prepared)
    }

    /// The number of rows, if they can be prepared.
    pub(super) fn check_rows(elements: usize, dim: usize) -> Result<usize> {
        let count = elements / dim.max(1);
        let refuse = |parameter, found, allowed: String| {
            Err(SearchError::Value {
                kernel: NAME,
                parameter,
                found,
                allowed,
            })
        };
        let longest = super::bound::LONGEST_ROW;
        if dim == 0 || dim > longest {
            return refuse("dim", dim, format!("1 to {longest}"));
        }
        length(NAME, "rows", count * dim, elements)?;
        let most = (u32::MAX - 1) as usize - BLOCK;
        if count == 0 || count > most {
            return refuse("rows", count, format!("1 to {most}"));
        }
        Ok(count)
    }

    /// Enqueues the conversion of changed `rows [n, dim]`, row-major, which replace rows `first` to `first + n`.
    ///
    /// # Ordering
    /// Stream-ordered: enqueued when this returns, after earlier searches with these targets on any stream.
    ///
    /// # Errors
    /// The length of `rows` is not a multiple of `dim`, there are fewer prepared rows, or a launch fails.
    pub fn update<T: TargetScalar>(
        &self,
        stream: &Stream,
        prepared: &mut PreparedTargets,
        first: usize,
        rows: View<'_, T>,
    ) -> Result<()> {
        let modules = self.modules()?;
        let count = rows.len() / prepared.dim;
        length(NAME, "rows", count * prepared.dim, rows.len())?;
        if first > prepared.rows || count > prepared.rows - first {
            return Err(SearchError::Value {
                kernel: NAME,
                parameter: "first",
                found: first,
                allowed: format!("{count} rows of {} from there on", prepared.rows),
            });
        }
        if count == 0 {
            return Ok(());
        }
        prepared.convert(modules, stream, first, rows)
    }
}
