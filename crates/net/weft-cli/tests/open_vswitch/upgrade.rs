//! Another version of the controller takes over under traffic, and the former one again. `WEFT_TEST_FORMER` names the program of the former
//! version, as `cargo xtask soak` builds it from the last tag; without it, both are the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::tenants::Departures;
use testbed::{DEADLINE, Testbed};

use super::end_to_end::{bring_up, departures, flows, testbed};

/// A frame each millisecond, both ways.
const EVERY: Duration = Duration::from_millis(1);

const PRESENT: &str = env!("CARGO_BIN_EXE_weft");

/// The flows of each host, without the cookies: those are the fingerprints of rules, which another version may word otherwise.
fn behaviour(testbed: &Testbed) -> BTreeMap<String, BTreeSet<String>> {
    let without = |flow: &String| {
        let parts = flow.split(", ").filter(|part| !part.trim().starts_with("cookie="));
        parts.collect::<Vec<_>>().join(", ")
    };
    let hosts = testbed.lab().unwrap().hosts().unwrap();
    hosts.iter().map(|host| (host.name.clone(), flows(host).iter().map(without).collect())).collect()
}

/// All files of a folder, with their contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut contents(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

/// Stops the controller and starts this program in its place, while machines talk. Returns the flow and group mods that switches got.
fn change_to(testbed: &mut Testbed, program: &Path) -> u64 {
    let before = behaviour(testbed);
    let to = testbed.lab().unwrap().vm("acme-3").unwrap().ip().unwrap();
    let ping = testbed.lab().unwrap().spawn_ping("acme-1", to, EVERY).unwrap();
    ping.wait_received(200, DEADLINE).unwrap();
    let hosts = testbed.lab().unwrap().hosts().unwrap();
    let marks: Vec<_> = hosts.iter().map(|host| host.mark_openflow().unwrap()).collect();
    testbed.stop_controller().unwrap();
    testbed.use_program(program);
    testbed.start_controller().unwrap();
    testbed.wait_in_sync().unwrap();
    let mut modifications = 0;
    for (host, mark) in hosts.iter().zip(&marks) {
        let count = host.openflow_since(mark).unwrap();
        assert!(count.others > 0, "{}: the controller did not even ask", host.name);
        modifications += count.modifications();
        host.unmark_openflow().unwrap();
    }
    ping.wait_received(200, DEADLINE).unwrap();
    let result = ping.stop().unwrap();
    assert_eq!((result.lost(), result.duplicates), (0, 0), "{result:?}");
    assert_eq!(behaviour(testbed), before, "the flows of before");
    println!("to {}: {result:?}; {modifications} flow and group mods", program.display());
    modifications
}

#[test]
fn an_upgrade_and_a_downgrade_lose_no_frame_and_change_no_flow() {
    let former = std::env::var_os("WEFT_TEST_FORMER").map_or_else(|| PRESENT.into(), PathBuf::from);
    let is_other = former.as_path() != Path::new(PRESENT);
    let mut testbed = testbed("upgrade", &["geneve", "vxlan"], None);
    if is_other {
        testbed.stop_controller().unwrap();
        testbed.use_program(&former);
        testbed.start_controller().unwrap();
    }
    bring_up(&testbed);
    let objects = testbed.status().unwrap().objects;
    let upgraded = change_to(&mut testbed, Path::new(PRESENT));
    assert_eq!(testbed.status().unwrap().objects, objects);
    if !is_other {
        assert_eq!(upgraded, 0);
    }
    assert_eq!(departures(&testbed), Departures::default());

    // The former version goes on from what the new one has written, or refuses before it writes anything.
    testbed.stop_controller().unwrap();
    let written = contents(&testbed.state());
    testbed.use_program(&former);
    if let Err(error) = testbed.start_controller() {
        let said = format!("{error:#}");
        assert!(is_other && said.contains("newer version"), "{said}");
        assert_eq!(contents(&testbed.state()).keys().collect::<Vec<_>>(), written.keys().collect::<Vec<_>>());
        assert!(contents(&testbed.state()) == written, "it has written before it refused");
        testbed.use_program(PRESENT);
        testbed.start_controller().unwrap();
    }
    testbed.wait_in_sync().unwrap();
    assert_eq!(testbed.status().unwrap().objects, objects);
    assert_eq!(departures(&testbed), Departures::default());
}
