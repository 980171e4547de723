//! `flood_limit`: what is flooded beyond it is dropped and counted, in the metrics too, and known unicast is not.

use std::process::Command;
use std::time::{Duration, Instant};

use lab::{Taps, VmSpec, frame};
use testbed::{Settings, Testbed};

use super::support::{ask, bring_up, settings, wait_for};

const NETWORK: &str = "
kind: switch
id: loud
---
{kind: switch_port, id: loud-1, switch: loud, addresses: [{mac: '02:00:00:00:06:01', ips: [10.6.0.1]}], flood_limit: 100}
---
{kind: switch_port, id: loud-2, switch: loud, addresses: [{mac: '02:00:00:00:06:02', ips: [10.6.0.2]}]}
---
{kind: switch_port, id: any-3, switch: loud, unknown_addresses: true}
";

/// Frames that are sent in about a second.
const FRAMES: u32 = 1000;
/// The limit of loud-1, and how many may come at once.
const LIMIT: f64 = 100.0;
const BURST: f64 = 10.0;

fn machines() -> Vec<VmSpec> {
    let vm = |name: &str, host: &str, n: u8| {
        VmSpec::new(name, host, name, format!("02:00:00:00:06:{n:02x}")).address(format!("10.6.0.{n}/24"))
    };
    vec![vm("loud-1", "hv1", 1), vm("loud-2", "hv2", 2), vm("any-3", "hv2", 3)]
}

/// Sends frames to an address, one a millisecond. Returns how many arrive at a machine, and the seconds that it took.
fn send(taps: &Taps, from: ([u8; 6], &str), to: [u8; 6], at: &str) -> (usize, f64) {
    taps.clear().unwrap();
    let (began, mark) = (Instant::now(), b"a frame of a loud machine");
    for number in 0..FRAMES {
        let due = began + Duration::from_millis(number.into());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        taps.send(from.1, &frame::ethernet(to, from.0, 0x88b5, mark)).unwrap();
    }
    let took = began.elapsed().as_secs_f64();
    let marked = |bytes: &[u8]| bytes.windows(mark.len()).any(|window| window == mark);
    let arrived = taps.collect(marked, usize::MAX, Duration::ZERO).unwrap();
    (arrived.get(at).map_or(0, Vec::len), took)
}

/// The frames that came to the meter of loud-1, and those that it dropped.
fn counted(testbed: &Testbed) -> (u64, u64) {
    let json = ask(testbed, &["get", "flood-drops", "loud-1", "--json"]);
    let row: serde_json::Value =
        serde_json::from_str(json.trim()).unwrap_or_else(|why| panic!("{why}: {json}"));
    assert_eq!((&row["port"], &row["node"], &row["limit"]), (&"loud-1".into(), &"hv1".into(), &100.into()));
    (row["frames"].as_u64().unwrap(), row["dropped"].as_u64().unwrap())
}

