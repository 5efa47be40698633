//! The times of graphs, compared with those of an H200.

use crate::support::{Cuda, h200};

/// One H200, CUDA 13.0: kernels of 1024 elements, then microseconds: one launch of the graph with the wait, the host's part of it, the
/// capture, the instantiation.
const MEASURED: &str = include_str!("graph_times.csv");

/// The time of a piece of work on the virtual clock, in microseconds.
fn cost<R>(cuda: &Cuda, work: impl FnOnce() -> R) -> (f64, R) {
    let start = cuda.sim.now();
    let result = work();
    ((cuda.sim.now() - start).as_secs_f64() * 1e6, result)
}

#[test]
fn graphs_take_the_time_that_was_measured() {
    let lines = MEASURED.lines().filter(|line| !line.starts_with('#'));
    for line in lines {
        let mut cells = line.split(',').map(|cell| cell.parse::<f64>().unwrap());
        let kernels = cells.next().unwrap() as usize;
        let cuda = h200();
        let (data, stream, function) = (cuda.device(4096), cuda.stream(), cuda.kernel("add"));
        let (capture, graph) = cost(&cuda, || {
            cuda.begin(stream);
            for _ in 0..kernels {
                assert_eq!(cuda.try_launch(function, data, 4096, stream), 0);
            }
            cuda.end(stream)
        });
        let (instantiate, exec) = cost(&cuda, || cuda.instantiate(graph));
        let (launch, (host, ())) = cost(&cuda, || {
            let host = cost(&cuda, || cuda.launch_graph(exec, stream));
            cuda.sync(stream);
            host
        });
        let simulated = [launch, host, capture, instantiate];
        println!("{kernels} kernels: {simulated:.1?}");
        // The launch is as exact as the other times; the driver's times for the rest vary from run to run.
        for (simulated, (measured, share)) in
            simulated.into_iter().zip(cells.zip([0.25, 0.7, 0.7, 0.7]))
        {
            let ratio = simulated / measured;
            assert!(
                (1.0 - share..=1.0 + share).contains(&ratio),
                "{line}: {simulated:.1} for {measured}"
            );
        }
    }
}

#[test]
fn branches_of_a_graph_run_at_the_same_time() {
    let cuda = h200();
    let data = cuda.device(64 << 20);
    let time = |branches: usize| {
        let exec = cuda.captured(|stream| {
            let fork = cuda.event();
            assert_eq!(
                cuda.record(fork, stream),
                cuda_um_sys::cudaError::cudaSuccess
            );
            for branch in 0..branches {
                let (other, join) = (cuda.stream(), cuda.event());
                cuda.wait(other, fork);
                cuda.launch("write", data.wrapping_add(branch << 24), 16 << 20, other);
                cuda.record(join, other);
                cuda.wait(stream, join);
            }
        });
        let stream = cuda.stream();
        cost(&cuda, || {
            cuda.launch_graph(exec, stream);
            cuda.sync(stream);
        })
        .0
    };
    let (one, four) = (time(1), time(4));
    assert!(
        (four - one).abs() < 0.1,
        "{one} us, with four branches {four} us"
    );
}
