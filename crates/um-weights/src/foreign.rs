//! Files that are no weights, by their first bytes: what a failed download, or a program for another format, leaves.

use crate::header::MOST_HEADER;

/// It may look like the length of a header.
const GZIP: &[u8] = b"\x1f\x8b\x08";
const GGML: &str = "a file of GGML, which GGUF replaced: convert it to GGUF";
const KNOWN: [(&[u8], &str); 14] = [
    (
        b"version https://git-lfs",
        "a pointer of Git LFS: fetch the file with `git lfs pull`",
    ),
    (
        b"PK\x03\x04",
        "a ZIP archive, as PyTorch and NumPy write: convert it to safetensors",
    ),
    (b"PK\x05\x06", "an empty ZIP archive"),
    (b"\x93NUMPY", "an array of NumPy: load it with NumPy"),
    (b"\x89HDF\r\n", "a file of HDF5: convert it to safetensors"),
    (GZIP, "compressed by gzip: decompress it"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: decompress it"),
    (b"\xfd7zXZ", "compressed by xz: decompress it"),
    (b"BZh", "compressed by bzip2: decompress it"),
    (b"\x7fELF", "a program"),
    (b"ggml", GGML),
    (b"lmgg", GGML),
    (b"fmgg", GGML),
    (b"tjgg", GGML),
];

/// What a file is whose header could not be read.
pub(crate) fn name(first: &[u8]) -> Option<String> {
    let known = KNOWN.iter().find(|(start, _)| first.starts_with(start));
    let length = first.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    // It may begin with a mark of its order of bytes.
    let begins = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first);
    let begins = begins.trim_ascii_start();
    // The last character may be cut.
    let text = begins
        .utf8_chunks()
        .next()
        .map_or("", |chunk| chunk.valid());
    let is_text = text.len() + 4 > begins.len()
        && text.len() >= 8
        && !text.chars().any(|c| c.is_control() && !c.is_whitespace());
    let lower = text.to_ascii_lowercase();
    let what = match known {
        _ if first.len() > 8 && first.iter().all(|byte| *byte == 0) => {
            "zeros: was it downloaded whole?"
        }
        Some((GZIP, what)) => what,
        // The header of a safetensors file, in which something else is wrong.
        _ if length.is_some_and(|length| length <= MOST_HEADER) => return None,
        Some((_, what)) => what,
        None if matches!(first, [0x80, 2..=5, ..]) => {
            "a pickle, as PyTorch writes: convert it to safetensors"
        }
        None if lower.starts_with("<!doctype") || lower.starts_with("<html") => {
            "a page of HTML: was the download refused?"
        }
        None if text.starts_with('<') => "a page of XML or HTML: was the download refused?",
        None if is_text && text.starts_with('{') => "JSON: the name of an index ends in .json",
        // Not which one: a hostile index may name a link to a secret.
        None if is_text => "text: was the download refused?",
        None => return None,
    };
    Some(format!("it is no file of weights: it is {what}"))
}
