//! Programs of several ranks, with a real MPI library. `extras/search/check` fetches one and sets the variables below.
//!
//! This program is the test and, started by the launcher with `CUDA_UM_TEST_CASE`, each of the ranks.

mod collectives;
mod ends;
mod launch;
mod library;
mod search;

use launch::Launcher;
use um_mpi::Mpi;

/// The name of a case, what each rank does, and what the test does.
type Case = (&'static str, fn(Mpi), fn(&Launcher));

fn main() {
    let launcher = Launcher::from_environment();
    let of_ranks = [collectives::CASES, ends::CASES, search::CASES].concat();
    let mut cases = library::CASES.to_vec();
    if let Ok(name) = std::env::var("CUDA_UM_TEST_CASE") {
        cases.extend(of_ranks);
        let (_, rank, _) = cases.iter().find(|case| case.0 == name).expect("a case");
        return rank(Mpi::init().unwrap_or_else(|error| panic!("{error}")));
    }
    match launcher.is_there() {
        true => cases.extend(of_ranks),
        false => println!(
            "programs of ranks: skipped: CUDA_UM_TEST_MPIEXEC is not set (extras/search/check sets it)"
        ),
    }
    let wanted = std::env::args()
        .nth(1)
        .filter(|argument| !argument.starts_with('-'));
    let mut passed = 0;
    for (name, _, test) in &cases {
        if wanted
            .as_ref()
            .is_none_or(|wanted| name.contains(&**wanted))
        {
            let started = std::time::Instant::now();
            test(&launcher.of(name));
            println!("test {name} ... ok ({:.1?})", started.elapsed());
            passed += 1;
        }
    }
    println!("test result: ok. {passed} passed; 0 failed");
}
