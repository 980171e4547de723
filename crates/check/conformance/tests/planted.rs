//! Mistakes in the rules that unit tests once missed and histories could not see, planted again: the model must see them now.

use std::path::Path;
use std::sync::Arc;

use conformance::run::Difference;
use conformance::{Runner, Size, history};
use nlog::{Program, Sources};
use test_random::Random;

/// Histories until a mistake must have been noticed. Each was noticed within a tenth of them.
const HISTORIES: u64 = 200;

/// The rules with `from`, which stands once in `file`, replaced by `to`.
fn rules_with(file: &str, from: &str, to: &str) -> Arc<Program> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../rules");
    let sources = Sources::load(&[folder]).expect("the rules can be read");
    let mut places = 0;
    let texts: Vec<(String, String)> = sources
        .files()
        .iter()
        .map(|source| {
            let (name, text) = (source.name.to_string(), source.text.as_str());
            if name.ends_with(file) {
                places += text.matches(from).count();
                return (name, text.replace(from, to));
            }
            (name, text.to_owned())
        })
        .collect();
    assert_eq!(places, 1, "the rule in {file} is another now: plant its mistake anew");
    let compilation = nlog::compile(&Sources::from_texts(texts));
    compilation.program.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
}

fn is_noticed(file: &str, from: &str, to: &str) {
    is_noticed_by(Size::default(), file, from, to);
}

fn is_noticed_by(size: Size, file: &str, from: &str, to: &str) {
    let mut runner = Runner::new(rules_with(file, from, to)).expect("the rules start");
    let noticed = (1..=HISTORIES).find(|seed| runner.run(&history(&mut Random::new(*seed), size)).is_err());
    println!("noticed by history {}", noticed.expect("some history shows the mistake"));
}

/// A mistake in what the network says shows as such: frames arrive as they must, and then ports hear something else.
fn is_heard(size: Size, file: &str, from: &str, to: &str) {
    let mut runner = Runner::new(rules_with(file, from, to)).expect("the rules start");
    let found = (1..=HISTORIES).find_map(|seed| {
        let failure = runner.run(&history(&mut Random::new(seed), size)).err()?;
        Some((seed, failure.difference))
    });
    let (seed, difference) = found.expect("some history shows the mistake");
    assert!(matches!(difference, Difference::Messages { .. }), "history {seed}: {difference:?}");
    println!("heard in history {seed}");
}

#[test]
fn tunnel_ports_that_forget_the_hosts_of_trunk_members_are_noticed() {
    is_noticed(
        "physical/tunnels.nlog",
        "    node_tunnel_form(hv, _, \"port\"),\n    domain_host(hv, domain),\n    domain_host(remote, domain),",
        "    node_tunnel_form(hv, _, \"port\"),\n    interface_location(port, hv, _),\n    logical_switch_port(port, sw),\n    \
         has_localnet(sw, false),\n    interface_location(other, remote, _),\n    logical_switch_port(other, sw),",
    );
}

#[test]
fn patch_ports_that_forget_the_hosts_of_trunk_members_are_noticed() {
    is_noticed(
        "physical/localnet.nlog",
        "    managed(hv),\n    present(hv, sw),\n    localnet(_, sw, network, _),",
        "    managed(hv),\n    interface_location(port, hv, _),\n    logical_switch_port(port, sw),\n    localnet(_, sw, network, _),",
    );
}

#[test]
fn announcements_that_outlive_their_interface_are_noticed() {
    is_noticed("locators/location.nlog", "    since >= plugged,\n", "    since >= 0,\n");
}

#[test]
fn a_port_that_moves_to_a_cordoned_host_is_noticed() {
    is_noticed("locators/location.nlog", "if schedulable then since else since - NEVER", "since");
}

#[test]
fn a_leader_that_stays_one_although_it_is_drained_is_noticed() {
    is_noticed(
        "locators/replication_trees.nlog",
        "[rank, max_of(since, lost_since), hash(sw, hv)]",
        "[rank & 2, max_of(since, lost_since), hash(sw, hv)]",
    );
}

