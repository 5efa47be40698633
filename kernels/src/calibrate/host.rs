//! The host's own work.

use super::session::{LARGE, Outcome, SMALL, Session, fresh, verify};
use std::hint::black_box;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The copy rate of one thread, and the time to wake another one.
pub(super) fn threads(session: &mut Session) -> Outcome<()> {
    if session.clock.is_virtual() {
        return Ok(());
    }
    // Larger copies have several threads.
    let piece = LARGE.min(1 << 20);
    let source = fresh(LARGE, 1);
    let mut pieces = source.chunks_exact(piece / size_of::<f32>()).cycle();
    let mut target = vec![0.0; piece / size_of::<f32>()];
    let seconds = session.median(piece, |_| {
        let from = pieces.next().unwrap_or_default();
        let time = session.clock.time(|| {
            black_box(&mut target[..]).copy_from_slice(black_box(from));
            Outcome::Ok(())
        });
        verify(&target, from, 1.0)?;
        time
    })?;
    session.rate("host_copy_bytes_per_s", piece as f64 / seconds);
    let wake = there_and_back(session)? / 2.0;
    session.time("thread_wake_us", wake);
    Ok(())
}

/// Seconds until a sleeping thread has answered; two threads are woken one after the other.
fn there_and_back(session: &Session) -> Outcome<f64> {
    let (ask, asked) = mpsc::channel::<u64>();
    let (answer, answered) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || asked.into_iter().try_for_each(|round| answer.send(round)));
        let seconds = session.median(SMALL, |round| {
            // Long enough for the other thread to fall asleep.
            thread::sleep(Duration::from_millis(1));
            session.clock.time(|| {
                ask.send(round)?;
                match answered.recv()? == round {
                    true => Outcome::Ok(()),
                    false => Err("another answer".into()),
                }
            })
        });
        // The other thread ends when the channel is closed.
        drop(ask);
        seconds
    })
}
