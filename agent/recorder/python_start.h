// Starts Strobe's part of an unmodified PyTorch, JAX or TensorFlow program: the Python module
// $STROBE_DIR/python/strobe_bootstrap.py. This is for programs that do not have it on their
// PYTHONPATH; where both ways meet, the second one changes nothing.
#pragma once

namespace strobe::agent {

// Starts a thread that waits until the program has imported one of the frameworks, runs the module
// and ends. Does nothing in a program without Python, without $STROBE_DIR, with
// STROBE_BOOTSTRAP=off, or if it was called before. A failure becomes a line in the file
// "<container>@<pid>.failed" of the agent directory, which the sidecar logs and tells in captures.
void StartPythonThread();
// For a forked child, which does not have the thread. It may be started again.
void ForgetPythonThread();

}  // namespace strobe::agent
