//! Tokens to a [`Tree`], by recursive descent with a bounded depth.

mod functions;
mod operands;

use super::lexer::{Kind, Lexer, Token};
use super::{Space, Text, Tree, Type, Variable};
use crate::error::ParseError;

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a module.
pub fn parse(text: &str) -> Result<Tree> {
    if u32::try_from(text.len()).is_err() {
        return Err(ParseError {
            line: 1,
            found: "a text of more than 4 GiB".into(),
            expected: "a module",
        });
    }
    let mut lexer = Lexer::new(text);
    let token = lexer.next();
    let mut parser = Parser {
        text,
        next: lexer.next(),
        lexer,
        token,
        source: (0, 0),
    };
    parser.module()
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    token: Token,
    next: Token,
    source: (u32, u32),
}

impl<'a> Parser<'a> {
    fn advance(&mut self) -> Token {
        let token = self.token;
        self.token = self.next;
        self.next = self.lexer.next();
        token
    }

    fn word(&self) -> &'a str {
        self.token.text.of(self.text)
    }

    fn error<T>(&self, expected: &'static str) -> Result<T> {
        let found = match self.token.kind {
            Kind::End => "the end of the text".into(),
            _ => format!("`{}`", self.word().chars().take(64).collect::<String>()),
        };
        Err(ParseError {
            line: self.token.line,
            found,
            expected,
        })
    }

    fn at(&self, sign: u8) -> bool {
        self.token.kind == Kind::Sign(sign)
    }

    fn take(&mut self, sign: u8) -> bool {
        let here = self.at(sign);
        if here {
            self.advance();
        }
        here
    }

    fn expect(&mut self, sign: u8, expected: &'static str) -> Result<()> {
        if self.take(sign) {
            Ok(())
        } else {
            self.error(expected)
        }
    }

    fn dot(&mut self, name: &str) -> bool {
        let here = self.token.kind == Kind::Dot && self.word() == name;
        if here {
            self.advance();
        }
        here
    }

    fn name(&mut self, expected: &'static str) -> Result<Text> {
        if self.token.kind == Kind::Word {
            Ok(self.advance().text)
        } else {
            self.error(expected)
        }
    }

    fn integer(&mut self, expected: &'static str) -> Result<u64> {
        let negative = self.take(b'-');
        let Kind::Integer(value) = self.token.kind else {
            return self.error(expected);
        };
        self.advance();
        Ok(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }

    fn small(&mut self, expected: &'static str) -> Result<u32> {
        match self.token.kind {
            Kind::Integer(value) if u32::try_from(value).is_ok() => {
                self.advance();
                Ok(value as u32)
            }
            _ => self.error(expected),
        }
    }

    fn separated<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.take(b',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// 11.1 PTX Module Directives and what may follow them.
    fn module(&mut self) -> Result<Tree> {
        let mut tree = Tree::default();
        if !self.dot(".version") {
            return self.error("`.version` at the beginning of the module");
        }
        // `6.4` is one token, a number with a fraction.
        let (major, minor) = self.word().split_once('.').unwrap_or((self.word(), "0"));
        match (major.parse(), minor.parse()) {
            (Ok(major), Ok(minor)) => tree.version = (major, minor),
            _ => return self.error("a version such as 6.4"),
        }
        self.advance();
        if !self.dot(".target") {
            return self.error("`.target`");
        }
        tree.targets = self.separated(|parser| parser.name("a target such as sm_60"))?;
        while self.token.kind != Kind::End {
            if self.token.kind != Kind::Dot {
                return self.error("a directive such as `.entry` or `.global`");
            }
            match self.word() {
                ".address_size" => {
                    self.advance();
                    if self.token.kind != Kind::Integer(64) {
                        return self.error("64: the only size of addresses that devices have");
                    }
                    self.advance();
                }
                ".file" => {
                    self.advance();
                    let number = self.small("a file's number")?;
                    if self.token.kind != Kind::Quoted {
                        return self.error("a file's name in quotes");
                    }
                    let mut text = self.advance().text;
                    (text.start, text.end) = (text.start + 1, text.end - 1);
                    tree.files.push((number, text));
                    while self.take(b',') {
                        self.integer("time or size of the file")?;
                    }
                }
                ".section" => self.section()?,
                ".pragma" | ".alias" => self.skip_behind(b';', "`;`")?,
                ".loc" => self.location()?,
                _ => self.definition(&mut tree)?,
            }
        }
        Ok(tree)
    }

    /// Goes on behind the next token that is this character.
    fn skip_behind(&mut self, end: u8, expected: &'static str) -> Result<()> {
        while !self.take(end) {
            if self.token.kind == Kind::End {
                return self.error(expected);
            }
            self.advance();
        }
        Ok(())
    }

    /// DWARF data, which nothing reads.
    fn section(&mut self) -> Result<()> {
        self.skip_behind(b'{', "`{`")?;
        self.skip_behind(b'}', "`}`")
    }

    /// 11.5.3 `.loc file line column[, function_name label, inlined_at file line column]`.
    fn location(&mut self) -> Result<()> {
        self.advance();
        let file = self.small("a file's number")?;
        let line = self.small("a line")?;
        self.small("a column")?;
        self.source = (file, line);
        while self.take(b',') {
            match self.word() {
                "function_name" => {
                    self.advance();
                    self.name("a label")?;
                    if self.take(b'+') {
                        self.small("an offset")?;
                    }
                }
                "inlined_at" => {
                    self.advance();
                    for _ in 0..3 {
                        self.small("file, line and column")?;
                    }
                }
                _ => return self.error("`function_name` or `inlined_at`"),
            }
        }
        Ok(())
    }

    /// A function or variable with its linkage (11.6).
    fn definition(&mut self, tree: &mut Tree) -> Result<()> {
        loop {
            match self.word() {
                ".extern" | ".visible" | ".weak" | ".common" => {}
                ".func" | ".entry" => {
                    let function = self.function()?;
                    tree.functions.push(function);
                    return Ok(());
                }
                _ => {
                    let Some(space) = Space::named(self.word().trim_start_matches('.')) else {
                        return self.error("a directive of a module");
                    };
                    self.advance();
                    tree.variables
                        .extend(self.separated(|parser| parser.variable(space))?);
                    return self.expect(b';', "`;`");
                }
            }
            self.advance();
        }
    }

    /// 5.4 Variables, after the state space: `[.align n] [.v4] .type name[n] [= initial]`.
    fn variable(&mut self, space: Space) -> Result<Variable> {
        let (mut align, mut vector, mut kind) = (None, 1u64, None);
        let line = self.token.line;
        while self.token.kind == Kind::Dot {
            match self.word() {
                ".align" => {
                    self.advance();
                    let value = self.small("an alignment")?;
                    // Of a pointer's target, if `.ptr` came before: kind is known then.
                    if kind.is_none() {
                        align = Some(u64::from(value));
                    }
                    continue;
                }
                ".attribute" => {
                    self.advance();
                    self.skip_behind(b')', "`)`")?;
                    continue;
                }
                ".v2" => vector = 2,
                ".v4" => vector = 4,
                ".v8" => vector = 8,
                ".ptr" | ".global" | ".const" | ".shared" | ".local" if kind.is_some() => {}
                name => match Type::named(&name[1..]) {
                    Some(named) => kind = Some(named),
                    None => return self.error("a type"),
                },
            }
            self.advance();
        }
        let Some(kind) = kind else {
            return self.error("a type");
        };
        let name = self.name("a name")?;
        let (mut dimensions, mut unsized_array) = (Vec::new(), false);
        while self.take(b'[') {
            if self.take(b']') {
                unsized_array = true;
                dimensions.push(0);
                continue;
            }
            dimensions.push(self.integer("a number of elements")?);
            self.expect(b']', "`]`")?;
            if dimensions.len() > 8 {
                return self.error("at most 8 dimensions");
            }
        }
        let mut initial = Vec::new();
        if self.take(b'=') {
            // Elements of one element of each dimension: where a shorter inner list ends.
            let inner = dimensions.iter().skip(1).rev();
            let mut strides: Vec<u64> = (inner.scan(vector, |all, n: &u64| {
                *all = all.saturating_mul(*n);
                Some(*all)
            }))
            .collect();
            strides.reverse();
            if vector > 1 {
                strides.push(vector);
            }
            self.initial(&mut initial, &strides)?;
        }
        if unsized_array && !initial.is_empty() && dimensions.len() == 1 {
            unsized_array = false;
            dimensions[0] = initial.len() as u64 / vector;
        }
        let mut sizes = dimensions.iter();
        let elements = sizes.try_fold(vector, |all, n| all.checked_mul(*n));
        let fits = |n: &u64| {
            n.checked_mul(kind.bytes())
                .is_some_and(|bytes| bytes < 1 << 40)
        };
        let Some(elements) = elements.filter(fits) else {
            return self.error("a variable of less than 1 TiB");
        };
        let align = align.unwrap_or(kind.bytes() * vector);
        if !align.is_power_of_two() || align > 1 << 20 {
            return self.error("an alignment that is a power of two");
        }
        if initial.len() as u64 > elements {
            return self.error("an initialiser that is no longer than its variable");
        }
        Ok(Variable {
            name,
            space,
            register: false,
            align,
            kind,
            elements,
            unsized_array,
            initial,
            line,
        })
    }
}
