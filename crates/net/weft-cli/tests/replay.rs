//! What a controller recorded, computed again: the same as it computed, also after folds and from snapshots.

use std::fs;
use std::time::Instant;

use serde_json::{Value as Json, json};
use test_random::Random;
use weft_client::Client;
use weft_client::pb::Flow;

use crate::receipts::{host, until};
use crate::routes;
use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE, seed};
use crate::support::watched::Watched;

/// Small networks fold often.
const SMALL_SEGMENTS: &str = "journal_segment = 1\n";

fn node(id: &str, ip: u8) -> String {
    let socket = |name: &str| format!("unix:/nowhere/{id}.{name}");
    json!({"kind": "transport_node", "id": id, "ip": format!("192.0.2.{ip}"), "ovsdb": socket("db"), "openflow": socket("of")}).to_string()
}

fn switch(id: &str) -> String {
    json!({"kind": "switch", "id": id}).to_string()
}

fn acl(id: &str, port: u16) -> String {
    json!({"kind": "acl", "id": id, "switch": "blue", "direction": "to_port", "priority": 10,
        "match": {"ip_proto": "tcp", "tp_dst": port}, "action": "drop"})
    .to_string()
}

/// Objects whose record takes some 60 KB.
fn large(round: u64) -> String {
    let address = |number: u64| format!("10.{}.{}.{}/32", round % 250, number >> 8, number & 255);
    let addresses: Vec<String> = (0..1500).map(address).collect();
    json!({"kind": "address_group", "id": "many", "addresses": addresses}).to_string()
}

/// The flows of a host, as `weft replay --host` prints them.
async fn flows(client: &mut Client, host: &str) -> Vec<String> {
    let line = |Flow { table_id, priority, r#match, actions, cookie, .. }: Flow| {
        let comma = if r#match.is_empty() { "" } else { "," };
        format!(" cookie={cookie:#x}, table={table_id}, priority={priority}{comma}{match} actions={actions}")
    };
    client.flows(host).await.unwrap().flows.into_iter().map(line).collect()
}

