//! Worlds of several ranks: equal lists on each, and the same error on each if they do not agree.

use super::world::{Changed, Rank, each};
use super::{Case, PLAIN, cases, eight, noise, splits};
use cuda_um::Device;
use cuda_um_testkit::watchdog::watch;
use half::f16;
use std::collections::VecDeque;
use std::error::Error;
use std::ops::Range;
use std::sync::Mutex;
use um_search::{Metric, SearchError, TargetScalar, World};

/// The rows of 400 that each of some ranks has.
fn part(rank: usize, size: usize) -> Range<usize> {
    400 * rank / size..400 * (rank + 1) / size
}

/// More bytes than a rank with one shard sends before the search, and fewer than its lists.
const TERMS: usize = 150;

/// A search of one rank with one shard, on a device of its own.
fn search<T: TargetScalar>(
    case: &Case<T>,
    devices: &[Device],
    world: impl World,
    rows: Range<usize>,
    metric: Metric,
) -> um_search::Result<super::Lists> {
    let own = &devices[world.rank()..];
    case.over(world, own, &[rows], metric, PLAIN)
}

#[test]
fn every_rank_has_the_lists_of_one_device() {
    let (_sim, devices) = eight();
    for case in cases() {
        let right = case.right(&devices[0], Metric::Cosine);
        for size in [1, 2, 3, 4, 8] {
            // The ranks need not have the rows in their order.
            let found = each(size, |number, rank| {
                let rows = part((number + 1) % size, size);
                search(&case, &devices, rank, rows, Metric::Cosine).unwrap()
            });
            assert!(
                found.iter().all(|found| *found == right),
                "{}, {size}",
                case.name
            );
        }
    }
}

#[test]
fn ranks_have_several_shards_or_none() {
    let (_sim, devices) = eight();
    let case = cases().swap_remove(2);
    let right = case.right(&devices[0], Metric::InnerProduct);
    for split in splits() {
        let found = each(2, |number, rank| {
            // All shards but the first are on rank 0.
            let ranges = match number {
                0 => &split[1..],
                _ => &split[..1],
            };
            let (devices, none) = (&devices[number * 4..], std::slice::from_ref(&(0..0)));
            let ranges = if ranges.is_empty() { none } else { ranges };
            let devices: Vec<_> = devices.iter().cycle().take(8).cloned().collect();
            case.over(rank, &devices, ranges, Metric::InnerProduct, PLAIN)
                .unwrap()
        });
        assert!(found.iter().all(|found| *found == right), "{split:?}");
    }
}

/// The errors of three ranks, of which rank 1 is different.
fn differ(
    different: impl Fn(&Case<f32>, &[Device], Rank) -> um_search::Result<super::Lists> + Sync,
) -> Vec<SearchError> {
    let (_sim, devices) = eight();
    let case = cases().swap_remove(0);
    each(3, |number, rank| match number {
        1 => different(&case, &devices, rank).unwrap_err(),
        _ => search(&case, &devices, rank, part(number, 3), Metric::Cosine).unwrap_err(),
    })
}

/// All ranks say that rank 1 differs from rank 0 in the same value.
fn check_disagreement(what: &str, found: &str, expected: &str, errors: &[SearchError]) {
    for error in errors {
        let SearchError::Disagreement { .. } = error else {
            panic!("{what}: {error}");
        };
        let right = format!(
            "the ranks differ in {what}: rank 1 has {found}, and rank 0 has {expected}: all must give the same"
        );
        assert_eq!(error.to_string(), right);
    }
    assert_eq!(errors.len(), 3);
}

