//! Whether a password is any good, one request finds out, however many need it: a wrong one that is sent with every
//! request at once locks the account.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::StatusCode;

use super::client::{By, RegistryAnswer};
use super::credentials::Secret;
use super::http_error::RequestFault;

/// A registry may hide a repository from somebody whom it knows, so one refusal is not the last word.
const REFUSALS: u32 = 2;

/// All passwords of a run, each by the host that it is shown to.
#[derive(Default)]
pub(super) struct PasswordTrials(Mutex<Vec<(String, Secret, Arc<PasswordTrial>)>>);

/// One password at one host.
#[derive(Default)]
struct PasswordTrial {
    is_good: AtomicBool,
    /// Held by the request that tries it.
    refusals: tokio::sync::Mutex<Refusals>,
}

#[derive(Default)]
struct Refusals {
    count: u32,
    last: Option<RegistryAnswer>,
}

impl PasswordTrials {
    /// Makes the request `asked`, which shows `secret` to `host`: one at a time until one was not refused. After too many
    /// refusals it is not made, and has the answer of the last one.
    pub(super) async fn ask(
        &self,
        host: &str,
        secret: &Secret,
        asked: impl Future<Output = Result<RegistryAnswer, RequestFault>>,
    ) -> Result<RegistryAnswer, RequestFault> {
        let trial = self.trial(host, secret);
        if trial.is_good.load(Ordering::Acquire) {
            return asked.await;
        }
        let mut refusals = trial.refusals.lock().await;
        if trial.is_good.load(Ordering::Acquire) {
            drop(refusals);
            return asked.await;
        }
        if let Some(last) = refusals.last.as_ref().filter(|_| refusals.count >= REFUSALS) {
            return Ok(last.without_stream());
        }
        let outcome = asked.await;
        match &outcome {
            Ok(answer) if is_refusal(answer) => {
                refusals.count += 1;
                refusals.last = Some(answer.without_stream());
            }
            Ok(answer) if is_proof(answer) => trial.is_good.store(true, Ordering::Release),
            _ => {}
        }
        outcome
    }

    fn trial(&self, host: &str, secret: &Secret) -> Arc<PasswordTrial> {
        let mut trials = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, _, trial)) = trials.iter().find(|(at, shown, _)| at == host && shown == secret) {
            return Arc::clone(trial);
        }
        let trial = Arc::<PasswordTrial>::default();
        trials.push((host.to_owned(), secret.clone(), Arc::clone(&trial)));
        trial
    }
}

fn is_refusal(answer: &RegistryAnswer) -> bool {
    answer.by == By::Registry && answer.status == StatusCode::UNAUTHORIZED
}

/// What is forbidden may be forbidden to anybody, and a failure says nothing.
fn is_proof(answer: &RegistryAnswer) -> bool {
    answer.by == By::Elsewhere || answer.status.is_success() || answer.status == StatusCode::NOT_FOUND
}
