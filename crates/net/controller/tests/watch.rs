//! The client's list that goes on as a watch: nothing is lost, and nothing told twice.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;

use objects::ObjectKey;
use weft_client::pb::{self, Happened};
use weft_client::{Client, ClientError};
use weft_client::{Seen, Selection, Watched, Watching};

use crate::support::running::{apply, start, within};

/// What a watcher has been told, added up.
struct Told {
    watching: Watching,
    objects: BTreeMap<String, Seen>,
    events: Vec<(Happened, String)>,
    interruptions: usize,
}

fn id(seen: &Seen) -> String {
    let object: serde_json::Value = serde_json::from_str(&seen.0).unwrap();
    object["id"].as_str().unwrap().to_owned()
}

impl Told {
    /// A watcher that has been told the list.
    async fn listed(watching: Watching) -> Told {
        let mut told = Told { watching, objects: BTreeMap::new(), events: Vec::new(), interruptions: 0 };
        let Watched::Listed(list) = within(told.watching.next()).await.unwrap() else { panic!("the list") };
        told.objects.extend(list.into_iter().map(|seen| (id(&seen), seen)));
        told
    }

    /// Adds what is told next. Each event has to say something new.
    async fn next(&mut self) {
        match within(self.watching.next()).await.unwrap() {
            Watched::Listed(_) => panic!("a second list"),
            Watched::Interrupted(_) => self.interruptions += 1,
            Watched::Happened(happened, seen) => {
                let id = id(&seen);
                let before = match happened {
                    Happened::Deleted => self.objects.remove(&id),
                    _ => self.objects.insert(id.clone(), seen.clone()),
                };
                assert_eq!(before.is_some(), happened != Happened::Created, "{happened:?} {seen:?}");
                assert!(happened == Happened::Deleted || before.as_ref() != Some(&seen), "again: {seen:?}");
                self.events.push((happened, id));
            }
        }
    }

    /// Goes on until the sum is what the controller has.
    async fn until_as(&mut self, client: &mut Client, selection: &Selection) {
        loop {
            let list = within(client.select(selection)).await.unwrap();
            let list: BTreeMap<String, Seen> = list.into_iter().map(|seen| (id(&seen), seen)).collect();
            if list == self.objects {
                return;
            }
            self.next().await;
        }
    }
}

fn switches(fields: &[&str]) -> Selection {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Selection { kind: "switch".to_owned(), fields, ..Selection::default() }
}

/// Creates, changes and deletes switches, a transaction each.
async fn disturb(mut client: Client, turns: std::ops::Range<usize>) {
    for turn in turns {
        let is_end = turn % 5 == 4;
        // The one of the turn before is there.
        let id = format!("s{}", (turn - usize::from(is_end)) % 7);
        if is_end {
            client.delete(&[ObjectKey::new("switch", id)], "test").await.unwrap();
        } else {
            let text = format!("{{kind: switch, id: {id}, tenant: t{}}}", turn / 2 % 3);
            apply(&mut client, &text).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_what_follows_add_up_to_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    disturb(client.clone(), 0..5).await;
    // The list falls between transactions.
    let busy = tokio::spawn(disturb(client.clone(), 5..200));
    let (all, some) = (switches(&[]), switches(&["tenant=t1"]));
    let mut of_all = Told::listed(client.watch(all.clone())).await;
    let mut of_some = Told::listed(client.watch(some.clone())).await;
    within(busy).await.unwrap();
    of_all.until_as(&mut client, &all).await;
    of_some.until_as(&mut client, &some).await;
    assert_eq!((of_all.interruptions, of_some.interruptions), (0, 0));
    assert!(of_all.events.len() > 20, "{:?}", of_all.events);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_outlives_its_controller() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, "{kind: switch, id: a}\n---\n{kind: switch, id: b}\n---\n{kind: switch, id: c}")
        .await
        .unwrap();
    let mut told = Told::listed(client.watch(switches(&[]))).await;
    // A first event, so that the watch has begun.
    apply(&mut client, "{kind: switch, id: a, tenant: first}").await.unwrap();
    told.next().await;
    running.stop().await;

    let running = start(folder.path()).await;
    let mut client = running.client().await;
    apply(&mut client, "{kind: switch, id: b, tenant: late}\n---\n{kind: switch, id: d}").await.unwrap();
    client.delete(&[ObjectKey::new("switch", "c")], "test").await.unwrap();
    told.until_as(&mut client, &switches(&[])).await;
    apply(&mut client, "{kind: switch, id: d, tenant: last}").await.unwrap();
    told.until_as(&mut client, &switches(&[])).await;
    assert_eq!(told.interruptions, 1);
    let mut events = told.events.clone();
    events[1..4].sort_by(|(_, a), (_, b)| a.cmp(b));
    let wanted = [
        (Happened::Updated, "a"),
        (Happened::Updated, "b"),
        (Happened::Deleted, "c"),
        (Happened::Created, "d"),
        (Happened::Updated, "d"),
    ];
    assert_eq!(events, wanted.map(|(happened, id)| (happened, id.to_owned())));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_of_what_there_is_not_ends() {
    let folder = tempfile::tempdir().unwrap();
    let running = start(folder.path()).await;
    let client = running.client().await;
    for selection in
        [switches(&["colour=blue"]), Selection { kind: "swich".to_owned(), ..Selection::default() }]
    {
        let error = within(client.watch(selection).next()).await.unwrap_err();
        assert!(matches!(error, ClientError::NotFound(_)), "{error}");
    }
    let mut empty = Told::listed(client.watch(switches(&[]))).await;
    assert_eq!(empty.objects.len(), 0);
    let state = pb::ObjectState { problems: Vec::new(), ..pb::ObjectState::default() };
    apply(&mut client.clone(), "{kind: switch, id: a}").await.unwrap();
    empty.next().await;
    assert_ne!(empty.objects["a"].1, state, "objects come with their state");
    running.stop().await;
}
