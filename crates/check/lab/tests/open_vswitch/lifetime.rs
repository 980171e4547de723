//! The lifetime of a lab: names, owners, visitors, crashes, and complete removal.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::common::{DEADLINE, leftovers, two_hosts, unique_name, web};
use lab::{Error, HostSpec, Lab, Options, Ownership};

/// Set only for the helper process.
const CHILD: &str = "LAB_TEST_CHILD_NAME";

/// Held by tests that sweep, and by tests with labs that can be swept: a sweep removes all abandoned labs, whoever made
/// them. Other processes, such as a `weft lab reach` that ends, may still sweep; so tests check what is left, not who
/// removed it.
static SWEEPING: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    SWEEPING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nothing() -> Vec<String> {
    Vec::new()
}

#[test]
fn a_panic_takes_the_lab_down() {
    let name = unique_name();
    let in_thread = name.clone();
    let result = std::thread::spawn(move || {
        let lab = Lab::create(Options::new(in_thread).hosts(1).with_integration_bridge()).unwrap();
        lab.add_vm(&web()).unwrap();
        assert_ne!(leftovers(lab.name()), nothing());
        panic!("as a failing test does");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(leftovers(&name), nothing());
}

/// Holds a lab until it is killed.
#[test]
#[ignore = "a helper process, started by `crash`"]
fn holds_a_lab() {
    let name = std::env::var(CHILD).expect("started by a test, which sets the lab's name");
    let lab = Lab::create(Options::new(name).hosts(2).with_integration_bridge()).unwrap();
    lab.add_vm(&web()).unwrap();
    let _ping = lab.spawn_ping("web", [10, 0, 0, 9].into(), Duration::from_millis(100)).unwrap();
    std::fs::write(lab.state().unwrap().run_dir.join("ready"), "").unwrap();
    loop {
        std::thread::park();
    }
}

/// Starts the helper process, waits until its lab is complete, and kills it.
fn crash(name: &str) {
    let path = concat!(module_path!(), "::holds_a_lab");
    // The first part is the name of the binary, which the test harness omits.
    let (_, path) = path.split_once("::").unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", path, "--ignored"])
        .env(CHILD, name)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let ready = format!("/run/weft-lab/{name}/ready");
    let start = Instant::now();
    while !std::path::Path::new(&ready).exists() {
        assert!(start.elapsed() < DEADLINE, "the helper's lab did not come up");
        assert!(child.try_wait().unwrap().is_none(), "the helper ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    // While it lives, nobody else may have the name.
    match Lab::create(Options::new(name).hosts(1)) {
        Err(Error::InUse { pid, .. }) => assert_eq!(pid, child.id()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(Lab::destroy(name), Err(Error::InUse { .. })));
    // A visitor works on the running lab without owning it.
    let visitor = Lab::open(name).unwrap();
    assert_eq!(visitor.hosts().unwrap().len(), 2);
    drop(visitor);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let left = leftovers(name);
    assert!(
        left.iter().any(|part| part.contains("ovs-vswitchd")),
        "the crash must leave something: {left:?}"
    );
    assert!(matches!(Lab::open(name), Err(Error::Abandoned(_))));
}

#[test]
fn kill_9_leaves_nothing_after_a_sweep() {
    let _alone = alone();
    let (dead, alive) = (unique_name(), Lab::create(Options::new(unique_name()).hosts(1)).unwrap());
    crash(&dead);
    lab::sweep().unwrap();
    wait_until_gone(&dead);
    assert!(alive.hosts().unwrap()[0].vswitchd_pid().is_some(), "a live lab was swept");
    assert_eq!(alive.check().unwrap(), nothing());
}

#[test]
fn create_removes_what_a_dead_owner_left_under_the_name() {
    let _alone = alone();
    let name = unique_name();
    crash(&name);
    let lab = Lab::create(Options::new(&name).hosts(1)).unwrap();
    assert_eq!(lab.vms().unwrap().len(), 0);
    assert_eq!(lab.check().unwrap(), nothing());
    drop(lab);
    assert_eq!(leftovers(&name), nothing());
}

/// Waits until nothing is left of a lab: another process's sweep may still be removing it.
#[track_caller]
fn wait_until_gone(name: &str) {
    let start = Instant::now();
    while leftovers(name) != nothing() {
        assert!(start.elapsed() < DEADLINE, "still there: {:?}", leftovers(name));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn namespaces_without_a_folder_are_taken_by_sweep_and_by_destroy() {
    let _alone = alone();
    let name = unique_name();
    let namespace = format!("weft.{name}.host.hv1");
    for by_sweep in [true, false] {
        assert!(Command::new("ip").args(["netns", "add", &namespace]).status().unwrap().success());
        let removed = if by_sweep { lab::sweep().map(drop) } else { Lab::destroy(&name).map(drop) };
        assert!(matches!(removed, Ok(()) | Err(Error::InUse { .. })), "by_sweep {by_sweep}: {removed:?}");
        wait_until_gone(&name);
    }
    assert!(!Lab::destroy(&name).unwrap());
}

/// Destroys by name also when the test fails half-way.
struct Destroy(String);

impl Drop for Destroy {
    fn drop(&mut self) {
        Lab::destroy(&self.0).unwrap();
    }
}

#[test]
fn a_kept_lab_goes_on_until_destroyed_by_name() {
    let _alone = alone();
    let name = unique_name();
    let _at_the_end = Destroy(name.clone());
    let visitor =
        Lab::create(Options::new(&name).hosts(1).with_integration_bridge()).unwrap().keep().unwrap();
    drop(visitor);
    let shown = lab::list().unwrap().into_iter().find(|lab| lab.name == name).unwrap();
    assert_eq!((shown.ownership, shown.hosts.as_slice()), (Ownership::Kept, &["hv1".to_owned()][..]));
    assert!(!lab::sweep().unwrap().contains(&name));
    assert!(matches!(Lab::create(Options::new(&name)), Err(Error::Kept(_))));
    // Two visitors see each other's changes.
    let (one, two) = (Lab::open(&name).unwrap(), Lab::open(&name).unwrap());
    one.add_vm(&web()).unwrap();
    assert_eq!(two.vm("web").unwrap().host, "hv1");
    two.add_host(&HostSpec::new("hv2", [172, 31, 0, 2])).unwrap();
    assert_eq!(one.hosts().unwrap().len(), 2);
    assert!(Lab::destroy(&name).unwrap());
    assert_eq!(leftovers(&name), nothing());
    assert!(matches!(Lab::open(&name), Err(Error::NoLab(_))));
}

#[test]
fn two_labs_side_by_side_do_not_touch() {
    let (one, two) = (two_hosts(), two_hosts());
    let name = one.name().to_owned();
    assert!(
        matches!(Lab::create(Options::new(&name)), Err(Error::InUse { .. })),
        "the name is taken in this process too"
    );
    drop(one);
    assert_eq!(leftovers(&name), nothing());
    assert_eq!(two.check().unwrap(), nothing());
    assert_eq!(two.vms().unwrap().len(), 2);
}

#[test]
fn faults_are_refused_before_or_undone_after() {
    let name = unique_name();
    let twice = Options::new(&name)
        .host(HostSpec::new("a", [172, 31, 0, 1]))
        .host(HostSpec::new("a", [172, 31, 0, 2]));
    assert!(matches!(Lab::create(twice), Err(Error::Exists { .. })));
    assert_eq!(leftovers(&name), nothing());
    let same = Options::new(&name)
        .host(HostSpec::new("a", [172, 31, 0, 1]))
        .host(HostSpec::new("b", [172, 31, 0, 1]));
    assert!(matches!(Lab::create(same), Err(Error::Invalid { .. })));
    assert!(matches!(Lab::create(Options::new("No.Such")), Err(Error::Invalid { .. })));

    // Without br-int a machine cannot be plugged in: the error is ovs-vsctl's, and the machine is undone.
    let lab = Lab::create(Options::new(&name).hosts(1)).unwrap();
    let error = lab.add_vm(&web()).unwrap_err().to_string();
    assert!(error.starts_with("hv1: `ovs-vsctl ") && error.contains("br-int"), "{error}");
    assert_eq!(lab.vms().unwrap(), []);
    let host = lab.host("hv1").unwrap();
    assert!(matches!(host.wait_for_bridge("br-int", Duration::ZERO), Err(Error::Timeout { .. })));
    host.make_integration_bridge().unwrap();
    host.wait_for_bridge("br-int", DEADLINE).unwrap();
    lab.add_vm(&web()).unwrap();
    assert!(matches!(lab.add_vm(&web()), Err(Error::Exists { .. })));
    let error = lab.vm("nobody").unwrap_err().to_string();
    assert_eq!(error, format!("lab {name}: there is no virtual machine \"nobody\"; there are: web"));
}

#[test]
fn the_run_folder_can_be_elsewhere_and_is_left_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "").unwrap();
    let mut options = Options::new(unique_name()).hosts(1);
    options.run_dir = Some(folder.path().to_owned());
    let lab = Lab::create(options).unwrap();
    assert!(folder.path().join("hv1/db.sock").exists());
    drop(lab);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
}

#[test]
fn many_can_check_at_a_time_that_this_machine_can_carry_a_lab() {
    let checks: Vec<_> = (0..8).map(|_| std::thread::spawn(lab::preflight)).collect();
    for check in checks {
        check.join().unwrap().unwrap();
    }
}
