/**
 * V8 can crash when a thread with WebAssembly ends, on processors with memory protection keys (nodejs/node#64500). Only V8 for Linux on x64 has the flag.
 */
export const NODE_FLAGS = process.platform === 'linux' && process.arch === 'x64' ? ['--no-memory-protection-keys'] : [];
