//! The spans that the library emits; a default subscriber does not print them.

use cuda_um::{Advice, DeviceBuffer, Error, Location, Stream, UnifiedBuffer};
use cuda_um_testkit::{Add, device};
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The fields of a span: their names and values.
type Span = Vec<(&'static str, String)>;

/// Records the fields of spans, and the levels of all spans and events.
#[derive(Clone, Default)]
struct Log {
    spans: Arc<Mutex<Vec<Span>>>,
    levels: Arc<Mutex<Vec<Level>>>,
    next: Arc<AtomicU64>,
}

struct Fields(Span);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_um"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields(Vec::new());
        span.record(&mut fields);
        self.spans.lock().unwrap().push(fields.0);
        self.levels.lock().unwrap().push(*span.metadata().level());
        Id::from_u64(self.next.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        self.levels.lock().unwrap().push(*event.metadata().level());
    }

    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Held by each test: `tracing` keeps for the whole process which spans a subscriber wants, so a test must not begin or end within another.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_operation_is_a_span_with_its_fields() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_sim, device, stream) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    let log = Log::default();
    tracing::subscriber::with_default(log.clone(), || {
        let add = Add::load(&device);
        let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        data.advise(Advice::SetPreferredLocation(Location::from(&device)))
            .unwrap();
        add.launch(&stream, 1000, (&mut data, 1000u32, 1u32))
            .unwrap();
        data.prefetch_on(Location::Host, &stream).unwrap();
        data.copy_from_host(&[1; 1000]).unwrap();
        drop(data.host().unwrap());
    });
    let spans = log.spans.lock().unwrap();
    for what in [
        "Fill",
        "Advise(SetPreferredLocation(Device(0)))",
        "Launch { kernel: \"add\", grid: [4, 1, 1], block: [256, 1, 1] }",
        "Prefetch { to: Host }",
        "Copy",
        "Host { waits: true }",
    ] {
        let found = spans.iter().find(|span| span[0].1 == what);
        let found = found.unwrap_or_else(|| panic!("no {what} in {spans:?}"));
        let names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["what", "device", "buffer", "bytes"], "{what}");
        assert_eq!(found[3].1, "4000", "{what}");
    }
    // A default subscriber shows INFO and above.
    let levels = log.levels.lock().unwrap();
    assert!(levels.len() > 10 && levels.iter().all(|level| *level == Level::DEBUG));
}

/// Captures at its first event, with a closure that panics.
struct Captures(Mutex<Option<Stream>>, Arc<Mutex<Vec<cuda_um::Result<()>>>>);

impl Subscriber for Captures {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_um"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        let stream = self.0.lock().unwrap().take();
        if let Some(stream) = stream {
            let refused = stream.capture(|_| panic!("in a subscriber's capture"));
            self.1.lock().unwrap().push(refused.map(drop));
        }
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A panic in its closure leaves nothing.
#[test]
fn a_subscriber_captures_nothing() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_sim, device, stream) = device();
    let refusals = Arc::default();
    let captures = Captures(Mutex::new(Some(stream.clone())), Arc::clone(&refusals));
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
    tracing::subscriber::with_default(captures, || {
        drop(UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap());
        data.fill_on(9, &stream).unwrap();
    });
    assert_eq!(data.to_vec().unwrap(), [9; 10]);
    stream.capture(|_| Ok(())).unwrap();
    let refusals = refusals.lock().unwrap();
    assert!(
        matches!(refusals[..], [Err(Error::Capture { .. })]),
        "{refusals:?}"
    );
}
