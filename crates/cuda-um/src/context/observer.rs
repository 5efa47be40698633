//! What the library tells a profiler, if one runs: buffers that are made and dropped, and operations.
//!
//! With none running, each of these functions is one relaxed load of an atomic; without the feature `profile`, nothing.
//! What happens with it is the business of `profile`.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::managed::advice::Advice;
use crate::resource::allocation::RawBuffer;
use std::ops::Range;

#[cfg(feature = "profile")]
use crate::profile::session;

/// What an operation was.
#[cfg_attr(not(feature = "profile"), allow(dead_code, reason = "nobody listens"))]
pub(crate) enum What<'a> {
    Launch(&'a str),
    Prefetch { to: Location, left_out: bool },
    Advise(Advice),
    Copy,
    Fill,
}

/// A part of a buffer that an operation concerns.
#[cfg_attr(not(feature = "profile"), allow(dead_code, reason = "nobody listens"))]
pub(crate) struct Part<'a> {
    pub(crate) raw: &'a RawBuffer,
    /// Bytes of the buffer.
    pub(crate) bytes: Range<usize>,
    pub(crate) write: bool,
}

impl<'a> Part<'a> {
    /// All of a buffer.
    pub(crate) fn whole(raw: &'a RawBuffer, access: Access) -> Self {
        Self {
            raw,
            bytes: 0..raw.bytes(),
            write: access == Access::Write,
        }
    }
}

/// An operation that has begun. If it fails, this is just dropped.
#[must_use = "say when it is done"]
pub(crate) struct Started {
    #[cfg(feature = "profile")]
    at: Option<u64>,
}

impl Started {
    /// An operation on the device begins.
    #[inline]
    pub(crate) fn now(device: &Device) -> Self {
        #[cfg(not(feature = "profile"))]
        let _ = device;
        Self {
            #[cfg(feature = "profile")]
            at: if session::is_active() {
                session::now(device)
            } else {
                None
            },
        }
    }

    /// It was done, or enqueued on the stream.
    #[inline]
    pub(crate) fn done<'p>(
        self,
        what: What<'_>,
        device: &Device,
        stream: Option<&StreamInner>,
        parts: impl IntoIterator<Item = Part<'p>>,
    ) {
        #[cfg(feature = "profile")]
        if let Some(start) = self.at {
            let parts = parts.into_iter().collect();
            session::operation(start, &what, device, stream, parts);
        }
        #[cfg(not(feature = "profile"))]
        let _ = (self, what, device, stream, parts);
    }
}

/// The host may touch a buffer from when this is made until it is dropped.
pub(crate) struct HostUse {
    #[cfg(feature = "profile")]
    token: Option<session::Token>,
}

impl HostUse {
    #[inline]
    pub(crate) fn begin(raw: &RawBuffer, access: Access) -> Self {
        #[cfg(not(feature = "profile"))]
        let _ = (raw, access);
        Self {
            #[cfg(feature = "profile")]
            token: if session::is_active() {
                session::host_begins(Part::whole(raw, access))
            } else {
                None
            },
        }
    }
}

#[cfg(feature = "profile")]
impl Drop for HostUse {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            session::host_ends(token);
        }
    }
}

/// A buffer was made, or got its label or name.
#[inline]
pub(crate) fn made(raw: &RawBuffer) {
    #[cfg(feature = "profile")]
    if session::is_active() {
        session::made(raw);
    }
    #[cfg(not(feature = "profile"))]
    let _ = raw;
}

/// A buffer is dropped.
#[inline]
pub(crate) fn dropped(raw: &RawBuffer) {
    #[cfg(feature = "profile")]
    if session::is_active() {
        session::dropped(raw);
    }
    #[cfg(not(feature = "profile"))]
    let _ = raw;
}
