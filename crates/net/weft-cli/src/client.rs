//! The controller's clients: `weft apply`, `weft set` and `weft delete` in `changes`, with what they print in `answer`; `weft get` in
//! `get`, with what it prints of objects in `objects` and `table`; `weft describe` and `weft edit` in `describe` and `edit`.

use std::future::Future;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
#[cfg(feature = "lab")]
use controller::Listen;
use weft_client::{Client, ClientError, Identification};

use crate::contexts::{self, ADDRESS_VARIABLE, Choice};
use crate::exit::Failure;
use crate::faults::is_journal;

mod answer;
mod changes;
pub(crate) mod delta;
mod describe;
mod edit;
mod events;
mod get;
mod history;
mod jsonpath;
mod objects;
mod rules;
mod table;

pub(crate) use changes::{Apply, Delete, Diff, Rollback, Set};
pub(crate) use describe::Describe;
pub(crate) use edit::Edit;
pub(crate) use events::Events;
pub(crate) use get::Get;
pub(crate) use history::History;
pub(crate) use objects::unreadable;
pub(crate) use rules::{LoadRules, RollbackRules, RulesHistory, cost, load_request};

/// How long to wait for a controller that is still starting, and the interval of attempts.
const STARTING: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// The environment variable with the trace that requests belong to, as other tools of OpenTelemetry name it.
const TRACE_VARIABLE: &str = "TRACEPARENT";

/// The address of the controller.
#[derive(Args, Clone)]
pub(crate) struct Address {
    /// Controller: `unix:/PATH` or `ADDRESS:PORT`
    #[arg(long = "controller", env = ADDRESS_VARIABLE, hide_env_values = true, value_name = "ADDRESS")]
    address: Option<String>,
    // The variable is read where the contexts are: it comes after `weft --context`, which this argument does not see.
    #[arg(
        long,
        value_name = "NAME",
        help = "Controller: by its name in `weft context list` [env: WEFT_CONTEXT]"
    )]
    context: Option<String>,
}

impl Address {
    /// Connects to the controller and runs `work` with the connection.
    pub(crate) fn with<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        work: impl FnOnce(Client) -> F,
    ) -> Result<T, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::outside("cannot start the client", error))?;
        let choice = self.choice()?;
        let identification = choice.identification()?;
        runtime
            .block_on(async { work(connect(&choice.address, &identification).await.map_err(failed)?).await })
    }

    /// The controller that is meant, and why.
    pub(crate) fn choice(&self) -> Result<Choice, Failure> {
        contexts::choose(self.address.as_deref(), self.context.as_deref())
    }
}

/// Connects, and retries for a moment, since the controller may still be starting.
async fn connect(address: &str, identification: &Identification) -> Result<Client, ClientError> {
    let begun = Instant::now();
    loop {
        match Client::connect_as(address, identification).await {
            Err(ClientError::Unreachable { .. }) if begun.elapsed() < STARTING => {
                tokio::time::sleep(LOOK).await;
            }
            result => return result.map(in_trace),
        }
    }
}

/// The same client, whose requests belong to the trace that the environment names.
fn in_trace(client: Client) -> Client {
    match std::env::var(TRACE_VARIABLE) {
        Ok(traceparent) => client.in_trace(&traceparent),
        Err(_) => client,
    }
}

/// The address at which a controller of a lab listens: the usual one, or that of the environment. A context is no place for it: other
/// controllers listen there.
#[cfg(feature = "lab")]
pub(crate) fn usual_address() -> String {
    std::env::var(ADDRESS_VARIABLE).unwrap_or_else(|_| Listen::default().to_string())
}

/// Asks the controller at the address, or the usual one, if it answers within this time.
pub(crate) fn ask<T, F: Future<Output = Option<T>>>(
    address: Option<&str>,
    within: Duration,
    question: impl FnOnce(Client) -> F,
) -> Option<T> {
    ask_at(&contexts::choose(address, None).ok()?, within, question)
}

/// Asks this controller, if it answers within this time.
pub(crate) fn ask_at<T, F: Future<Output = Option<T>>>(
    choice: &Choice,
    within: Duration,
    question: impl FnOnce(Client) -> F,
) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let identification = choice.identification().ok()?;
    let answer = async { question(Client::connect_as(&choice.address, &identification).await.ok()?).await };
    runtime.block_on(async { tokio::time::timeout(within, answer).await.ok()? })
}

/// The failure of a request.
pub(crate) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::BadEndpoint { .. }
        | ClientError::NoCertificate { .. }
        | ClientError::ClearToken { .. }
        | ClientError::BadToken => Failure::Usage(error.to_string()),
        // The request is valid; the controller's disk failed.
        ClientError::Refused(ref refusal) if is_journal(refusal) => Failure::Outside(error.to_string()),
        ClientError::Refused(_) | ClientError::NotFound(_) | ClientError::Forbidden(_) => {
            Failure::Rejected(error.to_string())
        }
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
