// A fake libtorch_cpu.so. The agent concludes from the name of this library that the process has
// Kineto.
extern "C" void libkineto_init(bool, bool) {}
