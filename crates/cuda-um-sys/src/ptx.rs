//! Reads the declarations in PTX text: version, target, kernels and the sizes of their parameters. It compiles nothing.

use crate::RuntimeVersion;
use std::fmt;

/// The declarations of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Ptx {
    /// The ISA version: `(8, 2)` for `.version 8.2`.
    pub version: (u32, u32),
    /// The compute capability, as `major * 10 + minor`: 90 for `.target sm_90`.
    pub target: u32,
    /// The kernels.
    pub entries: Vec<Entry>,
}

/// A kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Entry {
    /// The name after `.entry`.
    pub name: String,
    /// The size of each parameter in bytes.
    pub parameters: Vec<usize>,
    /// The size of the static shared memory in bytes.
    pub shared_bytes: u32,
    /// The most threads of a block, if the kernel declares a limit.
    pub max_threads: Option<u32>,
}

/// The reason for which text is not a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PtxError(String);

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not PTX: {}", self.0)
    }
}

impl std::error::Error for PtxError {}

/// The newest ISA version that a driver for this version of CUDA compiles; `None` before CUDA 11.8, and for versions of CUDA that are
/// newer than this crate.
pub fn newest_isa(driver: RuntimeVersion) -> Option<(u32, u32)> {
    Some(match (driver.major, driver.minor) {
        (11, 8) => (7, 8),
        (12, minor @ 0..=5) => (8, minor),
        (12, 6) => (8, 5),
        (12, 7) => (8, 6),
        (12, 8) => (8, 7),
        (12, 9) => (8, 8),
        // Each version since 13.0 has raised it by one.
        (13, minor @ 0..=5) => (9, minor),
        _ => return None,
    })
}

/// The most bytes of all parameters of a kernel, from PTX ISA 8.1 on (older ones allow 4352).
const MOST_PARAMETER_BYTES: usize = 32_764;

fn error<T>(text: impl Into<String>) -> Result<T, PtxError> {
    Err(PtxError(text.into()))
}

/// Reads a module's text.
///
/// # Errors
/// [`PtxError`] for text that is not PTX, or that this reader does not understand.
pub fn parse(text: &str) -> Result<Ptx, PtxError> {
    let text = without_comments(text)?;
    let version = directive(&text, ".version").and_then(|version| {
        let (major, minor) = version.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    let Some(version) = version else {
        return error("no `.version` with a number");
    };
    let target = directive(&text, ".target").and_then(|target| {
        let digits = target.split(',').next()?.trim().strip_prefix("sm_")?;
        digits.trim_end_matches(['a', 'f']).parse().ok()
    });
    let Some(target) = target else {
        return error("no `.target sm_…`");
    };
    if directive(&text, ".address_size").is_some_and(|size| size != "64") {
        return error("`.address_size` is not 64");
    }
    let mut entries = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = find_word(rest, ".entry") {
        rest = &rest[at + ".entry".len()..];
        let (entry, after) = entry(rest)?;
        entries.push(entry);
        rest = after;
    }
    Ok(Ptx {
        version,
        target,
        entries,
    })
}

/// The text without comments and without the contents of string literals.
fn without_comments(text: &str) -> Result<String, PtxError> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['/', '"']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            out.push(' ');
            rest = after(&rest[2..], "*/", "a comment does not end")?;
        } else if rest.starts_with('"') {
            out.push_str("\"\"");
            rest = after(&rest[1..], "\"", "a string does not end")?;
        } else {
            out.push('/');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    Ok(out)
}

fn after<'t>(text: &'t str, end: &str, missing: &str) -> Result<&'t str, PtxError> {
    match text.split_once(end) {
        Some((_, rest)) => Ok(rest),
        None => error(missing),
    }
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].find(word) {
        let end = from + at + word.len();
        if text[end..].starts_with(|next: char| next.is_whitespace()) {
            return Some(from + at);
        }
        from = end;
    }
    None
}

/// The rest of a directive's line.
fn directive<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let rest = &text[find_word(text, name)? + name.len()..];
    Some(rest.lines().next()?.trim())
}

/// Parses `name ( .param …, … ) directives { body }`.
fn entry(text: &str) -> Result<(Entry, &str), PtxError> {
    let text = text.trim_start();
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || "_$%".contains(c)))
        .unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return error("an entry without a name");
    }
    let Some(open) = rest.find('{') else {
        return error(format!("entry `{name}` has no body"));
    };
    let (head, body) = rest.split_at(open);
    let (list, directives) = match head.trim_start().strip_prefix('(') {
        Some(list) => match list.split_once(')') {
            Some(parts) => parts,
            None => return error(format!("the parameters of `{name}` do not end")),
        },
        None => ("", head),
    };
    let parameters = list
        .split(',')
        .map(str::trim)
        .filter(|parameter| !parameter.is_empty())
        .map(parameter)
        .collect::<Result<Vec<_>, _>>()?;
    if parameters
        .iter()
        .try_fold(0, |sum: usize, bytes| sum.checked_add(*bytes))
        .is_none_or(|sum| sum > MOST_PARAMETER_BYTES)
    {
        return error(format!(
            "the parameters of `{name}` have more than {MOST_PARAMETER_BYTES} bytes"
        ));
    }
    let Some(length) = body_length(body) else {
        return error(format!("the body of `{name}` does not end"));
    };
    let (body, after) = body.split_at(length);
    let max_threads =
        directive(directives, ".maxntid").or_else(|| directive(directives, ".reqntid"));
    let max_threads = max_threads.map(|dims| {
        dims.split(',')
            .filter_map(|dim| dim.trim().parse::<u32>().ok())
            .fold(1, u32::saturating_mul)
    });
    let Some(shared_bytes) = shared_bytes(body) else {
        return error(format!("the shared memory of `{name}` has no size"));
    };
    Ok((
        Entry {
            name: name.to_owned(),
            parameters,
            shared_bytes,
            max_threads,
        },
        after,
    ))
}

