/** The part of the WebAssembly interface that the engine uses: the standard library declares it for browsers alone. */
declare global {
  namespace WebAssembly {
    class Memory {
      constructor(descriptor: { readonly initial: number; readonly maximum?: number; readonly shared?: boolean });
      readonly buffer: SharedArrayBuffer;
      /** Pages of 64 KiB; returns how many there were. Throws RangeError. */
      grow(pages: number): number;
    }
    interface Module {
      readonly [Symbol.toStringTag]: string;
    }
    const Module: new (bytes: Uint8Array) => Module;
    class Instance {
      constructor(module: Module, imports?: Readonly<Record<string, Readonly<Record<string, unknown>>>>);
      readonly exports: Readonly<Record<string, unknown>>;
    }
    function validate(bytes: Uint8Array): boolean;
  }
}

export type EngineMemory = WebAssembly.Memory;
export type KernelsModule = WebAssembly.Module;
