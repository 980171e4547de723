//! A controller that is killed under load: all that it acknowledged is there after a restart, and nothing half.
//!
//! `WEFT_TEST_KILLS` says how often it is killed, `WEFT_TEST_SEED` what the clients do; `cargo xtask soak` kills it a
//! thousand times.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use objects::ObjectKey;
use test_random::Random;
use weft_client::{Client, ClientError};

use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE, number, seed};

/// How many clients write at a time. Some of their requests share a write of the journal.
const CLIENTS: u64 = 6;

/// The clients' knowledge.
#[derive(Debug, Default)]
struct Known {
    /// Pairs of a switch and its port, by their number, whose creation was acknowledged and whose deletion was not asked.
    there: BTreeSet<u64>,
    /// Those whose creation or deletion was asked and not answered.
    open: BTreeSet<u64>,
    /// The last transaction that was acknowledged.
    last_txn: u64,
    acknowledged: u64,
}

#[test]
fn no_acknowledged_write_is_lost_and_none_is_half_there() {
    let (seed, kills) = (seed(), number("WEFT_TEST_KILLS").unwrap_or(20));
    println!("seed {seed}, {kills} kills");
    let mut random = Random::new(seed);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let known = Arc::new(Mutex::new(Known::default()));
    let folder = Folder::new();
    let socket = Controller::endpoint(&folder);
    let begun = Instant::now();
    for kill in 0..=kills {
        let mut controller = Controller::start(&folder);
        let client = runtime.block_on(controller.client(&folder));
        runtime.block_on(check(client, &mut known.lock().unwrap()));
        if kill == kills {
            break;
        }
        let answers = Arc::new(AtomicU64::new(0));
        let wanted = random.below(40);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let (known, answers) = (known.clone(), answers.clone());
                runtime.spawn(write(socket.clone(), random.below(u64::MAX), known, answers))
            })
            .collect();
        runtime.block_on(async {
            let deadline = Instant::now() + DEADLINE;
            while answers.load(Ordering::SeqCst) < wanted {
                assert!(Instant::now() < deadline, "kill {kill}: {}", Controller::log(&folder));
                tokio::task::yield_now().await;
            }
            // A moment anywhere in a transaction.
            tokio::time::sleep(Duration::from_micros(random.below(3000))).await;
        });
        controller.kill();
        for client in clients {
            runtime.block_on(client).unwrap();
        }
    }
    let known = known.lock().unwrap();
    let journal = fs::metadata(folder.path("state/journal.jsonl")).unwrap().len();
    println!(
        "{kills} kills in {:.0?}: {} writes acknowledged, transaction {}, {journal} bytes of journal, {} pairs in force",
        begun.elapsed(),
        known.acknowledged,
        known.last_txn,
        known.there.len()
    );
    assert!(known.acknowledged >= kills, "{known:?}");
}

fn pair(number: u64) -> [String; 2] {
    [
        format!(r#"{{"kind":"switch","id":"s{number}"}}"#),
        format!(r#"{{"kind":"switch_port","id":"p{number}","switch":"s{number}"}}"#),
    ]
}

/// Creates and deletes pairs until the controller is gone.
async fn write(socket: String, seed: u64, known: Arc<Mutex<Known>>, answers: Arc<AtomicU64>) {
    let mut random = Random::new(seed);
    let Ok(mut client) = Client::connect(&socket).await else { return };
    let mut own = Vec::new();
    loop {
        let delete = !own.is_empty() && random.chance(30);
        let number = if delete {
            own.swap_remove(random.below(own.len() as u64) as usize)
        } else {
            random.below(1 << 40)
        };
        {
            let mut known = known.lock().unwrap();
            known.there.remove(&number);
            known.open.insert(number);
        }
        let answer = if delete {
            let key = |kind: &str, letter: char| ObjectKey::new(kind, format!("{letter}{number}"));
            client.delete(&[key("switch_port", 'p'), key("switch", 's')], "test").await
        } else {
            client.apply_objects(pair(number).to_vec(), "test").await
        };
        let accepted = match answer {
            Ok(accepted) => accepted,
            Err(ClientError::Refused(refusal)) => panic!("{refusal:?}"),
            Err(_) => return,
        };
        let mut known = known.lock().unwrap();
        known.open.remove(&number);
        if !delete {
            known.there.insert(number);
            own.push(number);
        }
        known.last_txn = known.last_txn.max(accepted.txn.expect("it changes something"));
        known.acknowledged += 1;
        answers.fetch_add(1, Ordering::SeqCst);
    }
}

/// Compares the controller's network with the clients' knowledge, and settles what was open.
async fn check(mut client: Client, known: &mut Known) {
    let mut ids = async |kind: &str, letter: char| -> BTreeSet<u64> {
        let objects = client.get(kind, None).await.unwrap();
        let id = |text: String| {
            let object: serde_json::Value = serde_json::from_str(&text).unwrap();
            object["id"].as_str().unwrap().trim_start_matches(letter).parse().unwrap()
        };
        objects.into_iter().map(id).collect()
    };
    let switches = ids("switch", 's').await;
    let ports = ids("switch_port", 'p').await;
    assert_eq!(switches, ports, "half a transaction");
    let lost: Vec<_> = known.there.difference(&switches).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let strange: Vec<_> = switches
        .iter()
        .filter(|number| !known.there.contains(number) && !known.open.contains(number))
        .collect();
    assert!(strange.is_empty(), "there, though deleted or never asked for: {strange:?}");
    let last_txn = client.status().await.unwrap().last_txn;
    assert!(last_txn >= known.last_txn, "{last_txn} after {}", known.last_txn);
    known.there = switches;
    known.open.clear();
}
