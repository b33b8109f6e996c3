//! The runtime behind the blocking interface. `async` begins and ends here.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

use crate::error::{Error, Kind, Result};

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

/// Runs `work` on a thread of its own and waits for it: bytes to upload may come from a registry
/// too, whose reader uses [`Engine::run`].
pub(in crate::store) fn aside<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let outcome = std::thread::scope(|scope| scope.spawn(work).join());
    outcome.unwrap_or_else(|_| Err(Error::new(Kind::Io, "reading the blob to upload failed")))
}
