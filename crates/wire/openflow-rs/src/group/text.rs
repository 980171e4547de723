//! Groups in the notation of `ovs-ofctl`.

use std::fmt;
use std::str::FromStr;

use super::{Bucket, GroupCommand, GroupEntry, GroupKind, GroupMod, Selection};
use crate::action::next_call;
use crate::field::text::int;
use crate::flow::ANY_GROUP;
use crate::{ParseError, PortNo};

impl fmt::Display for GroupEntry {
    /// Writes the group as `ovs-ofctl dump-groups` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group_id={},type={}", self.id, self.kind.name())?;
        if let Some(selection) = &self.selection {
            selection.fmt(f)?;
        }
        self.write_buckets(f)
    }
}

impl GroupEntry {
    fn write_buckets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for bucket in &self.buckets {
            write!(f, ",bucket=bucket_id:{},", bucket.id)?;
            if bucket.weight != self.kind.default_weight() {
                write!(f, "weight:{},", bucket.weight)?;
            }
            if bucket.watch_port != PortNo::ANY {
                write!(f, "watch_port:{},", bucket.watch_port)?;
            }
            if bucket.watch_group != ANY_GROUP {
                write!(f, "watch_group:{},", bucket.watch_group)?;
            }
            write!(f, "actions={}", bucket.actions)?;
        }
        Ok(())
    }
}

impl fmt::Display for GroupMod {
    /// Writes the change as `ovs-ofctl` prints it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.command.name())?;
        if !matches!(self.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket) {
            return self.group.fmt(f);
        }
        match self.bucket {
            Bucket::FIRST => f.write_str("command_bucket_id:first,")?,
            Bucket::LAST => f.write_str("command_bucket_id:last,")?,
            Bucket::ALL => f.write_str("command_bucket_id:all,")?,
            id => write!(f, "command_bucket_id:{id},")?,
        }
        write!(f, "group_id={}", self.group.id)?;
        self.group.write_buckets(f)
    }
}

impl FromStr for GroupEntry {
    type Err = ParseError;

    /// Reads what `Display` writes. Buckets without a number are numbered by their place.
    fn from_str(text: &str) -> Result<GroupEntry, ParseError> {
        let (head, buckets) = match text.split_once("bucket=") {
            Some((head, buckets)) => (head, buckets.split(",bucket=").collect()),
            None => (text, Vec::new()),
        };
        let (mut id, mut kind) = (None, None);
        let (mut method, mut param, mut fields) = (None, None, None);
        let mut rest = head;
        while let Some(part) = next_call(&mut rest)? {
            match part.name {
                "group_id" => id = Some(number(part.arg, GroupEntry::ID_MAX, "group id")?),
                "type" => {
                    let named = GroupKind::ALL.into_iter().find(|kind| kind.name() == part.arg);
                    let bad = || ParseError::value(part.arg, "kind of group: all, select, indirect or ff");
                    kind = Some(named.ok_or_else(bad)?);
                }
                "selection_method" => method = Some(part.arg),
                "selection_method_param" => param = Some(part.arg),
                "fields" => fields = Some(part.arg),
                _ => {
                    let expected = "property of a group: group_id, type, selection_method, \
                                    selection_method_param, fields or bucket";
                    return Err(ParseError::value(part.text, expected));
                }
            }
        }
        let missing = |name: &str| ParseError::MissingValue { name: name.to_owned() };
        let id = id.ok_or_else(|| missing("group_id"))?;
        let kind: GroupKind = kind.ok_or_else(|| missing("type"))?;
        let selection = Selection::read(method, param, fields)?;
        if selection.is_some() && kind != GroupKind::Select {
            return Err(ParseError::value(kind.name(), "type of a group with a selection method: select"));
        }
        let buckets = (0_u32..).zip(buckets).map(|(place, text)| bucket(text, place, kind));
        Ok(GroupEntry { selection, ..GroupEntry::new(id, kind, buckets.collect::<Result<_, _>>()?) })
    }
}

fn number(text: &str, max: u32, expected: &'static str) -> Result<u32, ParseError> {
    let number: u32 = int(text, expected)?;
    if number > max { Err(ParseError::value(text, expected)) } else { Ok(number) }
}

