//! An interpreter of operations on ranges: each runs on a buffer and on a vector.

use std::ops::Range;

use cuda_um::{Advice, Device, Location, Stream};

use super::Make;
use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample, samples};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;

/// A buffer and another one, and what they hold.
pub(super) struct Subject<T: Element> {
    buffer: Box<dyn Buffer<T>>,
    model: Vec<T>,
    other: Box<dyn Buffer<T>>,
    other_model: Vec<T>,
    /// Of the buffer's device; `None` for memory of the CPU, on which operations with streams do nothing.
    streams: Option<[Stream; 2]>,
    /// What an operation read, and what it should have read.
    wrong: Option<(Vec<T>, Vec<T>)>,
}

/// An operation, and its name. It uses all elements, or a range, and writes `samples(seed, …)`.
pub(super) type Operation<T> = (
    &'static str,
    fn(&mut Subject<T>, Range<usize>, usize) -> Result<()>,
);

/// Copies from the other buffer, which need no stream.
pub(super) fn copies<T: Element>() -> Vec<Operation<T>> {
    vec![
        ("copy_from_buffer_at", |s, range, _| {
            let to = s.model.len() - range.end;
            s.model[to..to + range.len()].copy_from_slice(&s.other_model[range.clone()]);
            s.buffer.copy_from_buffer_at(to, &*s.other, range)
        }),
        ("copy_from_buffer", |s, _, _| {
            s.model.copy_from_slice(&s.other_model);
            s.buffer.copy_from_buffer(&*s.other)
        }),
        // The source is free at once.
        (
            "copy_from_buffer, then the source is written",
            |s, _, seed| {
                s.model.copy_from_slice(&s.other_model);
                s.buffer.copy_from_buffer(&*s.other)?;
                s.other_model = samples(seed, s.model.len());
                s.other.copy_from_host(&s.other_model)
            },
        ),
        ("copy_from_buffer, then the source is dropped", |s, _, _| {
            s.model.copy_from_slice(&s.other_model);
            s.buffer.copy_from_buffer(&*s.other)?;
            s.other = s.other.try_clone()?;
            Ok(())
        }),
    ]
}

