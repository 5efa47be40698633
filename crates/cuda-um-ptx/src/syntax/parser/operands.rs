//! Operands of instructions and initial values of variables.

use super::{Parser, Result};
use crate::syntax::lexer::Kind;
use crate::syntax::{Operand, Text, Value};

impl Parser<'_> {
    /// 6.4 Operands.
    pub(super) fn operand(&mut self, depth: u32) -> Result<Operand> {
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

    pub(super) fn initial(&mut self, values: &mut Vec<Value>, strides: &[u64]) -> Result<()> {
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
    pub(super) fn offset(&mut self) -> Result<i64> {
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
}
