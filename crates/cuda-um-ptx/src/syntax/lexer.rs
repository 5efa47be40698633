//! Text to tokens. The lexer never fails: what it does not know is a token of its own, which no rule of the parser takes.

/// A piece of the module's text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Text {
    pub start: u32,
    pub end: u32,
}

impl Text {
    pub fn of(self, text: &str) -> &str {
        &text[self.start as usize..self.end as usize]
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// A name or the first part of an opcode.
    Word,
    /// A dot and a name: a directive, a modifier, or a component of a vector.
    Dot,
    Integer(u64),
    F32(u32),
    F64(u64),
    Quoted,
    Sign(u8),
    Unknown,
    End,
}

#[derive(Clone, Copy, Debug)]
pub struct Token {
    pub kind: Kind,
    pub text: Text,
    pub line: u32,
}

pub struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            line: 1,
        }
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn skip_while(&mut self, test: impl Fn(u8) -> bool) {
        while self.at < self.bytes.len() && test(self.bytes[self.at]) {
            self.line += u32::from(self.bytes[self.at] == b'\n');
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        loop {
            self.skip_while(|byte| byte.is_ascii_whitespace() || byte == 0);
            match (self.byte(0), self.byte(1)) {
                (b'/', b'/') => self.skip_while(|byte| byte != b'\n'),
                (b'/', b'*') => {
                    let rest = &self.bytes[self.at..];
                    let end = rest
                        .windows(2)
                        .skip(2)
                        .position(|pair| pair == b"*/")
                        .map_or(rest.len(), |at| at + 4);
                    self.line += rest[..end].iter().filter(|&&byte| byte == b'\n').count() as u32;
                    self.at += end;
                }
                _ => return,
            }
        }
    }

    pub fn next(&mut self) -> Token {
        self.skip_blanks();
        let (start, line) = (self.at, self.line);
        let kind = match self.byte(0) {
            _ if start >= self.bytes.len() => Kind::End,
            b'0'..=b'9' => self.number(),
            b'.' if is_word(self.byte(1)) => {
                self.at += 1;
                self.name();
                // `.shared::cta`, `.L2::128B`: one modifier.
                while self.byte(0) == b':' && self.byte(1) == b':' && is_word(self.byte(2)) {
                    self.at += 2;
                    self.name();
                }
                Kind::Dot
            }
            b'"' => {
                self.at += 1;
                self.skip_while(|byte| byte != b'"' && byte != b'\n');
                let closed = self.byte(0) == b'"';
                self.at += usize::from(closed);
                if closed { Kind::Quoted } else { Kind::Unknown }
            }
            b'%' if is_word(self.byte(1)) => {
                self.at += 1;
                self.name();
                Kind::Word
            }
            byte if is_word(byte) => {
                self.name();
                Kind::Word
            }
            byte if byte.is_ascii_punctuation() => {
                self.at += 1;
                Kind::Sign(byte)
            }
            _ => {
                self.at += 1;
                Kind::Unknown
            }
        };
        Token {
            kind,
            text: Text {
                start: start as u32,
                end: self.at as u32,
            },
            line,
        }
    }

    fn name(&mut self) {
        self.skip_while(is_word);
    }

    /// 4.5.1 Integer Constants, 4.5.2 Floating-Point Constants.
    fn number(&mut self) -> Kind {
        let start = self.at;
        self.skip_while(|byte| byte.is_ascii_alphanumeric());
        if self.byte(0) == b'.'
            && self.byte(1).is_ascii_digit()
            && self.bytes[start..self.at].iter().all(u8::is_ascii_digit)
        {
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_alphanumeric());
        }
        if matches!(self.bytes[self.at - 1], b'e' | b'E')
            && matches!(self.byte(0), b'+' | b'-')
            && self.byte(1).is_ascii_digit()
        {
            let written = &self.bytes[start..self.at - 1];
            if written
                .iter()
                .all(|byte| byte.is_ascii_digit() || *byte == b'.')
            {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
            }
        }
        let written = &self.text[start..self.at];
        let hex = |digits: &str, wanted: usize| {
            (digits.len() == wanted && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
                .then(|| u64::from_str_radix(digits, 16).ok())
                .flatten()
        };
        if let Some(digits) = written.strip_prefix("0f").or(written.strip_prefix("0F"))
            && let Some(bits) = hex(digits, 8)
        {
            return Kind::F32(bits as u32);
        }
        if let Some(digits) = written.strip_prefix("0d").or(written.strip_prefix("0D"))
            && let Some(bits) = hex(digits, 16)
        {
            return Kind::F64(bits);
        }
        let digits = written
            .strip_suffix('U')
            .or(written.strip_suffix('u'))
            .unwrap_or(written);
        let integer = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => u64::from_str_radix(&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => u64::from_str_radix(&digits[2..], 2),
            [b'0', _, ..] if !digits.contains('.') => u64::from_str_radix(&digits[1..], 8),
            _ => digits.parse::<u64>(),
        };
        match integer {
            Ok(value) => Kind::Integer(value),
            Err(_)
                if written
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte)) =>
            {
                written
                    .parse::<f64>()
                    .map_or(Kind::Unknown, |value| Kind::F64(value.to_bits()))
            }
            Err(_) => Kind::Unknown,
        }
    }
}
