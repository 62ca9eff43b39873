/* The C interface to the object_store crate: S3, GCS and Azure with their credential chains.
 *
 * Every call blocks until it is done, its time is up or it is cancelled; all are safe from any
 * thread. Nothing unwinds out of them. Strings are UTF-8 and end with a NUL. Keys are absolute in
 * the bucket. No call repeats a request: that is the caller's decision. */
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
  STROBE_STORE_BAD_CONFIG = 6, /* Options that cannot work together, or an unknown one. */
  STROBE_STORE_NETWORK = 7,    /* No connection, or it broke. */
  STROBE_STORE_TIMEOUT = 8,
  STROBE_STORE_CANCELLED = 9,
  STROBE_STORE_READER = 10,  /* The reader callback said no. */
  STROBE_STORE_OTHER = 11,   /* `http_status` may tell more. */
  STROBE_STORE_INTERNAL = 12 /* A bug behind this interface. */
};

typedef struct {
  int code;        /* enum strobe_store_code */
  int http_status; /* 0 = none. */
  char* message;   /* The crate's and the store's words, not redacted; strobe_store_free_text it. */
} strobe_store_error;

/* How long a call may take, and a byte that cancels it when it becomes non-zero; may be NULL. */
typedef struct {
  uint64_t timeout_ms;
  const uint8_t* cancelled;
} strobe_store_call;

/* Fills `into` with the bytes at `offset`; non-zero when that failed. Called before the function
 * that got it returns, on the same thread. */
typedef int (*strobe_store_reader)(void* context, uint64_t offset, uint8_t* into, size_t size);

/* One object, or with is_prefix one common prefix (without the slash at its end). Non-zero ends the
 * listing. */
typedef int (*strobe_store_visitor)(void* context, const char* key, size_t key_size, uint64_t bytes,
                                    int is_prefix);

/* scheme: "s3", "gs" or "az". Options are key, value, key, value... : those of the crate and
 * "ca_bundle", a PEM file. The environment is read first, options win. Connects to nothing. */
int strobe_store_open(const char* scheme, const char* bucket, const char* const* options,
                      size_t options_size, strobe_store** store, strobe_store_error* error);
void strobe_store_close(strobe_store* store);
void strobe_store_free_text(char* text);

/* One request. `sha256` goes into the object's metadata. create_only: EXISTS when there is one. */
int strobe_store_put(strobe_store* store, strobe_store_call call, const char* key,
                     const char* sha256, int create_only, strobe_store_reader reader, void* context,
                     uint64_t size, strobe_store_error* error);
/* sha256 is 65 bytes, empty when the object does not tell. */
int strobe_store_stat(strobe_store* store, strobe_store_call call, const char* key, uint64_t* bytes,
                      char* sha256, strobe_store_error* error);
/* `got` may be less than asked only at the object's end. */
int strobe_store_read(strobe_store* store, strobe_store_call call, const char* key, uint64_t offset,
                      uint8_t* into, size_t size, size_t* got, strobe_store_error* error);
/* Below the prefix, which is a whole number of path parts. shallow: one level only, with the common
 * prefixes of what lies deeper. */
int strobe_store_list(strobe_store* store, strobe_store_call call, const char* prefix, int shallow,
                      strobe_store_visitor visitor, void* context, strobe_store_error* error);
/* Those that are not there are no error. */
int strobe_store_delete(strobe_store* store, strobe_store_call call, const char* const* keys,
                        size_t keys_size, strobe_store_error* error);

/* A multipart upload. Parts are numbered from 0 and all but the last have one size. */
int strobe_store_upload_begin(strobe_store* store, strobe_store_call call, const char* key,
                              const char* sha256, char** upload_id, strobe_store_error* error);
int strobe_store_upload_part(strobe_store* store, strobe_store_call call, const char* key,
                             const char* upload_id, size_t index, strobe_store_reader reader,
                             void* context, uint64_t offset, size_t size, char** part_id,
                             strobe_store_error* error);
/* Always asks the store to refuse when the key exists; az:// and some S3 servers cannot. */
int strobe_store_upload_commit(strobe_store* store, strobe_store_call call, const char* key,
                               const char* upload_id, const char* const* part_ids,
                               size_t part_ids_size, strobe_store_error* error);
int strobe_store_upload_abort(strobe_store* store, strobe_store_call call, const char* key,
                              const char* upload_id, strobe_store_error* error);

#ifdef __cplusplus
}
#endif
#endif /* STROBE_COLLECTOR_STORAGE_BRIDGE_H_ */
