//! How machines get their addresses: real clients, rules, flows and responders together.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use lab::{Lab, VmSpec};
use testbed::{Settings, Testbed};

use super::support::{ask, bring_up, settings, wait_for};

/// No ACL allows anything but pings from ports; the servers are not machines, and answer nevertheless.
const NETWORK: &str = "
{kind: switch, id: blue, acl_default: drop}
---
{kind: acl, id: pings, switch: blue, direction: from_port, priority: 1, match: {ip_proto: icmp}, action: allow_related}
---
{kind: switch_port, id: one, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:40:01', ips: [10.40.0.1, 'fd40::1']}]}
---
{kind: switch_port, id: two, switch: blue, port_security: true, addresses: [{mac: '02:00:00:00:40:02', ips: [10.40.0.2, 'fd40::2', 'fd40::ff:fe00:4002']}]}
---
{kind: router, id: r}
---
kind: router_port
id: r-blue
router: r
switch: blue
mac: '02:00:00:00:40:fe'
networks: [10.40.0.254/24, 'fd40::fe/64']
ra: {mode: dhcpv6_stateless, dns: ['fd40::53']}
---
kind: dhcp
id: blue-4
switch: blue
net: 10.40.0.0/24
router: 10.40.0.254
server: {ip: 10.40.0.253, mac: '02:00:00:00:40:fd'}
lease: 20
dns: [10.40.0.53, 10.40.0.52]
options: {domain_name: blue.example, classless_static_route: [{net: 192.0.2.0/24, via: 10.40.0.2}]}
---
kind: dhcp
id: blue-6
switch: blue
net: 'fd40::/64'
server: {ip: 'fd40::fd', mac: '02:00:00:00:40:fd'}
lease: 600
dns: ['fd40::53']
options: {domain_search: [blue.example]}
";

/// The MTU of every switch here: geneve over IPv4 on an underlay of 1500 bytes.
const MTU: &str = "1442";

/// Machines without addresses, one on each host.
fn start(name: &str) -> Testbed {
    start_with(name, NETWORK)
}

fn start_with(name: &str, network: &str) -> Testbed {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings(name) }).unwrap();
    let machine = |name: &str, host: &str, n: u8| VmSpec {
        mtu: Some(1500),
        ..VmSpec::new(name, host, name, format!("02:00:00:00:40:0{n}"))
    };
    bring_up(&testbed, network, &[machine("one", "hv1", 1), machine("two", "hv2", 2)]);
    testbed
}

/// The DHCP client of ISC on a machine, whose events a script writes to a file.
struct Client<'a> {
    lab: &'a Lab,
    machine: &'static str,
    folder: tempfile::TempDir,
}

impl<'a> Client<'a> {
    fn new(lab: &'a Lab, machine: &'static str) -> Client<'a> {
        let client = Client { lab, machine, folder: tempfile::tempdir().unwrap() };
        // What the client hears of is set as a machine would.
        let script = format!(
            "#!/bin/sh
{{ env | grep -E '^(reason|new_|old_ip)' | tr '\\n' '|'; echo; }} >> {events}
case $reason in
BOUND|REBOOT|RENEW|REBIND) ip address replace $new_ip_address/24 dev eth0;;
BOUND6) ip address replace $new_ip6_address/64 dev eth0 nodad;;
esac
",
            events = client.file("events").display()
        );
        fs::write(client.file("script"), script).unwrap();
        let done = std::process::Command::new("chmod").arg("+x").arg(client.file("script")).status().unwrap();
        assert!(done.success());
        let wishes = "option rfc3442 code 121 = array of unsigned integer 8;
request subnet-mask, routers, domain-name-servers, domain-name, interface-mtu, rfc3442, dhcp6.name-servers, dhcp6.domain-search;
";
        fs::write(client.file("wishes"), wishes).unwrap();
        client
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) {
        let of_file = |option: &str, name| [option.to_owned(), self.file(name).display().to_string()];
        let files = [("-sf", "script"), ("-lf", "leases"), ("-pf", "pid"), ("-cf", "wishes")];
        let files: Vec<String> = files.into_iter().flat_map(|(option, name)| of_file(option, name)).collect();
        let mut argv = vec!["dhclient"];
        argv.extend(words);
        argv.extend(files.iter().map(String::as_str));
        argv.push("eth0");
        let done = self.lab.exec(self.machine, &argv).unwrap();
        assert!(done.success(), "{argv:?}: {}{}", done.stdout, done.stderr);
    }

    /// The events of a kind, each with what the client was told.
    fn events(&self, reason: &str) -> Vec<BTreeMap<String, String>> {
        let said = fs::read_to_string(self.file("events")).unwrap_or_default();
        let pairs = |line: &str| -> BTreeMap<String, String> {
            line.split('|')
                .filter_map(|pair| pair.split_once('='))
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect()
        };
        said.lines().map(pairs).filter(|event| event.get("reason").is_some_and(|is| is == reason)).collect()
    }

    /// The only event of a kind.
    fn event(&self, reason: &str) -> BTreeMap<String, String> {
        wait_for(reason, || self.events(reason).pop())
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.file("pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<u32>() {
            let _ = std::process::Command::new("kill").arg(pid.to_string()).status();
        }
    }
}