/// Reads what follows `bucket=`.
fn bucket(text: &str, place: u32, kind: GroupKind) -> Result<Bucket, ParseError> {
    let no_actions = || ParseError::MissingValue { name: "actions".to_owned() };
    let (head, actions) = text.split_once("actions=").ok_or_else(no_actions)?;
    let mut bucket = Bucket { weight: kind.default_weight(), ..Bucket::new(place, actions.parse()?) };
    let mut rest = head;
    while let Some(part) = next_call(&mut rest)? {
        match part.name {
            "bucket_id" => bucket.id = number(part.arg, Bucket::ID_MAX, "bucket id")?,
            "weight" if kind == GroupKind::Select => bucket.weight = int(part.arg, "weight, at most 65535")?,
            "watch_port" => bucket.watch_port = part.arg.parse()?,
            "watch_group" => bucket.watch_group = number(part.arg, GroupEntry::ID_MAX, "group id")?,
            _ => {
                let expected =
                    "property of a bucket: bucket_id, weight (of select groups), watch_port, watch_group";
                return Err(ParseError::value(part.text, expected));
            }
        }
    }
    Ok(bucket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_read_as_they_print() {
        for text in [
            "group_id=10,type=all",
            "group_id=11,type=all,bucket=bucket_id:1,actions=set_field:0x102->tun_id,output:200,bucket=bucket_id:2,actions=resubmit(,3)",
            "group_id=12,type=select,bucket=bucket_id:1,weight:5,actions=output:2,bucket=bucket_id:3,watch_port:4,actions=output:4",
            "group_id=13,type=ff,bucket=bucket_id:0,watch_port:5,actions=output:5,bucket=bucket_id:1,watch_group:11,actions=group:11",
            "group_id=14,type=indirect,bucket=bucket_id:0,actions=drop",
            "group_id=15,type=select,selection_method=hash,bucket=bucket_id:1,weight:0,actions=output:2",
            "group_id=16,type=select,selection_method=dp_hash,selection_method_param=18446744073709551615",
            "group_id=17,type=select,selection_method=hash,fields=ipv6_dst=ffff::,bucket=bucket_id:1,actions=output:2",
            "group_id=18,type=select,selection_method=hash,selection_method_param=5,fields(reg0=0xff,ip_src=255.255.255.0,nw_proto,tcp_dst=256),bucket=bucket_id:1,actions=group:2",
        ] {
            assert_eq!(text.parse::<GroupEntry>().map(|group| group.to_string()), Ok(text.to_owned()));
        }
        let numbered: GroupEntry = "group_id=1,type=all,bucket=actions=1,bucket=actions=2".parse().unwrap();
        assert_eq!(numbered.buckets.iter().map(|bucket| bucket.id).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn what_is_no_group_is_refused() {
        for text in [
            "",
            "group_id=1",
            "type=all",
            "group_id=4294967295,type=all",
            "group_id=1,type=many",
            "group_id=1,type=all,bucket=bucket_id:4294967295,actions=drop",
            "group_id=1,type=all,bucket=weight:5,actions=drop",
            "group_id=1,type=all,bucket=output:1",
            "group_id=1,type=all,nonsense",
            "group_id=1,type=all,selection_method=hash",
            "group_id=1,type=select,selection_method=random",
            "group_id=1,type=select,selection_method_param=1",
            "group_id=1,type=select,fields=ip_src",
            "group_id=1,type=select,selection_method=dp_hash,fields=ip_src",
            "group_id=1,type=select,selection_method=hash,selection_method_param=many",
            "group_id=1,type=select,selection_method=hash,fields(ip_src,nw_src)",
            "group_id=1,type=select,selection_method=hash,fields=ip_src=0.0.0.0",
            "group_id=1,type=select,selection_method=hash,fields=nw_proto=1",
            "group_id=1,type=select,selection_method=hash,fields=nonsense",
            "group_id=1,type=select,selection_method=hash,fields=tun_metadata0",
            "group_id=1,type=all,bucket=actions=nonsense",
        ] {
            assert!(text.parse::<GroupEntry>().is_err(), "{text}");
        }
    }
}
