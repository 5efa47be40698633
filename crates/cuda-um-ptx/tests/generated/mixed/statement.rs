//! Statements: one instruction, or branches, loops and calls.

use super::{Place, Writer};

impl Writer<'_> {
    pub(super) fn statement(&mut self, place: Place) {
        if place.together && self.random.chance(35) {
            return self.meeting();
        }
        let nested = Place {
            depth: place.depth + 1,
            together: false,
            ..place
        };
        match self.random.below(if place.depth < 3 { 20 } else { 14 }) {
            11 | 13 if !place.calls => self.statement(place),
            0..=5 => {
                let text = self.form();
                self.line(text);
            }
            6 => {
                let (predicate, text) = (self.predicate(), self.form());
                // The driver's compiler forgets the guard of a part of what it makes of `set`.
                if text.starts_with("set.") {
                    return self.line(text);
                }
                let not = self.random.pick(&["", "!"]).to_owned();
                // Of several instructions only the last one.
                let (before, last) = text
                    .trim_end_matches(';')
                    .rsplit_once("; ")
                    .unwrap_or(("", text.trim_end_matches(';')));
                if !before.is_empty() {
                    self.line(format!("{before};"));
                }
                self.line(format!("@{not}{predicate} {last};"));
            }
            7..=9 => self.memory(),
            10 => self.sum(),
            11 => {
                let (a, b, d) = (self.s(), self.s(), self.s());
                let e = self.l();
                // ptxas 13.0 crashes at a call of a function that calls itself if it finds that the call is never reached.
                let text = match self.random.below(if place.together { 3 } else { 2 }) {
                    0 => format!("call ({d}), first, ({a}, {b});"),
                    1 => format!(
                        "{{\n.param .align 8 .b8 pair[16];\n.param .b64 back;\nst.param.b64 [pair], {e};\nst.param.b32 [pair+8], {a};\nst.param.b32 [pair+12], {b};\ncall (back), second, (pair);\nld.param.b64 {e}, [back];\n}}"
                    ),
                    // The same depth in all threads: behind a call that parts them the driver's compiler takes them for together.
                    _ => format!(
                        "{{\n.param .b32 number;\n.param .b32 back;\nst.param.b32 [number], {};\ncall (back), third, (number);\nld.param.b32 {d}, [back];\n}}",
                        self.random.below(8)
                    ),
                };
                self.lines(text);
            }
            12 => {
                let (h, g, s, l, t) = (self.h(), self.h(), self.s(), self.l(), self.s());
                let text = match self.random.below(6) {
                    0 => format!("mov.b64 {{{s}, %t0}}, {l};"),
                    1 => format!("mov.b64 {l}, {{{s}, {t}}};"),
                    2 => format!("mov.b32 {{{h}, %w0}}, {s};"),
                    3 => format!("mov.b32 {s}, {{{g}, {h}}};"),
                    4 => format!(
                        "mov.u32 {s}, %{};",
                        self.random.pick(&[
                            "laneid",
                            "lanemask_lt",
                            "lanemask_ge",
                            "nctaid.x",
                            "ctaid.x"
                        ])
                    ),
                    _ => format!("mov.u32 {s}, {};", self.random.next() as u32),
                };
                self.lines(text);
            }
            13 => self.mask(),
            14 | 15 => {
                let (predicate, other, end) = (self.predicate(), self.label(), self.label());
                self.line(format!("@!{predicate} bra {other};"));
                self.several(nested);
                if self.random.chance(60) {
                    self.line(format!("bra {end};"));
                    self.line(format!("{other}:"));
                    self.several(nested);
                    self.line(format!("{end}:"));
                } else {
                    self.line(format!("{other}:"));
                }
            }
            16 | 17 => self.repeat(Place {
                calls: false,
                ..nested
            }),
            18 => {
                let (s, targets, end) = (self.s(), self.label(), self.label());
                let labels: Vec<String> = (0..4).map(|_| self.label()).collect();
                self.line(format!("and.b32 %t0, {s}, 3;"));
                self.line(format!("{targets}: .branchtargets {};", labels.join(", ")));
                self.line(format!("brx.idx %t0, {targets};"));
                for label in labels {
                    self.line(format!("{label}:"));
                    self.statement(nested);
                    self.line(format!("bra {end};"));
                }
                self.line(format!("{end}:"));
            }
            _ => {
                // The same number of times in all threads.
                let (top, count) = (self.label(), 2 + self.random.below(3));
                self.scratch += 1;
                let counter = format!("%c{}", self.scratch);
                self.line(format!("mov.u32 {counter}, 0;"));
                self.line(format!("{top}:"));
                self.several(Place {
                    depth: place.depth + 1,
                    ..place
                });
                self.lines(format!("add.u32 {counter}, {counter}, 1;\nsetp.lt.u32 %p1, {counter}, {count};\n@%p1 bra {top};"));
            }
        }
    }

    fn several(&mut self, place: Place) {
        self.indent += 1;
        for _ in 0..1 + self.random.below(4) {
            self.statement(place);
        }
        self.indent -= 1;
    }

    /// A loop whose count differs between threads, perhaps with a way out.
    fn repeat(&mut self, place: Place) {
        let (top, end, s) = (self.label(), self.label(), self.s());
        self.scratch += 1;
        let counter = format!("%c{}", self.scratch);
        let most = [1, 3, 7][self.random.below(3)];
        self.line(format!("and.b32 {counter}, {s}, {most};"));
        self.line(format!("{top}:"));
        self.several(place);
        if self.random.chance(40) {
            let out = self.predicate();
            self.line(format!("@{out} bra {end};"));
            self.several(place);
        }
        self.lines(format!(
            "add.s32 {counter}, {counter}, -1;\nsetp.ge.s32 %p1, {counter}, 0;\n@%p1 bra {top};"
        ));
        self.line(format!("{end}:"));
    }
}
