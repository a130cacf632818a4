// A library of the driver's name without the driver's functions, as a half removed installation leaves it.
extern "C" __attribute__((visibility("default"))) int cuInit(unsigned) { return 999; }
