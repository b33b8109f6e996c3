//! Layers that no tool would write, entry by entry.

#[derive(Debug, Clone)]
pub enum Kind {
    File,
    Folder,
    Symlink(String),
    Hardlink(String),
    Fifo,
    Device(u32, u32),
    Whiteout,
    Opaque,
}

#[derive(Debug, Clone)]
pub struct Member {
    pub path: String,
    pub kind: Kind,
    /// Made into attributes, so that each entry can be told from the others.
    pub number: u32,
}

pub fn tar(members: &[Member]) -> Vec<u8> {
    let mut out = tar::Builder::new(Vec::new());
    for member in members {
        append(&mut out, member);
    }
    out.into_inner().unwrap()
}

fn append(out: &mut tar::Builder<Vec<u8>>, member: &Member) {
    let number = member.number;
    let mut header = tar::Header::new_ustar();
    header.set_mode([0o755, 0o4711, 0o1777, 0o640][number as usize % 4]);
    header.set_uid(u64::from(number));
    header.set_gid(u64::from(number) + 1);
    header.set_mtime(1_000_000_000 + u64::from(number));
    header.set_size(0);
    let mut path = member.path.clone();
    let content = vec![b'x'; number as usize];
    match &member.kind {
        Kind::File => header.set_size(content.len() as u64),
        Kind::Folder => header.set_entry_type(tar::EntryType::Directory),
        Kind::Symlink(target) => {
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_link_name_literal(target).unwrap();
        }
        Kind::Hardlink(target) => {
            header.set_entry_type(tar::EntryType::Link);
            header.set_link_name_literal(target).unwrap();
        }
        Kind::Fifo => header.set_entry_type(tar::EntryType::Fifo),
        Kind::Device(major, minor) => {
            header.set_entry_type(tar::EntryType::Char);
            header.set_device_major(*major).unwrap();
            header.set_device_minor(*minor).unwrap();
        }
        Kind::Whiteout => {
            path = match path.rsplit_once('/') {
                Some((folder, name)) => format!("{folder}/.wh.{name}"),
                None => format!(".wh.{path}"),
            };
        }
        Kind::Opaque => path = format!("{path}/.wh..wh..opq"),
    }
    if matches!(member.kind, Kind::File | Kind::Folder) {
        let value = number.to_string();
        out.append_pax_extensions([("SCHILY.xattr.user.number", value.as_bytes())]).unwrap();
    }
    let data: &[u8] = if matches!(member.kind, Kind::File) { &content } else { b"" };
    out.append_data(&mut header, path, data).unwrap();
}
