// Owns the precompiled header of the tests; no test.
int main() {}
