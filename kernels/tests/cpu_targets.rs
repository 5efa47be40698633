//! The search on a CPU with a filter: for any rows, its lists are bit-identical to those of `cosine_top_k_cpu`.

mod support;

use half::{bf16, f16};
use support::noise;
use um_kernels::{CpuTargets, Filter, FilterKernels, Scalar, SearchCounts, cosine_top_k_cpu};

type Lists = (Vec<u32>, Vec<u32>);

fn lists(places: usize, search: impl FnOnce(&mut [f32], &mut [u32])) -> Lists {
    let (mut scores, mut indices) = (vec![7.0f32; places], vec![7; places]);
    search(&mut scores, &mut indices);
    (
        scores.iter().map(|score| score.to_bits()).collect(),
        indices,
    )
}

/// The filter's lists are those of the reference. Returns its counts.
fn check<T: Scalar>(
    what: &str,
    queries: &[f32],
    targets: &[T],
    dim: usize,
    k: usize,
) -> SearchCounts {
    let places = queries.len() / dim * k;
    let right = lists(places, |scores, indices| {
        cosine_top_k_cpu(queries, targets, dim, k, scores, indices);
    });
    let prepared = CpuTargets::new(targets, dim, Filter::Int8, 1);
    assert!(prepared.path().filter.is_some());
    let mut counts = SearchCounts::default();
    let found = lists(places, |scores, indices| {
        counts = prepared.search(queries, k, scores, indices);
    });
    for at in 0..places {
        let (a, b) = ((found.0[at], found.1[at]), (right.0[at], right.1[at]));
        assert_eq!(
            a,
            b,
            "{what}, dim {dim}, k {k}: query {}, place {}",
            at / k,
            at % k
        );
    }
    counts
}

#[test]
fn any_shape() {
    for (queries, targets, dim, k) in [
        (1, 1, 1, 1),
        (3, 300, 5, 2),
        (2, 257, 2, 257),
        (130, 700, 64, 10),
        (7, 2100, 65, 33),
        (5, 1300, 127, 1024),
        (200, 513, 300, 7),
        (3, 600, 2047, 7),
        (20, 17_000, 12, 10),
        (100, 5000, 768, 1),
        (10_000, 300, 4, 2),
    ] {
        let (q, t) = (noise(1, queries * dim), noise(2, targets * dim));
        check("f32", &q, &t, dim, k);
        let narrow: Vec<f16> = t.iter().map(|value| f16::from_f32(*value)).collect();
        check("f16", &q, &narrow, dim, k);
        let narrow: Vec<bf16> = t.iter().map(|value| bf16::from_f32(*value)).collect();
        check("bf16", &q, &narrow, dim, k);
    }
}

#[test]
fn few_of_many_are_scored() {
    let (queries, targets, dim) = (50, 40_000, 64);
    let counts = check(
        "random",
        &noise(3, queries * dim),
        &noise(4, targets * dim),
        dim,
        10,
    );
    assert_eq!(counts.fallback_queries, 0);
    assert!(counts.rescored >= 50 * 10, "{counts:?}");
    assert!(
        counts.rescored < 50 * 1000 && counts.candidates < 50 * 3000,
        "{counts:?}"
    );
}

#[test]
fn clusters_duplicates_and_sorted_rows() {
    let (queries, targets, dim) = (8, 20_000, 24);
    let q = noise(5, queries * dim);
    let mut clustered: Vec<f32> = q.iter().copied().cycle().take(targets * dim).collect();
    for (row, elements) in clustered.chunks_mut(dim).enumerate() {
        let element = &mut elements[row * 7 % dim];
        *element = if row % 3 == 0 {
            element.next_up()
        } else {
            element.next_down()
        };
    }
    check("clustered", &q, &clustered, dim, 12);
    let same: Vec<f32> = noise(6, dim)
        .into_iter()
        .cycle()
        .take(targets * dim)
        .collect();
    let counts = check("duplicates", &q, &same, dim, 12);
    assert_eq!(counts.fallback_queries, 8, "{counts:?}");
    // All scores of a query are equal, and it gives up after a few tiles.
    assert!(counts.rescored < 8 * 3000, "{counts:?}");
    let mut sorted: Vec<Vec<f32>> = noise(7, targets * dim)
        .chunks(dim)
        .map(<[f32]>::to_vec)
        .collect();
    let cosine = |row: &[f32]| {
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        row.iter().zip(&q).map(|(a, b)| a * b).sum::<f32>() / norm
    };
    sorted.sort_by(|a, b| cosine(a).total_cmp(&cosine(b)));
    check("ascending", &q, &sorted.concat(), dim, 12);
    sorted.reverse();
    check("descending", &q, &sorted.concat(), dim, 12);
}

