//! Replacements of values.

/// Another number: the next one; for a priority, one below or above all others.
pub(super) fn other_number(written: &str, is_priority: bool) -> Option<String> {
    let number = match written.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => written.parse().ok()?,
    };
    Some(match (is_priority, number) {
        (true, 0) => "1000".to_owned(),
        (true, _) => "1".to_owned(),
        (false, _) => (number + 1).to_string(),
    })
}

/// Another address, another member of an enumeration, or another text.
pub(super) fn other_string(written: &str) -> Option<String> {
    let (prefix, text) = written.strip_suffix('"')?.split_once('"')?;
    let other = match text {
        "all" => "unknown",
        "unknown" => "all",
        "flow" => "port",
        "port" => "flow",
        "geneve" => "vxlan",
        "vxlan" => "gre",
        "gre" => "geneve",
        "::" => "::1",
        _ => return other_text(prefix, text),
    };
    Some(format!("{prefix}\"{other}\""))
}

fn other_text(prefix: &str, text: &str) -> Option<String> {
    let (base, length) =
        text.split_once('/').map_or((text, String::new()), |(base, length)| (base, format!("/{length}")));
    let is_address = base.contains(':') || base.split('.').count() == 4;
    let last = base.chars().last()?;
    let other = match last {
        '0'..='8' | 'a'..='e' if is_address => char::from(last as u8 + 1),
        '9' | 'f' if is_address => '0',
        _ if is_address => return Some(format!("{prefix}\"{base}1{length}\"")),
        _ => return Some(format!("{prefix}\"{text}?\"")),
    };
    Some(format!("{prefix}\"{}{other}{length}\"", &base[..base.len() - 1]))
}

/// A prefix that is one bit shorter, such as `net"10.0.0.0/7"` for `net"10.0.0.0/8"`.
pub(super) fn wider_prefix(written: &str) -> Option<String> {
    let (before, length) = written.strip_suffix('"')?.rsplit_once('/')?;
    let length: u32 = length.parse().ok()?;
    Some(format!("{before}/{}\"", length.checked_sub(1)?))
}

/// A value and its mask without the mask's lowest bit; none if no bit would be left, or the mask is not a literal.
pub(super) fn wider_mask(value: &str, mask: &str) -> Option<(String, String)> {
    let bits = Literal::of(mask)?.bits;
    let wider = bits & (bits - 1);
    if wider == 0 {
        return None;
    }
    let masked = |text: &str| {
        Literal::of(text).map(|literal| Literal { bits: literal.bits & wider, ..literal }.text())
    };
    Some((masked(value).unwrap_or_else(|| value.to_owned()), masked(mask)?))
}

/// A number or a MAC address as bits.
struct Literal {
    bits: u64,
    is_mac: bool,
}

impl Literal {
    fn of(text: &str) -> Option<Literal> {
        if let Some(mac) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
            let digits = mac.replace(':', "");
            let bits = u64::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 12)?;
            return Some(Literal { bits, is_mac: true });
        }
        let number =
            text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u64::from_str_radix(digits, 16));
        Some(Literal { bits: number.ok()?, is_mac: false })
    }

    fn text(&self) -> String {
        if !self.is_mac {
            return format!("{:#x}", self.bits);
        }
        let [_, _, bytes @ ..] = self.bits.to_be_bytes();
        format!("\"{}\"", bytes.map(|byte| format!("{byte:02x}")).join(":"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_prefixes_lose_their_lowest_bit() {
        let wider = |value: &str, mask: &str| wider_mask(value, mask);
        assert_eq!(wider("0x1003", "0x1003"), Some(("0x1002".to_owned(), "0x1002".to_owned())));
        assert_eq!(wider("tag", "6"), Some(("tag".to_owned(), "0x4".to_owned())));
        let (value, mask) = ("\"00:00:00:00:00:00\"", "\"03:00:00:00:00:00\"");
        assert_eq!(wider(value, mask), Some((value.to_owned(), mask.replace("03", "02"))));
        assert_eq!(wider("1", "1"), None);
        assert_eq!(wider("1", "mask"), None);
        assert_eq!(wider_prefix("net\"ff00::/8\""), Some("net\"ff00::/7\"".to_owned()));
        assert_eq!(wider_prefix("net\"0.0.0.0/0\""), None);
        assert_eq!(wider_prefix("\"text\""), None);
    }
}
