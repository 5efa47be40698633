//! Objects that release themselves: streams, events, pools, graphs, and kernels that hold a stream.

use super::{At, Called, Calls, Code, Cuda, Memory, Place, Span, ok};
use cuda_um_sys as sys;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A kind of object, and the function that releases it.
pub(crate) trait Kind {
    const RELEASE: fn(&Cuda<'_>, usize) -> Called;
}

/// An object of CUDA, released when dropped if the case owns it.
pub(crate) struct Object<'c, K: Kind> {
    pub(crate) cuda: &'c Cuda<'c>,
    raw: usize,
    is_owned: bool,
    kind: PhantomData<K>,
}

macro_rules! kinds {
    ($($object:ident: $kind:ident $release:ident;)*) => { $(
        pub(crate) struct $kind;
        pub(crate) type $object<'c> = Object<'c, $kind>;

        impl Kind for $kind {
            const RELEASE: fn(&Cuda<'_>, usize) -> Called = |c, raw| c.$release(raw);
        }
    )* };
}

kinds! {
    Stream: StreamKind stream_destroy;
    Event: EventKind event_destroy;
    Pool: PoolKind pool_destroy;
    Graph: GraphKind graph_destroy;
    Exec: ExecKind exec_destroy;
}

impl<'c, K: Kind> Object<'c, K> {
    /// An object that this case releases.
    pub(crate) fn owned(cuda: &'c Cuda<'c>, raw: usize) -> Self {
        Self {
            is_owned: true,
            ..Self::borrowed(cuda, raw)
        }
    }

    /// An object that something else releases, or a special handle.
    pub(crate) fn borrowed(cuda: &'c Cuda<'c>, raw: usize) -> Self {
        Self {
            cuda,
            raw,
            is_owned: false,
            kind: PhantomData,
        }
    }

    /// Releases it now, also if the case does not own it: then CUDA refuses it.
    pub(crate) fn destroy(mut self) -> Called {
        self.is_owned = false;
        K::RELEASE(self.cuda, self.raw)
    }
}

impl<K: Kind> At for &Object<'_, K> {
    fn at(self) -> usize {
        self.raw
    }
}

impl<K: Kind> Drop for Object<'_, K> {
    fn drop(&mut self) {
        if self.is_owned
            && let Err(code) = K::RELEASE(self.cuda, self.raw)
        {
            self.cuda.late.borrow_mut().push(code.to_string());
        }
    }
}

