//! Names of hosts to addresses, by the system's resolver, in threads of its own.
//!
//! `getaddrinfo` blocks for as long as a dead name server lets it. It knows what the operating system knows: `/etc/hosts`,
//! `nsswitch.conf` and its plugins. So it runs in a few threads that do nothing else. One look-up of a name is under way at a
//! time, however many wait for it, and nobody waits longer than [`WITHIN`]. A name that cannot be looked up keeps its last
//! addresses.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The most look-ups at a time. One that fails after two name servers have said nothing takes 20 s.
const THREADS_MAX: usize = 16;
/// The threads that names may take whose last look-up failed, so that the others get their turn.
const DOUBTFUL_MAX: usize = THREADS_MAX / 2;
/// The names that are remembered.
const NAMES_MAX: usize = 10_000;

/// The longest wait for a look-up. It goes on after that, and the next attempt to connect takes its result.
const WITHIN: Duration = Duration::from_secs(3);

/// Looks up the addresses of a name. May block.
pub type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names of hosts. Clones share their threads and what they know.
#[derive(Clone)]
pub struct Resolver(Arc<Shared>);

struct Shared {
    lookup: Box<Lookup>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    names: HashMap<String, Name>,
    /// Names to look up; those whose last look-up failed apart.
    waiting: VecDeque<String>,
    waiting_doubtful: VecDeque<String>,
    threads: usize,
    threads_doubtful: usize,
}

#[derive(Default)]
struct Name {
    /// The result of the last look-up that succeeded.
    addresses: Vec<IpAddr>,
    is_doubtful: bool,
    /// The look-up under way: since when, and who is told.
    under_way: Option<(Instant, watch::Sender<Option<Outcome>>)>,
}

/// The addresses, or why there are none.
type Outcome = Result<Vec<IpAddr>, Arc<str>>;

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").field("threads", &self.0.lock().threads).finish_non_exhaustive()
    }
}

impl Default for Resolver {
    /// The one of this process, which asks the operating system.
    fn default() -> Self {
        static SYSTEM: LazyLock<Resolver> = LazyLock::new(|| Resolver::new(system));
        SYSTEM.clone()
    }
}

