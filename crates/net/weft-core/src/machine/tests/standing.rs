//! Whether objects are up: ports by what their hosts have confirmed, and what they are of by them.

use objects::ObjectKey;
use serde_json::json;
use switch_model::Rejection;

use super::published::since;
use super::*;
use crate::fleet::News;
use crate::status::Members;

/// A host connects, with these ports. Its driver has compared nothing yet.
fn connect(world: &mut World, host: &str, ports: &[&str]) {
    for channel in [Channel::Ovsdb, Channel::OpenFlow] {
        world.event(host, SwitchEvent::Connected { channel });
    }
    let mut report = Report::default();
    for (number, port) in ports.iter().enumerate() {
        let interface = InterfaceId(number as u128);
        let vif = Vif { ofport: 7 + number as u16, mac: String::new(), interface };
        report.vifs.insert((*port).to_owned(), vif);
        report.interfaces.insert(((*port).to_owned(), interface));
    }
    world.event(host, SwitchEvent::Report(report));
}

fn confirm(world: &mut World, host: &str) {
    let txn = world.machine().core.last_txn();
    confirm_txn(world, host, txn);
}

fn confirm_txn(world: &mut World, host: &str, txn: u64) {
    let at = world.now.instant;
    world.event(host, SwitchEvent::Confirmed { txn, at, sent: None });
}

fn shown(world: &World, kind: &str, id: &str) -> serde_json::Value {
    world.published.object(kind, id).unwrap().0.state().into()
}

#[test]
fn a_port_is_up_once_its_host_has_confirmed_it_and_what_it_is_of_adds_up() {
    let mut world = World::new(Patience::default());
    let ports = "{kind: group, id: g}\n---\n{kind: placed_port, id: q1, group: g}\n---\n{kind: placed_port, id: q2, group: g}";
    world.apply(ports).unwrap();
    assert_eq!(shown(&world, "placed_port", "q1"), json!({"up": false, "why": ["no host has it"]}));
    assert_eq!(
        shown(&world, "group", "g"),
        json!({"up": false, "members": 2, "members_up": 0, "not_up": ["placed_port q1", "placed_port q2"]})
    );
    connect(&mut world, "hv1", &["q1"]);
    let why = "hv1 has connected and is not in sync yet";
    assert_eq!(shown(&world, "placed_port", "q1"), json!({"node": "hv1", "up": false, "why": [why]}));
    world.event("hv1", SwitchEvent::Synced { flow_mods: 1, tunnels_changed: 0 });
    let txn = world.machine().core.last_txn();
    let why = format!("hv1 has not confirmed transaction {txn} yet");
    assert_eq!(shown(&world, "placed_port", "q1"), json!({"node": "hv1", "up": false, "why": [why]}));
    let revision = world.published.revision();
    confirm(&mut world, "hv1");
    assert_eq!(shown(&world, "placed_port", "q1"), json!({"node": "hv1", "up": true}));
    let of_group = json!({"up": false, "members": 2, "members_up": 1, "not_up": ["placed_port q2"]});
    assert_eq!(shown(&world, "group", "g"), of_group);
    assert_eq!(shown(&world, "transport_node", "hv1"), json!({"up": true, "members": 1, "members_up": 1}));
    // Watchers hear of all three.
    let told: Vec<String> = since(&world, revision).iter().map(|version| version.key.to_string()).collect();
    assert_eq!(told, ["group g", "placed_port q1", "transport_node hv1"]);

    // A change of the port that leaves it where it is does not take it down, and nobody hears of a confirmation.
    world.apply("{kind: placed_port, id: q1, labels: {a: b}, group: g}").unwrap();
    assert_eq!(shown(&world, "placed_port", "q1"), json!({"node": "hv1", "up": true}));
    let revision = world.published.revision();
    confirm(&mut world, "hv1");
    assert_eq!(since(&world, revision).len(), 0);

    // The host is lost: the port with it, and its reason has the time.
    world.event("hv1", SwitchEvent::Disconnected { channel: Channel::OpenFlow, why: "gone".to_owned() });
    let lost = shown(&world, "placed_port", "q1");
    let why = lost["why"][0].as_str().unwrap();
    assert!(lost["up"] == false && why.starts_with("hv1 is not connected since 20"), "{lost}");
    assert_eq!(shown(&world, "group", "g")["members_up"], 0);

    // It comes and goes before anybody can see it: the reason has the new time.
    world.now.wall += Duration::from_mins(1);
    let driver = world.drivers["hv1"];
    for event in [
        SwitchEvent::Connected { channel: Channel::OpenFlow },
        SwitchEvent::Disconnected { channel: Channel::OpenFlow, why: "gone".to_owned() },
    ] {
        let news = SwitchNews { node: "hv1".to_owned(), driver, what: News::Event(event) };
        assert_eq!(world.step(Event::News(news)), []);
    }
    world.group(None);
    assert_ne!(shown(&world, "placed_port", "q1"), lost);

    // Members go with their objects.
    world.request(Change::Delete(vec![ObjectKey::new("placed_port", "q1").into()])).unwrap();
    assert_eq!(
        shown(&world, "group", "g"),
        json!({"up": false, "members": 1, "members_up": 0, "not_up": ["placed_port q2"]})
    );
    assert_eq!(shown(&world, "transport_node", "hv1"), json!({}));
}

