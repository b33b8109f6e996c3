//! Threads that compress blocks in turn: what comes back is in the order of what was
//! given, however many threads there are. A bounded number of blocks is under way.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Scope;

use super::gzip::compress;
use crate::scan::start;
use oci::error::{Error, Kind, Result};

/// More threads would only take memory: a few outrun any disk.
const MOST: usize = 8;
/// Blocks that may wait beside those at work.
const WAITING: usize = 2;

pub(super) struct CompressPool<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    size: usize,
    /// Started when there is work for them. Block number N is for worker N modulo their number.
    workers: Vec<CompressWorker>,
    given: usize,
    taken: usize,
}

struct CompressWorker {
    blocks: SyncSender<Vec<u8>>,
    packed: Receiver<Result<Vec<u8>>>,
}

impl<'scope, 'env> CompressPool<'scope, 'env> {
    pub(super) fn new(scope: &'scope Scope<'scope, 'env>, jobs: NonZeroUsize) -> Self {
        Self { scope, size: jobs.get().min(MOST), workers: Vec::new(), given: 0, taken: 0 }
    }

    /// Whether nothing was ever given.
    pub(super) const fn is_fresh(&self) -> bool {
        self.given == 0
    }

    /// Gives a block to be compressed. Where enough are under way, returns the oldest of them.
    pub(super) fn give(&mut self, block: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let done = if self.given - self.taken < self.size + WAITING { None } else { self.take()? };
        let turn = self.given % self.size;
        if self.workers.len() == turn {
            self.workers.push(CompressWorker::start_worker(self.scope)?);
        }
        let worker = self.workers.get(turn).ok_or_else(gone)?;
        worker.blocks.send(block).map_err(|_| gone())?;
        self.given += 1;
        Ok(done)
    }

    /// The oldest block that was not yet taken back, or `None` when there are no more.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>> {
        if self.taken == self.given {
            return Ok(None);
        }
        let worker = self.workers.get(self.taken % self.size).ok_or_else(gone)?;
        let packed = worker.packed.recv().map_err(|_| gone())??;
        self.taken += 1;
        Ok(Some(packed))
    }
}

impl CompressWorker {
    /// Works until both channels are closed. No channel can be full: a single worker has all
    /// blocks that are under way.
    fn start_worker<'scope>(scope: &'scope Scope<'scope, '_>) -> Result<Self> {
        let (blocks, to_do) = sync_channel::<Vec<u8>>(MOST + WAITING);
        let (done, packed) = sync_channel(MOST + WAITING);
        start(scope, "layer-pack", move || {
            for block in to_do {
                if done.send(compress(&block)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { blocks, packed })
    }
}

/// Only a worker that panicked is gone, and the panic goes on when its thread is joined.
fn gone() -> Error {
    Error::new(Kind::Io, "a compression thread stopped")
}
