// Builds the kernels of the embedded engine (src/engine/kernels/assembly) into src/engine/kernels/wasm.
