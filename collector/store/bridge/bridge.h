/* The C interface to the object_store crate: S3, GCS and Azure with their credential chains.
 *
 * Every call blocks until it is done, times out or is cancelled. All calls are thread-safe and
 * never unwind. Strings are UTF-8 and NUL-terminated. Keys are absolute in the bucket. No call
 * retries a request; the caller does. */
#ifndef STROBE_COLLECTOR_STORAGE_BRIDGE_H_
#define STROBE_COLLECTOR_STORAGE_BRIDGE_H_
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct strobe_store strobe_store;

enum strobe_store_code {
  STROBE_STORE_OK = 0,
  STROBE_STORE_NOT_FOUND = 1,
  STROBE_STORE_EXISTS = 2,
  STROBE_STORE_DENIED = 3,
  STROBE_STORE_UNAUTHENTICATED = 4,
  STROBE_STORE_UNSUPPORTED = 5,
  STROBE_STORE_BAD_CONFIG = 6, /* Conflicting options, or an unknown one. */
  STROBE_STORE_NETWORK = 7,    /* There was no connection, or it was lost. */
  STROBE_STORE_TIMEOUT = 8,
  STROBE_STORE_CANCELLED = 9,
  STROBE_STORE_READER = 10,  /* The reader callback failed. */
  STROBE_STORE_OTHER = 11,   /* See http_status. */
  STROBE_STORE_INTERNAL = 12 /* A defect of the bridge. */
};

typedef struct {
  int code;        /* enum strobe_store_code */
  int http_status; /* 0 if there is none. */
  char* message;   /* Not redacted. Free it with strobe_store_free_text. */
} strobe_store_error;

/* The time limit of a call, and a byte that cancels it when it becomes non-zero. The pointer may be
 * NULL. */
typedef struct {
  uint64_t timeout_ms;
  const uint8_t* cancelled;
} strobe_store_call;

/* Fills `into` with the bytes at `offset` and returns 0, or returns non-zero on failure. Called on
 * the calling thread, before the function that received it returns. */
typedef int (*strobe_store_reader)(void* context, uint64_t offset, uint8_t* into, size_t size);

/* Receives an object, or with is_prefix a common prefix. The key is as the store told it, whatever
 * it is. The version is the object's ETag, or empty. Returns non-zero to end the listing. */
typedef int (*strobe_store_visitor)(void* context, const char* key, size_t key_size, uint64_t bytes,
                                    int is_prefix, const char* version, size_t version_size);

/* Opens a store without connecting. `scheme` is "s3", "gs" or "az". `options` are key, value, key,
 * value and so on: the crate's keys and "ca_bundle", a PEM file. They override the environment. */
int strobe_store_open(const char* scheme, const char* bucket, const char* const* options,
                      size_t options_size, strobe_store** store, strobe_store_error* error);
void strobe_store_close(strobe_store* store);
void strobe_store_free_text(char* text);

/* Writes an object with one request. `sha256` is stored in its metadata. With create_only, an
 * existing object causes EXISTS. */
int strobe_store_put(strobe_store* store, strobe_store_call call, const char* key,
                     const char* sha256, int create_only, strobe_store_reader reader, void* context,
                     uint64_t size, strobe_store_error* error);
/* `sha256` has 65 bytes. It is empty if the object's metadata do not have it. `version` becomes the
 * object's ETag, or NULL if it has none. Free it with strobe_store_free_text. */
int strobe_store_stat(strobe_store* store, strobe_store_call call, const char* key, uint64_t* bytes,
                      char* sha256, char** version, strobe_store_error* error);
/* `got` is less than `size` only at the object's end. If `version` is not empty and not the
 * object's ETag, this causes EXISTS. */
int strobe_store_read(strobe_store* store, strobe_store_call call, const char* key,
                      const char* version, uint64_t offset, uint8_t* into, size_t size, size_t* got,
                      strobe_store_error* error);
/* Lists the objects below the prefix, which consists of whole path parts. With `shallow` it lists
 * one level and the common prefixes of deeper objects. */
int strobe_store_list(strobe_store* store, strobe_store_call call, const char* prefix, int shallow,
                      strobe_store_visitor visitor, void* context, strobe_store_error* error);
/* A missing object is not an error. BAD_CONFIG if no request can name some of the objects, such as
 * "a/../b"; the others are deleted. */
int strobe_store_delete(strobe_store* store, strobe_store_call call, const char* const* keys,
                        size_t keys_size, strobe_store_error* error);

/* A multipart upload. Parts are numbered from 0, and all but the last have the same size. */
int strobe_store_upload_begin(strobe_store* store, strobe_store_call call, const char* key,
                              const char* sha256, char** upload_id, strobe_store_error* error);
int strobe_store_upload_part(strobe_store* store, strobe_store_call call, const char* key,
                             const char* upload_id, size_t index, strobe_store_reader reader,
                             void* context, uint64_t offset, size_t size, char** part_id,
                             strobe_store_error* error);
/* Asks the store to refuse if the key exists. az:// and some S3 servers do not support this. */
int strobe_store_upload_commit(strobe_store* store, strobe_store_call call, const char* key,
                               const char* upload_id, const char* const* part_ids,
                               size_t part_ids_size, strobe_store_error* error);
int strobe_store_upload_abort(strobe_store* store, strobe_store_call call, const char* key,
                              const char* upload_id, strobe_store_error* error);

#ifdef __cplusplus
}
#endif
#endif /* STROBE_COLLECTOR_STORAGE_BRIDGE_H_ */
