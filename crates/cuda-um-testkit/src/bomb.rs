//! A `tracing` subscriber that panics: the library must continue.

use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// The times at which the subscriber panics on this thread. On the library's own threads it panics at every call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    Never,
    /// At every warning.
    Warnings,
    /// At this call, counted from 1, for an event or a span of any level.
    Nth(u64),
    /// At every call, except the queries of interest and of the number of a new span: it enables everything.
    Always,
}

thread_local! {
    static PLAN: Cell<Plan> = const { Cell::new(Plan::Warnings) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static IS_LIBRARYS: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Number of panics of this process so far.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// The payload of its panics. Code that catches it must not drop it.
struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("the payload of a subscriber's panic is dropped");
    }
}

struct Bomb;

/// Installs it as the subscriber of all threads of this process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing::subscriber::set_global_default(Bomb).expect("no test has another one");
    });
}

/// Runs `work` with another plan on this thread; returns how often the subscriber was called here.
pub fn with<R>(plan: Plan, work: impl FnOnce() -> R) -> (R, u64) {
    struct Back(Plan);
    impl Drop for Back {
        fn drop(&mut self) {
            PLAN.set(self.0);
        }
    }
    CALLS.set(0);
    let _back = Back(PLAN.replace(plan));
    let result = work();
    (result, CALLS.get())
}

/// Number of its panics in this process.
// Relaxed: a count, which orders nothing else; the test joins the threads that it counts.
pub fn panics() -> usize {
    PANICS.load(Ordering::Relaxed)
}

fn plan() -> Plan {
    let is_librarys = IS_LIBRARYS.get().unwrap_or_else(|| {
        let thread = std::thread::current();
        let is = thread
            .name()
            .is_some_and(|name| name.starts_with("cuda-um-"));
        IS_LIBRARYS.set(Some(is));
        is
    });
    if is_librarys {
        Plan::Always
    } else {
        PLAN.get()
    }
}

/// The kind of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Question,
    Warning,
    Other,
}

fn called(kind: Kind) {
    let number = CALLS.get() + 1;
    CALLS.set(number);
    let panics = match plan() {
        Plan::Never => false,
        Plan::Warnings => kind == Kind::Warning,
        Plan::Nth(nth) => number == nth,
        Plan::Always => kind != Kind::Question,
    };
    if panics {
        PANICS.fetch_add(1, Ordering::Relaxed);
        // This prints nothing on standard error.
        resume_unwind(Box::new(Payload));
    }
}

impl Subscriber for Bomb {
    /// The subscriber is asked each time, because the plan changes.
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        if metadata.target() != "cuda_um" {
            return false;
        }
        let is_warning = *metadata.level() <= Level::WARN;
        if plan() == Plan::Warnings {
            return is_warning;
        }
        called(Kind::Question);
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        called(Kind::Question);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        called(Kind::Other);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {
        called(Kind::Other);
    }

    fn event(&self, event: &Event<'_>) {
        called(match *event.metadata().level() <= Level::WARN {
            true => Kind::Warning,
            false => Kind::Other,
        });
    }

    fn enter(&self, _: &Id) {
        called(Kind::Other);
    }

    fn exit(&self, _: &Id) {
        called(Kind::Other);
    }

    fn clone_span(&self, span: &Id) -> Id {
        called(Kind::Other);
        span.clone()
    }

    fn try_close(&self, _: Id) -> bool {
        called(Kind::Other);
        false
    }
}
