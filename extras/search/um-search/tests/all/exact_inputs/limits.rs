//! Searches within a limit of device memory.

use super::*;

/// A device with little memory; `None` on a GPU, which has more.
fn small(bytes: u64) -> Option<(Sim, Device, Stream)> {
    if on_gpu() {
        return None;
    }
    let sim = Sim::builder().total_memory_bytes(bytes).build().unwrap();
    let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
    let stream = device.create_stream().unwrap();
    Some((sim, device, stream))
}

#[test]
fn targets_larger_than_the_devices_memory() {
    // 6 MB of rows, 3 MB of copy, 1 MiB of budget.
    let (count, dim, budget) = (12_345, 127, 1 << 20);
    let (_sim, device, stream) = match small(5 << 20) {
        Some((sim, device, stream)) => (Some(sim), device, stream),
        None => {
            let (_, device, stream) = device();
            (None, device, stream)
        }
    };
    let bench = Bench::on(device, stream);
    let mut t = noise(7, count * dim);
    // Equal targets in several pieces, special ones, and one piece full of copies of a query.
    let q = noise(8, 5 * dim);
    for row in (0..count).step_by(1500) {
        t[row * dim..][..dim].copy_from_slice(&q[..dim]);
    }
    t[5000 * dim..][..dim].fill(f32::NAN);
    t[5001 * dim..][..dim].fill(0.0);
    for row in 9000..9600 {
        t[row * dim..][..dim].copy_from_slice(&q[dim..2 * dim]);
    }
    let mut pinned = PinnedBuffer::<f32>::zeroed(&bench.device, t.len()).unwrap();
    pinned.copy_from_host(&t).unwrap();
    let registered = RegisteredBuffer::from_vec(&bench.device, t.clone()).unwrap();
    let queries = on_device(&bench.device, &q);
    for (metric, format, k) in [
        (Metric::Cosine, Format::F16, 10),
        (Metric::InnerProduct, Format::Bf16, 1),
        (Metric::Cosine, Format::Bf16, 300),
    ] {
        let shape = shape(5, count, dim, k);
        let all = (queries.view(..).unwrap(), pinned.view(..).unwrap());
        // Its memory is freed before the search within the limit.
        let unlimited = ExactTopK::load(&bench.device).unwrap();
        let right = lists(&bench.device, shape, all, |buffers| {
            let stream = &bench.stream;
            unlimited
                .launch(stream, shape, metric, Filter::Off, buffers)
                .unwrap();
        });
        drop(unlimited);
        for rows in [pinned.view(..).unwrap(), registered.view(..).unwrap()] {
            let mut told = Vec::new();
            let prepare = |told: &mut Vec<usize>| {
                bench.search.prepare_within(
                    &bench.stream,
                    rows,
                    dim,
                    metric,
                    format,
                    budget,
                    |done| told.push(done),
                )
            };
            let mut targets = prepare(&mut told).unwrap();
            assert!(targets.pieces() > 4, "{targets:?}");
            assert!(
                targets.device_bytes() <= budget * 3 / 4 && targets.host_bytes() > count * dim * 2
            );
            assert_eq!(
                (targets.rows(), targets.dim(), targets.budget_bytes()),
                (count, dim, budget)
            );
            assert_eq!((told.len(), told.last()), (targets.pieces(), Some(&count)));
            for _ in 0..2 {
                let mut searched = Vec::new();
                let given = (queries.view(..).unwrap(), rows);
                let found = lists(&bench.device, shape, given, |buffers| {
                    let done = |done| searched.push(done);
                    let (search, stream) = (&bench.search, &bench.stream);
                    search
                        .launch_within(stream, shape, &mut targets, buffers, done)
                        .unwrap();
                });
                assert!(found == right, "{metric:?} {format:?} {k}");
                assert_eq!(searched, told);
            }
        }
    }
}

#[test]
fn a_limit_with_room_for_all_needs_one_piece() {
    let (_sim, device, stream) = device();
    let bench = Bench::on(device, stream);
    let shape = shape(300, 1000, 30, 4);
    let t = on_device(&bench.device, &narrow(&noise(9, 1000 * 30), bf16::from_f32));
    let q = on_device(&bench.device, &narrow(&noise(10, 300 * 30), f16::from_f32));
    let rows = (q.view(..).unwrap(), t.view(..).unwrap());
    let right = bench.found(shape, (Metric::Cosine, Filter::Off), &q, &t);
    // The second limit has room for a few queries at a time.
    for budget in [64 << 20, 1200 << 10] {
        let (search, stream) = (&bench.search, &bench.stream);
        let mut targets = search
            .prepare_within(
                stream,
                rows.1,
                30,
                Metric::Cosine,
                Format::F16,
                budget,
                drop,
            )
            .unwrap();
        assert_eq!((targets.pieces(), targets.host_bytes()), (1, 0));
        let found = lists(&bench.device, shape, rows, |buffers| {
            search
                .launch_within(stream, shape, &mut targets, buffers, drop)
                .unwrap();
        });
        assert!(found == right, "{budget}");
    }
}

#[test]
fn limits_that_are_too_small_are_refused() {
    let (_sim, device, stream) = device();
    let bench = Bench::on(device, stream);
    let (search, stream) = (&bench.search, &bench.stream);
    let t = on_device(&bench.device, &noise(11, 2000 * 64));
    let q = on_device(&bench.device, &noise(12, 3 * 64));
    let rows = t.view(..).unwrap();
    let prepare =
        |budget| search.prepare_within(stream, rows, 64, Metric::Cosine, Format::F16, budget, drop);
    let least = |error: &SearchError| match error {
        SearchError::Value {
            parameter: "budget_bytes",
            allowed,
            ..
        } => allowed.split_whitespace().nth(2).unwrap().parse().unwrap(),
        other => panic!("{other}"),
    };
    let needed: usize = least(&prepare(1000).unwrap_err());
    assert!(least(&prepare(needed - 8).unwrap_err()) == needed);
    let mut targets = prepare(needed).unwrap();
    let shape = shape(3, 2000, 64, 500);
    let launch = |targets: &mut _| {
        let mut outcome = Ok(());
        lists(
            &bench.device,
            shape,
            (q.view(..).unwrap(), rows),
            |buffers| {
                outcome = search
                    .launch_within(stream, shape, targets, buffers, drop)
                    .map(drop);
            },
        );
        outcome
    };
    // There is room for the pieces, but not for a query with long lists.
    let enough: usize = least(&launch(&mut targets).unwrap_err());
    let mut targets = prepare(enough.max(4 << 20)).unwrap();
    launch(&mut targets).unwrap();
    let other = TopKShape {
        targets: 1999,
        ..shape
    };
    let short = rows.slice(..1999 * 64).unwrap();
    lists(
        &bench.device,
        other,
        (q.view(..).unwrap(), short),
        |buffers| {
            let error = search
                .launch_within(stream, other, &mut targets, buffers, drop)
                .unwrap_err();
            assert!(error.to_string().contains("prepared targets"), "{error}");
        },
    );
}
