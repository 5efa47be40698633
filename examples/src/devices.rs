//! A search over several devices (`--devices`): the targets are in shards, one for each device.

use crate::Failure;
use crate::args::BufferKind;
use crate::machine::Machine;
use crate::place::Notes;
use um_backend::{Buffer, CudaBackend, Element, Sharded, Split};
use um_search::{
    Filter, Metric, SearchCounts, SearchPath, Shard, ShardedSearch, TargetScalar, TopKShape,
};

/// `--devices`
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceChoice {
    /// Every device of the machine.
    All,
    /// The devices with these ordinals.
    These(Vec<usize>),
}

impl std::str::FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let ordinals: Result<Vec<usize>, _> =
            text.split(',').map(|one| one.trim().parse()).collect();
        let Ok(ordinals) = ordinals else {
            return Err("expected all, or numbers of devices with commas, such as 0,1".to_owned());
        };
        let twice = |(at, one)| ordinals[..at].contains(one);
        if let Some((_, one)) = ordinals.iter().enumerate().find(|each| twice(*each)) {
            return Err(format!("device {one} is there twice: each has one shard"));
        }
        Ok(Self::These(ordinals))
    }
}

/// The devices of a search, with its kernels.
#[derive(Debug)]
pub struct Several {
    backends: Vec<CudaBackend>,
    search: ShardedSearch,
}

impl Several {
    /// Opens the devices, and loads the kernels on each.
    ///
    /// # Errors
    /// There is no such device, or a kernel cannot be loaded.
    pub fn open(machine: &Machine, choice: &DeviceChoice) -> Result<Self, Failure> {
        let ordinals = match choice {
            DeviceChoice::All => (0..machine.device().runtime().device_count()?).collect(),
            DeviceChoice::These(ordinals) => ordinals.clone(),
        };
        let open = |ordinal: &usize| machine.backend.sibling(*ordinal);
        let backends = ordinals.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let devices = backends.iter().map(|backend| &**backend.device());
        Ok(Self {
            search: ShardedSearch::load(devices)?,
            backends,
        })
    }

    /// Copies the targets to the devices, evenly. Unified memory is prefetched.
    ///
    /// # Errors
    /// Errors of the buffers.
    pub fn place<T: Element>(
        &self,
        kind: BufferKind,
        targets: &[T],
        dim: usize,
        notes: &mut Notes,
    ) -> Result<Box<dyn Buffer<T>>, Failure> {
        let mut rows = Sharded::from_slice(&self.backends, kind.into(), dim, targets, Split::Even)?;
        rows.set_name("targets");
        if kind == BufferKind::Unified {
            notes.add(&rows.prefetch_shards()?);
        }
        let device = |(number, backend): (usize, &CudaBackend)| {
            format!(
                "{:?} on device {}",
                rows.rows_of(number),
                backend.device().ordinal()
            )
        };
        let devices: Vec<_> = self.backends.iter().enumerate().map(device).collect();
        notes.add_text(format!("rows of the targets: {}", devices.join(", ")));
        for backend in &self.backends {
            backend.synchronize()?;
        }
        Ok(Box::new(rows))
    }

    /// Searches on all devices, and returns the method of the first when it is done.
    ///
    /// # Errors
    /// Errors of the search.
    pub fn search<T: Element + TargetScalar>(
        &self,
        shape: TopKShape,
        filter: Filter,
        targets: &dyn Buffer<T>,
        queries: &[f32],
        (scores, indices): (&mut dyn Buffer<f32>, &mut dyn Buffer<u32>),
    ) -> Result<Option<SearchPath>, Failure> {
        let rows = targets.as_any().downcast_ref::<Sharded<T>>();
        let rows = rows.ok_or("the targets are not in shards")?;
        let shard = |number| {
            let view = rows.shard(number).memory().device_view()?;
            Ok(Shard::new(rows.rows_of(number).start, view))
        };
        let shards = (0..rows.shard_count()).map(shard);
        let shards = shards.collect::<um_backend::Result<Vec<_>>>()?;
        let (mut scores, mut indices) = (scores.host_mut()?, indices.host_mut()?);
        let (metric, results) = (Metric::Cosine, (&mut scores[..], &mut indices[..]));
        let paths = self.search.search(
            shape, metric, filter, queries, &shards, results.0, results.1,
        )?;
        Ok(paths.into_iter().next())
    }

    /// The counts of all devices.
    ///
    /// # Errors
    /// A copy fails.
    pub fn counts(&self) -> Result<SearchCounts, Failure> {
        let mut sum = SearchCounts::default();
        for number in 0..self.backends.len() {
            let one = self.search.exact(number).counts()?;
            sum.fallback_queries += one.fallback_queries;
            sum.refiltered_queries += one.refiltered_queries;
            sum.candidates += one.candidates;
            sum.rescored += one.rescored;
        }
        Ok(sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_all_or_a_list() {
        let of = |text: &str| text.parse::<DeviceChoice>();
        assert_eq!(of("all"), Ok(DeviceChoice::All));
        assert_eq!(of("2, 0"), Ok(DeviceChoice::These(vec![2, 0])));
        assert!(of("1,0,1").unwrap_err().contains("device 1 is there twice"));
        for wrong in ["", "0,", "-1", "gpu0", "0-1"] {
            assert!(of(wrong).unwrap_err().contains("such as 0,1"), "{wrong}");
        }
    }
}