fn told<'a>(event: &'a BTreeMap<String, String>, name: &str) -> &'a str {
    event.get(name).map_or("", String::as_str)
}

#[test]
fn machines_get_the_addresses_of_their_ports() {
    let testbed = start("dhcp");
    let lab = testbed.lab().unwrap();
    let clients = [Client::new(lab, "one"), Client::new(lab, "two")];
    for (client, address) in clients.iter().zip(["10.40.0.1", "10.40.0.2"]) {
        client.run(&["-4", "-1"]);
        let bound = client.event("BOUND");
        for (name, value) in [
            ("new_ip_address", address),
            ("new_subnet_mask", "255.255.255.0"),
            ("new_domain_name_servers", "10.40.0.53 10.40.0.52"),
            ("new_domain_name", "blue.example"),
            ("new_interface_mtu", MTU),
            ("new_dhcp_lease_time", "20"),
            ("new_dhcp_server_identifier", "10.40.0.253"),
            // Who takes these routes ignores the default router, so it is among them.
            ("new_rfc3442", "24 192 0 2 10 40 0 2 0 10 40 0 254"),
        ] {
            assert_eq!(told(&bound, name), value, "{name}: {bound:?}");
        }
    }
    assert!(ask(&testbed, &["get", "dhcp", "blue-4"]).contains("clients: 2"));
}

/// The address that the network has given a port, of an IP version.
fn given(testbed: &Testbed, port: &str, is_ipv4: bool) -> String {
    let said = ask(testbed, &["get", "switch_port", port, "-o", "json"]);
    let port: serde_json::Value = serde_json::from_str(&said).unwrap();
    let given = port["state"]["given"].as_array().unwrap_or_else(|| panic!("none is given: {port}"));
    let mut ips = given.iter().filter_map(serde_json::Value::as_str);
    ips.find(|ip| ip.contains('.') == is_ipv4).unwrap().to_owned()
}

#[test]
fn machines_get_addresses_that_the_network_chooses_and_keep_them() {
    // No ACL lets a ping reach a machine.
    let network = NETWORK
        .replace(", acl_default: drop", "")
        .replace("ips: [10.40.0.1, 'fd40::1']", "ips: dynamic")
        .replace("ips: [10.40.0.2, 'fd40::2', 'fd40::ff:fe00:4002']", "ips: dynamic");
    assert_eq!(network.matches("dynamic").count(), 2);
    let mut testbed = start_with("chosen", &network);
    let chosen = ["one", "two"].map(|port| given(&testbed, port, true));
    {
        let lab = testbed.lab().unwrap();
        for (machine, ip) in ["one", "two"].into_iter().zip(&chosen) {
            let client = Client::new(lab, machine);
            client.run(&["-4", "-1"]);
            assert_eq!(told(&client.event("BOUND"), "new_ip_address"), ip);
        }
        // Port security lets both use them, and each finds the other.
        wait_for("a ping to a chosen address", || {
            let done = lab.exec("one", &["ping", "-c1", "-W1", &chosen[1]]).unwrap();
            done.success().then_some(())
        });
        enable_ipv6(lab, "one");
        let client = Client::new(lab, "one");
        client.run(&["-6", "-1"]);
        assert_eq!(told(&client.event("BOUND6"), "new_ip6_address"), given(&testbed, "one", false));
        client.run(&["-6", "-r"]);
    }
    // A restart changes none, nor does another port, which gets another one.
    testbed.kill_controller().unwrap();
    testbed.start_controller().unwrap();
    let third =
        "{kind: switch_port, id: three, switch: blue, addresses: [{mac: '02:00:00:00:40:03', ips: dynamic}]}";
    testbed.apply("third.yaml", third).unwrap();
    assert_eq!(["one", "two"].map(|port| given(&testbed, port, true)), chosen);
    let of_third = given(&testbed, "three", true);
    assert!(
        !chosen.contains(&of_third) && !["10.40.0.254", "10.40.0.253"].contains(&of_third.as_str()),
        "{of_third}"
    );
}

