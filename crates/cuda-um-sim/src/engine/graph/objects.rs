//! Objects of the program that graphs keep until they are destroyed: `cudaUserObject_t`.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::operation::HostWork;
use super::super::status::Code;
use super::super::stream::Completion;
use super::Graphs;

/// All objects of one simulator.
#[derive(Default)]
pub(super) struct Objects {
    /// By handle: the references to the object, and the call that destroys it.
    objects: HashMap<usize, (u32, HostWork)>,
    /// The references of each graph and each executable graph.
    held: HashMap<usize, Vec<usize>>,
    /// References that end with a launch.
    ending: Vec<(Arc<Completion>, Vec<usize>)>,
    /// Objects that no reference is left to.
    unused: Vec<HostWork>,
}

impl Objects {
    fn release(&mut self, object: usize, count: u32) -> Result<(), Code> {
        let found = self.objects.get_mut(&object).ok_or(Code::INVALID_VALUE)?;
        found.0 = found.0.checked_sub(count).ok_or(Code::INVALID_VALUE)?;
        if found.0 == 0 {
            let unused = self.objects.remove(&object);
            self.unused.extend(unused.map(|(_, destroy)| destroy));
        }
        Ok(())
    }

    /// A copy of a graph, or its executable form, has the same objects.
    pub(super) fn share(&mut self, graph: usize, with: usize) {
        let held = self.held.get(&graph).cloned().unwrap_or_default();
        for object in &held {
            if let Some((count, _)) = self.objects.get_mut(object) {
                *count += 1;
            }
        }
        if !held.is_empty() {
            self.held.insert(with, held);
        }
    }

    /// A graph ends; the last launch of an executable one may still run.
    pub(super) fn end(&mut self, graph: usize, last: Option<Arc<Completion>>) {
        let held = self.held.remove(&graph).unwrap_or_default();
        match last.filter(|last| last.get().is_none()) {
            Some(last) => self.ending.push((last, held)),
            None => held
                .into_iter()
                .for_each(|object| _ = self.release(object, 1)),
        }
    }
}

impl Graphs {
    /// Makes an object with so many references of the program.
    pub(crate) fn create_object(&mut self, destroy: HostWork, count: u32) -> usize {
        let handle = self.handles.fresh();
        self.objects.objects.insert(handle, (count, destroy));
        handle
    }

    pub(crate) fn retain_object(&mut self, object: usize, count: u32) -> Result<(), Code> {
        let found = self.objects.objects.get_mut(&object);
        found.ok_or(Code::INVALID_VALUE)?.0 += count;
        Ok(())
    }

    pub(crate) fn release_object(&mut self, object: usize, count: u32) -> Result<(), Code> {
        self.objects.release(object, count)
    }

    /// A graph gets references; they are those of the caller if it moves them.
    pub(crate) fn hold_object(
        &mut self,
        (graph, object): (usize, usize),
        count: u32,
        moves: bool,
    ) -> Result<(), Code> {
        self.nodes_of(graph)?;
        self.retain_object(object, if moves { 0 } else { count })?;
        let held = self.objects.held.entry(graph).or_default();
        held.extend(std::iter::repeat_n(object, count as usize));
        Ok(())
    }

    /// A graph gives references up.
    pub(crate) fn drop_object(
        &mut self,
        (graph, object): (usize, usize),
        count: u32,
    ) -> Result<(), Code> {
        let held = self
            .objects
            .held
            .get_mut(&graph)
            .ok_or(Code::INVALID_VALUE)?;
        for _ in 0..count {
            let at = held.iter().position(|it| *it == object);
            held.swap_remove(at.ok_or(Code::INVALID_VALUE)?);
        }
        self.objects.release(object, count)
    }

    /// Takes the calls that destroy unused objects. The caller must hold no lock when it makes them.
    pub(crate) fn unused_objects(&mut self) -> Vec<HostWork> {
        let ended = |(last, _): &mut (Arc<Completion>, _)| last.get().is_some();
        let ended: Vec<_> = self.objects.ending.extract_if(.., ended).collect();
        for object in ended.into_iter().flat_map(|(_, held)| held) {
            let _ = self.objects.release(object, 1);
        }
        std::mem::take(&mut self.objects.unused)
    }
}
