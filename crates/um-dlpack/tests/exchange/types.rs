//! Element types.

use um_backend::DType;
use um_dlpack::dlpark::ffi::{DLDataType, DLDataTypeCode};
use um_dlpack::{Error, from_dlpack, to_dlpack};

#[test]
fn each_type_comes_back_and_has_dlpacks_number() {
    for (dtype, code, bits) in [
        (DType::Bool, 6, 8),
        (DType::F8E4M3, 10, 8),
        (DType::F8E5M2, 12, 8),
        (DType::F16, 2, 16),
        (DType::BF16, 4, 16),
        (DType::F32, 2, 32),
        (DType::F64, 2, 64),
        (DType::C64, 5, 64),
        (DType::C128, 5, 128),
        (DType::I8, 0, 8),
        (DType::I16, 0, 16),
        (DType::I32, 0, 32),
        (DType::I64, 0, 64),
        (DType::U8, 1, 8),
        (DType::U16, 1, 16),
        (DType::U32, 1, 32),
        (DType::U64, 1, 64),
    ] {
        let found = to_dlpack(dtype).unwrap();
        assert_eq!(
            (found.code.0, found.bits, found.lanes),
            (code, bits, 1),
            "{dtype}"
        );
        assert_eq!(from_dlpack(found).unwrap(), dtype);
    }
}

#[test]
fn types_of_one_side_are_refused() {
    assert!(matches!(
        to_dlpack(DType::Opaque(18)),
        Err(Error::OpaqueDType { .. })
    ));
    for (code, bits, lanes) in [
        (2, 32, 4),
        (17, 4, 1),
        (0, 128, 1),
        (3, 64, 1),
        (99, 8, 1),
        (6, 1, 1),
    ] {
        let refused = from_dlpack(DLDataType::new(DLDataTypeCode(code), bits, lanes)).unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, Error::DType { .. }));
        assert!(
            text.contains(&format!("code {code} with {bits} bits and {lanes} lanes")),
            "{text}"
        );
    }
}
