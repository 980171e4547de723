//! Prefixes of routers' ports.

use std::net::{Ipv4Addr, Ipv6Addr};

use network_spec::Network;

#[test]
fn prefixes_overlap_if_one_is_in_the_other() {
    let four = |last: [u8; 4], length| Network::of(Ipv4Addr::from(last), length);
    assert_eq!(four([10, 0, 0, 254], 24).prefix(), four([10, 0, 0, 0], 24));
    assert_eq!(four([10, 0, 0, 254], 0).prefix(), four([0; 4], 0));
    assert_eq!(four([10, 0, 0, 254], 32).prefix(), four([10, 0, 0, 254], 32));
    assert!(four([10, 0, 0, 254], 24).overlaps(four([10, 0, 0, 1], 28)));
    assert!(!four([10, 0, 0, 254], 28).overlaps(four([10, 0, 0, 1], 28)));
    assert!(!four([0; 4], 0).overlaps(Network::of(Ipv6Addr::UNSPECIFIED, 0)));
}
