//! Transport nodes that get other endpoints: what is known of them, and when their switches are written to.

use switch_model::{Event as SwitchEvent, InterfaceId, Report, Vif};

use super::world::World;
use crate::levels::Patience;

/// The same host, reached in another way, or another host.
const MOVED: &str = "{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'ssl:192.0.2.1:6640', openflow: 'ssl:192.0.2.1:6653'}";

fn with_port(ofport: u16) -> Report {
    let mut report = Report::default();
    let interface = InterfaceId(1);
    report.vifs.insert("p1".to_owned(), Vif { ofport, mac: String::new(), interface });
    report.interfaces.insert(("p1".to_owned(), interface));
    report
}

/// A host with a port whose node has got other endpoints.
fn moved() -> World {
    let mut world = World::new(Patience::default());
    world.event("hv1", SwitchEvent::Report(with_port(7)));
    world.apply(MOVED).unwrap();
    world
}

/// The kinds of orders that drivers got since the last call.
fn told(world: &mut World) -> Vec<String> {
    let kind = |order: String| order.split([' ', '(']).next().unwrap_or_default().to_owned();
    std::mem::take(&mut world.orders).into_iter().map(kind).collect()
}

#[test]
fn what_was_known_holds_and_nothing_is_written_until_the_switch_has_reported() {
    let mut world = moved();
    let start = world.orders.iter().find(|order| order.starts_with("Start") && order.contains("192.0.2.1"));
    assert!(start.unwrap().ends_with("given: None }"), "{start:?}");
    told(&mut world);
    assert_eq!(world.machine().core.vif_count("hv1"), 1);
    for channel in [switch_model::Channel::Ovsdb, switch_model::Channel::OpenFlow] {
        world.event("hv1", SwitchEvent::Connected { channel });
    }
    assert_eq!(told(&mut world), [""; 0]);
    // It is the same switch: nothing changes.
    let records = world.records.len();
    world.event("hv1", SwitchEvent::Report(with_port(7)));
    assert_eq!((told(&mut world), world.records.len()), (vec!["Give".to_owned()], records));
    world.event("hv1", SwitchEvent::Report(with_port(7)));
    assert_eq!(told(&mut world), [""; 0], "once");
}

#[test]
fn another_switch_gets_flows_with_its_own_port_numbers_once_its_report_is_on_disk() {
    let mut world = moved();
    told(&mut world);
    world.works = false;
    world.event("hv1", SwitchEvent::Report(with_port(8)));
    assert_eq!(told(&mut world), [""; 0]);
    world.works = true;
    world.pass(crate::machine::JOURNAL_REST);
    let orders = told(&mut world);
    assert_eq!(orders.last().map(String::as_str), Some("Give"), "{orders:?}");
    assert_eq!(orders.iter().filter(|order| order.starts_with("Give")).count(), 1, "{orders:?}");
    // After the record of what it has reported.
    let ports = &world.records.last().unwrap().insert["vif"];
    assert!(format!("{ports:?}").contains("Number(8)"), "{ports:?}");
}
