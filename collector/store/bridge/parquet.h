/* The C interface to the parquet crate: files of one table, written group by group.
 *
 * It is a part of the object_store bridge, because two static libraries of Rust cannot be linked
 * into one program. No call unwinds. The functions of one file are called by one thread at a time.
 */
#ifndef STROBE_COLLECTOR_STORAGE_BRIDGE_PARQUET_H_
#define STROBE_COLLECTOR_STORAGE_BRIDGE_PARQUET_H_
#include <stddef.h>
#include <stdint.h>

#include "collector/store/bridge/bridge.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct strobe_parquet strobe_parquet;

/* Takes the next bytes of the file and returns 0, or returns non-zero on failure, which ends the
 * call that wrote them with STROBE_STORE_READER. */
typedef int (*strobe_parquet_sink)(void* context, const uint8_t* bytes, size_t size);

typedef struct {
  const uint8_t* bytes;
  size_t size;
} strobe_parquet_text;

/* The values of a column, one for each row of the group. Which array is read depends on the
 * column's type in the schema. Texts are places in the dictionary; bytes that are not UTF-8 become
 * U+FFFD. */
typedef struct {
  const int64_t* integers;
  const double* numbers;
  const uint32_t* texts;
  const strobe_parquet_text* dictionary;
  size_t dictionary_size;
  /* Non-zero for each row that has a value. NULL for a required column. */
  const uint8_t* present;
} strobe_parquet_column;

/* `schema` is a message in Parquet's schema language whose columns are int64, double or binary,
 * each required or optional. Nothing is written before the first call below. */
int strobe_parquet_open(const char* schema, strobe_parquet_sink sink, void* context,
                        strobe_parquet** file, strobe_store_error* error);
/* Writes a row group. There is one column for each of the schema, in its order. */
int strobe_parquet_write(strobe_parquet* file, const strobe_parquet_column* columns,
                         size_t columns_size, size_t rows, strobe_store_error* error);
/* Writes the file's end. */
int strobe_parquet_finish(strobe_parquet* file, strobe_store_error* error);
/* Without strobe_parquet_finish, what was written is no file that can be read. */
void strobe_parquet_free(strobe_parquet* file);

#ifdef __cplusplus
}
#endif
#endif /* STROBE_COLLECTOR_STORAGE_BRIDGE_PARQUET_H_ */
