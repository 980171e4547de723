//! Random clients of a few objects, and the history of what they asked and were told.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use test_random::Random;

use super::checker::Timed;
use super::object::{Condition, Fields, Operation, Outcome, Request};
use crate::support::controller::DEADLINE;
use crate::support::web::{Answer, Lost, Web};

/// How many clients there are, and for how many objects.
pub(crate) const CLIENTS: usize = 5;
pub(crate) const OBJECTS: usize = 3;
/// The names of the two fields, which are labels: the rules do nothing with them.
const FIELDS: [&str; 2] = ["a", "b"];
/// A client that hangs up does it within this time, in microseconds. Most requests take less.
const HANG_UP: u64 = 2000;

/// When an operation surely has taken effect, or never will.
#[derive(Debug, Clone, Copy)]
enum End {
    At(u64),
    /// Once the controller is dead that was there when the answer was lost. This is the number of its start.
    OfController(usize),
}

/// An operation on one of the objects.
struct Record {
    object: usize,
    invoked: u64,
    end: End,
    operation: Operation,
}

/// What the clients of a round share.
pub(crate) struct Round {
    /// The objects of this round begin their ids with it, and so do the keys of its requests.
    name: String,
    /// The controller, and what passes requests on to it.
    controller: PathBuf,
    through: PathBuf,
    /// Counts everything that happens, so that two moments never are the same.
    clock: AtomicU64,
    /// The time of death of each controller so far.
    deaths: Mutex<Vec<u64>>,
    answers: AtomicUsize,
    is_over: AtomicBool,
    records: Mutex<Vec<Record>>,
}

/// How a client loses an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loss {
    No,
    /// It does not read the answer. The controller has done what it asked.
    Unread,
    /// It hangs up after so many microseconds. The controller may go on with its request all the same.
    HangUp(u64),
}

/// A request as a client makes it.
struct Wish {
    object: usize,
    request: Request,
    key: Option<String>,
}

