//! The cache folder, on the simulator of a GPU that is too old for the kernel: a measurement is fast.

use cuda_um::Device;
use cuda_um::cost::CostModel;
use cuda_um_sim::{Gpu, Sim};
use cuda_um_testkit::{Checked, again, calls, is_child, simulated};
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use um_kernels::calibrate::{Cache, CalibrateError, Clock, OfThisMachine};

fn virtual_time(sim: &Checked) -> Clock {
    let sim: Sim = Sim::clone(sim);
    Clock::virtual_time(move || sim.now())
}

/// The files with models.
fn models(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    paths.filter(|path| !path.ends_with("lock")).collect()
}

/// True if the call does no work on the device.
fn is_idle<T>(sim: &Checked, work: impl FnOnce() -> T) -> (T, bool) {
    let before = (sim.now(), calls(sim, "cudaMemcpyAsync"), sim.leaks().len());
    let result = work();
    let after = (sim.now(), calls(sim, "cudaMemcpyAsync"), sim.leaks().len());
    (result, before == after)
}

#[test]
fn a_model_is_written_once_and_then_read() {
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let (folder, clock) = (tempfile::tempdir().unwrap(), virtual_time(&sim));
    // The folder does not exist yet.
    let cache = Cache::at(folder.path().join("some/where"));
    let path = cache.path(&device).unwrap();
    assert_eq!(cache.load(&device).unwrap(), None);
    let (first, idle) = is_idle(&sim, || cache.load_or_measure(&device, &clock).unwrap());
    assert!(!idle);
    assert!(first.source.contains("GTX 980"), "{}", first.source);
    let (second, idle) = is_idle(&sim, || cache.load_or_measure(&device, &clock).unwrap());
    assert!(idle, "the second call did work on the device");
    assert_eq!(first, second);
    assert_eq!(cache.load(&device).unwrap(), Some(first));
    assert_eq!(models(path.parent().unwrap()), [path]);
}

#[test]
fn each_gpu_has_its_own_file() {
    let name = |gpu| {
        let (_sim, device, _stream) = simulated(gpu);
        let path = Cache::at("folder").path(&device).unwrap();
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    let (hopper, pascal) = (name(Gpu::H200), name(Gpu::Pascal));
    assert_ne!(hopper, pascal);
    assert!(hopper.contains("H200__CUDA_driver_1"), "{hopper}");
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    assert!(hopper.chars().all(plain), "{hopper}");
}

#[test]
fn a_file_that_is_not_this_machines_model_is_replaced() {
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let (folder, clock) = (tempfile::tempdir().unwrap(), virtual_time(&sim));
    let cache = Cache::at(folder.path());
    let path = cache.path(&device).unwrap();
    let good = cache.load_or_measure(&device, &clock).unwrap().to_json();
    let cut = &good[..good.len() / 2];
    let foreign = CostModel::h200().to_json();
    let format = good.replace("\"format\": 1", "\"format\": 2");
    let method = good.replace("um-kernels calibration 2 on", "um-kernels calibration 1 on");
    let negative = good.replace("\"copy_us\": ", "\"copy_us\": -");
    for bad in ["", "{", cut, &foreign, &format, &method, &negative] {
        assert_ne!(bad, good);
        fs::write(&path, bad).unwrap();
        assert_eq!(cache.load(&device).unwrap(), None, "{bad}");
        let (model, idle) = is_idle(&sim, || cache.load_or_measure(&device, &clock).unwrap());
        assert!(!idle, "{bad}");
        assert_eq!(fs::read_to_string(&path).unwrap(), model.to_json());
    }
}

#[test]
fn threads_leave_one_file_and_measure_once() {
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let (folder, clock) = (tempfile::tempdir().unwrap(), virtual_time(&sim));
    let cache = Cache::at(folder.path());
    let alone = Cache::at(folder.path().join("alone"));
    alone.load_or_measure(&device, &clock).unwrap();
    let once = calls(&sim, "cudaMemcpyAsync");
    let found: Vec<_> = thread::scope(|scope| {
        let one = || cache.load_or_measure(&device, &clock).unwrap();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(calls(&sim, "cudaMemcpyAsync"), 2 * once);
    assert!(found.iter().all(|model| *model == found[0]));
    fs::remove_dir_all(folder.path().join("alone")).unwrap();
    assert_eq!(models(folder.path()), [cache.path(&device).unwrap()]);
}

#[test]
fn a_reader_never_sees_a_part_of_a_file() {
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let (folder, clock) = (tempfile::tempdir().unwrap(), virtual_time(&sim));
    let cache = Cache::at(folder.path());
    cache.measure(&device, &clock).unwrap();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..3 {
                cache.measure(&device, &clock).unwrap();
            }
        });
        while !writer.is_finished() {
            assert!(cache.load(&device).unwrap().is_some());
        }
    });
    assert_eq!(models(folder.path()), [cache.path(&device).unwrap()]);
}

