// Runs after tsc. Copies what the compiled code needs besides its JavaScript: the README files of environments, the torch worker, the font of
// the plots with its licence, and the kernels of the embedded engine.
import { cpSync } from 'node:fs';

cpSync('environments', 'dist/environments', { recursive: true, filter: (path) => !path.endsWith('.ts') || path.endsWith('.d.ts') });
cpSync('src/trainer/gradients/torch', 'dist/src/trainer/gradients/torch', { recursive: true, filter: (path) => !/(\.ts|__pycache__)$/.test(path) });
cpSync('src/cli/train/plot', 'dist/src/cli/train/plot', { recursive: true, filter: (path) => !path.endsWith('.ts') });
cpSync('src/engine/kernels/wasm', 'dist/src/engine/kernels/wasm', { recursive: true });
