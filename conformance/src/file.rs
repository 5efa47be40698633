//! Reads files that may be untrusted.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Limit on the bytes that are read: a run of all cases has about 100 KB, and pipes and devices may be endless.
const LONGEST_BYTES: u64 = 64 << 20;

/// The text of a file.
///
/// # Errors
/// The file does not exist, is not text, or has more than 64 MiB.
pub fn read(path: &Path) -> Result<String> {
    let text = File::open(path)
        .map_err(anyhow::Error::from)
        .and_then(|file| bounded(file, LONGEST_BYTES));
    text.with_context(|| format!("cannot read {}", path.display()))
}

fn bounded(from: impl Read, most: u64) -> Result<String> {
    let mut text = String::new();
    from.take(most + 1).read_to_string(&mut text)?;
    ensure!(text.len() as u64 <= most, "it has more than {most} bytes");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::bounded;

    #[test]
    fn files_without_an_end_are_not_read_for_ever() {
        assert_eq!(bounded(&b"1234"[..], 4).unwrap(), "1234");
        let error = bounded(std::io::repeat(b' '), 4).unwrap_err();
        assert_eq!(error.to_string(), "it has more than 4 bytes");
    }
}
