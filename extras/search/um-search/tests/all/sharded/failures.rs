//! Wrong inputs, and devices that fail in the middle of a search.

use super::world::each;
use super::{Case, PLAIN, cases, eight, runtime_of};
use cuda_um::{ErrorKind, NonConcurrentAccess, UnifiedBuffer, sys::cudaError};
use cuda_um_sim::{Builder, Fail, Gpu};
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Checked, open};
use um_search::{Filter, Format, Metric, SearchError, Shard, ShardedSearch};

/// The error names the lost device; the others search on with the memory that they had.
#[test]
fn a_lost_device_is_named_and_the_others_survive() {
    let (sim, devices) = eight();
    sim.breaks("a device is lost");
    let case = cases().swap_remove(0);
    let search = ShardedSearch::load(&devices[..3]).unwrap();
    let split = [0..100, 100..250, 250..400];
    let rows: Vec<_> = split
        .iter()
        .zip(&devices)
        .map(|(range, device)| case.rows(device, range))
        .collect();
    let shards = rows.iter().zip(&split);
    let shards: Vec<_> = shards
        .map(|(rows, range)| Shard::new(range.start, rows.as_view()))
        .collect();
    let metric = Metric::Cosine;
    let lost = Fail::call("cuLaunchKernel").on_device(1).nth(2);
    sim.fail(lost.with(cudaError::cudaErrorIllegalAddress));
    for _ in 0..2 {
        let found = case.search(&search, &shards, metric, Filter::Off);
        let SearchError::Shard {
            shard: 1,
            device: 1,
            cause,
        } = found.unwrap_err()
        else {
            panic!("another error");
        };
        let SearchError::Cuda(cause) = *cause else {
            panic!("{cause}");
        };
        assert_eq!(cause.kind(), ErrorKind::Sticky, "{cause}");
    }
    // The other two, as a search of their rows.
    let mut left = Case {
        targets: case.targets[..250 * case.dim].to_vec(),
        ..case.clone()
    };
    left.targets.drain(100 * case.dim..);
    left.targets
        .extend_from_slice(&case.targets[250 * case.dim..]);
    let right = left.right(&devices[0], metric);
    let search = ShardedSearch::load([&devices[0], &devices[2]]).unwrap();
    let shards = [
        Shard::new(0, rows[0].as_view()),
        Shard::new(100, rows[2].as_view()),
    ];
    let found = left.search(&search, &shards, metric, Filter::Off);
    assert_eq!(found.unwrap().1, right);
    drop(rows);
    runtime_of(&devices).reclaim().unwrap();
}

/// A rank whose device fails tells the others.
#[test]
fn a_device_that_fails_ends_the_search_of_all_ranks() {
    let _watchdog = watch();
    let (sim, devices) = eight();
    let case = cases().swap_remove(0);
    let failing = Fail::call("cuLaunchKernel").on_device(2);
    sim.fail(failing.with(cudaError::cudaErrorLaunchOutOfResources));
    let split = [0..100, 100..250, 250..400];
    let mut errors = each(3, |number, rank| {
        let own = &devices[number..];
        let ranges = [split[number].clone()];
        case.over(rank, own, &ranges, Metric::Cosine, PLAIN)
            .unwrap_err()
    });
    let own = errors.remove(2);
    assert!(
        matches!(
            own,
            SearchError::Shard {
                shard: 0,
                device: 2,
                ..
            }
        ),
        "{own}"
    );
    for error in errors {
        assert!(
            matches!(&error, SearchError::Rank { rank: 2, .. }),
            "{error}"
        );
        assert_eq!(error.to_string(), format!("rank 2 failed: {own}"));
    }
}