#[test]
fn a_folder_that_cannot_be_written() {
    let (sim, device, _stream) = simulated(Gpu::Maxwell);
    let clock = virtual_time(&sim);
    let file = tempfile::NamedTempFile::new().unwrap();
    let cache = Cache::at(file.path().join("below a file"));
    let model = cache.load_or_measure(&device, &clock).unwrap();
    assert!(model.source.contains("GTX 980"));
    let error = cache.measure(&device, &clock).unwrap_err();
    assert!(matches!(error, CalibrateError::File { .. }), "{error:?}");
    assert!(error.to_string().contains("below a file"), "{error}");
}

/// The environment of a process cannot be changed safely, so these tests run themselves again.
fn in_a_child(test: &str, variables: &[(&str, &Path)]) {
    let mut child = again(test);
    child.env_remove("CUDA_UM_COST_MODEL");
    let output = child.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "{text}");
}

fn opened() -> (Checked, Device) {
    let (sim, device, _) = simulated(Gpu::Maxwell);
    (sim, device)
}

#[cfg(target_os = "linux")]
#[test]
fn the_users_cache_folder_is_used() {
    if is_child() {
        let (sim, device) = opened();
        let first = CostModel::of_this_machine(&device).unwrap();
        let (second, idle) = is_idle(&sim, || CostModel::of_this_machine(&device).unwrap());
        assert!(idle);
        assert_eq!(first, second);
        assert!(first.source.contains(": measured: "), "{}", first.source);
        let folder = Path::new(&std::env::var_os("XDG_CACHE_HOME").unwrap()).join("cuda-um/cost");
        assert_eq!(
            models(&folder),
            [Cache::of_user().unwrap().path(&device).unwrap()]
        );
        device.set_cost_model(first).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    in_a_child(
        "calibrate_cache::the_users_cache_folder_is_used",
        &[("XDG_CACHE_HOME", folder.path())],
    );
}

#[test]
fn the_variable_overrides() {
    if is_child() {
        let (sim, device) = opened();
        let (model, idle) = is_idle(&sim, || CostModel::of_this_machine(&device).unwrap());
        assert!(idle);
        assert_eq!(model, CostModel::pascal());
        let path = PathBuf::from(std::env::var_os("CUDA_UM_COST_MODEL").unwrap());
        fs::write(&path, "{}").unwrap();
        let error = CostModel::of_this_machine(&device).unwrap_err();
        let expected = format!(
            "CUDA_UM_COST_MODEL cannot be {}: the cost model has no \"format\"",
            path.display()
        );
        assert_eq!(error.to_string(), expected);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("given.json");
    fs::write(&file, CostModel::pascal().to_json()).unwrap();
    in_a_child(
        "calibrate_cache::the_variable_overrides",
        &[
            ("CUDA_UM_COST_MODEL", &file),
            ("XDG_CACHE_HOME", folder.path()),
        ],
    );
    let given: Vec<_> = models(folder.path());
    assert_eq!(given, [file], "no cache was written");
}