/// A lease of 20 seconds is renewed after 10: by unicast to the server, which the machine looks up by ARP.
#[test]
fn a_lease_is_renewed_while_the_controller_is_dead() {
    let mut testbed = start("renews");
    testbed.kill_controller().unwrap();
    let lab = testbed.lab().unwrap();
    let client = Client::new(lab, "one");
    client.run(&["-4", "-1"]);
    assert_eq!(told(&client.event("BOUND"), "new_ip_address"), "10.40.0.1");
    let renewed = client.event("RENEW");
    assert_eq!(told(&renewed, "new_ip_address"), "10.40.0.1");
    assert_eq!(client.events("REBIND").len(), 0, "{renewed:?}");
}

#[test]
fn machines_get_their_ipv6_addresses_by_dhcpv6() {
    let testbed = start("dhcp6");
    let lab = testbed.lab().unwrap();
    enable_ipv6(lab, "one");
    let client = Client::new(lab, "one");
    client.run(&["-6", "-1"]);
    let bound = client.event("BOUND6");
    for (name, value) in [
        ("new_ip6_address", "fd40::1"),
        ("new_dhcp6_name_servers", "fd40::53"),
        ("new_dhcp6_domain_search", "blue.example."),
        ("new_max_life", "600"),
    ] {
        assert_eq!(told(&bound, name), value, "{name}: {bound:?}");
    }
    client.run(&["-6", "-r"]);
}

/// The kernel configures itself as the router says, and the router is reached.
#[test]
fn a_machine_configures_itself_as_the_router_advertises() {
    let testbed = start("slaac");
    let lab = testbed.lab().unwrap();
    enable_ipv6(lab, "two");
    let says = |words: &[&str]| lab.exec("two", words).unwrap().stdout;
    let own = "fd40::ff:fe00:4002/64";
    wait_for("an address", || {
        says(&["ip", "-6", "address", "show", "dev", "eth0"]).contains(own).then_some(())
    });
    let route = wait_for("a default route", || {
        Some(says(&["ip", "-6", "route", "show", "default"])).filter(|routes| routes.contains("proto ra"))
    });
    assert!(route.contains("via fe80::ff:fe00:40fe"), "{route}");
    wait_for("the MTU of the switch", || {
        (says(&["cat", "/proc/sys/net/ipv6/conf/eth0/mtu"]).trim() == MTU).then_some(())
    });
    wait_for("a reply of the router", || {
        let said = lab.exec("two", &["ping", "-n", "-c", "1", "-W", "1", "fd40::fe"]).unwrap();
        said.success().then_some(())
    });
}

/// A responder that starts tells all machines of its host what flows advertise.
#[test]
fn a_machine_that_solicits_nothing_hears_of_the_router_as_well() {
    let mut testbed = start("unasked");
    testbed.kill_responders();
    let lab = testbed.lab().unwrap();
    let silent = lab.exec("two", &["sysctl", "-qw", "net.ipv6.conf.eth0.router_solicitations=0"]).unwrap();
    assert!(silent.success(), "{}", silent.stderr);
    enable_ipv6(lab, "two");
    let routes = |lab: &Lab| lab.exec("two", &["ip", "-6", "route", "show", "default"]).unwrap().stdout;
    assert_eq!(routes(lab), "");
    testbed.start_responders().unwrap();
    let lab = testbed.lab().unwrap();
    let route = wait_for("a default route", || Some(routes(lab)).filter(|routes| !routes.is_empty()));
    assert!(route.contains("via fe80::ff:fe00:40fe"), "{route}");
}

/// Enables IPv6 and router advertisements on a machine. Both are off in the machines of a lab that have no IPv6 address.
fn enable_ipv6(lab: &Lab, machine: &str) {
    let settings = ["accept_ra=2", "accept_dad=0", "addr_gen_mode=0", "disable_ipv6=0"];
    let settings = settings.map(|setting| format!("net.ipv6.conf.eth0.{setting}"));
    let words: Vec<&str> = ["sysctl", "-qw"].into_iter().chain(settings.iter().map(String::as_str)).collect();
    let done = lab.exec(machine, &words).unwrap();
    assert!(done.success(), "{}", done.stderr);
    wait_for("a link-local address", || {
        let shown =
            lab.exec(machine, &["ip", "-6", "address", "show", "dev", "eth0", "scope", "link"]).unwrap();
        (shown.stdout.contains("fe80::") && !shown.stdout.contains("tentative")).then_some(())
    });
}
