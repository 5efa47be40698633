//! Files that are written.

use std::fs;

use cuda_um_testkit::{again, is_child};
use safetensors::SafeTensors;
use um_backend::sim::Gpu;
use um_backend::{BufferKind, DType};
use um_weights::{Error, LoadOptions, Save, Weights};

use crate::support::{Folder, Storage, backend, byte, load_all, machine, safetensors};

#[test]
fn a_file_of_buffers_of_each_kind_is_read_back_by_both() {
    for gpu in [Gpu::H200, Gpu::Gh200, Gpu::NoConcurrentAccess] {
        let (_sim, backend) = machine(gpu);
        let folder = Folder::new();
        let path = folder.file("model.safetensors", b"old");
        let buffers = BufferKind::ALL.map(|kind| {
            let mut buffer = backend.create_erased(kind, DType::F32, 30_000).unwrap();
            buffer
                .typed_mut::<f32>()
                .unwrap()
                .fill_range(10..20_000, 1.5)
                .unwrap();
            buffer
        });
        let loaded = safetensors(&[("z.byte", "U8", &[7], 7), ("packed", "F4", &[2, 3], 3)]);
        let loaded = Storage::of(loaded).open().1.unwrap();
        let tensors = loaded
            .load(&backend, BufferKind::Cuda, &LoadOptions::default())
            .unwrap();
        let mut save = Save::new();
        save.metadata("format", "pt");
        for (kind, buffer) in BufferKind::ALL.iter().zip(&buffers) {
            save.buffer(&kind.to_string(), &[100, 300], buffer).unwrap();
        }
        save.tensor(&tensors["packed"]).unwrap();
        save.tensor(&tensors["z.byte"]).unwrap();
        save.write(&path).unwrap();
        assert_eq!(folder.names(), ["model.safetensors"]);

        let bytes = fs::read(&path).unwrap();
        let theirs = SafeTensors::deserialize(&bytes).unwrap();
        for kind in BufferKind::ALL {
            let tensor = theirs.tensor(&kind.to_string()).unwrap();
            assert_eq!(tensor.shape(), [100, 300]);
            let right = |at: usize| {
                if (10..20_000).contains(&at) {
                    1.5f32
                } else {
                    0.0
                }
            };
            let found = tensor
                .data()
                .chunks(4)
                .map(|f| f32::from_le_bytes(f.try_into().unwrap()));
            assert!(
                found.enumerate().all(|(at, found)| found == right(at)),
                "{kind}"
            );
        }
        let ours = Weights::open([&path]).unwrap();
        assert_eq!(ours.metadata()["format"], "pt");
        assert!(ours.tensors()[0].offset().is_multiple_of(256));
        let back = load_all(&ours, &backend, BufferKind::Host);
        let bytes_of = |name: &str| &back.iter().find(|(found, _)| found == name).unwrap().1;
        assert_eq!(
            *bytes_of("z.byte"),
            (0..7).map(|at| byte(0, at)).collect::<Vec<_>>()
        );
        assert_eq!(
            *bytes_of("packed"),
            (0..3).map(|at| byte(1, at)).collect::<Vec<_>>()
        );
        assert_eq!(ours.tensor("packed").unwrap().dtype_name(), "F4");
    }
}

#[test]
fn what_safetensors_cannot_hold_is_refused() {
    let backend = backend();
    let opaque = backend
        .create_erased(BufferKind::Host, DType::Opaque(18), 2)
        .unwrap();
    let four = backend
        .create_erased(BufferKind::Host, DType::U8, 4)
        .unwrap();
    let mut save = Save::new();
    save.buffer("twice", &[4], &four).unwrap();
    for (name, shape, buffer, reason) in [
        ("t", &[2][..], &opaque, "have no type opaque18"),
        ("t", &[5], &four, "does not have the bytes of the buffer: 4"),
        (
            "t",
            &[usize::MAX, 2],
            &four,
            "does not have the bytes of the buffer: 4",
        ),
        ("twice", &[4], &four, "has this name already"),
        ("__metadata__", &[4], &four, "has this name already"),
    ] {
        let error = save.buffer(name, shape, buffer).unwrap_err();
        assert!(
            matches!(&error, Error::Refused { reason: found, .. } if found.contains(reason)),
            "{error}"
        );
    }
}

#[test]
fn a_failed_save_leaves_no_file() {
    let folder = Folder::new();
    let error = Save::new().write(folder.path("none/model")).unwrap_err();
    assert!(
        matches!(&error, Error::File { call: "create", .. }),
        "{error}"
    );
    let error = Save::new().write(folder.path("")).unwrap_err();
    assert!(
        matches!(&error, Error::File { call: "open", .. }),
        "{error}"
    );
    assert!(folder.names().is_empty());
}

/// In a process of its own, whose files may not grow beyond 64 KiB: the system's answer is that of a full disk, with another number.
#[test]
fn a_full_disk_leaves_the_old_file() {
    if !is_child() {
        let done = again("save::a_full_disk_leaves_the_old_file")
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stdout)
        );
        return;
    }
    let backend = backend();
    let folder = Folder::new();
    let path = folder.file("model.safetensors", b"old");
    let large = backend
        .create_erased(BufferKind::Cuda, DType::U8, 4 << 20)
        .unwrap();
    let limit = libc::rlimit {
        rlim_cur: 64 << 10,
        rlim_max: 64 << 10,
    };
    // SAFETY: the calls have effects on this process only, which runs only this test.
    #[allow(unsafe_code, reason = "limits the size of files")]
    unsafe {
        assert_ne!(libc::signal(libc::SIGXFSZ, libc::SIG_IGN), libc::SIG_ERR);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    let mut save = Save::new();
    save.buffer("large", &[4 << 20], &large).unwrap();
    let error = save.write(&path).unwrap_err();
    assert!(
        matches!(&error, Error::File { call: "write", source, .. } if source.raw_os_error() == Some(libc::EFBIG)),
        "{error}"
    );
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["model.safetensors"]);
}

