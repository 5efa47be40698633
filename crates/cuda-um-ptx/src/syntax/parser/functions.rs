//! Functions: their directives, parameters, statements and instructions.

use super::{Parser, Result};
use crate::syntax::lexer::Kind;
use crate::syntax::{Function, Instruction, Space, Statement, Text, Type, Variable};

/// Blocks within each other.
const DEPTH: u32 = 64;

impl Parser<'_> {
    /// 11.2 Kernel and function definitions.
    pub(super) fn function(&mut self) -> Result<Function> {
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
        let variables = self.separated(|parser| parser.variable(space))?;
        statements.extend(variables.into_iter().map(Statement::Variable));
        self.expect(b';', "`;`")
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
}
