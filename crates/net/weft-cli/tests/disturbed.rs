//! A controller to which everything happens at once: hosts vanish, return empty, lie and stall, the disk is full, nobody reads the log, clients
//! leave before they are answered. Once that is over, everything is as after a fresh start.
//!
//! `WEFT_TEST_SECONDS` says how long it lasts, `WEFT_TEST_SEED` what happens; `cargo xtask soak` lets it last ten minutes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fake_switch::database::{Fault as DatabaseFault, Stage as DatabaseStage};
use fake_switch::openflow::{Fault, Stage};
use fake_switch::{FakeDatabase, FakeSwitch};
use objects::ObjectKey;
use test_random::Random;
use weft_client::{Client, pb};

use crate::support::Folder;

const HOSTS: u64 = 6;
const PORTS: u64 = 40;
const CLIENTS: u64 = 4;
/// Whatever is waited for comes within this time. A connection that stalls is given up after half a minute, and tried again later and later.
const DEADLINE: Duration = Duration::from_mins(5);
/// The time that a controller has to end.
const END: Duration = Duration::from_secs(20);

#[test]
fn d4_d11_d16_after_all_kinds_of_trouble_everything_is_as_after_a_fresh_start() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let seed = number("WEFT_TEST_SEED").unwrap_or_else(fresh);
    let seconds = number("WEFT_TEST_SECONDS").unwrap_or(5);
    println!("seed {seed}, {seconds} s");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let folder = Folder::new();
    let socket = format!("unix:{}", folder.path("weft.sock").display());
    // Much is logged, so that a reader who stalls is felt.
    folder.write("weft.toml", format!("state = \"state\"\nlisten = \"{socket}\"\nlog = \"debug\"\n"));
    let mut hosts: Vec<Host> = (0..HOSTS).map(|number| Host::new(&folder, number)).collect();

    let controller = Controller::start(&folder);
    runtime.block_on(controller.apply(&socket, base(&hosts)));
    let is_over = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (socket, is_over, answered) = (socket.clone(), is_over.clone(), answered.clone());
            runtime.spawn(client(socket, Random::new(seed ^ (number + 1)), is_over, answered))
        })
        .collect();
    let done = disturb(&controller, &folder, &mut hosts, Random::new(seed), Duration::from_secs(seconds));
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        runtime.block_on(client).unwrap();
    }
    println!("{done:?}, {} requests answered; {}", answered.load(Ordering::SeqCst), controller.memory());

    controller.calm();
    hosts.iter_mut().for_each(Host::calm);
    let before = runtime.block_on(settled(&controller, &socket));
    let lost = controller.log().lines().filter(|line| line.contains("lines were lost")).count();
    println!("lines of the log were lost {lost} times");
    controller.stop();

    let controller = Controller::start(&folder);
    let after = runtime.block_on(settled(&controller, &socket));
    for (node, switch) in &after.switches {
        assert_eq!(*switch, Some(0), "{node} has other flows than after a fresh start");
    }
    assert_eq!(before.objects, after.objects);
    assert_eq!(before.problems, after.problems);
    for (node, flows) in &before.flows {
        assert_eq!(*flows, after.flows[node], "{node}");
    }
    for host in &hosts {
        let (_, switch) = host.peers.as_ref().expect("all hosts are back");
        assert!(!switch.flows().is_empty() && switch.has_primary(), "{}", host.id);
    }
    controller.stop();
}

/// Transport nodes, a router between two switches, and ACLs.
fn base(hosts: &[Host]) -> Vec<String> {
    let mut objects: Vec<String> = hosts.iter().map(Host::object).collect();
    let others = [
        r#"{"kind":"switch","id":"s0","acl_default":"drop"}"#,
        r#"{"kind":"switch","id":"s1"}"#,
        r#"{"kind":"switch","id":"s2"}"#,
        r#"{"kind":"router","id":"r"}"#,
        r#"{"kind":"router_port","id":"r-s0","router":"r","switch":"s0","mac":"02:00:00:00:ff:01","networks":["10.0.0.254/24"]}"#,
        r#"{"kind":"router_port","id":"r-s1","router":"r","switch":"s1","mac":"02:00:00:00:ff:02","networks":["10.0.1.254/24"]}"#,
        r#"{"kind":"acl","id":"send","switch":"s0","direction":"from_port","priority":100,"action":"allow_related"}"#,
    ];
    objects.extend(others.map(str::to_owned));
    objects
}

fn port(number: u64, random: &mut Random) -> String {
    let switch = random.below(3);
    format!(
        r#"{{"kind":"switch_port","id":"p{number}","switch":"s{switch}","port_security":{},"addresses":[{{"mac":"02:00:00:00:00:{:02x}","ips":["10.0.{switch}.{}"]}}]}}"#,
        random.chance(50),
        number + 1,
        number + 1
    )
}