#[test]
fn a_relay_that_stays_one_although_it_is_drained_is_noticed() {
    is_noticed_by(
        Size::routed(),
        "locators/relay_hosts.nlog",
        "[rank, hash(slot, hv)]",
        "[rank & 2, hash(slot, hv)]",
    );
}

#[test]
fn a_standby_that_delivers_unicast_before_its_announcement_is_noticed() {
    is_noticed(
        "physical/standbys.nlog",
        "match{unannounced: 1}, actions[]) :-",
        "match{unannounced: 1}, actions[resubmit(OUTPUT)]) :-",
    );
}

#[test]
fn unicast_that_goes_to_the_home_alone_is_noticed() {
    is_noticed(
        "locators/location.nlog",
        "copies_to(port, hv) :- stands_by(port, hv);",
        "copies_to(port, hv) :- location(port, hv, true);",
    );
}

#[test]
fn branches_that_copy_to_hosts_that_do_not_listen_are_noticed() {
    is_noticed(
        "physical/replication.nlog",
        "    branch(sw, remote, branch),\n    member_host(sw, audience, remote),\n    hv != remote,\n",
        "    branch(sw, remote, branch),\n    present(remote, sw),\n    hv != remote,\n",
    );
}

#[test]
fn a_port_group_that_nothing_belongs_to_is_noticed() {
    is_noticed_by(
        Size::stateless(),
        "logical/acl/groups.nlog",
        "    port_peer(tenant, peer, group),\n    group_port(group, port);",
        "    port_peer(tenant, peer, group),\n    group_port(group, port),\n    tenant == \"nobody\";",
    );
}

#[test]
fn a_connection_whose_source_has_the_groups_of_its_destination_is_noticed() {
    is_noticed_by(
        Size::filtered(),
        "logical/acl/connections.nlog",
        "actions[push(ct_nw_src), pop(sought_ipv4)]",
        "actions[push(ct_nw_dst), pop(sought_ipv4)]",
    );
}

#[test]
fn an_error_that_says_another_reason_is_heard() {
    is_heard(
        Size::routed(),
        "logical/responses.nlog",
        "const ERROR_NO_ROUTE = 0x20000;",
        "const ERROR_NO_ROUTE = 0x30000;",
    );
}

#[test]
fn an_answer_that_goes_to_another_port_is_heard() {
    is_heard(
        Size::served(),
        "logical/dhcp/dhcp.nlog",
        "    set(outport, label),\n",
        "    set(outport, label + 1),\n",
    );
}

#[test]
fn an_address_that_is_given_to_the_wrong_machine_is_heard() {
    is_heard(
        Size::served(),
        "logical/dhcp/dhcp.nlog",
        "[\"address=\" ++ to_string(ip)]",
        "[\"address=10.0.0.11\"]",
    );
}

#[test]
fn a_name_that_is_taken_for_an_unknown_one_is_heard() {
    is_heard(
        Size::served(),
        "logical/dns/dns.nlog",
        "priority UNKNOWN of NAMES = 40;",
        "priority UNKNOWN of NAMES = 60;",
    );
}

#[test]
fn an_address_that_is_given_although_a_port_declares_it_is_noticed() {
    is_noticed_by(
        Size::dynamic(),
        "logical/dhcp/dynamic.nlog",
        "taken_ip(dhcp, ip) :-\n    pool(dhcp, pool, _, _),\n    dhcp(id: dhcp, switch: sw, ..),\n    \
         logical_switch_port(port, sw),\n    fixed_ip(port, ip, _),\n    in_net(ip, pool);\n",
        "",
    );
}

#[test]
fn an_address_that_was_given_and_is_not_known_to_others_is_noticed() {
    is_noticed_by(
        Size::dynamic(),
        "logical/dhcp/dynamic.nlog",
        "port_ip(port, ip, mac) :- dynamic_ip(port, mac, _, ip);",
        "port_ip(port, ip, mac) :-\n    dynamic_ip(port, mac, _, ip),\n    is_ipv4(ip);",
    );
}
