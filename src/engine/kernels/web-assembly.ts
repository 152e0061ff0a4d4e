/** Types of WebAssembly objects, from `web-assembly-global.d.ts` in Node and from the DOM in a page. */
export type EngineMemory = WebAssembly.Memory;
export type KernelsModule = WebAssembly.Module;
