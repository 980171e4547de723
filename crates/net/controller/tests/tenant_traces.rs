//! Traces of callers with the role of a tenant: packets from their own ports, and of their ways what is the tenant's.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::sync::Arc;

use serde_json::{Value as Json, json};
use test_random::Random;

use crate::support::report;
use crate::support::running::{DEADLINE, status_when};
use crate::support::web::Answer;
use crate::tenants::{Shared, comparable};

/// What is the same on all controllers: two hosts, the networks of acme, and a router of the operator on one of its switches.
const NETWORK: &str = "
{kind: transport_node, id: hv1, ip: 172.16.0.1, encaps: [geneve], ovsdb: 'unix:/hv1', openflow: 'unix:/hv1.mgmt'}
---
{kind: transport_node, id: hv2, ip: 172.16.0.2, encaps: [geneve], ovsdb: 'unix:/hv2', openflow: 'unix:/hv2.mgmt'}
---
{kind: tenant, id: acme, ids: acme-}
---
{kind: tenant, id: umbra, ids: umbra-}
---
{kind: switch, id: blue, tenant: acme}
---
{kind: switch_port, id: b1, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:01', ips: [10.0.0.1]}]}
---
{kind: switch_port, id: b2, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:00:02', ips: [10.0.0.2]}]}
---
{kind: switch_port, id: b3, switch: blue, addresses: [{mac: '02:00:00:00:00:03', ips: [10.0.0.3]}]}
---
{kind: acl, id: no-ssh, switch: blue, direction: to_port, priority: 100, match: {ip_proto: tcp, tp_dst: 22}, action: drop}
---
{kind: switch, id: green, tenant: acme, acl_default: drop}
---
{kind: switch_port, id: g1, switch: green, addresses: [{mac: '02:00:00:00:01:01', ips: [10.1.0.1]}]}
---
{kind: acl, id: web, switch: green, direction: to_port, priority: 1, match: {ip_proto: tcp, tp_dst: 80}, action: allow_related}
---
{kind: acl, id: out, switch: green, direction: from_port, priority: 1, action: allow_related}
---
{kind: router, id: r, tenant: acme}
---
{kind: router_port, id: r-blue, router: r, switch: blue, mac: '02:00:00:00:ff:01', networks: [10.0.0.254/24]}
---
{kind: router_port, id: r-green, router: r, switch: green, mac: '02:00:00:00:ff:02', networks: [10.1.0.254/24]}
---
{kind: route, id: no-docs, router: r, destination: 198.51.100.0/24, discard: true}
---
{kind: route_policy, id: no-dns, router: r, priority: 7, match: {ip_proto: udp, tp_dst: 53}, action: drop}
---
{kind: switch, id: far, tenant: acme}
---
{kind: switch_port, id: f1, switch: far, addresses: [{mac: '02:00:00:00:02:01', ips: [10.2.0.1]}]}
---
{kind: router, id: edge}
---
{kind: router_port, id: edge-far, router: edge, switch: far, mac: '02:00:00:00:ff:03', networks: [10.2.0.254/24]}
";

/// What the others are: the network, and their ports on the hosts.
struct Others {
    network: String,
    ports: [Vec<String>; 2],
}

impl Others {
    fn none() -> Others {
        Others { network: String::new(), ports: [Vec::new(), Vec::new()] }
    }

    /// Some of other tenants and of nobody, with addresses for which acme asks.
    fn random(random: &mut Random) -> Others {
        let mut others = Others::none();
        let mut add = |text: String| others.network += &format!("\n---\n{text}");
        for (number, owner) in [(0, ", tenant: umbra"), (1, ", tenant: third"), (2, "")] {
            if random.below(4) == 0 {
                continue;
            }
            let default = random.pick(&["allow", "drop"]);
            add(format!("{{kind: switch, id: red-{number}{owner}, acl_default: {default}}}"));
            let ips = ["10.0.0.77", "10.3.0.1", "203.0.113.5", "10.0.0.2"];
            let first = random.below(4) as usize;
            for port in 0..random.below(4) {
                let id = format!("red-{number}-{port}");
                let ip = ips[(first + port as usize) % ips.len()];
                add(format!(
                    "{{kind: switch_port, id: {id}, switch: red-{number}, addresses: [{{mac: '02:00:00:07:0{number}:0{port}', ips: [{ip}]}}]}}"
                ));
                if random.below(3) > 0 {
                    others.ports[random.below(2) as usize].push(id);
                }
            }
            if random.below(2) == 0 {
                add(format!(
                    "{{kind: acl, id: closed-{number}, switch: red-{number}, direction: to_port, priority: 9, action: drop}}"
                ));
            }
        }
        // Behind the router of the operator is something, or nothing.
        if random.below(3) > 0 {
            add("{kind: switch, id: common}".to_owned());
            add("{kind: router_port, id: edge-common, router: edge, switch: common, mac: '02:00:00:00:ff:09', networks: [10.3.0.254/24]}".to_owned());
            add("{kind: switch_port, id: c1, switch: common, addresses: [{mac: '02:00:00:00:03:01', ips: [10.3.0.1]}]}".to_owned());
            others.ports[random.below(2) as usize].push("c1".to_owned());
        }
        if random.below(2) == 0 {
            add("{kind: route, id: nowhere, router: edge, destination: 0.0.0.0/0, discard: true}".to_owned());
        }
        others
    }
}

/// A controller with the objects of acme, and of others. Their ports come first, so the numbers of acme's ports differ.
async fn start(others: Others) -> Shared {
    let network = format!("{NETWORK}{}", others.network);
    let shared = Shared::start_with(&network, |parts| {
        parts.evaluator = Arc::new(|rules| controller::evaluator(rules, 1));
    });
    let shared = shared.await;
    let mut client = shared.running.client().await;
    let own = [vec!["b1"], vec!["b2", "g1", "f1"]];
    let (mut of_others, mut all) = (others.ports.iter(), 0);
    for (host, own) in ["hv1", "hv2"].iter().zip(own) {
        let ports: Vec<&str> =
            of_others.next().unwrap().iter().map(String::as_str).chain(own.iter().copied()).collect();
        let numbered: Vec<(&str, u16)> = ports.iter().copied().zip(1..).collect();
        all += numbered.len();
        let tunnel = shared.running.switches.look(host, |switch| {
            let desired = switch.desired.as_ref();
            desired.and_then(|desired| desired.tunnels.keys().next().cloned())
        });
        let tunnel = tunnel.unwrap_or_else(|| "weft-geneve".to_owned());
        shared.running.switches.connect(host, report(&numbered, &[(&tunnel, 100)])).await;
    }
    let are_there = |switches: &[weft_client::pb::SwitchStatus]| {
        switches.iter().map(|switch| switch.vifs as usize).sum::<usize>() == all
    };
    status_when(&mut client, |status| are_there(&status.switches)).await;
    shared
}

/// A question of acme.
async fn ask(shared: &mut Shared, question: Json) -> Answer {
    shared.acme("POST", "/v1/trace", &question.to_string()).await
}

/// Its answer.
async fn trace(shared: &mut Shared, question: Json) -> Json {
    ask(shared, question).await.expect(200)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_traces_packets_from_its_own_ports() {
    let mut shared = start(Others::none()).await;
    let web = trace(&mut shared, json!({"from": "b1", "to": "b2", "tcp": 443})).await;
    assert_eq!((&web["delivered"], &web["verdict"]), (&json!(true), &json!("delivered to b2")), "{web}");
    assert_eq!(web["trace"]["limited_to"], "tenant acme", "{web}");
    let keys: Vec<&String> = web["trace"].as_object().unwrap().keys().collect();
    let told = ["delivered", "dropped", "from", "leaves", "limited_to", "packet", "text", "to", "verdict"];
    assert_eq!(keys, told, "{web}");

    let cases = [
        (json!({"from": "b1", "to": "b2", "tcp": 22}), "switch blue", "acl", vec!["acl no-ssh"]),
        (json!({"from": "b1", "to": "g1", "udp": 80}), "switch green", "acl", vec!["switch green"]),
        (json!({"from": "b1", "ip": "198.51.100.7"}), "router r", "dead-route", vec!["route no-docs"]),
        (json!({"from": "b1", "to": "g1", "udp": 53}), "router r", "policy", vec!["route_policy no-dns"]),
        (json!({"from": "b1", "ip": "192.0.2.9"}), "router r", "no-route", vec![]),
        (json!({"from": "b1", "to": "g1", "tcp": 80, "ttl": 1}), "router r", "hop-limit", vec![]),
        (
            json!({"from": "b1", "to": "b2", "from_mac": "02:00:00:00:00:09"}),
            "switch blue",
            "port-security",
            vec![],
        ),
    ];
    for (question, place, cause, because) in cases {
        let found = trace(&mut shared, question.clone()).await;
        let [dropped] = &found["trace"]["dropped"].as_array().unwrap()[..] else { panic!("{found}") };
        let told: Vec<&str> =
            dropped["because"].as_array().unwrap().iter().map(|of| of["what"].as_str().unwrap()).collect();
        assert_eq!(
            (&dropped["in"], &dropped["cause"]),
            (&json!(place), &json!(cause)),
            "{question}: {found}"
        );
        assert_eq!((told, &found["delivered"]), (because, &json!(false)), "{question}: {found}");
        assert!(dropped["why"].as_str().unwrap().len() > 9, "{question}: {found}");
    }
    let routed = trace(&mut shared, json!({"from": "b1", "to": "g1", "tcp": 80})).await;
    assert_eq!(routed["verdict"], "delivered to g1", "{routed}");
    let reply = json!({"from": "g1", "to": "b1", "tcp": 80, "connection": "established"});
    assert_eq!(trace(&mut shared, reply).await["verdict"], "delivered to b1");
    let unattached = trace(&mut shared, json!({"from": "b1", "to": "b3"})).await;
    assert_eq!(unattached["verdict"], "dropped: port b3 is not attached to any host", "{unattached}");
    let silent = trace(&mut shared, json!({"from": "b3", "to": "b1"})).await;
    assert_eq!(silent["verdict"], "dropped: port b3 is not attached to any host", "{silent}");
    let nobody = trace(&mut shared, json!({"from": "b1", "ip": "10.0.0.77"})).await;
    assert_eq!(nobody["verdict"], "dropped: no port of tenant acme is known to have the address", "{nobody}");
    let flow = json!({"from": "b1", "flow": "tcp,nw_dst=10.0.0.2,dl_dst=02:00:00:00:00:02,tp_dst=22"});
    let flow = trace(&mut shared, flow).await;
    assert_eq!(flow["trace"]["dropped"][0]["because"][0]["what"], "acl no-ssh", "{flow}");
    shared.running.stop().await;
}

/// What happens behind a router of the operator is not told, whether a port is there or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_packet_that_leaves_the_tenants_networks_is_not_followed() {
    let network = "
---
{kind: switch, id: common}
---
{kind: router_port, id: edge-common, router: edge, switch: common, mac: '02:00:00:00:ff:09', networks: [10.3.0.254/24]}
---
{kind: switch_port, id: c1, switch: common, addresses: [{mac: '02:00:00:00:03:01', ips: [10.3.0.1]}]}
";
    let ports = [vec!["c1".to_owned()], Vec::new()];
    let mut shared = start(Others { network: network.to_owned(), ports }).await;
    let mut told = Vec::new();
    for ip in ["10.3.0.1", "10.3.0.2", "10.9.0.1"] {
        let found = trace(&mut shared, json!({"from": "f1", "ip": ip, "tcp": 80})).await;
        assert_eq!(found["verdict"], "leaves the networks of tenant acme", "{found}");
        assert_eq!((&found["delivered"], &found["trace"]["verdict"]), (&json!(false), &json!("leaves")));
        told.push(found.to_string().replace(ip, "X"));
    }
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    for name in ["edge", "common", "c1", "hv1", "hv2", "172.16"] {
        assert!(!told[0].contains(name), "{name}: {}", told[0]);
    }
    shared.running.stop().await;
}

/// An object of the operator that decides about a packet of the tenant is not named.
#[tokio::test(flavor = "multi_thread")]
async fn what_others_decide_is_told_without_their_objects() {
    let network = "
---
{kind: switch, id: common}
---
{kind: switch_port, id: c1, switch: common}
---
{kind: port_group, id: secret-group, ports: [b2, c1]}
---
{kind: acl, id: secret-acl, port_group: secret-group, direction: to_port, priority: 200, match: {ip_proto: tcp, tp_dst: 443}, action: drop}
";
    let mut shared = start(Others { network: network.to_owned(), ..Others::none() }).await;
    let found = trace(&mut shared, json!({"from": "b1", "to": "b2", "tcp": 443})).await;
    let dropped = &found["trace"]["dropped"][0];
    assert_eq!((&dropped["cause"], &dropped["because"]), (&json!("acl"), &json!([])), "{found}");
    assert_eq!((&dropped["by_others"], &dropped["in"]), (&json!(true), &json!("switch blue")), "{found}");
    assert!(!found.to_string().contains("secret"), "{found}");
    shared.running.stop().await;
}

/// The answer ends at a physical network: it names the tenant's own port to it, and nobody else who may get the packet.
#[tokio::test(flavor = "multi_thread")]
async fn a_packet_on_a_physical_network_is_followed_to_the_tenants_port() {
    let network = "
---
{kind: transport_node, id: hv3, ip: 172.16.0.3, encaps: [geneve], ovsdb: 'unix:/hv3', openflow: 'unix:/hv3.mgmt', bridge_mappings: {lab: br-lab}}
---
{kind: switch, id: wan, tenant: acme}
---
{kind: localnet_port, id: out, switch: wan, physical_network: lab, tag: 7}
---
{kind: switch_port, id: w1, switch: wan, addresses: [{mac: '02:00:00:00:04:01', ips: [10.4.0.1]}]}
";
    let mut shared = start(Others { network: network.to_owned(), ..Others::none() }).await;
    let switches = shared.running.switches.clone();
    switches.connect("hv3", report(&[("w1", 1)], &[])).await;
    let mut client = shared.running.client().await;
    status_when(&mut client, |status| status.switches.iter().all(|switch| switch.vifs > 0)).await;
    // The port to the bridge is wanted now, and the switch has made it.
    let wanted = switches.look("hv3", |switch| switch.desired.as_ref().unwrap().patches.clone());
    let mut reported = report(&[("w1", 1)], &[]);
    reported.patches.extend(wanted.into_keys().zip(200..));
    switches.event("hv3", switch_model::Event::Report(reported)).await;
    let flow = json!({"from": "w1", "flow": "udp,dl_dst=ff:ff:ff:ff:ff:ff,nw_dst=255.255.255.255,tp_dst=67"});
    let mut found = trace(&mut shared, flow.clone()).await;
    let deadline = tokio::time::Instant::now() + DEADLINE;
    while found["verdict"] != "delivered to out" {
        assert!(tokio::time::Instant::now() < deadline, "{found}");
        found = trace(&mut shared, flow.clone()).await;
    }
    assert_eq!(found["trace"]["leaves"], true, "{found}");
    assert!(!found.to_string().contains("lab"), "{found}");
    let refused = ask(&mut shared, json!({"from": "out", "to": "w1"})).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("packets from a physical network come to others too"), "{}", refused.text);
    shared.running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_of_others_cannot_be_traced() {
    let network = "
---
{kind: switch, id: red, tenant: umbra}
---
{kind: switch_port, id: r1, switch: red, addresses: [{mac: '02:00:00:00:09:01', ips: [10.0.0.77]}]}
---
{kind: acl, id: b9, switch: red, direction: to_port, priority: 1, action: drop}
";
    let ports = [vec!["r1".to_owned()], Vec::new()];
    let mut shared = start(Others { network: network.to_owned(), ports }).await;
    // A port of another tenant, of the operator, another object, a host, and nothing.
    for (from, to) in [("X", "b1"), ("b1", "X")] {
        let mut told = Vec::new();
        for name in ["r1", "edge-far", "red", "hv1", "b9", "blue", "none"] {
            let question = json!({"from": from.replace('X', name), "to": to.replace('X', name)});
            let answer = ask(&mut shared, question).await;
            assert_eq!(answer.status, 400, "{}", answer.text);
            told.push((answer.text.replace(name, "X"), answer.headers.get("content-type").cloned()));
        }
        assert!(told[0].0.contains(r#"tenant acme has no port \"X\""#), "{told:?}");
        assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
    }
    // Nor is an address found that only another tenant has.
    let found = trace(&mut shared, json!({"from": "b1", "ip": "10.0.0.77"})).await;
    assert_eq!(found["verdict"], "dropped: no port of tenant acme is known to have the address", "{found}");
    for question in [
        json!({"from": "b1", "to": "b2", "live": true}),
        json!({"from": "b1", "to": "b2", "without": [{"kind": "acl", "id": "no-ssh"}]}),
        json!({"from": "b1", "to": "b2", "with": [{"kind": "switch", "id": "acme-x", "tenant": "acme"}]}),
    ] {
        let answer = ask(&mut shared, question).await;
        assert_eq!(answer.status, 403, "{}", answer.text);
        assert!(answer.text.contains("the role viewer"), "{}", answer.text);
    }
    for path in ["/v1/explain", "/v1/why-not"] {
        shared.acme("POST", path, r#"{"object": {"kind": "switch", "id": "blue"}}"#).await.expect(403);
    }
    shared.running.stop().await;
}

/// The answer says if a host of its ports is not connected, but not which.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_learns_that_a_host_of_its_ports_is_cut_off() {
    use switch_model::{Channel, Event};
    let mut shared = start(Others::none()).await;
    let gone = Event::Disconnected { channel: Channel::OpenFlow, why: "broke".to_owned() };
    shared.running.switches.event("hv2", gone).await;
    let mut client = shared.running.client().await;
    status_when(&mut client, |status| status.switches.iter().any(|switch| !switch.connected)).await;
    let found = trace(&mut shared, json!({"from": "b1", "to": "b2", "tcp": 443})).await;
    let why = "a host of these ports is not connected, and may have other flows";
    assert_eq!(found["verdict"], format!("delivered by the rules to b2, but {why}"), "{found}");
    assert_eq!((&found["not_in_force"], &found["trace"]["not_in_force"]), (&json!([why]), &json!([why])));
    assert!(!found.to_string().contains("hv2"), "{found}");
    shared.running.stop().await;
}

/// A random question, about what is acme's, what is of others on one of the controllers, and what is nowhere.
fn question(random: &mut Random) -> Json {
    const FROM: [&str; 9] = ["b1", "b1", "b2", "b3", "g1", "f1", "r-blue", "red-0-0", "c1"];
    const TO: [&str; 9] = ["b1", "b2", "b3", "g1", "f1", "r-green", "red-0-0", "c1", "none"];
    const IPS: [&str; 9] = [
        "10.0.0.2",
        "10.0.0.77",
        "10.1.0.1",
        "10.1.0.254",
        "10.2.0.1",
        "10.3.0.1",
        "198.51.100.7",
        "203.0.113.5",
        "255.255.255.255",
    ];
    let mut question = json!({"from": random.pick(&FROM)});
    if random.below(5) == 0 {
        let (ip, mac) = (random.pick(&IPS), random.pick(&["ff:01", "00:02", "ff:03", "07:00"]));
        question["flow"] = json!(format!("tcp,nw_dst={ip},dl_dst=02:00:00:00:{mac},tp_dst=80"));
        return question;
    }
    match random.below(2) {
        0 => question["to"] = json!(random.pick(&TO)),
        _ => question["ip"] = json!(random.pick(&IPS)),
    }
    match random.below(5) {
        0 => {}
        1 => question["udp"] = json!(53),
        _ => question["tcp"] = json!(random.pick(&[22, 80, 443])),
    }
    match random.below(6) {
        0 => question["ttl"] = json!(1),
        1 => question["from_mac"] = json!("02:00:00:00:00:09"),
        2 => question["connection"] = json!(random.pick(&["established", "reply", "related"])),
        3 => question["to_mac"] = json!(random.pick(&["ff:ff:ff:ff:ff:ff", "02:00:00:00:ff:01"])),
        _ => {}
    }
    question
}

/// Two controllers with the same objects of acme and different ones of others give acme the same traces, byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_tenant_traces_depends_on_its_own_objects_alone() {
    for seed in test_random::seeds!("what_a_tenant_traces_depends_on_its_own_objects_alone", 3) {
        let mut random = Random::new(seed);
        let mut controllers =
            [start(Others::random(&mut random)).await, start(Others::random(&mut random)).await];
        let mut verdicts = std::collections::BTreeSet::new();
        for _ in 0..60 {
            let question = question(&mut random);
            let mut answers = Vec::new();
            for shared in &mut controllers {
                let answer = ask(shared, question.clone()).await;
                for name in ["red-", "common", "edge", "hv1", "hv2", "172.16", "umbra", "third"] {
                    let is_asked = question.to_string().contains(name);
                    assert!(
                        is_asked || !answer.text.contains(name),
                        "seed {seed}: {question}: {}",
                        answer.text
                    );
                }
                answers.push(comparable(&answer));
            }
            assert_eq!(answers[0], answers[1], "seed {seed}: {question}");
            verdicts.insert(answers[0].1["verdict"].as_str().unwrap_or_default().to_owned());
        }
        assert!(verdicts.len() > 8, "seed {seed}: too few different answers: {verdicts:?}");
        for shared in controllers {
            shared.running.stop().await;
        }
    }
}
