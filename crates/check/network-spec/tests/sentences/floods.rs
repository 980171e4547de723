//! The copies of frames that cross between hosts.

use network_spec::{Encap, Model, Port, Transition, Trees, Tunnel, World};

use crate::sentences::frames::{BROADCAST, mac, unknown as any};
use crate::sentences::worlds::{on_vlan, port, send, unknown, world};

/// The copies of the last frame.
fn copies(model: &Model) -> Vec<String> {
    model.copies().iter().map(|((from, to), copies)| format!("{from}>{to} {copies}")).collect()
}

/// `a` and `b` on hv1, `c` and `u` on hv2, `v` and `w` on hv3, `x` on hv4.
fn model() -> Model {
    let ports: [(&str, &str, Port); 7] = [
        ("a", "hv1", port("blue", 1)),
        ("b", "hv1", port("blue", 2)),
        ("c", "hv2", port("blue", 3)),
        ("u", "hv2", unknown("blue")),
        ("v", "hv3", unknown("blue")),
        ("w", "hv3", unknown("blue")),
        ("x", "hv4", port("blue", 4)),
    ];
    Model::new(world(&[Encap::Geneve], &ports))
}

#[test]
fn a_frame_for_one_port_crosses_once_and_one_for_this_host_or_nobody_never() {
    let mut model = model();
    send(&mut model, "a", &any(mac(1), mac(3)));
    assert_eq!(copies(&model), ["hv1>hv2 1"]);
    send(&mut model, "a", &any(mac(1), mac(2)));
    assert!(copies(&model).is_empty());
}

#[test]
fn a_host_with_members_gets_one_copy_and_others_none() {
    let mut model = model();
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "c", "u", "v", "w", "x"]);
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv3 1", "hv1>hv4 1"]);
    assert_eq!(send(&mut model, "a", &any(mac(1), mac(9))), ["u", "v", "w"]);
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv3 1"], "nobody on hv4 receives unknown unicast");
    model.apply(|world| *world = on_vlan(world.clone(), "blue", 7));
    model.inject(&network_spec::Tap::vnic("hv1", "a"), &any(mac(1), BROADCAST));
    assert!(copies(&model).is_empty(), "the physical network takes the frame to all");
}

/// A tree in which hv1 is alone, hv2 is the first of hv2 and hv3, and hv4 is alone.
fn trees() -> Trees {
    let branches = [("hv1", "0"), ("hv2", "1"), ("hv3", "1"), ("hv4", "2")];
    let branches = branches.into_iter().map(|(host, branch)| (host.to_owned(), branch.to_owned()));
    let ranks = [("hv2", 5), ("hv3", 6), ("hv4", 9)];
    Trees {
        hosts: 3,
        slack: 25,
        used: ["blue".to_owned()].into(),
        branches: [("blue".to_owned(), branches.collect())].into(),
        ranks: ranks.into_iter().map(|(host, rank)| (("blue".to_owned(), host.to_owned()), rank)).collect(),
    }
}

#[test]
fn a_flood_in_a_switch_on_many_hosts_takes_a_tree_and_reaches_the_same_ports() {
    let mut model = model();
    model.apply(|world| world.trees = trees());
    assert!(model.world().tree_faults().is_empty());
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "c", "u", "v", "w", "x"]);
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv4 1", "hv2>hv3 1"]);
    assert_eq!(send(&mut model, "v", &any(mac(8), BROADCAST)), ["a", "b", "c", "u", "w", "x"]);
    assert_eq!(
        copies(&model),
        ["hv3>hv1 1", "hv3>hv2 1", "hv3>hv4 1"],
        "its own branch gets them from itself"
    );
    send(&mut model, "a", &any(mac(1), mac(9)));
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv2>hv3 1"], "few of the hosts take the tree of all");
    model.apply(|world| world.trees.used.clear());
    send(&mut model, "a", &any(mac(1), BROADCAST));
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv3 1", "hv1>hv4 1"], "a tree that is not used yet");
}

#[test]
fn what_a_leader_does_not_get_its_branch_does_not_get() {
    let mut model = model();
    model.apply(|world| {
        world.trees = trees();
        world.failing.insert(Tunnel { host: "hv2".into(), encap: Encap::Geneve, peer: None });
    });
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "x"]);
    assert_eq!(
        model.world().tree_faults(),
        [
            "switch blue: hv2 is in branch Some(\"1\") and has tunnels of None",
            "switch blue: 3 branches of at most 3 hosts"
        ],
        "a host without tunnels leads nobody"
    );
}

#[test]
fn a_tree_is_wrong_without_need_and_where_a_branch_is_not_reached_as_a_whole() {
    let mut model = model();
    let faults = |model: &Model| model.world().tree_faults();
    model.apply(|world| world.trees = Trees { used: [].into(), ..trees() });
    assert_eq!(faults(&model), ["switch blue: no tree for 4 hosts"]);
    model.apply(|world| world.trees = Trees { hosts: 4, ..trees() });
    assert!(faults(&model).is_empty(), "a tree for five hosts may stay while there are four");
    model.apply(|world| world.trees = Trees { hosts: 5, ..trees() });
    assert_eq!(faults(&model), ["switch blue: a tree for 4 hosts"]);
    model.apply(|world| {
        world.trees = trees();
        if let Some(node) = world.nodes.get_mut("hv3") {
            node.encaps = vec![Encap::Geneve, Encap::Vxlan];
        }
    });
    assert_eq!(
        faults(&model),
        [
            "switch blue: hv3 is in 1 with hosts that others reach",
            "switch blue: 3 branches of at most 3 hosts"
        ]
    );
}

#[test]
fn broadcasts_are_kept_in_branches_that_stay_whoever_leads_them() {
    let mut new = model().world().clone();
    let mut old = new.clone();
    (old.trees, new.trees) = (trees(), trees());
    let kept = |old: &World, new: &World| -> Vec<bool> {
        let transition = Transition::new(old.clone(), new.clone());
        ["hv1", "hv2", "hv3", "hv4"].map(|host| transition.keeps_broadcasts("blue", host)).to_vec()
    };
    new.trees.ranks.clear();
    assert_eq!(kept(&old, &new), [true; 4], "another leader");
    old.trees.used.clear();
    assert_eq!(kept(&old, &new), [true; 4], "the tree is used from now on");
    let of = |world: &mut World, host: &str, branch: &str| {
        let branches = world.trees.branches.get_mut("blue").expect("it has a tree");
        branches.insert(host.to_owned(), branch.to_owned());
    };
    of(&mut new, "hv5", "1");
    new.trees.ranks = trees().ranks;
    new.trees.ranks.insert(("blue".to_owned(), "hv5".to_owned()), 7);
    assert_eq!(kept(&old, &new), [true; 4], "a host more");
    old.trees.ranks.insert(("blue".to_owned(), "hv6".to_owned()), 1);
    of(&mut old, "hv6", "2");
    assert_eq!(kept(&old, &new), [true, true, true, false], "a leader that goes");
    old.trees = Trees { used: [].into(), ..trees() };
    of(&mut new, "hv3", "3");
    assert_eq!(kept(&old, &new), [true, false, false, true], "a branch that is split");
    old.trees.branches.clear();
    assert_eq!(kept(&old, &new), [false; 4], "so many hosts at once that there were no branches");
    new.trees.used.clear();
    assert_eq!(kept(&old, &new), [true; 4], "branches that nobody uses");
}
