//! Workers inside a dataflow of timely.

use std::sync::{Arc, Mutex, PoisonError};

use timely::dataflow::operators::{Input, Inspect, Probe};

use super::super::{Desk, Lost, Port, operator};
use super::{Bytes, Toy};

/// What a worker emits: its number and the sum so far, or why there is none.
type Sum = Result<(usize, u64), String>;

/// A sum that workers other than worker 0 do not survive, and one that worker 0 does not.
const TOO_MUCH: u64 = 1000;
const TOO_MUCH_FOR_0: u64 = 100_000;

/// Sums the numbers of each request at worker 0. Each worker emits the sum.
async fn sums(port: Port<Toy>, desk: Desk<u64, u64, Sum>) {
    // A worker that loses another one ends, which the operator reports.
    let _ = if port.me() == 0 { lead(&port, &desk).await } else { follow(&port, &desk).await };
}

async fn lead(port: &Port<Toy>, desk: &Desk<u64, u64, Sum>) -> Result<(), Lost> {
    let mut sum = 0;
    while let Some((_, numbers)) = desk.next(port).await {
        sum += numbers.iter().sum::<u64>();
        assert!(sum < TOO_MUCH_FOR_0, "boom");
        port.broadcast(Toy::Number(sum))?;
        for from in 1..port.peers() {
            port.receive(from).await?;
        }
        desk.emit(Ok((0, sum)));
    }
    Ok(())
}

async fn follow(port: &Port<Toy>, desk: &Desk<u64, u64, Sum>) -> Result<(), Lost> {
    while let Some(Toy::Number(sum)) = port.rest().await? {
        assert!(sum < TOO_MUCH, "boom");
        // Worker 0 may begin the next request before this worker emits, but not before it takes the next message.
        port.send(0, Toy::Number(sum))?;
        desk.emit(Ok((port.me(), sum)));
    }
    Ok(())
}

/// Each result with its time.
type Results = Arc<Mutex<Vec<(u64, Sum)>>>;

/// Runs `sums` with numbers of all workers at each time.
fn run(workers: usize, times: &'static [u64], number: u64) -> Vec<(u64, Sum)> {
    let results = Results::default();
    let seen = Arc::clone(&results);
    let guards = timely::execute(timely::Config::process(workers), move |worker| {
        let seen = Arc::clone(&seen);
        let (mut input, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (input, numbers) = scope.new_input();
            let results = operator(scope, "sums", numbers, Arc::new(Bytes), 0..scope.peers(), sums, |why| {
                Err(why.to_owned())
            });
            let results = results.inspect_time(move |time, sum| {
                seen.lock().unwrap_or_else(PoisonError::into_inner).push((*time, sum.clone()));
            });
            (input, results.probe().0)
        });
        for time in times {
            input.advance_to(*time);
            input.send(number);
            input.advance_to(time + 1);
            // All results of a time are there when it ends, though no more requests come.
            worker.step_or_park_while(None, || probe.less_than(&(time + 1)));
        }
    });
    for ended in guards.expect("threads start").join() {
        ended.expect("it ends");
    }
    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner).clone();
    results.sort_unstable();
    results
}

#[test]
fn each_worker_emits_results_at_the_time_of_the_request() {
    for workers in 1..=3 {
        let mut expected = Vec::new();
        for (time, numbers) in [(0, 0), (3, 1), (4, 2), (9, 3)] {
            let sum = numbers * workers as u64 * 5;
            expected.extend((0..workers).map(|worker| (time, Ok((worker, sum)))));
        }
        assert_eq!(run(workers, &[3, 4, 9], 5), expected);
    }
}

#[test]
fn a_worker_that_panics_has_all_requests_refused() {
    let results = run(2, &[1, 2], 500);
    let why = || Err("worker 1 panicked: boom".to_owned());
    assert_eq!(results, [(0, Ok((0, 0))), (0, Ok((1, 0))), (1, why()), (2, why())]);
}

#[test]
fn a_worker_0_that_panics_has_all_requests_refused() {
    for workers in 1..=2 {
        let results = run(workers, &[1, 2], 100_000);
        let why = || Err("worker 0 panicked: boom".to_owned());
        let mut expected: Vec<(u64, Sum)> = (0..workers).map(|worker| (0, Ok((worker, 0)))).collect();
        expected.extend([(1, why()), (2, why())]);
        assert_eq!(results, expected);
    }
}
