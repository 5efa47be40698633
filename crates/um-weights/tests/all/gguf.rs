//! GGUF files.

use um_backend::sim::Gpu;
use um_backend::{BufferKind, DType};
use um_weights::{Error, LoadOptions, Weights};

use crate::support::{Folder, Storage, byte, bytes_of, load_all, machine};

/// Numbers and texts as the format has them.
#[derive(Clone, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn text(self, text: &str) -> Self {
        let mut this = self.u64(text.len() as u64);
        this.0.extend(text.as_bytes());
        this
    }

    fn head(version: u32, tensors: u64, entries: u64) -> Self {
        Self(b"GGUF".to_vec())
            .u32(version)
            .u64(tensors)
            .u64(entries)
    }

    /// The dimensions with that of neighbours first.
    fn tensor(self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Self {
        let this = self.text(name).u32(dimensions.len() as u32);
        let this = dimensions.iter().fold(this, |this, len| this.u64(*len));
        this.u32(kind).u64(offset)
    }

    fn data(mut self, alignment: usize, bytes: usize) -> Vec<u8> {
        let length = self.0.len().next_multiple_of(alignment) + bytes;
        self.0.resize(length, 0);
        self.0
    }

    fn open(self, bytes: usize) -> Result<Weights, Error> {
        Storage::of(self.data(32, bytes)).open().1
    }
}

/// Its offset used to be behind the file.
#[test]
fn an_empty_tensor_is_within_a_file_without_padding() {
    let header = Writer::head(3, 1, 1).text("general.alignment").u32(4);
    let bytes = header.u32(1 << 30).tensor("t", &[0], 0, 0).0;
    let length = bytes.len() as u64;
    let weights = Storage::of(bytes).open().1.unwrap();
    assert_eq!(weights.tensors()[0].offset(), length);
}

fn file(alignment: Option<u32>) -> Vec<u8> {
    let entries = 3 + u64::from(alignment.is_some());
    let mut header = Writer::head(3, 4, entries);
    header = header.text("general.name").u32(8).text("a model");
    header = header
        .text("general.lengths")
        .u32(9)
        .u32(5)
        .u64(3)
        .u32(1)
        .u32(2)
        .u32(3);
    header = header
        .text("general.words")
        .u32(9)
        .u32(8)
        .u64(2)
        .text("one")
        .text("two");
    if let Some(bytes) = alignment {
        header = header.text("general.alignment").u32(4).u32(bytes);
    }
    let alignment = alignment.unwrap_or(32) as usize;
    let mut end = 0usize;
    let mut sizes = Vec::new();
    for (name, dimensions, kind, bytes) in [
        ("blocks", &[64, 3][..], 2, 6 * 18),
        ("norm", &[5], 0, 20),
        ("k", &[512, 4], 12, 8 * 144),
        ("half", &[4, 3, 2], 1, 48),
    ] {
        header = header.tensor(name, dimensions, kind, end as u64);
        sizes.push((end, bytes));
        end = (end + bytes).next_multiple_of(alignment);
    }
    let start = header.0.len().next_multiple_of(alignment);
    let mut file = header.data(alignment, end);
    for (number, (at, bytes)) in sizes.into_iter().enumerate() {
        for (place, target) in file[start + at..][..bytes].iter_mut().enumerate() {
            *target = byte(number, place);
        }
    }
    file
}

#[test]
fn quantised_tensors_are_opaque_blocks_with_names() {
    for alignment in [None, Some(8), Some(4096)] {
        let (_sim, backend) = machine(Gpu::H200);
        let weights = Storage::of(file(alignment)).open().1.unwrap();
        assert_eq!(weights.files().next().unwrap().1, "GGUF");
        let metadata = weights.metadata();
        assert_eq!(metadata["general.name"], "a model");
        assert_eq!(metadata["general.lengths"], "[i32; 3]");
        assert_eq!(metadata["general.words"], "[string; 2]");
        let k = weights.tensor("k").unwrap();
        assert_eq!(
            (k.dtype_name(), k.dtype(), k.block_len()),
            ("Q4_K", DType::Opaque(144), 256)
        );
        assert_eq!((k.shape(), k.size_bytes()), (&[4, 512][..], 8 * 144));
        assert_eq!(weights.tensor("half").unwrap().shape(), [2, 3, 4]);
        assert_eq!(weights.tensor("norm").unwrap().dtype(), DType::F32);
        let names = ["blocks", "norm", "k", "half"];
        for kind in [BufferKind::Cuda, BufferKind::Unified] {
            for (name, bytes) in load_all(&weights, &backend, kind) {
                let number = names.iter().position(|found| *found == name).unwrap();
                let right: Vec<u8> = (0..bytes.len()).map(|at| byte(number, at)).collect();
                assert_eq!(bytes, right, "{name}");
            }
        }
        // Columns of whole blocks: the second block of each row.
        let options = LoadOptions::default()
            .only(|name| name == "k")
            .slices(|_| Some((1, 256..512)));
        let tensors = weights.load(&backend, BufferKind::Cuda, &options).unwrap();
        let right: Vec<u8> = (0..4)
            .flat_map(|row| (0..144).map(move |at| byte(2, row * 288 + 144 + at)))
            .collect();
        assert_eq!(bytes_of(&tensors["k"]), right);
        let options = LoadOptions::default()
            .only(|name| name == "k")
            .slices(|_| Some((1, 0..128)));
        let error = weights
            .load(&backend, BufferKind::Cuda, &options)
            .unwrap_err();
        assert!(
            error
                .to_string()
                .contains("blocks of Q4_K have 256 elements"),
            "{error}"
        );
    }
}

