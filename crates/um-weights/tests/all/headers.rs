//! Headers of safetensors files that lie in each field.

use um_weights::Error;

use crate::support::{Folder, Storage, safetensors, with_header};
use um_weights::Weights;

/// A file of one tensor whose description is this, with so many bytes of data.
fn one(description: &str, data: usize) -> Vec<u8> {
    let mut file = with_header(&format!(r#"{{"t":{description}}}"#));
    file.resize(file.len() + data, 7);
    file
}

fn refused(file: Vec<u8>) -> Error {
    Storage::of(file).open().1.expect_err("a lie")
}

#[test]
fn each_field_of_a_tensor_is_checked() {
    for (description, data, reason) in [
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,4]}"#,
            4,
            "and its bytes 0..4 are 4",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[0,8]}"#,
            7,
            "is it truncated?",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[8,0]}"#,
            8,
            "end before they begin",
        ),
        (
            r#"{"dtype":"F32","shape":[2],"data_offsets":[1,9]}"#,
            9,
            "begins at byte 1 after the header, and the tensor before it ends at 0",
        ),
        (
            r#"{"dtype":"F4","shape":[3],"data_offsets":[0,1]}"#,
            1,
            "has 12 bits",
        ),
        (
            r#"{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,1]}"#,
            1,
            "larger than any memory",
        ),
        (
            r#"{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,1]}"#,
            1,
            "larger than any memory",
        ),
        (
            r#"{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[1,0]}"#,
            1,
            "larger than any memory",
        ),
    ] {
        let error = refused(one(description, data));
        let Error::Tensor {
            file,
            tensor,
            reason: found,
            at,
        } = &error
        else {
            panic!("{description}: {error}");
        };
        assert!(found.contains(reason), "{found}");
        assert_eq!((file.to_str(), tensor.as_str()), (Some("storage"), "t"));
        assert!(*at >= 8, "{error}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn the_header_as_a_whole_is_checked() {
    let fine = r#"{"dtype":"U8","shape":[1],"data_offsets":[0,1]}"#;
    assert!(Storage::of(one(fine, 1)).open().1.is_ok());
    let mut endless = one(fine, 1);
    endless[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut longer = one(fine, 1);
    longer[0] += 2;
    let mut no_text = with_header("{\"t\u{e9}\":1}");
    no_text[11] = 0xff;
    for (file, reason) in [
        (vec![], "begins with 8 bytes"),
        (vec![1, 0, 0], "begins with 8 bytes"),
        (with_header("")[..8].to_vec(), "the header is not valid"),
        (with_header("[]"), "the header is not valid"),
        (with_header("{} 1"), "the header is not valid"),
        (with_header(r#"{"t":7}"#), r#"tensor "t": invalid type"#),
        (no_text, "the header is not valid"),
        (endless, "at most"),
        (longer, "at most"),
        (one(fine, 2), "the last 1 bytes belong to no tensor"),
        (
            one(r#"{"dtype":"F33","shape":[1],"data_offsets":[0,1]}"#, 1),
            r#"tensor "t": unknown variant `F33`"#,
        ),
        (
            one(r#"{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}"#, 1),
            r#"tensor "t": invalid value"#,
        ),
        (
            one(r#"{"dtype":"U8","shape":[1],"data_offsets":[0]}"#, 1),
            r#"tensor "t": invalid length"#,
        ),
        (
            one(r#"{"dtype":"U8","shape":[1]}"#, 1),
            "missing field `data_offsets`",
        ),
        (
            with_header(r#"{"__metadata__":{"a":1}}"#),
            "the header is not valid",
        ),
        (
            with_header(r#"{"__metadata__":{"a":"1","a":"2"}}"#),
            r#""a" is there twice"#,
        ),
    ] {
        let error = refused(file);
        let Error::Format { reason: found, .. } = &error else {
            panic!("{error}");
        };
        assert!(found.contains(reason), "{found}");
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn overlaps_gaps_and_equal_names_are_refused() {
    let two = |second: &str, name: &str| {
        let first = r#""t":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}"#;
        let mut file = with_header(&format!(
            r#"{{{first},"{name}":{{"dtype":"U8","shape":[4],"data_offsets":{second}}}}}"#
        ));
        file.resize(file.len() + 16, 0);
        refused(file)
    };
    for (offsets, begin) in [("[2,6]", 2), ("[6,10]", 6)] {
        let error = two(offsets, "u").to_string();
        let reason =
            format!("begins at byte {begin} after the header, and the tensor before it ends at 4");
        assert!(
            error.contains(r#"tensor "u""#) && error.contains(&reason),
            "{error}"
        );
    }
    let error = two("[4,8]", "t").to_string();
    assert!(error.contains(r#""t" is there twice"#), "{error}");
}

#[test]
fn two_files_must_not_have_one_tensor() {
    let folder = Folder::new();
    let bytes = safetensors(&[("same", "U8", &[4], 4)]);
    let paths = ["a.safetensors", "b.safetensors"].map(|name| folder.file(name, &bytes));
    let error = Weights::open(&paths).unwrap_err();
    assert!(
        matches!(&error, Error::Tensor { tensor, file, reason, .. } if tensor == "same" && *file == paths[1] && reason.contains("a.safetensors")),
        "{error}"
    );
}

#[test]
fn only_regular_files_are_read() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    let name = std::ffi::CString::new(fifo.to_str().unwrap()).unwrap();
    // SAFETY: the path is a C string.
    #[allow(unsafe_code, reason = "makes a FIFO")]
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    for (path, what) in [
        (fifo, "a FIFO"),
        ("/dev/zero".into(), "a device"),
        (folder.path(""), "a folder"),
    ] {
        let error = Weights::open([&path]).unwrap_err();
        assert!(
            matches!(&error, Error::File { source, .. } if source.to_string().contains(what)),
            "{error}"
        );
    }
    let error = Weights::open([folder.path("missing")]).unwrap_err();
    assert!(
        matches!(&error, Error::File { call: "open", source, .. } if source.kind() == std::io::ErrorKind::NotFound),
        "{error}"
    );
}
