//! Launching a kernel on the CPU by its name, and memory in which every slip shows.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::device;
use crate::native;

type Launch = unsafe extern "C" fn(
    *const c_char,
    *const u32,
    *const u32,
    u32,
    *mut *mut c_void,
    u32,
    *mut c_char,
    usize,
) -> c_int;
type Params = unsafe extern "C" fn(*const c_char, *mut *const u8) -> c_int;

/// Orders in which the shim can run the threads of a block.
pub(crate) const ORDERS: std::ops::Range<u32> = 0..6;

/// A shared object of kernels; none where a GPU runs them.
pub(crate) struct Shim(Option<libloading::Library>);

/// One argument of a launch: its bytes, and how many count.
#[derive(Clone, Copy)]
pub(crate) struct Arg(pub(super) [u8; 8], usize);

impl From<&Mem> for Arg {
    fn from(m: &Mem) -> Self {
        Self::from(m.address())
    }
}

macro_rules! arg_from {
    ($($t:ty),*) => {$(
        impl From<$t> for Arg {
            fn from(value: $t) -> Self {
                let mut bytes = [0; 8];
                let own = value.to_le_bytes();
                bytes[..own.len()].copy_from_slice(&own);
                Self(bytes, own.len())
            }
        }
    )*};
}
arg_from!(u64, i32, u32, f32);

/// A list of arguments of any of the kinds that kernels take.
macro_rules! args {
    ($($a:expr),* $(,)?) => { &[$($crate::kernels_on_cpu::shim::Arg::from($a)),*] };
}
pub(crate) use args;

/// How a kernel is launched.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [usize; 3],
    pub(crate) block: [usize; 3],
    pub(crate) shared: usize,
}

/// A grid and a block of one dimension each.
pub(crate) fn shape(grid: [usize; 3], block: usize) -> Shape {
    let block = [block, 1, 1];
    Shape {
        grid,
        block,
        shared: 0,
    }
}

impl Shim {
    /// All kernels as they are, built once a run.
    pub(crate) fn whole() -> Option<&'static Self> {
        static WHOLE: OnceLock<Option<Shim>> = OnceLock::new();
        WHOLE
            .get_or_init(|| match device::asked() {
                Some(_) => Some(Self(None)),
                None => Self::build(&native::kernel_sources(), "-O2"),
            })
            .as_ref()
    }

    /// The kernels with the source of the same name replaced.
    pub(crate) fn with(source: &Path) -> Option<Self> {
        let mut all = native::kernel_sources();
        let own = all.iter_mut().find(|p| p.file_name() == source.file_name());
        *own.unwrap() = source.to_path_buf();
        Self::build(&all, "-O2")
    }

    fn build(sources: &[PathBuf], optimise: &str) -> Option<Self> {
        let units: Vec<PathBuf> = sources.iter().cloned().chain(native::fibers()).collect();
        let path = native::shared_object("libkernels_on_cpu.so", &units, optimise)?;
        // SAFETY: our own object, whose initialisers enter kernels into a list.
        Some(Self(Some(
            unsafe { libloading::Library::new(path) }.unwrap(),
        )))
    }

    /// The size of every parameter of a kernel.
    pub(crate) fn params(&self, name: &str) -> Option<Vec<usize>> {
        let name = CString::new(name).unwrap();
        let mut sizes = std::ptr::null();
        // SAFETY: the object's own signature; it leaves `sizes` at as many bytes as it returns.
        unsafe {
            let params = self.0.as_ref()?.get::<Params>(b"kv_cpu_params").unwrap();
            let count = usize::try_from(params(name.as_ptr(), &raw mut sizes)).ok()?;
            Some((0..count).map(|i| usize::from(*sizes.add(i))).collect())
        }
    }

    /// Runs a kernel with its threads in `order`; a fault of the kernel is the error.
    pub(crate) fn launch(
        &self,
        name: &str,
        shape: Shape,
        order: u32,
        args: &[Arg],
    ) -> Result<(), String> {
        let Some(library) = &self.0 else {
            return device::asked().unwrap().launch(name, shape, args);
        };
        let given: Vec<usize> = args.iter().map(|a| a.1).collect();
        assert_eq!(self.params(name), Some(given), "arguments of {name}");
        let mut values: Vec<[u8; 8]> = args.iter().map(|a| a.0).collect();
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|v| v.as_mut_ptr().cast()).collect();
        let wide = |d: [usize; 3]| d.map(|n| u32::try_from(n).unwrap());
        let (grid, block) = (wide(shape.grid), wide(shape.block));
        let c_name = CString::new(name).unwrap();
        let mut message = [0u8; 300];
        // SAFETY: the arguments are as many and as wide as the kernel's own; what they point to is the caller's `Mem`.
        let code = unsafe {
            library.get::<Launch>(b"kv_cpu_launch").unwrap()(
                c_name.as_ptr(),
                grid.as_ptr(),
                block.as_ptr(),
                u32::try_from(shape.shared).unwrap(),
                pointers.as_mut_ptr(),
                order,
                message.as_mut_ptr().cast(),
                message.len(),
            )
        };
        let text = String::from_utf8_lossy(&message);
        match code {
            0 => Ok(()),
            3 => Err(text.trim_end_matches('\0').to_string()),
            _ => panic!("{name}: launch refused ({code})"),
        }
    }
}