fn acl(number: u64, random: &mut Random) -> String {
    format!(
        r#"{{"kind":"acl","id":"a{number}","switch":"s0","direction":"to_port","priority":{},"match":{{"ip_proto":"tcp","tp_dst":{}}},"action":"allow_related"}}"#,
        100 + number,
        1 + random.below(1000)
    )
}

/// Changes and asks, and often leaves before the answer. Any answer may be a refusal: names are taken, objects are gone, the disk is full.
async fn client(socket: String, mut random: Random, is_over: Arc<AtomicBool>, answered: Arc<AtomicUsize>) {
    let mut connection = None;
    while !is_over.load(Ordering::SeqCst) {
        if connection.is_none() || random.chance(5) {
            connection = Client::connect(&socket).await.ok();
        }
        let Some(client) = connection.as_mut() else { continue };
        let patience = match random.below(3) {
            0 => Duration::from_micros(random.below(20_000)),
            _ => DEADLINE,
        };
        let number = random.below(PORTS);
        let request = async {
            match random.below(10) {
                0..4 => client.apply_objects(vec![port(number, &mut random)], "test").await.is_ok(),
                4 => client.apply_objects(vec![acl(number, &mut random)], "test").await.is_ok(),
                5 => client.delete(&[ObjectKey::new("acl", format!("a{number}"))], "test").await.is_ok(),
                6 | 7 => client
                    .delete(&[ObjectKey::new("switch_port", format!("p{number}"))], "test")
                    .await
                    .is_ok(),
                8 => client.flows(&format!("hv{}", number % HOSTS)).await.is_ok(),
                _ => client.get_with_states("switch_port", None).await.is_ok(),
            }
        };
        if let Ok(true) = tokio::time::timeout(patience, request).await {
            answered.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// How often each kind of trouble happened.
type Done = BTreeMap<&'static str, usize>;

fn disturb(
    controller: &Controller,
    folder: &Folder,
    hosts: &mut [Host],
    mut random: Random,
    time: Duration,
) -> Done {
    let (begun, mut done) = (Instant::now(), Done::new());
    // Of what is only noticed after many seconds, little happens in a short run.
    let slow = if time > Duration::from_mins(1) { 8 } else { 1 };
    while begun.elapsed() < time {
        let at = random.below(hosts.len() as u64) as usize;
        let host = &mut hosts[at];
        let what = match random.below(100) {
            0..50 => host.move_interface(&mut random),
            50..62 => host.break_connection(&mut random),
            62..66 => host.vanish(),
            66..76 => host.return_empty(),
            76..80 => host.flood_with_ids(&mut random),
            80..84 => host.change_foreign(&mut random),
            84..88 => controller.fill_disk(folder, &mut random),
            88..92 => controller.free_disk(),
            92..97 => controller.stall_log(),
            97..99 => controller.read_log(),
            _ if random.below(8) < slow => host.stall(&mut random),
            _ => "nothing",
        };
        *done.entry(what).or_default() += 1;
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
    }
    done
}

/// A host: its database and its switch, while it is up.
struct Host {
    id: String,
    number: u64,
    ovsdb: std::path::PathBuf,
    openflow: std::path::PathBuf,
    peers: Option<(FakeDatabase, FakeSwitch)>,
    /// The interfaces of this life of the host.
    plugged: BTreeMap<String, u64>,
}

impl Host {
    fn new(folder: &Folder, number: u64) -> Host {
        let path = |name: &str| folder.path(&format!("{name}{number}"));
        let (ovsdb, openflow) = (path("db"), path("of"));
        let mut host = Host {
            id: format!("hv{number}"),
            number,
            ovsdb,
            openflow,
            peers: None,
            plugged: BTreeMap::new(),
        };
        host.return_empty();
        host
    }

    fn object(&self) -> String {
        let (id, ovsdb, openflow) = (&self.id, self.ovsdb.display(), self.openflow.display());
        let address = self.number + 1;
        format!(
            r#"{{"kind":"transport_node","id":"{id}","ip":"172.16.0.{address}","ovsdb":"unix:{ovsdb}","openflow":"unix:{openflow}"}}"#
        )
    }

    fn vanish(&mut self) -> &'static str {
        self.peers = None;
        self.plugged.clear();
        "vanished"
    }

    /// As after a loss of power.
    fn return_empty(&mut self) -> &'static str {
        if self.peers.is_some() {
            return "nothing";
        }
        for path in [&self.ovsdb, &self.openflow] {
            let _ = fs::remove_file(path);
        }
        let (database, switch) =
            (FakeDatabase::start(&self.ovsdb).unwrap(), FakeSwitch::start(&self.openflow).unwrap());
        let id = FakeSwitch::DATAPATH_ID + self.number;
        switch.datapath_id(id);
        database.datapath_id("br-int", id);
        self.peers = Some((database, switch));
        "returned"
    }

    /// A machine comes or goes. The same port may have an interface on several hosts.
    fn move_interface(&mut self, random: &mut Random) -> &'static str {
        let Some((database, _)) = &self.peers else { return "nothing" };
        let name = format!("vif{}", random.below(PORTS / 2));
        if self.plugged.remove(&name).is_some() {
            let _ = database.unplug(&name);
            return "unplugged";
        }
        let port = random.below(PORTS);
        let ids = [("iface-id", &*format!("p{port}"))];
        if !database.plug("br-int", &name, &ids).unwrap_or(false) {
            return "nothing";
        }
        self.plugged.insert(name, port);
        "plugged"
    }

    fn break_connection(&mut self, random: &mut Random) -> &'static str {
        let Some((database, switch)) = &self.peers else { return "nothing" };
        match random.below(4) {
            0 => switch.disconnect(),
            1 => database.disconnect(),
            2 => switch.fault(*random.pick(&Stage::ALL), *random.pick(&[Fault::Garbage, Fault::Close])),
            _ => database.fault(
                *random.pick(&DatabaseStage::ALL),
                random
                    .pick(&[DatabaseFault::Close, DatabaseFault::CloseUnanswered, DatabaseFault::Null])
                    .clone(),
            ),
        }
        "broken"
    }

    fn stall(&mut self, random: &mut Random) -> &'static str {
        let Some((database, switch)) = &self.peers else { return "nothing" };
        match random.below(3) {
            0 => {
                switch
                    .fault(*random.pick(&Stage::ALL), *random.pick(&[Fault::Stall, Fault::StallMidMessage]));
            }
            1 => switch.fault(
                *random.pick(&[Stage::Groups, Stage::Dump]),
                *random.pick(&[Fault::EmptyParts, Fault::Endless]),
            ),
            _ => database.fault(*random.pick(&DatabaseStage::ALL), DatabaseFault::StallMidMessage),
        }
        "stalled"
    }

    /// It reports interfaces that belong to nothing.
    fn flood_with_ids(&mut self, random: &mut Random) -> &'static str {
        let Some((database, _)) = &self.peers else { return "nothing" };
        for _ in 0..30 {
            let name = format!("lie{}", random.below(200));
            let id = format!("no-such-port-{}", random.below(1 << 30));
            if self.plugged.remove(&name).is_some() {
                let _ = database.unplug(&name);
            } else if database.plug("br-int", &name, &[("iface-id", &*id)]).unwrap_or(false) {
                self.plugged.insert(name, 0);
            }
        }
        "lied"
    }

    /// Another client removes a flow, or the switch loses all of them.
    fn change_foreign(&mut self, random: &mut Random) -> &'static str {
        let Some((_, switch)) = &self.peers else { return "nothing" };
        if random.chance(20) {
            switch.restart();
            return "restarted";
        }
        let flows = switch.flows();
        let Some(key) = flows.keys().nth(random.below(flows.len().max(1) as u64) as usize) else {
            return "nothing";
        };
        switch.remove(key);
        "changed"
    }

    fn calm(&mut self) {
        self.return_empty();
        let Some((database, switch)) = &self.peers else { return };
        switch.forget_faults();
        database.forget_faults();
    }
}

