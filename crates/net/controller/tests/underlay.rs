//! The tunnels between hosts as the built-in rules have them measured, asked over the socket of a controller.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;
use std::time::Duration;

use switch_model::SeenFlow;
use weft_client::pb::MeasuredTunnel;
use weft_client::{Client, ClientError};
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::running::{Running, apply, parts, start_with, status_when};
use crate::support::*;

const HOSTS: &str = "
{kind: transport_zone, id: rack, probes: {interval: 1}}
---
{kind: transport_node, id: hv1, ip: 172.16.0.1, transport_zone: rack, ovsdb: 'unix:/1/db', openflow: 'unix:/1/of'}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, transport_zone: rack, ovsdb: 'unix:/2/db', openflow: 'unix:/2/of'}
---
{kind: switch, id: red}
---
{kind: switch_port, id: r1, switch: red}
---
{kind: switch_port, id: r2, switch: red}
";

/// How long things may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// Waits until the tunnels are as wanted. Meanwhile all packets that hosts send arrive at those that are not deaf, and are counted.
async fn tunnels_when(
    running: &Running,
    client: &mut Client,
    deaf: &[&str],
    wanted: impl Fn(&[MeasuredTunnel]) -> bool,
) -> Vec<MeasuredTunnel> {
    let begun = std::time::Instant::now();
    loop {
        for (from, ip, to) in [("hv1", "172.16.0.1", "hv2"), ("hv2", "172.16.0.2", "hv1")] {
            let frames = running.switches.look(from, |switch| {
                switch.sent.iter().map(|packet| packet.frame.len() as u64).collect::<Vec<_>>()
            });
            if !deaf.contains(&to) {
                let entry =
                    format!("table=1,priority=150,tun_id=0x1,tun_src={ip} actions=drop").parse().unwrap();
                let (packets, bytes) = (frames.len() as u64, frames.iter().sum());
                running.switches.have(to, vec![SeenFlow { entry, packets, bytes }]);
            }
        }
        let tunnels = client.tunnels(None).await.unwrap();
        if wanted(&tunnels) {
            return tunnels;
        }
        assert!(begun.elapsed() < DEADLINE, "{tunnels:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tunnels_are_measured_without_a_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let switches = Switches::default();
    let rules = Arc::new(Rules::built_in().unwrap());
    let running = start_with(parts(folder.path(), rules, &switches), switches).await;
    let mut client = running.client().await;
    apply(&mut client, HOSTS).await.unwrap();
    assert_eq!(client.tunnels(None).await.unwrap(), [], "no host has a port");
    running.switches.connect("hv1", report(&[("r1", 11)], &[("weft-geneve", 1)])).await;
    running.switches.connect("hv2", report(&[("r2", 11)], &[("weft-geneve", 1)])).await;
    let states = |tunnels: &[MeasuredTunnel]| {
        let state = |tunnel: &MeasuredTunnel| format!("{} {} {}", tunnel.from, tunnel.to, tunnel.state);
        tunnels.iter().map(state).collect::<Vec<_>>()
    };
    let arrive = |tunnels: &[MeasuredTunnel]| states(tunnels) == ["hv1 hv2 arrives", "hv2 hv1 arrives"];
    let tunnels = tunnels_when(&running, &mut client, &[], arrive).await;
    let MeasuredTunnel { encap, ip, bytes, mtu, text, last_arrival, .. } = &tunnels[0];
    assert_eq!((&**encap, &**ip, *bytes, *mtu), ("geneve", "172.16.0.2", 1442, 1500));
    assert_eq!((&**text, last_arrival.ends_with('Z')), ("packets of 1,442 bytes arrive", true));
    let txn = client.status().await.unwrap().last_txn;

    // hv2 does not hear hv1 any more.
    let silent = |tunnels: &[MeasuredTunnel]| states(tunnels) == ["hv1 hv2 unreachable", "hv2 hv1 arrives"];
    tunnels_when(&running, &mut client, &["hv2"], silent).await;
    let status = status_when(&mut client, |status| {
        status.problems.iter().any(|problem| problem.code == "unreachable")
    })
    .await;
    let problem = status.problems.iter().find(|problem| problem.code == "unreachable").unwrap();
    let of = problem.object.clone().unwrap();
    assert_eq!((&*of.kind, &*of.id), ("transport_node", "hv1"));
    assert!(
        problem.text.starts_with("its packets to hv2 do not arrive: check that the host"),
        "{}",
        problem.text
    );
    let (_, state) = client.get_with_states("transport_node", Some("hv1")).await.unwrap().remove(0);
    assert_eq!(state.problems, std::slice::from_ref(&problem.text));
    tunnels_when(&running, &mut client, &[], arrive).await;
    let status = status_when(&mut client, |status| {
        status.problems.iter().all(|problem| problem.code != "unreachable")
    })
    .await;
    assert_eq!(status.last_txn, txn, "measuring makes no transaction");

    let of_one = client.tunnels(Some("hv2")).await.unwrap();
    assert_eq!(of_one.len(), 2);
    assert!(matches!(client.tunnels(Some("hv9")).await, Err(ClientError::NotFound(_))));
    running.stop().await;
}