pub(super) fn all<T: Element>() -> Vec<Operation<T>> {
    let mut all: Vec<Operation<T>> = vec![
        ("copy_from_host", |s, _, seed| {
            s.model = samples(seed, s.model.len());
            s.buffer.copy_from_host(&s.model)
        }),
        ("copy_from_host_at", |s, range, seed| {
            s.write(&range, seed);
            s.buffer
                .copy_from_host_at(range.start, &s.model[range.clone()])
        }),
        // The target is apart, overlaps, or is the source.
        ("copy_within", |s, range, _| {
            let to = (s.model.len() - range.len()).saturating_sub(range.start / 2);
            s.model.copy_within(range.clone(), to);
            s.buffer.copy_within(range, to)
        }),
        ("copy_to_host_at", |s, range, _| {
            let mut found = samples(900, range.len());
            s.buffer.copy_to_host_at(range.start, &mut found)?;
            s.sees(found, range)
        }),
        ("to_vec", |s, _, _| {
            s.sees(s.buffer.to_vec()?, 0..s.model.len())
        }),
        ("fill", |s, _, seed| {
            s.model.fill(sample(seed));
            s.buffer.fill(sample(seed))
        }),
        ("set_zero", |s, _, _| {
            s.model.fill(T::zeroed());
            s.buffer.set_zero()
        }),
        ("fill_range", |s, range, seed| {
            s.model[range.clone()].fill(sample(seed));
            s.buffer.fill_range(range, sample(seed))
        }),
        ("host", |s, _, _| {
            let found = s.buffer.host()?.to_vec();
            s.sees(found, 0..s.model.len())
        }),
        ("host_mut, closed", |s, range, seed| {
            let found = s.buffer.host()?.to_vec();
            s.sees(found, 0..s.model.len())?;
            s.write(&range, seed);
            let mut view = s.buffer.host_mut()?;
            view[range.clone()].copy_from_slice(&s.model[range]);
            view.close()
        }),
        ("host_mut, dropped", |s, range, seed| {
            s.write(&range, seed);
            s.buffer.host_mut()?[range.clone()].copy_from_slice(&s.model[range]);
            Ok(())
        }),
        ("write_to", |s, range, _| {
            let mut file = Vec::new();
            s.buffer.write_to(&mut file, range.clone())?;
            let mut found = samples(900, file.len() / size_of::<T>());
            bytemuck::cast_slice_mut(&mut found).copy_from_slice(&file);
            s.sees(found, range)
        }),
        ("read_from", |s, range, seed| {
            s.write(&range, seed);
            let mut file = bytemuck::cast_slice(&s.model[range.clone()]);
            s.buffer.read_from(&mut file, range)
        }),
        ("try_clone", |s, _, _| {
            s.buffer = s.buffer.try_clone()?;
            Ok(())
        }),
        ("advise_range", |s, range, _| {
            s.buffer
                .advise_range(range.clone(), Advice::SetReadMostly)?;
            let unset = s.buffer.advise_range(range, Advice::UnsetReadMostly);
            unset.map(drop)
        }),
        ("prefetch_range", |s, range, _| {
            let prefetched = s.buffer.prefetch_range(range, Location::Host);
            prefetched.map(drop)
        }),
        ("prefetch_range_on", |s, range, _| {
            let stream = &s.stream(1);
            let prefetched = s.buffer.prefetch_range_on(range, Location::Host, stream);
            prefetched.map(drop)
        }),
        ("copy_from_host_on", |s, _, seed| {
            let stream = &s.stream(0);
            let mut source = samples(seed, s.model.len());
            s.model.copy_from_slice(&source);
            s.buffer.copy_from_host_on(&source, stream)?;
            source.fill(T::zeroed()); // It is free at once.
            Ok(())
        }),
        ("copy_to_host_on", |s, _, _| {
            let stream = &s.stream(1);
            let mut found = samples(900, s.model.len());
            s.buffer.copy_to_host_on(&mut found, stream)?;
            s.sees(found, 0..s.model.len())
        }),
        ("fill_on", |s, _, seed| {
            let stream = &s.stream(1);
            s.model.fill(sample(seed));
            s.buffer.fill_on(sample(seed), stream)
        }),
        ("copy_from_buffer_on", |s, _, _| {
            let stream = &s.stream(0);
            s.model.copy_from_slice(&s.other_model);
            s.buffer.copy_from_buffer_on(&*s.other, stream)
        }),
        ("copy_from_buffer to the other one", |s, _, _| {
            s.other_model.copy_from_slice(&s.model);
            s.other.copy_from_buffer(&*s.buffer)
        }),
    ];
    all.extend(copies());
    all
}

impl<T: Element> Subject<T> {
    pub(super) fn new(
        rule: Rule,
        make: Make<'_, T>,
        other: Make<'_, T>,
        len: usize,
    ) -> Verdict<Self> {
        let (buffer, model) = made_with(rule, make, 1, len)?;
        let (other, other_model) = made_with(rule, other, 600, len)?;
        let two = |device: &Device| Ok([device.create_stream()?, device.create_stream()?]);
        let streams = buffer.device().map(two).transpose();
        Ok(Self {
            streams: rule.works("create_stream", streams)?,
            buffer,
            model,
            other,
            other_model,
            wrong: None,
        })
    }

    pub(super) fn check(&self, rule: Rule, when: &str) -> Verdict {
        rule.has(&*self.buffer, &self.model, when)?;
        let when = format!("{when}, in the other buffer");
        rule.has(&*self.other, &self.other_model, &when)
    }

    /// Runs an operation on the buffer and on the model, and compares what it reads.
    pub(super) fn run(
        &mut self,
        rule: Rule,
        operation: Operation<T>,
        range: Range<usize>,
        seed: usize,
    ) -> Verdict {
        let (name, run) = operation;
        if name.ends_with("_on") && self.streams.is_none() {
            return Ok(());
        }
        let what = format!("{name}, {range:?} of {}", self.model.len());
        let outcome = run(self, range, seed);
        rule.works(&what, outcome)?;
        match self.wrong.take() {
            Some((found, expected)) => rule.equal(&found, &expected, &what),
            None => Ok(()),
        }
    }

    fn stream(&self, number: usize) -> Stream {
        let streams = self.streams.as_ref().expect("checked by `run`");
        streams[number].clone()
    }

    fn write(&mut self, range: &Range<usize>, seed: usize) {
        self.model[range.clone()].copy_from_slice(&samples(seed, range.len()));
    }

    fn sees(&mut self, found: Vec<T>, place: Range<usize>) -> Result<()> {
        if found != self.model[place.clone()] {
            self.wrong = Some((found, self.model[place].to_vec()));
        }
        Ok(())
    }
}
