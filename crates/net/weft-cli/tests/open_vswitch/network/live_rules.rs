//! Rules that are loaded while machines talk. All files have other names, the rules stand in another order, and each says the same in
//! other words, so that each flow gets another cookie. No packet may be lost, since nothing changes for packets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use lab::{PingResult, RunningPing, VmSpec};
use testbed::{DEADLINE, Testbed};
use weft_core::Rules;
use weft_core::record::RulesText;

use super::support::{ask, bring_up, settings};

/// Time between two probes of a machine.
const EVERY: Duration = Duration::from_millis(1);
/// The probes before and after a load, from each side.
const PROBES: u64 = 300;

const NETWORK: &str = "
{kind: switch, id: red}
---
{kind: switch_port, id: a, switch: red, addresses: [{mac: '02:00:00:00:09:01', ips: [10.9.0.1]}], port_security: true}
---
{kind: switch_port, id: b, switch: red, addresses: [{mac: '02:00:00:00:09:02', ips: [10.9.0.2]}], port_security: true}
---
{kind: acl, id: web, switch: red, direction: to_port, priority: 10, match: {ip_proto: tcp, tp_dst: 80}, action: allow_related}
";

/// The built-in rules in other words, in a folder of their own.
fn in_other_words(folder: &Path) {
    let rules = Rules::built_in().unwrap();
    let RulesText { mut files, .. } = rules.text().unwrap();
    let (mut said, mut moved) = (0, 0);
    for rule in &rules.program().rules {
        let Some(file) = files.get_mut(&rule.place.file) else { continue };
        let Some(begin) = file.find(&*rule.text).filter(|_| rule.text.contains(":-")) else { continue };
        let words = format!("{}, 1 == 1;", rule.text.trim_end_matches(';'));
        // What stands before a rule may belong to it.
        let stands_alone =
            file[..begin].ends_with(";\n\n") && file[begin + rule.text.len()..].starts_with("\n\n");
        file.replace_range(begin..begin + rule.text.len(), if stands_alone { "" } else { &words });
        if stands_alone {
            *file += &format!("\n{words}\n");
            moved += 1;
        }
        said += 1;
    }
    assert!(said > 300 && moved > 20, "{said} rules in other words, {moved} in another place");
    for (name, text) in files {
        let path = folder.join(name.strip_prefix("builtin/").unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

/// The flows of a host as its switch has them: what they do, and by which rules.
fn flows(testbed: &Testbed, host: &str) -> (BTreeSet<String>, BTreeSet<u64>) {
    let flows = testbed.flows(host).unwrap().flows;
    let what = |flow: &weft_client::pb::Flow| {
        format!("{} {} {} {}", flow.table_id, flow.priority, flow.r#match, flow.actions)
    };
    (flows.iter().map(what).collect(), flows.iter().map(|flow| flow.cookie).collect())
}

#[test]
fn a_load_that_changes_no_behaviour_loses_no_packet() {
    let testbed = Testbed::start(settings("rules")).unwrap();
    let vm = |name: &str, host: &str, n: u8| {
        let vm = VmSpec::new(name, host, name, format!("02:00:00:00:09:{n:02x}"));
        vm.address(format!("10.9.0.{n}/24"))
    };
    bring_up(&testbed, NETWORK, &[vm("a", "hv1", 1), vm("b", "hv2", 2)]);
    let lab = testbed.lab().unwrap();
    let folder = testbed.folder().join("other-words");
    in_other_words(&folder);
    let before = flows(&testbed, "hv1");

    let [a, b]: [IpAddr; 2] = [[10, 9, 0, 1].into(), [10, 9, 0, 2].into()];
    lab.wait_ping("a", b, DEADLINE).unwrap();
    let pings = [lab.spawn_ping("a", b, EVERY).unwrap(), lab.spawn_ping("b", a, EVERY).unwrap()];
    let go_on = |pings: &[RunningPing]| {
        for ping in pings {
            ping.wait_received(PROBES, DEADLINE).unwrap();
        }
    };
    go_on(&pings);
    let loaded = ask(&testbed, &["rules", "load", "--wait", folder.to_str().unwrap()]);
    assert!(loaded.starts_with("2 switches change; flows: "), "{loaded}");
    assert!(!loaded.contains("flows: 1 new") && !loaded.contains("deleted"), "{loaded}");
    go_on(&pings);
    let back = ask(&testbed, &["rules", "rollback", "--wait"]);
    assert!(back.starts_with("2 switches change; flows: "), "{back}");
    go_on(&pings);

    for (ping, from) in pings.into_iter().zip(["a", "b"]) {
        let result: PingResult = ping.stop().unwrap();
        println!("{from}: {result:?}");
        assert_eq!((result.lost(), result.duplicates), (0, 0), "{from}: {result:?}");
    }
    assert_eq!(flows(&testbed, "hv1"), before);
    ask(&testbed, &["rules", "rollback"]);
    let (what, by) = flows(&testbed, "hv1");
    assert_eq!(what, before.0);
    assert!(by.is_disjoint(&before.1) || by.intersection(&before.1).count() < by.len() / 2, "{by:?}");
}
