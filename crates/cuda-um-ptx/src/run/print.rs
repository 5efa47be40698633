//! `printf` and `assert` of kernels: the driver's functions `vprintf` and `__assertfail`.

use super::At;
use super::exec::Stop;
use crate::syntax::Space;

/// More than CUDA's buffer holds.
const LONGEST: usize = 1 << 16;

impl At<'_, '_> {
    /// A number in a lane's local memory.
    pub fn local(&self, lane: usize, at: u32, bytes: usize) -> u64 {
        let at = lane * self.worker.grid.program.local_bytes + at as usize;
        let mut value = [0; 8];
        value[..bytes].copy_from_slice(&self.warp.local[at..at + bytes]);
        u64::from_le_bytes(value)
    }

    fn byte(&mut self, lane: usize, address: u64) -> Result<u8, Stop> {
        let pointer = self.locate_one(Space::Generic, lane, address, 1, false)?;
        #[expect(unsafe_code, reason = "the memory of kernels is the caller's")]
        // SAFETY: `locate_one` found a readable byte there.
        Ok(pointer.map_or(0, |pointer| unsafe { pointer.read() }))
    }

    fn text(&mut self, lane: usize, address: u64) -> Result<String, Stop> {
        let mut bytes = Vec::new();
        while bytes.len() < LONGEST {
            match self.byte(lane, address.wrapping_add(bytes.len() as u64))? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn assertion(&mut self, lane: usize, arguments: &[u32]) -> Result<String, Stop> {
        let [message, file] = [0, 1].map(|index| self.local(lane, arguments[index], 8));
        let line = self.local(lane, arguments[2], 4);
        let (message, file) = (self.text(lane, message)?, self.text(lane, file)?);
        Ok(format!("the assertion `{message}` failed at {file}:{line}"))
    }

    /// Prints for one lane. Arguments are in a buffer, each aligned to its size. The number of arguments.
    pub fn print(&mut self, lane: usize, arguments: &[u32]) -> Result<u32, Stop> {
        let [format, mut next] = [0, 1].map(|index| self.local(lane, arguments[index], 8));
        let format = self.text(lane, format)?;
        let (mut text, mut count, mut rest) = (String::new(), 0, format.as_str());
        while let Some(at) = rest.find('%') {
            text.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let end = rest.find(|letter: char| {
                letter.is_ascii_alphabetic() && !"hlLjzt".contains(letter) || letter == '%'
            });
            let Some(end) = end else { break };
            let (directive, letter) = (&rest[..end], rest.as_bytes()[end]);
            rest = &rest[end + 1..];
            if letter == b'%' {
                text.push('%');
                continue;
            }
            let flags = directive.trim_end_matches(['h', 'l', 'L', 'j', 'z', 't']);
            let wide = directive.len() - flags.len() > usize::from(directive.contains('h'))
                && directive.contains(['l', 'j', 'z', 't']);
            let size = if wide || b"fFeEgGaAsp".contains(&letter) {
                8
            } else {
                4
            };
            next = next.next_multiple_of(size);
            let mut value = [0; 8];
            for byte in 0..size {
                value[byte as usize] = self.byte(lane, next + byte)?;
            }
            (next, count) = (next + size, count + 1);
            let string = if letter == b's' {
                self.text(lane, u64::from_le_bytes(value))?
            } else {
                String::new()
            };
            text.push_str(&formatted(
                flags,
                letter,
                u64::from_le_bytes(value),
                size,
                &string,
            ));
        }
        text.push_str(rest);
        self.worker.grid.memory.print(&text);
        Ok(count)
    }
}

/// One directive of `printf`.
fn formatted(directive: &str, letter: u8, value: u64, size: u64, string: &str) -> String {
    let flags: String = directive
        .chars()
        .take_while(|flag| "-+ #0".contains(*flag))
        .collect();
    let (width, precision) = directive[flags.len()..]
        .split_once('.')
        .map_or((&directive[flags.len()..], None), |(width, digits)| {
            (width, Some(digits))
        });
    let width = width.parse::<usize>().unwrap_or(0).min(LONGEST);
    let precision = precision.map(|digits| digits.parse::<usize>().unwrap_or(0).min(LONGEST));
    let float = f64::from_bits(value);
    let signed = if size == 4 {
        i64::from(value as i32)
    } else {
        value as i64
    };
    let mut body = match letter {
        b'd' | b'i' => signed.to_string(),
        b'u' => value.to_string(),
        b'x' | b'X' if flags.contains('#') && value != 0 => format!("{value:#x}"),
        b'x' | b'X' => format!("{value:x}"),
        b'o' => format!("{value:o}"),
        b'p' => format!("{value:#x}"),
        b'c' => char::from(value as u8).to_string(),
        b's' => string.chars().take(precision.unwrap_or(LONGEST)).collect(),
        b'e' | b'E' => exponent(float, precision.unwrap_or(6)),
        b'g' | b'G' => general(float, precision.unwrap_or(6).max(1)),
        _ => format!("{float:.*}", precision.unwrap_or(6)),
    };
    if b"EGFX".contains(&letter) {
        body.make_ascii_uppercase();
    }
    let number = b"dieEfFgG".contains(&letter);
    if number && !body.starts_with('-') && flags.contains(['+', ' ']) {
        body.insert(0, if flags.contains('+') { '+' } else { ' ' });
    }
    let missing = width.saturating_sub(body.chars().count());
    if flags.contains('-') {
        body.extend(std::iter::repeat_n(' ', missing));
    } else if flags.contains('0') && !b"sc".contains(&letter) {
        let at = usize::from(body.starts_with(['-', '+', ' ']));
        body.insert_str(at, &"0".repeat(missing));
    } else {
        body.insert_str(0, &" ".repeat(missing));
    }
    body
}

/// C writes at least two digits of an exponent, and its sign.
fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let Some((digits, power)) = text.split_once('e') else {
        return text;
    };
    let (sign, power) = power
        .strip_prefix('-')
        .map_or(('+', power), |power| ('-', power));
    format!("{digits}e{sign}{power:0>2}")
}

/// `%g`: as many digits as asked for, without zeros at the end.
fn general(value: f64, precision: usize) -> String {
    let text = exponent(value, precision - 1);
    let Some((digits, power)) = text.split_once('e') else {
        return text;
    };
    let power: i32 = power.parse().unwrap_or(0);
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if power < -4 || power >= precision as i32 {
        return format!("{}{}", trim(digits), &text[digits.len()..]);
    }
    trim(&format!(
        "{value:.*}",
        (precision as i32 - 1 - power).max(0) as usize
    ))
}

#[cfg(test)]
mod tests {
    use super::formatted;

    #[test]
    fn printf_writes_as_c_does() {
        let float = |value: f64| value.to_bits();
        let cases = [
            (formatted("", b'd', 0xffff_fffe, 4, ""), "-2"),
            (formatted("5", b'u', 42, 4, ""), "   42"),
            (formatted("-5", b'd', 42, 4, ""), "42   "),
            (formatted("05", b'd', u64::MAX, 8, ""), "-0001"),
            (formatted("+", b'd', 7, 4, ""), "+7"),
            (formatted("#", b'x', 255, 4, ""), "0xff"),
            (formatted(".2", b'f', float(1.255), 8, ""), "1.25"),
            (formatted("", b'f', float(-0.5), 8, ""), "-0.500000"),
            (formatted("", b'e', float(12345.678), 8, ""), "1.234568e+04"),
            (formatted("", b'g', float(0.0001), 8, ""), "0.0001"),
            (formatted("", b'g', float(1e-5), 8, ""), "1e-05"),
            (formatted("", b'g', float(1234567.0), 8, ""), "1.23457e+06"),
            (formatted("6.3", b's', 0, 8, "abcdef"), "   abc"),
        ];
        for (written, wanted) in cases {
            assert_eq!(written, wanted);
        }
    }
}
