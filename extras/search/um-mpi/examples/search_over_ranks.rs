//! An exact search over the ranks of MPI: each rank has some of the rows on its device, and gets the lists of all.
//!
//! `mpiexec -n 4 search_over_ranks` (`CUDA_UM_RUNTIME=sim` without a GPU), with the mpiexec of a library that has the ABI of MPI 5 (MPICH 5.0); alone it is one rank.

use cuda_um::{Device, DeviceBuffer, Runtime};
use cuda_um_sim::Sim;
use std::error::Error;
use std::io::{self, Write};
use std::ops::Range;
use std::process::ExitCode;
use um_mpi::Mpi;
use um_search::{Filter, Metric, Shard, ShardedSearch, TopKShape, World};

type Failure = Box<dyn Error + Send + Sync>;

const DIM: usize = 64;
const ROWS_OF_A_RANK: usize = 2048;
const QUERIES: usize = 16;
const K: usize = 3;

fn main() -> ExitCode {
    let Err(error) = run(&mut io::stdout()) else {
        return ExitCode::SUCCESS;
    };
    // The reader closed the pipe (`| head`).
    let error_of_io = error.downcast_ref::<io::Error>();
    if error_of_io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // Standard error may be closed, too.
    let _ = writeln!(io::stderr(), "search_over_ranks: {error}");
    ExitCode::FAILURE
}

fn run(out: &mut dyn Write) -> Result<(), Failure> {
    // The first line of the program: dropped last.
    let mpi = Mpi::init()?;
    let world = mpi.world();
    let (rank, ranks) = (world.rank(), world.size());
    let runtime = match std::env::var("CUDA_UM_RUNTIME").as_deref() {
        Ok("sim") => Runtime::from_table(Sim::from_env()?.table())?,
        _ => Runtime::open()?,
    };
    let ordinal = mpi.device_for_local_rank(runtime.device_count()?)?;
    let device = runtime.device(ordinal as u32)?;

    let own = rank * ROWS_OF_A_RANK..(rank + 1) * ROWS_OF_A_RANK;
    let all = ranks * ROWS_OF_A_RANK;
    let lists = search(world, &device, own, all)?;
    if lists != search((), &device, 0..all, all)? {
        return Err("the lists differ from those of one rank with all rows".into());
    }
    writeln!(
        out,
        "rank {rank} of {ranks}, device {ordinal}: the lists are those of one rank"
    )?;
    if rank == 0 {
        for query in 0..2 {
            writeln!(out, "query {query}: rows {:?}", &lists.1[query * K..][..K])?;
        }
    }
    Ok(())
}

/// The lists of a search for which this rank has these rows: scores and global indices.
fn search(
    world: impl World,
    device: &Device,
    own: Range<usize>,
    all: usize,
) -> Result<(Vec<f32>, Vec<u32>), Failure> {
    let shape = TopKShape {
        queries: QUERIES,
        targets: all,
        dim: DIM,
        k: K,
    };
    let queries: Vec<f32> = (0..QUERIES).flat_map(|query| row(query * 997)).collect();
    let first = own.start;
    let rows: Vec<f32> = own.flat_map(row).collect();
    let rows = DeviceBuffer::from_slice(device, &rows)?;
    let shard = Shard::new(first, rows.as_view());
    let (mut scores, mut indices) = (vec![0.0; QUERIES * K], vec![0; QUERIES * K]);
    let search = ShardedSearch::load([device])?.over(world);
    search.search(
        shape,
        Metric::Cosine,
        Filter::Auto,
        &queries,
        &[shard],
        &mut scores,
        &mut indices,
    )?;
    Ok((scores, indices))
}

/// The row with this global index.
fn row(index: usize) -> impl Iterator<Item = f32> {
    let mut state = index as u32;
    (0..DIM).map(move |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    })
}
