//! Element types as text.

use um_backend::DType;

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
