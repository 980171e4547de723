//! What ports with a limit, of floods or of new connections, have lost. The rules say whose each meter is ([`PortMeters`](weft_core::derived::port_meters::PortMeters)); the switches are asked
//! for their counters ([`FloodSurvey`]) when somebody wants to know. Nothing is kept.

use std::collections::BTreeMap;
use std::sync::Arc;

use switch_model::{MeterCount, ReadError};
use weft_core::core::Core;
use weft_core::derived::port_meters::{Metered, PortMeter};

use crate::answers::PartSender;
use crate::drivers::{Asking, Running};
use crate::learned::{Surveys, ask_all, unread};
use crate::pb;

/// A host, the meters to look at, and the question to its switch.
type Question = (String, BTreeMap<u32, PortMeter>, Asking<Vec<MeterCount>>);

/// The question what ports have lost, not asked yet.
pub(crate) struct FloodSurvey {
    hosts: Vec<Question>,
}

impl FloodSurvey {
    /// Of one port, or of all.
    pub(crate) fn of(core: &Core, drivers: &Running, of: Metered, port: Option<&str>) -> FloodSurvey {
        let is_asked = |meter: &PortMeter| port.is_none_or(|port| *meter.port == *port);
        let host = |(host, meters): (&Arc<str>, &BTreeMap<u32, PortMeter>)| {
            let meters: BTreeMap<u32, PortMeter> = meters
                .iter()
                .filter(|(_, meter)| is_asked(meter))
                .map(|(number, meter)| (*number, meter.clone()))
                .collect();
            (!meters.is_empty()).then(|| (host.to_string(), meters, drivers.meter_counts(host)))
        };
        FloodSurvey { hosts: core.meters(of).hosts.iter().filter_map(host).collect() }
    }

    /// Asks the switches, and sends the answer of each as it comes.
    pub(crate) async fn send(self, surveys: Surveys, sender: PartSender<pb::ListFloodDropsResponse>) {
        let first = pb::ListFloodDropsResponse { hosts: self.hosts.len() as u64, ..Default::default() };
        if sender.send(Ok(first)).await.is_none() {
            return;
        }
        let (mut meters, mut asked) = (BTreeMap::new(), Vec::new());
        for (host, of_host, asking) in self.hosts {
            meters.insert(host.clone(), of_host);
            asked.push((host, asking));
        }
        let meters = Arc::new(meters);
        ask_all(asked, surveys, sender, move |host, counts| {
            message(host, counts, meters.get(host).unwrap_or(&BTreeMap::new()))
        })
        .await;
    }
}

/// The answer of one host.
fn message(
    node: &str,
    counts: Result<Vec<MeterCount>, ReadError>,
    meters: &BTreeMap<u32, PortMeter>,
) -> pb::ListFloodDropsResponse {
    let counts = match counts {
        Ok(counts) => counts,
        Err(error) => {
            return pb::ListFloodDropsResponse { unread: vec![unread(node, &error)], ..Default::default() };
        }
    };
    // A meter that is not there yet has dropped nothing.
    let counts: BTreeMap<u32, MeterCount> = counts.into_iter().map(|count| (count.meter, count)).collect();
    let drops = meters.iter().map(|(number, PortMeter { port, limit })| {
        let (packets, dropped) = counts.get(number).map_or((0, 0), |count| (count.packets, count.dropped));
        pb::FloodDrops {
            node: node.to_owned(),
            port: port.to_string(),
            limit: *limit,
            frames: packets,
            dropped,
        }
    });
    pb::ListFloodDropsResponse { drops: drops.collect(), ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_meter_is_told_with_its_port_and_others_are_left_out() {
        let meter = |port: &str, limit| PortMeter { port: port.into(), limit };
        let meters = BTreeMap::from([(1, meter("b1", 100)), (2, meter("b2", 5))]);
        let count = |meter, packets, dropped| MeterCount { meter, packets, bytes: 0, dropped };
        let answer = message("hv1", Ok(vec![count(9, 3, 3), count(1, 1000, 890)]), &meters);
        let drops = |port: &str, limit, frames, dropped| pb::FloodDrops {
            node: "hv1".to_owned(),
            port: port.to_owned(),
            limit,
            frames,
            dropped,
        };
        assert_eq!(answer.drops, [drops("b1", 100, 1000, 890), drops("b2", 5, 0, 0)]);
        let answer = message("hv1", Err(ReadError::NotConnected), &meters);
        assert_eq!((answer.drops.len(), answer.unread[0].error.as_str()), (0, "the switch is not connected"));
    }
}
