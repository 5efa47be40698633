//! Holding a simulator's streams, so that work is in flight for sure, and letting them go while the host waits.

use cuda_um_sim::{PauseGuard, Sim};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Streams that are held. A thread of its own has the guard, so that they are let go whatever the host waits for.
pub struct Hold {
    soon: Sender<()>,
    released: Receiver<Result<(), String>>,
}

/// How long the host has to begin waiting. Whether it does decides what is seen, never whether a right library passes.
const SOON: Duration = Duration::from_micros(100);
/// Whoever waits as long waits for the streams, in an operation that must not.
const OVERDUE: Duration = Duration::from_secs(10);

impl Hold {
    pub fn new(sim: &Sim) -> Self {
        let (soon, asked) = channel();
        let (done, released) = channel();
        let guard: PauseGuard = sim.pause();
        std::thread::spawn(move || {
            let outcome = match asked.recv_timeout(OVERDUE) {
                Ok(()) => {
                    std::thread::sleep(SOON);
                    Ok(())
                }
                Err(RecvTimeoutError::Disconnected) => Ok(()),
                Err(RecvTimeoutError::Timeout) => {
                    // Before they go on, so that who waits finds it.
                    let waited = "it waited for streams that are held";
                    let _ = done.send(Err(waited.to_owned()));
                    return;
                }
            };
            drop(guard);
            let _ = done.send(outcome);
        });
        Self { soon, released }
    }

    /// The host is about to wait.
    pub fn release_soon(&self) {
        let _ = self.soon.send(());
    }

    /// They are still held, unless somebody waited for them in vain.
    pub fn check(&self) -> Result<(), String> {
        self.released.try_recv().unwrap_or(Ok(()))
    }

    /// Returns when they are let go.
    pub fn released(self) -> Result<(), String> {
        drop(self.soon);
        let released = self.released.recv();
        released.map_err(|_| "the thread that holds the streams is gone".to_owned())?
    }
}