/// What there is once all is quiet.
struct Quiet {
    objects: BTreeMap<String, Vec<(String, pb::ObjectState)>>,
    problems: Vec<pb::Problem>,
    /// The flow mods of the last synchronisation of each host.
    switches: BTreeMap<String, Option<u64>>,
    flows: BTreeMap<String, Vec<String>>,
}

/// How long nothing has changed once all is quiet: a host that is back counts as back after two seconds.
const QUIET: Duration = Duration::from_secs(5);

/// Waits until all hosts are in sync, and nothing changes any more.
async fn settled(controller: &Controller, socket: &str) -> Quiet {
    let mut client = controller.client(socket).await;
    let deadline = Instant::now() + DEADLINE;
    let (mut last_txn, mut since) = (None, Instant::now());
    let status = loop {
        let status = client.status().await.unwrap();
        let is_settled = |switch: &pb::SwitchStatus| switch.connected && switch.synced && switch.pending == 0;
        if !status.switches.iter().all(is_settled) || last_txn != Some(status.last_txn) {
            (last_txn, since) = (Some(status.last_txn), Instant::now());
        }
        if since.elapsed() > QUIET {
            break status;
        }
        assert!(Instant::now() < deadline, "{status:#?}\n{}", controller.log_end());
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let (mut objects, mut flows) = (BTreeMap::new(), BTreeMap::new());
    for kind in ["transport_node", "switch", "switch_port", "router_port", "acl"] {
        let mut seen = client.get_with_states(kind, None).await.unwrap();
        for (_, state) in &mut seen {
            state.columns = without_strays(&state.columns);
        }
        objects.insert(kind.to_owned(), seen);
    }
    for switch in &status.switches {
        let wanted = client.flows(&switch.node).await.unwrap();
        let mut texts: Vec<String> = wanted.flows.iter().map(|flow| format!("{flow:?}")).collect();
        texts.extend(wanted.buckets.iter().map(|bucket| format!("{bucket:?}")));
        flows.insert(switch.node.clone(), texts);
    }
    let switches = status.switches.into_iter().map(|switch| (switch.node, switch.sync_flow_mods)).collect();
    // A fresh start knows of no earlier time.
    let undated = |problem| pb::Problem { since: String::new(), ..problem };
    let problems = status.problems.into_iter().map(undated).collect();
    Quiet { objects, problems, switches, flows }
}

/// The state of an object without the interfaces that may be meant for it: they are as old as the last news of their hosts, and objects that
/// come and go since then do not change them.
fn without_strays(columns: &str) -> String {
    const END: &str = ", which no object has";
    let mut parts = columns.split("; ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some((_, rest)) = part.split_once(END).filter(|(stray, _)| stray.contains(" has one with `")) {
            text.push_str(rest);
        } else {
            text.push_str("; ");
            text.push_str(part);
        }
    }
    text
}

#[test]
fn what_may_be_meant_is_left_out_of_comparisons() {
    let state = r#"{"unattached":"it has none; hv0 has one with `p1`, which no object has; hv1 has one with `p2`, which no object has","up":false}"#;
    assert_eq!(without_strays(state), r#"{"unattached":"it has none","up":false}"#);
    assert_eq!(without_strays(r#"{"why":["a; b"]}"#), r#"{"why":["a; b"]}"#);
}

/// A controller that is killed with the test. Its log is a pipe, which is not always read.
struct Controller {
    child: Mutex<Child>,
    pid: String,
    log: Arc<Mutex<String>>,
    is_stalled: Arc<AtomicBool>,
}

impl Controller {
    fn start(folder: &Folder) -> Controller {
        // A signal that the shell ignores stays ignored after `exec`; otherwise a write to the full disk would kill the controller.
        let script = "trap '' XFSZ; exec \"$0\" controller --config weft.toml";
        let mut command = Command::new("sh");
        command.args(["-c", script, env!("CARGO_BIN_EXE_weft")]).current_dir(folder.path(""));
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (log, is_stalled) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
        let mut pipe = child.stderr.take().unwrap();
        let (to, stalled) = (log.clone(), is_stalled.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                while stalled.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                let Ok(read @ 1..) = pipe.read(&mut bytes) else { return };
                to.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        let pid = child.id().to_string();
        Controller { child: Mutex::new(child), pid, log, is_stalled }
    }

    async fn client(&self, socket: &str) -> Client {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Ok(client) = Client::connect(socket).await {
                return client;
            }
            let ended = self.child().try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < deadline, "{ended:?}: {}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn apply(&self, socket: &str, objects: Vec<String>) {
        self.client(socket).await.apply_objects(objects, "test").await.unwrap();
    }

    /// A limit on the size of files stands in for a full disk.
    fn fill_disk(&self, folder: &Folder, random: &mut Random) -> &'static str {
        let size = fs::metadata(folder.path("state/journal.jsonl")).unwrap().len();
        self.limit_files(&(size + random.below(2000)).to_string());
        "disk filled"
    }

    fn free_disk(&self) -> &'static str {
        self.limit_files("unlimited");
        "disk freed"
    }

    fn limit_files(&self, limit: &str) {
        let set = Command::new("prlimit").args(["--pid", &self.pid, &format!("--fsize={limit}:")]).status();
        assert!(set.unwrap().success(), "the controller has ended: {}", self.log());
    }

    fn stall_log(&self) -> &'static str {
        self.is_stalled.store(true, Ordering::SeqCst);
        "log stalled"
    }

    fn read_log(&self) -> &'static str {
        self.is_stalled.store(false, Ordering::SeqCst);
        "log read"
    }

    fn calm(&self) {
        self.free_disk();
        self.read_log();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap()
    }

    /// The last lines of the log.
    fn log_end(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(200)..].join("\n")
    }

    fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The most memory that it has used, as the system says it.
    fn memory(&self) -> String {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default().to_owned()
    }

    fn stop(&self) {
        let told = Command::new("kill").args(["-TERM", &self.pid]).status().unwrap();
        assert!(told.success());
        let deadline = Instant::now() + END;
        loop {
            if let Some(status) = self.child().try_wait().unwrap() {
                assert!(status.success(), "{status}: {}", self.log());
                return;
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}
