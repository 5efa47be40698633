//! What the threads of a warp or a block do together.

use super::Writer;

impl Writer<'_> {
    /// What some lanes of a warp do together: those with a predicate, by a mask of a vote before the branch. Only where a warp is
    /// together, which a divergent place is not; there, each thread is alone.
    pub(super) fn mask(&mut self) {
        let (s, d) = (self.s(), self.s());
        self.lines(format!("mov.u32 %t0, %laneid;\nshl.b32 %t0, 1, %t0;\nvote.sync.ballot.b32 %t1, 1, %t0;\nxor.b32 {d}, {s}, %t1;"));
    }

    /// What all threads of a block, or whole warps of it, do together.
    pub(super) fn meeting(&mut self) {
        let (a, b, d) = (self.s(), self.s(), self.s());
        let (l, block) = (self.l(), self.block);
        let slots = |own: &str, other: &str| {
            format!(
                "bar.sync 0;\nmul.lo.u32 %t1, %me, 16;\nmov.u32 %t0, slots;\nadd.u32 %t0, %t0, %t1;\n{own}\nbar.sync 0;\n{other}\nbar.sync 0;"
            )
        };
        let text = match self.random.below(16) {
            0 | 1 => {
                let step = 1 + self.random.below(block - 1);
                let next = format!(
                    "add.u32 %t2, %me, {step};\nrem.u32 %t2, %t2, {block};\nmul.lo.u32 %t2, %t2, 16;\nmov.u32 %t3, slots;\nadd.u32 %t2, %t2, %t3;"
                );
                match self.random.below(4) {
                    0 => slots(
                        &format!("st.shared.b32 [%t0], {a};"),
                        &format!("{next}\nld.shared.b32 {d}, [%t2];"),
                    ),
                    1 => slots(
                        &format!("st.shared.v4.b32 [%t0], {{{a}, {b}, {a}, {d}}};"),
                        &format!(
                            "{next}\nld.shared.v2.b32 {{%t4, {d}}}, [%t2+8];\nld.shared.b64 {l}, [%t2];"
                        ),
                    ),
                    2 => slots(
                        &format!(
                            "st.shared.b16 [%t0+2], {};\nst.shared.b8 [%t0+1], {b};",
                            self.h()
                        ),
                        &format!("{next}\nld.shared.u8 {d}, [%t2+1];\nld.shared.s16 {b}, [%t2+2];"),
                    ),
                    _ => slots(
                        &format!("st.shared.b64 [%t0+8], {l};"),
                        &format!("{next}\nld.shared.b64 {l}, [%t2+8];"),
                    ),
                }
            }
            2..=4 => {
                let mode = self.random.pick(&["up", "down", "bfly", "idx"]).to_owned();
                let (lane, width) = (self.random.below(33), [32, 16, 8, 4][self.random.below(4)]);
                let clamp = if mode == "up" {
                    (32 - width) << 8
                } else {
                    (32 - width) << 8 | 31
                };
                let source = if self.random.chance(40) {
                    b.clone()
                } else {
                    lane.to_string()
                };
                format!(
                    "shfl.sync.{mode}.b32 %t0|%p1, {a}, {source}, {clamp}, -1;\nmov.b32 {d}, %t0;\n@%p1 add.u32 {d}, {d}, 1;"
                )
            }
            5 => {
                let predicate = self.predicate();
                match self.random.below(4) {
                    0 => format!("vote.sync.ballot.b32 {d}, {predicate}, -1;"),
                    1 => format!(
                        "vote.sync.any.pred %p1, {predicate}, -1;\nselp.b32 {d}, {a}, {b}, %p1;"
                    ),
                    2 => format!(
                        "vote.sync.all.pred %p1, !{predicate}, -1;\nselp.b32 {d}, {a}, {b}, %p1;"
                    ),
                    _ => format!(
                        "vote.sync.uni.pred %p1, {predicate}, -1;\nselp.b32 {d}, {a}, {b}, %p1;"
                    ),
                }
            }
            6 => match self.random.below(4) {
                0 => format!("and.b32 %t0, {a}, 3;\nmatch.any.sync.b32 {d}, %t0, -1;"),
                1 => format!("and.b64 %u0, {l}, 1;\nmatch.any.sync.b64 {d}, %u0, -1;"),
                2 => format!(
                    "shr.u32 %t0, {a}, 31;\nmatch.all.sync.b32 %t1|%p1, %t0, -1;\nselp.b32 {d}, %t1, {d}, %p1;"
                ),
                _ => format!("match.all.sync.b64 %t1|%p1, {l}, -1;\nselp.b32 {d}, 1, %t1, %p1;"),
            },
            7 => {
                let op = self
                    .random
                    .pick(&[
                        "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32",
                        "and.b32", "or.b32", "xor.b32",
                    ])
                    .to_owned();
                format!("redux.sync.{op} %t0, {a}, -1;\nxor.b32 {d}, {d}, %t0;")
            }
            8 => {
                // Lanes with a predicate, by the mask of a vote.
                let (predicate, end) = (self.predicate(), self.label());
                let op = self
                    .random
                    .pick(&["add.u32", "max.s32", "xor.b32"])
                    .to_owned();
                format!(
                    "vote.sync.ballot.b32 %t1, {predicate}, -1;\n@!{predicate} bra {end};\nredux.sync.{op} %t2, {a}, %t1;\nmatch.any.sync.b32 %t3, {b}, %t1;\nbfind.u32 %t4, %t1;\nshfl.sync.idx.b32 %t4, {a}, %t4, 31, %t1;\nxor.b32 %t2, %t2, %t3;\nxor.b32 {d}, %t2, %t4;\n{end}:\nbar.warp.sync -1;"
                )
            }
            9 | 10 => {
                let (op, width) = [
                    ("add.u32", 32),
                    ("min.s32", 32),
                    ("max.u32", 32),
                    ("and.b32", 32),
                    ("or.b32", 32),
                    ("xor.b32", 32),
                    ("inc.u32", 32),
                    ("add.u64", 64),
                    ("min.u64", 64),
                ][self.random.below(9)];
                let (value, temporary, start) = if width == 64 {
                    (l.clone(), "%u1", self.l())
                } else {
                    (a.clone(), "%t1", self.s())
                };
                let value = if op == "inc.u32" {
                    "37".to_owned()
                } else {
                    value
                };
                let start = if op == "inc.u32" {
                    "5".to_owned()
                } else {
                    start
                };
                let predicate = self.predicate();
                let guard = if self.random.chance(50) {
                    format!("@{predicate} ")
                } else {
                    String::new()
                };
                let target = if width == 64 { l.clone() } else { d.clone() };
                format!(
                    "bar.sync 0;\nsetp.eq.u32 %p1, %me, 0;\n@%p1 st.shared.b{width} [sums], {start};\nbar.sync 0;\n{guard}atom.shared.{op} {temporary}, [sums], {value};\nbar.sync 0;\nld.shared.b{width} {target}, [sums];\nbar.sync 0;"
                )
            }
            11 => match self.random.below(3) {
                0 => {
                    let predicate = self.predicate();
                    format!("bar.red.popc.u32 {d}, 0, {predicate};")
                }
                1 => {
                    let predicate = self.predicate();
                    format!(
                        "bar.red.and.pred %p1, 1, {block}, {predicate};\nselp.b32 {d}, {a}, {b}, %p1;"
                    )
                }
                _ => {
                    let predicate = self.predicate();
                    format!(
                        "bar.red.or.pred %p1, 0, !{predicate};\nselp.b32 {d}, {a}, {b}, %p1;\nbarrier.sync 2;"
                    )
                }
            },
            12 => {
                let (count, transposed) = (
                    [1, 2, 4][self.random.below(3)],
                    self.random.pick(&["", ".trans"]).to_owned(),
                );
                let all = ["%t4", "%t5", "%t6", "%t7"];
                // Every warp its own rows: lane i the address of row i, 16 bytes each.
                let mut text = slots(
                    &format!("st.shared.v4.b32 [%t0], {{{a}, {b}, {d}, %me}};"),
                    &format!(
                        "ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{}}}, [%t0];",
                        all[..count].join(", ")
                    ),
                );
                all[..count]
                    .iter()
                    .for_each(|register| text += &format!("\nxor.b32 {d}, {d}, {register};"));
                if self.target == 90 && self.random.chance(40) {
                    let store = format!(
                        "stmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 [%t0], {{{}}};",
                        [&a, &b, &d, &a].map(String::as_str)[..count].join(", ")
                    );
                    let fill = format!(
                        "st.shared.v4.b32 [%t0], {{{b}, {b}, {b}, {b}}};\nbar.sync 0;\n{store}"
                    );
                    text += &format!(
                        "\n{}",
                        slots(&fill, &format!("ld.shared.b32 {d}, [%t0+4];"))
                    );
                }
                text
            }
            13 => {
                let stored = format!(
                    "mov.pred %p2, %p1;\nbar.sync 0;\nmul.lo.u32 %t1, %me, 16;\nmov.u32 %t0, slots;\nadd.u32 %t0, %t0, %t1;\nst.shared.b32 [%t0], {a};"
                );
                format!(
                    "bar.sync 0;\nsetp.eq.u32 %p1, %me, 0;\n@%p1 mbarrier.init.shared.b64 [meeting], {block};\n{}\nmbarrier.arrive.shared.b64 %u0, [meeting];\n{top}:\nmbarrier.test_wait.shared.b64 %p1, [meeting], %u0;\n@!%p1 bra {top};\nxor.b32 %t1, %t1, {};\nmov.u32 %t0, slots;\nadd.u32 %t0, %t0, %t1;\nld.shared.b32 {d}, [%t0];\nbar.sync 0;\n@%p2 mbarrier.inval.shared.b64 [meeting];\nbar.sync 0;",
                    stored,
                    16 * (1 + self.random.below(31)),
                    top = self.label(),
                )
            }
            14 => {
                // A lock, for which the lanes of a warp wait, too.
                let (top, taken) = (self.label(), self.label());
                format!(
                    "bar.sync 0;\nsetp.eq.u32 %p1, %me, 0;\nmov.u32 %t0, 0;\n@%p1 st.shared.v2.b32 [sums], {{%t0, %t0}};\nbar.sync 0;\n{top}:\natom.shared.cas.b32 %t0, [sums], 0, 1;\nsetp.ne.u32 %p1, %t0, 0;\n@%p1 bra {taken};\nld.volatile.shared.b32 %t1, [sums+4];\nadd.u32 %t1, %t1, {a};\nst.volatile.shared.b32 [sums+4], %t1;\nmembar.cta;\natom.shared.exch.b32 %t2, [sums], 0;\n{taken}:\n@%p1 bra {top};\nbar.sync 0;\nld.shared.b32 {d}, [sums+4];\nbar.sync 0;"
                )
            }
            _ => self.matrices(),
        };
        self.lines(text);
    }

    /// `mma` of numbers whose sums are exact.
    fn matrices(&mut self) -> String {
        let (a, b, d) = (self.s(), self.s(), self.s());
        let kind = self.random.below(8);
        if kind < 3 {
            let (k, signs) = [(16, ["s8", "u8"]), (32, ["s8", "u8"]), (64, ["s4", "u4"])][kind];
            let (x, y) = (
                self.random.pick(&signs).to_owned(),
                self.random.pick(&signs).to_owned(),
            );
            let sat = self.random.pick(&["", ".satfinite"]).to_owned();
            let (first, second) = if k == 16 {
                (format!("{{{a}, {b}}}"), format!("{{{d}}}"))
            } else {
                (format!("{{{a}, {b}, {d}, {a}}}"), format!("{{{d}, {b}}}"))
            };
            return format!(
                "mma.sync.aligned.m16n8k{k}.row.col{sat}.s32.{x}.{y}.s32 {{%t4, %t5, %t6, %t7}}, {first}, {second}, {{{b}, {a}, {d}, {d}}};\nxor.b32 {a}, %t4, %t5;\nsub.u32 {b}, %t6, %t7;"
            );
        }
        if kind == 3 {
            let l = self.l();
            return format!(
                "and.b32 %t0, {a}, 255;\ncvt.rn.f64.u32 %u0, %t0;\nshr.s32 %t1, {b}, 20;\ncvt.rn.f64.s32 %u1, %t1;\nmma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%u2, %u3}}, {{%u0}}, {{%u1}}, {{%u1, %u0}};\nxor.b64 {l}, %u2, %u3;"
            );
        }
        let k = [8, 16][kind % 2];
        // Numbers from -4 to 3 in each half: the bits of the state select them.
        let pair = |of: &str, kind: &str, to: &str| {
            format!(
                "and.b32 %t0, {of}, 7;\nsub.s32 %t0, %t0, 4;\ncvt.rn.f32.s32 %t0, %t0;\nshr.u32 %t1, {of}, 29;\ncvt.rn.f32.u32 %t1, %t1;\ncvt.rn.{kind}x2.f32 {to}, %t0, %t1;\n"
            )
        };
        let kind = self.random.pick(&["f16", "bf16"]).to_owned();
        let result = if kind == "f16" && self.random.chance(50) {
            "f16"
        } else {
            "f32"
        };
        let mut text = pair(&a, &kind, "%t8") + &pair(&b, &kind, "%t9") + &pair(&d, &kind, "%t10");
        if self.random.chance(20) {
            // The last of them is in %t0 and %t1 as f32, which is tf32, too.
            return text
                + &format!(
                    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 {{%t4, %t5, %t6, %t7}}, {{%t0, %t1}}, {{%t1}}, {{%t0, %t1, %t0, %t1}};\nxor.b32 {d}, %t4, %t5;\nxor.b32 {a}, %t6, %t7;"
                );
        }
        let (first, second) = if k == 8 {
            ("{%t8, %t9}", "{%t10}")
        } else {
            ("{%t8, %t9, %t10, %t8}", "{%t10, %t9}")
        };
        let (sums, from) = if result == "f16" {
            ("{%t4, %t5}", "{%t8, %t9}")
        } else {
            ("{%t4, %t5, %t6, %t7}", "{%t0, %t1, %t0, %t1}")
        };
        text += &format!(
            "mma.sync.aligned.m16n8k{k}.row.col.{result}.{kind}.{kind}.{result} {sums}, {first}, {second}, {from};\nxor.b32 {d}, %t4, %t5;"
        );
        if result == "f32" {
            text += &format!("\nxor.b32 {a}, %t6, %t7;");
        }
        text
    }
}