/// A series of the metrics about these counters; nothing before the first reading.
fn in_metrics(testbed: &Testbed, series: &str) -> Option<u64> {
    let address = testbed.controller_address();
    let socket = address.strip_prefix("unix:").unwrap();
    let mut curl = Command::new("curl");
    let output =
        curl.args(["-sS", "--fail", "--unix-socket", socket, "http://localhost/metrics"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// The metrics say that the meter of loud-1 has dropped so many frames, or more.
fn wait_for_total(testbed: &Testbed, least: u64) -> u64 {
    let series = "weft_counted_dropped_packets_total{counter=\"flood-drops\",object=\"loud-1\"}";
    wait_for("the total of dropped frames", || in_metrics(testbed, series).filter(|total| *total >= least))
}

#[test]
fn a_port_floods_as_much_as_it_may_and_the_rest_is_counted_also_after_a_restart_of_its_switch() {
    let configuration = ["metrics_counters = \"flood-drops\"", "metrics_counters_every = 1"];
    let configuration = configuration.map(str::to_owned).into();
    let testbed = Testbed::start(Settings { hosts: 2, configuration, ..settings("flood") }).unwrap();
    bring_up(&testbed, NETWORK, &machines());
    let lab = testbed.lab().unwrap();
    lab.warm_underlay().unwrap();
    let taps = lab.all_taps().unwrap();
    let [loud, other] = [1, 2].map(|last| [2, 0, 0, 0, 6, last]);
    let nobody = [2, 0, 0, 0, 0x77, 0x77];
    let limited = |to: [u8; 6], at: &str| {
        let before = counted(&testbed);
        let (arrived, took) = send(&taps, (loud, "loud-1"), to, at);
        let most = BURST + LIMIT * (took + 0.2);
        assert!(arrived >= 50 && (arrived as f64) <= most, "{arrived} of {FRAMES} in {took} s to {to:x?}");
        // The machine's own system may flood some too.
        let after = counted(&testbed);
        let (frames, dropped) = (after.0 - before.0, after.1 - before.1);
        assert!(
            frames >= u64::from(FRAMES) && dropped >= u64::from(FRAMES) - arrived as u64,
            "{frames} {dropped}"
        );
        println!(
            "to {to:x?}: {arrived} of {FRAMES} arrived in {took:.2} s, {dropped} of {frames} counted as dropped"
        );
    };
    wait_for("a reading of the meter", || {
        let read = in_metrics(&testbed, "weft_counted_switches{counter=\"flood-drops\",result=\"read\"}");
        read.filter(|switches| *switches == 1)
    });
    let (_, at_first) = counted(&testbed);
    limited(frame::BROADCAST, "loud-2");
    limited(nobody, "any-3");
    let (_, now) = counted(&testbed);
    let total = wait_for_total(&testbed, now - at_first);
    assert_eq!(send(&taps, (loud, "loud-1"), other, "loud-2").0, FRAMES as usize, "known unicast");
    assert_eq!(
        send(&taps, (other, "loud-2"), frame::BROADCAST, "loud-1").0,
        FRAMES as usize,
        "without a limit"
    );
    let text = ask(&testbed, &["get", "flood-drops"]);
    assert!(text.starts_with("PORT    NODE  LIMIT  FRAMES  DROPPED\nloud-1  hv1     100"), "{text}");

    // The switch forgets its meters.
    let host = lab.host("hv1").unwrap();
    host.kill_vswitchd().unwrap();
    host.start_vswitchd().unwrap();
    wait_for("the meter", || {
        let dump = host.ofctl(&["dump-meters", "br-int"]).ok()?;
        dump.contains("rate=100 burst_size=10").then_some(())
    });
    testbed.wait_in_sync().unwrap();
    lab.warm_underlay().unwrap();
    limited(frame::BROADCAST, "loud-2");
    // The total does not, and no frame is in it twice.
    let (_, since) = counted(&testbed);
    let all = wait_for_total(&testbed, total + since);
    // The machines' own systems flood a few frames meanwhile.
    let (_, now) = counted(&testbed);
    assert!(all <= total + now + 100, "{all} of {total} and {now}");

    // Without the limit, the meter is gone and everything passes.
    let free = "{kind: switch_port, id: loud-1, switch: loud, addresses: [{mac: '02:00:00:00:06:01', ips: [10.6.0.1]}]}";
    testbed.apply("free.yaml", free).unwrap();
    testbed.wait_in_sync().unwrap();
    let meters = host.ofctl(&["dump-meters", "br-int"]).unwrap();
    let mut numbers: Vec<&str> =
        meters.lines().filter_map(|line| line.strip_prefix("meter=")?.split(' ').next()).collect();
    numbers.sort_unstable();
    assert_eq!(
        numbers,
        ["200000", "80001", "80002", "80003", "80004"],
        "only those of common flows are left:\n{meters}"
    );
    assert_eq!(send(&taps, (loud, "loud-1"), frame::BROADCAST, "loud-2").0, FRAMES as usize);
    assert_eq!(ask(&testbed, &["get", "flood-drops"]), "no host has a port with a flood_limit\n");
}