#[test]
fn each_field_of_the_header_is_checked() {
    let head = Writer::head;
    for (header, data, reason) in [
        (Writer(b"GGUF".to_vec()), 0, "version 0 is not known"),
        (head(1, 0, 0), 0, "version 1 is not known"),
        (head(4, 0, 0), 0, "version 4 is not known"),
        (head(3u32.swap_bytes(), 0, 0), 0, "the file is big-endian"),
        (head(3, u64::MAX, 0), 0, "is the file truncated?"),
        (head(3, 0, u64::MAX), 0, "is the file truncated?"),
        (
            head(3, 0, 1).u64(u64::MAX).u64(0).u64(0),
            0,
            "has 18446744073709551615 bytes",
        ),
        (
            head(3, 0, 1).text("k").u32(13),
            0,
            "type 13 of a value is not known",
        ),
        (
            head(3, 0, 1).text("k").u32(9).u32(13).u64(1),
            0,
            "type 13 of an array is not known",
        ),
        (
            head(3, 0, 1).text("k").u32(9).u32(0).u64(u64::MAX),
            0,
            "is the file truncated?",
        ),
        (
            head(3, 0, 1).text("k").u32(9).u32(4).u64(u64::MAX),
            0,
            "an array needs 18446744073709551615 bytes",
        ),
        (
            head(3, 0, 1).text("k").u32(9).u32(8).u64(u64::MAX),
            0,
            "is the file truncated?",
        ),
        (head(3, 0, 1).text("k").u32(7).u32(2), 0, "a bool is 2"),
        (
            head(3, 0, 2)
                .text("k")
                .u32(4)
                .u32(2)
                .text("k")
                .u32(4)
                .u32(2),
            0,
            r#""k" is there twice"#,
        ),
        (
            head(3, 0, 1).text("general.alignment").u32(4).u32(3),
            0,
            "a power of two of type u32",
        ),
        (
            head(3, 0, 1).text("general.alignment").u32(4).u32(0),
            0,
            "a power of two of type u32",
        ),
        (
            head(3, 0, 1).text("general.alignment").u32(10).u64(32),
            0,
            "a power of two of type u32",
        ),
        (
            head(3, 1, 0).tensor("t", &[1; 5], 0, 0),
            4,
            "it has 5 dimensions",
        ),
        (
            head(3, 1, 0).tensor("t", &[1], 99, 0),
            4,
            "type 99 is not known",
        ),
        (
            head(3, 1, 0).tensor("t", &[31], 2, 0),
            64,
            "its rows have 31 elements",
        ),
        (
            head(3, 1, 0).tensor("t", &[1 << 32, 1 << 32], 0, 0),
            4,
            "larger than any memory",
        ),
        (
            head(3, 1, 0).tensor("t", &[1 << 62], 0, 0),
            4,
            "larger than any memory",
        ),
        (
            head(3, 1, 0).tensor("t", &[1], 0, 32),
            64,
            "its bytes begin at 32 of the data",
        ),
        (
            head(3, 1, 0).tensor("t", &[9], 0, 0),
            32,
            "the file ends after 32",
        ),
        (
            head(3, 2, 0)
                .tensor("t", &[9], 0, 0)
                .tensor("u", &[1], 0, 32),
            96,
            "its bytes begin at 32 of the data, and 64",
        ),
        (
            head(3, 2, 0)
                .tensor("t", &[1], 0, 0)
                .tensor("t", &[1], 0, 32),
            64,
            "a name has one tensor",
        ),
        (
            head(3, 2, 0)
                .tensor("t", &[1 << 60], 24, 0)
                .tensor("u", &[1], 0, 1 << 60),
            64,
            "the file ends after 64",
        ),
        (
            head(3, 1, 0).tensor("t", &[1], 0, 0),
            64,
            "the last 32 bytes belong to no tensor",
        ),
    ] {
        let error = header.open(data).expect_err(reason);
        let text = error.to_string();
        assert!(text.contains(reason), "{text}");
        assert!(
            matches!(error, Error::Format { .. } | Error::Tensor { .. }),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1);
    }
    let mut deep = head(3, 0, 1).text("k").u32(9);
    for _ in 0..9 {
        deep = deep.u32(9).u64(1);
    }
    assert!(
        deep.open(0)
            .unwrap_err()
            .to_string()
            .contains("arrays are within")
    );
    assert!(head(2, 0, 0).open(0).is_ok());
    // The last tensor may lack its padding.
    let mut short = file(None);
    short.truncate(short.len() - 16);
    assert!(Storage::of(short).open().1.is_ok());
    let whole = file(None);
    for end in 0..whole.len() - 17 {
        assert!(
            Storage::of(whole[..end].to_vec()).open().1.is_err(),
            "{end}"
        );
    }
}

