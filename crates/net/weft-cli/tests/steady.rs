//! A controller whose network changes for long stays as small as it was: memory, files, threads. `WEFT_TEST_CHANGES=1000000` makes a long run. The
//! file that `WEFT_TEST_RECORD` names gets a line for each run, so that runs add up.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Instant;

use fake_switch::{FakeDatabase, FakeSwitch};
use test_random::{Random, seeds};
use tokio::runtime::Runtime;
use weft_client::Client;

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE, number};

/// The names of ports. A port comes, changes and goes.
const PORTS: u64 = 100;
/// The changes of a short run.
const CHANGES: u64 = 1_200;
/// Restarts of the controller in a run.
const RESTARTS: u64 = 3;
/// The memory that a run may add, besides a tenth: what an allocator keeps of a small process.
const SLACK: u64 = 16 << 20;

/// What a controller takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    memory: u64,
    files: u64,
    threads: u64,
}

async fn size(controller: &mut Controller, folder: &Folder) -> Size {
    let metrics = controller.web(folder).await.get("/metrics").await.unwrap().text;
    let of = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse::<u64>().unwrap()
    };
    Size {
        memory: of("process_resident_memory_bytes"),
        files: of("process_open_fds"),
        threads: of("process_threads"),
    }
}

/// Changes a port in some way.
async fn change(client: &mut Client, random: &mut Random) {
    let port = random.below(PORTS);
    if random.chance(40) {
        let key = objects::ObjectKey::new("switch_port", format!("p{port}").as_str());
        // It may not be there.
        drop(client.delete(&[key], "steady").await);
        return;
    }
    let last = random.below(200);
    let text = format!(
        "{{kind: switch_port, id: p{port}, switch: blue, addresses: [{{mac: '02:00:00:00:00:{port:02x}', ips: [10.0.{port}.{last}]}}]}}"
    );
    client.apply([("port.yaml".to_owned(), text)], "steady").await.unwrap();
}

/// Waits until the switch has confirmed everything.
async fn settled(client: &mut Client) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let status = client.status().await.unwrap();
        if status.switches.iter().all(|switch| switch.connected && switch.synced && switch.pending == 0) {
            return;
        }
        assert!(Instant::now() < deadline, "{status:#?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

fn run(runtime: &Runtime, changes: u64, seed: u64) -> (Size, Size) {
    let mut random = Random::new(seed);
    let folder = Folder::new();
    let [ovsdb, openflow] = ["db", "of"].map(|name| folder.path(name));
    let (database, switch) = (FakeDatabase::start(&ovsdb).unwrap(), FakeSwitch::start(&openflow).unwrap());
    switch.datapath_id(FakeSwitch::DATAPATH_ID + 1);
    database.datapath_id("br-int", FakeSwitch::DATAPATH_ID + 1);
    let network = format!(
        "{{kind: switch, id: blue}}\n---\n{{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:{}', openflow: 'unix:{}'}}",
        ovsdb.display(),
        openflow.display()
    );
    let mut controller = Controller::start(&folder);
    let part = changes / (RESTARTS + 1);
    let mut first = None;
    let mut last = None;
    for start in 0..=RESTARTS {
        if start > 0 {
            controller.terminate();
            controller = Controller::start(&folder);
        }
        runtime.block_on(async {
            let mut client = controller.client(&folder).await;
            if start == 0 {
                client.apply([("network.yaml".to_owned(), network.clone())], "steady").await.unwrap();
                settled(&mut client).await;
                for port in 0..PORTS / 2 {
                    database
                        .plug("br-int", &format!("vif{port}"), &[("iface-id", &format!("p{port}"))])
                        .unwrap();
                }
            }
            settled(&mut client).await;
            println!("start {start}, before any change: {:?}", size(&mut controller, &folder).await);
            // Within a start, nothing may grow with the changes; from start to start, nothing with the state. Before that, what the controller
            // keeps of the past fills up to its limits: receipts, versions of objects, answers to requests that may be repeated.
            let mut sizes = [part / 3, part - part / 3].into_iter();
            for changes in sizes.by_ref() {
                for _ in 0..changes {
                    change(&mut client, &mut random).await;
                }
                settled(&mut client).await;
                let now = size(&mut controller, &folder).await;
                println!("start {start}, {changes} changes later: {now:?}");
                first.get_or_insert(now);
                last = Some(now);
            }
        });
    }
    controller.terminate();
    (first.unwrap(), last.unwrap())
}

#[test]
fn a_network_that_changes_for_long_takes_no_more_memory_files_or_threads() {
    let runtime = Runtime::new().unwrap();
    let _entered = runtime.enter();
    let changes = number("WEFT_TEST_CHANGES").unwrap_or(CHANGES);
    for seed in seeds!("a_network_that_changes_for_long_takes_no_more_memory_files_or_threads", 1) {
        let begun = Instant::now();
        let (first, last) = run(&runtime, changes, seed);
        let seconds = begun.elapsed().as_secs();
        println!("{changes} changes in {seconds} s: {first:?}, then {last:?}");
        if let Some(record) = std::env::var_os("WEFT_TEST_RECORD") {
            let mut file = OpenOptions::new().create(true).append(true).open(record).unwrap();
            let (before, after) = (first.memory, last.memory);
            writeln!(
                file,
                "{{\"changes\": {changes}, \"seconds\": {seconds}, \"bytes\": [{before}, {after}]}}"
            )
            .unwrap();
        }
        assert!(last.memory <= first.memory + first.memory / 10 + SLACK, "{first:?}, then {last:?}");
        // A connection may be on its way.
        assert!(
            last.files <= first.files + 2 && last.threads <= first.threads + 2,
            "{first:?}, then {last:?}"
        );
    }
}
