//! The copies of frames that cross between hosts.

use network_spec::{Encap, Model, Port, Trees, Tunnel};

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

/// The tree of these parts: hv1 is alone, hv2 is the first of hv2 and hv3, and hv4 is alone.
fn trees(copies: usize) -> Trees {
    let parts = [("hv1", 0), ("hv2", 1), ("hv3", 1), ("hv4", 2)];
    let ranks = [("hv2", 5), ("hv3", 6)];
    Trees {
        copies,
        parts: parts.into_iter().map(|(host, part)| (host.to_owned(), part)).collect(),
        ranks: ranks.into_iter().map(|(host, rank)| (("blue".to_owned(), host.to_owned()), rank)).collect(),
    }
}

#[test]
fn a_flood_to_many_hosts_takes_a_tree_and_reaches_the_same_ports() {
    let mut model = model();
    model.apply(|world| world.trees = trees(3));
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "c", "u", "v", "w", "x"]);
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv4 1", "hv2>hv3 1"]);
    assert_eq!(send(&mut model, "v", &any(mac(8), BROADCAST)), ["a", "b", "c", "u", "w", "x"]);
    assert_eq!(
        copies(&model),
        ["hv3>hv1 1", "hv3>hv2 1", "hv3>hv4 1"],
        "its own branch gets them from itself"
    );
    send(&mut model, "a", &any(mac(1), mac(9)));
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv3 1"], "two hosts are not many");
    model.apply(|world| world.trees = trees(4));
    send(&mut model, "a", &any(mac(1), BROADCAST));
    assert_eq!(copies(&model), ["hv1>hv2 1", "hv1>hv3 1", "hv1>hv4 1"], "the limit itself is not too many");
}

#[test]
fn what_a_leader_does_not_get_its_branch_does_not_get() {
    let mut model = model();
    model.apply(|world| {
        world.trees = trees(3);
        world.failing.insert(Tunnel { host: "hv2".into(), encap: Encap::Geneve, peer: None });
    });
    assert_eq!(send(&mut model, "a", &any(mac(1), BROADCAST)), ["b", "v", "w", "x"]);
    assert_eq!(copies(&model), ["hv1>hv3 1", "hv1>hv4 1"], "a host without tunnels leads nobody");
}
