//! The controller's clients: `weft apply`, `weft set` and `weft delete` in `changes`, with what they print in `answer`; `weft get` in
//! `get`, with what it prints of objects in `objects` and `table`; `weft describe` and `weft edit` in `describe` and `edit`.

use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use controller::{Client, ClientError, Listen};

use crate::exit::Failure;
use crate::faults::is_journal;

mod answer;
mod changes;
mod delta;
mod describe;
mod edit;
mod get;
mod history;
mod objects;
mod table;

pub(crate) use changes::{Apply, Delete, Diff, Rollback, Set};
pub(crate) use describe::Describe;
pub(crate) use edit::Edit;
pub(crate) use get::Get;
pub(crate) use history::History;

/// How long to wait for a controller that is still starting, and the interval of attempts.
const STARTING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// The address of the controller.
#[derive(Args, Clone)]
pub(crate) struct Address {
    /// Controller: `unix:/PATH` or `ADDRESS:PORT`
    #[arg(long = "controller", env = "WEFT_CONTROLLER", hide_env_values = true, value_name = "ADDRESS")]
    address: Option<String>,
}

impl Address {
    /// Connects to the controller and runs `work` with the connection.
    pub(crate) fn with<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        work: impl FnOnce(Client) -> F,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::outside("cannot start the client", error))?;
        runtime.block_on(async { work(self.connect().await.map_err(failed)?).await })
    }

    /// Connects, and retries for a moment, since the controller may still be starting.
    async fn connect(&self) -> Result<Client, ClientError> {
        let begun = Instant::now();
        let address = self.address.clone().unwrap_or_else(|| Listen::default().to_string());
        loop {
            match Client::connect(&address).await {
                Err(ClientError::Unreachable { .. }) if begun.elapsed() < STARTING => {
                    tokio::time::sleep(LOOK).await;
                }
                result => return result,
            }
        }
    }
}

/// The address of the controller, unless an option says otherwise.
pub(crate) fn usual_address() -> String {
    std::env::var("WEFT_CONTROLLER").unwrap_or_else(|_| Listen::default().to_string())
}

/// Asks the controller at the address, or the usual one, if it answers within this time.
pub(crate) fn ask<T, F: Future<Output = Option<T>>>(
    address: Option<&str>,
    within: Duration,
    question: impl FnOnce(Client) -> F,
) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let address = address.map_or_else(usual_address, str::to_owned);
    let answer = async { question(Client::connect(&address).await.ok()?).await };
    runtime.block_on(async { tokio::time::timeout(within, answer).await.ok()? })
}

/// The failure of a request.
pub(crate) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::BadEndpoint { .. } => Failure::Usage(error.to_string()),
        // The request is valid; the controller's disk failed.
        ClientError::Refused(ref refusal) if is_journal(refusal) => Failure::Outside(error.to_string()),
        ClientError::Refused(_) | ClientError::NotFound(_) => Failure::Rejected(error.to_string()),
        ClientError::Unreachable { .. } | ClientError::Stopping { .. } | ClientError::Failed { .. } => {
            Failure::Outside(error.to_string())
        }
    }
}

/// Reads a file: its name and its text.
pub(crate) fn read_document(path: &PathBuf) -> Result<(String, String), Failure> {
    let (name, bytes) = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let read = std::io::stdin().read_to_end(&mut bytes);
        read.map_err(|error| Failure::outside("standard input", error))?;
        ("standard input".to_owned(), bytes)
    } else {
        let name = path.display().to_string();
        let read = std::fs::read(path);
        let bytes = read.map_err(|error| Failure::outside(format!("cannot read {name}"), error))?;
        (name, bytes)
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        Failure::Rejected(format!(
            "{name}: not UTF-8 at byte {}; save the file as UTF-8",
            error.utf8_error().valid_up_to()
        ))
    })?;
    Ok((name, text))
}
