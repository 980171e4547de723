//! What a responder says unasked, and when.

use frame_builder::{announcement, gratuitous_arp, unsolicited_advertisement};
use lab::Taps;

use super::*;

const MAC: [u8; 6] = [2, 0, 0, 0, 0xff, 0x09];
/// How often an announcement is sent.
const TIMES: usize = 4;

/// The next frames from the address that arrive at machine `b`; fewer if no more come.
fn next(taps: &Taps, count: usize) -> Vec<Vec<u8>> {
    let mut arrived = taps.first(|frame| frame[6..12] == MAC, count, DEADLINE).unwrap();
    arrived.remove("b").unwrap_or_default()
}

#[test]
fn addresses_are_announced_at_once_and_several_times() {
    let mut routed = Routed::start("respsays");
    routed.answer();
    let taps = routed.lab.taps(&["b"]).unwrap();
    let settings = ["mac=02:00:00:00:ff:09", "address=10.0.2.99", "address=fd02::99"];
    let flow = unmet(1, "announce", &settings, "output:2");
    let all = [
        gratuitous_arp(MAC, [10, 0, 2, 99].into()),
        unsolicited_advertisement(MAC, "fd02::99".parse().unwrap()),
    ];
    let begun = Instant::now();
    routed.host().add_flows("br-int", &flow).unwrap();
    assert_eq!(next(&taps, 2), all);
    println!("announced after {:?}, with the time of ovs-ofctl", begun.elapsed());
    assert!(begun.elapsed() < DEADLINE / 2, "the flows are read every minute, which is too late");
    assert_eq!(next(&taps, 2 * (TIMES - 1)), [&all[..], &all, &all].concat());
    assert_eq!(routed.count("announcement"), 2 * TIMES as u64);

    // A responder that starts does not know what the network has heard.
    routed.stop();
    routed.begin();
    assert_eq!(next(&taps, 2), all);
    // A switch that starts again has moved nothing, but may have been away for long.
    let host = routed.host();
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    taps.clear().unwrap();
    host.add_flows("br-int", &flow).unwrap();
    assert_eq!(next(&taps, 2), all);
}

#[test]
fn a_port_that_fails_or_comes_back_has_addresses_announced() {
    let mut routed = Routed::start("respwatch");
    routed.answer();
    let taps = routed.lab.taps(&["b"]).unwrap();
    // The port of machine `a` is watched, and another announcement watches nothing.
    let flows = unmet(1, "announce", &["mac=02:00:00:00:ff:09", "watch=1"], "output:2")
        + &unmet(2, "announce", &["mac=02:00:00:00:ff:0a"], "output:2");
    routed.host().add_flows("br-int", &flows).unwrap();
    assert_eq!(next(&taps, TIMES), vec![announcement(MAC); TIMES]);
    for state in ["down", "up"] {
        let begun = Instant::now();
        assert!(routed.lab.exec("a", &["ip", "link", "set", "eth0", state]).unwrap().success());
        assert_eq!(next(&taps, 1), [announcement(MAC)], "{state}");
        println!("{state}: announced after {:?}, with the time of ip", begun.elapsed());
        assert_eq!(next(&taps, TIMES - 1).len(), TIMES - 1, "{state}");
    }
    assert_eq!(routed.count("announcement"), 4 * TIMES as u64, "the other one was announced once");
}

#[test]
fn thousands_of_addresses_are_announced_without_a_flood() {
    const COUNT: u32 = 3000;
    let mut routed = Routed::start("respmany");
    routed.answer();
    let taps = routed.lab.taps(&["b"]).unwrap();
    let of = |number: u32| {
        let address = format!("address=10.9.{}.{}", number / 250, number % 250);
        unmet(number, "announce", &["mac=02:00:00:00:ff:09", &address], "output:2")
    };
    let flows: String = (0..COUNT).map(of).collect();
    routed.host().add_flows("br-int", &flows).unwrap();
    let mut frames = next(&taps, 1);
    let (begun, first) = (Instant::now(), frames.len());
    while frames.len() < COUNT as usize {
        frames.extend(next(&taps, 1));
    }
    let (elapsed, rest) = (begun.elapsed(), frames.len() - first);
    println!("{rest} frames took {elapsed:?}");
    // None is lost, and none is sent again before all have been sent.
    frames.truncate(COUNT as usize);
    frames.sort_unstable();
    frames.dedup();
    assert_eq!(frames.len(), COUNT as usize);
    // 2,000 a second, and a burst more.
    let least = Duration::from_millis(rest as u64 / 2).saturating_sub(Duration::from_millis(50));
    assert!(elapsed >= least, "{rest} frames in {elapsed:?}");
    // Much slower than that is late. The factor is for a busy machine.
    assert!(elapsed < 6 * least.max(Duration::from_secs(1)), "{rest} frames in {elapsed:?}");
}
