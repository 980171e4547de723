//! Clients that create, change and delete objects all along, and repeat requests without an answer.
//!
//! Each client has objects of its own and makes one request at a time, so an answer says what its object is from then on.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value as Json, json};
use test_random::Random;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use weft_client::{Changes, Client, ClientError, pb};

use crate::book::{Book, Key};
use crate::events::Events;

/// How many clients there are.
const CLIENTS: u64 = 3;
/// How many objects each has.
const OBJECTS: u64 = 8;
/// How long a client waits for an answer before it asks again.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest time between two requests of a client, in milliseconds, so that the load leaves time for the switches.
const PACE: u64 = 60;
/// How long requests may take that are under way when the load is paused.
const DEADLINE: Duration = Duration::from_mins(3);
/// The time between two looks, and between two attempts to connect.
const LOOK: Duration = Duration::from_millis(10);

/// What the clients share.
#[derive(Debug)]
struct Shared {
    controller: String,
    /// Keys of requests begin with it, so that they are not those of another run.
    run: String,
    book: Mutex<Book>,
    events: Events,
    is_paused: AtomicBool,
    is_over: AtomicBool,
    /// Whether answers stay known: after a jump of the clock the controller may have forgotten them.
    remembers: AtomicBool,
    busy: AtomicUsize,
    answers: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

/// The load. Dropping it ends it.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
}

/// A request: what becomes of an object, and how it is asked for.
#[derive(Debug, Clone)]
struct Wish {
    object: Key,
    value: Option<Json>,
    request: Changes,
}

/// How an attempt ended.
enum Answer {
    Done(Option<u64>),
    /// The journal could not be written: nothing took effect.
    NotWritten,
    None(ClientError),
    Late,
    /// There was no connection, so nothing was asked.
    NotAsked,
    /// What was to be deleted does not exist.
    Absent,
    /// Nothing that a valid request may be told.
    Wrong(String),
}

impl Load {
    /// A load that is paused. The book has what is there already.
    pub fn start(runtime: &Runtime, controller: String, seed: u64, book: Book, events: Events) -> Load {
        let shared = Arc::new(Shared {
            controller,
            run: format!("faults-{}-{seed}", std::process::id()),
            book: Mutex::new(book),
            events,
            is_paused: AtomicBool::new(true),
            is_over: AtomicBool::new(false),
            remembers: AtomicBool::new(true),
            busy: AtomicUsize::new(0),
            answers: AtomicU64::new(0),
            wrong: Mutex::default(),
        });
        for number in 0..CLIENTS {
            let random = Random::new(seed ^ (0x10ad << 8) ^ number);
            runtime.spawn(work(number, random, Arc::clone(&shared)));
        }
        Load { shared }
    }

