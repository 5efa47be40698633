//! Tokens to a [`Tree`], by recursive descent with a bounded depth.

use super::lexer::{Kind, Lexer, Token};
use super::{Function, Instruction, Operand, Space, Statement, Text, Tree, Type, Value, Variable};
use crate::error::ParseError;

type Result<T> = std::result::Result<T, ParseError>;

/// Braces within braces: vectors of operands, initialisers of arrays, blocks.
const DEPTH: u32 = 64;

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
                    let text = self.advance().text;
                    tree.files.push((
                        number,
                        Text {
                            start: text.start + 1,
                            end: text.end - 1,
                        },
                    ));
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
                    loop {
                        let variable = self.variable(space)?;
                        tree.variables.push(variable);
                        if !self.take(b',') {
                            return self.expect(b';', "`;`");
                        }
                    }
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
            let mut strides: Vec<u64> = dimensions
                .iter()
                .skip(1)
                .rev()
                .scan(vector, |all, n: &u64| {
                    *all = all.saturating_mul(*n);
                    Some(*all)
                })
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
        let elements = dimensions
            .iter()
            .try_fold(vector, |all, n| all.checked_mul(*n));
        let Some(elements) = elements.filter(|n| {
            n.checked_mul(kind.bytes())
                .is_some_and(|bytes| bytes < 1 << 40)
        }) else {
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

    fn initial(&mut self, values: &mut Vec<Value>, strides: &[u64]) -> Result<()> {
        if !self.take(b'{') {
            values.push(self.value(0)?);
            return Ok(());
        }
        while !self.take(b'}') {
            if self.at(b'{') {
                let Some((stride, inner)) = strides.split_first() else {
                    return self.error("a value");
                };
                let begin = values.len();
                self.initial(values, inner)?;
                if *stride > 1 << 20 {
                    return self.error("an initialiser of less than a million elements");
                }
                values.resize(
                    values.len().max(begin + *stride as usize),
                    Value::Integer(0),
                );
            } else {
                values.push(self.value(0)?);
            }
            if !self.take(b',') && !self.at(b'}') {
                return self.error("`,` or `}`");
            }
        }
        Ok(())
    }

    fn value(&mut self, depth: u32) -> Result<Value> {
        if self.next.kind == Kind::Sign(b'(')
            && depth < 2
            && (self.word() == "generic" || matches!(self.token.kind, Kind::Integer(_)))
        {
            // `generic(name)`, or a byte of an address: `0xFF00(generic(name))`.
            let shift = match self.advance().kind {
                Kind::Integer(mask) => mask.trailing_zeros() & 56,
                _ => 0,
            };
            self.advance();
            let value = self.value(depth + 1)?;
            self.expect(b')', "`)`")?;
            let more = self.offset()?;
            return match value {
                Value::Address {
                    name,
                    offset,
                    shift: inner,
                } => {
                    let offset = offset.wrapping_add(more);
                    Ok(Value::Address {
                        name,
                        offset,
                        shift: shift | inner,
                    })
                }
                _ => self.error("the name of a variable"),
            };
        }
        if self.token.kind == Kind::Word {
            let name = self.advance().text;
            return Ok(Value::Address {
                name,
                offset: self.offset()?,
                shift: 0,
            });
        }
        Ok(match self.number()? {
            Operand::Integer(value) => Value::Integer(value),
            Operand::F32(bits) => Value::F32(bits),
            Operand::F64(bits) => Value::F64(bits),
            _ => return self.error("a number or the name of a variable"),
        })
    }

    /// `+4`, `-4`, `+-4`, or nothing.
    fn offset(&mut self) -> Result<i64> {
        let mut sum = 0i64;
        while self.at(b'+') || self.at(b'-') {
            let negative = self.advance().kind == Kind::Sign(b'-');
            let value = self.integer("an offset")? as i64;
            sum = if negative {
                sum.wrapping_sub(value)
            } else {
                sum.wrapping_add(value)
            };
        }
        Ok(sum)
    }

    /// 11.2 Kernel and function definitions.
    fn function(&mut self) -> Result<Function> {
        let line = self.token.line;
        let entry = self.advance().text.of(self.text) == ".entry";
        while self.token.kind == Kind::Dot {
            self.skip_attribute()?;
        }
        let results = self.parameters()?;
        let name = self.name("the name of a function")?;
        let parameters = self.parameters()?;
        let mut function = Function {
            name,
            entry,
            line,
            results,
            parameters,
            body: None,
            max_threads: None,
            required_threads: None,
            cluster: None,
        };
        loop {
            match (self.token.kind, self.word()) {
                (Kind::Sign(b';'), _) => {
                    self.advance();
                    return Ok(function);
                }
                (Kind::Sign(b'{'), _) => {
                    self.source = (0, 0);
                    function.body = Some(self.body()?);
                    return Ok(function);
                }
                (Kind::Dot, ".maxntid") => function.max_threads = Some(self.three()?),
                (Kind::Dot, ".reqntid") => function.required_threads = Some(self.three()?),
                (Kind::Dot, ".reqnctapercluster") => function.cluster = Some(self.three()?),
                (Kind::Dot, _) => self.skip_attribute()?,
                _ => return self.error("`{`, `;` or a directive of a function"),
            }
        }
    }

    /// A directive of a function that changes no result, with its values.
    fn skip_attribute(&mut self) -> Result<()> {
        self.advance();
        if self.at(b'(') {
            return self.skip_behind(b')', "`)`");
        }
        while matches!(self.token.kind, Kind::Integer(_) | Kind::Quoted) {
            self.advance();
            // `.pragma "text";` has a semicolon of its own; a declaration ends with one that follows a number or a name.
            if self.at(b';')
                && (self.next.kind == Kind::Sign(b'{')
                    || self.next.kind == Kind::Dot && self.next.text.of(self.text) == ".pragma")
            {
                self.advance();
            }
            if !self.take(b',') {
                break;
            }
        }
        Ok(())
    }

    fn three(&mut self) -> Result<[u32; 3]> {
        self.advance();
        let mut three = [1; 3];
        for (index, value) in three.iter_mut().enumerate() {
            if index > 0 && !self.take(b',') {
                break;
            }
            *value = self.small("a number of threads")?;
        }
        Ok(three)
    }

    fn parameters(&mut self) -> Result<Vec<Variable>> {
        let mut parameters = Vec::new();
        let there = self.take(b'(');
        while there && !self.take(b')') {
            let register = self.dot(".reg");
            if !register && !self.dot(".param") {
                return self.error("`.param`");
            }
            let variable = self.variable(Space::Param)?;
            parameters.push(Variable {
                register,
                ..variable
            });
            if !self.take(b',') && !self.at(b')') {
                return self.error("`,` or `)`");
            }
        }
        Ok(parameters)
    }

    fn body(&mut self) -> Result<Vec<Statement>> {
        self.advance();
        let (mut statements, mut depth) = (Vec::new(), 1);
        loop {
            match self.token.kind {
                Kind::Sign(b'{') => {
                    self.advance();
                    depth += 1;
                    if depth > DEPTH {
                        return self.error("less than 64 blocks within each other");
                    }
                    statements.push(Statement::Open);
                }
                Kind::Sign(b'}') => {
                    self.advance();
                    depth -= 1;
                    if depth == 0 {
                        return Ok(statements);
                    }
                    statements.push(Statement::Close);
                }
                Kind::Sign(b';') => {
                    self.advance();
                }
                Kind::Dot => self.local_directive(&mut statements)?,
                Kind::Word if self.next.kind == Kind::Sign(b':') => {
                    let label = self.advance().text;
                    self.advance();
                    self.label(label, &mut statements)?;
                }
                Kind::Word | Kind::Sign(b'@') => {
                    let instruction = self.instruction()?;
                    statements.push(Statement::Instruction(instruction));
                }
                _ => return self.error("an instruction, a label, a directive or `}`"),
            }
        }
    }

    fn label(&mut self, label: Text, statements: &mut Vec<Statement>) -> Result<()> {
        if self.dot(".branchtargets") || self.dot(".calltargets") {
            let names = self.separated(|parser| parser.name("a label"))?;
            self.expect(b';', "`;`")?;
            statements.push(Statement::Targets { label, names });
        } else if self.dot(".callprototype") {
            self.skip_behind(b';', "`;`")?;
        } else {
            statements.push(Statement::Label(label));
        }
        Ok(())
    }

    fn local_directive(&mut self, statements: &mut Vec<Statement>) -> Result<()> {
        match self.word() {
            ".loc" => return self.location(),
            ".pragma" => return self.skip_behind(b';', "`;`"),
            ".section" => return self.section(),
            ".reg" => {
                let line = self.advance().line;
                let (mut vector, mut kind) = (1, None);
                while self.token.kind == Kind::Dot {
                    match self.word() {
                        ".v2" => vector = 2,
                        ".v4" => vector = 4,
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
                loop {
                    let name = self.name("a register")?;
                    let mut count = None;
                    if self.take(b'<') {
                        count = Some(self.small("a number of registers")?);
                        self.expect(b'>', "`>`")?;
                    }
                    statements.push(Statement::Registers {
                        kind,
                        vector,
                        name,
                        count,
                        line,
                    });
                    if !self.take(b',') {
                        return self.expect(b';', "`;`");
                    }
                }
            }
            _ => {}
        }
        while self.dot(".extern") || self.dot(".visible") || self.dot(".weak") {}
        let Some(space) = Space::named(self.word().trim_start_matches('.')) else {
            return self.error("a directive of a function's body");
        };
        self.advance();
        loop {
            let variable = self.variable(space)?;
            statements.push(Statement::Variable(variable));
            if !self.take(b',') {
                return self.expect(b';', "`;`");
            }
        }
    }

    fn instruction(&mut self) -> Result<Instruction> {
        let line = self.token.line;
        let mut guard = None;
        if self.take(b'@') {
            let negated = self.take(b'!');
            guard = Some((self.name("a predicate")?, negated));
        }
        let mut opcode = self.name("an opcode")?;
        while self.token.kind == Kind::Dot {
            opcode.end = self.advance().text.end;
        }
        let operands = if self.at(b';') {
            Vec::new()
        } else {
            self.separated(|parser| parser.operand(0))?
        };
        self.expect(b';', "`;` or an operand")?;
        Ok(Instruction {
            line,
            source: self.source,
            guard,
            opcode,
            operands,
        })
    }

    /// 6.4 Operands.
    fn operand(&mut self, depth: u32) -> Result<Operand> {
        if depth > 4 {
            return self.error("fewer braces");
        }
        match self.token.kind {
            Kind::Sign(b'[') => {
                self.advance();
                let base = if self.token.kind == Kind::Word {
                    Some(self.component()?)
                } else {
                    None
                };
                let mut offset = if base.is_none() {
                    self.integer("a register, a name or an address")? as i64
                } else {
                    0
                };
                offset = offset.wrapping_add(self.offset()?);
                let more = if self.take(b',') {
                    self.separated(|parser| parser.operand(depth + 1))?
                } else {
                    Vec::new()
                };
                self.expect(b']', "`]`")?;
                Ok(Operand::Address { base, offset, more })
            }
            Kind::Sign(open @ (b'{' | b'(')) => {
                self.advance();
                let close = if open == b'{' { b'}' } else { b')' };
                let mut items = Vec::new();
                if !self.at(close) {
                    items = self.separated(|parser| parser.operand(depth + 1))?;
                }
                self.expect(close, "`,` or the end of the list")?;
                Ok(if open == b'{' {
                    Operand::Vector(items)
                } else {
                    Operand::List(items)
                })
            }
            Kind::Sign(b'!') => {
                self.advance();
                Ok(Operand::Not(self.name("a predicate")?))
            }
            Kind::Word if self.word() == "_" => {
                self.advance();
                if self.take(b'|') {
                    return Ok(Operand::Pair(Text::default(), self.name("a predicate")?));
                }
                Ok(Operand::Sink)
            }
            Kind::Word => {
                let name = self.component()?;
                if self.take(b'|') {
                    if self.word() == "_" {
                        self.advance();
                        return Ok(Operand::Name(name));
                    }
                    return Ok(Operand::Pair(name, self.name("a predicate")?));
                }
                if self.at(b'+') || self.at(b'-') {
                    return Ok(Operand::Sum(name, self.offset()?));
                }
                Ok(Operand::Name(name))
            }
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Result<Operand> {
        let (mut negative, mut inverted) = (false, false);
        loop {
            match self.token.kind {
                Kind::Sign(b'-') => negative = !negative,
                Kind::Sign(b'~') => inverted = !inverted,
                Kind::Sign(b'+') => {}
                _ => break,
            }
            self.advance();
        }
        let operand = match self.token.kind {
            Kind::Integer(value) => {
                let value = if negative {
                    value.wrapping_neg()
                } else {
                    value
                };
                Operand::Integer(if inverted { !value } else { value })
            }
            Kind::F32(bits) => Operand::F32(bits ^ u32::from(negative) << 31),
            Kind::F64(bits) => Operand::F64(bits ^ u64::from(negative) << 63),
            Kind::Word if negative => return Ok(Operand::Negative(self.component()?)),
            _ => return self.error("an operand"),
        };
        self.advance();
        Ok(operand)
    }

    /// A name with the component of a vector or special register: `%tid.x`.
    fn component(&mut self) -> Result<Text> {
        let mut name = self.name("a name")?;
        if self.token.kind == Kind::Dot && self.token.text.start == name.end {
            name.end = self.advance().text.end;
        }
        Ok(name)
    }
}
