//! Mutants of the shipped kernels by one instruction each: a check or the oracle of [`kernels`](crate::kernels) finds them.

use std::cell::RefCell;
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

/// Mutants of every file that a run without `CUDA_UM_MUTANTS=all` takes, spread evenly.
const SAMPLE: usize = 10;

/// Those of the sample that change nothing which the oracles see.
const UNSEEN: [&str; 5] = [
    "copy:102: `@!%p3 bra \t$L__BB1_6;`",
    "copy:30: ``",
    "copy:72: `setp.eq.s64 \t%p1, %rd21, 1;`",
    "cosine_top_k:1285: ``",
    "fill:199: ``",
];

/// A changed line: the file, its oracle, the line's number, and its new text.
type Mutant = (&'static str, fn(), usize, String);

fn mutants_of(file: &'static str, oracle: fn()) -> Vec<Mutant> {
    let text = shipped(file);
    let instructions = text.lines().enumerate().filter(|(_, line)| {
        let start = line.trim_start();
        line.ends_with(';') && start.starts_with(|c: char| c.is_ascii_lowercase() || c == '@')
    });
    let changes = instructions.flat_map(|(number, line)| {
        let mutants = mutants(line).into_iter();
        mutants.map(move |mutant| (file, oracle, number, mutant))
    });
    changes.collect()
}

/// Whether a mutant is found; `None` if it does not load.
fn is_found((file, oracle, number, mutant): &Mutant) -> Option<bool> {
    let text = shipped(file);
    let lines = text.lines().enumerate();
    let lines = lines.map(|(at, line)| if at == *number { mutant } else { line });
    let changed = lines.collect::<Vec<_>>().join("\n");
    let module = Module::parse(&changed).ok()?;
    if module
        .kernels()
        .any(|kernel| kernel.load(&Device::default()).is_err())
    {
        return None;
    }
    CHANGED.set(Some((file, changed)));
    let found = catch_unwind(oracle).is_err();
    CHANGED.set(None);
    Some(found)
}

#[test]
fn mutants_are_found() {
    let all = std::env::var("CUDA_UM_MUTANTS").is_ok_and(|value| value == "all");
    let work = FILES.into_iter().flat_map(|(file, oracle)| {
        let mutants = mutants_of(file, oracle);
        let step = if all { 1 } else { mutants.len() / SAMPLE };
        mutants.into_iter().step_by(step)
    });
    let work: Vec<Mutant> = work.collect();
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Other tests, which run at the same time, still report their panics.
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        if CHANGED.with_borrow(Option::is_none) {
            hook(panic);
        }
    }));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(mutant) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = is_found(mutant);
                    let (file, _, number, text) = mutant;
                    let name = format!("{file}:{}: `{text}`", number + 1);
                    results.lock().unwrap().push((found, name));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort();
    let of = |wanted| results.iter().filter(move |(found, _)| *found == wanted);
    let missed: Vec<&str> = of(Some(false)).map(|(_, name)| &**name).collect();
    let found = of(Some(true)).count();
    println!(
        "refused {}, found {found}, missed {missed:#?}",
        of(None).count()
    );
    if all {
        assert!(found >= 9 * missed.len(), "{found} are found");
    } else {
        assert_eq!(missed, UNSEEN);
    }
}
