//! `weft top`: what a controller does at this moment, from two looks at its metrics.

mod screen;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use clap::Args;

use crate::client::{Address, failed};
use crate::exit::{Failure, print_as};
use screen::{Look, Rates};

/// Clears a terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Arguments of `weft top`.
#[derive(Args)]
#[command(after_help = "Examples:\n  \
        weft top                        a screen, until you press Ctrl-C\n  \
        weft top -n 1 --interval 10     what happens within ten seconds, once\n  \
        weft top -n 1 --json            the same for scripts\n\n\
        Requests and calls are a second, times are means, and the load of a stage or a rule is the\n\
        share of the time that the engine spends there; in `queue` and `confirm`, others spend it.\n\
        It needs the role viewer or operator.")]
pub(crate) struct Top {
    /// Seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, value_parser = seconds)]
    interval: f64,
    /// Print so many screens [default: no end on a terminal, else 1]
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// Lines of each list
    #[arg(long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Print JSON, an object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

/// A time between two looks.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number of seconds".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err("use 0.1 to 3600 seconds".to_owned()) }
}

impl Top {
    /// Runs the command.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let is_screen = self.count.is_none() && !self.json && io::stdout().is_terminal();
        let count = self.count.unwrap_or(if is_screen { u64::MAX } else { 1 });
        let interval = Duration::from_secs_f64(self.interval);
        self.address.with(|mut client| async move {
            let mut before: Option<(Look, Instant)> = None;
            let mut printed = 0;
            while printed < count {
                let text = client.metrics().await.map_err(failed)?;
                let text = text.ok_or_else(|| {
                    Failure::Outside("this controller has no metrics; use a newer one".to_owned())
                })?;
                let now = (Look::of(&text), Instant::now());
                if let Some((look, at)) = &before {
                    let rates = Rates::between(look, &now.0, now.1.duration_since(*at));
                    let text = if self.json { rates.json(self.lines) } else { rates.screen(self.lines) };
                    print_as(self.json, &if is_screen { format!("{CLEAR}{text}") } else { text })?;
                    printed += 1;
                }
                before = Some(now);
                if printed < count {
                    tokio::time::sleep(interval).await;
                }
            }
            Ok(())
        })
    }
}
