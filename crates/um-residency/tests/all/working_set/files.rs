//! Homes in files.

use super::*;

#[test]
fn a_file_is_read_and_written_back() {
    each_machine(|machine| {
        let (arena, stream) = (machine.arena(2), &machine.stream);
        let elements: Vec<u32> = (0..SLOT as u32 + 5).collect();
        let path = tempfile::NamedTempFile::new().unwrap();
        path.as_file()
            .write_all(bytemuck::cast_slice(&elements))
            .unwrap();
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(path.path())
                .unwrap()
        };
        let from = Homed::<u32>::from_file(&arena, open(), (4, SLOT), Role::ReadWrite).unwrap();
        let guard = working_set(stream, Input(&from)).unwrap();
        assert_eq!(guard.to_vec().unwrap(), elements[1..=SLOT]);
        drop(guard);
        working_set(stream, InOut(&from))
            .unwrap()
            .view_mut()
            .fill_on(8, stream)
            .unwrap();
        from.write_back().unwrap();
        let mut bytes = Vec::new();
        open().read_to_end(&mut bytes).unwrap();
        let found: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
        assert_eq!(
            (found[0], found[1], found[SLOT], found[SLOT + 1]),
            (0, 8, 8, SLOT as u32 + 1)
        );
        let refused =
            Homed::<u32>::from_file(&arena, open(), (8, SLOT + 4), Role::ReadOnly).unwrap_err();
        assert!(matches!(refused, CudaError::Io { .. }), "{refused}");
    });
}

/// A home is a regular file that transfers can read, and write at their place.
#[test]
#[cfg(unix)]
fn a_file_that_is_opened_in_another_way_is_no_home() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(1);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * MIB).unwrap();
    let made = |file: File, role| Homed::<u32>::from_file(&arena, file, (0, 4), role);
    let refused = |file: File, role, because: &str| {
        let refused = made(file, role).unwrap_err();
        assert!(refused.to_string().contains(because), "{refused}");
        assert!(
            matches!(&refused, CudaError::Io { source, .. } if source.kind() == ErrorKind::InvalidInput),
            "{refused}"
        );
    };
    let open = |options: &mut OpenOptions| options.open(file.path()).unwrap();
    for role in [Role::ReadOnly, Role::ReadWrite, Role::Scratch] {
        let append = open(OpenOptions::new().read(true).append(true));
        refused(append, role, "`append(true)`");
        let write_only = open(OpenOptions::new().write(true));
        refused(write_only, role, "not open for reading");
        refused(File::open("/").unwrap(), role, "a regular file");
        refused(File::open("/dev/zero").unwrap(), role, "a regular file");
        made(open(OpenOptions::new().read(true).write(true)), role).unwrap();
        match role {
            Role::ReadOnly => drop(made(open(OpenOptions::new().read(true)), role).unwrap()),
            _ => refused(
                open(OpenOptions::new().read(true)),
                role,
                "not open for writing",
            ),
        }
    }
}

/// The host writes no part of a file that became too short: zeros would take the place of the other elements.
#[test]
fn a_part_is_not_written_to_a_file_that_became_shorter() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(1);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * MIB).unwrap();
    let home = file.reopen().unwrap();
    let mut buffer = Homed::<u32>::from_file(&arena, home, (0, SLOT), Role::ReadWrite).unwrap();
    file.as_file().set_len(MIB).unwrap();
    let refused = buffer.copy_from_host_at(SLOT - 1, &[9]).unwrap_err();
    assert!(refused.to_string().contains("bytes now"), "{refused}");
    assert_eq!(file.as_file().metadata().unwrap().len(), MIB);
}

/// A file that became too short fails its set, which then holds nothing.
#[test]
fn a_failed_read_leaves_the_arena_as_it_was() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(2 * MIB).unwrap();
    let from =
        Homed::<u32>::from_file(&arena, file.reopen().unwrap(), (0, SLOT), Role::ReadOnly).unwrap();
    let other = homed(&arena, 4, 1, Role::ReadWrite);
    file.as_file().set_len(MIB).unwrap();
    let refused = working_set(stream, (InOut(&other), Input(&from))).unwrap_err();
    assert!(
        matches!(refused, Error::Cuda(CudaError::Io { .. })),
        "{refused}"
    );
    assert!(!from.is_resident());
    // The old elements were not transferred, and no work wrote new ones.
    drop(working_set(stream, InOut(&other)).unwrap());
    let scratch = homed(&arena, 5, 1, Role::Scratch);
    for buffer in [&other, &scratch] {
        let away = homed(&arena, 9, 2, Role::ReadOnly);
        drop(working_set(stream, Input(&away)).unwrap());
        working_set(stream, (Output(buffer), Input(&from))).unwrap_err();
    }
    assert!(holds(&other, 4) && holds(&scratch, 5));
    let elements = working_set(stream, Input(&scratch)).unwrap().to_vec();
    assert_eq!(elements.unwrap(), vec![5; SLOT]);
    file.as_file().set_len(2 * MIB).unwrap();
    let (_, guard) = working_set(stream, (InOut(&other), Input(&from))).unwrap();
    assert_eq!(guard.to_vec().unwrap().len(), SLOT);
    drop(guard);
    assert!(holds(&other, 4));
}

/// A write of the host that fails loses no contents: those of the arena are written back later.
#[test]
#[cfg(target_os = "linux")]
fn a_failed_write_of_the_host_keeps_the_arenas_contents() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    // Its writes fail from now on.
    let sealing = rustix::fs::MemfdFlags::ALLOW_SEALING;
    let file = File::from(rustix::fs::memfd_create("home", sealing).unwrap());
    file.set_len(2 * MIB).unwrap();
    rustix::fs::fcntl_add_seals(&file, rustix::fs::SealFlags::WRITE).unwrap();
    let mut buffer = Homed::<u32>::from_file(&arena, file, (0, SLOT), Role::ReadWrite).unwrap();
    let mut guard = working_set(stream, InOut(&buffer)).unwrap();
    guard.view_mut().fill_on(8, stream).unwrap();
    drop(guard);
    let refused = buffer.copy_from_host(&vec![9; SLOT]).unwrap_err();
    assert!(matches!(refused, CudaError::Io { .. }), "{refused}");
    assert!(buffer.copy_from_host_at(3, &[9]).is_err());
    let guard = working_set(stream, Input(&buffer)).unwrap();
    assert_eq!(guard.to_vec().unwrap(), vec![8; SLOT]);
    drop(guard);
    // It cannot leave, and the set that needs its slots changes nothing.
    let large = homed(&arena, 5, 2, Role::ReadOnly);
    let refused = working_set(stream, Input(&large)).unwrap_err();
    assert!(
        matches!(refused, Error::Cuda(CudaError::Io { .. })),
        "{refused}"
    );
    let guard = working_set(stream, Input(&buffer)).unwrap();
    assert_eq!(guard.to_vec().unwrap(), vec![8; SLOT]);
}

#[test]
fn an_empty_file_is_a_home() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(1), &machine.stream);
    let file = tempfile::tempfile().unwrap();
    let empty = Homed::<u32>::from_file(&arena, file, (0, 0), Role::ReadWrite).unwrap();
    assert!(working_set(stream, InOut(&empty)).unwrap().is_empty());
    drop(working_set(stream, Input(&empty)).unwrap());
    assert!(empty.to_vec().unwrap().is_empty());
}