fn body_length(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Bytes of `.param .align 8 .b8 name[16]`, `.param .u64 .ptr .global .align 4 name`, and so on.
fn parameter(text: &str) -> Result<usize, PtxError> {
    variable(text).ok_or_else(|| PtxError(format!("parameter `{text}`")))
}

fn variable(text: &str) -> Option<usize> {
    let element = text.split_whitespace().find_map(type_bytes)?;
    let lanes = match text
        .split_whitespace()
        .find(|word| [".v2", ".v4"].contains(word))
    {
        Some(".v2") => 2,
        Some(_) => 4,
        None => 1,
    };
    let mut dimensions = text.split('[').skip(1);
    dimensions.try_fold(element * lanes, |bytes, dimension| {
        let count = dimension.split_once(']')?.0.trim().parse().ok()?;
        Some(bytes.saturating_mul(count))
    })
}

fn type_bytes(word: &str) -> Option<usize> {
    Some(match word {
        ".b8" | ".u8" | ".s8" | ".pred" => 1,
        ".b16" | ".u16" | ".s16" | ".f16" => 2,
        ".b32" | ".u32" | ".s32" | ".f32" | ".f16x2" => 4,
        ".b64" | ".u64" | ".s64" | ".f64" => 8,
        ".b128" => 16,
        _ => return None,
    })
}

fn shared_bytes(body: &str) -> Option<u32> {
    body.split(';')
        .filter_map(|statement| find_word(statement, ".shared").map(|at| &statement[at..]))
        .filter(|statement| statement.contains('['))
        .filter_map(variable)
        .try_fold(0, |sum: u32, bytes| {
            sum.checked_add(u32::try_from(bytes).ok()?)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: &str = r#"
        // a comment with .entry in it
        .version 6.4
        .target sm_60, debug
        .address_size 64
        /* .version 9.9 */
        .visible .entry scale(
            .param .u64 .ptr .global .align 4 scale_param_0,
            .param .f32 scale_param_1,
            .param .align 8 .b8 scale_param_2[24],
            .param .align 16 .v4 .f32 scale_param_3[2][3]
        )
        .maxntid 128, 2, 1
        {
            .shared .align 4 .b8 tile[1024];
            { ret; }
        }
        .file 1 "/src/*.cu.entry "
        .entry nothing() { ret; }
    "#;

    #[test]
    fn names_and_parameter_sizes_are_read() {
        let ptx = parse(SCALE).unwrap();
        assert_eq!((ptx.version, ptx.target), ((6, 4), 60));
        let [scale, nothing] = &ptx.entries[..] else {
            panic!("two entries")
        };
        assert_eq!(
            (scale.name.as_str(), scale.parameters.as_slice()),
            ("scale", &[8, 4, 24, 96][..])
        );
        assert_eq!((scale.shared_bytes, scale.max_threads), (1024, Some(256)));
        assert_eq!(
            (nothing.name.as_str(), nothing.parameters.len()),
            ("nothing", 0)
        );
    }

    #[test]
    fn the_newest_isa_follows_the_driver() {
        let isa = |major, minor| newest_isa(RuntimeVersion::new(major, minor));
        assert_eq!((isa(11, 8), isa(12, 4)), (Some((7, 8)), Some((8, 4))));
        assert_eq!((isa(12, 9), isa(13, 0)), (Some((8, 8)), Some((9, 0))));
        assert_eq!((isa(11, 7), isa(14, 0)), (None, None));
    }

    #[test]
    fn text_that_is_not_ptx_is_refused() {
        for text in [
            "",
            "hello",
            ".version x\n.target sm_60",
            ".version 6.4\n",
            ".version 6.4\n.target sm_60\n.entry f(.param .u64 a",
            ".version 6.4\n.target sm_60\n.file 1 \"a",
            // Sizes that no `usize` holds, or that no kernel has.
            ".version 6.4\n.target sm_60\n.entry f(.param .b64 a[18446744073709551615]) { ret; }",
            ".version 6.4\n.target sm_60\n.entry f(.param .b8 a[32765]) { ret; }",
            ".version 6.4\n.target sm_60\n.entry f() { .shared .b8 a[4294967295]; .shared .b8 b[1]; }",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }
}
