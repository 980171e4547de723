use etherparse::{TcpHeader, TcpHeaderSlice};
use frame_builder::{ICMP, ICMPV6, IPV4, IPV6, Ipv4, Ipv6, TCP, ethernet, icmp, icmpv6};
use openflow_rs::Match;
use packet_answers::{Ask, Instruction};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const FROM: [&str; 4] =
    ["from=10.0.0.1", "from_mac=02:00:00:00:ff:01", "to=10.0.0.9", "to_mac=02:00:00:00:00:09"];

fn probe(settings: &[&str]) -> Probes {
    let all = settings.iter().copied().chain(FROM);
    let instruction = Instruction::from_settings("probe", all, "output:1".parse().unwrap()).unwrap();
    let Ask::Probe(probe) = instruction.ask else { panic!("a probe") };
    (probe, instruction.actions)
}

fn flow(number: u32) -> FlowKey {
    Arc::new((7, format!("reg4={number}").parse::<Match>().unwrap()))
}

/// A prober with a clock, and one machine that may answer.
struct Clocked {
    probing: Probing,
    now: Duration,
    /// The segments and messages that were sent last.
    sent: Vec<Vec<u8>>,
}

impl Clocked {
    fn new(remembered: Option<&[(&str, &str)]>) -> Clocked {
        let remembered = remembered.map(|all| {
            let all = all.iter().map(|(id, text)| (Id::from(*id), ProbeResult::parse(text).unwrap()));
            Arc::new(all.collect::<Remembered>())
        });
        Clocked { probing: Probing::new(Arc::default(), 7, remembered), now: Duration::ZERO, sent: vec![] }
    }

    fn with(settings: &[&str]) -> Clocked {
        let mut clocked = Clocked::new(Some(&[]));
        clocked.probing.change(vec![(flow(1), vec![probe(settings)])], Duration::ZERO);
        clocked
    }

    /// Waits until it has something to send, which it does.
    fn next(&mut self) -> &Vec<Vec<u8>> {
        self.now = self.probing.next(self.now).unwrap().max(self.now);
        self.send()
    }

    fn send(&mut self) -> &Vec<Vec<u8>> {
        self.sent = self.probing.due(self.now).into_iter().map(|message| message.data).collect();
        &self.sent
    }

    /// Waits until the next check begins: a packet leaves that is a question.
    fn next_check(&mut self) -> Vec<u8> {
        for _ in 0..10_000 {
            let first = self.next().iter().find(|frame| is_question(frame)).cloned();
            if let Some(frame) = first {
                return frame;
            }
        }
        panic!("no check begins")
    }

    /// Hands a frame over, and sends what follows.
    fn hear(&mut self, frame: &[u8]) -> Result<(), Silence> {
        let received = self.probing.received(frame, self.now);
        self.send();
        received
    }

    /// The result of the probe `a`.
    fn result(&self) -> Option<String> {
        self.probing.probes.get("a").and_then(|running| running.result.as_ref()).map(ToString::to_string)
    }
}

/// Whether a frame is a segment that begins a connection, or an echo request.
fn is_question(frame: &[u8]) -> bool {
    match (frame[12], frame[23], frame[20]) {
        (8, TCP, _) => frame[47] == 0x02,
        (8, ICMP, _) => frame[34] == 8,
        (_, _, ICMPV6) => frame[54] == 128,
        _ => false,
    }
}

fn header(frame: &[u8]) -> TcpHeader {
    TcpHeaderSlice::from_slice(&frame[34..]).unwrap().to_header()
}

