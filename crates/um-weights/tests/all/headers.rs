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

#[test]
fn a_file_of_another_kind_says_what_it_is() {
    let zeros = [0; 100];
    for (bytes, what) in [
        (
            &b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"[..],
            "a pointer of Git LFS",
        ),
        (b"<!DOCTYPE html>\n<html><head>", "a page of HTML"),
        (b"\n  <HTML lang=\"en\">", "a page of HTML"),
        (
            b"<?xml version=\"1.0\"?><Error><Code>AccessDenied",
            "a page of XML or HTML",
        ),
        (b"\xef\xbb\xbf<!doctype html><html>", "a page of HTML"),
        (b"PK\x03\x04\x14\0\0\0\x08\0", "a ZIP archive"),
        (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", "a pickle"),
        (b"\x80\x04\x95\x2a\0\0\0\0\0\0\0}\x94", "a pickle"),
        (b"\x93NUMPY\x01\0v\0{'descr'", "an array of NumPy"),
        (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", "compressed by gzip"),
        (b"{\"metadata\": {}, \"weight_map\": {}}", "JSON"),
        (b"Entry not found", "text: was the download refused?"),
        (&zeros, "zeros"),
    ] {
        let Error::Format { at: 0, reason, .. } = refused(bytes.to_vec()) else {
            panic!("{what}");
        };
        assert!(
            reason.starts_with(&format!("it is no file of weights: it is {what}")),
            "{reason}"
        );
        assert!(
            !reason.contains("Entry"),
            "an index may name a link to a secret"
        );
        if what != "JSON" {
            let folder = Folder::new();
            let index = folder.file("model.safetensors.index.json", bytes);
            let error = Weights::open([&index]).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
    // Headers of 123 and 60 bytes begin with `{` and `<`, and one of 640 as a pickle.
    for length in [123, 60, 640] {
        let error = refused(with_header(&" ".repeat(length)));
        assert!(
            error.to_string().contains("the header is not valid"),
            "{error}"
        );
    }
}

/// They would clear a terminal, set its title, or reverse what follows.
#[test]
fn control_characters_of_a_file_reach_no_message() {
    let evil = "\u{1b}[2J\u{7}\u{9b}31m\u{202e}\u{200b}";
    let folder = Folder::new();
    let text = serde_json::json!(evil).to_string();
    let index = format!(r#"{{"weight_map":{{"t":{text}}}}}"#);
    let index = folder.file("i.json", index.as_bytes());
    for error in [
        refused(one(
            &format!(r#"{{"dtype":{text},"shape":[1],"data_offsets":[0,4]}}"#),
            4,
        )),
        refused(one(
            &format!(r#"{{"dtype":"F32","shape":{text},"data_offsets":[0,4]}}"#),
            4,
        )),
        refused(with_header(&format!(
            r#"{{{text}:{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#
        ))),
        Weights::open([&index]).unwrap_err(),
        Weights::open([folder.path(evil)]).unwrap_err(),
    ] {
        let message = error.to_string();
        assert!(
            message.contains("\\u{1b}[2J\\u{7}\\u{9b}31m\\u{202e}\\u{200b}"),
            "{message:?}"
        );
        assert!(
            !message.contains(|c: char| c.is_control() || evil[3..].contains(c) && !c.is_ascii()),
            "{message:?}"
        );
    }
}

#[test]
fn a_dimension_of_0_hides_no_other() {
    for shape in [
        "[18446744073709551615,0]",
        "[0,18446744073709551615]",
        "[0,4294967296,4294967296]",
    ] {
        let error = refused(one(
            &format!(r#"{{"dtype":"F32","shape":{shape},"data_offsets":[0,0]}}"#),
            0,
        ));
        assert!(
            error.to_string().contains("larger than any memory"),
            "{error}"
        );
    }
}
