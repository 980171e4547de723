//! The addresses that hosts have learned. The rules say which learned flows are whose (`derived::learned_places`); the switches are
//! asked for the flows ([`Survey`]) when somebody wants to know, many at a time and none for long. Nothing is kept.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use objects::ObjectKey;
use openflow_rs::{Field, MacAddr, Match};
use prost::Message;
use switch_model::{LearnedFlow, ReadError};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weft_core::core::Core;
use weft_core::derived::learned_places::Place;
use weft_core::logical_flows::LogicalFlows;

use crate::answers::PartSender;
use crate::drivers::{Asking, Reading, Running};
use crate::pb;

/// The number of switches that are asked at a time.
const AT_A_TIME: usize = 64;
/// The time for all of them. It is less than clients wait for an answer.
const ALL_WITHIN: Duration = Duration::from_secs(20);
/// The number of surveys at a time.
const SURVEYS_MAX: usize = 2;

/// The question what hosts have learned of a switch, not asked yet.
pub(crate) struct Survey {
    datapath: ObjectKey,
    places: Arc<BTreeMap<u64, Place>>,
    readings: Vec<(String, Reading)>,
}

impl Survey {
    /// None if no object that has flows has this id.
    pub(crate) fn of(core: &Core, drivers: &Running, id: &str) -> Option<Survey> {
        let datapath = LogicalFlows::of(core, id)?.datapath;
        let learned = core.learned_places();
        let places = Arc::new(learned.places_of(id));
        // The whole table has the addresses of all switches.
        let of_switch = core.provenance().datapath_label(id).and_then(|label| {
            Match::any().with_masked(Field::Metadata, u128::from(label), u128::from(u64::MAX)).ok()
        });
        let of_switch = of_switch.unwrap_or_default();
        let table = core.rules().conventions().learned_tables.first();
        let readings = table.into_iter().flat_map(|table| {
            let reading = |host: &str| (host.to_owned(), drivers.learned(host, *table, &of_switch));
            learned.hosts_of(id).map(reading)
        });
        Some(Survey { datapath, places, readings: readings.collect() })
    }

    /// Asks the switches, and sends the answer of each as it comes. With `addresses`, the addresses too.
    pub(crate) async fn send(
        self,
        addresses: bool,
        surveys: Surveys,
        sender: PartSender<pb::ListLearnedAddressesResponse>,
    ) {
        let Survey { datapath, places, readings } = self;
        let ports = places.values().filter(|place| !place.port.is_empty()).count();
        let (kind, id) = (datapath.kind.to_string(), datapath.id.to_string());
        let first = pb::ListLearnedAddressesResponse {
            datapath: Some(pb::ObjectRef { kind, id }),
            ports: ports as u64,
            hosts: readings.len() as u64,
            ..Default::default()
        };
        if sender.send(Ok(first)).await.is_none() {
            return;
        }
        ask_all(readings, surveys, sender, move |node, read| message(node, read, &places, addresses)).await;
    }
}

/// Asks switches, when it is this survey's turn, and sends what `message` makes of the answer of each as it comes.
pub(crate) async fn ask_all<A: Send + 'static, M: Message + 'static>(
    readings: Vec<(String, Asking<A>)>,
    surveys: Surveys,
    sender: PartSender<M>,
    message: impl Fn(&str, Result<A, ReadError>) -> M + Send + Sync + 'static,
) {
    let turn = tokio::select! {
        turn = surveys.0.acquire_owned() => turn,
        () = sender.closed() => return,
    };
    let (message, deadline) = (Arc::new(message), Instant::now() + ALL_WITHIN);
    let (mut readings, mut asked) = (readings.into_iter(), JoinSet::new());
    loop {
        for (node, reading) in readings.by_ref().take(AT_A_TIME - asked.len()) {
            let message = message.clone();
            asked.spawn(async move {
                let read = tokio::time::timeout_at(deadline, reading).await;
                let read = read.unwrap_or(Err(ReadError::Late));
                // Many flows take a while.
                tokio::task::spawn_blocking(move || message(&node, read)).await
            });
        }
        // Neither a task nor what it waits for panics or is aborted.
        let Some(Ok(Ok(message))) = asked.join_next().await else { break };
        if sender.send(Ok(message)).await.is_none() {
            break;
        }
    }
    drop(turn);
}

