//! How a processor reaches the pages of a block.

use super::Touch;
use super::block::Block;
use crate::engine::managed::allocation::{Managed, Run};
use crate::engine::managed::page::{HOST, Page, Processor, Processors, common};
use crate::engine::managed::reach::Reach;

/// How the processor reaches the touched pages of a block. Masks have one bit for each 64 KiB page.
#[derive(Default)]
pub(super) struct Classes {
    /// Pages that fault and are brought.
    pub(super) faulting: u32,
    /// Pages that fault and are mapped over the link.
    pub(super) mapping: u32,
    /// Pages that are not wholly resident at the processor, touched or not.
    pub(super) absent: u32,
    /// A block that prefers the host is not completed by the faults of a device.
    pub(super) no_density: bool,
    /// Pages of 4 KiB that are reached over the link.
    pub(super) remote_pages: u64,
    /// Those of them that another device has, by its ordinal.
    pub(super) peer_pages: Vec<(usize, u64)>,
    /// Pages to map at this processor, over the link.
    pub(super) to_map: Vec<(Run, Processor)>,
    /// Pages that are mapped already, and the state to which the access changes them.
    pub(super) to_update: Vec<(Run, Page)>,
}

impl Touch<'_, '_> {
    /// Finds how the processor reaches each page of a block.
    pub(super) fn classify(&self, block: &Block, managed: &Managed) -> Classes {
        let mut classes = Classes::default();
        for run in managed.runs(&block.pages) {
            if !run.page.resident.contains(self.processor) {
                classes.absent |= block.leaf_mask(&run.pages);
            }
            for (part, write) in &block.touched {
                let pages = common(&run.pages, part);
                if !pages.is_empty() {
                    let touched = Run {
                        pages,
                        ..run.clone()
                    };
                    self.classify_run(block, touched, *write, &mut classes);
                }
            }
        }
        classes
    }

    fn classify_run(&self, block: &Block, run: Run, write: bool, classes: &mut Classes) {
        let prefers_host = run
            .advice
            .preferred
            .is_some_and(|place| place.processor() == HOST);
        classes.no_density |= self.processor != HOST && prefers_host;
        match self.driver.reach(self.processor, &run, write) {
            Reach::Local => {}
            Reach::Collapse | Reach::Fault => classes.faulting |= block.leaf_mask(&run.pages),
            Reach::Remote => {
                let holder = run.page.resident.device_first().unwrap_or(HOST);
                self.add_remote(classes, &run, holder);
                classes.to_update.extend(self.update_of(run, write));
            }
            Reach::MapRemote(holder) => {
                classes.mapping |= block.leaf_mask(&run.pages);
                self.add_remote(classes, &run, holder);
                classes.to_map.push((run, holder));
            }
        }
    }

    fn add_remote(&self, classes: &mut Classes, run: &Run, holder: Processor) {
        let pages = run.pages.len() as u64;
        classes.remote_pages += pages;
        if let (Some(_), Some(peer)) = (self.processor.ordinal(), holder.ordinal()) {
            classes.peer_pages.push((peer, pages));
        }
    }

    /// The new state of pages that are reached over the link without a fault, if it changes.
    fn update_of(&self, run: Run, write: bool) -> Option<(Run, Page)> {
        let mut page = run.page;
        if self.processor == HOST {
            // The pages may be mapped by advice only, which a migration does not end: the host's view follows now.
            page.mapped = page.mapped.with(HOST);
        }
        if write && page.resident.len() > 1 {
            let keep = page.resident.device_first().unwrap_or(HOST);
            page.resident = Processors::only(keep);
        }
        (page != run.page).then_some((run, page))
    }
}