#[test]
fn a_replay_has_the_flows_and_the_changes_of_every_transaction() {
    let folder = Folder::new();
    let mut controller = Controller::start(&folder);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let expected = runtime.block_on(async {
        let mut client = controller.client(&folder).await;
        let mut expected = Vec::new();
        for objects in
            [vec![node("hv1", 1), node("hv2", 2)], vec![switch("blue")], vec![acl("a", 22), acl("b", 80)]]
        {
            client.apply_objects(objects, "test").await.unwrap();
            expected.push(flows(&mut client, "hv1").await);
        }
        fs::write(folder.path("net.weft"), client.snapshot().await.unwrap()).unwrap();
        expected
    });
    controller.kill();
    for (flows, txn) in expected.iter().zip(1..) {
        let at = txn.to_string();
        let found = folder.weft(&["replay", "state", "--host", "hv1", "--at", &at]);
        assert_eq!(found.has_status(0).lines(), *flows, "transaction {txn}");
    }
    let last = expected.last().unwrap();
    for (recorded, workers) in [("net.weft", "2"), ("net.weft", "4"), ("state", "4")] {
        let found = folder.weft(&["replay", recorded, "--host", "hv1", "--workers", workers]);
        assert_eq!(found.lines(), *last, "{recorded}, {workers} workers");
    }
    assert_eq!(
        folder.weft(&["replay", "net.weft", "--host", "hv1", "--rules", "builtin"]).has_status(0).stdout,
        ""
    );

    // The rows are those of a run of all transactions, whatever they begin with.
    let journal = "state/journal.jsonl";
    let whole = folder.weft(&["eval", "builtin", "-i", journal]);
    let changes = folder.weft(&["replay", "state", "--from", "1", "--at", "2"]);
    assert_eq!(changes.has_status(0).lines(), [whole.lines()[1]]);
    let contents = folder.weft(&["eval", "builtin", "-i", journal, "--final"]);
    for recorded in ["state", "net.weft"] {
        assert_eq!(folder.weft(&["replay", recorded]).has_status(0).stdout, contents.stdout, "{recorded}");
    }
    assert_eq!(folder.weft(&["eval", "builtin", "-i", "net.weft", "--final"]).stdout, contents.stdout);

    // What is asked is checked before anything is built.
    let refused = folder.weft(&["replay", "net.weft", "--lab", "--hosts", "hv1,hv3"]);
    let said = "error: the recording has no host hv3; did you mean hv1? (it has hv1, hv2)\n";
    assert_eq!(refused.has_status(1).stderr, said);
    let refused = folder.weft(&["replay", "net.weft", "--lab"]);
    assert!(refused.has_status(2).stderr.contains("--hosts <HOSTS>"), "{}", refused.stderr);

    let found = folder.weft(&["replay", "state", "--bisect", r#"acl(id: "a", ..)"#]);
    assert!(found.has_status(0).stdout.contains("appeared with transaction 3, of "), "{}", found.stdout);
    let found = folder.weft(&["replay", "net.weft", "--bisect", r#"acl(id: "a", ..)"#]);
    assert!(found.has_status(0).stdout.contains("It was there after transaction 3 of "), "{}", found.stdout);
}

#[test]
fn the_transaction_since_which_a_packet_is_dropped_or_arrives_is_found() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _entered = runtime.enter();
    let controller = routes::Controller::start();
    let ((database, _switch), objects) = host(&controller, 1);
    let apply = |objects: &str| {
        controller.folder.write("objects.yaml", objects);
        let file = controller.folder.path("objects.yaml");
        let applied = controller.weft(&["apply", "-f", file.to_str().unwrap(), "--json", "--wait"]);
        let applied: Json = serde_json::from_str(&applied.has_status(0).stdout).unwrap();
        applied["txn"].as_u64().expect("a transaction")
    };
    let port = |id: &str, number: u8| {
        let address = format!("{{mac: '02:00:00:00:01:0{number}', ips: [10.0.0.{number}]}}");
        format!("---\n{{kind: switch_port, id: {id}, switch: blue, addresses: [{address}]}}\n")
    };
    apply(&format!("{{kind: switch, id: blue}}\n---\n{objects}{}{}", port("web", 1), port("db", 2)));
    for id in ["web", "db"] {
        assert!(database.plug("br-int", id, &[("iface-id", id)]).unwrap());
    }
    let words = ["web", "--to", "db", "--tcp", "5432"];
    until("the packet arrives", || controller.weft(&[&["trace"][..], &words].concat()).status == Some(0));
    let bisect = || {
        let asked = format!("packet {}", words.join(" "));
        controller.folder.weft(&["replay", "state", "--bisect", &asked]).has_status(0).stdout.clone()
    };
    let others = |round: u8| {
        for number in 0..5 {
            apply(&format!("{{kind: switch, id: s{number}, labels: {{round: r{round}}}}}"));
        }
    };
    let attached = bisect();
    assert!(attached.contains(": delivered to db on hv1\nafter transaction "), "{attached}");
    others(1);
    let closed = apply(&acl("close", 5432));
    others(2);
    let found = bisect();
    let changed = format!("\nTransaction {closed}, of ");
    assert!(found.contains(": dropped on hv1 ") && found.contains(&changed), "{found}");
    assert!(
        found.contains(&format!("\nafter transaction {}: delivered to db on hv1\n", closed - 1)),
        "{found}"
    );
    assert!(found.contains(" by weft apply, changed that.\n"), "{found}");
    for (packet, why) in [
        ("packet web --to nobody", "nobody"),
        ("packet web --pcap x", "--pcap has many packets; write the packet as after `weft trace`"),
        (
            "packet web --speed 5",
            "unexpected argument '--speed' found; write the packet as after `weft trace`",
        ),
    ] {
        let refused = controller.folder.weft(&["replay", "state", "--bisect", packet]);
        assert!(refused.has_status(2).stderr.contains(why), "{}", refused.stderr);
    }
}

#[test]
fn what_happened_before_the_last_fold_is_found_in_the_segments() {
    let folder = Folder::new();
    let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
    let planted = switch("planted");
    let last = tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = controller.client(&folder).await;
        for objects in [node("hv1", 1), planted, switch("blue")] {
            client.apply_objects(vec![objects], "test").await.unwrap();
        }
        let (begun, mut round) = (Instant::now(), 0);
        while segments(&folder) < 2 {
            assert!(begun.elapsed() < DEADLINE, "the journal is not folded twice");
            client.apply_objects(vec![large(round)], "test").await.unwrap();
            round += 1;
        }
        round + 3
    });
    controller.kill();
    let bisect =
        |asked: &str| folder.weft(&["replay", "state", "--bisect", asked]).has_status(0).stdout.clone();
    let found = bisect(r#"switch(id: "planted", ..)"#);
    assert!(found.contains(&format!("1 row after transaction {last}\n")), "{found}");
    assert!(found.contains("It appeared with transaction 2, of "), "{found}");
    assert!(found.contains("state/journal-00000000000000000001.jsonl --from 1 --at 2`"), "{found}");
    let found = bisect(r#"switch(id: "nobody", ..)"#);
    assert!(found.contains("It was not there after transaction 1 of "), "{found}");
    let changes = folder.weft(&["replay", "state", "--from", "1"]);
    let numbers: Vec<u64> = changes
        .has_status(0)
        .lines()
        .into_iter()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["txn"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, (2..=last).collect::<Vec<u64>>(), "each transaction once, across the files");
}

/// A package with one more flow for each host.
const MORE_RULES: &str = r#"import "builtin/interface/driver.nlog";
import "builtin/interface/layout.nlog";
import "builtin/interface/reports.nlog";

## Nothing comes from this interface.
priority CLOSED of CLASSIFY = 4000;

of_flow(hv, CLASSIFY, CLOSED, match{in_port: 4000}, actions[]) :- managed(hv);
"#;

#[test]
fn other_rules_and_other_states_are_compared_by_what_switches_should_have() {
    let folder = Folder::new();
    folder.write("more/more.nlog", MORE_RULES);
    let mut controller = Controller::start(&folder);
    let address = Controller::endpoint(&folder);
    let snapshot = |name: &str| {
        folder.weft(&["snapshot", "take", name, "--controller", &address]).has_status(0);
    };
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = controller.client(&folder).await;
        client.apply_objects(vec![node("hv1", 1), node("hv2", 2)], "test").await.unwrap();
        snapshot("before.weft");
        client.apply_objects(vec![switch("blue"), node("hv3", 3)], "test").await.unwrap();
        snapshot("after.weft");
    });
    let same = folder.weft(&["rules", "diff", "builtin", "--max-changes", "0", "--controller", &address]);
    assert_eq!(same.has_status(0).stdout, "no switch changes\n");
    let more = ["rules", "diff", "builtin", "more"];
    let running = folder.weft(&[&more[..], &["--controller", &address]].concat());
    let recorded = folder.weft(&[&more[..], &["--snapshot", "after.weft"]].concat());
    assert_eq!(running.has_status(0).stdout, recorded.has_status(0).stdout);
    assert!(running.stdout.starts_with("3 switches change; flows: 3 new\nhv1\n"), "{}", running.stdout);
    assert!(
        running.stdout.contains("more.nlog:") && running.stdout.contains("in_port=4000"),
        "{}",
        running.stdout
    );
    let gate = [&more[..], &["--snapshot", "before.weft", "--max-changes", "1"]].concat();
    assert!(
        folder
            .weft(&gate)
            .has_status(1)
            .stderr
            .contains("2 things change in switches, more than --max-changes 1")
    );
    folder.write("more/more.nlog", "nonsense");
    assert!(folder.weft(&gate).has_status(1).stderr.contains("more.nlog:1"));

    let compared = folder.weft(&["diff", "--from", "before.weft", "--to", "after.weft", "--json"]);
    let compared: Json = serde_json::from_str(&compared.has_status(0).stdout).unwrap();
    let expected = json!([
        {"kind": "switch", "id": "blue", "outcome": "created"},
        {"kind": "transport_node", "id": "hv3", "outcome": "created"}
    ]);
    assert_eq!(compared["objects"], expected);
    assert!(compared["delta"]["switches"].as_u64() >= Some(1), "{compared}");
    let problem = |node: &str| json!([{"kind": "transport_node", "id": node}]);
    let kinds_and_ids = compared["new_problems"].as_array().unwrap().iter();
    let found: Vec<Json> = kinds_and_ids.map(|one| json!({"kind": one["kind"], "id": one["id"]})).collect();
    assert_eq!(Json::from(found), problem("hv3"));
    drop(controller);
    // A state folder is as good as a snapshot.
    let back = folder.weft(&["diff", "--from", "state", "--to", "before.weft"]);
    assert!(
        back.has_status(0).stdout.starts_with("switch blue: deleted\ntransport_node hv3: deleted\n"),
        "{}",
        back.stdout
    );
}

/// A test of that package.
const MORE_TESTS: &str = r#"import "more.nlog";
test "nothing comes from there" {
    given { managed("hv1"); }
    expect of_flow("hv1", CLASSIFY, CLOSED, match{in_port: 4000}, actions[]);
}
"#;

#[test]
fn each_save_of_rules_says_what_it_changes_in_a_recorded_network() {
    let folder = Folder::new();
    folder.write("more/more.nlog", MORE_RULES).write("more/more.test.nlog", MORE_TESTS);
    let mut controller = Controller::start(&folder);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = controller.client(&folder).await;
        client.apply_objects(vec![node("hv1", 1), node("hv2", 2)], "test").await.unwrap();
        fs::write(folder.path("net.weft"), client.snapshot().await.unwrap()).unwrap();
    });
    controller.kill();
    let watch = Watched::start(&folder, &["rules", "watch", "builtin", "more", "--snapshot", "net.weft"]);
    let ready = watch.until("net.weft after transaction 1");
    assert!(ready.contains("; tests: 1; ready after "), "{ready}");

    folder.write("more/more.nlog", MORE_RULES.replace("match{in_port: 4000}", "match{in_port: 4001}"));
    let said = watch.until("after ");
    assert!(
        said.starts_with("--- saved: more/more.nlog\n2 switches change; flows: 2 new, 2 deleted\nhv1\n"),
        "{said}"
    );
    assert!(said.contains("test \"nothing comes from there\" (more/more.test.nlog) fails now: "), "{said}");

    folder.write("more/more.nlog", "nonsense");
    let said = watch.until("after ");
    assert!(said.contains("more/more.nlog:1") && said.contains("the rules before stay"), "{said}");

    // One more kind of objects: the rules need another engine.
    folder.write("more/more.nlog", format!("{MORE_RULES}object extra {{ note: opt<string>; }}\n"));
    let said = watch.until("after ");
    assert!(said.contains("2 switches change; flows: 2 new, 2 deleted\n"), "{said}");
    assert!(said.contains("(more/more.test.nlog) passes now\n"), "{said}");

    // A new file, which changes nothing.
    folder.write("more/another.nlog", "# A comment.\n");
    assert!(watch.until("after ").contains("no switch changes\n"));
}

