//! Names that machines ask for, by a real resolver: rules, flows and responders together.

use std::net::{SocketAddr, UdpSocket};

use lab::{Lab, VmSpec};
use testbed::{DEADLINE, Settings, Testbed};

use super::support::{ask, bring_up, settings, wait_for};

/// No ACL allows anything but connections from `one` to a DNS server of its own, on `two`.
const NETWORK: &str = "
{kind: switch, id: blue, acl_default: drop}
---
{kind: switch, id: red, acl_default: drop}
---
{kind: acl, id: own-server, switch: red, direction: from_port, priority: 1, match: {ip_proto: udp, tp_dst: 53}, action: allow_related}
---
{kind: acl, id: to-own-server, switch: red, direction: to_port, priority: 1, match: {ip_proto: udp, tp_dst: 53}, action: allow_related}
---
{kind: switch_port, id: served, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:41:01', ips: [10.41.0.1, 'fd41::1']}]}
---
{kind: switch_port, id: one, switch: red, port_security: true, addresses: [{mac: '02:00:00:00:42:01', ips: [10.42.0.1, 'fd42::1']}]}
---
{kind: switch_port, id: two, switch: red, port_security: true, addresses: [{mac: '02:00:00:00:42:02', ips: [10.42.0.2, 'fd42::2']}]}
---
kind: dns_zone
id: blue-names
switches: [blue]
server: {ip: 10.41.0.253, mac: '02:00:00:00:41:fd'}
records:
  db.blue.example: [10.41.0.2, 'fd41::2']
  WWW.blue.example: {cname: DB.blue.example}
---
kind: dns_zone
id: blue-6
switches: [blue]
server: {ip: 'fd41::fd', mac: '02:00:00:00:41:fd'}
records: {}
---
kind: dns_zone
id: red-names
switches: [red]
records: {db.red.example: [10.42.0.7]}
";

fn start(name: &str) -> Testbed {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings(name) }).unwrap();
    let machine = |name: &str, host: &str, net: u8, n: u8| {
        let mac = format!("02:00:00:00:{net}:0{n}");
        VmSpec::new(name, host, name, mac)
            .address(format!("10.{net}.0.{n}/24"))
            .address(format!("fd{net}::{n}/64"))
    };
    let machines =
        [machine("served", "hv1", 41, 1), machine("one", "hv1", 42, 1), machine("two", "hv2", 42, 2)];
    bring_up(&testbed, NETWORK, &machines);
    testbed
}

/// What `dig` prints on a machine.
fn dig(lab: &Lab, machine: &str, words: &[&str]) -> String {
    let mut argv = vec!["dig", "+tries=3", "+timeout=5"];
    argv.extend(words);
    let done = lab.exec(machine, &argv).unwrap();
    assert!(done.success(), "{argv:?}: {}{}", done.stdout, done.stderr);
    done.stdout
}

/// The status of an answer, as `NXDOMAIN`.
fn status(answer: &str) -> &str {
    let from = answer.split_once("status: ").map_or("", |(_, rest)| rest);
    from.split_once(',').map_or("", |(status, _)| status)
}

#[test]
fn machines_ask_a_server_that_is_no_machine() {
    let mut testbed = start("names");
    assert!(ask(&testbed, &["get", "dns_zone", "blue-names"]).contains("names: 4"));
    testbed.kill_controller().unwrap();
    let lab = testbed.lab().unwrap();
    for server in ["@10.41.0.253", "@fd41::fd"] {
        for (question, answer) in [
            (vec!["db.blue.example"], "10.41.0.2\n"),
            (vec!["Db.Blue.Example", "AAAA"], "fd41::2\n"),
            (vec!["www.blue.example"], "db.blue.example.\n10.41.0.2\n"),
            (vec!["-x", "10.41.0.2"], "db.blue.example.\n"),
            (vec!["-x", "fd41::2"], "db.blue.example.\n"),
            (vec!["db.blue.example", "MX"], ""),
            (vec!["+noedns", "db.blue.example"], "10.41.0.2\n"),
        ] {
            let words = [vec!["+short", server], question].concat();
            assert_eq!(dig(lab, "served", &words), answer, "{words:?}");
        }
        assert_eq!(status(&dig(lab, "served", &[server, "nobody.blue.example"])), "NXDOMAIN");
        assert_eq!(status(&dig(lab, "served", &[server, "db.red.example"])), "REFUSED");
    }
}

/// A server that refuses whatever it is asked, in words of its own: not implemented.
fn refuse_all(socket: &UdpSocket, queries: usize) {
    for _ in 0..queries {
        let mut query = [0; 512];
        let (length, from) = socket.recv_from(&mut query).unwrap();
        // A response, with status 4 (RFC 1035, 4.1.1).
        query[2] |= 0x80;
        query[3] = query[3] & 0xf0 | 4;
        socket.send_to(&query[..length], from).unwrap();
    }
}

#[test]
fn queries_of_other_names_pass_to_the_server_that_they_are_for() {
    let testbed = start("passing");
    let lab = testbed.lab().unwrap();
    for (server, at) in [("10.42.0.2", "10.42.0.2:53"), ("fd42::2", "[fd42::2]:53")] {
        let at: SocketAddr = at.parse().unwrap();
        let socket = lab.inside("two", || UdpSocket::bind(at)).unwrap().unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let server = format!("@{server}");
        // A name of the switch is answered in front of the server, which does not hear of it.
        assert_eq!(dig(lab, "one", &["+short", &server, "db.red.example"]), "10.42.0.7\n");
        std::thread::scope(|scope| {
            scope.spawn(|| refuse_all(&socket, 1));
            assert_eq!(status(&dig(lab, "one", &[&server, "elsewhere.example"])), "NOTIMP");
        });
    }
    // Nothing of it is counted as dropped.
    let drops = ask(&testbed, &["get", "request-drops", "one", "--json"]);
    assert!(drops.contains(r#""request":"dns""#) && !drops.contains(r#""dropped":[1-9]"#), "{drops}");
}

#[test]
fn a_name_that_changes_has_another_answer_at_once() {
    let testbed = start("renamed");
    let lab = testbed.lab().unwrap();
    let db = ["+short", "@10.41.0.253", "db.blue.example"];
    assert_eq!(dig(lab, "served", &db), "10.41.0.2\n");
    ask(&testbed, &["set", "--wait", "dns_zone", "blue-names", "records={db.blue.example: [10.41.0.9]}"]);
    assert_eq!(dig(lab, "served", &db), "10.41.0.9\n");
    ask(&testbed, &["delete", "--yes", "--wait", "dns_zone", "blue-names"]);
    let gone = wait_for("the end of the name", || {
        let said = dig(lab, "served", &["@fd41::fd", "db.blue.example"]);
        (status(&said) == "REFUSED").then_some(said)
    });
    assert!(!gone.contains("10.41.0.9"), "{gone}");
}
