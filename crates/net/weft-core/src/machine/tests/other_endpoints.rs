//! Transport nodes that get other endpoints, and restarts of the controller: what is known of switches, and when they are written to.

use switch_model::{Channel, Event as SwitchEvent, InterfaceId, Report, Vif};

use super::super::*;
use super::world::{HOSTS, World};
use crate::fleet::News;
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

/// A host with two ports, of which the second has come since, that a restarted controller has not heard of.
fn restarted() -> World {
    let mut world = World::new(Patience::default());
    world.event("hv1", SwitchEvent::Report(with_port(7)));
    world.apply("{kind: switch_port, id: p3, number: 1}").unwrap();
    world.orders.clear();
    world.start();
    world
}

fn connect(world: &mut World) {
    for channel in [Channel::Ovsdb, Channel::OpenFlow] {
        world.event("hv1", SwitchEvent::Connected { channel });
    }
}

/// Takes what a switch says, and what follows at once, before anything is tried again.
fn hear(world: &mut World, event: SwitchEvent) {
    let news = SwitchNews { node: "hv1".to_owned(), driver: world.drivers["hv1"], what: News::Event(event) };
    assert_eq!(world.step(Event::News(news)), []);
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
    connect(&mut world);
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

#[test]
fn a_controller_that_starts_writes_to_no_switch_before_it_has_reported() {
    let mut world = restarted();
    assert_eq!(world.orders.len(), HOSTS.len());
    assert!(world.orders.iter().all(|order| order.ends_with("given: None }")), "{:?}", world.orders);
    connect(&mut world);
    told(&mut world);
    world.apply("{kind: switch_port, id: p1, number: 5}").unwrap();
    assert_eq!(told(&mut world), ["Push"], "its driver merges that with what it will be given");
    let records = world.records.len();
    world.event("hv1", SwitchEvent::Report(with_port(7)));
    assert_eq!((told(&mut world), world.records.len()), (vec!["Give".to_owned()], records));
    // The host was started anew as well.
    let mut world = restarted();
    connect(&mut world);
    told(&mut world);
    world.event("hv1", SwitchEvent::Report(with_port(9)));
    let given = std::mem::take(&mut world.orders);
    assert!(given.last().unwrap().starts_with("Give"), "{given:?}");
    assert!(world.flows()["hv1"].iter().all(|flow| !flow.contains("PortNo(7)")), "{:?}", world.flows());
}

#[test]
fn a_switch_whose_report_is_refused_is_written_to_once_no_former_port_number_is_left() {
    let mut world = restarted();
    connect(&mut world);
    told(&mut world);
    // Two ports with one number derive one flow twice.
    let mut report = with_port(8);
    let interface = InterfaceId(3);
    report.vifs.insert("p3".to_owned(), Vif { ofport: 9, mac: String::new(), interface });
    report.interfaces.insert(("p3".to_owned(), interface));
    hear(&mut world, SwitchEvent::Report(report));
    assert_eq!(world.machine().records().count(), 0, "it is refused as a whole");
    assert_eq!(told(&mut world), [""; 0]);
    world.group(None);
    let orders = told(&mut world);
    assert_eq!(orders.last().map(String::as_str), Some("Give"), "{orders:?}");
    assert!(world.flows()["hv1"].iter().all(|flow| !flow.contains("PortNo(7)")), "{:?}", world.flows());
    let error = &world.status().switches[0].last_error;
    assert!(error.starts_with("report refused"), "{error}");
}

#[test]
fn a_switch_whose_report_is_put_aside_is_written_to_if_it_has_the_numbers_that_the_rules_have() {
    for (ofport, is_given) in [(7, true), (8, false)] {
        let mut world = restarted();
        connect(&mut world);
        told(&mut world);
        let (now, driver) = (world.now, world.drivers["hv1"]);
        let what = News::Event(SwitchEvent::Report(with_port(ofport)));
        let news = Event::News(SwitchNews { node: "hv1".to_owned(), driver, what });
        let mut effects = world.machine().step(now, news).unwrap();
        effects.extend(world.machine().step(now, Event::Look { heard_all: true }).unwrap());
        let task = world.machine().next_task(now, &|_| false).unwrap();
        effects.extend(
            world.machine().step(now, Event::PutAside(task, "it ended two processes".to_owned())).unwrap(),
        );
        world.carry_out(effects);
        world.group(None);
        let expected: &[&str] = if is_given { &["Give"] } else { &[] };
        assert_eq!(told(&mut world), expected, "{ofport}");
        let error = &world.status().switches[0].last_error;
        assert_eq!(error.contains("nothing is written to it"), !is_given, "{error}");
    }
}