/// The answer of the machine to a segment, with these flags and bytes.
fn segment(asked: &[u8], seq: u32, flags: &str, payload: &[u8]) -> Vec<u8> {
    let asked = header(asked);
    let own = u32::from(asked.syn) + u32::from(asked.fin);
    let mut answer = TcpHeader::new(asked.destination_port, asked.source_port, seq, 4000);
    (answer.ack, answer.acknowledgment_number) = (true, asked.sequence_number.wrapping_add(own));
    (answer.syn, answer.rst, answer.fin) = (flags.contains('S'), flags.contains('R'), flags.contains('F'));
    let (from, to) = ([10, 0, 0, 9], [10, 0, 0, 1]);
    answer.checksum = answer.calc_checksum_ipv4_raw(from, to, payload).unwrap();
    let segment = [&answer.to_bytes()[..], payload].concat();
    ethernet(
        [2, 0, 0, 0, 0xff, 1],
        [2, 0, 0, 0, 0, 9],
        IPV4,
        &Ipv4::new(from.into(), to.into(), TCP).packet(&segment),
    )
}

/// The machine's answer to an echo request.
fn echoed(request: &[u8]) -> Vec<u8> {
    if request[12] == 8 {
        let message = icmp(0, &request[38..]);
        let packet = Ipv4::new([10, 0, 0, 9].into(), [10, 0, 0, 1].into(), ICMP).packet(&message);
        return ethernet([2; 6], [4; 6], IPV4, &packet);
    }
    let (from, to) = ("fd00::9".parse().unwrap(), "fd00::1".parse().unwrap());
    let message = icmpv6([&[129, 0, 0, 0], &request[58..]].concat(), from, to);
    ethernet([2; 6], [4; 6], IPV6, &Ipv6::new(from, to, ICMPV6).packet(&message))
}

#[test]
fn a_connection_that_is_accepted_is_up_and_ends_in_order() {
    let mut clocked = Clocked::with(&["id=a", "check=tcp:80"]);
    let asked = clocked.next_check();
    assert!(clocked.now <= Duration::from_secs(5), "within the first interval");
    assert_eq!(asked[..14], [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0xff, 1, 8, 0]);
    assert_eq!(header(&asked).destination_port, 80);
    assert_eq!(clocked.result(), None);
    clocked.hear(&segment(&asked, 100, "S", &[])).unwrap();
    assert_eq!(clocked.result().unwrap(), "up");
    let last = header(clocked.sent.last().unwrap());
    assert!(last.fin && last.ack && !last.rst, "{last:?}");
    let ended = clocked.sent.last().unwrap().clone();
    clocked.hear(&segment(&ended, 101, "F", &[])).unwrap();
    assert!(clocked.sent.iter().map(|frame| header(frame)).all(|header| header.ack && !header.rst));
    assert!(clocked.probing.conversations.is_empty(), "it is over");
    assert_eq!(clocked.hear(&segment(&ended, 101, "F", &[])), Err(Silence::NoProbe));
    let begun = clocked.now;
    let again = clocked.next_check();
    assert!(clocked.now > begun + Duration::from_secs(4));
    assert_ne!(header(&again).source_port, header(&asked).source_port);
    assert_ne!(header(&again).sequence_number, header(&asked).sequence_number);
}

#[test]
fn a_machine_that_does_not_end_the_connection_is_up_and_forgotten() {
    let mut clocked = Clocked::with(&["id=a", "check=tcp:80", "timeout=1"]);
    let asked = clocked.next_check();
    let until = clocked.now + Duration::from_secs(1);
    clocked.hear(&segment(&asked, 100, "S", &[])).unwrap();
    while !clocked.probing.conversations.is_empty() {
        clocked.next();
    }
    assert_eq!((clocked.now, clocked.result().as_deref()), (until, Some("up")));
    assert!(header(clocked.sent.last().unwrap()).rst, "the other side is told");
}

