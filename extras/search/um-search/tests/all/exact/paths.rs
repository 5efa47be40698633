//! The format that is chosen, and requests that are refused.

use super::*;

#[test]
fn the_path_is_told() {
    let bench = bench();
    let kernels = bench.search.kernels();
    let (q, t) = (rows(15, 4, 8), rows(16, 600, 8));
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let small = shape(4, 600, 8, 3);
    let mut told = Vec::new();
    for filter in [Filter::Auto, Filter::Off, Filter::Bf16] {
        let launch = |buffers: SearchBuffers<'_, _>| {
            bench
                .search
                .launch(&bench.stream, small, Metric::Cosine, filter, buffers)
        };
        told.push(bench.search(small, &q, &t, launch).1);
    }
    assert_eq!(told[0].filter, None);
    assert!(told[0].reason.contains("targets"), "{:?}", told[0]);
    assert_eq!(told[1].reason, "the filter is off");
    assert_eq!(
        told[2].filter,
        kernels.ok().map(|kernels| (kernels, Format::Bf16))
    );
}

#[test]
fn nothing_is_filtered_in_a_capture() {
    let bench = bench();
    let (device, stream) = (&bench.device, &bench.stream);
    let Ok(_) = bench.search.kernels() else {
        return;
    };
    // As much work as has a filter elsewhere.
    let shape = shape(64, 16 << 10, 1024, 3);
    let [q, t] = [shape.queries, shape.targets]
        .map(|rows| DeviceBuffer::<f32>::zeroed(device, rows * shape.dim).unwrap());
    let mut scores = DeviceBuffer::<f32>::zeroed(device, 64 * 3).unwrap();
    let mut indices = DeviceBuffer::<u32>::zeroed(device, 64 * 3).unwrap();
    let mut launch = |search: &ExactTopK, filter| {
        let buffers = SearchBuffers {
            queries: q.view(..).unwrap(),
            targets: t.view(..).unwrap(),
            scores: scores.view_mut(..).unwrap(),
            indices: indices.view_mut(..).unwrap(),
        };
        search.launch(stream, shape, Metric::Cosine, filter, buffers)
    };
    // Before the filter is loaded, and after that.
    for _ in 0..2 {
        let graph = stream.capture(|_| {
            let error = launch(&bench.search, Filter::F16).unwrap_err();
            assert!(matches!(error, SearchError::Unsupported { .. }), "{error}");
            assert!(error.to_string().contains("in the capture"), "{error}");
            let own = ExactTopK::load(device).unwrap();
            assert_eq!(launch(&own, Filter::Auto).unwrap().filter, None);
            Ok(())
        });
        graph.unwrap().instantiate().unwrap();
        bench.check(
            "filtered",
            super::shape(4, 600, 8, 3),
            &rows(23, 4, 8),
            &rows(24, 600, 8),
        );
    }
}

/// Queries near each other among 262,144 targets, of which some are at many distances from these queries: many within the error of 8
/// bits, and few within that of half precision.
fn a_dense_neighbourhood(
    queries: usize,
    dim: usize,
    clustered: usize,
) -> (TopKShape, Vec<f32>, Vec<f32>) {
    let shape = shape(queries, 1 << 18, dim, 10);
    let center = rows(20, 1, dim);
    let near = |row: &mut [f32], share: f32| {
        let pairs = row.iter_mut().zip(&center);
        pairs.for_each(|(value, center)| *value = center + *value * share);
    };
    let (mut q, mut t) = (rows(21, shape.queries, dim), rows(22, shape.targets, dim));
    q.chunks_mut(dim).for_each(|row| near(row, 0.02));
    for (at, row) in t.chunks_mut(dim).step_by(65).take(clustered).enumerate() {
        near(row, 0.25 * (at as f32 / clustered as f32).sqrt());
    }
    (shape, q, t)
}

#[test]
fn automatic_filters_begin_in_8_bits() {
    let bench = bench();
    let Ok(kernels) = bench.search.kernels() else {
        return;
    };
    let (shape, mut q, t) = a_dense_neighbourhood(128, 32, 0);
    // These go to the fallback in any format.
    q[..4 * 32].fill(f32::NAN);
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let right = bench.filtered(shape, Metric::Cosine, Filter::Off, &q, &t);
    let auto = |buffers: SearchBuffers<'_, _>| {
        let (stream, metric) = (&bench.stream, Metric::Cosine);
        bench
            .search
            .launch(stream, shape, metric, Filter::Auto, buffers)
    };
    for format in [Format::Int8, Format::F16] {
        let (found, path) = bench.search(shape, &q, &t, auto);
        assert!(found == right, "{}", difference(&found, &right, shape.k));
        assert_eq!(path.filter, Some((kernels, format)), "{path:?}");
    }
    let counts = bench.search.counts().unwrap();
    assert_eq!((counts.fallback_queries, counts.refiltered_queries), (8, 0));
}

