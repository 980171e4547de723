//! The way of a packet, asked over the socket of a controller.

use std::sync::Arc;

use openflow_rs::FlowEntry;
use switch_model::{Channel, Event, SeenFlow};
use weft_client::pb::row_question::About;
use weft_client::pb::trace_request::Packet;
use weft_client::{Client, ClientError, pb};
use weft_core::Rules;

use crate::support::drivers::Switches;
use crate::support::report;
use crate::support::running::{Running, apply, parts, start_with, status_when};

const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [geneve], ovsdb: 'unix:/hv1', openflow: 'unix:/hv1.mgmt'}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, encaps: [geneve], ovsdb: 'unix:/hv2', openflow: 'unix:/hv2.mgmt'}
---
{kind: switch, id: blue}
---
{kind: switch_port, id: blue-1, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.1.1]}]}
---
{kind: switch_port, id: blue-2, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.1.2]}]}
---
{kind: switch_port, id: blue-3, switch: blue, addresses: [{mac: '02:00:00:00:00:03', ips: [10.0.1.3]}]}
---
{kind: acl, id: no-ssh, switch: blue, direction: to_port, priority: 100, match: {ip_proto: tcp, tp_dst: 22}, action: drop}
";

/// A controller of two hosts with a port each.
async fn running(folder: &std::path::Path) -> Running {
    let (switches, rules) =
        (Switches::default(), Arc::new(Rules::built_in().expect("the built-in rules compile")));
    let mut parts = parts(folder, rules, &switches);
    parts.evaluator = Arc::new(|rules| controller::evaluator(rules, 1));
    let running = start_with(parts, switches).await;
    let mut client = running.client().await;
    apply(&mut client, NETWORK).await.expect("the network is accepted");
    for (host, port) in [("hv1", "blue-1"), ("hv2", "blue-2")] {
        let tunnel = running.switches.look(host, |switch| {
            let desired = switch.desired.as_ref();
            desired.and_then(|desired| desired.tunnels.keys().next().cloned())
        });
        let tunnel = tunnel.unwrap_or_else(|| "weft-geneve".to_owned());
        running.switches.connect(host, report(&[(port, 1)], &[(&tunnel, 100)])).await;
    }
    status_when(&mut client, |status| status.switches.iter().all(|switch| switch.vifs == 1)).await;
    running
}

