//! Tunnel ports that others are to see as down, in the database of a real switch.

use std::path::PathBuf;

use frame_builder::announcement;

use super::*;

/// A lab with a responder and two tunnel ports to nobody, of which one has a session of BFD.
fn with_tunnels(name: &str) -> Routed {
    let routed = Routed::start(name);
    for (port, address) in [("g1", "192.0.2.1"), ("g2", "192.0.2.2")] {
        let remote = format!("options:remote_ip={address}");
        let words = ["add-port", "br-int", port, "--", "set", "interface", port, "type=geneve", &remote];
        routed.host().vsctl(&words).unwrap();
    }
    routed.host().vsctl(&["set", "interface", "g1", "bfd:enable=true", "bfd:min_tx=100"]).unwrap();
    routed
}

/// The value of a key of the database, without waiting for ovs-vswitchd.
pub(super) fn value(routed: &Routed, table: &str, row: &str, key: &str) -> String {
    value_of(&routed.host(), table, row, key)
}

fn value_of(host: &lab::Host, table: &str, row: &str, key: &str) -> String {
    let words = ["--no-wait", "--if-exists", "get", table, row, key];
    host.vsctl(&words).unwrap().trim().trim_matches('"').to_owned()
}

fn is_held(routed: &Routed) -> bool {
    assert_eq!(value(routed, "interface", "g2", "bfd:cpath_down"), "", "it has no session");
    value(routed, "interface", "g1", "bfd:cpath_down") == "true"
}

fn remembered(routed: &Routed) -> String {
    value(routed, "bridge", "br-int", "external_ids:weft-hold")
}

/// Waits, and says how long it took.
pub(super) fn until(what: &str, condition: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        std::thread::yield_now();
    }
    println!("{what}: after {:?}", begun.elapsed());
    begun.elapsed()
}

/// The flow by which a gateway says that it has its flows.
fn marker(settings: &[&str]) -> String {
    unmet(0xfff, "ready", settings, "drop")
}

/// How often the key has been written since the database was made.
fn writes(routed: &Routed) -> usize {
    let file: PathBuf = routed.host().run_dir.join("conf.db");
    String::from_utf8_lossy(&std::fs::read(file).unwrap()).matches("cpath_down").count()
}

#[test]
fn tunnels_are_held_from_the_end_of_a_switch_until_it_has_its_flows_again() {
    let mut routed = with_tunnels("respholds");
    // No flow has ever said that others choose this switch, so whatever the key is, it stays.
    routed.host().vsctl(&["set", "interface", "g1", "bfd:cpath_down=true"]).unwrap();
    routed.answer();
    let host = routed.host();
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    host.add_flows("br-int", &flows()).unwrap();
    routed.wait_for_answers();
    assert_eq!((is_held(&routed), remembered(&routed)), (true, String::new()));
    host.vsctl(&["remove", "interface", "g1", "bfd", "cpath_down"]).unwrap();

    host.add_flows("br-int", &marker(&["hold=all"])).unwrap();
    until("it is remembered", || remembered(&routed) == "all");
    assert!(!is_held(&routed));
    for _ in 0..2 {
        host.kill_vswitchd().unwrap();
        until("held without a switch", || is_held(&routed));
        host.start_vswitchd().unwrap();
        host.add_flows("br-int", &flows()).unwrap();
        routed.wait_for_answers();
        assert!(is_held(&routed), "not all flows are in");
        host.add_flows("br-int", &marker(&["hold=all"])).unwrap();
        until("released", || !is_held(&routed));
    }
    // Somebody deletes all flows.
    host.ofctl(&["del-flows", "br-int"]).unwrap();
    until("held without flows", || is_held(&routed));
}

#[test]
fn a_responder_that_was_killed_sets_right_what_has_happened_meanwhile() {
    let mut routed = with_tunnels("respheld");
    routed.answer();
    let host = routed.host();
    let whole = flows() + &marker(&["hold=g1"]);
    host.add_flows("br-int", &whole).unwrap();
    until("it is remembered", || remembered(&routed) == "g1");
    let before = writes(&routed);
    for _ in 0..3 {
        routed.stop();
        routed.answer();
    }
    assert_eq!(writes(&routed), before, "a start of the responder alone changes nothing");

    routed.stop();
    host.kill_vswitchd().unwrap();
    assert!(!is_held(&routed), "nobody is there to hold it");
    routed.begin();
    until("held from the start on", || is_held(&routed));
    routed.stop();
    host.start_vswitchd().unwrap();
    host.add_flows("br-int", &whole).unwrap();
    assert!(is_held(&routed));
    routed.begin();
    until("released from the start on", || !is_held(&routed));
    assert_eq!(remembered(&routed), "g1");

    // The database is away meanwhile.
    routed.stop();
    host.kill_vswitchd().unwrap();
    host.kill_ovsdb().unwrap();
    routed.begin();
    host.start_ovsdb().unwrap();
    until("held when the database is back", || is_held(&routed));
}