/// The threads of the devices would wait for the guard of this one.
#[test]
fn a_host_guard_that_keeps_devices_off_ends_the_search() {
    let _watchdog = watch();
    let builder = Builder::from_env().unwrap().gpu(Gpu::NoConcurrentAccess);
    let sim = Checked::new(builder.devices(2).build().unwrap());
    let devices = open(&sim).devices().unwrap();
    let wait =
        |device: &cuda_um::Device| device.set_non_concurrent_access(NonConcurrentAccess::Wait);
    devices.iter().for_each(wait);
    let case = cases().swap_remove(0);
    let search = ShardedSearch::load(&devices).unwrap();
    let guarded = UnifiedBuffer::<f32>::zeroed(&devices[0], 10).unwrap();
    let guard = guarded.host().unwrap();
    let split = [0..200, 200..400];
    let error = case.with(&search, &devices, &split, Metric::Cosine, PLAIN);
    let text = error.unwrap_err().to_string();
    assert!(
        text.contains("this thread has 1 of the 1 host guard"),
        "{text}"
    );
    drop(guard);
    case.with(&search, &devices, &split, Metric::Cosine, PLAIN)
        .unwrap();
}

#[test]
fn wrong_inputs() {
    let (_sim, devices) = eight();
    let case = cases().swap_remove(0);
    let text = |error: SearchError| error.to_string();
    let none: [cuda_um::Device; 0] = [];
    let error = text(ShardedSearch::load(none).unwrap_err());
    assert_eq!(
        error,
        "sharded_search: the number of devices is 0; allowed: at least 1"
    );

    let search = ShardedSearch::load(&devices[..2]).unwrap();
    let all = case.rows(&devices[0], &(0..400));
    let with = |shards: &[Shard<'_, f32>]| {
        let found = case.search(&search, shards, Metric::Cosine, Filter::Off);
        text(found.unwrap_err())
    };
    let view = |range: std::ops::Range<usize>| all.view(range).unwrap();
    let half = Shard::new(0, view(0..4000));
    assert_eq!(
        with(&[half]),
        "sharded_search: `the list of shards` has 1 elements, 2 are needed"
    );
    assert_eq!(
        with(&[half, Shard::new(200, view(4000..7990))]),
        "sharded_search: `the rows of a shard` has 3990 elements, 3980 are needed"
    );
    assert_eq!(
        with(&[half, Shard::new(100, view(4000..8000))]),
        "sharded_search: the row at which a shard begins, or the last one ends, is 200; allowed: 100, so that each of the 400 rows is in one shard"
    );
    // The last row is missing, or at no place that there is.
    let error = with(&[half, Shard::new(200, view(4000..7980))]);
    assert!(error.contains(" is 400; allowed: 399, so that"), "{error}");
    let error = with(&[half, Shard::new(usize::MAX, view(4000..8000))]);
    assert!(error.contains("; allowed: 200, so that"), "{error}");
    let error = with(&[half, Shard::new(200, view(3999..7999))]);
    assert!(
        error.contains("first row is 12; allowed: 0 (shard 1)"),
        "{error}"
    );
    // Memory of device 0 for the search on device 1.
    let error = with(&[half, Shard::new(200, view(4000..8000))]);
    assert!(error.starts_with("shard 1, on device 1: "), "{error}");
    assert!(
        error.contains("belongs to device 0, not to device 1"),
        "{error}"
    );
    // The filter of a prepared copy is for one metric.
    let prepared = search.prepare(
        &[half, Shard::new(200, view(0..0))],
        case.dim,
        Metric::InnerProduct,
        Format::Bf16,
    );
    let prepared = prepared.unwrap();
    assert!(prepared[1].is_none());
    let with_copy = Shard {
        prepared: prepared[0].as_ref(),
        ..half
    };
    let error = with(&[with_copy, Shard::new(200, view(4000..8000))]);
    assert!(
        error.contains("shard 0 was prepared for InnerProduct, and the search is for Cosine"),
        "{error}"
    );
    let long = Case {
        k: 401,
        ..case.clone()
    };
    let error = long
        .over((), &devices, &[0..400], Metric::Cosine, PLAIN)
        .unwrap_err();
    assert_eq!(
        text(error),
        "sharded_search: k is 401; allowed: 1 to 400 (there are 400 targets)"
    );
    let none = Case {
        queries: Vec::new(),
        ..case.clone()
    };
    let found = none.over((), &devices, &[0..0, 0..400], Metric::Cosine, PLAIN);
    assert_eq!(found.unwrap(), (Vec::new(), Vec::new()));
}
