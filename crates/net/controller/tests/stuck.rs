//! An engine that hangs, and what its supervisors learn.

use std::sync::mpsc;
use std::time::Duration;

use crate::support::running::{Running, apply, start, within};

const NODE: &str =
    "{kind: transport_node, id: hv1, ip: 172.16.0.1, ovsdb: 'unix:/1/db', openflow: 'unix:/1/of'}";

async fn ask(running: &Running, path: &str) -> (u16, String) {
    let answer = running.web().await.ask("GET", path, &[], "").await;
    (answer.status.as_u16(), answer.text)
}

/// The engine's thread waits for a driver that does not return.
#[tokio::test]
async fn an_engine_that_hangs_in_one_step_is_dead_after_a_minute_and_lives_when_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    apply(&mut running.client().await, NODE).await.unwrap();
    let alive = (200, "ok\n".to_owned());
    assert_eq!(ask(&running, "/livez").await, alive);

    let (holding, held) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let switches = running.switches.clone();
    let holder = std::thread::spawn(move || {
        switches.look("hv1", |_| {
            holding.send(()).unwrap();
            let _ = released.recv();
        });
    });
    held.recv().unwrap();
    let mut client = running.client().await;
    let network = "{kind: switch, id: blue}\n---\n{kind: switch_port, id: p1, switch: blue}";
    let asking = tokio::spawn(async move { apply(&mut client, network).await.map(drop) });
    // The transaction is on disk, so its effects are under way: that is where it hangs.
    let journal = folder.path().join("state/journal.jsonl");
    within(async {
        while !std::fs::read_to_string(&journal).is_ok_and(|text| text.contains("blue")) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    within(async {
        while running.engine.busy().is_none_or(|busy| busy.with != "telling switches and clients") {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(ask(&running, "/livez").await, alive, "nobody has looked before");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
    for path in ["/livez", "/readyz"] {
        let (status, text) = ask(&running, path).await;
        assert_eq!(status, 503, "{path}: {text}");
        assert!(text.starts_with("the engine has made no progress for 6"), "{path}: {text}");
    }
    drop(release);
    holder.join().unwrap();
    within(asking).await.unwrap().unwrap();
    // The answer comes before the end of the step in which the thread hung.
    for path in ["/livez", "/readyz"] {
        within(async {
            while ask(&running, path).await != alive {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    running.stop().await;
}