#[test]
fn rules_that_were_loaded_outlive_kills_folds_and_snapshots() {
    let folder = Folder::new();
    folder.write("more/more.nlog", MORE_RULES);
    let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
    let address = Controller::endpoint(&folder);
    let rules = |words: &[&str]| folder.weft(&[&["rules"], words, &["--controller", &address]].concat());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (before, after) = runtime.block_on(async {
        let mut client = controller.client(&folder).await;
        client.apply_objects(vec![node("hv1", 1)], "test").await.unwrap();
        let before = flows(&mut client, "hv1").await;
        let loaded = rules(&["load", "builtin", "more"]);
        assert!(
            loaded.has_status(0).stdout.starts_with("1 switch changes; flows: 1 new\nhv1\n"),
            "{}",
            loaded.stdout
        );
        assert!(loaded.stderr.contains("transaction 2: the rules run, after "), "{}", loaded.stderr);
        (before, flows(&mut client, "hv1").await)
    });
    assert_eq!(after.len(), before.len() + 1);
    controller.kill();
    let replayed = |recorded: &str, at: &str| {
        let found = folder.weft(&["replay", recorded, "--host", "hv1", "--at", at]);
        found.has_status(0).lines().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((replayed("state", "1"), replayed("state", "2")), (before.clone(), after.clone()));
    let across = folder.weft(&["replay", "state", "--from", "1", "--at", "2"]);
    assert!(
        across.has_status(0).stderr.contains("other rules ran from transaction 2 on"),
        "{}",
        across.stderr
    );

    // The fold has the versions too.
    let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
    let last = runtime.block_on(async {
        let mut client = controller.client(&folder).await;
        let begun = Instant::now();
        let mut round = 0;
        while segments(&folder) == 0 {
            assert!(begun.elapsed() < DEADLINE, "the journal is not folded");
            client.apply_objects(vec![large(round)], "test").await.unwrap();
            round += 1;
        }
        assert_eq!(flows(&mut client, "hv1").await, after);
        fs::write(folder.path("net.weft"), client.snapshot().await.unwrap()).unwrap();
        round + 2
    });
    controller.kill();
    assert_eq!(replayed("net.weft", &last.to_string()), after);
    folder.weft(&["snapshot", "restore", "net.weft", "new/state"]).has_status(0);
    for state in ["state", "new/state"] {
        if state != "state" {
            fs::rename(folder.path("state"), folder.path("former")).unwrap();
            fs::rename(folder.path(state), folder.path("state")).unwrap();
        }
        let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
        let history = rules(&["history"]);
        let lines: Vec<&str> = history.has_status(0).lines();
        assert!(lines[0].contains("transaction 2, ") && lines[0].ends_with(": builtin, more"), "{lines:?}");
        assert!(lines[1].ends_with("before the first load: builtin (configured)"), "{lines:?}");
        let back = rules(&["rollback"]);
        assert!(
            back.has_status(0).stdout.starts_with("1 switch changes; flows: 1 deleted\n"),
            "{}",
            back.stdout
        );
        runtime.block_on(async {
            let mut client = controller.client(&folder).await;
            assert_eq!(flows(&mut client, "hv1").await, before);
        });
        controller.kill();
    }
}

#[test]
fn what_is_not_recorded_is_said() {
    let folder = Folder::new();
    let mut controller = Controller::start(&folder);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = controller.client(&folder).await;
        let empty =
            folder.weft(&["snapshot", "take", "none.weft", "--controller", &Controller::endpoint(&folder)]);
        assert!(empty.has_status(1).stderr.contains("nothing has been recorded yet"), "{}", empty.stderr);
        assert!(!folder.path("none.weft").exists());
        client.apply_objects(vec![switch("blue")], "test").await.unwrap();
        client.apply_objects(vec![switch("red")], "test").await.unwrap();
        fs::write(folder.path("net.weft"), client.snapshot().await.unwrap()).unwrap();
    });
    controller.kill();
    folder.write("other.jsonl", "{\"insert\":{}}\n");
    let mut damaged = fs::read(folder.path("net.weft")).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    folder.write("damaged.weft", damaged);
    for (arguments, status, why) in [
        (vec!["net.weft", "--at", "1"], 1, "begins with the state after transaction 2"),
        (vec!["state", "--at", "3"], 1, "ends with transaction 2"),
        (vec!["state", "--at", "soon"], 2, "a time in UTC such as"),
        (vec!["other.jsonl"], 1, "begins with no record of a controller"),
        (vec!["damaged.weft"], 3, "cannot read damaged.weft"),
        (vec!["nowhere"], 3, "cannot read nowhere"),
        (vec!["state", "--host", "hv9"], 1, "transport node hv9 does not exist after transaction 2"),
        (vec!["state", "--bisect", "nothing(..)"], 1, "nothing"),
        (vec!["state", "--tables", "nothing"], 2, "no table `nothing`"),
    ] {
        let found = folder.weft(&[vec!["replay"], arguments.clone()].concat());
        assert!(found.has_status(status).stderr.contains(why), "{arguments:?}: {}", found.stderr);
    }
    folder.weft(&["snapshot", "restore", "net.weft", "new/state"]).has_status(0);
    let used = folder.weft(&["snapshot", "restore", "net.weft", "state"]);
    assert!(used.has_status(1).stderr.contains("has been used by a controller"), "{}", used.stderr);
    let shown = folder.weft(&["snapshot", "show", "new/state", "--json"]);
    let shown: Json = serde_json::from_str(&shown.has_status(0).stdout).unwrap();
    assert_eq!((&shown["txn"], &shown["objects"]), (&json!(2), &json!({"switch": 2})));
    // A controller goes on with it.
    fs::rename(folder.path("new/state"), folder.path("old")).unwrap();
    fs::rename(folder.path("state"), folder.path("former")).unwrap();
    fs::rename(folder.path("old"), folder.path("state")).unwrap();
    let mut controller = Controller::start(&folder);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut client = controller.client(&folder).await;
        let accepted = client.apply_objects(vec![switch("green")], "test").await.unwrap();
        assert_eq!(accepted.txn, Some(3));
        assert_eq!(client.get("switch", None).await.unwrap().len(), 3);
    });
}

