/* The text of an annotation. */
#include "_trace.h"

#include <string.h>

static void StartText(Text* text) {
  text->bytes = text->usual;
  text->size = 0;
  text->room = kUsualText;
}

void StrobeFreeText(Text* text) {
  if (text->bytes != text->usual) PyMem_Free(text->bytes);
}

static void Append(Text* text, const char* more, size_t size) {
  if (size > text->room - text->size && text->room == kUsualText) {
    char* larger = PyMem_Malloc(kMaxText);
    if (larger != NULL) {
      memcpy(larger, text->bytes, text->size);
      text->bytes = larger;
      text->room = kMaxText;
    }
  }
  if (size > text->room - text->size) size = text->room - text->size;
  memcpy(text->bytes + text->size, more, size);
  text->size += size;
}

/* Appends str(object). Returns 0 with a Python exception set on failure. */
static int AppendObject(Text* text, PyObject* object) {
  Py_ssize_t size = 0;
  const char* utf8;
  PyObject* made = NULL;
  if (object == Py_True || object == Py_False) {
    Append(text, object == Py_True ? "1" : "0", 1); /* As TensorFlow and XLA write them. */
    return 1;
  }
  if (!PyUnicode_Check(object)) {
    made = object = PyObject_Str(object);
    if (made == NULL) return 0;
  }
#if Py_LIMITED_API >= 0x030A0000
  utf8 = PyUnicode_AsUTF8AndSize(object, &size);
#else
  PyObject* encoded = PyUnicode_AsUTF8String(object);
  utf8 = encoded == NULL ? NULL : PyBytes_AsString(encoded);
  if (encoded != NULL) size = PyBytes_Size(encoded);
#endif
  if (utf8 != NULL) Append(text, utf8, (size_t)size);
#if Py_LIMITED_API < 0x030A0000
  Py_XDECREF(encoded);
#endif
  Py_XDECREF(made);
  return utf8 != NULL;
}

/* Appends str(object), or "<unprintable>" when that fails. Returns an exception that the program must
 * get, or NULL. */
static PyObject* AppendValue(Text* text, PyObject* object) {
  if (AppendObject(text, object)) return NULL;
  PyObject* raised = StrobeTakeRaised(object);
  const char unprintable[] = "<unprintable>";
  Append(text, unprintable, sizeof unprintable - 1);
  return raised;
}

/* Returns an exception that the program must get, or NULL. After one, no more of the program's code
 * runs. */
static PyObject* AppendMetadata(Text* text, PyObject* metadata, PyObject* hidden_by, char* separator) {
  PyObject *key, *value, *raised = NULL;
  Py_ssize_t position = 0;
  while (raised == NULL && metadata != NULL && PyDict_Next(metadata, &position, &key, &value)) {
    if (hidden_by != NULL && PyDict_GetItem(hidden_by, key) != NULL) continue;
    Append(text, separator, 1);
    *separator = ',';
    /* str() may run any code, which may drop the dict's reference. */
    Py_INCREF(value);
    raised = AppendValue(text, key);
    Append(text, "=", 1);
    if (raised == NULL) raised = AppendValue(text, value);
    Py_DECREF(value);
  }
  return raised;
}

PyObject* StrobeMakeText(PyObject* name, PyObject* metadata, PyObject* more, Text* text) {
  char separator = '#';
  StartText(text);
  PyObject* raised = AppendValue(text, name);
  if (raised == NULL) raised = AppendMetadata(text, metadata, more, &separator);
  if (raised == NULL) raised = AppendMetadata(text, more, NULL, &separator);
  if (separator != ',') return raised;
  if (text->size == text->room) --text->size; /* The agent sees by the last '#' that this is metadata. */
  Append(text, "#", 1);
  return raised;
}
