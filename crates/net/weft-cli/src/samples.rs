//! The samples of a text of metrics, in either format: <https://prometheus.io/docs/instrumenting/exposition_formats/>.

/// A sample: `name{label="value",…} number`, and perhaps a time or an exemplar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample<'a> {
    pub(crate) name: &'a str,
    pub(crate) labels: Vec<(&'a str, String)>,
    /// The rest of the line without an exemplar: the number, and perhaps a time.
    pub(crate) rest: &'a str,
}

impl<'a> Sample<'a> {
    /// Reads a line. `None` if it is no sample.
    pub(crate) fn read(line: &'a str) -> Option<Sample<'a>> {
        if line.starts_with('#') {
            return None;
        }
        let Some((name, mut rest)) = line.split_once('{') else {
            let (name, rest) = line.split_once(' ')?;
            return Some(Sample { name, labels: Vec::new(), rest: without_exemplar(rest) });
        };
        let mut labels = Vec::new();
        loop {
            if let Some(end) = rest.strip_prefix('}') {
                return Some(Sample { name, labels, rest: without_exemplar(end).trim_start() });
            }
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label, value));
            rest = after.strip_prefix(',').unwrap_or(after);
        }
    }

    /// The number.
    pub(crate) fn number(&self) -> Option<f64> {
        self.rest.split(' ').next()?.parse().ok()
    }
}

fn without_exemplar(text: &str) -> &str {
    text.split(" # ").next().unwrap_or(text)
}

/// A value up to its closing quote, and what comes after that.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_a_name_labels_and_a_number() {
        let line = r#"a_total{x="1",y="a\"}, # b"} 2.5 # {trace_id="ab"} 1.0"#;
        let sample = Sample::read(line).unwrap();
        assert_eq!((sample.name, sample.rest), ("a_total", "2.5"));
        assert_eq!(sample.labels, [("x", "1".to_owned()), ("y", "a\"}, # b".to_owned())]);
        let plain = Sample::read("b 3 1700").unwrap();
        assert_eq!((plain.name, plain.number(), plain.labels.len()), ("b", Some(3.0), 0));
        assert_eq!(
            [Sample::read("# TYPE b gauge"), Sample::read("c{x=\"1"), Sample::read("")],
            [None, None, None]
        );
    }
}
