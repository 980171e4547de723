//! Random frames.

use conformance::frames::{Book, Ways, frame, link_local, routed};
use network_spec::Address;
use test_random::Random;

#[test]
fn frames_have_a_header_and_are_the_same_for_a_seed() {
    for seed in 0..300 {
        let frames = [(); 2].map(|()| frame(&mut Random::new(seed), &Book::default()));
        assert!(frames[0].len() >= 14, "seed {seed}");
        assert_eq!(frames[0], frames[1], "seed {seed}");
    }
}

#[test]
fn the_link_local_address_turns_the_second_lowest_bit_of_the_first_byte() {
    assert_eq!(link_local([2, 0, 0, 0, 0, 1]).to_string(), "fe80::ff:fe00:1");
}

#[test]
fn routed_frames_have_a_header_and_are_the_same_for_a_seed() {
    let ip = |text: &str| text.parse().expect("an address");
    let ways = Ways {
        own: vec![Address { mac: [2, 0, 0, 0, 0, 1], ips: vec![ip("10.0.1.1"), ip("fd01::1")] }],
        gateways: vec![Address { mac: [2, 0, 0, 0, 0xff, 1], ips: vec![ip("10.0.1.254")] }],
        largest: vec![1442],
        ..Ways::default()
    };
    for seed in 0..1000 {
        for ways in [&ways, &Ways::default()] {
            let frames = [(); 2].map(|()| routed(&mut Random::new(seed), ways));
            assert!(frames[0].len() >= 14, "seed {seed}");
            assert_eq!(frames[0], frames[1], "seed {seed}");
        }
    }
}