    /// The book.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.shared.book()
    }

    /// Goes on. `remembers`: whether a repeated request must get its first answer.
    pub fn go_on(&self, remembers: bool) {
        self.shared.remembers.store(remembers, SeqCst);
        self.shared.is_paused.store(false, SeqCst);
    }

    /// Ends with the requests that are under way. There must be a controller that answers them.
    pub fn pause(&self) -> Result<()> {
        self.shared.is_paused.store(true, SeqCst);
        let begun = Instant::now();
        while self.shared.busy.load(SeqCst) > 0 {
            ensure!(begun.elapsed() < DEADLINE, "clients get no answer although the controller runs");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits for so many more answers, or until this time is over.
    pub fn wait_for_answers(&self, more: u64, most: Duration) {
        let (wanted, begun) = (self.shared.answers.load(SeqCst) + more, Instant::now());
        while self.shared.answers.load(SeqCst) < wanted && begun.elapsed() < most {
            std::thread::sleep(LOOK);
        }
    }

    /// What clients were told that they must not be told.
    pub fn wrong(&self) -> Vec<String> {
        self.shared.wrong.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.is_over.store(true, SeqCst);
    }
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_wrong(&self, what: String) {
        self.events.add(&what);
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

async fn work(number: u64, mut random: Random, shared: Arc<Shared>) {
    let (mut client, mut turn) = (None, 0);
    while !shared.is_over.load(SeqCst) {
        // First busy, then the look: a pause that finds nobody busy is seen by all.
        shared.busy.fetch_add(1, SeqCst);
        if !shared.is_paused.load(SeqCst) {
            turn += 1;
            let wish = wish(number, &mut random, &shared.book());
            if let Some(wish) = wish {
                let key = format!("{}-{number}-{turn}", shared.run);
                ask(&shared, &mut client, wish, key, &mut random).await;
            }
        }
        shared.busy.fetch_sub(1, SeqCst);
        tokio::time::sleep(Duration::from_millis(1 + random.below(PACE))).await;
    }
}

/// Makes a request until it is answered, or gives it up after an attempt without an answer.
async fn ask(shared: &Shared, client: &mut Option<Client>, mut wish: Wish, key: String, random: &mut Random) {
    wish.request.terms().key.clone_from(&key);
    let mut is_certain = true;
    while !shared.is_over.load(SeqCst) {
        match attempt(shared, client, &wish).await {
            Answer::Done(txn) => {
                {
                    let mut book = shared.book();
                    book.is(wish.object.clone(), wish.value.clone());
                    book.answer(txn);
                }
                shared.answers.fetch_add(1, SeqCst);
                if random.chance(10) {
                    repeat(shared, client, &wish, txn).await;
                }
                return;
            }
            Answer::NotWritten if is_certain => return shared.book().refuse(),
            Answer::NotWritten => {
                shared.book().refuse();
                tokio::time::sleep(LOOK).await;
            }
            // Once the controller has forgotten the key, it cannot know that an earlier attempt deleted the object.
            Answer::Absent if !is_certain && !shared.remembers.load(SeqCst) => {
                let mut book = shared.book();
                book.is(wish.object.clone(), None);
                return book.answer(None);
            }
            Answer::Absent => {
                let (kind, id) = &wish.object;
                return shared.is_wrong(format!("{kind} {id} was to be deleted, and does not exist"));
            }
            Answer::NotAsked => tokio::time::sleep(LOOK).await,
            Answer::Wrong(why) => return shared.is_wrong(why),
            answer @ (Answer::None(_) | Answer::Late) => {
                is_certain = false;
                {
                    let mut book = shared.book();
                    book.may_be(&wish.object, wish.value.clone());
                    book.no_answer();
                }
                let why = match answer {
                    Answer::None(error) => error.to_string(),
                    _ => format!("nothing for {PATIENCE:?}"),
                };
                *client = None;
                if random.chance(30) {
                    shared.events.add(format!("request {key} is given up: {why}"));
                    return;
                }
                tokio::time::sleep(LOOK).await;
            }
        }
    }
}

/// Makes an answered request again. It must get the same answer, and have no other effect.
async fn repeat(shared: &Shared, client: &mut Option<Client>, wish: &Wish, txn: Option<u64>) {
    let remembers = shared.remembers.load(SeqCst);
    match attempt(shared, client, wish).await {
        Answer::Done(again) if again == txn || !remembers => shared.book().repeat(),
        Answer::Done(again) => {
            let (kind, id) = &wish.object;
            shared.is_wrong(format!(
                "a request about {kind} {id} had transaction {txn:?}, and {again:?} when it was repeated with its key"
            ));
        }
        Answer::Absent if !remembers => shared.book().repeat(),
        Answer::Absent => {
            let (kind, id) = &wish.object;
            shared.is_wrong(format!(
                "{kind} {id} was deleted, and the request had no answer when it was repeated with its key"
            ));
        }
        Answer::Wrong(why) => shared.is_wrong(format!("a request was answered, and then repeated: {why}")),
        Answer::NotWritten | Answer::NotAsked | Answer::None(_) | Answer::Late => *client = None,
    }
}

async fn attempt(shared: &Shared, client: &mut Option<Client>, wish: &Wish) -> Answer {
    if client.is_none() {
        match timeout(PATIENCE, Client::connect(&shared.controller)).await {
            Ok(Ok(connected)) => *client = Some(connected),
            Ok(Err(_)) | Err(_) => return Answer::NotAsked,
        }
    }
    let Some(client) = client else { return Answer::NotAsked };
    match timeout(PATIENCE, client.change(wish.request.clone())).await {
        Ok(Ok(accepted)) => Answer::Done(accepted.txn),
        Ok(Err(ClientError::Refused(refusal))) if refusal.code == "journal" => Answer::NotWritten,
        Ok(Err(ClientError::Refused(refusal)))
            if wish.value.is_none() && refusal.faults.iter().all(|fault| fault.code == "no-such-object") =>
        {
            Answer::Absent
        }
        Ok(Err(
            error @ (ClientError::Unreachable { .. }
            | ClientError::Stopping { .. }
            | ClientError::Failed { .. }),
        )) => Answer::None(error),
        Ok(Err(error)) => {
            let (kind, id) = &wish.object;
            Answer::Wrong(format!("a valid request about {kind} {id} was refused: {error}"))
        }
        Err(_) => Answer::Late,
    }
}

/// A request about an object of a client whose state is certain.
fn wish(client: u64, random: &mut Random, book: &Book) -> Option<Wish> {
    let number = random.below(OBJECTS);
    let (delete, set, value) = (random.chance(25), random.chance(50), random.below(100_000));
    let kind = if number.is_multiple_of(2) { "switch_port" } else { "acl" };
    let object: Key = (kind.to_owned(), format!("load-{client}-{number}"));
    let is_there = book.certain(&object)?.is_some();
    let wanted = wanted(&object, client, number, value);
    let reference = pb::ObjectRef { kind: object.0.clone(), id: object.1.clone() };
    let by = "faults".to_owned();
    if is_there && delete {
        let request = pb::DeleteRequest { objects: vec![reference], by, ..Default::default() };
        return Some(Wish { object, value: None, request: Changes::Delete(request) });
    }
    let request = if is_there && set {
        let merge_patch = Some(wanted.to_string());
        Changes::Set(pb::SetRequest { object: Some(reference), merge_patch, by, ..Default::default() })
    } else {
        Changes::Apply(pb::ApplyRequest { objects: vec![wanted.to_string()], by, ..Default::default() })
    };
    Some(Wish { object, value: Some(wanted), request })
}

/// An object with a value. Ports have addresses and no interface; ACLs drop what nobody sends.
fn wanted((kind, id): &Key, client: u64, number: u64, value: u64) -> Json {
    let switch = ["front", "back", "umbra"][((client + number / 2) % 3) as usize];
    let labels = json!({"value": value.to_string()});
    if kind == "acl" {
        return json!({
            "kind": kind, "id": id, "switch": switch, "direction": "to_port", "priority": 100 + number,
            "match": {"ip_proto": "tcp", "tp_dst": 1000 + value % 60_000}, "action": "drop", "labels": labels,
        });
    }
    let net = u64::from(switch == "back");
    let mac = format!("02:00:01:{client:02x}:{number:02x}:{:02x}", value % 256);
    let ip = format!("10.0.{net}.{}", 100 + client * OBJECTS + number);
    json!({"kind": kind, "id": id, "switch": switch, "labels": labels, "addresses": [{"mac": mac, "ips": [ip]}]})
}
