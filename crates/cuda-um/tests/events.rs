//! The events that the library emits; a default subscriber does not print them.

use cuda_um::{Advice, DeviceBuffer, Error, Location, Stream, UnifiedBuffer};
use cuda_um_testkit::{Add, device};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The fields of an event: their names and values.
type Fields = Vec<(&'static str, String)>;

/// Records the events, with their levels.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, Fields)>>>);

struct Values(Fields);

impl Visit for Values {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cuda_um"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut values = Values(Vec::new());
        event.record(&mut values);
        let level = *event.metadata().level();
        self.0.lock().unwrap().push((level, values.0));
    }

    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

/// Held by each test: `tracing` keeps for the whole process which events a subscriber wants, so a test must not begin or end within another.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn every_operation_is_an_event_with_its_fields() {
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
        add.run(&stream, &mut data, 1000, 1);
        data.prefetch_on(Location::Host, &stream).unwrap();
        data.copy_from_host(&[1; 1000]).unwrap();
        drop(data.host().unwrap());
        drop(data);
    });
    let events = log.0.lock().unwrap();
    for what in [
        "Allocate",
        "Fill",
        "Advise(SetPreferredLocation(Device(0)))",
        "Launch { kernel: \"add\", grid: [4, 1, 1], block: [256, 1, 1] }",
        "Prefetch { to: Host }",
        "Copy",
        "Host { waits: true }",
        "Free",
    ] {
        let is_it = |(_, fields): &&(_, Fields)| fields.contains(&("message", what.to_owned()));
        let found = events.iter().find(is_it);
        let (level, fields) = found.unwrap_or_else(|| panic!("no {what} in {events:?}"));
        // A default subscriber shows INFO and above.
        assert_eq!(*level, Level::DEBUG, "{what}");
        for (name, value) in [
            ("device", "0"),
            ("title", "\"UnifiedBuffer<u32>[1000]\""),
            ("range", "Some(0..4000)"),
            ("elided", "false"),
        ] {
            assert!(
                fields.contains(&(name, value.to_owned())),
                "{what}: {fields:?}"
            );
        }
    }
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
