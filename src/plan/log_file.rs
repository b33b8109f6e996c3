//! The file that a command logs to, and whether its user can write it.

use crate::layer::RootPath;
use crate::process::Container;
use crate::rootfs::Root;

/// The flags of klog and of the log runners that name one file.
const FLAGS: [&str; 4] = ["--log-file", "--log_file", "-log-file", "-log_file"];

/// The directory of the log file that the command names. `None` where there is none, where it is a
/// device, and where a volume will be mounted over it.
pub(super) fn directory(container: &Container) -> Option<RootPath> {
    let argv = container.command.argv();
    let file = argv.iter().enumerate().find_map(|(at, word)| {
        let (flag, value) = word.split_once('=').map_or((word.as_str(), None), |(flag, value)| (flag, Some(value)));
        let value = value.or_else(|| argv.get(at + 1).map(String::as_str));
        FLAGS.contains(&flag).then_some(value).flatten()
    })?;
    let directory = RootPath::new(file).ok().filter(|_| file.starts_with('/'))?.parent()?;
    let is_device = matches!(directory.components().next(), Some(b"dev" | b"proc" | b"sys"));
    (!is_device && !is_mounted(container, &directory)).then_some(directory)
}

fn is_mounted(container: &Container, directory: &RootPath) -> bool {
    let volumes = container.members.get("Volumes").and_then(serde_json::Value::as_object);
    let mut volumes = volumes.into_iter().flat_map(|volumes| volumes.keys()).filter_map(|key| RootPath::new(key).ok());
    volumes.any(|volume| directory.is_within(&volume))
}

/// Whether a process with these numbers can make a file in the directory.
pub(super) fn can_write(root: &Root<'_>, directory: &RootPath, uid: u64, gid: u64) -> bool {
    let Ok(found) = root.resolve(directory) else { return false };
    let bits = match found.node {
        _ if uid == 0 => return true,
        node if node.uid() == uid => node.mode() >> 6,
        node if node.gid() == gid => node.mode() >> 3,
        node => node.mode(),
    };
    bits & 0o3 == 0o3
}
