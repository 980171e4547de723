//! Shared by the tests: a testbed with a network, distinguishable frames, counts of their copies.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lab::{Lab, Taps, VmSpec, frame};
use testbed::{DEADLINE, Settings, Testbed};

/// Settings of a testbed that no other test uses.
pub(crate) fn settings(test: &str) -> Settings {
    Settings::new(unique(test), weft())
}

/// A name of this process alone.
pub(crate) fn unique(test: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{test}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The program under test.
pub(crate) fn weft() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_weft"))
}

/// Applies a network, plugs its machines in and waits until the switches are in sync.
pub(crate) fn bring_up(testbed: &Testbed, network: &str, machines: &[VmSpec]) {
    testbed.apply("network.yaml", network).unwrap();
    testbed.lab().unwrap().add_vms(machines).unwrap();
    testbed.wait_in_sync().unwrap();
}

/// The output of a `weft` command for the testbed's controller.
pub(crate) fn ask(testbed: &Testbed, arguments: &[&str]) -> String {
    let output = Command::new(weft())
        .args(arguments)
        .env("WEFT_CONTROLLER", testbed.controller_address())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The largest IP packet that all ports of a switch can use, according to `weft get`.
pub(crate) fn mtu_of(testbed: &Testbed, switch: &str) -> u16 {
    let said = ask(testbed, &["get", "switch", switch]);
    let mtu = said.lines().find_map(|line| line.strip_prefix("# mtu: ")?.parse().ok());
    mtu.unwrap_or_else(|| panic!("no MTU in: {said}"))
}

/// Whether IP packets of a size pass from a machine to an address and back, unfragmented.
pub(crate) fn passes_whole(lab: &Lab, from: &str, to: &str, size: u16) -> bool {
    let data = (size - 28).to_string();
    let argv = ["ping", "-M", "do", "-c", "3", "-i", "0.05", "-W", "10", "-s", &data, to];
    lab.exec(from, &argv).unwrap().success()
}

/// Waits until `look` returns a value; fails after [`DEADLINE`].
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "{what} did not come about within {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Copies, by machine.
pub(crate) type Copies = BTreeMap<String, usize>;

/// One copy at each of these machines.
pub(crate) fn one_at(machines: &[&str]) -> Copies {
    machines.iter().map(|machine| ((*machine).to_owned(), 1)).collect()
}

/// The taps of machines, and the addresses for frames between them.
pub(crate) struct Frames<'a> {
    lab: &'a Lab,
    pub(crate) taps: Taps,
}

impl<'a> Frames<'a> {
    /// Taps at all machines of a lab.
    pub(crate) fn new(lab: &'a Lab) -> Self {
        Frames { lab, taps: lab.all_taps().unwrap() }
    }

    /// A machine's MAC.
    pub(crate) fn mac(&self, vm: &str) -> [u8; 6] {
        frame::mac(&self.lab.vm(vm).unwrap().mac).unwrap()
    }

    /// Sends a UDP datagram from a machine's own addresses to `to`, and checks where copies of it arrive.
    #[track_caller]
    pub(crate) fn come_out(&self, what: &str, from: &str, to: [u8; 6], wanted: &Copies) {
        self.come_out_as(what, from, wanted, |mark| self.datagram(from, to, mark));
    }

    /// A UDP datagram from a machine's own addresses.
    pub(crate) fn datagram(&self, from: &str, to: [u8; 6], mark: &[u8]) -> Vec<u8> {
        let ip = self.lab.vm(from).unwrap().ip();
        let Some(IpAddr::V4(ip)) = ip else { panic!("{from} has no IPv4 address") };
        frame::udp4(to, self.mac(from), [255; 4].into(), ip, mark)
    }

    /// Checks where copies of a frame arrive; `make` makes the frame with a mark in it. An unexpected copy fails at once.
    /// Another frame is sent only if copies are missing, for example while a tunnel's neighbour is unknown.
    #[track_caller]
    pub(crate) fn come_out_as(
        &self,
        what: &str,
        from: &str,
        wanted: &Copies,
        make: impl Fn(&[u8]) -> Vec<u8>,
    ) {
        let start = Instant::now();
        loop {
            // Entries cached for earlier tables, or before an address was learned, must not affect the result.
            self.lab.flush_datapaths().unwrap();
            let found = self.copies(from, wanted.values().sum(), &make);
            if found == *wanted {
                return;
            }
            let allowed = |(vm, copies): (&String, &usize)| *copies <= wanted.get(vm).copied().unwrap_or(0);
            assert!(
                found.iter().all(allowed) && start.elapsed() < DEADLINE,
                "{what}, from {from}: copies arrived at {found:?}, not at {wanted:?}"
            );
        }
    }

    /// The machines where copies of one frame arrive; `expected` is their number.
    fn copies(&self, from: &str, expected: usize, make: impl Fn(&[u8]) -> Vec<u8>) -> Copies {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!("weft-mark-{:08}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.taps.copies(from, &make(mark.as_bytes()), mark.as_bytes(), expected).unwrap()
    }
}
