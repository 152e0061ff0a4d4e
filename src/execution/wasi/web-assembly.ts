/** The part of the WebAssembly interface that the sandbox uses beyond the engine's, because TypeScript declares it for browsers only. */
declare global {
  namespace WebAssembly {
    interface ModuleConstructor {
      imports(module: Module): readonly { readonly module: string; readonly name: string; readonly kind: string }[];
    }
    /** Compiles in other threads. */
    function compile(bytes: Uint8Array): Promise<Module>;
  }
}

/** CPython, compiled. */
export type PythonModule = WebAssembly.Module;
