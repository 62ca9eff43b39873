//! Writes Parquet files behind the C interface of parquet.h, which documents each function.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice::from_raw_parts;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::call::{guarded, text};
use crate::failure::{ErrorOut, Failure, BAD_CONFIG, INTERNAL, READER};

type Sink = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int;

/// Higher levels gain nothing: grouped by line, values fit in 16 bits, which level 1 finds as well.
const ZSTD_LEVEL: i32 = 1;

struct Output {
    sink: Sink,
    context: *mut c_void,
}

// SAFETY: parquet.h: the functions of one file are called by one thread at a time.
unsafe impl Send for Output {}

impl io::Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: parquet.h.
        match unsafe { (self.sink)(self.context, bytes.as_ptr(), bytes.len()) } {
            0 => Ok(bytes.len()),
            _ => Err(io::Error::other("the sink failed")),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub struct Table {
    writer: Option<SerializedFileWriter<Output>>,
}

#[repr(C)]
pub struct Text {
    bytes: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Column {
    integers: *const i64,
    numbers: *const f64,
    texts: *const u32,
    dictionary: *const Text,
    dictionary_size: usize,
    present: *const u8,
}

impl From<ParquetError> for Failure {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(cause) if cause.is::<io::Error>() => Failure::new(READER, cause.to_string()),
            other => Failure::new(INTERNAL, other.to_string()),
        }
    }
}

fn properties(schema: &parquet::schema::types::Type) -> Result<WriterProperties, Failure> {
    let level = ZstdLevel::try_new(ZSTD_LEVEL)?;
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_created_by("strobe".to_string());
    for field in schema.get_fields() {
        if field.get_physical_type() == parquet::basic::Type::INT64 {
            let path = parquet::schema::types::ColumnPath::from(field.name());
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(builder.build())
}

/// The rows that have a value, in order. Without a mask, all do.
unsafe fn chosen<'a, T: Copy>(values: *const T, present: Option<&[u8]>, rows: usize) -> Cow<'a, [T]> {
    let values = from_raw_parts(values, rows);
    match present {
        None => Cow::Borrowed(values),
        Some(mask) => values.iter().zip(mask).filter(|(_, &set)| set != 0).map(|(&value, _)| value).collect(),
    }
}

unsafe fn write_column(writer: &mut ColumnWriter<'_>, column: &Column, rows: usize) -> Result<(), Failure> {
    let present = (!column.present.is_null()).then(|| from_raw_parts(column.present, rows));
    let levels: Option<Vec<i16>> = present.map(|mask| mask.iter().map(|&set| i16::from(set != 0)).collect());
    let levels = levels.as_deref();
    match writer {
        ColumnWriter::Int64ColumnWriter(typed) => {
            typed.write_batch(&chosen(column.integers, present, rows), levels, None)?;
        }
        ColumnWriter::DoubleColumnWriter(typed) => {
            typed.write_batch(&chosen(column.numbers, present, rows), levels, None)?;
        }
        ColumnWriter::ByteArrayColumnWriter(typed) => {
            // Bytes that are not UTF-8 would make the whole file unreadable to many.
            let dictionary: Vec<ByteArray> = from_raw_parts(column.dictionary, column.dictionary_size)
                .iter()
                .map(|entry| match entry.size {
                    0 => ByteArray::from(Vec::new()),
                    size => {
                        let lossy = String::from_utf8_lossy(from_raw_parts(entry.bytes, size));
                        ByteArray::from(lossy.into_owned().into_bytes())
                    }
                })
                .collect();
            let values: Vec<ByteArray> = chosen(column.texts, present, rows)
                .iter()
                .map(|&code| dictionary.get(code as usize).cloned())
                .collect::<Option<_>>()
                .ok_or_else(|| Failure::new(INTERNAL, "a text is not in the dictionary"))?;
            typed.write_batch(&values, levels, None)?;
        }
        _ => return Err(Failure::new(BAD_CONFIG, "the schema has a column of a type that is not written")),
    }
    Ok(())
}

#[no_mangle]
pub unsafe extern "C" fn strobe_parquet_open(
    schema: *const c_char,
    sink: Sink,
    context: *mut c_void,
    out: *mut *mut Table,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let schema = parse_message_type(text(schema)?).map_err(|e| Failure::new(BAD_CONFIG, e.to_string()))?;
        let properties = Arc::new(properties(&schema)?);
        let writer = SerializedFileWriter::new(Output { sink, context }, Arc::new(schema), properties)?;
        *out = Box::into_raw(Box::new(Table { writer: Some(writer) }));
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_parquet_write(
    table: *mut Table,
    columns: *const Column,
    columns_size: usize,
    rows: usize,
    error: *mut ErrorOut,
) -> c_int {
    guarded(error, || {
        let writer = (*table).writer.as_mut().ok_or_else(|| Failure::new(INTERNAL, "the file is finished"))?;
        let mut group = writer.next_row_group()?;
        for column in from_raw_parts(columns, columns_size) {
            let mut writer =
                group.next_column()?.ok_or_else(|| Failure::new(BAD_CONFIG, "the schema has fewer columns"))?;
            write_column(writer.untyped(), column, rows)?;
            writer.close()?;
        }
        group.close()?;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_parquet_finish(table: *mut Table, error: *mut ErrorOut) -> c_int {
    guarded(error, || {
        let mut writer = (*table).writer.take().ok_or_else(|| Failure::new(INTERNAL, "the file is finished"))?;
        writer.finish()?;
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn strobe_parquet_free(table: *mut Table) {
    if !table.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(table))));
    }
}
