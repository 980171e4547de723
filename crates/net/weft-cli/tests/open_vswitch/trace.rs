//! `weft trace --live` against real Open vSwitch: what somebody changed by hand is named.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

use testbed::tenants::{NETWORK, machines};
use testbed::{Settings, Testbed};

use super::network::wait_for;

fn trace(testbed: &Testbed, arguments: &[&str]) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    let address = testbed.controller_address();
    let command = command.args(["trace", "acme-1", "--to", "acme-3"]).args(arguments);
    let output = command.args(["--controller", &address]).output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    (output, text)
}

#[test]
fn a_trace_of_a_controller_names_deleted_and_foreign_flows_and_switches_that_are_behind() {
    let settings = Settings {
        encaps: vec!["geneve".to_owned()],
        ..Settings::new(format!("live-{}", std::process::id()), env!("CARGO_BIN_EXE_weft"))
    };
    let testbed = Testbed::start(settings).unwrap();
    testbed.apply("two-tenants.yaml", NETWORK).unwrap();
    testbed.plug_in(&machines()).unwrap();
    testbed.wait_in_sync().unwrap();

    let (output, text) = trace(&testbed, &["--live", "--verbose"]);
    assert!(output.status.success(), "{text}\n{output:?}");
    assert!(text.starts_with("delivered to acme-3 on hv2"), "{text}");
    assert!(text.contains("on the switches now:") && !text.contains("differ"), "{text}");
    assert!(text.contains("ovs-appctl ofproto/trace br-int 'in_port="), "{text}");
    assert!(text.contains("which has counted "), "{text}");

    // The controller undoes both, and waits longer each time: sooner or later a trace is faster.
    let hv2 = testbed.lab().unwrap().host("hv2").unwrap();
    wait_for("a deleted flow to be named", || {
        hv2.ofctl(&["del-flows", "br-int", "table=40"]).unwrap();
        let (_, text) = trace(&testbed, &["--live"]);
        let named = text.contains("but the flows of hv2 differ") && text.contains("40 OUT_PORT: missing: ");
        named.then_some(())
    });
    wait_for("a foreign flow to be named", || {
        hv2.ofctl(&["add-flow", "br-int", "table=40,cookie=0x77,priority=65000 actions=drop"]).unwrap();
        let (_, text) = trace(&testbed, &["--live"]);
        (text.contains("a foreign flow takes the packet: ") && text.contains("cookie=0x77")).then_some(())
    });
    testbed.wait_in_sync().unwrap();
    let (_, text) = trace(&testbed, &["--live"]);
    assert!(!text.contains("differ"), "{text}");

    // A switch that is behind is named, also to those who ask no switch.
    assert!(!text.contains("may have other flows"), "{text}");
    hv2.kill_vswitchd().unwrap();
    wait_for("the switch to be missed", || {
        let (output, text) = trace(&testbed, &[]);
        let is_missed = text.contains("note: the switch of hv2 is not connected");
        // T2: the verdict and the exit status say so too, at the same time.
        let verdict = text.starts_with(
            "delivered by the rules to acme-3 on hv2, but the switch of hv2 is not connected (since 20",
        );
        assert_eq!((verdict, output.status.code() == Some(4)), (is_missed, is_missed), "{text}");
        is_missed.then_some(())
    });
    hv2.start_vswitchd().unwrap();
    wait_for("the switch to be back", || {
        let (_, text) = trace(&testbed, &[]);
        (!text.contains("may have other flows")).then_some(())
    });
}
