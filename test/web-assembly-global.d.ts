/** The part of the WebAssembly interface that tests use, because TypeScript declares it for browsers only. */
declare namespace WebAssembly {
  class Memory {
    constructor(descriptor: { readonly initial: number; readonly maximum?: number; readonly shared?: boolean });
    readonly buffer: SharedArrayBuffer;
    /** @param pages number of 64 KiB pages to add. Returns the previous number. Throws RangeError. */
    grow(pages: number): number;
  }
  interface Module {
    readonly [Symbol.toStringTag]: string;
  }
  interface ModuleConstructor {
    new (bytes: Uint8Array): Module;
    imports(module: Module): readonly { readonly module: string; readonly name: string; readonly kind: string }[];
  }
  const Module: ModuleConstructor;
  class Instance {
    constructor(module: Module, imports?: Readonly<Record<string, Readonly<Record<string, unknown>>>>);
    readonly exports: Readonly<Record<string, unknown>>;
  }
  function compile(bytes: Uint8Array): Promise<Module>;
  function validate(bytes: Uint8Array): boolean;
}