#[test]
fn refusal_and_silence_are_down_with_their_cause() {
    let mut clocked = Clocked::with(&["id=a", "check=tcp:80"]);
    let asked = clocked.next_check();
    clocked.hear(&segment(&asked, 0, "R", &[])).unwrap();
    assert_eq!(clocked.result().unwrap(), "down:refused");
    let mut clocked = Clocked::with(&["id=a", "check=tcp:80", "timeout=2"]);
    clocked.next_check();
    let begun = clocked.now;
    let mut segments = 1;
    while clocked.result().is_none() {
        segments += clocked.next().iter().filter(|frame| is_question(frame)).count();
    }
    assert_eq!(
        (clocked.now, clocked.result().as_deref()),
        (begun + Duration::from_secs(2), Some("down:timeout"))
    );
    assert!((2..=3).contains(&segments), "it asks again within the time: {segments}");
    // A segment that answers nothing changes nothing.
    let asked = clocked.next_check();
    let mut forged = segment(&asked, 100, "S", &[]);
    forged[42] ^= 1;
    let _ = clocked.hear(&forged);
    assert_eq!(clocked.result().unwrap(), "down:timeout");
}

/// Asks for a page, gets this, and returns the result.
fn http(answers: &[&[u8]], flags: &str) -> Option<String> {
    let mut clocked = Clocked::with(&["id=a", "check=http:8080:/healthz?deep=1"]);
    let asked = clocked.next_check();
    clocked.hear(&segment(&asked, 100, "S", &[])).unwrap();
    assert_eq!(clocked.result(), None, "a connection is no answer");
    let request = clocked.sent.iter().find(|frame| frame.len() > 100).unwrap().clone();
    let at = request.windows(4).position(|bytes| bytes == b"GET ").unwrap();
    let text = std::str::from_utf8(&request[at..]).unwrap();
    assert!(text.starts_with("GET /healthz?deep=1 HTTP/1.1\r\nHost: 10.0.0.9:8080\r\n"), "{text}");
    let mut seq = 101;
    for (number, answer) in answers.iter().enumerate() {
        let flags = if number + 1 == answers.len() { flags } else { "" };
        clocked.hear(&segment(&request, seq, flags, answer)).unwrap();
        seq += answer.len() as u32;
    }
    clocked.result()
}

