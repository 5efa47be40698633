//! Warnings and errors of the simulator on standard error, because a foreign program does not collect its events.

use std::collections::HashSet;
use std::fmt::{Debug, Write};
use std::sync::Mutex;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Prints every warning and error of the simulator, each text once.
pub(crate) fn to_standard_error() {
    // The library has its own copy of `tracing`: it cannot have a subscriber already.
    let _ = tracing::subscriber::set_global_default(Printer::default());
}

#[derive(Default)]
struct Printer {
    printed: Mutex<HashSet<String>>,
}

impl Subscriber for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = String::from("cuda-um-sim:");
        event.record(&mut Fields(&mut text));
        let mut printed = self
            .printed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        if !printed.contains(&text) {
            eprintln!("{text}");
            printed.insert(text);
        }
    }

    // Spans are not enabled.
    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

/// Appends the fields of an event to a text: the message alone, and every other field with its name.
struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
