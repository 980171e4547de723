//! What a watcher adds up is what a list shows at the same revision: always, whatever happens to the watcher and to the controller.
//!
//! Watchers over HTTP disconnect and go on from their last bookmark, read nothing for a while, lose the controller by `kill -9`, and come so
//! late that the controller has dropped what they ask for. `WEFT_TEST_ROUNDS` says how often all that happens, `WEFT_TEST_SEED` what
//! happens; `cargo xtask soak` has some dozens of rounds.

mod watcher;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use test_random::Random;
use tokio::sync::watch;

use self::watcher::{Counts, Selection, Watcher};
use crate::support::Folder;
use crate::support::controller::{Controller, DEADLINE, number, seed};
use crate::support::web::{Lost, Web};

const WRITERS: usize = 2;
const WATCHERS: u64 = 4;
/// The switches that there may be, in pairs: the two of a pair change together. All of them are more than one message of a watch has.
const PAIRS: u64 = 140;
/// Groups that change together, until the controller drops its oldest changes: it keeps two for each object.
const GROUPS: usize = 10_000;

/// What writers and watchers of a round share.
struct Round {
    socket: PathBuf,
    writes: AtomicUsize,
    is_over: watch::Receiver<bool>,
}

impl Round {
    fn is_over(&self) -> bool {
        *self.is_over.borrow()
    }

    /// Waits for so many more writes.
    async fn writes(&self, more: usize) {
        let (wanted, deadline) = (self.writes.load(SeqCst) + more, Instant::now() + DEADLINE);
        while self.writes.load(SeqCst) < wanted {
            assert!(Instant::now() < deadline, "no more writes are answered");
            tokio::task::yield_now().await;
        }
    }

    /// A connection, once there is a controller.
    async fn connect(&self) -> Web {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match Web::connect(&self.socket).await {
                Ok(web) => return web,
                Err(Lost) => assert!(Instant::now() < deadline, "no controller listens"),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// The status of the answer to whoever would watch from this revision.
    async fn watch(&self, selection: Selection, revision: u64) -> u16 {
        let path = format!("{}watch=true&from={revision}", selection.path());
        let mut web = self.connect().await;
        web.open("GET", &path, &[], String::new()).await.unwrap().status().as_u16()
    }
}

/// Creates, changes and deletes pairs of switches until the round is over: mostly one at a time, sometimes all.
async fn write(round: Arc<Round>, mut random: Random) {
    let mut web = round.connect().await;
    let mut turn = 0;
    while !round.is_over() {
        turn += 1;
        let (one, is_of_all) = (random.below(PAIRS), random.chance(1));
        let pairs = if is_of_all { 0..PAIRS } else { one..one + 1 };
        let is_deleted = !is_of_all && random.chance(25);
        let value = format!("{turn}-{}", random.below(1000));
        let objects = pairs.flat_map(|pair| {
            let labels = if random.chance(50) {
                json!({"value": value, "app": "web"})
            } else {
                json!({"value": value})
            };
            ["left", "right"].map(|side| {
                let id = format!("{pair}-{side}");
                if is_deleted {
                    json!({"kind": "switch", "id": id, "delete": true})
                } else {
                    json!({"kind": "switch", "id": id, "labels": labels})
                }
            })
        });
        match web.ask("POST", "/v1/apply", &[], objects.collect::<Json>().to_string()).await {
            // What is not there cannot be deleted.
            Ok(answer) if answer.status == 200 || answer.text.contains("does not exist") => {
                round.writes.fetch_add(1, SeqCst);
            }
            Ok(answer) => panic!("{}", answer.text),
            Err(Lost) => web = round.connect().await,
        }
    }
}

/// Changes all groups until the controller has dropped a change that a watcher who reads nothing cannot have got: sockets and buffers hold
/// a few hundred kilobytes, which is less than the first two times.
async fn cut(round: &Round) {
    let mut web = round.connect().await;
    let mut held = None;
    for time in 0..40 {
        let group = |number| json!({"kind": "port_group", "id": format!("g{number}"), "labels": {"time": time.to_string()}});
        let groups: Json = (0..GROUPS).map(group).collect();
        web.ask("POST", "/v1/apply", &[], groups.to_string()).await.unwrap().expect(200);
        match held {
            None if time == 1 => {
                let list = web.get("/v1/port_groups?limit=1").await.unwrap().expect(200);
                held = list["revision"].as_u64();
            }
            None => {}
            Some(revision) if round.watch(Selection::Groups, revision).await == 410 => return,
            Some(_) => {}
        }
    }
    panic!("the history is never cut");
}

/// Everything that happens to watchers, once.
fn round(seed: u64) -> Counts {
    println!("seed {seed}");
    let mut random = Random::new(seed);
    let (folder, runtime) = (Folder::new(), tokio::runtime::Runtime::new().unwrap());
    let (over, is_over) = watch::channel(false);
    let round =
        Arc::new(Round { socket: Controller::socket(&folder), writes: AtomicUsize::default(), is_over });
    let mut controller = Controller::start(&folder);
    runtime.block_on(controller.web(&folder));
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| runtime.spawn(write(round.clone(), Random::new(random.below(u64::MAX)))))
        .collect();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|number| {
            let selection = if number % 2 == 0 { Selection::All } else { Selection::Labelled };
            let watcher = Watcher::new(round.clone(), selection, Random::new(random.below(u64::MAX)));
            runtime.spawn(watcher.run())
        })
        .collect();
    runtime.block_on(async {
        round.writes(200).await;
        // A moment anywhere in a transaction.
        tokio::time::sleep(Duration::from_micros(random.below(2000))).await;
    });
    controller.kill();
    controller = Controller::start(&folder);
    let mut counts = runtime.block_on(async {
        controller.web(&folder).await;
        round.writes(100).await;
        let mut slow = Watcher::new(round.clone(), Selection::Groups, Random::new(seed));
        slow.stalls_while(cut(&round)).await;
        round.writes(100).await;
        over.send(true).unwrap();
        for writer in writers {
            writer.await.unwrap();
        }
        slow.run().await
    });
    assert_eq!(
        (counts.broken, counts.too_old),
        (1, 1),
        "the slow watcher was cut off, and had to list again"
    );
    for watcher in watchers {
        counts += runtime.block_on(watcher).unwrap();
    }
    counts
}

#[test]
fn what_a_watcher_adds_up_is_what_a_list_shows_at_the_same_revision() {
    let (rounds, begun) = (number("WEFT_TEST_ROUNDS").unwrap_or(1), Instant::now());
    let first = seed();
    let mut counts = Counts::default();
    for number in 0..rounds {
        counts += round(first + number);
    }
    println!("{rounds} rounds in {:.1?}: {counts:?}", begun.elapsed());
    let Counts { events, compared, resumed, broken, too_old } = counts;
    let least = rounds as usize * WATCHERS as usize;
    assert!(
        events > 100 * least && compared > 10 * least && resumed > least && too_old >= least && broken > 0,
        "{counts:?}"
    );
}
