//! The header of a `.npy` file: a Python dictionary with the keys `descr`, `fortran_order` and `shape`.
//!
//! It is read in one pass from left to right, in the form that NumPy writes, with the keys in any order. This module does not
//! parse general Python: it stops at a value that no key can have.

use crate::error::Wrong;

/// The contents of a header.
#[derive(Debug, PartialEq)]
pub(super) struct Header {
    pub(super) descriptor: String,
    pub(super) fortran_order: bool,
    pub(super) shape: Vec<usize>,
}

impl Header {
    /// Reads the text between the header's length and the data.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Wrong> {
        let mut rest = Rest(text);
        let header = rest.dictionary()?;
        header.ok_or_else(|| Wrong::header(text))
    }
}

/// The rest of the text. Methods return `None` for text that no header has.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn dictionary(&mut self) -> Result<Option<Header>, Wrong> {
        let (mut descriptor, mut fortran_order, mut shape) = (None, None, None);
        if !self.takes(b'{') {
            return Ok(None);
        }
        while !self.takes(b'}') {
            let Some(key) = self.string().filter(|_| self.takes(b':')) else {
                return Ok(None);
            };
            let new = match key {
                b"descr" => match self.descriptor()? {
                    Some(value) => descriptor.replace(value).is_none(),
                    None => false,
                },
                b"fortran_order" => match self.boolean() {
                    Some(value) => fortran_order.replace(value).is_none(),
                    None => false,
                },
                b"shape" => match self.tuple() {
                    Some(value) => shape.replace(value).is_none(),
                    None => false,
                },
                _ => false,
            };
            let ends = self.takes(b',') || self.peek() == Some(b'}');
            if !new || !ends {
                return Ok(None);
            }
        }
        let header = || {
            Some(Header {
                descriptor: descriptor?,
                fortran_order: fortran_order?,
                shape: shape?,
            })
        };
        Ok(match self.peek() {
            None => header(),
            Some(_) => None,
        })
    }

    /// The type of the elements; a structured type is a separate error.
    fn descriptor(&mut self) -> Result<Option<String>, Wrong> {
        if matches!(self.peek(), Some(b'[' | b'(' | b'{')) {
            return Err(Wrong::Type {
                descriptor: Wrong::excerpt(self.0),
                needed: "a plain type",
            });
        }
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(self.string().map(text))
    }

    /// A string without escapes, in either kind of quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'))?;
        let inside = &self.0[1..];
        let end = inside
            .iter()
            .position(|&byte| byte == quote || byte == b'\\' || byte == b'\n')?;
        self.0 = &inside[end + 1..];
        (inside[end] == quote).then_some(&inside[..end])
    }

    fn boolean(&mut self) -> Option<bool> {
        match self.word() {
            b"True" => Some(true),
            b"False" => Some(false),
            _ => None,
        }
    }

    /// A tuple of extents: `()`, `(3,)`, `(3, 4)`.
    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut extents = Vec::new();
        let mut comma = true;
        self.takes(b'(').then_some(())?;
        while !self.takes(b')') {
            comma.then_some(())?;
            extents.push(self.extent()?);
            comma = self.takes(b',');
        }
        // `(3)` is a number in parentheses.
        (extents.len() != 1 || comma).then_some(extents)
    }

    /// A whole number. Python 2 writes an `L` after long ones.
    fn extent(&mut self) -> Option<usize> {
        let word = self.word();
        let digits = word.strip_suffix(b"L").unwrap_or(word);
        let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        are_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok())?
    }

    /// Letters and digits.
    fn word(&mut self) -> &'a [u8] {
        self.peek();
        let end = self
            .0
            .iter()
            .position(|byte| !byte.is_ascii_alphanumeric())
            .unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// Reads this byte if it is the next one, and returns true.
    fn takes(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        self.0 = self.0.trim_ascii_start();
        self.0.first().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Header;
    use crate::error::Wrong;

    fn parse(text: &str) -> Option<(String, bool, Vec<usize>)> {
        let header = Header::parse(text.as_bytes()).ok()?;
        Some((header.descriptor, header.fortran_order, header.shape))
    }

    #[test]
    fn what_numpy_writes_is_read() {
        let same = Some(("<f4".to_owned(), false, vec![3, 4]));
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 4L), }\n",
            // Headers from other writers.
            "{\"shape\":(3,4),\"fortran_order\":False,\"descr\":\"<f4\"}",
            "  { 'shape' : ( 3 , 4 , ) ,\n 'descr' :'<f4','fortran_order': False }\t",
        ] {
            assert_eq!(parse(text), same, "{text}");
        }
        let with = |descriptor: &str, order: &str, shape: &str| {
            parse(&format!(
                "{{'descr': '{descriptor}', 'fortran_order': {order}, 'shape': {shape}, }}"
            ))
        };
        assert_eq!(
            with("<M8[ns]", "True", "()"),
            Some(("<M8[ns]".to_owned(), true, vec![]))
        );
        assert_eq!(
            with("|b1", "False", "(18446744073709551615,)"),
            Some(("|b1".to_owned(), false, vec![usize::MAX]))
        );
    }

    #[test]
    fn what_is_no_header_is_quoted() {
        for text in [
            "",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (0x1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (L,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': [1]}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': Falsely, 'shape': (1,)}",
            "{'descr': 4, 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '\\x3cf4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': ()}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        ] {
            let wrong = Header::parse(text.as_bytes()).unwrap_err();
            let start: String = text.chars().take(60).collect();
            assert!(
                matches!(&wrong, Wrong::Header { excerpt } if *excerpt == start.trim_end()),
                "{text}: {wrong}"
            );
        }
    }

    #[test]
    fn a_type_of_several_parts_is_named() {
        let text = "{'descr': [('a', '<f4'), ('b', '>i2')], 'fortran_order': False, 'shape': (1,)}";
        let wrong = Header::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(
            wrong.starts_with("type '[('a', '<f4'), ('b', '>i2')]"),
            "{wrong}"
        );
    }

    /// 195 bytes of it took a minute, and 300 never ended: a general parser of Python literals tried each level several times.
    #[test]
    fn nested_literals_are_refused_at_the_first() {
        for open in ["(')',", "[']',", "{'}':", "(", "((1,),"] {
            let text = format!("{{'shape': {}", open.repeat(1_900));
            let wrong = Header::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(wrong, Wrong::Header { .. }), "{wrong}");
        }
    }
}
