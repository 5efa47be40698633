//! The events that the library emits; a default subscriber does not print them.

use cuda_um::{Advice, Error, Location, Stream, UnifiedBuffer};
use cuda_um_testkit::{Add, device};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The fields of an event: their names and values.
type Fields = Vec<(&'static str, String)>;

/// Records the events, with their levels, and what it gets for a capture of the stream, with a closure that panics.
#[derive(Clone)]
struct Log {
    events: Arc<Mutex<Vec<(Level, Fields)>>>,
    stream: Stream,
    captures: Arc<Mutex<Vec<cuda_um::Result<()>>>>,
}

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
        self.events.lock().unwrap().push((level, values.0));
        let capture = self.stream.capture(|_| panic!("in a subscriber's capture"));
        self.captures.lock().unwrap().push(capture.map(drop));
    }

    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[test]
fn every_operation_is_an_event_with_its_fields_in_which_nothing_is_captured() {
    let (_sim, device, stream) = device();
    if !cuda_um_testkit::is_concurrent(&device) {
        return;
    }
    let log = Log {
        events: Arc::default(),
        stream: stream.clone(),
        captures: Arc::default(),
    };
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
    stream.capture(|_| Ok(())).unwrap();
    for capture in &*log.captures.lock().unwrap() {
        assert!(matches!(capture, Err(Error::Capture { .. })), "{capture:?}");
    }
    let events = log.events.lock().unwrap();
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
