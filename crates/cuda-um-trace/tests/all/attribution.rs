//! The buffers and the operation of each record.

mod properties;

use crate::support::{Builder, DEVICE};
use cuda_um_trace::{Attribution, Cause, Explanation, Place, Trace};

const MIB: u64 = 1 << 20;

fn names(trace: &Trace, record: usize) -> Vec<(Option<&str>, u64)> {
    let attribution = Attribution::of(trace);
    let pieces = attribution.pieces(record).iter();
    pieces
        .map(|piece| {
            let name = piece.buffer.map(|index| trace.buffers[index].name.as_str());
            (name, piece.bytes)
        })
        .collect()
}

#[test]
fn a_pooled_buffer_comes_before_its_slab_and_a_record_is_cut_at_borders() {
    let mut builder = Builder::new();
    let slab = builder.buffer("slab", 8 * MIB);
    let base = builder.get(slab).address.next_multiple_of(2 * MIB);
    builder.buffer_at("a", base, MIB / 2, Some(slab));
    builder.buffer_at("b", base + MIB, MIB / 2, Some(slab));
    builder.migration(base, 4 * MIB, DEVICE, Cause::User);
    builder.cpu_fault(base + MIB + 5);
    builder.cpu_fault(base + 2 * MIB - 1);
    builder.cpu_fault(base + 2 * MIB);
    let trace = builder.finish();
    let (a, b, slab) = (Some("a"), Some("b"), Some("slab"));
    // The rest of a block of 2 MiB belongs to the buffer before it.
    assert_eq!(names(&trace, 0), [(a, MIB), (b, MIB), (slab, 2 * MIB)]);
    assert_eq!(names(&trace, 1), [(b, 0)]);
    assert_eq!(names(&trace, 2), [(b, 0)]);
    assert_eq!(names(&trace, 3), [(slab, 0)]);
}

#[test]
fn an_address_belongs_to_who_has_it_at_the_time() {
    let mut builder = Builder::new();
    let first = builder.buffer("first", MIB);
    let address = builder.get(first).address;
    builder.cpu_fault(address + 7);
    builder.free(first);
    builder.wait(10);
    builder.cpu_fault(address + 7);
    builder.wait(10);
    builder.buffer_at("second", address, 4096, None);
    builder.cpu_fault(address + 7);
    builder.cpu_fault(address + 8192);
    let trace = builder.finish();
    assert_eq!(names(&trace, 0), [(Some("first"), 0)]);
    assert_eq!(names(&trace, 1), [(None, 0)]);
    assert_eq!(names(&trace, 2), [(Some("second"), 0)]);
    assert_eq!(names(&trace, 3), [(None, 0)], "the second one is smaller");
}

#[test]
fn memory_that_was_imported_for_a_while_is_its_buffers_again() {
    let mut builder = Builder::new();
    let buffer = builder.buffer("buffer", MIB);
    let address = builder.get(buffer).address;
    builder.wait(10);
    let import = builder.buffer_at("import", address, 4096, None);
    builder.cpu_fault(address + 7);
    builder.free(import);
    builder.wait(10);
    builder.cpu_fault(address + 7);
    builder.cpu_fault(address + 8192);
    let trace = builder.finish();
    assert_eq!(names(&trace, 0), [(Some("import"), 0)]);
    assert_eq!(names(&trace, 1), [(Some("buffer"), 0)]);
    assert_eq!(names(&trace, 2), [(Some("buffer"), 0)]);
}

#[test]
fn padding_moves_with_its_buffer_and_a_page_means_the_buffer_on_it() {
    let mut builder = Builder::new();
    let slab = builder.buffer("slab", 2 * MIB);
    let base = builder.get(slab).address;
    let lonely = builder.buffer("lonely", 5000);
    let address = builder.get(lonely).address;
    builder.buffer_at("late", base + 4096 + 512, 256, Some(slab));
    builder.migration(address, 8192, DEVICE, Cause::User);
    builder.cpu_fault(base + 4096);
    let trace = builder.finish();
    assert_eq!(names(&trace, 0), [(Some("lonely"), 8192)]);
    assert_eq!(names(&trace, 1), [(Some("late"), 0)]);
}

fn explained(trace: &Trace) -> Vec<String> {
    let attribution = Attribution::of(trace);
    let records = 0..trace.records.len();
    records
        .map(|record| match attribution.explanation(record) {
            Explanation::Run(kernel) => trace.kernels[kernel].name.clone(),
            Explanation::Operation(operation) => format!("{:?}", trace.operations[operation].id),
            Explanation::Nothing => "nothing".into(),
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn of_two_kernels_at_once_the_one_that_uses_the_buffer_faulted() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    let b = builder.buffer("b", MIB);
    let c = builder.buffer("c", MIB);
    let at = [a, b, c].map(|id| builder.get(id).address);
    builder.launch_with("one", &[(a, false)], |builder| {
        builder.launch_with("two", &[(b, false)], |builder| {
            for address in at {
                builder.gpu_fault(address, 1);
                builder.migration(address, 4096, DEVICE, Cause::Prefetch);
            }
        });
    });
    // No operation is running: the latest launch over this memory explains the record.
    builder.wait(100_000);
    builder.gpu_fault(at[0], 1);
    builder.gpu_fault(at[2], 1);
    let expected = ["one", "one", "two", "two", "two", "two", "one", "nothing"];
    assert_eq!(explained(&builder.finish()), expected);
}

#[test]
fn a_prefetch_moves_what_it_was_asked_for_however_late() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    let b = builder.buffer("b", MIB);
    let at = [a, b].map(|id| builder.get(id).address);
    builder.prefetch_of_nothing(a, DEVICE); // 0
    builder.prefetch_of_nothing(b, DEVICE); // 1
    builder.prefetch_of_nothing(a, Place::Host); // 2
    builder.launch_with("other", &[], |builder| {
        builder.migration(at[0], 4096, DEVICE, Cause::User);
        builder.migration(at[1], 4096, DEVICE, Cause::User);
        builder.migration(at[0], 4096, Place::Host, Cause::User);
        builder.migration(at[1], 4096, Place::Host, Cause::User);
    });
    assert_eq!(explained(&builder.finish()), ["0", "1", "2", "1"]);
}

#[test]
fn the_host_guard_explains_the_hosts_faults_and_what_they_bring() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    let b = builder.buffer("b", MIB);
    let at = [a, b].map(|id| builder.get(id).address);
    builder.host_with(a, true, |builder| {
        builder.host_with(b, false, |builder| {
            for address in at {
                builder.cpu_fault(address);
                builder.migration(address, 4096, Place::Host, Cause::Coherence);
            }
        });
    });
    builder.wait(100);
    builder.cpu_fault(at[0]);
    assert_eq!(
        explained(&builder.finish()),
        ["0", "0", "1", "1", "nothing"]
    );
}

#[test]
fn kernels_without_a_launch_find_it_by_name() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    builder.launch("one", &[(a, false)]);
    builder.launch("one", &[(a, true)]);
    let mut trace = builder.finish();
    trace
        .kernels
        .iter_mut()
        .for_each(|run| run.operation = None);
    let attribution = Attribution::of(&trace);
    assert_eq!(
        [attribution.launch(0), attribution.launch(1)],
        [Some(0), Some(1)]
    );
}
