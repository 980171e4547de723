//! Unknown unicast: flooded to ports that receive it; learned where the encapsulation carries the ingress port, and then
//! sent to one port.

use lab::{VmSpec, frame};
use testbed::{Settings, Testbed};

use super::support::{Copies, Frames, ask, bring_up, mtu_of, one_at, passes_whole, settings, wait_for};

/// A switch with a port on each of three hosts that sends and receives anything, and one on hv1 with a fixed address.
const NETWORK: &str = "
kind: switch
id: open
---
{kind: switch_port, id: any-1, switch: open, unknown_addresses: true}
---
{kind: switch_port, id: any-2, switch: open, unknown_addresses: true}
---
{kind: switch_port, id: any-3, switch: open, unknown_addresses: true}
---
{kind: switch_port, id: known, switch: open, addresses: [{mac: '02:00:00:00:05:09', ips: [10.5.0.9]}]}
";

/// The MTU that geneve with its option leaves of 1500 bytes.
const MTU: u16 = 1442;

fn machines() -> Vec<VmSpec> {
    let vm = |name: &str, host: &str, n: u8| {
        let mut vm = VmSpec::new(name, host, name, format!("02:00:00:00:05:{n:02x}"));
        vm.mtu = Some(MTU);
        vm.address(format!("10.5.0.{n}/24"))
    };
    vec![vm("any-1", "hv1", 1), vm("any-2", "hv2", 2), vm("any-3", "hv3", 3), vm("known", "hv1", 9)]
}

fn testbed(encap: &str) -> Testbed {
    let testbed =
        Testbed::start(Settings { hosts: 3, encaps: vec![encap.to_owned()], ..settings("learn") }).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    testbed
}

/// An unknown address.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0x77, 0x77];
/// An address behind any-2, like that of a machine that it bridges.
const BEHIND: [u8; 6] = [2, 0, 0, 0, 0x77, 2];

#[test]
fn two_hosts_learn_where_an_address_is_and_send_there_alone() {
    let testbed = testbed("geneve");
    let frames = Frames::new(testbed.lab().unwrap());
    let from = |sender: [u8; 6], to: [u8; 6]| move |mark: &[u8]| frame::ethernet(to, sender, 0x88b5, mark);
    frames.come_out("an unknown address", "any-1", NOBODY, &one_at(&["any-2", "any-3"]));
    frames.come_out(
        "an unknown address, from a port with its own",
        "known",
        NOBODY,
        &one_at(&["any-1", "any-2", "any-3"]),
    );
    // any-2 sends a broadcast: hv1 and hv3 learn from the copy, hv2 from the frame itself.
    let everybody = one_at(&["any-1", "any-3", "known"]);
    frames.come_out_as("broadcast of a new address", "any-2", &everybody, from(BEHIND, frame::BROADCAST));
    for sender in ["any-1", "any-3", "known"] {
        frames.come_out("a learned address", sender, BEHIND, &one_at(&["any-2"]));
    }
    // Never back to where it came from.
    frames.come_out("its own learned address", "any-2", BEHIND, &Copies::new());
    // The address moves behind any-3: all hosts learn it from its frames.
    frames.come_out_as(
        "the address elsewhere",
        "any-3",
        &one_at(&["any-1", "any-2", "known"]),
        from(BEHIND, frame::BROADCAST),
    );
    for sender in ["any-1", "any-2", "known"] {
        frames.come_out("an address that moved", sender, BEHIND, &one_at(&["any-3"]));
    }
    // Nobody can take a known address away.
    let stolen = from(frames.mac("known"), frame::BROADCAST);
    frames.come_out_as("a stolen address", "any-2", &everybody, stolen);
    frames.come_out("a known address", "any-1", frames.mac("known"), &one_at(&["known"]));
    drop(frames);

    // any-3 itself moves to hv1: the learned address names the port, wherever it is.
    let lab = testbed.lab().unwrap();
    lab.migrate_vm("any-3", "hv1", lab::Migration::default()).unwrap();
    testbed.wait_in_sync().unwrap();
    let frames = Frames::new(lab);
    frames.come_out("behind a port that migrated", "any-2", BEHIND, &one_at(&["any-3"]));
    // Addresses learned behind a port are removed with the port.
    testbed
        .apply(
            "gone.yaml",
            "{kind: switch_port, id: any-3, switch: open, addresses: [{mac: '02:00:00:00:05:03'}]}",
        )
        .unwrap();
    let learned = || {
        let dump = |host: lab::Host| host.ofctl(&["dump-flows", "br-int", "table=21"]).unwrap();
        lab.hosts().unwrap().into_iter().any(|host| dump(host).contains("02:00:00:00:77:02"))
    };
    wait_for("the end of what was learned", || (!learned()).then_some(()));
    frames.come_out("unknown again", "any-2", BEHIND, &one_at(&["any-1"]));
    assert_eq!(mtu_of(&testbed, "open"), MTU);
    assert!(passes_whole(lab, "any-1", "10.5.0.2", MTU));
}

#[test]
fn without_the_senders_label_nothing_is_learned_from_a_tunnel() {
    let testbed = testbed("vxlan");
    let frames = Frames::new(testbed.lab().unwrap());
    let announce = |mark: &[u8]| frame::ethernet(frame::BROADCAST, BEHIND, 0x88b5, mark);
    frames.come_out_as(
        "broadcast of a new address",
        "any-2",
        &one_at(&["any-1", "any-3", "known"]),
        announce,
    );
    // hv1 did not learn; it floods, and the answer is still a single copy at the right place.
    frames.come_out("an address from a tunnel", "any-1", BEHIND, &one_at(&["any-2", "any-3"]));
    // Known ones are for their port alone.
    frames.come_out("a known address", "any-3", frames.mac("known"), &one_at(&["known"]));
}

