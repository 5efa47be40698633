//! Mutants of the shipped kernels by one instruction each: a check or the oracle of [`kernels`](crate::kernels) finds them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, set_hook, take_hook};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_um_ptx::{Device, Module};

use crate::kernels::*;

thread_local! {
    /// A file of `kernels/ptx`, and the text that is read in its place.
    pub static CHANGED: RefCell<Option<(&'static str, String)>> = const { RefCell::new(None) };
}

const FILES: [(&str, fn()); 6] = [
    ("scale", scale_and_saxpy),
    ("saxpy", scale_and_saxpy),
    ("fill", fills_of_every_width_and_copies_of_both_patterns),
    ("copy", fills_of_every_width_and_copies_of_both_patterns),
    ("reduce", sums_in_the_order_of_the_kernel),
    ("cosine_top_k", the_best_targets_of_a_search),
];

/// Opcodes, comparisons among them, and what takes their place.
const OPCODES: [(&str, &str); 24] = [
    ("setp.lt.", "setp.ge."),
    ("setp.le.", "setp.gt."),
    ("setp.gt.", "setp.lt."),
    ("setp.ge.", "setp.le."),
    ("setp.eq.", "setp.ne."),
    ("setp.ne.", "setp.eq."),
    ("setp.neu.", "setp.eq."),
    ("add.", "sub."),
    ("sub.", "add."),
    ("mul.f32", "add.f32"),
    ("mul.lo", "mul.hi"),
    ("mad.lo", "mad.hi"),
    ("mul.wide.u32 ", "cvt.u64.u32 "),
    ("div.rn", "mul.rn"),
    ("shl.", "shr."),
    ("shr.", "shl."),
    ("and.pred", "or.pred"),
    ("and.b", "or.b"),
    ("or.pred", "and.pred"),
    ("or.b", "and.b"),
    ("min.", "max."),
    ("max.", "min."),
    ("@%p", "@!%p"),
    ("@!%p", "@%p"),
];

/// Without the instruction, with another opcode or guard, with the first number one larger, with the last two operands exchanged.
fn mutants(line: &str) -> Vec<String> {
    let text = line.trim_start();
    // A kernel ends without its last `ret`, too.
    let mut all = if text == "ret;" {
        vec![]
    } else {
        vec![String::new()]
    };
    if let Some((from, to)) = OPCODES.into_iter().find(|(from, _)| text.starts_with(from)) {
        all.push(text.replacen(from, to, 1));
    }
    let numbers = text.match_indices([' ', '+']).find_map(|(at, _)| {
        let rest = &text[at + 1..];
        let end = rest.find([';', ',', ']'])?;
        let number: u64 = rest[..end].parse().ok()?;
        Some((at + 1..at + 1 + end, number))
    });
    if let (Some((range, number)), false) = (numbers, text.starts_with("bar")) {
        let mut text = text.to_owned();
        text.replace_range(range, &(number + 1).to_string());
        all.push(text);
    }
    let operands: Vec<&str> = text.trim_end_matches(';').split(", ").collect();
    let opcode = text.split('.').next().unwrap_or("");
    if let ("sub" | "div" | "fma" | "mad" | "shl" | "shr", [head @ .., a, b]) =
        (opcode, &operands[..])
    {
        all.push(format!("{}, {b}, {a};", head.join(", ")));
    }
    all
}

#[test]
#[ignore = "minutes"]
fn mutants_are_found() {
    let mut work = Vec::new();
    for (file, oracle) in FILES {
        let text = shipped(file);
        for (number, line) in text.lines().enumerate() {
            let start = line
                .trim_start()
                .as_bytes()
                .first()
                .copied()
                .unwrap_or(b'.');
            if line.ends_with(';') && (start.is_ascii_lowercase() || start == b'@') {
                let changed = mutants(line)
                    .into_iter()
                    .map(|mutant| (file, oracle, number, mutant));
                work.extend(changed);
            }
        }
    }
    let (next, results) = (
        AtomicUsize::new(0),
        Mutex::new(BTreeMap::<&str, [usize; 3]>::new()),
    );
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((file, oracle, number, mutant)) =
                    work.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let text = shipped(file);
                    let lines = text.lines().enumerate();
                    let lines = lines.map(|(at, line)| if at == *number { mutant } else { line });
                    let changed = lines.collect::<Vec<_>>().join("\n");
                    let loads = Module::parse(&changed).is_ok_and(|module| {
                        module
                            .kernels()
                            .all(|kernel| kernel.load(&Device::default()).is_ok())
                    });
                    let found = loads && {
                        CHANGED.set(Some((file, changed)));
                        let result = catch_unwind(oracle);
                        CHANGED.set(None);
                        result.is_err()
                    };
                    let mut results = results.lock().unwrap();
                    let [refused, seen, missed] = results.entry(file).or_default();
                    *refused += usize::from(!loads);
                    *seen += usize::from(loads && found);
                    *missed += usize::from(loads && !found);
                    if loads && !found {
                        println!(
                            "{file}:{}: `{}` as `{mutant}`",
                            number + 1,
                            text.lines().nth(*number).unwrap().trim()
                        );
                    }
                }
            });
        }
    });
    set_hook(hook);
    let results = results.into_inner().unwrap();
    println!("file: refused, found, missed: {results:?}");
    let sum = |index: usize| results.values().map(|counts| counts[index]).sum::<usize>();
    assert!(
        sum(1) >= 9 * sum(2),
        "{} of {} are found",
        sum(1),
        sum(1) + sum(2)
    );
}
