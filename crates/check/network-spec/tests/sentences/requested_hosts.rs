//! Ports that only some hosts may have.

use network_spec::{Encap, Model, Port, Tap};

use crate::sentences::frames::{BROADCAST, mac, tag, unknown as any};
use crate::sentences::worlds::{port, world};

fn hosts(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

/// `a` on hv1; `p` requests these hosts and is reported by hv1, then hv2, then hv3.
fn requesting(requested: &[&str]) -> Model {
    let p = Port { requested_hosts: hosts(requested), ..port("blue", 2) };
    let mut world = world(
        &[Encap::Geneve],
        &[
            ("a", "hv1", port("blue", 1)),
            ("p", "hv1", p),
            ("b", "hv2", port("blue", 3)),
            ("c", "hv3", port("blue", 4)),
        ],
    );
    world.vnics.insert(("hv2".into(), "p".into()), 2);
    world.vnics.insert(("hv3".into(), "p".into()), 3);
    Model::new(world)
}

/// The hosts at which `p` receives, and those at which it can send.
fn live(model: &mut Model) -> (Vec<String>, Vec<&'static str>) {
    let out = model.inject(&Tap::vnic("hv1", "a"), &any(mac(1), mac(2)));
    let at = out.into_iter().map(|arrival| match arrival.at {
        Tap::Vnic { host, port } if port == "p" => host,
        other => panic!("{other:?}"),
    });
    let at = at.collect();
    let sends = |host: &&str| !model.inject(&Tap::vnic(host, "p"), &any(mac(2), BROADCAST)).is_empty();
    (at, ["hv1", "hv2", "hv3"].into_iter().filter(sends).collect())
}

#[test]
fn a_report_of_a_host_that_the_port_does_not_request_is_ignored_however_late_it_is() {
    assert_eq!(live(&mut requesting(&["hv1"])), (vec!["hv1".into()], vec!["hv1"]));
    assert_eq!(live(&mut requesting(&["hv2"])), (vec!["hv2".into()], vec!["hv2"]));
    assert_eq!(
        live(&mut requesting(&[])),
        (vec!["hv3".into()], vec!["hv3"]),
        "without a request any host may"
    );
}

#[test]
fn of_several_requested_hosts_the_first_that_reports_has_the_port_whenever_it_does() {
    assert_eq!(live(&mut requesting(&["hv1", "hv2"])), (vec!["hv1".into()], vec!["hv1"]));
    let mut model = requesting(&["hv2", "hv1"]);
    assert_eq!(live(&mut model), (vec!["hv2".into()], vec!["hv2"]));
    model.apply(|world| {
        world.vnics.insert(("hv1".into(), "p".into()), 9);
    });
    assert_eq!(live(&mut model), (vec!["hv2".into()], vec!["hv2"]));
    model.apply(|world| {
        world.vnics.remove(&("hv2".into(), "p".into()));
    });
    assert_eq!(live(&mut model), (vec!["hv1".into()], vec!["hv1"]));
}

#[test]
fn a_port_moves_when_the_request_changes_and_not_only_when_a_report_does() {
    let mut model = requesting(&["hv1", "hv2"]);
    model.apply(|world| world.ports.get_mut("p").unwrap().requested_hosts = hosts(&["hv2"]));
    assert_eq!(live(&mut model), (vec!["hv2".into()], vec!["hv2"]));
}

#[test]
fn a_report_that_is_ignored_for_that_reason_is_a_problem_of_the_port() {
    let problems = |model: &Model| model.world().reported_elsewhere().len();
    assert_eq!(problems(&requesting(&["hv1"])), 1);
    assert_eq!(problems(&requesting(&["hv1", "hv2", "hv3"])), 0);
    assert_eq!(problems(&requesting(&[])), 0, "without a request none is ignored");
    let mut model = requesting(&["hv1"]);
    model.apply(|world| world.ports.get_mut("p").unwrap().enabled = false);
    assert_eq!(problems(&model), 0, "a disabled port has no use for any report");
}

#[test]
fn a_port_that_only_other_hosts_report_is_nowhere() {
    let mut model = requesting(&["hv2"]);
    model.apply(|world| {
        world.vnics.remove(&("hv2".into(), "p".into()));
    });
    assert_eq!(live(&mut model), (vec![], vec![]));
}

#[test]
fn a_trunk_member_is_where_its_parent_is_whatever_hosts_it_requests_itself() {
    let mut model = requesting(&["hv2"]);
    model.apply(|world| {
        let parent = Some(("p".into(), 11));
        let member = Port { parent, requested_hosts: hosts(&["hv3"]), ..port("blue", 5) };
        world.ports.insert("box".into(), member);
    });
    assert_eq!(model.world().location("box"), Some("hv2"));
    model.apply(|world| {
        world.vnics.insert(("hv1".into(), "box".into()), 9);
    });
    assert!(
        !model.world().reported_elsewhere().contains("box"),
        "its reports are ignored for another reason"
    );
    let frame = any(mac(5), mac(1));
    for (host, passes) in [("hv1", false), ("hv2", true), ("hv3", false)] {
        let out = model.inject(&Tap::vnic(host, "p"), &tag(&frame, 0x8100, 11));
        assert_eq!(!out.is_empty(), passes, "{host}");
    }
}
