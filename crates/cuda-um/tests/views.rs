//! Views: parts of buffers do what whole buffers do.

use cuda_um::{
    DeviceBuffer, ErrorKind, MemoryKind, PinnedBuffer, RegisteredBuffer, UnifiedBuffer, ViewMut,
};
use cuda_um_testkit::device;

/// Copies, fills, splits and casts of one buffer, whose contents are 0, 1, …, 99.
fn parts(mut all: ViewMut<'_, u32>) {
    let stream = all.device().stream().unwrap();
    let mut expected: Vec<u32> = (0..100).collect();
    all.copy_from_host(&expected).unwrap();
    let (mut first, mut second) = all.split_at_mut(40).unwrap();
    assert_eq!((first.len(), second.len()), (40, 60));
    first.slice_mut(10..20).unwrap().fill(7, &stream).unwrap();
    expected[10..20].fill(7);
    second.copy_from_host_at(5, &[8; 3]).unwrap();
    expected[45..48].fill(8);
    stream
        .copy(
            &first.as_view().slice(..5).unwrap(),
            &mut second.slice_mut(55..).unwrap(),
        )
        .unwrap();
    expected.copy_within(..5, 95);
    second.write_one(0, 9).unwrap();
    expected[40] = 9;
    second.slice_mut(1..3).unwrap().set_zero(&stream).unwrap();
    expected[41..43].fill(0);
    second
        .slice_mut(20..30)
        .unwrap()
        .host_overwrite(2.., |at, slots| slots.fill_with(|i| (at + i) as u32))
        .unwrap();
    for (at, element) in expected[62..70].iter_mut().enumerate() {
        *element = at as u32 + 2;
    }
    assert_eq!(second.read_one(5).unwrap(), 8);
    assert_eq!(first.to_vec().unwrap(), expected[..40]);
    assert_eq!(second.to_vec().unwrap(), expected[40..]);
    let view = all.into_view();
    let (a, b) = view.split_at(99).unwrap();
    assert_eq!((a.size_bytes(), b.size_bytes()), (396, 4));
    let halves = view.slice(1..).unwrap().cast::<u16>().unwrap();
    assert_eq!(halves.slice(..4).unwrap().to_vec().unwrap(), [1, 0, 2, 0]);
    if view.kind() == MemoryKind::Device {
        let error = view.host().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    } else {
        let bytes = b.cast::<u8>().unwrap();
        assert_eq!(bytes.host().unwrap().len(), 4);
        assert_eq!(view.try_host().unwrap()[..], expected);
    }
}

#[test]
fn a_part_of_each_kind_does_what_the_whole_does() {
    let (_sim, device, _) = device();
    parts(UnifiedBuffer::zeroed(&device, 100).unwrap().as_view_mut());
    parts(DeviceBuffer::zeroed(&device, 100).unwrap().as_view_mut());
    parts(PinnedBuffer::zeroed(&device, 100).unwrap().as_view_mut());
    let vector = vec![0u32; 100];
    let mut registered = RegisteredBuffer::from_vec(&device, vector).unwrap();
    parts(registered.as_view_mut());
}
