//! What probes find, with servers in machines.

use std::process::{Child, Stdio};

use super::held::{until, value};
use super::*;

/// The probes of machine `b`, from the address of its router, and the flows that bring the answers back.
fn flows(failures: u16) -> String {
    let probe = |number: u32, id: &str, check: &str, from: &str, to: &str| {
        let all = [
            format!("id={id}"),
            format!("check={check}"),
            format!("from={from}"),
            format!("from_mac={ROUTER_MAC}"),
            format!("to={to}"),
            format!("to_mac={}", mac(2)),
            "interval=1".to_owned(),
            format!("failures={failures}"),
            "successes=2".to_owned(),
        ];
        unmet(number, "probe", &all.each_ref().map(String::as_str), "output:2")
    };
    let probed = Instruction::from_settings("probed", [], Actions::drop()).unwrap().action(0);
    [
        probe(1, "web", "http:8080:/healthz", "10.0.2.254", "10.0.2.1"),
        probe(2, "tcp", "tcp:8080", "10.0.2.254", "10.0.2.1"),
        probe(3, "ping4", "icmp", "10.0.2.254", "10.0.2.1"),
        probe(4, "ping6", "icmp", "fd02::fe", "fd02::1"),
        probe(5, "tcp6", "tcp:9090", "fd02::fe", "fd02::1"),
        format!("table=0,priority=40000,ip,in_port=2,nw_dst=10.0.2.254 actions={probed}\n"),
        format!("table=0,priority=40000,ipv6,in_port=2,ipv6_dst=fd02::fe actions={probed}\n"),
    ]
    .concat()
}

/// A web server in machine `b`, which ends with the value.
struct Server(Child);

impl Server {
    fn start(routed: &Routed, arguments: &[&str]) -> Server {
        let mut command = routed.lab.command("b", "python3").unwrap();
        command.args(["-m", "http.server"]).args(arguments).arg("--directory").arg(routed.folder.path());
        Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn result(routed: &Routed, id: &str) -> String {
    value(routed, "bridge", "br-int", &format!("external_ids:weft-probe-{id}"))
}

fn becomes(routed: &Routed, id: &str, wanted: &str) {
    until(&format!("{id} is {wanted:?}"), || result(routed, id) == wanted);
}

#[test]
fn servers_are_up_down_and_up_again() {
    let mut routed = Routed::start("respprobe");
    std::fs::write(routed.folder.path().join("healthz"), "well").unwrap();
    routed.host().add_flows("br-int", &flows(3)).unwrap();
    routed.answer();
    for (id, wanted) in [
        ("web", "down:refused"),
        ("tcp", "down:refused"),
        ("tcp6", "down:refused"),
        ("ping4", "up"),
        ("ping6", "up"),
    ] {
        becomes(&routed, id, wanted);
    }
    let first = Server::start(&routed, &["8080"]);
    let other = Server::start(&routed, &["9090", "--bind", "::"]);
    for id in ["web", "tcp", "tcp6"] {
        becomes(&routed, id, "up");
    }
    // What is there and does not work is down too.
    std::fs::remove_file(routed.folder.path().join("healthz")).unwrap();
    becomes(&routed, "web", "down:http-404");
    std::fs::write(routed.folder.path().join("healthz"), "well").unwrap();
    becomes(&routed, "web", "up");
    drop(first);
    becomes(&routed, "web", "down:refused");
    becomes(&routed, "tcp", "down:refused");
    let first = Server::start(&routed, &["8080"]);
    for id in ["web", "tcp"] {
        becomes(&routed, id, "up");
    }
    // A machine that is silent.
    assert!(routed.lab.exec("b", &["ip", "link", "set", "eth0", "down"]).unwrap().success());
    for id in ["web", "tcp", "tcp6", "ping4", "ping6"] {
        becomes(&routed, id, "down:timeout");
    }
    drop((first, other));
    assert!(routed.count("probe") > 20, "{}", routed.counts);
    assert_eq!((routed.count("refused_by_switch"), routed.count("unreadable_flow")), (0, 0));
}

#[test]
fn results_outlive_responders_and_switches_but_not_their_flows() {
    let mut routed = Routed::start("respkeeps");
    routed.host().add_flows("br-int", &flows(200)).unwrap();
    let others = ["external_ids:weft-probe-gone=up", "external_ids:weft-probe-tcp=up", "external_ids:mine=x"];
    routed.host().vsctl(&[&["set", "bridge", "br-int"], &others[..]].concat()).unwrap();
    routed.answer();
    becomes(&routed, "ping4", "up");
    // It is refused, but was up before, and not yet 200 times in a row.
    becomes(&routed, "web", "down:refused");
    until("checked for a while", || routed.count("probe") > 15);
    assert_eq!(result(&routed, "tcp"), "up");
    becomes(&routed, "gone", "");
    assert_eq!(value(&routed, "bridge", "br-int", "external_ids:mine"), "x");
    routed.stop();
    assert_eq!(result(&routed, "ping4"), "up");
    // The switch has lost its flows, and the results stay, also when the flows are back.
    let host = routed.host();
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    routed.begin();
    host.add_flows("br-int", &flows(200)).unwrap();
    let before = routed.count("probe");
    until("checked for a while", || {
        assert_eq!((result(&routed, "tcp").as_str(), result(&routed, "ping4").as_str()), ("up", "up"));
        routed.count("probe") > before + 15
    });
    // Other flows are there, and no probes.
    host.add_flows("br-int", &super::flows()).unwrap();
    for id in ["tcp", "ping4", "ping6", "web"] {
        becomes(&routed, id, "");
    }
}