#[cfg(unix)]
#[test]
fn a_save_replaces_only_regular_files_and_keeps_their_mode_and_links() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let folder = Folder::new();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let kept = folder.file("kept", b"old");
    let link = folder.path("link");
    for bits in [0o600, 0o640, 0o755] {
        fs::set_permissions(&kept, fs::Permissions::from_mode(bits)).unwrap();
        Save::new().write(&kept).unwrap();
        assert_eq!(mode(&kept), bits);
    }
    symlink("kept", &link).unwrap();
    symlink("new", folder.path("dangling")).unwrap();
    fs::write(&kept, b"old").unwrap();
    Save::new().write(&link).unwrap();
    Save::new().write(folder.path("dangling")).unwrap();
    assert!(Weights::open([&kept]).is_ok() && mode(&kept) == 0o755);
    assert!(Weights::open([folder.path("new")]).is_ok());
    assert!(fs::read_link(&link).is_ok() && fs::read_link(folder.path("dangling")).is_ok());

    let locked = folder.file("locked", b"old");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o444)).unwrap();
    make_fifo(&folder.path("fifo"));
    symlink("/dev/null", folder.path("device")).unwrap();
    symlink("round", folder.path("round")).unwrap();
    let before = folder.names();
    for (name, reason) in [
        ("locked", "it is read-only"),
        ("fifo", "it is a FIFO"),
        ("device", "it is a device"),
        ("", "it is a folder"),
        ("round", "symbolic links"),
    ] {
        let error = Save::new().write(folder.path(name)).unwrap_err();
        assert!(
            matches!(&error, Error::File { call: "open", source, .. } if source.to_string().contains(reason)),
            "{error}"
        );
    }
    assert_eq!(folder.names(), before);
    assert_eq!(fs::read(&locked).unwrap(), b"old");
}

/// No process that is killed leaves it.
#[cfg(target_os = "linux")]
#[test]
fn a_new_file_never_has_a_hidden_name() {
    let folder = Folder::new();
    let path = std::ffi::CString::new(folder.path("").to_str().unwrap()).unwrap();
    let mut events = [0; 4096];
    // SAFETY: the path ends, and the events fit into so many bytes.
    #[allow(unsafe_code, reason = "watches a folder")]
    let (read, size) = unsafe {
        let watch = libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK);
        assert!(libc::inotify_add_watch(watch, path.as_ptr(), libc::IN_CREATE) >= 0);
        Save::new().write(folder.path("new")).unwrap();
        let read = libc::read(watch, events.as_mut_ptr().cast(), events.len());
        libc::close(watch);
        (read, size_of::<libc::inotify_event>())
    };
    // One event, whose name comes last.
    assert!(read as usize > size, "{read}");
    let name = events[size..read as usize].split(|byte| *byte == 0).next();
    assert_eq!(name.unwrap(), b"new");
}

/// Its sync after the rename would be an error.
#[cfg(target_os = "linux")]
#[test]
fn a_save_needs_no_right_to_read_the_folder() {
    use std::os::unix::fs::{PermissionsExt, chown};

    const NOBODY: u32 = 65534;
    let folder = Folder::new();
    let path = folder.file("model.safetensors", b"old");
    for path in [&folder.path(""), &path] {
        // Only root may.
        let _ = chown(path, Some(NOBODY), Some(NOBODY));
    }
    let allow = |mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path(""), mode).unwrap();
    };
    allow(0o300);
    let saved = std::thread::scope(|threads| {
        let save = || {
            // SAFETY: the call has effects on this thread only. Another user than root does not change.
            #[allow(unsafe_code, reason = "gives up the rights of root")]
            unsafe {
                libc::setfsuid(NOBODY)
            };
            Save::new().write(&path)
        };
        threads.spawn(save).join().unwrap()
    });
    allow(0o700);
    saved.unwrap();
    assert_eq!(folder.names(), ["model.safetensors"]);
    assert!(Weights::open([&path]).is_ok());
}

#[cfg(unix)]
fn make_fifo(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.unwrap().success());
}

/// A signal ends the process within a write, as its file grows beyond 64 KiB.
#[cfg(target_os = "linux")]
#[test]
fn a_save_that_a_signal_ends_leaves_no_file() {
    if let Ok(path) = std::env::var("SAVED") {
        let backend = backend();
        let large = backend
            .create_erased(BufferKind::Host, DType::U8, 4 << 20)
            .unwrap();
        let (rlim_cur, rlim_max) = (64 << 10, 64 << 10);
        // SAFETY: the call has effects on this process only, which runs only this test.
        #[allow(unsafe_code, reason = "limits the size of files")]
        unsafe {
            assert_eq!(
                libc::setrlimit(libc::RLIMIT_FSIZE, &libc::rlimit { rlim_cur, rlim_max }),
                0
            );
        }
        let mut save = Save::new();
        save.buffer("large", &[4 << 20], &large).unwrap();
        panic!("not ended: {:?}", save.write(path));
    }
    use std::os::unix::process::ExitStatusExt;
    let folder = Folder::new();
    let path = folder.file("model.safetensors", b"old");
    let mut child = again("save::a_save_that_a_signal_ends_leaves_no_file");
    let done = child.env("SAVED", &path).output().unwrap();
    assert_eq!(done.status.signal(), Some(libc::SIGXFSZ), "{done:?}");
    assert_eq!(folder.names(), ["model.safetensors"]);
    assert_eq!(fs::read(&path).unwrap(), b"old");
}