/// Words of margin on either side of a block of memory.
const MARGIN: usize = 16;
/// NaN as binary16 and binary32, -1 as an integer.
const POISON: u8 = 0xff;

/// A block of memory at a 16-byte boundary between poisoned margins.
pub(crate) struct Mem {
    words: *mut u128,
    count: usize,
    len: usize,
}

impl Drop for Mem {
    fn drop(&mut self) {
        match device::asked() {
            Some(device) => device.give(self.words),
            // SAFETY: a boxed slice of that length, as `poisoned` made it.
            None => drop(unsafe {
                Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.words, self.count))
            }),
        }
    }
}

impl Mem {
    /// `len` bytes that nobody has written.
    pub(crate) fn poisoned(len: usize) -> Self {
        let count = len.div_ceil(16) + 2 * MARGIN;
        let poison = u128::from_le_bytes([POISON; 16]);
        let words = match device::asked() {
            Some(device) => device.take(count * 16),
            None => Box::into_raw(vec![poison; count].into_boxed_slice()).cast(),
        };
        // SAFETY: `count` words of our own.
        unsafe { std::slice::from_raw_parts_mut(words, count) }.fill(poison);
        Self { words, count, len }
    }

    /// `count` elements of `T` that nobody has written.
    pub(crate) fn unset<T>(count: usize) -> Self {
        Self::poisoned(count * size_of::<T>())
    }

    /// A copy of plain numbers.
    pub(crate) fn of<T: Copy>(data: &[T]) -> Self {
        let mut made = Self::poisoned(size_of_val(data));
        // SAFETY: plain numbers as bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts(data.as_ptr().cast::<u8>(), size_of_val(data)) };
        made.bytes_mut()[MARGIN * 16..][..bytes.len()].copy_from_slice(bytes);
        made
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: whole words as bytes.
        unsafe { std::slice::from_raw_parts(self.words.cast(), self.count * 16) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: whole words as bytes.
        unsafe { std::slice::from_raw_parts_mut(self.words.cast(), self.count * 16) }
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> u64 {
        self.words as u64 + MARGIN as u64 * 16
    }

    /// What lies there as plain numbers; an error if a margin was written to.
    pub(crate) fn read<T: Copy>(&self) -> Result<Vec<T>, String> {
        // A kernel wrote through the address: look at memory afresh.
        let bytes = std::hint::black_box(self).bytes();
        let end = MARGIN * 16 + self.len;
        let margins = bytes[..MARGIN * 16].iter().chain(&bytes[end..]);
        if !margins.copied().all(|b| b == POISON) {
            return Err("a write outside an allocation".into());
        }
        let at = bytes[MARGIN * 16..].as_ptr().cast::<T>();
        let count = self.len / size_of::<T>();
        // SAFETY: aligned to 16 bytes, `count` elements of plain numbers.
        Ok((0..count).map(|i| unsafe { at.add(i).read() }).collect())
    }
}