impl Round {
    pub(crate) fn new(name: String, controller: PathBuf, through: PathBuf) -> Round {
        Round {
            name,
            controller,
            through,
            clock: AtomicU64::default(),
            deaths: Mutex::default(),
            answers: AtomicUsize::default(),
            is_over: AtomicBool::default(),
            records: Mutex::default(),
        }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    /// Waits for so many more answers.
    pub(crate) async fn answers(&self, more: usize) {
        let (wanted, deadline) = (self.answers.load(SeqCst) + more, Instant::now() + DEADLINE);
        while self.answers.load(SeqCst) < wanted {
            assert!(Instant::now() < deadline, "no more answers come");
            tokio::task::yield_now().await;
        }
    }

    /// The controller is dead: what nobody was told of by now has taken effect, or never will.
    pub(crate) fn is_dead(&self) {
        self.deaths.lock().unwrap().push(self.now());
    }

    /// Lets clients end once their requests with keys are answered.
    pub(crate) fn end(&self) {
        self.is_over.store(true, SeqCst);
    }

    fn path(&self, object: usize) -> String {
        format!("/v1/switches/{}-{object}", self.name)
    }

    /// A connection, once there is a controller.
    async fn connect(&self) -> Web {
        let deadline = Instant::now() + DEADLINE;
        loop {
            // A proxy listens even if there is no controller.
            if Web::connect(&self.controller).await.is_ok()
                && let Ok(web) = Web::connect(&self.through).await
            {
                return web;
            }
            assert!(Instant::now() < deadline, "no controller listens");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Reads all objects, so that what the clients left behind is in the history.
    pub(crate) async fn read_all(&self) {
        let mut client = Client { number: CLIENTS, random: Random::new(0), web: None, known: [0; OBJECTS] };
        for object in 0..OBJECTS {
            client.make(self, Wish { object, request: Request::Get, key: None }, 0).await;
        }
    }

    /// The number of operations, and how many of them had an unknown outcome, were sent again, and were refused.
    pub(crate) fn count(&self) -> [usize; 4] {
        let records = self.records.lock().unwrap();
        let count =
            |is: &dyn Fn(&Operation) -> bool| records.iter().filter(|record| is(&record.operation)).count();
        [
            records.len(),
            count(&|operation| operation.outcome == Outcome::Unknown),
            count(&|operation| operation.sent > 1),
            count(&|operation| operation.outcome == Outcome::Stale),
        ]
    }

    /// The path and the history of each object.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (String, History)> {
        let records = self.records.lock().unwrap();
        let deaths = self.deaths.lock().unwrap();
        let mut histories = [const { History::new() }; OBJECTS];
        for Record { object, invoked, end, operation } in records.iter() {
            let returned = match *end {
                End::At(time) => Some(time),
                End::OfController(start) => deaths.get(start).copied(),
            };
            let timed = Timed { invoked: *invoked, returned, operation: operation.clone() };
            histories[*object].push(timed);
        }
        let paths: [String; OBJECTS] = std::array::from_fn(|object| self.path(object));
        paths.into_iter().zip(histories)
    }
}

/// What happened to an object.
pub(crate) type History = Vec<Timed<Operation>>;

/// A client with a connection of its own.
pub(crate) struct Client {
    number: usize,
    random: Random,
    web: Option<Web>,
    /// The revision of each object as it was told last.
    known: [u64; OBJECTS],
}

impl Client {
    pub(crate) fn new(number: usize, random: Random) -> Client {
        Client { number, random, web: None, known: [0; OBJECTS] }
    }

    /// Reads and writes until the round is over.
    pub(crate) async fn run(mut self, round: &Round) {
        let mut turn = 0;
        while !round.is_over.load(SeqCst) {
            turn += 1;
            let object = self.random.below(OBJECTS as u64) as usize;
            let request = self.request(object, turn);
            let is_keyed = request != Request::Get && self.random.chance(50);
            let key = is_keyed.then(|| format!("{}-{}-{turn}", round.name, self.number));
            let loss = if self.random.chance(30) { 100 } else { 0 };
            self.make(round, Wish { object, request, key }, loss).await;
        }
    }

    fn request(&mut self, object: usize, turn: u64) -> Request {
        // Most values are written once, so that a read tells whose they are.
        let random = &mut self.random;
        let own = (self.number as u64 + 1) * 1_000_000 + turn;
        let mut value = || if random.chance(85) { own } else { random.below(2) };
        let fields = [value(), value()];
        let condition = match self.random.below(100) {
            0..50 => None,
            50..58 => Some(0),
            _ => Some(self.known[object]),
        };
        // Only what creates an object can ask for a new one.
        let of_existing = condition.filter(|&revision| revision > 0);
        match self.random.below(100) {
            0..30 => Request::Get,
            30..60 => Request::Put(fields, condition),
            60..90 => Request::Patch(self.random.below(2) as usize, fields[0], of_existing),
            _ => Request::Delete(of_existing),
        }
    }

    /// Makes a request until its outcome is known, if it has a key. Loses each answer with this probability, in percent, but not for ever.
    async fn make(&mut self, round: &Round, wish: Wish, loss: u64) {
        let invoked = round.now();
        let (mut sent, mut hung_up) = (0, 0);
        let outcome = loop {
            let loss = match self.random.below(3) {
                _ if !self.random.chance(loss) || sent > 2 => Loss::No,
                0 => Loss::HangUp(self.random.below(HANG_UP)),
                _ => Loss::Unread,
            };
            sent += 1;
            let answer = self.send(round, &wish, loss).await;
            if let Ok(Some(answer)) = answer {
                break outcome(&answer, wish.request);
            }
            self.web = None;
            hung_up += usize::from(matches!(loss, Loss::HangUp(_)));
            if wish.key.is_none() {
                break Outcome::Unknown;
            }
        };
        let answered = End::At(round.now());
        if wish.key.is_none() {
            (sent, hung_up) = (0, 0);
        }
        let record = |outcome, end| {
            let operation = Operation { client: self.number, request: wish.request, outcome, sent, hung_up };
            Record { object: wish.object, invoked, end, operation }
        };
        // A controller that starts meanwhile lets the operation end later than it did, so this finds less, and nothing wrong.
        let after_death = End::OfController(round.deaths.lock().unwrap().len());
        let mut records = round.records.lock().unwrap();
        match outcome {
            Outcome::Unknown if wish.request == Request::Get => return,
            Outcome::Unknown => records.push(record(Outcome::Unknown, after_death)),
            _ => records.push(record(outcome, answered)),
        }
        // A request that had no effect is not kept under its key: if the client has hung up on it before, that one may still have an effect.
        let had_effect = matches!(outcome, Outcome::Created(_) | Outcome::Updated(_) | Outcome::Deleted(_));
        if hung_up > 0 && !had_effect {
            records.push(record(Outcome::Unknown, after_death));
        }
        drop(records);
        if let Outcome::Found(_, revision) | Outcome::Created(revision) | Outcome::Updated(revision) = outcome
        {
            self.known[wish.object] = revision;
        }
        round.answers.fetch_add(1, SeqCst);
    }

    /// Sends a request. No answer comes if the client loses it, and an error if the connection is lost.
    async fn send(&mut self, round: &Round, wish: &Wish, loss: Loss) -> Result<Option<Answer>, Lost> {
        let web = match &mut self.web {
            Some(web) => web,
            none => none.insert(round.connect().await),
        };
        let (method, headers, body) = message(wish);
        let path = round.path(wish.object);
        let asked = async {
            if loss == Loss::Unread {
                return web.open(method, &path, &headers, body).await.map(|_| None);
            }
            web.ask(method, &path, &headers, body).await.map(Some)
        };
        let patience = if let Loss::HangUp(after) = loss { Duration::from_micros(after) } else { DEADLINE };
        let answer = tokio::time::timeout(patience, asked).await;
        assert!(answer.is_ok() || loss != Loss::No, "no answer within {DEADLINE:?}");
        answer.unwrap_or(Ok(None))
    }
}

/// The method, the headers and the body of a request.
fn message(wish: &Wish) -> (&'static str, Vec<(&'static str, String)>, String) {
    let (method, body, condition): (_, _, Condition) = match wish.request {
        Request::Get => ("GET", None, None),
        Request::Put(fields, condition) => {
            ("PUT", Some(labels(&[0, 1].map(|field| (field, fields[field])))), condition)
        }
        Request::Patch(field, value, condition) => ("PATCH", Some(labels(&[(field, value)])), condition),
        Request::Delete(condition) => ("DELETE", None, condition),
    };
    let condition = condition.map(|revision| match revision {
        0 => ("if-none-match", "*".to_owned()),
        _ => ("if-match", format!("\"{revision}\"")),
    });
    let key = wish.key.clone().map(|key| ("idempotency-key", key));
    (
        method,
        condition.into_iter().chain(key).collect(),
        body.map_or_else(String::new, |body| body.to_string()),
    )
}

fn labels(fields: &[(usize, u64)]) -> Json {
    let labels = fields.iter().map(|&(field, value)| (FIELDS[field].to_owned(), value.to_string().into()));
    json!({ "labels": labels.collect::<serde_json::Map<_, _>>() })
}

/// What an answer says.
fn outcome(answer: &Answer, request: Request) -> Outcome {
    let json = answer.json();
    match answer.status {
        404 => Outcome::Missing,
        412 => Outcome::Stale,
        200 if request == Request::Get => {
            let field = |name: &str| json["labels"][name].as_str().and_then(|text| text.parse().ok());
            let fields: Option<Fields> = field(FIELDS[0]).and_then(|a| Some([a, field(FIELDS[1])?]));
            let revision = json["revision"].as_u64();
            assert_eq!(answer.tag, revision, "{json}");
            let found = fields.zip(revision);
            found.map_or_else(|| panic!("{json}"), |(fields, revision)| Outcome::Found(fields, revision))
        }
        200 | 201 => match (json["objects"][0]["outcome"].as_str(), json["txn"].as_u64()) {
            (Some("created"), Some(txn)) if answer.status == 201 => Outcome::Created(txn),
            (Some("updated"), Some(txn)) => Outcome::Updated(txn),
            (Some("deleted"), Some(txn)) => Outcome::Deleted(txn),
            (Some("unchanged"), None) => Outcome::Unchanged,
            _ => panic!("{request:?}: {json}"),
        },
        _ => panic!("{request:?}: {json}"),
    }
}
