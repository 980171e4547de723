//! Requests for single objects take effect one after another, each at one moment between its begin and its answer: also if answers are
//! lost, requests are repeated with their keys, and the controller is killed and starts again.
//!
//! `WEFT_TEST_ROUNDS` says how many rounds there are, each with a kill, `WEFT_TEST_SEED` what the clients do; `cargo xtask soak` has some
//! hundreds.

mod checker;
mod clients;
mod object;
mod proxy;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use test_random::Random;

use self::checker::{Timed, check, shrink};
use self::clients::{CLIENTS, Client, History, Round};
use self::object::{Object, Operation, Outcome};
use crate::support::Folder;
use crate::support::controller::{Controller, number, seed};

/// Rounds in which a mistake that every round makes has to be noticed.
const ROUNDS_TO_NOTICE: u64 = 10;

/// A controller and its clients.
struct Run {
    folder: Folder,
    runtime: tokio::runtime::Runtime,
    random: Random,
    controller: Controller,
    /// Where the clients connect to.
    through: PathBuf,
}

impl Run {
    fn start(seed: u64, without: Option<&'static str>) -> Run {
        println!("seed {seed}");
        let (folder, runtime) = (Folder::new(), tokio::runtime::Runtime::new().unwrap());
        let mut controller = Controller::start(&folder);
        runtime.block_on(controller.web(&folder));
        let mut through = Controller::socket(&folder);
        if let Some(header) = without {
            let _entered = runtime.enter();
            let to = std::mem::replace(&mut through, folder.path("proxy.sock"));
            proxy::strip(&through, to, header);
        }
        Run { folder, runtime, random: Random::new(seed), controller, through }
    }

    /// Lets clients work, kills the controller under them, and lets them go on with the next one.
    fn round(&mut self, number: u64) -> Round {
        let round = Round::new(format!("r{number}"), Controller::socket(&self.folder), self.through.clone());
        let round = Arc::new(round);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(number, Random::new(self.random.below(u64::MAX)));
                let round = round.clone();
                self.runtime.spawn(async move { client.run(&round).await })
            })
            .collect();
        let (before, moment) = (30 + self.random.below(60) as usize, self.random.below(2000));
        self.runtime.block_on(async {
            round.answers(before).await;
            // A moment anywhere in a transaction.
            tokio::time::sleep(Duration::from_micros(moment)).await;
        });
        self.controller.kill();
        round.is_dead();
        self.controller = Controller::start(&self.folder);
        self.runtime.block_on(async {
            self.controller.web(&self.folder).await;
            round.answers(60).await;
            round.end();
            for client in clients {
                client.await.unwrap();
            }
            round.read_all().await;
        });
        Arc::into_inner(round).expect("all clients have ended")
    }
}

#[test]
fn requests_for_an_object_take_effect_one_after_another() {
    let rounds = number("WEFT_TEST_ROUNDS").unwrap_or(8);
    let mut run = Run::start(seed(), None);
    let (begun, mut counts) = (Instant::now(), [0; 4]);
    for number in 0..rounds {
        let round = run.round(number);
        for (path, history) in round.histories() {
            assert_possible(&path, &history);
        }
        for (sum, count) in counts.iter_mut().zip(round.count()) {
            *sum += count;
        }
    }
    let [all, unknown, repeated, stale] = counts;
    println!(
        "{rounds} rounds in {:.1?}: {all} operations, of which {unknown} had an unknown outcome, {repeated} were repeated, {stale} were stale",
        begun.elapsed()
    );
    assert!(counts.iter().all(|&count| count as u64 >= rounds), "too little happened: {counts:?}");
}

/// Why a history cannot have happened: the smallest part of it that cannot, an operation in each line. What no order has is marked.
fn violation(path: &str, history: &History) -> Option<String> {
    check::<Object>(history).err()?;
    let mut history = shrink::<Object>(history.clone());
    history.sort_by_key(|timed| timed.invoked);
    let stuck = check::<Object>(&history).expect_err("what is shrunk is a violation still");
    let mut text = format!("{path}: no order of these explains their outcomes\n");
    for (Timed { invoked, returned, operation }, is_done) in history.iter().zip(&stuck.done) {
        let returned = returned.map_or_else(|| "?".to_owned(), |at| at.to_string());
        let mark = if *is_done { ' ' } else { '!' };
        let _ = writeln!(text, "{mark} {invoked:>6} {returned:>6}  {operation}");
    }
    let _ =
        writeln!(text, "the longest order leads to {:?}; those with ! have no place after it", stuck.state);
    Some(text)
}

#[track_caller]
fn assert_possible(path: &str, history: &History) {
    if let Some(violation) = violation(path, history) {
        panic!("{violation}");
    }
}

/// Runs rounds in which the controller does not see a header, until an object has a history that cannot have happened.
fn first_violation(without: &'static str) -> History {
    let mut run = Run::start(seed(), Some(without));
    for number in 0..ROUNDS_TO_NOTICE {
        for (path, history) in run.round(number).histories() {
            if let Some(violation) = violation(&path, &history) {
                println!("without `{without}`, {violation}");
                return history;
            }
        }
    }
    panic!("nobody notices in {ROUNDS_TO_NOTICE} rounds that `{without}` is ignored");
}

#[test]
fn a_lost_update_is_noticed() {
    let mut history = first_violation("if-match");
    // It is the conditions that did not hold: with other requests, this can have happened.
    for timed in &mut history {
        timed.operation.request.forget_revision();
    }
    assert_possible("without conditions", &history);
}

#[test]
fn a_request_that_takes_effect_twice_is_noticed() {
    let mut history = first_violation("idempotency-key");
    // If requests had no keys, each could take effect as often as it was sent: before its answer, unless the client hung up.
    let again: History = history
        .iter()
        .flat_map(|timed| {
            let Operation { sent, hung_up, .. } = timed.operation;
            let operation = Operation { outcome: Outcome::Unknown, ..timed.operation.clone() };
            (1..sent).map(move |time| {
                let returned = timed.returned.filter(|_| time > hung_up);
                Timed { returned, operation: operation.clone(), ..*timed }
            })
        })
        .collect();
    history.extend(again);
    assert_possible("with all that was sent", &history);
}

#[test]
fn a_proxy_alone_is_no_violation() {
    let round = Run::start(seed(), Some("x-nobody-sends-this")).round(0);
    for (path, history) in round.histories() {
        assert_possible(&path, &history);
    }
}