async fn trace(
    client: &mut Client,
    to: &str,
    tcp: u32,
    live: bool,
) -> Result<pb::TraceResponse, ClientError> {
    let words = pb::PacketInWords { to: to.to_owned(), tcp: Some(tcp), ..Default::default() };
    let packet = Some(Packet::Words(words));
    client.trace(pb::TraceRequest { from: "blue-1".to_owned(), packet, live, ..Default::default() }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_goes_through_the_desired_flows_and_its_end_has_objects() {
    let folder = tempfile::tempdir().expect("the request is well formed");
    let running = running(folder.path()).await;
    let mut client = running.client().await;
    let web = trace(&mut client, "blue-2", 443, false).await.expect("the network is accepted");
    assert!(web.delivered, "{}", web.text);
    assert!(web.text.starts_with("delivered to blue-2 on hv2\n"), "{}", web.text);
    assert!(web.text.contains("on hv1:") && web.text.contains(".nlog:"), "{}", web.text);

    let ssh = trace(&mut client, "blue-2", 22, false).await.expect("the network is accepted");
    assert!(!ssh.delivered, "{}", ssh.text);
    assert!(ssh.text.contains("because of acl no-ssh"), "{}", ssh.text);

    let homeless = trace(&mut client, "blue-3", 443, false).await.expect("the network is accepted");
    assert!(homeless.verdict.contains("port blue-3 is not attached to any host"), "{}", homeless.text);

    // T2: the rules deliver it, but the host may not.
    assert_eq!(web.not_in_force, [] as [&str; 0]);
    let gone = Event::Disconnected { channel: Channel::OpenFlow, why: "broke".to_owned() };
    running.switches.event("hv2", gone).await;
    status_when(&mut client, |status| status.switches.iter().any(|switch| !switch.connected)).await;
    let web = trace(&mut client, "blue-2", 443, false).await.expect("the question is well formed");
    assert!(web.delivered, "{}", web.text);
    let [why] = &web.not_in_force[..] else { panic!("{:?}", web.not_in_force) };
    assert!(why.starts_with("the switch of hv2 is not connected (since 20"), "{why}");
    let verdict = format!("delivered by the rules to blue-2 on hv2, but {why}");
    assert_eq!(web.verdict, verdict);
    assert!(web.text.starts_with(&format!("{verdict}\n")), "{}", web.text);

    let error = trace(&mut client, "blue-9", 443, false).await.unwrap_err();
    assert!(error.to_string().contains("there is no port \"blue-9\""), "{error}");
    running.stop().await;
}

/// A request for a packet from blue-1 to blue-2.
fn to_blue_2(tcp: u32) -> pb::TraceRequest {
    let words = pb::PacketInWords { to: "blue-2".to_owned(), tcp: Some(tcp), ..Default::default() };
    pb::TraceRequest { from: "blue-1".to_owned(), packet: Some(Packet::Words(words)), ..Default::default() }
}

/// The explanation of a flow, or why it is missing.
fn about_flow(node: &str, flow: &str) -> pb::RowQuestion {
    let (node, flow) = (node.to_owned(), flow.to_owned());
    pb::RowQuestion { about: Some(About::Flow(pb::HostFlow { node, flow })) }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_connections_and_flows_are_asked_about() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let running = running(folder.path()).await;
    let mut client = running.client().await;
    let reply = pb::TraceRequest { connection: pb::ConnectionState::Reply.into(), ..to_blue_2(80) };
    let reply = client.trace(reply).await.expect("the question is well formed");
    assert!(reply.delivered && reply.packet.contains("tp_src=80"), "{}", reply.text);

    let without = vec![pb::ObjectRef { kind: "acl".to_owned(), id: "no-ssh".to_owned() }];
    let change = Some(pb::TriedChange { documents: Vec::new(), without });
    let open = pb::TraceRequest { change, ..to_blue_2(22) };
    let open = client.trace(open).await.expect("the change is accepted");
    assert!(open.delivered, "{}", open.text);
    assert!(open.text.starts_with("before: dropped on hv2 in blue"), "{}", open.text);
    assert!(open.text.contains("after:  delivered to blue-2 on hv2"), "{}", open.text);
    let text = "{kind: acl, id: no-web, switch: blue, direction: to_port, priority: 50, match: {ip_proto: tcp, tp_dst: 80}, action: drop}";
    let documents =
        vec![pb::Document { name: "change.yaml".to_owned(), text: text.to_owned(), object: None }];
    let change = Some(pb::TriedChange { documents, without: Vec::new() });
    let shut = pb::TraceRequest { change, ..to_blue_2(80) };
    let shut = client.trace(shut).await.expect("the change is accepted");
    assert!(!shut.delivered && shut.text.contains("because of acl no-web"), "{}", shut.text);
    // Without the host, the other one has nowhere to send to.
    let without = vec![pb::ObjectRef { kind: "transport_node".to_owned(), id: "hv2".to_owned() }];
    let change = Some(pb::TriedChange { documents: Vec::new(), without });
    let alone =
        client.trace(pb::TraceRequest { change, ..to_blue_2(80) }).await.expect("the change is accepted");
    assert!(
        alone.text.contains("after:  dropped: port blue-2 is not attached to any host"),
        "{}",
        alone.text
    );
    // Nothing was applied.
    let web = trace(&mut client, "blue-2", 80, false).await.expect("the question is well formed");
    assert!(web.delivered, "{}", web.text);

    let flows = desired(&running, "hv2");
    let of_acl =
        flows.iter().find(|flow| flow.entry.to_string().contains("tp_dst=22")).expect("the ACL has a flow");
    let text = of_acl.entry.to_string();
    let question = Some(about_flow("hv2", &text));
    let why = client.explain(pb::ExplainRequest { question, rows: 0, json: false }).await;
    let why = why.expect("the flow is there");
    for part in ["of_flow(\"hv2\", 43, ", "acl(\"no-ssh\", ", "vif(\"hv2\", \"blue-2\", "] {
        assert!(why.contains(part), "no {part} in {why}");
    }
    let question = Some(about_flow("hv2", &text.replace("tp_dst=22", "tp_dst=23")));
    let why_not = client.why_not(pb::WhyNotRequest { question, json: false }).await.expect("it is not there");
    assert!(why_not.contains("acl(\"no-ssh\", "), "{why_not}");
    running.stop().await;
}

/// The flows that a switch is to have.
fn desired(running: &Running, host: &str) -> Vec<SeenFlow> {
    running.switches.look(host, |switch| {
        let flows = switch.desired.iter().flat_map(|desired| &desired.flows);
        let seen = |(key, flow): (&ovs_driver::FlowKey, &ovs_driver::Flow)| {
            let (matches, actions) = (
                key.matching().expect("a desired flow can be read"),
                flow.actions().expect("a desired flow can be read"),
            );
            let entry = FlowEntry::new(key.table(), key.priority(), matches, actions);
            SeenFlow { entry: FlowEntry { cookie: flow.cookie(), ..entry }, packets: 4, bytes: 400 }
        };
        flows.map(seen).collect()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_switch_lacks_and_what_it_has_of_others_is_named() {
    let folder = tempfile::tempdir().expect("a desired flow can be read");
    let running = running(folder.path()).await;
    let mut client = running.client().await;
    running.switches.have("hv1", desired(&running, "hv1"));
    let unread = trace(&mut client, "blue-2", 443, true).await.expect("a desired flow can be read");
    assert!(unread.text.contains("hv2 cannot be read: the switch is not connected"), "{}", unread.text);
    assert!(unread.text.contains("has counted 4 packets"), "{}", unread.text);
    assert!(!unread.text.contains("differ"), "{}", unread.text);

    // Somebody has deleted the flows of OUT_PORT by hand.
    let mut flows = desired(&running, "hv2");
    flows.retain(|flow| flow.entry.table != 40);
    running.switches.have("hv2", flows.clone());
    let missing = trace(&mut client, "blue-2", 443, true).await.expect("a desired flow can be read");
    assert!(missing.text.contains("but the flows of hv2 differ"), "{}", missing.text);
    assert!(missing.text.contains("40 OUT_PORT: missing: "), "{}", missing.text);

    // Somebody has added one that takes all packets.
    let foreign: FlowEntry =
        "table=0,priority=65000 actions=drop".parse().expect("a desired flow can be read");
    let mut flows = desired(&running, "hv2");
    flows.push(SeenFlow { entry: foreign, packets: 9, bytes: 900 });
    running.switches.have("hv2", flows);
    let taken = trace(&mut client, "blue-2", 443, true).await.expect("a desired flow can be read");
    assert!(taken.text.contains("a foreign flow takes the packet: "), "{}", taken.text);
    assert!(taken.text.contains("it has counted 9 packets"), "{}", taken.text);
    running.stop().await;
}
