//! Numbers of buffers on several threads.

use super::{AT_ONCE, next};
use std::collections::HashSet;

#[test]
fn no_number_is_given_twice() {
    let count = 3 * AT_ONCE + 7;
    let take = || (0..count).map(|_| next()).collect::<Vec<_>>();
    let of_threads: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert!(of_threads.iter().all(|ids| ids.is_sorted()));
    let all: HashSet<u64> = of_threads.into_iter().flatten().collect();
    assert_eq!(all.len() as u64, 4 * count);
    assert!(!all.contains(&0));
}