#[test]
fn ranks_that_differ_get_one_error() {
    let _watchdog = watch();
    let with = |change: fn(&mut Case<f32>), metric| {
        differ(move |case, devices, rank| {
            let mut case = case.clone();
            change(&mut case);
            search(&case, devices, rank, part(1, 3), metric)
        })
    };
    let cosine = Metric::Cosine;
    let errors = with(|case| case.k = 9, cosine);
    check_disagreement("the length of the lists", "9", "10", &errors);
    let errors = with(|case| case.queries.truncate(80), cosine);
    check_disagreement("the number of queries", "4", "5", &errors);
    let errors = with(|case| case.targets.extend([1.0; 20]), cosine);
    check_disagreement("the number of targets", "401", "400", &errors);
    let errors = with(|_| (), Metric::InnerProduct);
    check_disagreement("the metric", "InnerProduct", "Cosine", &errors);
    let errors = differ(|case, devices, rank| {
        let case = Case {
            name: "f16",
            dim: case.dim,
            k: case.k,
            queries: case.queries.clone(),
            targets: vec![f16::ONE; case.targets.len()],
        };
        search(&case, devices, rank, part(1, 3), cosine)
    });
    check_disagreement("the element type of the targets", "f16", "f32", &errors);
    let errors = with(
        |case| {
            case.dim = 10;
            case.queries.truncate(50);
            case.targets.truncate(4000);
        },
        cosine,
    );
    check_disagreement("the elements of a row", "10", "20", &errors);
    let errors = with(|case| case.queries[99] += 1.0, cosine);
    for error in errors {
        let text = error.to_string();
        assert!(
            text.contains("the queries (their hash is shown): rank 1"),
            "{text}"
        );
    }
}

#[test]
fn rows_that_no_rank_or_two_ranks_have() {
    let _watchdog = watch();
    for (rows, found) in [(134..266, 134), (132..266, 133)] {
        let errors =
            differ(|case, devices, rank| search(case, devices, rank, rows.clone(), Metric::Cosine));
        for error in errors {
            assert!(matches!(&error, SearchError::Value { .. }), "{error}");
            assert!(
                error.to_string().contains(&format!(" is {found}; ")),
                "{error}"
            );
        }
    }
}

/// A rank whose own inputs are wrong says so to the others, which wait for it.
#[test]
fn a_rank_with_wrong_inputs_ends_the_search_of_all() {
    let _watchdog = watch();
    let mut errors = differ(|case, devices, rank| {
        let mut case = case.clone();
        case.queries.push(1.0);
        case.k = 2000;
        search(&case, devices, rank, part(1, 3), Metric::Cosine)
    });
    let own = errors.remove(1);
    assert!(matches!(own, SearchError::Value { .. }), "{own}");
    for error in errors {
        let right = format!("rank 1 failed: {own}");
        assert_eq!(error.to_string(), right);
    }
}

#[test]
fn bytes_of_other_versions_and_other_programs() {
    let _watchdog = watch();
    let with = |change: fn(&mut Vec<u8>)| {
        differ(move |case, devices, rank| {
            search(
                case,
                devices,
                Changed(rank, change),
                part(1, 3),
                Metric::Cosine,
            )
        })
    };
    let others = |mut errors: Vec<SearchError>| {
        // Rank 1 does not get back what it sent.
        let own = errors.remove(1).to_string();
        assert!(own.contains("that of rank 1 must be what it sent"), "{own}");
        errors
    };
    for error in others(with(|bytes| bytes[0] = b'7')) {
        let version = env!("CARGO_PKG_VERSION");
        let right = format!(
            "the ranks differ in the version of um-search: rank 1 has 7{}, and rank 0 has {version}: all must give the same",
            &version[1..]
        );
        assert_eq!(error.to_string(), right);
    }
    let of_another_function: fn(&mut Vec<u8>) = |bytes| *bytes.last_mut().unwrap() ^= 1;
    let rows: fn(&mut Vec<u8>) = |bytes| *bytes.iter_mut().find(|it| **it == b'+').unwrap() = b'-';
    let cut: fn(&mut Vec<u8>) = |bytes| bytes.truncate(50);
    // Threads that share a world: the lists of rank 1 are those of another search.
    let of_another_search: fn(&mut Vec<u8>) =
        |bytes| *bytes.last_mut().unwrap() ^= u8::from(bytes.len() > TERMS);
    for error in [cut, rows, of_another_function, of_another_search]
        .into_iter()
        .flat_map(|change| others(with(change)))
    {
        assert!(
            error.to_string().contains("rank 1 sent something else"),
            "{error}"
        );
    }
}

