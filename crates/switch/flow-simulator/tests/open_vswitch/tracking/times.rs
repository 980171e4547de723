//! How long connections last.

use std::time::Duration;

use super::packets::*;
use super::{Both, lines};

impl Both {
    fn wait(&mut self, seconds: u64) {
        if seconds == 0 {
            return;
        }
        self.bridge.advance(Duration::from_secs(seconds));
        self.switch.call("time/warp", &[&(seconds * 1000).to_string(), &(seconds * 1000).to_string()]);
        self.switch.call("version", &[]);
    }

    /// Whether a packet finds its connection after so many seconds.
    #[track_caller]
    fn lasts(&mut self, seconds: u64, port: u16, frame: &[u8]) -> bool {
        self.wait(seconds);
        let said = self.says("later", port, frame);
        assert!(said.contains("+trk"), "{said}");
        said.contains("mark")
    }
}

#[test]
fn connections_end_after_the_time_of_their_state() {
    let mut both = Both::start();
    let flows = lines(&[
        "ip actions=ct(table=1,zone=5)",
        "table=1,priority=2,ip,ct_state=+new-inv actions=resubmit(,90),ct(commit,zone=5,exec(set_field:1->ct_mark))",
        "table=1,priority=1 actions=resubmit(,90)",
    ]);
    let udp = (AB.frame(&AB.udp(7, 8)), BA.frame(&BA.udp(8, 7)));
    let echo = (AB.frame(&AB.echo(false, 3)), BA.frame(&BA.echo(true, 3)));
    // Unanswered for a minute, then for half of one.
    for (ask, answer) in [udp, echo] {
        both.load(&flows).expect("taken");
        assert!(!both.lasts(0, 1, &ask));
        assert!(both.lasts(57, 1, &ask));
        assert!(both.lasts(57, 2, &answer));
        assert!(both.lasts(27, 1, &ask));
        assert!(!both.lasts(33, 1, &ask));
        assert!(!both.lasts(63, 1, &ask));
    }
    let segment = |pair: Pair, flags, sequence, acknowledged| {
        let ports = if pair == AB { (7, 80) } else { (80, 7) };
        pair.frame(&pair.tcp(Segment::new(ports, flags, sequence, acknowledged)))
    };
    both.load(&flows).expect("taken");
    assert!(!both.lasts(0, 1, &segment(AB, SYN, 100, 0)));
    assert!(both.lasts(27, 1, &segment(AB, SYN, 100, 0)));
    assert!(both.lasts(27, 2, &segment(BA, SYN | ACK, 500, 101)));
    assert!(both.lasts(27, 1, &segment(AB, ACK, 101, 501)));
    assert!(both.lasts(86_390, 1, &segment(AB, ACK, 101, 501)));
    assert!(both.lasts(0, 1, &segment(AB, FIN | ACK, 101, 501)));
    assert!(both.lasts(890, 2, &segment(BA, ACK, 501, 101)));
    assert!(both.lasts(0, 2, &segment(BA, FIN | ACK, 501, 101)));
    assert!(both.lasts(42, 1, &segment(AB, ACK, 101, 501)));
    assert!(!both.lasts(48, 1, &segment(AB, ACK, 101, 501)));
    assert!(!both.lasts(33, 1, &segment(AB, ACK, 101, 501)));
}