/// A host with these ports, all of them confirmed.
fn settled(world: &mut World, host: &str, ports: &[&str]) {
    connect(world, host, ports);
    world.event(host, SwitchEvent::Synced { flow_mods: 1, tunnels_changed: 0 });
    confirm(world, host);
}

fn up(world: &World, kind: &str, id: &str) -> bool {
    shown(world, kind, id)["up"].as_bool().unwrap()
}

/// Why an object is not up; nothing if it is.
fn why(world: &World, kind: &str, id: &str) -> Vec<String> {
    let state = shown(world, kind, id);
    let why: Vec<String> =
        state["why"].as_array().into_iter().flatten().map(|why| why.as_str().unwrap().to_owned()).collect();
    assert_eq!(state["up"].as_bool().unwrap(), why.is_empty());
    why
}

const FILTERED: &str = "
{kind: group, id: g}
---
{kind: placed_port, id: q1, group: g}
---
{kind: placed_port, id: q2, group: g}
---
{kind: placed_port, id: q3, group: g}
---
{kind: bundle, id: b, ports: [q1]}
";

#[test]
fn a_port_waits_until_its_host_has_confirmed_what_changes_of_what_applies_to_it() {
    let mut world = World::new(Patience::default());
    world.apply(FILTERED).unwrap();
    settled(&mut world, "hv1", &["q1", "q2"]);
    settled(&mut world, "hv2", &["q3"]);
    let ports = |world: &World| ["q1", "q2", "q3"].map(|port| why(world, "placed_port", port).join(", "));
    let waits = |host: &str, txn: u64, what: &str| {
        format!("{host} has not confirmed transaction {txn} yet, which changes {what}")
    };
    let none = String::new;
    assert_eq!(ports(&world), [none(), none(), none()]);

    // A filter of a port is made, changed and deleted. It concerns no other port.
    let of_port = |number| format!("{{kind: filter, id: f, port: q1, number: {number}}}");
    for number in [5, 6] {
        let txn = world.apply(&of_port(number)).unwrap().txn.unwrap();
        assert_eq!(ports(&world), [waits("hv1", txn, "filter f"), none(), none()]);
        // A later transaction does not hide it.
        world.apply(&format!("{{kind: group, id: g, labels: {{a: \"{number}\"}}}}")).unwrap();
        assert_eq!(ports(&world)[0], waits("hv1", txn, "filter f"));
        confirm_txn(&mut world, "hv1", txn);
        assert_eq!(ports(&world), [none(), none(), none()]);
    }
    let deleted = world.request(Change::Delete(vec![ObjectKey::new("filter", "f").into()])).unwrap();
    assert_eq!(ports(&world)[0], waits("hv1", deleted.txn.unwrap(), "filter f"));
    confirm(&mut world, "hv1");

    // One of a group concerns all its ports, each until its own host has confirmed it.
    let txn = world.apply("{kind: filter, id: f, group: g, number: 7}").unwrap().txn.unwrap();
    assert_eq!(ports(&world), [("hv1"), ("hv1"), ("hv2")].map(|host| waits(host, txn, "filter f")));
    confirm(&mut world, "hv2");
    assert_eq!(ports(&world)[1..], [waits("hv1", txn, "filter f"), none()]);
    confirm(&mut world, "hv1");
    assert_eq!(ports(&world), [none(), none(), none()]);

    // Of a bundle, the ports that come and go are concerned, and not those that stay.
    world.apply("{kind: filter, id: f, bundle: b, number: 7}").unwrap();
    confirm(&mut world, "hv1");
    confirm(&mut world, "hv2");
    let txn = world.apply("{kind: bundle, id: b, ports: [q1, q2]}").unwrap().txn.unwrap();
    assert_eq!(ports(&world), [none(), waits("hv1", txn, "bundle b"), none()]);
    confirm(&mut world, "hv1");
    let txn = world.apply("{kind: bundle, id: b, ports: [q2]}").unwrap().txn.unwrap();
    assert_eq!(ports(&world), [waits("hv1", txn, "bundle b"), none(), none()]);

    // A host that is lost meanwhile compares everything when it is back.
    world.event("hv1", SwitchEvent::Disconnected { channel: Channel::OpenFlow, why: "gone".to_owned() });
    assert!(ports(&world)[0].starts_with("hv1 is not connected"));
    world.event("hv1", SwitchEvent::Connected { channel: Channel::OpenFlow });
    world.event("hv1", SwitchEvent::Synced { flow_mods: 1, tunnels_changed: 0 });
    confirm(&mut world, "hv1");
    assert_eq!(ports(&world), [none(), none(), none()]);

    // A change that leaves the flows of the host alone is not reported.
    let revision = world.published.revision();
    world.apply("{kind: filter, id: f, bundle: b, number: 7, labels: {a: b}}").unwrap();
    let told: Vec<String> = since(&world, revision).iter().map(|version| version.key.to_string()).collect();
    assert_eq!(told, ["filter f"]);
}

