//! Things that are got once, however many threads ask for them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Result;

/// Values by key. The first who asks for a key makes the value, others wait for it; a failure is
/// not remembered.
pub struct Once<K, V>(Mutex<HashMap<K, Slot<V>>>);

type Slot<V> = Arc<Mutex<Option<V>>>;

impl<K, V> Default for Once<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> Once<K, V> {
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::error::Error;

    #[test]
    fn a_value_is_made_once_and_a_failure_is_tried_again() {
        let (once, made) = (Once::default(), AtomicU32::new(0));
        assert!(once.get("a", || Err::<u32, _>(Error::input("no"))).is_err());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| once.get("a", || Ok(made.fetch_add(1, Ordering::Relaxed))).unwrap());
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 1);
    }
}