/// The segments of the journal.
fn segments(folder: &Folder) -> usize {
    let Ok(names) = fs::read_dir(folder.path("state")) else { return 0 };
    let names = names.map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().unwrap().starts_with("journal-")).count()
}

#[test]
fn a_controller_that_folds_its_journal_and_is_killed_loses_nothing() {
    let seed = seed();
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let folder = Folder::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (mut last, mut round) = (0, 0);
    for kill in 1..=3 {
        let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
        let wanted = segments(&folder) + 1;
        runtime.block_on(async {
            let mut client = controller.client(&folder).await;
            let there = client.get("address_group", None).await.unwrap();
            assert_eq!(client.status().await.unwrap().last_txn, last, "{}", Controller::log(&folder));
            assert_eq!(there.len(), usize::from(kill > 1));
            let deadline = Instant::now() + DEADLINE;
            // Until a fold is there, and some more.
            let mut more = 1 + random.below(5);
            while more > 0 {
                assert!(Instant::now() < deadline, "{}", Controller::log(&folder));
                round += 1;
                last = client.apply_objects(vec![large(round)], "test").await.unwrap().txn.unwrap();
                more -= u64::from(segments(&folder) >= wanted);
            }
            let there: Json =
                serde_json::from_str(&client.get("address_group", None).await.unwrap()[0]).unwrap();
            let wanted: Json = serde_json::from_str(&large(round)).unwrap();
            assert_eq!(there["addresses"], wanted["addresses"]);
        });
        controller.kill();
    }
    // Segments and the journal have every transaction once.
    let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
    let address = Controller::endpoint(&folder);
    runtime.block_on(controller.client(&folder));
    let history = folder.weft(&["history", "--limit", "1000", "--json", "--controller", &address]);
    let told = history
        .has_status(0)
        .lines()
        .into_iter()
        .map(|line| serde_json::from_str::<Json>(line).unwrap()["txn"].clone());
    assert_eq!(told.collect::<Vec<_>>(), (1..=last).rev().map(Json::from).collect::<Vec<_>>());
    // What the first one wrote is in the oldest segment.
    folder.weft(&["rollback", "--to", "1", "--controller", &address]).has_status(0);
    let there = folder.weft(&["get", "address_group", "many", "-o", "json", "--controller", &address]);
    let there: Json = serde_json::from_str(&there.has_status(0).stdout).unwrap();
    assert_eq!(there["addresses"], serde_json::from_str::<Json>(&large(1)).unwrap()["addresses"]);
    drop(controller);
    let first = folder.weft(&["replay", "state", "--at", "1", "--tables", "address_group"]);
    assert!(first.has_status(0).stdout.contains("10.1.0.1/32\""), "{}", &first.stdout[..200]);
    // Without segments, what was before the fold is not known any more.
    for entry in fs::read_dir(folder.path("state")).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("journal-") {
            fs::remove_file(path).unwrap();
        }
    }
    let mut controller = Controller::start_with(&folder, SMALL_SEGMENTS);
    runtime.block_on(controller.client(&folder));
    let refused = folder.weft(&["rollback", "--to", "1", "--controller", &address]);
    assert!(refused.stderr.contains("is not kept any more"), "{}", refused.stderr);
    assert!(!folder.weft(&["history", "--json", "--controller", &address]).stdout.contains("\"base\""));
}

