use proptest::prelude::*;

use super::*;

/// An address of the network's version, with few different bits, so that prefixes are shared.
fn ip(is_ipv4: bool) -> impl Strategy<Value = IpAddr> {
    let near = |bits: u32| IpAddr::from((0x0a14_0000 | bits & 0xffff).to_be_bytes());
    let near6 = |bits: u64| IpAddr::from(Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(bits) << 40));
    if is_ipv4 {
        prop_oneof![
            any::<u32>().prop_map(|bits| Ipv4Addr::from_bits(bits).into()),
            any::<u32>().prop_map(near)
        ]
        .boxed()
    } else {
        let far = any::<u128>().prop_map(|bits| Ipv6Addr::from_bits(bits).into());
        prop_oneof![far, any::<u64>().prop_map(near6)].boxed()
    }
}

fn pair() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    any::<bool>().prop_flat_map(|is_ipv4| (ip(is_ipv4), ip(is_ipv4)))
}

fn nets() -> impl Strategy<Value = Vec<IpNet>> {
    let net = any::<bool>().prop_flat_map(|is_ipv4| (ip(is_ipv4), 0..=if is_ipv4 { 32_u8 } else { 128 }));
    let net = net.prop_map(|(ip, length)| IpNet::new(ip, length).unwrap().trunc());
    proptest::collection::vec(net, 0..6)
}

fn common(one: IpAddr, other: IpAddr) -> u32 {
    let [one, other] = [one, other].map(|ip| Bits::of(ip.into()).value);
    (one ^ other).leading_zeros()
}

proptest! {
    #[test]
    fn two_addresses_share_as_many_bits_as_before(key: Secret, nets in nets(), (one, other) in pair()) {
        let addresses = Addresses::new(key, [], &nets);
        let (new_one, new_other) = (addresses.ip(one), addresses.ip(other));
        prop_assert_eq!(common(one, other), common(new_one, new_other), "{} {}", new_one, new_other);
        prop_assert_eq!(one.is_ipv4(), new_one.is_ipv4());
    }

    #[test]
    fn an_address_stays_in_its_block_or_out_of_it(key: Secret, (word, ip) in pair(), length in 0..=32_u8) {
        let word = IpNet::new(word, length).unwrap().trunc();
        let addresses = Addresses::new(key, [&word], []);
        let new = addresses.ip(ip);
        let blocks = BLOCKS.iter().chain(&UNIVERSAL).map(|block| block.parse::<IpNet>().unwrap());
        for block in blocks.chain([word]) {
            prop_assert_eq!(block.contains(&ip), block.contains(&new), "{} {}", new, block);
            prop_assert_eq!(addresses.net(block), block);
        }
    }

    #[test]
    fn the_first_and_the_last_address_of_a_prefix_stay_that(key: Secret, nets in nets()) {
        let addresses = Addresses::new(key, [], &nets);
        for net in nets {
            let new = addresses.net(net);
            prop_assert_eq!(new.prefix_len(), net.prefix_len());
            prop_assert_eq!(addresses.ip(net.network()), new.network(), "{} {}", net, new);
            prop_assert_eq!(addresses.ip(net.broadcast()), new.broadcast(), "{} {}", net, new);
        }
    }
}

#[test]
fn other_secrets_give_other_addresses_that_end_alike() {
    let new = |secret: u8, ip: &str| Addresses::new([secret; 16], [], []).ip(ip.parse().unwrap()).to_string();
    for ip in ["198.51.100.77", "2001:db8:1:2:3:4:5:77"] {
        let all: HashSet<String> = (0..8).map(|secret| new(secret, ip)).collect();
        assert!(all.len() > 6 && !all.contains(ip) && all.iter().all(|new| new.ends_with("77")), "{all:?}");
    }
    assert!(new(1, "fe80::12:3456").ends_with(":12:3456"), "{}", new(1, "fe80::12:3456"));
    for universal in ["0.0.0.0", "127.0.0.1", "224.0.0.251", "255.255.255.255", "::", "::1", "ff02::1:ff00:1"]
    {
        assert_eq!(new(1, universal), universal);
    }
}
