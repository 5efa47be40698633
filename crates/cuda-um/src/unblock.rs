//! Waiting on another thread, for futures on any executor.

use crate::error::Result;
use crate::fork::Origin;
use crate::sync::caught;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Does `work`, which waits, on a thread of `blocking`. Not part of the interface: `um-backend` has it, too.
///
/// # Errors
///
/// That of `work`; [`Error::Forked`](crate::Error::Forked) in a child made by `fork` meanwhile, where there is no such thread.
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

/// A waker, which is foreign code: `blocking` ends the process where one panics, so the panic ends here.
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