fn system(name: &str) -> io::Result<Vec<IpAddr>> {
    // The port does not matter.
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl Resolver {
    /// A resolver with another way to look up names.
    pub fn new(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Resolver(Arc::new(Shared { lookup: Box::new(lookup), state: Mutex::default() }))
    }

    /// The addresses of a name, or the last known ones if it cannot be looked up within [`WITHIN`].
    ///
    /// # Errors
    /// The look-up failed or takes too long, and no earlier one has succeeded.
    pub async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let (since, mut told) = self.0.ask(name)?;
        let outcome = tokio::time::timeout_at(since + WITHIN, told.wait_for(Option::is_some)).await;
        let why = match outcome {
            Ok(Ok(outcome)) => match outcome.clone() {
                Some(Ok(addresses)) => return Ok(addresses),
                Some(Err(why)) => io::Error::other(format!("cannot look up {name}: {why}")),
                None => io::Error::other(format!("cannot look up {name}")),
            },
            Ok(Err(_)) => io::Error::other(format!("cannot look up {name}: the look-up ended")),
            Err(_) => io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "no answer about {name} within {} s: does the name server answer? An address instead of the name needs none",
                    WITHIN.as_secs()
                ),
            ),
        };
        match self.0.lock().names.get(name) {
            Some(known) if !known.addresses.is_empty() => Ok(known.addresses.clone()),
            _ => Err(why),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a name looked up, unless that is under way. Gives the time at which it began.
    fn ask(self: &Arc<Self>, name: &str) -> io::Result<(Instant, watch::Receiver<Option<Outcome>>)> {
        let mut state = self.lock();
        if state.names.len() >= NAMES_MAX && !state.names.contains_key(name) {
            state.names.retain(|_, name| name.under_way.is_some());
            if state.names.len() >= NAMES_MAX {
                return Err(io::Error::other(format!(
                    "too many names are being looked up to look up {name}"
                )));
            }
        }
        let known = state.names.entry(name.to_owned()).or_default();
        if let Some((since, tell)) = &known.under_way {
            return Ok((*since, tell.subscribe()));
        }
        let (since, (tell, told)) = (Instant::now(), watch::channel(None));
        known.under_way = Some((since, tell));
        if known.is_doubtful {
            state.waiting_doubtful.push_back(name.to_owned());
        } else {
            state.waiting.push_back(name.to_owned());
        }
        if state.threads < THREADS_MAX {
            let shared = self.clone();
            match thread::Builder::new().name("resolver".to_owned()).spawn(move || shared.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => {
                    *state = State::default();
                    return Err(error);
                }
                // Those that run go on with this name.
                Err(_) => {}
            }
        }
        Ok((since, told))
    }

    /// Looks up names until none waits.
    fn work(&self) {
        while let Some((name, is_doubtful)) = self.next() {
            let lookup = std::panic::AssertUnwindSafe(|| (self.lookup)(&name));
            let found = match std::panic::catch_unwind(lookup) {
                Ok(Ok(addresses)) if addresses.is_empty() => Err("it has no address".into()),
                Ok(found) => found.map_err(|error| Arc::from(error.to_string())),
                Err(_) => Err("the look-up panicked".into()),
            };
            let mut state = self.lock();
            state.threads_doubtful -= usize::from(is_doubtful);
            let Some(known) = state.names.get_mut(&name) else { continue };
            known.is_doubtful = found.is_err();
            if let Ok(addresses) = &found {
                known.addresses.clone_from(addresses);
            }
            if let Some((_, tell)) = known.under_way.take() {
                tell.send_replace(Some(found));
            }
        }
    }

    /// The next name, and whether its last look-up failed; none if this thread is to end.
    fn next(&self) -> Option<(String, bool)> {
        let mut state = self.lock();
        if let Some(name) = state.waiting.pop_front() {
            return Some((name, false));
        }
        if state.threads_doubtful < DOUBTFUL_MAX
            && let Some(name) = state.waiting_doubtful.pop_front()
        {
            state.threads_doubtful += 1;
            return Some((name, true));
        }
        state.threads -= 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    const GOOD: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    /// A resolver whose look-ups of `dead…` hang until the sender is dropped, and the number of its look-ups.
    fn hanging() -> (Resolver, Arc<AtomicUsize>, mpsc::Sender<()>) {
        let (release, held) = mpsc::channel::<()>();
        let (held, count) = (Mutex::new(held), Arc::new(AtomicUsize::new(0)));
        let counted = count.clone();
        let resolver = Resolver::new(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            if name.starts_with("dead") {
                // Ends with an error once the sender is gone.
                let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
                return Err(io::ErrorKind::TimedOut.into());
            }
            Ok(vec![GOOD])
        });
        (resolver, count, release)
    }

    #[tokio::test]
    async fn d7_many_hosts_of_one_dead_name_make_one_look_up_and_others_are_served() {
        let (resolver, count, _release) = hanging();
        let waiting: Vec<_> = (0..3000)
            .map(|_| {
                let resolver = resolver.clone();
                tokio::spawn(async move { resolver.resolve("dead.example").await })
            })
            .collect();
        assert_eq!(resolver.resolve("good.example").await.expect("it resolves"), [GOOD]);
        for waiting in waiting {
            let error = waiting.await.expect("no panic").expect_err("nobody answers");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        }
        assert_eq!(count.load(Ordering::SeqCst), 2, "one for each name");
        assert!(resolver.0.lock().threads <= 2);
        // One that is late already makes nobody wait again.
        let now = Instant::now();
        resolver.resolve("dead.example").await.expect_err("nobody answers");
        assert!(now.elapsed() < WITHIN);
    }

    #[tokio::test]
    async fn d7_names_that_hang_take_half_of_the_threads() {
        let (resolver, _, release) = hanging();
        for n in 0..100 {
            let name = format!("dead{n}");
            resolver.0.lock().names.insert(name.clone(), Name { is_doubtful: true, ..Name::default() });
            resolver.0.ask(&name).expect("a thread");
        }
        assert_eq!(resolver.resolve("good.example").await.expect("it resolves"), [GOOD]);
        assert!(resolver.0.lock().threads_doubtful <= DOUBTFUL_MAX);
        drop(release);
        // All of them end, with the threads.
        while resolver.0.lock().threads > 0 {
            tokio::task::yield_now().await;
        }
        assert!(resolver.0.lock().waiting_doubtful.is_empty());
    }

    #[tokio::test]
    async fn d7_the_last_good_address_is_kept() {
        let works = Arc::new(Mutex::new(true));
        let resolver = Resolver::new({
            let works = works.clone();
            move |_| {
                let works = *works.lock().unwrap_or_else(PoisonError::into_inner);
                if works { Ok(vec![GOOD]) } else { Err(io::Error::other("no name server")) }
            }
        });
        assert_eq!(resolver.resolve("hv1").await.expect("it resolves"), [GOOD]);
        *works.lock().unwrap_or_else(PoisonError::into_inner) = false;
        assert_eq!(resolver.resolve("hv1").await.expect("as before"), [GOOD]);
        let error = resolver.resolve("hv2").await.expect_err("never known").to_string();
        assert_eq!(error, "cannot look up hv2: no name server");
    }
}