/// The files have one block on the disk.
#[test]
fn a_sparse_file_is_refused_before_it_fills_memory() {
    let many = 1 << 40;
    for (header, reason) in [
        (Writer::head(3, many, 0), "tensors need at least"),
        (Writer::head(3, 0, many), "entries need at least"),
        (Writer::head(3, 1 << 20, 0), "a name has one tensor"),
        (
            Writer::head(3, 0, 1 << 20),
            "is there twice in the metadata",
        ),
        (
            Writer::head(3, 0, 1).text("k").u32(9).u32(0).u64(1 << 30),
            "the header has more than 100000000 bytes",
        ),
        (
            Writer::head(3, 0, 1).text("k").u32(9).u32(8).u64(1 << 40),
            "the header has more than 100000000 bytes",
        ),
    ] {
        let folder = Folder::new();
        let path = folder.file("sparse.gguf", &header.0);
        std::fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(many)
            .unwrap();
        let error = Weights::open([&path]).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_part_of_a_split_file_needs_the_others() {
    let folder = Folder::new();
    let part = |number: u32, count: u32| {
        let header = Writer::head(3, 1, 2)
            .text("split.no")
            .u32(4)
            .u32(number)
            .text("split.count")
            .u32(4)
            .u32(count);
        let header = header.tensor(&format!("t{number}"), &[1], 0, 0);
        folder.file(&format!("{number}-{count}.gguf"), &header.data(32, 32))
    };
    let (first, second, alone) = (part(0, 2), part(1, 2), part(0, 1));
    for (path, part, missing) in [(&first, 1, 2), (&second, 2, 1)] {
        let error = Weights::open([path]).unwrap_err();
        assert!(
            matches!(error, Error::MissingPart { part: p, parts: 2, missing: m, .. } if (p, m) == (part, missing)),
            "{error}"
        );
    }
    assert_eq!(Weights::open([&first, &second]).unwrap().tensors().len(), 2);
    assert_eq!(Weights::open([&alone]).unwrap().tensors().len(), 1);
}

/// The parts of two quantisations have other tensors in each part.
#[test]
fn parts_without_all_tensors_of_their_file_are_refused() {
    let folder = Folder::new();
    let part = |number: u32, entry: &str, value: u32| {
        let header = Writer::head(3, 1, 3).text("split.no").u32(4).u32(number);
        let header = header.text("split.count").u32(4).u32(2);
        let header = header.text(entry).u32(4).u32(value);
        let header = header.tensor(&format!("t{number}"), &[1], 0, 0);
        folder.file(&format!("{number}-{value}.gguf"), &header.data(32, 32))
    };
    let [first, second, of_three] = [(0, 2), (1, 2), (1, 3)]
        .map(|(number, tensors)| part(number, "split.tensors.count", tensors));
    assert!(Weights::open([&first, &second]).is_ok());
    let error = Weights::open([&first, &of_three]).unwrap_err().to_string();
    assert!(error.contains("2 parts have 2 tensors"), "{error}");

    let header = Writer::head(3, 1, 1).text("split.count").u32(4).u32(2);
    let nameless = folder.file("part.gguf", &header.tensor("t", &[1], 0, 0).data(32, 32));
    let error = Weights::open([&nameless]).unwrap_err().to_string();
    assert!(error.contains("no `split.no` says which"), "{error}");
}

#[test]
fn metadata_that_is_no_text_is_replaced_and_not_refused() {
    let mut header = Writer::head(3, 0, 1).text("general.author").u32(8).u64(6);
    header.0.extend(b"Jos\xe9 1");
    let weights = header.open(0).unwrap();
    assert_eq!(weights.metadata()["general.author"], "Jos\u{fffd} 1");
}