#[test]
fn a_port_is_not_up_while_its_host_refuses_what_applies_to_it() {
    let mut world = World::new(Patience::default());
    world.apply(FILTERED).unwrap();
    settled(&mut world, "hv1", &["q1", "q2"]);
    let refuse = |world: &mut World, txn, count| {
        let first = vec![Rejection { what: "a flow".to_owned(), reason: "it is odd".to_owned() }];
        world.event("hv1", SwitchEvent::Refused { txn, count, first });
    };
    let txn = world.apply("{kind: filter, id: f, port: q1, number: 5}").unwrap().txn.unwrap();
    refuse(&mut world, Some(txn), 1);
    world.event("hv1", SwitchEvent::RefusedTotal { refused: 1 });
    let refused = format!("hv1 has refused a part of transaction {txn}, which changes filter f");
    assert_eq!(why(&world, "placed_port", "q1"), [refused.as_str()]);
    assert!(up(&world, "placed_port", "q2"));

    // Later transactions do not make it good, nor does a host that comes back and refuses it again.
    world.apply("{kind: filter, id: other, port: q2, number: 6}").unwrap();
    confirm(&mut world, "hv1");
    assert_eq!(why(&world, "placed_port", "q1"), [refused.as_str()]);
    world.event("hv1", SwitchEvent::Disconnected { channel: Channel::OpenFlow, why: "gone".to_owned() });
    world.event("hv1", SwitchEvent::RefusedTotal { refused: 0 });
    world.event("hv1", SwitchEvent::Connected { channel: Channel::OpenFlow });
    refuse(&mut world, None, 1);
    world.event("hv1", SwitchEvent::Synced { flow_mods: 1, tunnels_changed: 0 });
    world.event("hv1", SwitchEvent::RefusedTotal { refused: 1 });
    assert_eq!(why(&world, "placed_port", "q1"), [refused.as_str()]);

    // Once the host refuses nothing any more, the port is up.
    world.apply("{kind: filter, id: f, port: q1, number: 7}").unwrap();
    confirm(&mut world, "hv1");
    world.event("hv1", SwitchEvent::RefusedTotal { refused: 0 });
    assert!(up(&world, "placed_port", "q1"));

    // So it is with what puts the port there; a host that takes all of it when it is back has made it good.
    world.apply("{kind: placed_port, id: q3, group: g}").unwrap();
    connect(&mut world, "hv2", &["q3"]);
    world.event("hv2", SwitchEvent::Synced { flow_mods: 1, tunnels_changed: 0 });
    let txn = world.machine().core.last_txn();
    let first = vec![Rejection { what: "a flow".to_owned(), reason: "it is odd".to_owned() }];
    world.event("hv2", SwitchEvent::Refused { txn: Some(txn), count: 1, first });
    world.event("hv2", SwitchEvent::RefusedTotal { refused: 1 });
    assert_eq!(why(&world, "placed_port", "q3"), [format!("hv2 has refused a part of transaction {txn}")]);
    world.event("hv2", SwitchEvent::Disconnected { channel: Channel::OpenFlow, why: "gone".to_owned() });
    world.event("hv2", SwitchEvent::RefusedTotal { refused: 0 });
    world.event("hv2", SwitchEvent::Connected { channel: Channel::OpenFlow });
    world.event("hv2", SwitchEvent::Synced { flow_mods: 1, tunnels_changed: 0 });
    assert!(up(&world, "placed_port", "q3"));
}

