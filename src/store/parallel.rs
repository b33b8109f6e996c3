//! Work on several things at once. Threads may change the speed, never the order.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

use oci::error::{Error, Kind, Result};

/// Applies `work` to every item on up to `jobs` threads. Results are in the order of the items;
/// of several errors the one of the first item is returned. After an error no new item is begun.
pub fn map<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let threads = jobs.clamp(1, items.len().max(1));
    if threads == 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Result<R>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let take_turns = || {
        while !failed.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let (Some(item), Some(slot)) = (items.get(at), results.get(at)) else { break };
            let result = work(item);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
        }
    };
    std::thread::scope(|scope| {
        // This thread is one of them.
        for _ in 1..threads {
            scope.spawn(take_turns);
        }
        take_turns();
    });
    let mut out = Vec::with_capacity(items.len());
    for slot in results {
        // An empty slot was skipped because a later item failed first; that error comes later in the list.
        if let Some(result) = slot.into_inner().ok().flatten() {
            out.push(result?);
        }
    }
    if out.len() == items.len() {
        Ok(out)
    } else {
        Err(Error::new(Kind::Io, "a worker thread stopped before it was done"))
    }
}

/// Values by key. The first who asks for a key makes the value, others wait for it; a failure is
/// not remembered.
pub struct OnceMap<K, V>(Mutex<HashMap<K, Slot<V>>>);

type Slot<V> = Arc<Mutex<Option<V>>>;

impl<K, V> Default for OnceMap<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> OnceMap<K, V> {
    pub fn get(&self, key: K, make: impl FnOnce() -> Result<V>) -> Result<V> {
        let slot = Arc::clone(self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default());
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = &*slot {
            return Ok(value.clone());
        }
        let value = make()?;
        *slot = Some(value.clone());
        Ok(value)
    }
}

pub(in crate::store) struct AsyncRuntime(Option<Runtime>);

impl AsyncRuntime {
    pub(in crate::store) fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("network").enable_all().build();
        let runtime = runtime.map_err(|error| Error::new(Kind::Io, "cannot start the network threads").cause(error))?;
        Ok(Self(Some(runtime)))
    }

    /// Runs `future` to its end, on this thread. Must not be called from inside of one.
    pub(in crate::store) fn run<T>(&self, future: impl Future<Output = Result<T>>) -> Result<T> {
        match &self.0 {
            Some(runtime) => runtime.block_on(future),
            None => Err(Error::new(Kind::Io, "the network threads have ended")),
        }
    }
}

impl Drop for AsyncRuntime {
    fn drop(&mut self) {
        // Not waiting: a name lookup that hangs must not hold up the end of the program.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs `work` as if outside of the runtime: bytes to upload may come from a registry too, whose reader uses
/// [`AsyncRuntime::run`].
pub(in crate::store) fn aside<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    tokio::task::block_in_place(work)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use oci::error::Error;

    #[test]
    fn results_stand_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..50).collect();
        for jobs in [1, 2, 8, 100] {
            let out = map(&items, jobs, |item| {
                std::thread::sleep(std::time::Duration::from_micros(50 - item));
                Ok(item * 2)
            });
            assert_eq!(out.unwrap(), items.iter().map(|item| item * 2).collect::<Vec<_>>(), "{jobs} jobs");
        }
    }

    #[test]
    fn an_error_is_returned_and_stops_the_rest() {
        let items: Vec<usize> = (0..1000).collect();
        let begun = AtomicUsize::new(0);
        let out = map(&items, 4, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            if *item == 3 { Err(Error::input("three")) } else { Ok(*item) }
        });
        assert_eq!(out.unwrap_err().what(), "three");
        assert!(begun.load(Ordering::Relaxed) < 1000);
        assert!(map::<u8, u8>(&[], 4, |_| Ok(1)).unwrap().is_empty());
    }

    #[test]
    fn a_value_is_made_once_and_a_failure_is_tried_again() {
        let (once, made) = (OnceMap::default(), AtomicU32::new(0));
        assert!(once.get("a", || Err::<u32, _>(Error::input("no"))).is_err());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| once.get("a", || Ok(made.fetch_add(1, Ordering::Relaxed))).unwrap());
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