impl<'c> Cuda<'c> {
    /// A stream that does not wait for the legacy default stream.
    pub(crate) fn stream(&'c self) -> Stream<'c> {
        self.stream_with(sys::cudaStreamNonBlocking)
    }

    /// A stream.
    pub(crate) fn stream_with(&'c self, flags: u32) -> Stream<'c> {
        Stream::owned(self, ok(self.stream_create(flags)))
    }

    /// A default stream: 0 or [`LEGACY`](super::LEGACY), or [`PER_THREAD`](super::PER_THREAD); or a stream of another thread's
    /// interface, which outlives this one.
    pub(crate) fn stream_at(&'c self, raw: usize) -> Stream<'c> {
        Stream::borrowed(self, raw)
    }

    /// An event.
    pub(crate) fn event(&'c self, flags: u32) -> Event<'c> {
        Event::owned(self, ok(self.event_create(flags)))
    }

    /// An event without timing.
    pub(crate) fn mark(&'c self) -> Event<'c> {
        self.event(sys::cudaEventDisableTiming)
    }

    /// No event: the null handle.
    pub(crate) fn no_event(&'c self) -> Event<'c> {
        Event::borrowed(self, 0)
    }

    /// Holds a stream. Allocate before this call, because allocating and freeing may wait for the device.
    pub(crate) fn gate(&'c self, stream: &Stream<'_>) -> Gate<'c> {
        let flag = self.pinned(8, sys::cudaHostAllocMapped | sys::cudaHostAllocPortable);
        flag.fill_all(0);
        let event = self.mark();
        self.launch_wait(&flag, PATIENCE_NANOSECONDS, stream);
        ok(event.record(stream));
        Gate { flag, event }
    }
}

/// Rows of a call with the object as its first argument.
macro_rules! forms {
    ($($name:ident($($argument:ident: $kind:ty),*): $call:ident;)*) => { $(
        pub(crate) fn $name(&self, $($argument: $kind),*) -> Called {
            self.cuda.$call(self, $($argument),*)
        }
    )* };
}
pub(super) use forms;

/// Rows of a word for the work of a stream, which must succeed; it returns the stream.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*): |$s:ident, $c:ident| $work:expr;)*) => { $(
        $(#[$doc])*
        #[track_caller]
        pub(crate) fn $name(&self, $($argument: $kind),*) -> &Self {
            let ($s, $c) = (self, self.cuda);
            $work;
            self
        }
    )* };
}

impl Stream<'_> {
    forms! {
        synchronize(): stream_synchronize;
        query(): stream_query;
        begin(mode: u32): begin_capture;
    }

    words! {
        /// A call has succeeded.
        did(got: Called): |_s, _c| ok(got);
        /// A kernel adds to every element.
        add(memory: &Memory<'_>, amount: u32): |s, c| c.add(memory, amount, s);
        /// A kernel copies.
        read(from: &Memory<'_>, to: &Memory<'_>): |s, c| c.read(from, to, s);
        set(memory: &Memory<'_>, byte: i32): |s, c| ok(c.memset_async(memory, byte, memory.bytes(), s));
        copy(to: &Memory<'_>, from: &Memory<'_>): |s, c| ok(c.copy_async(to, from, 4, s));
        prefetch(range: impl Span, to: Place): |s, c| ok(c.prefetch(range, to, s));
        record(event: &Event<'_>): |s, _c| ok(event.record(s));
        /// Later work comes after the event.
        join(event: &Event<'_>): |s, _c| ok(s.wait(event));
        free(memory: Memory<'_>): |s, _c| ok(memory.free_on(s));
        /// The host waits.
        sync(): |s, _c| ok(s.synchronize());
        /// For the rule: a graph is launched.
        launch(exec: &Exec<'_>): |s, c| c.succeeds("cudaGraphLaunch", exec.launch(s));
        /// For the rule: the stream has work.
        pending(what: impl AsRef<str>): |s, c| c.gives(what, s.query(), NOT_READY);
        /// For the rule: waiting for the stream succeeds.
        done(what: impl AsRef<str>): |s, c| c.succeeds(what, s.synchronize());
        /// For the rule: after the work, all elements of a memory have this value.
        after(what: impl AsRef<str>, of: &Memory<'_>, value: u32): |s, c| c.is(what, s.sync().seen(of), value);
        /// For the rule: waiting succeeds, and then all elements of a memory have this value.
        ends(what: impl AsRef<str>, of: &Memory<'_>, value: u32):
            |s, c| c.is(what, s.done("cudaStreamSynchronize").seen(of), value);
    }

    /// Later work of the stream comes after the event.
    pub(crate) fn wait(&self, event: &Event<'_>) -> Called {
        self.cuda.stream_wait(self, event, 0)
    }

    /// The value of all elements of a memory, read by the host where it can, otherwise copied.
    fn seen(&self, of: &Memory<'_>) -> u32 {
        if of.on_host {
            of.value_all()
        } else {
            self.cuda.device_value(of)
        }
    }
}

impl Event<'_> {
    forms! {
        record(stream: &Stream<'_>): event_record;
        query(): event_query;
        synchronize(): event_synchronize;
    }

    #[track_caller]
    pub(crate) fn sync(&self) {
        ok(self.synchronize());
    }
}

/// `cudaErrorNotReady`
pub(crate) const NOT_READY: Code = Code(600, "");

/// The kernel of a gate ends by itself after this time, so that no GPU hangs.
const PATIENCE_NANOSECONDS: u64 = 4_000_000_000;

/// A kernel that holds a stream, so that work stays in flight for as long as a case needs, also on a GPU. Opened by `open`, or
/// when dropped.
pub(crate) struct Gate<'c> {
    flag: Memory<'c>,
    event: Event<'c>,
}

impl Gate<'_> {
    /// Releases the stream, and waits for the kernel.
    pub(crate) fn open(self) {
        self.release();
        ok(self.event.synchronize());
        let ended = self.flag.value(1..2);
        assert!(
            ended == 1,
            "something waited for the held stream before the gate was opened"
        );
    }

    /// Makes a call while the stream is held, and releases the stream from another thread. Returns whether the call waited for
    /// the release, and the result of the call. The outcome does not depend on time: a call that must wait returns after the
    /// release, however late that is.
    pub(crate) fn across<T>(&self, call: impl FnOnce() -> T) -> (bool, T) {
        let (opened, flag) = (AtomicBool::new(false), self.flag.word(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                opened.store(true, Ordering::SeqCst);
                flag.store(1, Ordering::Release);
            });
            let got = call();
            (opened.load(Ordering::SeqCst), got)
        })
    }

    /// For the rule: a call waits for the held stream, and succeeds.
    pub(crate) fn waits<T>(&self, what: impl AsRef<str>, call: impl FnOnce() -> Called<T>) {
        let (waited, got) = self.across(call);
        self.event.cuda.succeeds(what, got);
        self.event.cuda.holds("it waited", waited);
    }

    /// For the rule: something is not ready while the stream is held. Then releases the stream, and waits for the kernel.
    pub(crate) fn opens(self, what: impl AsRef<str>, query: Called) {
        self.event.cuda.gives(what, query, NOT_READY);
        self.open();
    }

    /// Releases the stream without waiting.
    pub(crate) fn release(&self) {
        self.flag.word(0).store(1, Ordering::Release);
    }
}

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.release();
        if let Err(code) = self.event.synchronize() {
            self.event.cuda.late.borrow_mut().push(code.to_string());
        }
    }
}
