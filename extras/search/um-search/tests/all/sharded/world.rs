//! A world of threads, connected by channels.

use std::error::Error;
use std::sync::mpsc::{Receiver, Sender, channel};
use um_search::World;

type Failure = Box<dyn Error + Send + Sync>;

/// A rank: it sends to each other one, and receives from each. When it is dropped, the others learn that it is lost.
pub struct Rank {
    number: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    /// Changes the messages that arrive.
    pub mixes_up: fn(&mut Vec<Vec<u8>>),
}

/// All ranks of a world.
pub fn world(size: usize) -> Vec<Rank> {
    let rank = |number| Rank {
        number,
        to: Vec::new(),
        from: Vec::new(),
        mixes_up: |_| (),
    };
    let mut ranks: Vec<_> = (0..size).map(rank).collect();
    for from in 0..size {
        for to in 0..size {
            let (sender, receiver) = channel();
            ranks[from].to.push(sender);
            // The order of the senders, because each has its turn.
            ranks[to].from.push(receiver);
        }
    }
    ranks
}

/// Runs each rank on a thread.
pub fn each<R: Send>(size: usize, run: impl Fn(usize, Rank) -> R + Sync) -> Vec<R> {
    std::thread::scope(|threads| {
        let run = &run;
        let ranks = world(size).into_iter().enumerate();
        let ranks = ranks.map(|(number, rank)| threads.spawn(move || run(number, rank)));
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

impl World for Rank {
    fn rank(&self) -> usize {
        self.number
    }

    fn size(&self) -> usize {
        self.to.len()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        for to in &self.to {
            // A rank that is lost does not listen; the receiver's end tells it.
            let _ = to.send(bytes.to_vec());
        }
        let received = self.from.iter().map(Receiver::recv).enumerate();
        let received =
            received.map(|(from, bytes)| bytes.map_err(|_| format!("rank {from} is lost")));
        let mut all = received.collect::<Result<_, _>>()?;
        (self.mixes_up)(&mut all);
        Ok(all)
    }
}

/// A world whose bytes are changed on their way from this rank.
pub struct Changed<C>(pub Rank, pub C);

impl<C: Fn(&mut Vec<u8>)> World for Changed<C> {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        let mut changed = bytes.to_vec();
        self.1(&mut changed);
        self.0.all_gather(&changed)
    }
}
