//! What is known of a buffer's blocks.

use crate::resource::cache::Place;
use crate::resource::cache::extent::Extent;
use crate::resource::cache::neighbours::Stamp;

/// By blocks of 2 MiB of addresses, of which the first and the last may belong to other buffers, too.
#[derive(Default)]
pub(crate) enum Known {
    #[default]
    Nothing,
    /// All of it is there, unless something has happened to the first or last block since.
    Whole(Place, [Stamp; 2]),
    Blocks(Vec<Option<(Place, Stamp)>>),
}

impl Known {
    pub(crate) fn as_blocks(&mut self, extent: &Extent<'_>) -> &mut Vec<Option<(Place, Stamp)>> {
        let blocks = extent.blocks();
        let unfolded = match self {
            Self::Nothing => Some(vec![None; blocks.len()]),
            Self::Whole(place, [first, last]) => {
                let mut all = vec![Some((*place, *first)); blocks.len()];
                if let Some(entry) = all.last_mut() {
                    *entry = Some((*place, if blocks.len() > 1 { *last } else { *first }));
                }
                Some(all)
            }
            Self::Blocks(_) => None,
        };
        if let Some(blocks) = unfolded {
            *self = Self::Blocks(blocks);
        }
        match self {
            Self::Blocks(blocks) => blocks,
            _ => unreachable!("unfolded above"),
        }
    }

    /// Forgets what is not at this place.
    pub(crate) fn keep(&mut self, place: Option<Place>) {
        match self {
            Self::Nothing => {}
            Self::Whole(at, _) if Some(*at) == place => {}
            Self::Whole(..) => *self = Self::Nothing,
            Self::Blocks(blocks) => {
                for entry in blocks {
                    *entry = entry.filter(|(at, _)| Some(*at) == place);
                }
            }
        }
    }
}