#[test]
fn records_from_before_rules_that_changed_fields_are_read_with_the_rules_of_their_time() {
    let folder = Folder::new();
    let garden = |fields: &str| {
        format!(
            "## A garden.\nobject garden {{ {fields} }}\n\n## Its notes.\noutput table note(id: string, note: string);\n"
        )
    };
    folder
        .write("one.nlog", garden("note: string;") + "\nnote(id, note) :- garden(id: id, note: note, ..);\n");
    let two = garden("size: int = 7; note: string;");
    folder.write("two.nlog", two + "\nnote(id, note ++ \"!\") :- garden(id: id, note: note, ..);\n");
    folder
        .write("a.yaml", "{kind: garden, id: a, note: red}")
        .write("b.yaml", "{kind: garden, id: b, note: blue, size: 9}");
    let mut controller = Controller::start(&folder);
    tokio::runtime::Runtime::new().unwrap().block_on(controller.client(&folder));
    let address = Controller::endpoint(&folder);
    for args in [
        ["rules", "load", "builtin", "one.nlog"].as_slice(),
        &["apply", "-f", "a.yaml"],
        &["rules", "load", "builtin", "two.nlog"],
        &["apply", "-f", "b.yaml"],
    ] {
        folder.weft(&[args, &["--controller", &address]].concat()).has_status(0);
    }
    drop(controller);

    let replay = |args: &[&str]| folder.weft(&[&["replay", "state"], args].concat());
    let rows = |args: &[&str]| -> Json {
        let answer = replay(&[args, &["--tables", "garden,note"]].concat());
        serde_json::from_str(&answer.has_status(0).stdout).unwrap()
    };
    assert_eq!(rows(&["--at", "2"]), json!({"garden": [["a", "red"]], "note": [["a", "red"]]}));
    assert_eq!(rows(&["--at", "3"]), json!({"garden": [["a", 7, "red"]], "note": [["a", "red!"]]}));
    let both =
        json!({"garden": [["a", 7, "red"], ["b", 9, "blue"]], "note": [["a", "red!"], ["b", "blue!"]]});
    assert_eq!(rows(&[]), both);
    let before = rows(&["--at", "2", "--rules", "builtin", "two.nlog"]);
    assert_eq!(before["insert"], json!({"garden": [["a", 7, "red"]], "note": [["a", "red!"]]}));

    // Of one side at a time there are changes too.
    assert_eq!(rows(&["--from", "1", "--at", "2"])["insert"]["note"], json!([["a", "red"]]));
    assert_eq!(rows(&["--from", "3"])["insert"]["note"], json!([["b", "blue!"]]));
    for across in [["--from", "1"], ["--bisect", "note(\"b\", _)"]] {
        let refused = replay(&across);
        assert!(refused.has_status(1).stdout.is_empty(), "{}", refused.stdout);
        let why = "transaction 3 loaded rules in which garden has other fields";
        assert!(refused.stderr.contains(why) && refused.stderr.contains("--at 2"), "{}", refused.stderr);
    }
}