#[test]
fn a_switch_whose_uplink_is_down_is_held_and_announces_when_it_is_back() {
    let mut routed = with_tunnels("respuplink");
    routed.answer();
    let host = routed.host();
    let mac = [2, 0, 0, 0, 0xff, 9];
    let flows = unmet(1, "announce", &["mac=02:00:00:00:ff:09"], "output:2")
        + &marker(&["hold=all", "uplink=br-phy"]);
    let taps = routed.lab.taps(&["b"]).unwrap();
    let heard = |count: usize| {
        let mut arrived = taps.first(|frame| frame[6..12] == mac, count, DEADLINE).unwrap();
        arrived.remove("b").unwrap_or_default()
    };
    host.add_flows("br-int", &flows).unwrap();
    until("it is remembered", || remembered(&routed) == "all");
    assert_eq!(heard(4).len(), 4);
    assert!(!is_held(&routed));
    let set = |state: &str| assert!(host.exec(&["ip", "link", "set", "uplink", state]).unwrap().success());
    set("down");
    until("held without an uplink", || is_held(&routed));
    set("up");
    until("released with an uplink", || !is_held(&routed));
    assert_eq!(heard(1), [announcement(mac)]);

    // It ceases to be a gateway while its uplink is down.
    set("down");
    until("held without an uplink", || is_held(&routed));
    host.add_flows("br-int", &marker(&[])).unwrap();
    until("it is forgotten", || remembered(&routed).is_empty());
    assert!(!is_held(&routed));
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    host.add_flows("br-int", &self::flows()).unwrap();
    routed.wait_for_answers();
    assert!(!is_held(&routed), "nothing is remembered");
}

/// Two hosts with a session of BFD, and what each says of it.
#[test]
fn the_other_end_sees_a_held_tunnel_as_down_and_this_end_does_not() {
    let hosts = [HostSpec::new("hv1", [172, 31, 0, 1]), HostSpec::new("hv2", [172, 31, 0, 2])];
    let [one, other] = hosts;
    let options = Options::new("resppeers").host(one).host(other).with_integration_bridge();
    let mut routed = Routed::without_flows(Lab::create(options).unwrap());
    routed.lab.warm_underlay().unwrap();
    for (host, address) in [("hv1", "172.31.0.2"), ("hv2", "172.31.0.1")] {
        let remote = format!("options:remote_ip={address}");
        let port = ["add-port", "br-int", "g1", "--", "set", "interface", "g1", "type=geneve", &remote];
        let session = ["options:key=flow", "bfd:enable=true", "bfd:min_tx=100", "bfd:min_rx=100"];
        routed.lab.host(host).unwrap().vsctl(&[&port[..], &session].concat()).unwrap();
    }
    let [here, there] = ["hv1", "hv2"].map(|name| routed.lab.host(name).unwrap());
    let is = |host: &lab::Host, forwarding: &str| {
        let state = |key| value_of(host, "interface", "g1", key);
        state("bfd_status:state") == "up" && state("bfd_status:forwarding") == forwarding
    };
    until("both are up", || is(&here, "true") && is(&there, "true"));
    routed.begin();
    here.add_flows("br-int", &marker(&["hold=all"])).unwrap();
    until("it is remembered", || remembered(&routed) == "all");
    here.kill_vswitchd().unwrap();
    here.start_vswitchd().unwrap();
    // The session comes up, since the process runs, but nobody chooses the host.
    until("down for the other end", || is(&there, "false"));
    until("up for this end", || is(&here, "true"));
    assert!(is(&there, "false"), "it has no flows yet");
    here.add_flows("br-int", &marker(&["hold=all"])).unwrap();
    until("up for the other end", || is(&there, "true"));
    routed.stop();
}