#[test]
fn the_status_of_an_answer_decides() {
    let text = |answer: &str| http(&[answer.as_bytes()], "").unwrap_or_default();
    assert_eq!(text("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "up");
    assert_eq!(text("HTTP/1.0 302 Found\r\nLocation: http://elsewhere/\r\n"), "up");
    assert_eq!(text("HTTP/1.1 404 Not Found\r\n"), "down:http-404");
    assert_eq!(text("HTTP/1.1 503 Service Unavailable\r\n"), "down:http-503");
    assert_eq!(text("SSH-2.0-OpenSSH_9.6\r\n"), "down:no-http");
    assert_eq!(text("HTTP/1.1 2"), "", "more has to come");
    assert_eq!(http(&[b"HTTP/1.1 2", b"04 No Content\r\n"], "").unwrap(), "up");
    assert_eq!(http(&[b"HTTP/1.1 2"], "F").unwrap(), "down:closed");
    assert_eq!(http(&[b""], "R").unwrap(), "down:closed");
    assert_eq!(http(&[&[b'x'; 1000]], "").unwrap(), "down:no-http");
}

#[test]
fn an_echo_is_up_in_both_versions() {
    for ends in [&[][..], &["from=fd00::1", "to=fd00::9"]] {
        let mut clocked = Clocked::new(Some(&[]));
        let mut settings = vec!["id=a", "check=icmp"];
        settings.extend(if ends.is_empty() { &FROM[..] } else { &[FROM[1], FROM[3]] });
        settings.extend(ends);
        let instruction = Instruction::from_settings("probe", settings, Actions::drop()).unwrap();
        let Ask::Probe(probe) = instruction.ask else { panic!("a probe") };
        clocked.probing.change(vec![(flow(1), vec![(probe, Actions::drop())])], Duration::ZERO);
        let request = clocked.next_check();
        let reply = echoed(&request);
        let mut other = request.clone();
        *other.last_mut().unwrap() ^= 1;
        clocked.hear(&echoed(&other)).unwrap();
        assert_eq!(clocked.result(), None, "others guess what is asked");
        clocked.hear(&reply).unwrap();
        assert_eq!(clocked.result().unwrap(), "up");
        assert_eq!(clocked.hear(&reply), Err(Silence::NoProbe), "once is enough");
        // The first result decided at once. Three failures in a row count from then on.
        for _ in 0..3 {
            assert_eq!(clocked.result().unwrap(), "up");
            clocked.next_check();
            while !clocked.probing.conversations.is_empty() {
                clocked.next();
            }
        }
        assert_eq!(clocked.result().unwrap(), "down:timeout");
        for wanted in ["down:timeout", "down:timeout", "up"] {
            let request = clocked.next_check();
            clocked.hear(&echoed(&request)).unwrap();
            assert_eq!(clocked.result().unwrap(), wanted);
        }
    }
}

#[test]
fn what_is_remembered_is_not_changed_by_one_result() {
    for (remembered, known) in [(Some(&[("a", "up")][..]), Some("up")), (None, None)] {
        let mut clocked = Clocked::new(remembered);
        clocked.probing.change(vec![(flow(1), vec![probe(&["id=a", "check=tcp:80"])])], Duration::ZERO);
        assert_eq!(clocked.result().as_deref(), known);
        for wanted in [known, known, Some("down:refused")] {
            let asked = clocked.next_check();
            clocked.hear(&segment(&asked, 0, "R", &[])).unwrap();
            assert_eq!(clocked.result().as_deref(), wanted);
        }
    }
    // The database says so later.
    let mut clocked = Clocked::new(None);
    clocked.probing.change(vec![(flow(1), vec![probe(&["id=a", "check=tcp:80"])])], Duration::ZERO);
    let known = [(Id::from("a"), ProbeResult::Down("timeout".to_owned()))].into();
    clocked.probing.remember(Arc::new(known));
    assert_eq!(clocked.result().unwrap(), "down:timeout");
}

#[test]
fn a_probe_goes_with_its_last_flow_and_its_result_later() {
    let mut clocked = Clocked::with(&["id=a", "check=icmp"]);
    let request = clocked.next_check();
    clocked.hear(&echoed(&request)).unwrap();
    let results = |clocked: &mut Clocked| clocked.probing.results(clocked.now);
    let said = results(&mut clocked).unwrap();
    assert_eq!((said.probes.len(), said.others_go), (1, false));
    assert_eq!(said.probes.get("a"), Some(&Some(ProbeResult::Up)));
    assert_eq!(results(&mut clocked), None);
    clocked.probing.knows_all(clocked.now);
    // Another flow takes it over before the first one ends.
    let now = clocked.now;
    clocked.probing.change(vec![(flow(2), vec![probe(&["id=a", "check=icmp"])]), (flow(1), vec![])], now);
    assert_eq!((clocked.result().as_deref(), clocked.probing.flows.len()), (Some("up"), 1));
    // The same id, and something else to check: the next result decides.
    clocked.probing.change(vec![(flow(2), vec![probe(&["id=a", "check=tcp:80"])])], now);
    assert_eq!(clocked.result().as_deref(), Some("up"));
    let asked = clocked.next_check();
    clocked.hear(&segment(&asked, 0, "R", &[])).unwrap();
    assert_eq!(clocked.result().as_deref(), Some("down:refused"));
    let now = clocked.now;
    clocked.probing.change(vec![(flow(2), vec![])], now);
    let said = results(&mut clocked).unwrap();
    assert_eq!((said.probes.len(), said.others_go), (0, false));
    clocked.next();
    assert_eq!(clocked.now, now + GONE_AFTER);
    assert!(results(&mut clocked).unwrap().others_go);
    assert_eq!((results(&mut clocked), clocked.probing.next(clocked.now)), (None, None));
}

#[test]
fn probes_are_spread_paced_and_bounded() {
    let mut clocked = Clocked::new(Some(&[]));
    let many = |number: usize| probe(&[&format!("id=p{number}"), "check=tcp:80", "interval=10", "timeout=1"]);
    let changes = (0..PROBES_MAX + 5).map(|number| (flow(number as u32), vec![many(number)])).collect();
    clocked.probing.change(changes, Duration::ZERO);
    assert!(clocked.probing.is_full);
    assert_eq!(clocked.probing.probes.len(), PROBES_MAX);
    let mut each = vec![0; 10];
    while clocked.now < Duration::from_secs(10) {
        let begun = clocked.next().iter().filter(|frame| is_question(frame)).count();
        if let Some(count) = each.get_mut(clocked.now.as_secs() as usize) {
            *count += begun;
        }
    }
    assert!(each.iter().skip(1).all(|count| (60..180).contains(count)), "{each:?}");
    // A responder that was stopped for long has all due, and does not ask all at once.
    clocked.now += Duration::from_secs(100);
    while clocked.send().iter().all(|frame| !is_question(frame)) {
        clocked.now += Duration::from_millis(1);
    }
    assert!(clocked.sent.iter().filter(|frame| is_question(frame)).count() <= BURST);
    let before = clocked.now;
    clocked.next();
    assert!(clocked.now > before, "it does not spin");
}

/// Prints what probes cost: `cargo nextest run -p responder --run-ignored all costs --no-capture`.
#[test]
#[ignore = "a measurement"]
fn what_two_hundred_probes_each_second_cost() {
    for check in ["check=tcp:80", "check=icmp"] {
        let mut clocked = Clocked::new(Some(&[]));
        let many = |number: usize| {
            (flow(number as u32), vec![probe(&[&format!("id=p{number}"), check, "interval=1", "timeout=1"])])
        };
        clocked.probing.change((0..200).map(many).collect(), Duration::ZERO);
        let begun = std::time::Instant::now();
        let mut checks = 0;
        while clocked.now < Duration::from_secs(20) {
            let frames = clocked.next().clone();
            for frame in frames.iter().filter(|frame| is_question(frame)) {
                checks += 1;
                if check == "check=icmp" {
                    clocked.hear(&echoed(frame)).unwrap();
                } else {
                    clocked.hear(&segment(frame, 100, "S", &[])).unwrap();
                    let ended = clocked.sent.last().unwrap().clone();
                    clocked.hear(&segment(&ended, 101, "F", &[])).unwrap();
                }
            }
        }
        println!("{check}: {checks} checks, {:?} each", begun.elapsed() / checks);
    }
    println!("a probe takes {} bytes, a connection {}", size_of::<Running>(), size_of::<stream::Stream>());
}

proptest! {
    #[test]
    fn no_packet_ends_the_process(
        damages in vec((0..200_usize, any::<u8>()), 1..6), flags in "[SRF]{0,2}", payload in vec(any::<u8>(), 0..80),
        seq in prop_oneof![Just(100), Just(101), any::<u32>()]
    ) {
        let mut clocked = Clocked::with(&["id=a", "check=http:80:/"]);
        let asked = clocked.next_check();
        let _ = clocked.hear(&segment(&asked, 100, "S", &[]));
        let mut frame = segment(&asked, seq, &flags, &payload);
        let _ = clocked.hear(&frame);
        for (at, byte) in damages {
            let at = at % frame.len();
            frame[at] = byte;
            let _ = clocked.hear(&frame);
            // As if the headers were in order: damage behind them reaches the connection.
            let returned = Returned { conversation: Conversation { from: [10, 0, 0, 1].into(), to: [10, 0, 0, 9].into(), port: Some(80), own: 0 },
                packet: &frame[14..], payload: &[] };
            if let Some((_, attempt)) = clocked.probing.probes.get_mut("a").and_then(|running| running.attempt.as_mut()) {
                let _ = attempt.step(Some(&returned), clocked.now);
            }
        }
        for _ in 0..20 {
            clocked.next();
        }
    }
}