#[test]
fn zeros_denormals_huge_and_nan() {
    let (queries, targets, dim, k) = (6, 3000, 40, 20);
    type Change<'a> = &'a dyn Fn(usize, &mut [f32]);
    let scale = |factor: f32| {
        move |_: usize, row: &mut [f32]| row.iter_mut().for_each(|value| *value *= factor)
    };
    let all = |value: f32| move |_: usize, row: &mut [f32]| row.fill(value);
    let at =
        |value: f32| move |row: usize, elements: &mut [f32]| elements[row % elements.len()] = value;
    let changes: [(&str, Change<'_>); 12] = [
        ("zero", &all(0.0)),
        ("negative zero", &all(-0.0)),
        ("denormal", &scale(1e-40)),
        ("tiny", &scale(1e-25)),
        ("small", &scale(1e-10)),
        ("huge", &scale(1e15)),
        ("larger", &scale(1e25)),
        ("largest", &scale(3e38)),
        ("NaN", &at(f32::NAN)),
        ("all NaN", &all(f32::NAN)),
        ("infinite", &at(f32::INFINITY)),
        ("negative infinity", &at(f32::NEG_INFINITY)),
    ];
    for (what, change) in changes {
        // Many tiles with such rows, and only one of them.
        for period in [11, 2500] {
            let (mut q, mut t) = (noise(8, queries * dim), noise(9, targets * dim));
            change(1, &mut q[dim..2 * dim]);
            let rows = t.chunks_mut(dim).enumerate();
            rows.filter(|(row, _)| row % period == 3)
                .for_each(|(row, elements)| change(row, elements));
            check(what, &q, &t, dim, k);
        }
        let (mut q, mut t) = (noise(10, queries * dim), noise(11, targets * dim));
        t.chunks_mut(dim)
            .enumerate()
            .for_each(|(row, elements)| change(row, elements));
        check(what, &q, &t, dim, k);
        q.chunks_mut(dim)
            .enumerate()
            .for_each(|(row, elements)| change(row, elements));
        check(what, &q, &t, dim, k);
    }
}

/// All elements of the best target are rounded down by nearly half a step, and the query's elements are equal: the filter's score is
/// too low by nearly the bound.
#[test]
fn errors_as_large_as_the_bound() {
    let (dim, count) = (256, 1024);
    // With the largest element 127 a step is 1.
    let row = |other: f32| {
        let mut row = vec![other; dim];
        row[0] = 127.0;
        row
    };
    let mut targets = noise(14, count * dim);
    targets[10 * dim..11 * dim].copy_from_slice(&row(20.40));
    targets[700 * dim..701 * dim].copy_from_slice(&row(20.45));
    let query = vec![1.0; dim];
    let counts = check("rounded", &query, &targets, dim, 1);
    assert!(
        counts.rescored < 100 && counts.fallback_queries == 0,
        "{counts:?}"
    );
    let (_, best) = lists(1, |scores, indices| {
        CpuTargets::new(&targets[..], dim, Filter::Int8, 1).search(&query, 1, scores, indices);
    });
    assert_eq!(best, [700]);
}

#[test]
fn the_path_is_told() {
    let targets = noise(12, 8192 * 16);
    let path = |filter, rows: usize, queries| {
        CpuTargets::new(&targets[..rows * 16], 16, filter, queries).path()
    };
    let (kernels, _) = path(Filter::Int8, 1, 1).filter.unwrap();
    assert!(["avx512_vnni", "avx_vnni", "portable"].contains(&kernels.name()));
    for (filter, rows, queries) in [
        (Filter::Off, 8192, 1000),
        (Filter::F16, 8192, 1000),
        (Filter::Bf16, 8192, 1000),
        (Filter::Auto, 100, 1000),
        (Filter::Auto, 8192, 1),
    ] {
        let path = path(filter, rows, queries);
        assert!(path.filter.is_none() && !path.reason.is_empty(), "{path:?}");
    }
    let chosen = path(Filter::Auto, 8192, 1000);
    assert_eq!(
        chosen.filter.is_some(),
        kernels != FilterKernels::Portable,
        "{chosen:?}"
    );
}

#[test]
fn no_queries_and_wrong_shapes() {
    let targets = noise(13, 8 * 3);
    let search = |filter, queries: &[f32], k: usize, places: usize| {
        let prepared = CpuTargets::new(&targets, 3, filter, 1);
        let (mut scores, mut indices) = (vec![0.0; places], vec![0; places]);
        prepared.search(queries, k, &mut scores, &mut indices)
    };
    for filter in [Filter::Off, Filter::Int8] {
        assert_eq!(search(filter, &[], 2, 0), SearchCounts::default());
        for (queries, k, places) in [(4, 1, 1), (3, 0, 0), (3, 9, 9), (3, 2, 1)] {
            let result =
                std::panic::catch_unwind(|| search(filter, &vec![1.0; queries], k, places));
            assert!(result.is_err(), "{queries} {k} {places}");
        }
    }
    assert!(std::panic::catch_unwind(|| CpuTargets::new(&[1.0f32], 2, Filter::Off, 1)).is_err());
    assert!(std::panic::catch_unwind(|| CpuTargets::new(&[1.0f32], 0, Filter::Off, 1)).is_err());
}
