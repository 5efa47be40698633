//! The buffers of an arena by number. The number of a dropped buffer is never that of another one.

use crate::entry::Entry;

/// The number of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    index: u32,
    /// Counts the buffers that had the index.
    life: u32,
}

impl Id {
    /// No buffer.
    pub(crate) const NONE: Self = Self {
        index: u32::MAX,
        life: u32::MAX,
    };
}

#[derive(Default)]
pub(crate) struct Entries {
    /// How many buffers the index had before, and the buffer that has it.
    list: Vec<(u32, Option<Entry>)>,
    free: Vec<u32>,
}

impl Entries {
    pub(crate) fn add(&mut self, entry: Entry) -> Id {
        let index = self.free.pop().unwrap_or_else(|| {
            self.list.push((0, None));
            u32::try_from(self.list.len() - 1).expect("fewer buffers than 2^32")
        });
        let (life, place) = &mut self.list[index as usize];
        *place = Some(entry);
        Id { index, life: *life }
    }

    pub(crate) fn remove(&mut self, id: Id) -> Option<Entry> {
        self.get(id)?;
        let (life, place) = &mut self.list[id.index as usize];
        *life += 1;
        // The last life is not used up.
        if *life < u32::MAX {
            self.free.push(id.index);
        }
        place.take()
    }

    pub(crate) fn get(&self, id: Id) -> Option<&Entry> {
        let (life, place) = self.list.get(id.index as usize)?;
        place.as_ref().filter(|_| *life == id.life)
    }

    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Entry> {
        let (life, place) = self.list.get_mut(id.index as usize)?;
        place.as_mut().filter(|_| *life == id.life)
    }
}
