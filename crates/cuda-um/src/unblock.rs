//! Runs waiting work on another thread, for futures on any executor.

use crate::error::Result;
use crate::fork::Origin;
use crate::sync::caught;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Runs `work`, which may block, on a thread of `blocking`. Not part of the public interface: `um-backend` uses it.
///
/// # Errors
///
/// Errors of `work`; [`Error::Forked`](crate::Error::Forked) in a child made by `fork` after the call, because the thread does not
/// exist there.
#[doc(hidden)]
pub async fn unblock<R: Send + 'static>(
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    let origin = Origin::here();
    let mut task = blocking::unblock(work);
    poll_fn(move |context| {
        origin.check("a future")?;
        let waker = Waker::from(Arc::new(Contained(Some(context.waker().clone()))));
        Pin::new(&mut task).poll(&mut Context::from_waker(&waker))
    })
    .await
}

/// A waker is foreign code. A panic in it is caught here, because `blocking` would abort the process.
struct Contained(Option<Waker>);

impl Wake for Contained {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        caught(|| self.0.as_ref().map(Waker::wake_by_ref));
    }
}

impl Drop for Contained {
    fn drop(&mut self) {
        let waker = self.0.take();
        caught(|| drop(waker));
    }
}
