//! Indexes of files in several parts.

use std::path::PathBuf;

use um_backend::BufferKind;
use um_weights::{Error, LoadOptions, Weights};

use crate::support::{Folder, backend, byte, load_all, safetensors};

fn shards(folder: &Folder) {
    folder.file(
        "one.safetensors",
        &safetensors(&[("a", "U8", &[300], 300), ("b", "U8", &[4], 4)]),
    );
    folder.file(
        "two.safetensors",
        &safetensors(&[("c", "F32", &[2], 8), ("b", "U8", &[5], 5)]),
    );
}

fn index(folder: &Folder, map: &str) -> PathBuf {
    let text = format!(r#"{{"metadata":{{"total_size":317}},"weight_map":{map}}}"#);
    folder.file("model.safetensors.index.json", text.as_bytes())
}

#[test]
fn an_index_tells_which_file_has_a_tensor() {
    let folder = Folder::new();
    shards(&folder);
    let path = index(
        &folder,
        r#"{"a":"one.safetensors","c":"two.safetensors","b":"two.safetensors"}"#,
    );
    let weights = Weights::open([path]).unwrap();
    let names: Vec<_> = weights
        .tensors()
        .iter()
        .map(um_weights::TensorInfo::name)
        .collect();
    assert_eq!(names, ["a", "c", "b"]);
    assert_eq!(weights.files().count(), 2);
    assert_eq!(weights.tensor("b").unwrap().shape(), [5]);
    let loaded = load_all(&weights, &backend(), BufferKind::Unified);
    assert_eq!(
        loaded[1],
        ("b".to_owned(), (0..5).map(|at| byte(1, at)).collect())
    );
}

#[test]
fn an_index_that_lies_is_refused() {
    let folder = Folder::new();
    shards(&folder);
    let open = |map: &str| Weights::open([index(&folder, map)]).unwrap_err();
    let error = open(r#"{"a":"three.safetensors"}"#);
    assert!(
        matches!(&error, Error::MissingShard { shard, source, .. } if shard == "three.safetensors" && matches!(**source, Error::File { .. })),
        "{error}"
    );
    let error = open(r#"{"a":"one.safetensors","d":"one.safetensors"}"#);
    assert!(
        matches!(&error, Error::Tensor { tensor, reason, .. } if tensor == "d" && reason.contains("one.safetensors")),
        "{error}"
    );
    // A tensor of another file that is open, too.
    let error = open(r#"{"a":"one.safetensors","c":"one.safetensors","b":"two.safetensors"}"#);
    assert!(
        matches!(&error, Error::Tensor { tensor, .. } if tensor == "c"),
        "{error}"
    );
    for (map, reason) in [
        (
            r#"{"a":"one.safetensors","a":"two.safetensors"}"#,
            r#""a" is there twice"#,
        ),
        (
            r#"{"a":"../one.safetensors"}"#,
            "is not the name of a file beside the index",
        ),
        (
            r#"{"a":"/etc/passwd"}"#,
            "is not the name of a file beside the index",
        ),
        (r#"{"a":""}"#, "is not the name of a file beside the index"),
        (r#"{"a":1}"#, "the index is not valid"),
        ("[]", "the index is not valid"),
    ] {
        let error = open(map);
        assert!(
            matches!(&error, Error::Format { reason: found, .. } if found.contains(reason)),
            "{error}"
        );
    }
    let error = Weights::open([folder.file("other.json", b"{}")]).unwrap_err();
    assert!(
        error.to_string().contains("missing field `weight_map`"),
        "{error}"
    );
}

/// A process has often 1024 open files, and large models have more parts.
#[cfg(target_os = "linux")]
#[test]
fn an_index_of_many_files_keeps_few_open() {
    let folder = Folder::new();
    let name = |number: usize| format!("{number}.safetensors");
    let part = |number: usize| safetensors(&[(&format!("t{number}"), "U8", &[300], 300)]);
    let mut map = String::new();
    for number in 0..300 {
        folder.file(&name(number), &part(number));
        map += &format!(r#""t{number}":"{}","#, name(number));
    }
    let map = format!("{{{}}}", map.trim_end_matches(','));
    let weights = Weights::open([index(&folder, &map)]).unwrap();
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let open = open.filter(|path| path.starts_with(folder.path("")));
    assert_eq!(open.count(), 256);

    for to in [BufferKind::Cuda, BufferKind::Host] {
        let loaded = load_all(&weights, &backend(), to);
        let bytes: Vec<_> = (0..300).map(|at| byte(0, at)).collect();
        assert!(loaded.len() == 300 && loaded.iter().all(|(_, found)| *found == bytes));
    }
    // The last in the order of names, which is that of the files.
    let other = folder.file("other", &part(99));
    std::fs::rename(other, folder.path(&name(99))).unwrap();
    let options = LoadOptions::default();
    let error = weights.load(&backend(), BufferKind::Host, &options);
    let error = error.unwrap_err();
    assert!(
        matches!(&error, Error::Read { tensor, source, .. } if tensor == "t99" && source.to_string().contains("another file")),
        "{error}"
    );
}
