//! The directory of a zip archive whose entries are stored as they are: where each lies in the file.
//!
//! PyTorch compresses nothing, so an entry can be mapped with its file. The directory lies at the end, found through a
//! record that comes last of all; every entry has a header of its own before its bytes. Archives above 4 GB have 64-bit
//! twins of these records. Checksums are not checked: that would read every byte before anyone asks for one.
//! <https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT>

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use crate::Error;
use crate::error::clip;
use crate::reader::Reader;

const END: &[u8; 4] = b"PK\x05\x06";
const END_64: &[u8; 4] = b"PK\x06\x06";
const LOCATOR_64: &[u8; 4] = b"PK\x06\x07";
const ENTRY: &[u8; 4] = b"PK\x01\x02";
const LOCAL: &[u8; 4] = b"PK\x03\x04";
/// The sizes of these records without the texts that follow some of them.
const END_SIZE: usize = 22;
const LOCATOR_64_SIZE: usize = 20;
const ENTRY_SIZE: usize = 46;
/// In a 32-bit field: look in the 64-bit one.
const ELSEWHERE: u64 = 0xffff_ffff;
/// The extra field with 64-bit sizes.
const SIZES_64: u16 = 1;

/// The entries of an archive and where their bytes lie.
pub(super) type Archive<'a> = BTreeMap<&'a str, Range<usize>>;

/// An entry as the directory describes it.
struct Entry<'a> {
    name: &'a str,
    compressed: u64,
    size: u64,
    header: u64,
}

pub(super) fn read<'a>(path: &'a Path, file: &'a [u8]) -> Result<Archive<'a>, Error> {
    let mut reader = Reader::new(path, "PyTorch zip", file);
    let (directory, count) = directory(&mut reader, file)?;
    let inside = &file[directory.clone()];
    let mut entries = Reader::new(path, "PyTorch zip", inside);
    let count = entries.count(count, ENTRY_SIZE, "entries")?;
    let mut archive = Archive::new();
    let mut places = Vec::new();
    for _ in 0..count {
        let entry = entry(&mut entries)?;
        let place = locate(&mut reader, &entry, directory.start)?;
        let start = usize::try_from(entry.header).unwrap_or(usize::MAX);
        places.push((start, place.end, entry.name));
        if archive.insert(entry.name, place).is_some() {
            return Err(reader.damaged(format!("entry {:?} appears twice", clip(entry.name))));
        }
    }
    places.sort_unstable();
    match places.iter().zip(places.iter().skip(1)).find(|((_, end, _), (start, _, _))| end > start) {
        None => Ok(archive),
        Some(((.., first), (.., second))) => {
            Err(reader.damaged(format!("entries {:?} and {:?} overlap", clip(first), clip(second))))
        }
    }
}

/// Where the directory lies, and how many entries it has.
fn directory(reader: &mut Reader, file: &[u8]) -> Result<(Range<usize>, u64), Error> {
    // A comment of up to 64 KiB may follow the last record, which says how long it is.
    let first = file.len().saturating_sub(END_SIZE + usize::from(u16::MAX));
    let is_end = |at: usize| {
        let rest = &file[at..];
        let comment = || usize::from(u16::from_le_bytes([rest[END_SIZE - 2], rest[END_SIZE - 1]]));
        rest.len() >= END_SIZE && rest.starts_with(END) && rest.len() == END_SIZE + comment()
    };
    let Some(end) = (first..file.len()).rev().find(|&at| is_end(at)) else {
        return Err(reader.damaged("the directory at the end of the zip archive is missing"));
    };
    reader.seek(end + 10);
    let (count, size) = (reader.u16("a count")?.into(), reader.u32("a size")?.into());
    let (mut count, mut size, mut start) = (count, size, u64::from(reader.u32("an offset")?));
    if let Some(locator) = end.checked_sub(LOCATOR_64_SIZE)
        && file[locator..].starts_with(LOCATOR_64)
    {
        reader.seek(locator + 8);
        let at = reader.u64("an offset")?;
        reader.seek(usize::try_from(at).unwrap_or(usize::MAX));
        if reader.take(4, "the 64-bit end record")? != END_64 {
            return Err(reader.damaged("the 64-bit end record is not where it should be"));
        }
        reader.take(28, "the 64-bit end record")?;
        (count, size, start) = (reader.u64("a count")?, reader.u64("a size")?, reader.u64("an offset")?);
    }
    match start.checked_add(size) {
        Some(stop) if stop <= end as u64 => Ok((start as usize..stop as usize, count)),
        _ => {
            Err(reader.damaged(format!("the directory of {size} bytes at {start} lies outside the archive")))
        }
    }
}

/// The next entry of the directory.
fn entry<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>, Error> {
    if reader.take(4, "an entry")? != ENTRY {
        return Err(reader.damaged("an entry of the directory does not begin as one"));
    }
    reader.take(4, "an entry")?;
    let (flags, method) = (reader.u16("flags")?, reader.u16("a method")?);
    reader.take(8, "an entry")?;
    let (mut compressed, mut size) = (reader.u32("a size")?.into(), reader.u32("a size")?.into());
    let (name, extra, comment) = (reader.u16("a length")?, reader.u16("a length")?, reader.u16("a length")?);
    reader.take(8, "an entry")?;
    let mut header = u64::from(reader.u32("an offset")?);
    let name = reader.text(name.into(), "the name of an entry")?;
    let mut extra = Reader::new(reader.path(), "PyTorch zip", reader.take(extra.into(), "an extra field")?);
    reader.take(comment.into(), "a comment")?;
    while extra.left() >= 4 {
        let (kind, length) = (extra.u16("a kind")?, extra.u16("a length")?);
        let mut field =
            Reader::new(reader.path(), "PyTorch zip", extra.take(length.into(), "an extra field")?);
        if kind == SIZES_64 {
            // The full size comes first, although the record has it second.
            for narrow in [&mut size, &mut compressed, &mut header] {
                if *narrow == ELSEWHERE {
                    *narrow = field.u64("a 64-bit size")?;
                }
            }
        }
    }
    if method != 0 || flags & 1 != 0 {
        let how = if method == 0 { "encrypted" } else { "compressed" };
        let reason = format!("entry {:?} of the zip archive is {how}", clip(name));
        return Err(
            reader.unsupported(reason, "save it again with torch.save, which stores entries as they are")
        );
    }
    Ok(Entry { name, compressed, size, header })
}

/// Where the bytes of an entry lie: behind its own header and before the directory.
fn locate(reader: &mut Reader, entry: &Entry, limit: usize) -> Result<Range<usize>, Error> {
    let Entry { name, compressed, size, header } = *entry;
    let name = clip(name);
    if compressed != size {
        return Err(reader.damaged(format!("entry {name:?} is stored in {compressed} bytes and has {size}")));
    }
    reader.seek(usize::try_from(header).unwrap_or(usize::MAX));
    if reader.take(4, "the header of an entry")? != LOCAL {
        return Err(reader.damaged(format!("entry {name:?} does not begin at byte {header}")));
    }
    reader.take(22, "the header of an entry")?;
    let (length, extra) = (reader.u16("a length")?, reader.u16("a length")?);
    if reader.take(length.into(), "the name of an entry")? != entry.name.as_bytes() {
        return Err(reader.damaged(format!("entry {name:?} has another name in its own header")));
    }
    reader.take(extra.into(), "an extra field")?;
    let range = reader.range(size, "an entry")?;
    if range.end > limit {
        return Err(reader.damaged(format!("entry {name:?} of {size} bytes runs into the directory")));
    }
    Ok(range)
}
