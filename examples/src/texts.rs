//! Texts for the vectors of a file, one in each line.

use crate::error::{InputError, Wrong};
use std::path::Path;

/// Reads the lines of a UTF-8 text (`\
/// ` or `\\r\
/// `; the last line may have no end).
///
/// # Errors
/// The file cannot be read or is not a regular file, or a line is not UTF-8; the error names the first such line.
pub fn read_lines(path: &Path) -> Result<Vec<String>, InputError> {
    let read = || {
        // Pipes and devices may be endless.
        if !std::fs::metadata(path).map_err(Wrong::Io)?.is_file() {
            return Err(Wrong::NotAFile);
        }
        lines_of(std::fs::read(path).map_err(Wrong::Io)?)
    };
    read().map_err(|wrong| InputError::new(path, wrong))
}

/// The lines of a text in memory.
///
/// # Errors
/// The first line that is not UTF-8.
pub fn lines_of(mut bytes: Vec<u8>) -> Result<Vec<String>, Wrong> {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    let line_of = |(index, line): (usize, &[u8])| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        std::str::from_utf8(line)
            .map(str::to_owned)
            .map_err(|_| Wrong::NotUtf8 { line: index + 1 })
    };
    let count = bytes.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let mut lines = Vec::with_capacity(count);
    for line in bytes.split(|&byte| byte == b'\n').enumerate() {
        lines.push(line_of(line)?);
    }
    Ok(lines)
}

/// Reads the texts that belong to the vectors of `vectors`.
///
/// # Errors
/// As [`read_lines`], or the number of lines differs from the number of vectors.
pub fn read_texts(path: &Path, vectors: (&Path, usize)) -> Result<Vec<String>, InputError> {
    let lines = read_lines(path)?;
    let (other, expected) = vectors;
    if lines.len() != expected {
        let wrong = Wrong::LineCount {
            found: lines.len(),
            expected,
            other: other.to_owned(),
        };
        return Err(InputError::new(path, wrong));
    }
    Ok(lines)
}

/// A text for the terminal: without control characters, and with at most `longest` characters.
pub fn printable(text: &str, longest: usize) -> String {
    let visible = |character: char| {
        if character.is_control() {
            ' '
        } else {
            character
        }
    };
    let mut shown: String = text.chars().map(visible).take(longest).collect();
    if text.chars().nth(longest).is_some() {
        shown.pop();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(content: &[u8]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("texts.txt");
        std::fs::write(&file, content).unwrap();
        read_lines(&file).map_err(|error| error.to_string())
    }

    #[test]
    fn lines_end_in_either_way() {
        assert_eq!(lines(b"a\r\n\xc3\xa4\n").unwrap(), ["a", "ä"]);
        assert_eq!(lines(b"a\n\nb").unwrap(), ["a", "", "b"]);
    }

    #[test]
    fn names_the_line_that_is_not_utf8() {
        assert!(
            lines(b"a\n\xff\n")
                .unwrap_err()
                .ends_with("texts.txt: line 2 is not UTF-8")
        );
    }

    #[test]
    fn reads_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let error = read_lines(folder.path()).unwrap_err().to_string();
        assert!(error.ends_with("not a regular file"), "{error}");
    }

    #[test]
    fn counts_the_lines() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("texts.txt");
        std::fs::write(&file, "a\nb\n").unwrap();
        let error = read_texts(&file, (Path::new("targets.npy"), 3))
            .unwrap_err()
            .to_string();
        assert!(
            error.ends_with("texts.txt: 2 lines, but targets.npy has 3 vectors"),
            "{error}"
        );
    }

    #[test]
    fn shows_no_control_characters() {
        assert_eq!(printable("a\u{1b}[2Jb\tc", 80), "a [2Jb c");
        assert_eq!(printable("abcdef", 4), "abc…");
        assert_eq!(printable("abcd", 4), "abcd");
    }
}