#[test]
fn worlds_that_mix_up_ranks() {
    let (_sim, devices) = eight();
    let case = cases().swap_remove(0);
    let check = |what: &str, mixes_up: fn(&mut Vec<Vec<u8>>)| {
        each(3, |number, mut rank| {
            rank.mixes_up = mixes_up;
            let found = search(&case, &devices, rank, part(number, 3), Metric::Cosine);
            let error = found.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        });
    };
    check("2 answers for 3 ranks", |all| all.truncate(2));
    check("4 answers for 3 ranks", |all| all.push(all[2].clone()));
    // The lists of rank 1 also for those of rank 2.
    check("rank 2 ", |all| {
        if all[1].len() > TERMS {
            all[2] = all[1].clone();
        }
    });
}

/// The way of [`World`] itself, for worlds without their own.
#[test]
fn a_broadcast_is_an_all_gather() {
    each(3, |number, rank| {
        let mut bytes = vec![number as u8; number];
        rank.broadcast(&mut bytes, 2).unwrap();
        assert_eq!(bytes, [2, 2]);
        let error = rank.broadcast(&mut bytes, 3).unwrap_err().to_string();
        assert_eq!(error, "rank 3 is not one of the 3 of the world");
    });
}

/// A world that two threads share: its calls have the order of `turns`.
struct Shared<'a> {
    world: &'a Mutex<(Rank, VecDeque<usize>)>,
    size: usize,
    number: usize,
    thread: usize,
}

impl World for Shared<'_> {
    fn rank(&self) -> usize {
        self.number
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Box<dyn Error + Send + Sync>> {
        loop {
            let mut world = self.world.lock().unwrap();
            if world.1.front() == Some(&self.thread) {
                world.1.pop_front();
                return world.0.all_gather(bytes);
            }
            drop(world);
            std::thread::yield_now();
        }
    }
}

/// The terms of both are the same, but the rows are not.
#[test]
fn threads_whose_lists_cross_get_errors() {
    let _watchdog = watch();
    let (_sim, devices) = eight();
    let mut tables = [0, 2].map(|number| cases().swap_remove(number));
    tables.iter_mut().for_each(|table| table.k = 10);
    each(2, |number, rank| {
        let turns = [[0, 1, 0, 1], [0, 1, 1, 0]][number];
        let world = Mutex::new((rank, VecDeque::from(turns)));
        let search = |thread: usize| {
            let (world, size) = (&world, 2);
            let shared = Shared {
                world,
                size,
                number,
                thread,
            };
            let rows = part(number, 2);
            search(&tables[thread], &devices, shared, rows, Metric::Cosine).unwrap_err()
        };
        let errors = std::thread::scope(|threads| {
            let other = threads.spawn(|| search(1));
            [search(0), other.join().unwrap()]
        });
        for error in errors {
            assert!(error.to_string().contains("sent something else"), "{error}");
        }
    });
}

#[test]
fn a_rank_that_is_lost_is_named() {
    let _watchdog = watch();
    let (_sim, devices) = eight();
    let mut case = cases().swap_remove(0);
    case.queries = noise(46, 200 * case.dim);
    // Before the agreement, and after it: the world of rank 1 ends with it.
    for agrees in [false, true] {
        let results = each(3, |number, rank| {
            let rows = part(number, 3);
            match (number, agrees) {
                (1, false) => None,
                (1, true) => {
                    let dies = |bytes: &mut Vec<u8>| assert!(bytes.len() <= TERMS, "dies");
                    let world = Changed(rank, dies);
                    let dying = || search(&case, &devices, world, rows, Metric::Cosine);
                    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(dying));
                    assert!(died.is_err());
                    None
                }
                _ => Some(search(&case, &devices, rank, rows, Metric::Cosine).unwrap_err()),
            }
        });
        for error in results.into_iter().flatten() {
            let right = "all_gather between ranks failed: rank 1 is lost";
            assert_eq!(error.to_string(), right);
        }
    }
}
