//! The table of figures: Weft, the baseline, their ratio, the target, and whether it is met.

use crate::measure::Spread;

/// What is to be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Aim {
    /// Weft takes at most this multiple of the baseline, in the median of the pairs.
    Ratio(f64),
    /// Weft takes at most this, in the median of runs or in the worst case.
    AtMost(f64),
    /// Weft does at least this, in the median of runs.
    AtLeast(f64),
    /// No target; the figure explains another one.
    None,
}

/// One figure, or several that should be similar.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    what: String,
    digits: usize,
    ours: Spread,
    baseline: Option<(Spread, Spread)>,
    aim: Aim,
    /// Whether the target applies to the greatest.
    all: bool,
}

impl Line {
    /// A figure of both sides, run by run.
    pub(crate) fn compared(
        what: impl Into<String>,
        digits: usize,
        ours: Vec<f64>,
        baseline: Vec<f64>,
        aim: Aim,
    ) -> Self {
        let ratio = Spread::new(ours.iter().zip(&baseline).map(|(ours, baseline)| ours / baseline).collect());
        let baseline = Some((Spread::new(baseline), ratio));
        Line { what: what.into(), digits, ours: Spread::new(ours), baseline, aim, all: false }
    }

    /// A figure without a baseline.
    pub(crate) fn alone(what: impl Into<String>, digits: usize, ours: Vec<f64>, aim: Aim) -> Self {
        Line { what: what.into(), digits, ours: Spread::new(ours), baseline: None, aim, all: false }
    }

    /// A figure of many cases; the target applies to the worst of them.
    pub(crate) fn worst(what: impl Into<String>, digits: usize, ours: Vec<f64>, aim: Aim) -> Self {
        Line { all: true, ..Line::alone(what, digits, ours, aim) }
    }

    /// Whether the target is met, if there is one.
    fn met(&self) -> Option<bool> {
        let judged = if self.all { self.ours.greatest() } else { self.ours.median() };
        match self.aim {
            Aim::None => None,
            Aim::AtMost(most) => Some(judged <= most),
            Aim::AtLeast(least) => Some(self.ours.median() >= least),
            Aim::Ratio(most) => self.baseline.as_ref().map(|(_, ratio)| ratio.median() <= most),
        }
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = self.digits;
        write!(f, "| {} | {:.digits$} |", self.what, self.ours)?;
        match &self.baseline {
            Some((baseline, ratio)) => {
                let places = if ratio.median() < 0.1 { 5 } else { 2 };
                write!(f, " {baseline:.digits$} | {ratio:.places$} |")?;
            }
            None => write!(f, " | |")?,
        }
        match self.aim {
            Aim::Ratio(most) => write!(f, " ≤ {most} × |")?,
            Aim::AtMost(most) => write!(f, " ≤ {most} |")?,
            Aim::AtLeast(least) => write!(f, " ≥ {least} |")?,
            Aim::None => write!(f, " |")?,
        }
        match self.met() {
            Some(true) => write!(f, " yes |"),
            Some(false) => write!(f, " **no** |"),
            None => write!(f, " |"),
        }
    }
}

/// Prints lines as one table in Markdown.
pub(crate) fn print(title: &str, lines: &[Line]) {
    println!(
        "\n## {title}\n\n| figure | Weft | baseline | ratio | target | met |\n|---|---|---|---|---|---|"
    );
    for line in lines {
        println!("{line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_whether_its_aim_is_met() {
        let line = |aim| Line::compared("load, s", 1, vec![1.0, 3.0, 2.0], vec![4.0, 4.0, 4.0], aim);
        let expected = "| load, s | 2.0 (1.0–3.0) | 4.0 (4.0–4.0) | 0.50 (0.25–0.75) | ≤ 0.6 × | yes |";
        assert_eq!(line(Aim::Ratio(0.6)).to_string(), expected);
        assert!(line(Aim::Ratio(0.4)).to_string().ends_with("| ≤ 0.4 × | **no** |"));
        assert!(line(Aim::AtMost(1.0)).to_string().ends_with("| ≤ 1 | **no** |"));
        assert!(line(Aim::AtLeast(2.0)).to_string().ends_with("| ≥ 2 | yes |"));
        let alone = Line::alone("idle, ms", 0, vec![0.0], Aim::None).to_string();
        assert_eq!(alone, "| idle, ms | 0 (0–0) | | | | |");
    }
}
