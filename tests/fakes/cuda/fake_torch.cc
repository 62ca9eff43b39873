// A libtorch_cpu.so as far as the agent looks at it: by its name a program knows that Kineto is
// here.
extern "C" void libkineto_init(bool, bool) {}