#[test]
fn what_needs_members_is_up_with_them_and_tenants_add_up_what_is_theirs() {
    let mut world = World::new(Patience::default());
    let objects = "
{kind: group, id: g}
---
{kind: group, id: other}
---
{kind: placed_port, id: q1, group: g}
---
{kind: placed_port, id: q2, group: g}
---
{kind: hall, id: h, tenant: acme}
---
{kind: hall, id: empty, tenant: acme}
---
{kind: door, id: d, hall: h, group: g}
---
{kind: door, id: e, hall: h, group: other}
";
    world.apply(objects).unwrap();
    assert_eq!(why(&world, "door", "d"), ["no member of group g is up"]);
    let tenant = |world: &World| world.published.tenants(Some("acme"));
    let none_up = json!({"up": false, "members": 2, "members_up": 0, "not_up": ["door d", "door e"]});
    assert_eq!(shown(&world, "hall", "h"), none_up);
    let of_acme = |up, not_up: &[&str]| {
        let not_up = not_up.iter().map(|id| ObjectKey::new("hall", *id)).collect();
        vec![("acme".into(), Members { all: 2, up, not_up })]
    };
    assert_eq!(tenant(&world), of_acme(1, &["h"]));

    // One port that is up is enough for a door, and so it is a hall and a tenant higher, in one revision.
    let revision = world.published.revision();
    settled(&mut world, "hv1", &["q1"]);
    assert_eq!(why(&world, "door", "d"), [""; 0]);
    assert_eq!(shown(&world, "group", "g")["members"], 2, "a door is no member of what it needs");
    assert_eq!(shown(&world, "hall", "h")["not_up"], json!(["door e"]));
    let told = since(&world, revision);
    let last: Vec<String> = told.iter().rev().take(5).map(|version| version.key.to_string()).collect();
    assert_eq!(last, ["transport_node hv1", "placed_port q1", "hall h", "group g", "door d"]);
    world.apply("{kind: door, id: e, hall: h, group: g}").unwrap();
    assert_eq!(shown(&world, "hall", "h"), json!({"up": true, "members": 2, "members_up": 2}));
    assert_eq!(tenant(&world), of_acme(2, &[]));

    // The reason of the rules comes first.
    world.apply("{kind: door, id: e, hall: h, group: g, locked: true}").unwrap();
    assert_eq!(why(&world, "door", "e"), ["the door is locked"]);
    assert_eq!(tenant(&world), of_acme(1, &["h"]));
    world.apply("{kind: hall, id: h, tenant: umbra}").unwrap();
    assert_eq!(tenant(&world)[0].1.all, 1);
    let all: Vec<_> = world.published.tenants(None).into_iter().map(|(tenant, _)| tenant).collect();
    assert_eq!(all, ["acme".into(), "umbra".into()]);

    // And down again with the last port.
    world.event("hv1", SwitchEvent::Disconnected { channel: Channel::OpenFlow, why: "gone".to_owned() });
    assert_eq!(why(&world, "door", "d"), ["no member of group g is up"]);
    // A start publishes the same.
    let before =
        ["door", "door", "hall"].iter().zip(["d", "e", "h"]).map(|(kind, id)| shown(&world, kind, id));
    let before: Vec<_> = before.collect();
    world.start();
    let after =
        ["door", "door", "hall"].iter().zip(["d", "e", "h"]).map(|(kind, id)| shown(&world, kind, id));
    assert_eq!(before, after.collect::<Vec<_>>());
}
