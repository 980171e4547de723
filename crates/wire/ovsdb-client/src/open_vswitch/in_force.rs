//! Waits until `ovs-vswitchd` has applied a transaction.
//!
//! A transaction increments `next_cfg`. `ovs-vswitchd` copies that number to `cur_cfg` once the configuration is in
//! force. The server does the waiting (`wait` with `until` `!=`), so the client neither polls nor monitors.

use std::time::Duration;

use tokio::time::Instant;

use super::{Error, OpenVswitch};
use crate::row::Row;
use crate::session::Client;
use crate::transact::{Mutation, Mutator, Operation, Outcomes, TransactError};
use peer_connection::after;

/// The delay before asking again when there is no connection.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Runs a transaction and waits until it is in force. [`Error::NotInForce`] means that the transaction is committed but not
/// in force. The outcomes are those of `operations`.
pub async fn transact_in_force(
    client: &Client,
    mut operations: Vec<Operation>,
    patience: Duration,
) -> Result<Outcomes, Error> {
    let own = operations.len();
    let increment = Mutation::new("next_cfg", Mutator::Add, 1);
    operations.push(Operation::mutate(OpenVswitch::TABLE, vec![], vec![increment]));
    operations.push(Operation::select(OpenVswitch::TABLE, vec![], &["next_cfg"]));
    let mut outcomes = client.transact(&operations).await?;
    let next_cfg = outcomes.rows(own + 1).first().ok_or(Error::NotInitialised)?.get("next_cfg")?;
    wait_in_force(client, next_cfg, patience).await?;
    outcomes.0.truncate(own);
    Ok(outcomes)
}

/// Waits until `cur_cfg` is at least `next_cfg`. The connection may be lost meanwhile if the client reconnects in
/// time.
pub async fn wait_in_force(client: &Client, next_cfg: i64, patience: Duration) -> Result<(), Error> {
    let mut reached = None;
    let waited =
        tokio::time::timeout(patience, until_reached(client, next_cfg, patience, &mut reached)).await;
    waited.unwrap_or(Err(Error::NotInForce { wanted: next_cfg, reached, seconds: patience.as_secs_f64() }))
}

async fn until_reached(
    client: &Client,
    next_cfg: i64,
    patience: Duration,
    reached: &mut Option<i64>,
) -> Result<(), Error> {
    let end = after(Instant::now(), patience);
    loop {
        let mut operations = vec![Operation::select(OpenVswitch::TABLE, vec![], &["cur_cfg"])];
        if let Some(seen) = *reached {
            let wait = Operation::Wait {
                table: OpenVswitch::TABLE.to_owned(),
                conditions: vec![],
                columns: vec!["cur_cfg".to_owned()],
                until_equal: false,
                rows: vec![Row::new(OpenVswitch::TABLE).with("cur_cfg", seen)],
                timeout: Some(end.saturating_duration_since(Instant::now())),
            };
            operations.insert(0, wait);
        }
        match client.transact(&operations).await {
            Ok(outcomes) => {
                let row = outcomes.rows(operations.len() - 1).first().ok_or(Error::NotInitialised)?;
                let cur_cfg: i64 = row.get("cur_cfg")?;
                if cur_cfg >= next_cfg {
                    return Ok(());
                }
                *reached = Some(cur_cfg);
            }
            // The caller's deadline passes at the same moment.
            Err(error) if error.is_timed_out() => std::future::pending().await,
            Err(TransactError::NotConnected { .. } | TransactError::FateUnknown { .. }) => {
                tokio::time::sleep(RETRY_PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