/// A switch that a survey learns nothing from.
pub(crate) fn unread(node: &str, error: &ReadError) -> pb::UnreadSwitch {
    pb::UnreadSwitch { node: node.to_owned(), error: error.to_string() }
}

/// Lets surveys be made in turn.
#[derive(Clone)]
pub(crate) struct Surveys(Arc<Semaphore>);

impl Default for Surveys {
    fn default() -> Self {
        Surveys(Arc::new(Semaphore::new(SURVEYS_MAX)))
    }
}

/// The answer of one host.
fn message(
    node: &str,
    read: Result<Vec<LearnedFlow>, ReadError>,
    places: &BTreeMap<u64, Place>,
    with_addresses: bool,
) -> pb::ListLearnedAddressesResponse {
    let flows = match read {
        Ok(flows) => flows,
        Err(error) => {
            return pb::ListLearnedAddressesResponse {
                unread: vec![unread(node, &error)],
                ..Default::default()
            };
        }
    };
    let mut found: BTreeMap<&str, pb::LearnedAddresses> = BTreeMap::new();
    for flow in flows {
        // Flows with another cookie are of a port that is gone, or have another age: the switch is about to forget them.
        let Some(Place { port, limit }) = places.get(&flow.cookie()) else { continue };
        let learned = found.entry(port).or_insert_with(|| pb::LearnedAddresses {
            node: node.to_owned(),
            port: port.to_string(),
            limit: *limit,
            ..Default::default()
        });
        learned.count += 1;
        if with_addresses && let Some(mac) = address(&flow) {
            learned.addresses.push(mac.to_string());
        }
    }
    let mut learned: Vec<_> = found.into_values().collect();
    for learned in &mut learned {
        learned.reached = learned.count >= learned.limit;
        learned.addresses.sort_unstable();
    }
    pb::ListLearnedAddressesResponse { learned, ..Default::default() }
}

/// The address that a learned flow leads to.
fn address(flow: &LearnedFlow) -> Option<MacAddr> {
    let (mac, _) = flow.matching().ok()?.get(Field::EthDst)?;
    u64::try_from(mac).ok().map(MacAddr::from_u64)
}

#[cfg(test)]
mod tests {
    use openflow_rs::FlowEntry;
    use switch_model::FlowKey;

    use super::*;

    fn flow(cookie: u64, last: u8) -> LearnedFlow {
        let entry: FlowEntry =
            format!("table=21,priority=50,metadata=0x5,dl_dst=02:00:00:00:00:{last:02x} actions=drop")
                .parse()
                .unwrap();
        LearnedFlow::new(FlowKey::new(entry.table, entry.priority, &entry.matches).unwrap(), cookie)
    }

    fn places() -> BTreeMap<u64, Place> {
        let place = |cookie, port: &str, limit| (cookie, Place { port: port.into(), limit });
        BTreeMap::from([place(1, "any-1", 2), place(2, "any-2", 2), place(3, "", 4096)])
    }

    #[test]
    fn the_flows_of_each_port_are_counted_and_those_of_no_port_are_left_out() {
        let flows = vec![flow(2, 9), flow(1, 4), flow(3, 1), flow(1, 2), flow(77, 3)];
        let learned = |port: &str, count, limit, reached, addresses: &[&str]| pb::LearnedAddresses {
            node: "hv1".to_owned(),
            port: port.to_owned(),
            count,
            limit,
            reached,
            addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        };
        let answer = message("hv1", Ok(flows.clone()), &places(), true);
        let all = ["02:00:00:00:00:02", "02:00:00:00:00:04"];
        let wanted = [
            learned("", 1, 4096, false, &["02:00:00:00:00:01"]),
            learned("any-1", 2, 2, true, &all),
            learned("any-2", 1, 2, false, &["02:00:00:00:00:09"]),
        ];
        assert_eq!((answer.learned.as_slice(), answer.unread.len()), (&wanted[..], 0));
        let answer = message("hv1", Ok(flows), &places(), false);
        assert!(answer.learned.iter().all(|learned| learned.addresses.is_empty()));
    }

    #[test]
    fn a_host_that_does_not_answer_is_told_with_the_reason() {
        let answer = message("hv1", Err(ReadError::NotConnected), &places(), false);
        let why = "the switch is not connected".to_owned();
        assert_eq!(answer.unread, [pb::UnreadSwitch { node: "hv1".to_owned(), error: why }]);
        assert_eq!(answer.learned, []);
    }
}
