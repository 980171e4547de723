//! Machines that the responders of their hosts check, as a package of rules asks for, and what its rules make of the results.

use std::process::{Child, Stdio};

use lab::VmSpec;
use testbed::Testbed;

use super::support::{ask, bring_up, settings, wait_for};

/// An object has a port checked, and a port whose machine does not work has a problem.
const PACKAGE: &str = r#"
import "builtin/interface/driver.nlog";
import "builtin/interface/labels.nlog";
import "builtin/interface/layout.nlog";
import "builtin/interface/objects.nlog";
import "builtin/interface/packets.nlog";
import "builtin/interface/reports.nlog";
import "builtin/interface/universal.nlog";
import "builtin/interface/unpacked.nlog";
import "builtin/logical/ports.nlog";
import "builtin/logical/responses.nlog";

## Checks the IPv4 addresses of a port.
object health_check {
    ## The port.
    port: ref switch_port;
    ## What is checked, as `respond` knows it.
    check: string;
    ## The address that asks.
    from: ip;
}

const ASKER = mac"02:00:00:00:42:fe";
## What no packet meets.
priority CHECKED of RESPOND = 103;
## What machines answer to checks.
priority ANSWERS_CHECK of GUARD = 130;

logical_port_flow(port, RESPOND, CHECKED, match{ip, sought_ipv4: NO_PACKET + label},
        respond(0, "probe",
            [
                "id=" ++ id, "check=" ++ check, "from=" ++ to_string(from), "from_mac=" ++ to_string(ASKER),
                "to=" ++ to_string(ip), "to_mac=" ++ to_string(mac), "interval=1", "failures=2", "successes=1",
            ],
            actions[set(datapath, switch_label), set(outport, label), set(own_answer, 1), resubmit(OUT_PORT)])) :-
    health_check(id: id, port: port, check: check, from: from, ..),
    port_ip(port, ip, mac),
    logical_port(port, sw, label),
    datapath_label(sw, switch_label);

logical_port_flow(port, GUARD, ANSWERS_CHECK, match{inport: label, ip, ip_dst: from},
        respond(0, "probed", [], actions[])) :-
    health_check(port: port, from: from, ..),
    logical_port(port, _, label);

problem("switch_port", port, "unhealthy", cause) :-
    health_check(id: id, port: port, ..),
    probe_result(_, id, false, cause, _);
"#;

const NETWORK: &str = "
{kind: switch, id: blue, acl_default: drop}
---
{kind: switch_port, id: web, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:42:01', ips: [10.42.0.1]}]}
---
{kind: health_check, id: web-works, port: web, check: 'http:8080:/', from: 10.42.0.254}
";

struct Server(Child);

impl Server {
    fn start(testbed: &Testbed) -> Server {
        let mut command = testbed.lab().unwrap().command("web", "python3").unwrap();
        command.args(["-m", "http.server", "8080", "--directory"]).arg(testbed.folder().join("pages"));
        Server(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// The causes of the problems of ports that do not work.
fn unhealthy(testbed: &Testbed) -> Vec<String> {
    let problems = testbed.status().unwrap().problems.into_iter();
    problems.filter(|problem| problem.code == "unhealthy").map(|problem| problem.text).collect()
}

fn becomes(testbed: &Testbed, causes: &[&str]) {
    wait_for(&format!("{causes:?}"), || (unhealthy(testbed) == causes).then_some(()));
}

#[test]
fn a_package_has_machines_checked_and_its_rules_see_which_work() {
    let mut testbed = Testbed::start(settings("health")).unwrap();
    let package = testbed.folder().join("health");
    std::fs::create_dir_all(&package).unwrap();
    std::fs::create_dir_all(testbed.folder().join("pages")).unwrap();
    std::fs::write(package.join("health.nlog"), PACKAGE).unwrap();
    ask(&testbed, &["rules", "load", "builtin", package.to_str().unwrap()]);
    let web = VmSpec::new("web", "hv1", "web", "02:00:00:00:42:01").address("10.42.0.1/24");
    bring_up(&testbed, NETWORK, &[web]);
    // A probe may already have made the machine ask: `add` would then fail.
    let neighbour = ["ip", "neigh", "replace", "10.42.0.254", "lladdr", "02:00:00:00:42:fe", "dev", "eth0"];
    assert!(testbed.lab().unwrap().exec("web", &neighbour).unwrap().success());
    becomes(&testbed, &["refused"]);
    let server = Server::start(&testbed);
    becomes(&testbed, &[]);
    drop(server);
    becomes(&testbed, &["refused"]);

    // What the responder finds while the controller is dead is there when it is back.
    testbed.kill_controller().unwrap();
    let server = Server::start(&testbed);
    let host = testbed.lab().unwrap().host("hv1").unwrap();
    wait_for("the result in the database", || {
        let found = host.vsctl(&["get", "bridge", "br-int", "external_ids:weft-probe-web-works"]).unwrap();
        (found.trim() == "up").then_some(())
    });
    testbed.start_controller().unwrap();
    becomes(&testbed, &[]);
    drop(server);
    // Before it is killed, the result is known; without anybody who checks, it stays.
    becomes(&testbed, &["refused"]);
    testbed.kill_responders();
    let _server = Server::start(&testbed);
    ask(&testbed, &["set", "--wait", "switch", "blue", "acl_default=allow"]);
    assert_eq!(unhealthy(&testbed), ["refused"]);
}
