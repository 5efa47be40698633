//! Statements on memory: loads, stores and sums of single threads.

use super::Writer;

impl Writer<'_> {
    /// Loads and stores of a thread of its own.
    pub(super) fn memory(&mut self) {
        let (a, b, d) = (self.s(), self.s(), self.s());
        let (h, l, m) = (self.h(), self.l(), self.l());
        let global = |align: usize| {
            format!(
                "and.b32 %t0, {a}, {};\ncvt.u64.u32 %u0, %t0;\nadd.u64 %u0, %u0, %input;\n",
                0x3ff0 + 16 - align
            )
        };
        let own = |size: usize| {
            format!(
                "and.b32 %t0, {a}, {};\nmov.u32 %t1, own;\nadd.u32 %t0, %t0, %t1;\n",
                64 - size
            )
        };
        let slot = "mul.lo.u32 %t1, %me, 16;\nmov.u32 %t0, slots;\nadd.u32 %t0, %t0, %t1;\n";
        let text = match self.random.below(18) {
            0 => format!(
                "{}ld.global.v4.u32 {{{d}, %t1, {b}, %t2}}, [%u0];",
                global(16)
            ),
            1 => format!("{}ld.global.v2.b64 {{%u1, {l}}}, [%u0];", global(16)),
            2 => format!("{}ld.global.u8 {d}, [%u0];", global(1)),
            3 => format!("{}ld.global.s8 {d}, [%u0];", global(1)),
            4 => format!("{}ld.global.s16 {d}, [%u0];", global(2)),
            5 => format!("{}ld.global.nc.u16 {h}, [%u0];", global(2)),
            6 => format!("{}ld.global.s32 {l}, [%u0];", global(4)),
            7 => format!(
                "{}cvta.global.u64 %u0, %u0;\nld.u64 {l}, [%u0];\nisspacep.global %p1, %u0;\nselp.b32 {d}, {d}, 0, %p1;",
                global(8)
            ),
            8 => format!(
                "{}st.local.b32 [%t0], {b};\nld.local.u8 {d}, [own+5];",
                own(4)
            ),
            9 => format!(
                "{}st.local.b8 [%t0], {b};\nld.local.v2.b32 {{{d}, %t2}}, [own+8];",
                own(1)
            ),
            10 => format!("{}ld.local.b64 {l}, [%t0];", own(8)),
            11 => format!(
                "{}cvt.u64.u32 %u0, %t0;\ncvta.local.u64 %u0, %u0;\nst.u16 [%u0], {h};\nisspacep.shared %p1, %u0;\nselp.b32 {d}, 1, {d}, %p1;",
                own(2)
            ),
            12 => format!(
                "and.b32 %t0, {a}, 60;\nmov.u64 %u0, fixed;\ncvt.u64.u32 %u1, %t0;\nadd.u64 %u0, %u0, %u1;\nld.const.u32 {d}, [%u0];"
            ),
            13 => format!(
                "and.b32 %t0, {a}, 60;\nmov.u64 %u0, table;\ncvt.u64.u32 %u1, %t0;\nadd.u64 %u0, %u0, %u1;\nld.global.u32 {d}, [%u0];"
            ),
            14 => format!(
                "{slot}st.shared.v2.b64 [%t0], {{{l}, {m}}};\nld.shared.b32 {d}, [%t0+4];\nld.shared.s8 {b}, [%t0+15];"
            ),
            15 => format!(
                "{slot}cvt.u64.u32 %u0, %t0;\ncvta.shared.u64 %u0, %u0;\nst.v4.b32 [%u0], {{{a}, {b}, {d}, {a}}};\nld.v2.u64 {{{l}, %u1}}, [%u0];\nisspacep.shared %p1, %u0;\nselp.b32 {d}, {d}, 7, %p1;\ncvta.to.shared.u64 %u0, %u0;\nld.shared.u16 {h}, [%u0+6];"
            ),
            16 => {
                let size = [4, 8, 16][self.random.below(3)];
                let partial = if self.random.chance(50) {
                    format!(", {}", size / 2)
                } else {
                    String::new()
                };
                let to_global = format!("mov.u32 %t3, %t0;\n{}", global(16));
                format!(
                    "{slot}{to_global}\nst.shared.v2.b64 [%t3], {{{l}, {m}}};\nmembar.cta;\ncp.async.ca.shared.global [%t3], [%u0], {size}{partial};\ncp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.b32 {d}, [%t3];\nld.shared.b64 {l}, [%t3+8];"
                )
            }
            _ => format!(
                "{slot}st.volatile.shared.b32 [%t0+8], {b};\nmembar.cta;\nld.volatile.shared.b16 {h}, [%t0+10];"
            ),
        };
        // The second register of a pair must not be one of its first.
        let text = text.replace(
            &format!("{{{d}, %t1, {d}, %t2}}"),
            &format!("{{{d}, %t1, %t3, %t2}}"),
        );
        self.lines(text);
    }

    /// A sum of all threads, whose value does not depend on their order.
    pub(super) fn sum(&mut self) {
        let (s, l) = (self.s(), self.l());
        let op = self.random.pick(&["atom", "red"]).to_owned();
        let scope = self.random.pick(&[".relaxed.gpu", ""]).to_owned();
        let (from, wide) = if op == "atom" {
            ("%t1, ", "%u1, ")
        } else {
            ("", "")
        };
        let text = match self.random.below(10) {
            0 => format!("{op}{scope}.global.add.u32 {from}[%sums], {s};"),
            1 => format!("{op}{scope}.global.max.s32 {from}[%sums+4], {s};"),
            2 => format!("{op}{scope}.global.or.b32 {from}[%sums+8], {s};"),
            3 => format!("{op}{scope}.global.xor.b32 {from}[%sums+12], {s};"),
            4 => format!("{op}{scope}.global.add.u64 {wide}[%sums+16], {l};"),
            5 => format!("{op}{scope}.global.max.u64 {wide}[%sums+24], {l};"),
            6 => format!(
                "and.b32 %t0, {s}, 3;\ncvt.rn.f32.u32 %t0, %t0;\n{op}{scope}.global.add.f32 {from}[%sums+32], %t0;"
            ),
            7 => format!("{op}{scope}.global.inc.u32 {from}[%sums+36], 1000;"),
            8 => format!(
                "and.b32 %t0, {s}, 255;\ncvt.rn.f64.u32 %u0, %t0;\n{op}{scope}.global.add.f64 {wide}[%sums+40], %u0;"
            ),
            _ => {
                let top = self.label();
                format!(
                    "ld.volatile.global.u32 %t0, [%sums+12];\n{top}:\nxor.b32 %t1, %t0, {s};\nmov.u32 %t2, %t0;\natom.global.cas.b32 %t0, [%sums+12], %t0, %t1;\nsetp.ne.u32 %p1, %t0, %t2;\n@%p1 bra {top};"
                )
            }
        };
        self.lines(text);
    }
}
