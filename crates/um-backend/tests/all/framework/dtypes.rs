//! Element types as text, and the rows of shards.

use um_backend::sim::Sim;
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, Sharded, Split};

const DTYPES: [DType; 17] = [
    DType::Bool,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
];

#[test]
fn every_name_is_of_one_type_and_comes_back() {
    for dtype in DTYPES {
        let numpy = dtype.numpy_name().unwrap();
        let names = [Some(dtype.name()), dtype.safetensors_name(), Some(numpy)];
        for name in names.into_iter().flatten() {
            assert_eq!(name.parse::<DType>().unwrap(), dtype, "{name}");
        }
        let digits = numpy.trim_start_matches(|c: char| !c.is_ascii_digit());
        if let Ok(bits) = digits.parse::<usize>() {
            assert_eq!(dtype.size_bytes() * 8, bits, "{dtype}");
        }
        let text = serde_json::to_string(&dtype).unwrap();
        assert_eq!(text, format!("\"{dtype}\""));
        assert_eq!(serde_json::from_str::<DType>(&text).unwrap(), dtype);
    }
    assert_eq!("|V18".parse::<DType>().unwrap(), DType::Opaque(18));
    assert_eq!(DType::Opaque(18).to_string(), "opaque18");
    assert_eq!(DType::C128.safetensors_name(), None);
    assert_eq!("<c16".parse::<DType>().unwrap(), DType::C128);
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    for name in [
        "", "f33", ">f4", "opaque", "opaque0", "opaque-1", "|V0", "Float32",
    ] {
        let text = name.parse::<DType>().unwrap_err().to_string();
        let start = format!("a dtype cannot be {name:?}: the names are bool, ");
        assert!(
            text.starts_with(&start) && text.contains("opaque"),
            "{text}"
        );
    }
    assert!(serde_json::from_str::<DType>(r#""f33""#).is_err());
}

#[test]
fn rows_are_in_proportion_and_complete() {
    let sim = Sim::builder().devices(9).build();
    assert!(sim.is_err(), "a simulator has up to eight devices");
    let sim = Sim::builder().devices(8).build().unwrap();
    let config = CudaBackendConfig::default().simulator(sim);
    let first = CudaBackend::initialize_blocking(config).unwrap();
    let backends: Vec<_> = (0..8).map(|i| first.sibling(i).unwrap()).collect();
    let lens = |rows, weights: &[f64]| -> Vec<usize> {
        let (backends, split) = (&backends[..weights.len()], Split::Weights(weights));
        let sharded = Sharded::<u8>::zeroed(backends, BufferKind::Host, rows, 1, split).unwrap();
        let ranges: Vec<_> = (0..weights.len()).map(|i| sharded.rows_of(i)).collect();
        assert_eq!((ranges[0].start, ranges[weights.len() - 1].end), (0, rows));
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        ranges.into_iter().map(|range| range.len()).collect()
    };
    assert_eq!(lens(10, &[1.0; 3]), [3, 4, 3]);
    assert_eq!(lens(2, &[1.0; 4]), [1, 0, 1, 0]);
    assert_eq!(lens(0, &[1.0; 2]), [0, 0]);
    assert_eq!(lens(8, &[3.0, 0.0, 1.0, 0.0]), [6, 0, 2, 0]);
    assert_eq!(lens(4, &[f64::MAX, f64::MAX]), [2, 2]);
    assert_eq!(lens(4, &[f64::MIN_POSITIVE, f64::MIN_POSITIVE]), [2, 2]);
    assert_eq!(lens(3, &[5e-324, 1e300]), [0, 3]);
    for (rows, count) in [(1, 8), (7, 5), (1000, 7)] {
        let lens = lens(rows, &vec![1.0; count]);
        let (least, most) = (lens.iter().min(), lens.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 1, "{rows} {lens:?}");
    }
}