/// The learned flows of a host for addresses behind machines, as `ovs-ofctl` prints them.
fn learned(testbed: &Testbed, host: &str) -> Vec<String> {
    let hosts = testbed.lab().unwrap().hosts().unwrap();
    let host = hosts.into_iter().find(|known| known.name == host).unwrap();
    let dump = host.ofctl(&["dump-flows", "br-int", "table=21"]).unwrap();
    dump.lines().filter(|line| line.contains("02:00:00:00:88:")).map(str::to_owned).collect()
}

/// What `weft get learned-addresses` prints of the switch.
fn weft_get(testbed: &Testbed, options: &[&str]) -> String {
    ask(testbed, &[&["get", "learned-addresses", "open"][..], options].concat())
}

/// Whether a line of the table is about this host and port.
fn is_row(line: &str, host: &str, port: &str) -> bool {
    line.split_whitespace().take(2).eq([host, port])
}

/// An address behind any-2.
fn behind(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0x88, number]
}

#[test]
fn a_port_takes_as_many_addresses_as_its_switch_says_and_for_as_long() {
    let testbed = testbed("geneve");
    let limits = |limit: u32, age: u32| {
        let switch = format!("{{kind: switch, id: open, learning: {{limit: {limit}, age: {age}}}}}");
        testbed.apply("limits.yaml", &switch).unwrap();
        testbed.wait_in_sync().unwrap();
    };
    limits(5, 300);
    let frames = Frames::new(testbed.lab().unwrap());
    let announce = |number: u8| {
        frames.come_out_as(
            "broadcast of one of many addresses",
            "any-2",
            &one_at(&["any-1", "any-3", "known"]),
            move |mark: &[u8]| frame::ethernet(frame::BROADCAST, behind(number), 0x88b5, mark),
        );
    };
    (1..=12).for_each(announce);
    // The machine's own address may be among the five.
    for host in ["hv1", "hv2", "hv3"] {
        assert!((4..=5).contains(&learned(&testbed, host).len()), "{host}: {:?}", learned(&testbed, host));
    }
    let text = weft_get(&testbed, &[]);
    let marked =
        |host: &&str| text.lines().any(|line| is_row(line, host, "any-2") && line.ends_with("limit reached"));
    assert!(["hv1", "hv2", "hv3"].iter().all(marked), "{text}");
    let addresses = weft_get(&testbed, &["--addresses"]);
    assert_eq!(addresses.matches("    02:00:00:00:88:01\n").count(), 3, "{addresses}");
    frames.come_out("the first", "any-1", behind(1), &one_at(&["any-2"]));
    frames.come_out("one too many", "any-1", behind(12), &one_at(&["any-2", "any-3"]));

    // Another limit forgets nothing. The machine's own address may come in addition.
    limits(50, 300);
    let json = weft_get(&testbed, &["--json"]);
    let rows: Vec<serde_json::Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_host = |host: &str| rows.iter().find(|row| row["node"] == host && row["port"] == "any-2").cloned();
    for host in ["hv1", "hv2", "hv3"] {
        let row = of_host(host).unwrap_or_else(|| panic!("{host}: {json}"));
        assert!(row["count"] == 5 || row["count"] == 6, "{row}");
        assert_eq!((&row["limit"], &row["reached"]), (&50.into(), &false.into()), "{row}");
    }

    // Another age forgets them all. Those that are learned then go when their owner is silent.
    limits(5, 2);
    for host in ["hv1", "hv2", "hv3"] {
        assert_eq!(learned(&testbed, host), [""; 0]);
    }
    announce(1);
    wait_for("the end of a silent address", || learned(&testbed, "hv1").is_empty().then_some(()));
    // With no limit, nothing is learned.
    limits(0, 300);
    announce(1);
    frames.come_out("nothing is learned", "any-1", behind(1), &one_at(&["any-2", "any-3"]));
}

#[test]
fn an_address_that_moved_between_two_ports_of_a_host_is_found_by_those_who_did_not_hear_of_it() {
    let testbed = Testbed::start(Settings { hosts: 2, ..settings("moved") }).unwrap();
    let mut machines = machines();
    for machine in &mut machines {
        if machine.name == "any-3" {
            "hv2".clone_into(&mut machine.host);
        }
    }
    bring_up(&testbed, NETWORK, &machines);
    let frames = Frames::new(testbed.lab().unwrap());
    let from = |to: [u8; 6]| move |mark: &[u8]| frame::ethernet(to, BEHIND, 0x88b5, mark);
    let everybody = one_at(&["any-1", "any-3", "known"]);
    frames.come_out_as("broadcast of a new address", "any-2", &everybody, from(frame::BROADCAST));
    frames.come_out("a learned address", "any-1", BEHIND, &one_at(&["any-2"]));
    // The address moves to any-3. Only its host hears of it, where any-2 has it so far.
    frames.come_out_as("the address elsewhere", "any-3", &one_at(&["any-2"]), from(BEHIND));
    frames.come_out("an address that moved", "any-1", BEHIND, &one_at(&["any-3"]));
    frames.come_out("a known address", "any-2", frames.mac("known"), &one_at(&["known"]));
}