#[test]
fn dense_neighbourhoods_are_filtered_again() {
    let bench = bench();
    let Ok(kernels) = bench.search.kernels() else {
        return;
    };
    let (shape, q, t) = a_dense_neighbourhood(160, 32, 4000);
    let (q, t) = (bench.on_device(&q), bench.on_device(&t));
    let right = bench.filtered(shape, Metric::Cosine, Filter::Off, &q, &t);
    let auto = |buffers: SearchBuffers<'_, _>| {
        let (stream, metric) = (&bench.stream, Metric::Cosine);
        bench
            .search
            .launch(stream, shape, metric, Filter::Auto, buffers)
    };
    // The second launch does not try 8 bits.
    let mut told: Vec<SearchCounts> = Vec::new();
    for _ in 0..2 {
        let (found, path) = bench.search(shape, &q, &t, auto);
        assert!(found == right, "{}", difference(&found, &right, shape.k));
        assert_eq!(path.filter, Some((kernels, Format::F16)), "{path:?}");
        told.push(bench.search.counts().unwrap());
    }
    assert!(told[0].refiltered_queries > 128, "{told:?}");
    assert_eq!(told[0].refiltered_queries, told[1].refiltered_queries);
    assert_eq!((told[0].fallback_queries, told[1].fallback_queries), (0, 0));
}

#[test]
fn impossible_requests_are_refused() {
    let bench = bench();
    let q = bench.on_device(&rows(17, 2, 4));
    let t = bench.on_device(&rows(18, 30, 4));
    let mut scores = bench.on_device(&[0.0f32; 6]);
    let mut indices = DeviceBuffer::from_slice(&bench.device, &[0u32; 6]).unwrap();
    let (search, stream) = (&bench.search, &bench.stream);
    let view = t.view(..).unwrap();
    let mut prepared = search
        .prepare(stream, view, 4, Metric::Cosine, Format::Bf16)
        .unwrap();
    let mut refused = |shape, prepared: Option<&PreparedTargets>| {
        let buffers = SearchBuffers {
            queries: q.view(..).unwrap(),
            targets: t.view(..).unwrap(),
            scores: scores.view_mut(..).unwrap(),
            indices: indices.view_mut(..).unwrap(),
        };
        let launched = match prepared {
            Some(prepared) => search.launch_prepared(stream, shape, prepared, buffers),
            None => search.launch(stream, shape, Metric::Cosine, Filter::Bf16, buffers),
        };
        launched.unwrap_err()
    };
    for (shape, parameter) in [
        (shape(2, 30, 0, 3), "dim"),
        (shape(2, 30, 4, 0), "k"),
        (shape(2, 30, 4, 31), "k"),
    ] {
        let error = refused(shape, None);
        assert!(
            matches!(error, SearchError::Value { parameter: named, .. } if named == parameter),
            "{error}"
        );
    }
    assert_eq!(
        refused(shape(3, 30, 4, 2), None).to_string(),
        "exact_top_k: `queries` has 8 elements, 12 are needed"
    );
    // The same targets with another shape.
    let error = refused(shape(4, 60, 2, 1), Some(&prepared));
    assert!(error.to_string().contains("scores"), "{error}");
    let error = refused(shape(4, 60, 2, 1), None);
    assert!(error.to_string().contains("scores"), "{error}");
    let six = shape(2, 30, 4, 3);
    let other = search
        .prepare(
            stream,
            view.slice(..80).unwrap(),
            4,
            Metric::Cosine,
            Format::F16,
        )
        .unwrap();
    let error = refused(six, Some(&other)).to_string();
    assert!(error.contains("prepared targets"), "{error}");
    for (dim, parameter) in [(0, "dim"), (1 << 17, "dim")] {
        let error = search
            .prepare(stream, view, dim, Metric::Cosine, Format::Bf16)
            .unwrap_err();
        assert!(matches!(error, SearchError::Value { parameter: named, .. } if named == parameter));
    }
    assert!(
        search
            .prepare(stream, view, 7, Metric::Cosine, Format::Bf16)
            .is_err()
    );
    for (first, elements) in [(30, 4), (29, 8), (0, 3)] {
        let part = view.slice(..elements).unwrap();
        assert!(search.update(stream, &mut prepared, first, part).is_err());
    }
}
